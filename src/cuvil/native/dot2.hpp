// The dot product of pairs of bf16. Internal to the core.
#pragma once
#include "vec.hpp"

namespace cuvil {

// Whether the machine has one, which takes denormal elements and sums as 0.
#if CUVIL_VEC_BYTES == 64 && defined(__AVX512BF16__)
#define CUVIL_PAIR_PRODUCTS 1
#else
#define CUVIL_PAIR_PRODUCTS 0
#endif

// The elements of pairs, widened: the earlier ones lie in the lower halves.
CUVIL_INLINE vf earlier(vi pairs) { return (vf)(pairs << 16); }
CUVIL_INLINE vf later(vi pairs) { return (vf)(pairs & splat(int32_t(0xffff0000u))); }

// acc + a[0] b[0] + a[1] b[1] in each lane.
CUVIL_INLINE vf dot2(vf acc, vi a, vi b) {
#if CUVIL_PAIR_PRODUCTS
  typedef __bf16 pairs __attribute__((vector_size(64)));
  return __builtin_ia32_dpbf16ps_512(acc, (pairs)a, (pairs)b);
#else
  acc += earlier(a) * earlier(b);
  return acc + later(a) * later(b);
#endif
}

}  // namespace cuvil
