// Products with one lane of a vector of left operands, which AArch64 has as one instruction: four
// steps of a row are loaded together and taken one by one. A step is a word: a float, a pair of
// bf16 or four bytes. With SVE the four words are repeated in every 128 bits. Internal to the core.
// Products of pairs or bytes that the machine hasn't are made in passes, one for each part of a
// word, so that no more than one part of each row is in a register.
//   PASSES
//   X left<P>(const void*)        part P of four words at any address
//   B right<P>(const word*)       part P of the panel's words, one a column
//   Sum add<U>(Sum, B, X)         sum plus b times word U of x
#pragma once
#include "vec.hpp"

#if defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#else
#include <arm_neon.h>
#endif

namespace cuvil {

#if defined(__ARM_FEATURE_SVE)

typedef svfloat32_t sv_f __attribute__((arm_sve_vector_bits(8 * CUVIL_VEC_BYTES)));
typedef svint32_t sv_i __attribute__((arm_sve_vector_bits(8 * CUVIL_VEC_BYTES)));
typedef svint8_t sv_b __attribute__((arm_sve_vector_bits(8 * CUVIL_VEC_BYTES)));

CUVIL_INLINE vf load_floats(const void* at) {
  return (sv_f)svld1rq_f32(svptrue_b32(), static_cast<const float*>(at));
}
CUVIL_INLINE vi load_words(const void* at) {
  return (sv_i)svld1rq_s32(svptrue_b32(), static_cast<const int32_t*>(at));
}
template <int U>
CUVIL_INLINE vf add_float(vf sum, vf b, vf x) {
  return (sv_f)svmla_lane_f32((sv_f)sum, (sv_f)b, (sv_f)x, U);
}

#else

CUVIL_INLINE vf load_floats(const void* at) {
  typedef float any __attribute__((vector_size(16), aligned(1), may_alias));
  return *static_cast<const any*>(at);
}
CUVIL_INLINE vi load_words(const void* at) {
  typedef int32_t any __attribute__((vector_size(16), aligned(1), may_alias));
  return *static_cast<const any*>(at);
}
template <int U>
CUVIL_INLINE vf add_float(vf sum, vf b, vf x) {
  return sum + b * splat(x[U]);
}

#endif

struct FloatLanes {
  static constexpr int PASSES = 1;
  template <int>
  CUVIL_INLINE vf left(const void* at) const { return load_floats(at); }
  template <int>
  CUVIL_INLINE vf right(const float* at) const { return load(at); }
  template <int U>
  CUVIL_INLINE vf add(vf sum, vf b, vf x) const { return add_float<U>(sum, b, x); }
};

struct PairLanes {
#if defined(__ARM_FEATURE_SVE_BF16) || \
    (defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC) && !defined(__ARM_FEATURE_SVE))
  static constexpr int PASSES = 1;
  template <int>
  CUVIL_INLINE vf left(const void* at) const { return load_floats(at); }
  template <int>
  CUVIL_INLINE vi right(const int32_t* at) const { return load(at); }
  template <int U>
  CUVIL_INLINE vf add(vf sum, vi b, vf x) const {
#if defined(__ARM_FEATURE_SVE)
    typedef svbfloat16_t sv_p __attribute__((arm_sve_vector_bits(8 * CUVIL_VEC_BYTES)));
    return (sv_f)svbfdot_lane_f32((sv_f)sum, (sv_p)b, (sv_p)x, U);
#else
    // What vbfdotq_laneq_f32 is for; clang copies the lane to a register first.
    __asm__("bfdot %0.4s, %1.8h, %2.2h[%c3]" : "+w"(sum) : "w"(b), "w"(x), "i"(U));
    return sum;
#endif
  }
#else
  static constexpr int PASSES = 2;
  template <int P>
  static CUVIL_INLINE vf half(vi words) {
    return (vf)(P ? words & int32_t(0xffff0000u) : words << 16);
  }
  template <int P>
  CUVIL_INLINE vf left(const void* at) const { return half<P>(load_words(at)); }
  template <int P>
  CUVIL_INLINE vf right(const int32_t* at) const { return half<P>(load(at)); }
  template <int U>
  CUVIL_INLINE vf add(vf sum, vf b, vf x) const { return add_float<U>(sum, b, x); }
#endif
};

// Signed bytes on both sides, those of the left operand after `flip`.
struct ByteLanes {
  uint32_t flip;

  CUVIL_INLINE vi flipped(const void* at) const {
    uint32_t x = flip;
    // Or a vector of it, made before the loop, would take a register from the sums.
    __asm__ volatile("" : "+r"(x));
    return load_words(at) ^ int32_t(x);
  }
#if defined(__ARM_FEATURE_SVE) || defined(__ARM_FEATURE_DOTPROD)
  static constexpr int PASSES = 1;
  template <int>
  CUVIL_INLINE vi left(const void* at) const { return flipped(at); }
  template <int>
  CUVIL_INLINE vi right(const int32_t* at) const { return load(at); }
  template <int U>
  CUVIL_INLINE vi add(vi sum, vi b, vi x) const {
#if defined(__ARM_FEATURE_SVE)
    return (sv_i)svdot_lane_s32((sv_i)sum, (sv_b)b, (sv_b)x, U);
#else
    return (vi)vdotq_laneq_s32((int32x4_t)sum, (int8x16_t)b, (int8x16_t)x, U);
#endif
  }
#else
  static constexpr int PASSES = 4;
  template <int P>
  CUVIL_INLINE vi left(const void* at) const { return (flipped(at) << (24 - 8 * P)) >> 24; }
  template <int P>
  CUVIL_INLINE vi right(const int32_t* at) const { return (load(at) << (24 - 8 * P)) >> 24; }
  template <int U>
  CUVIL_INLINE vi add(vi sum, vi b, vi x) const { return sum + b * splat(x[U]); }
#endif
};

// sum plus the four bytes of each lane of x times those of b, all signed.
template <int P = 0>
CUVIL_INLINE vi add_bytes(vi sum, vi x, vi b) {
  if constexpr (ByteLanes::PASSES == 1) return ByteLanes{0}.add<0>(sum, b, x);
  sum += ((x << (24 - 8 * P)) >> 24) * ((b << (24 - 8 * P)) >> 24);
  if constexpr (P < 3) return add_bytes<P + 1>(sum, x, b);
  return sum;
}

template <int P, int U, class Lanes, class Sum, class X, class Word, int R, int V>
CUVIL_INLINE void multiply_word(const Lanes& lanes, Sum (&acc)[R][V], const X (&x)[R],
                                const Word* b) {
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const auto bv = lanes.template right<P>(b + U * NR + v * VL);
#pragma unroll
    for (int i = 0; i < R; ++i) acc[i][v] = lanes.template add<U>(acc[i][v], bv, x[i]);
  }
}

// Four words of each row, which lie `bytes` into it, times four rows of the panel from b on.
template <int P = 0, class Lanes, class Sum, class Row, class Word, int R, int V>
CUVIL_INLINE void multiply_words(const Lanes& lanes, Sum (&acc)[R][V], const Row* const (&row)[R],
                                 int64_t bytes, const Word* b) {
  typedef decltype(lanes.template left<P>(nullptr)) X;
  X x[R];
#pragma unroll
  for (int i = 0; i < R; ++i)
    x[i] = lanes.template left<P>(reinterpret_cast<const char*>(row[i]) + bytes);
  multiply_word<P, 0>(lanes, acc, x, b);
  multiply_word<P, 1>(lanes, acc, x, b);
  multiply_word<P, 2>(lanes, acc, x, b);
  multiply_word<P, 3>(lanes, acc, x, b);
  if constexpr (P + 1 < Lanes::PASSES) multiply_words<P + 1>(lanes, acc, row, bytes, b);
}

}  // namespace cuvil
