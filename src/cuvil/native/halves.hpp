// Vectors of bf16, as halves of words: to and from vectors of f32. Where the machine has an
// instruction for it, denormals are rounded to 0, as which its products of pairs read them.
#pragma once
#include "vec.hpp"

namespace cuvil {

constexpr int HALF_BYTES = CUVIL_VEC_BYTES / 2;
typedef uint16_t halves __attribute__((vector_size(HALF_BYTES)));
typedef uint16_t halves_mem __attribute__((vector_size(HALF_BYTES), aligned(2), may_alias));
typedef uint32_t bits __attribute__((vector_size(CUVIL_VEC_BYTES)));

// To nearest, ties to even; NaN stays NaN.
CUVIL_INLINE halves rounded(vf x) {
#if CUVIL_VEC_BYTES == 64 && defined(__AVX512BF16__)
  typedef __bf16 out __attribute__((vector_size(32)));
  return (halves)__builtin_ia32_cvtneps2bf16_512_mask(x, out{}, -1);
#else
  const bits u = (bits)x, nearest = u + 0x7fff + (u >> 16 & 1);
  return __builtin_convertvector((x == x ? nearest : u | 0x400000) >> 16, halves);
#endif
}

// The first n of a vector of bf16, in one instruction or one call: tiles do it for each of their
// rows.
#if CUVIL_VEC_BYTES == 64 && __has_builtin(__builtin_masked_store)
typedef uint16_t halves_ext __attribute__((ext_vector_type(VL)));
CUVIL_INLINE halves load_some_halves(const uint16_t* p, int64_t n) {
  return (halves)__builtin_masked_load(lanes_below(n), p, halves_ext(uint16_t(0)));
}
CUVIL_INLINE void store_some_halves(uint16_t* p, halves h, int64_t n) {
  __builtin_masked_store(lanes_below(n), (halves_ext)h, p);
}
#else
__attribute__((noinline)) inline halves load_some_halves(const uint16_t* p, int64_t n) {
  halves h = {};
  for (int j = 0; j < VL; ++j)
    if (j < n) h[j] = p[j];
  return h;
}
__attribute__((noinline)) inline void store_some_halves(uint16_t* p, halves h, int64_t n) {
  for (int j = 0; j < VL; ++j)
    if (j < n) p[j] = h[j];
}
#endif

// The first n of a vector of bf16 at p, 0 <= n <= VL; the rest is 0, and is not stored.
CUVIL_INLINE halves load_halves(const uint16_t* p, int64_t n) {
  return n == VL ? *reinterpret_cast<const halves_mem*>(p) : load_some_halves(p, n);
}
CUVIL_INLINE void store_halves(uint16_t* p, halves h, int64_t n) {
  if (n == VL)
    *reinterpret_cast<halves_mem*>(p) = h;
  else
    store_some_halves(p, h, n);
}

// Two neighbouring vectors as bf16, in one store.
CUVIL_INLINE void store_both(uint16_t* p, vf first, vf second) {
#if CUVIL_VEC_BYTES == 64 && defined(__AVX512BF16__)
  typedef int32_t both __attribute__((vector_size(64), aligned(2), may_alias));
  *reinterpret_cast<both*>(p) = (vi)__builtin_ia32_cvtne2ps2bf16_512(second, first);
#else
  store_halves(p, rounded(first), VL);
  store_halves(p + VL, rounded(second), VL);
#endif
}

CUVIL_INLINE vf widened(halves h) { return (vf)(__builtin_convertvector(h, bits) << 16); }

// A row of an epilogue's tile (epilogue.hpp) as bf16.
CUVIL_INLINE void round_row(uint16_t* to, const float* row, int64_t n) {
  int64_t i = 0;
  for (; i + 2 * VL <= n; i += 2 * VL) store_both(to + i, load(row + i), load(row + i + VL));
  for (; i < n; i += VL) store_halves(to + i, rounded(load(row + i)), min64(n - i, VL));
}

}  // namespace cuvil
