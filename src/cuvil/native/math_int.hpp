// Integers that wrap and never trap, casts that are defined everywhere, 16-bit floats.
#pragma once
#include <stdint.h>

#include "math_base.hpp"

namespace cuvil {

template <class T>
struct IntLimits {
  static constexpr bool is_signed = T(-1) < T(0);
  static constexpr T max = is_signed ? T((uint64_t(1) << (8 * sizeof(T) - 1)) - 1) : T(-1);
  static constexpr T min = is_signed ? T(-max - 1) : T(0);
};

// Quotient towards zero. x / 0 is 0; the smallest integer over -1 is itself (it wraps).
template <class T>
CUVIL_INLINE T div_trunc(T a, T b) {
  const bool wraps = IntLimits<T>::is_signed && b == T(-1);
  const T safe = b == T(0) || wraps ? T(1) : b;
  const T q = T(a / safe);
  const T negated = T(T(0) - uint64_t(a));
  return b == T(0) ? T(0) : (wraps ? negated : q);
}
// C's remainder, the sign of a. x % 0 is 0.
template <class T>
CUVIL_INLINE T mod_trunc(T a, T b) {
  const bool wraps = IntLimits<T>::is_signed && b == T(-1);
  const T safe = b == T(0) || wraps ? T(1) : b;
  return b == T(0) || wraps ? T(0) : T(a % safe);
}
// Quotient towards minus infinity (NumPy's //).
template <class T>
CUVIL_INLINE T div_floor(T a, T b) {
  const T q = div_trunc(a, b), r = mod_trunc(a, b);
  return T(q - T(r != T(0) && (r < T(0)) != (b < T(0))));
}
// Remainder with the sign of b (NumPy's %).
template <class T>
CUVIL_INLINE T mod_floor(T a, T b) {
  const T r = mod_trunc(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? T(r + b) : r;
}

// Euclid's algorithm on the absolute values, which wrap: the smallest integer stays negative, and
// so may the result be then.
template <class T>
CUVIL_INLINE T gcd(T a, T b) {
  T x = a < T(0) ? T(uint64_t(0) - uint64_t(a)) : a;
  T y = b < T(0) ? T(uint64_t(0) - uint64_t(b)) : b;
  while (x != T(0)) {
    const T rest = mod_trunc(y, x);
    y = x;
    x = rest;
  }
  return y;
}

// base^exponent by squaring, wrapping. Negative exponents: 1 for 1, +-1 for -1, else 0.
template <class T>
CUVIL_INLINE T pow_int(T base, T exponent) {
  uint64_t b = uint64_t(base), result = 1;
  if (exponent < T(0)) {
    if (base == T(1)) return T(1);
    if (IntLimits<T>::is_signed && base == T(-1)) return (uint64_t(exponent) & 1) ? T(-1) : T(1);
    return T(0);
  }
  for (uint64_t e = uint64_t(exponent); e != 0; e >>= 1) {
    if (e & 1) result *= b;
    b *= b;
  }
  return T(result);
}

// Shifts: an amount outside [0, bits) gives 0, or the sign for an arithmetic shift right.
template <class T>
CUVIL_INLINE T shift_left(T a, T n) {
  const bool inside = uint64_t(n) < 8 * sizeof(T);
  return inside ? T(uint64_t(a) << (inside ? uint64_t(n) : 0)) : T(0);
}
template <class T>
CUVIL_INLINE T shift_right(T a, T n) {
  const bool inside = uint64_t(n) < 8 * sizeof(T);
  const T all = IntLimits<T>::is_signed ? T(a >> (8 * sizeof(T) - 1)) : T(0);
  return inside ? T(a >> (inside ? int(n) : 0)) : all;
}

// Float to integer towards zero: NaN is 0, what is out of range becomes the nearest end.
template <class To, class From>
CUVIL_INLINE To cast_saturate(From x) {
  constexpr bool is_signed = IntLimits<To>::is_signed;
  // 2^(value bits), exact in every float type.
  constexpr From limit = From(uint64_t(1) << (8 * sizeof(To) - (is_signed ? 2 : 1))) * From(2);
  constexpr From low = is_signed ? -limit : From(0);
  const bool inside = x > (is_signed ? low : From(-1)) && x < limit;
  const From safe = inside ? x : From(0);
  const To value = To(safe);
  const To edge = x >= limit ? IntLimits<To>::max : (x <= low ? IntLimits<To>::min : To(0));
  return inside ? value : edge;
}
// A float's integral part as an integer if it fits that, else 0.
template <class Int, class T>
CUVIL_INLINE Int integral_part(T x) {
  constexpr T limit = T(uint64_t(1) << (8 * sizeof(Int) - 2)) * T(2);
  return Int(abs(x) < limit ? x : T(0));
}
// The casts of the operator `cast`: i32 and i64 saturate; the narrower and u32 keep the low bits of
// what fits i32 (u32: i64) and give 0 for all else; u64 takes what i64 holds, or saturates.
template <class To, class From>
CUVIL_INLINE To cast_float(From x) {
  if constexpr (sizeof(To) < 4) {
    return To(integral_part<int32_t>(x));
  } else if constexpr (IntLimits<To>::is_signed) {
    return cast_saturate<To>(x);
  } else if constexpr (sizeof(To) == 4) {
    return To(integral_part<int64_t>(x));
  } else {
    return x < From(0) ? To(integral_part<int64_t>(x)) : cast_saturate<To>(x);
  }
}
// Integer to a narrower integer by wrapping is a plain cast; this one saturates.
template <class To, class From>
CUVIL_INLINE To clamp_cast(From x) {
  constexpr From lo = From(IntLimits<To>::min), hi = From(IntLimits<To>::max);
  return To(x < lo ? lo : (x > hi ? hi : x));
}

// bfloat16, stored as its bits. Rounds to nearest even; NaN stays a (quiet) NaN.
CUVIL_INLINE float bf16_to_f32(uint16_t h) { return from_bits(uint32_t(h) << 16); }
CUVIL_INLINE uint16_t f32_to_bf16(float x) {
  const uint32_t u = to_bits(x);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return uint16_t(x != x ? (u >> 16) | 0x40u : rounded);
}

// IEEE half, stored as its bits.
#if defined(__F16C__) || defined(__AVX512FP16__) || defined(__aarch64__)
CUVIL_INLINE float f16_to_f32(uint16_t h) { return float(__builtin_bit_cast(_Float16, h)); }
CUVIL_INLINE uint16_t f32_to_f16(float x) {
  // Else a double rounded to x and then here may be rounded once, to another neighbour.
#pragma clang fp contract(off)
  return __builtin_bit_cast(uint16_t, _Float16(x));
}
#else
CUVIL_INLINE float f16_to_f32(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000u) << 16, rest = h & 0x7fffu;
  // Exponents shift by 112; multiplying rescales denormals exactly; inf and NaN need 112 more.
  const float finite = from_bits(rest << 13) * 0x1p112f;
  const uint32_t special = (rest << 13) | 0x7f800000u;
  return from_bits((rest >= 0x7c00u ? special : to_bits(finite)) | sign);
}
CUVIL_INLINE uint16_t f32_to_f16(float x) {
  const uint32_t u = to_bits(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  // Normal results: round the 13 bits away, to nearest even. Denormal results: adding 0.5 puts the
  // last kept bit (2^-24) at the end of the float's mantissa, so the addition rounds.
  const uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - (112u << 23)) >> 13;
  const uint32_t denormal = to_bits(from_bits(a) + 0.5f) - to_bits(0.5f);
  uint32_t h = a < 0x38800000u ? denormal : normal;
  h = a >= 0x477ff000u ? 0x7c00u : h;
  h = a > 0x7f800000u ? 0x7e00u | ((a >> 13) & 0x3ffu) : h;
  return uint16_t(h | sign);
}
#endif

}  // namespace cuvil
