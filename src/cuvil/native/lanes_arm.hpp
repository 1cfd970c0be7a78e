// Products with one lane of a vector of left operands, which AArch64 has as one instruction: four
// steps of a row are loaded together and taken one by one. Words are floats, pairs of bf16 or four
// bytes. With SVE the four words are repeated in every 128 bits. Internal to the core.
//   Words load_words(const void*)                   four words at any address
//   add_float<U>, add_pair<U>, add_bytes<U>(sum, b, x)   sum + b times word U of x
// add_bytes takes signed bytes on both sides.
#pragma once
#include "vec.hpp"

#if defined(__ARM_FEATURE_SVE)
#include <arm_sve.h>
#else
#include <arm_neon.h>
#endif

namespace cuvil {

// The halves of words as floats; and byte J, counted from the lowest, with its sign.
CUVIL_INLINE vf low_half(vi words) { return (vf)(words << 16); }
CUVIL_INLINE vf high_half(vi words) { return (vf)(words & int32_t(0xffff0000u)); }
template <int J>
CUVIL_INLINE vi byte_of(vi words) {
  return (words << (24 - 8 * J)) >> 24;
}

#if defined(__ARM_FEATURE_SVE)

typedef svfloat32_t sv_f __attribute__((arm_sve_vector_bits(8 * CUVIL_VEC_BYTES)));
typedef svint32_t sv_i __attribute__((arm_sve_vector_bits(8 * CUVIL_VEC_BYTES)));
typedef svint8_t sv_b __attribute__((arm_sve_vector_bits(8 * CUVIL_VEC_BYTES)));

CUVIL_INLINE vi load_words(const void* at) {
  return (sv_i)svld1rq_s32(svptrue_b32(), static_cast<const int32_t*>(at));
}
template <int U>
CUVIL_INLINE vf add_float(vf sum, vf b, vf x) {
  return (sv_f)svmla_lane_f32((sv_f)sum, (sv_f)b, (sv_f)x, U);
}
#if defined(__ARM_FEATURE_SVE_BF16)
typedef svbfloat16_t sv_p __attribute__((arm_sve_vector_bits(8 * CUVIL_VEC_BYTES)));
template <int U>
CUVIL_INLINE vf add_pair(vf sum, vi b, vi x) {
  return (sv_f)svbfdot_lane_f32((sv_f)sum, (sv_p)b, (sv_p)x, U);
}
#endif
template <int U>
CUVIL_INLINE vi add_bytes(vi sum, vi b, vi x) {
  return (sv_i)svdot_lane_s32((sv_i)sum, (sv_b)b, (sv_b)x, U);
}

#else

CUVIL_INLINE vi load_words(const void* at) {
  typedef int32_t any __attribute__((vector_size(16), aligned(1), may_alias));
  return *static_cast<const any*>(at);
}
template <int U>
CUVIL_INLINE vf add_float(vf sum, vf b, vf x) {
  return sum + b * splat(x[U]);
}
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
template <int U>
CUVIL_INLINE vf add_pair(vf sum, vi b, vi x) {
  return (vf)vbfdotq_laneq_f32((float32x4_t)sum, (bfloat16x8_t)b, (bfloat16x8_t)x, U);
}
#endif
template <int U>
CUVIL_INLINE vi add_bytes(vi sum, vi b, vi x) {
#if defined(__ARM_FEATURE_DOTPROD)
  return (vi)vdotq_laneq_s32((int32x4_t)sum, (int8x16_t)b, (int8x16_t)x, U);
#else
  sum += byte_of<0>(b) * splat(byte_of<0>(x)[U]);
  sum += byte_of<1>(b) * splat(byte_of<1>(x)[U]);
  sum += byte_of<2>(b) * splat(byte_of<2>(x)[U]);
  return sum + byte_of<3>(b) * splat(byte_of<3>(x)[U]);
#endif
}

#endif

#if !defined(__ARM_FEATURE_SVE_BF16) && !defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
template <int U>
CUVIL_INLINE vf add_pair(vf sum, vi b, vi x) {
  sum = add_float<U>(sum, low_half(b), low_half(x));
  return add_float<U>(sum, high_half(b), high_half(x));
}
#elif defined(__ARM_FEATURE_SVE) && !defined(__ARM_FEATURE_SVE_BF16)
#error "SVE without its products of bf16 goes without those of NEON too"
#endif

}  // namespace cuvil
