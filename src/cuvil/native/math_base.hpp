// Bit-level traits of float and double, rounding, sign tools, minima and maxima.
#pragma once
#include <stdint.h>

// A call left in a loop keeps the loop scalar, so nothing here is left to the inliner's judgement.
#define CUVIL_INLINE inline __attribute__((always_inline))

namespace cuvil {

template <class T>
struct FloatBits;

template <>
struct FloatBits<float> {
  using Int = int32_t;
  using UInt = uint32_t;
  static constexpr int mantissa = 23;
  static constexpr Int bias = 127;
  static constexpr float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  static constexpr UInt sign_mask = 0x80000000u;
  static constexpr float min_normal = 0x1p-126f;
};

template <>
struct FloatBits<double> {
  using Int = int64_t;
  using UInt = uint64_t;
  static constexpr int mantissa = 52;
  static constexpr Int bias = 1023;
  static constexpr double magic = 6755399441055744.0;  // 1.5 * 2^52
  static constexpr UInt sign_mask = 0x8000000000000000ull;
  static constexpr double min_normal = 0x1p-1022;
};

template <class T>
using IntOf = typename FloatBits<T>::Int;
template <class T>
using UIntOf = typename FloatBits<T>::UInt;

CUVIL_INLINE uint32_t to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
CUVIL_INLINE uint64_t to_bits(double x) { return __builtin_bit_cast(uint64_t, x); }
template <class U>  // 4 bytes make a float, 8 a double
CUVIL_INLINE auto from_bits(U u) {
  if constexpr (sizeof(U) == 4) {
    return __builtin_bit_cast(float, u);
  } else {
    return __builtin_bit_cast(double, u);
  }
}

template <class T>
constexpr T kInf = T(__builtin_inf());
template <class T>
constexpr T kNaN = T(__builtin_nan(""));

CUVIL_INLINE float abs(float x) { return __builtin_fabsf(x); }
CUVIL_INLINE double abs(double x) { return __builtin_fabs(x); }
// Wraps: abs(INT_MIN) is INT_MIN, as in NumPy.
CUVIL_INLINE int8_t abs(int8_t x) { return int8_t(x < 0 ? -x : x); }
CUVIL_INLINE int16_t abs(int16_t x) { return int16_t(x < 0 ? -x : x); }
CUVIL_INLINE int32_t abs(int32_t x) { return x < 0 ? int32_t(0u - uint32_t(x)) : x; }
CUVIL_INLINE int64_t abs(int64_t x) { return x < 0 ? int64_t(0ull - uint64_t(x)) : x; }

CUVIL_INLINE float copysign(float x, float s) { return __builtin_copysignf(x, s); }
CUVIL_INLINE double copysign(double x, double s) { return __builtin_copysign(x, s); }
template <class T>
CUVIL_INLINE bool signbit(T x) {
  return (to_bits(x) & FloatBits<T>::sign_mask) != 0;
}
template <class T>
CUVIL_INLINE bool isnan(T x) {
  return x != x;
}
template <class T>
CUVIL_INLINE bool isinf(T x) {
  return abs(x) == kInf<T>;
}
template <class T>
CUVIL_INLINE bool isfinite(T x) {
  return abs(x) < kInf<T>;
}

// -1, 0 or 1; keeps NaN and the sign of zero.
template <class T>
CUVIL_INLINE T sign(T x) {
  return x > T(0) ? T(1) : (x < T(0) ? T(-1) : x);
}

// c0 + c1 x + c2 x^2 + ... by Horner's rule.
template <class T>
CUVIL_INLINE constexpr T horner(T, T c0) {
  return c0;
}
template <class T, class... C>
CUVIL_INLINE constexpr T horner(T x, T c0, C... rest) {
  return c0 + x * horner(x, T(rest)...);
}

// Exact. Baseline x86-64 has no rounding instruction (and the builtin would call libm), so there
// values below 2^mantissa are rounded by adding and taking away a large number.
#if defined(__x86_64__) && !defined(__SSE4_1__)
template <class T>
CUVIL_INLINE T round_even_by_addition(T x) {
  const T big = sizeof(T) == 4 ? T(0x1p23) : T(0x1p52);
  const T a = abs(x);
  const T r = (a + big) - big;
  return copysign(a < big ? r : x, x);  // NaN fails the comparison and stays itself
}
template <class T>
CUVIL_INLINE T floor_by_addition(T x) {
  const T r = round_even_by_addition(x);
  return copysign(r > x ? r - T(1) : r, x);
}
CUVIL_INLINE float round_even(float x) { return round_even_by_addition(x); }
CUVIL_INLINE double round_even(double x) { return round_even_by_addition(x); }
CUVIL_INLINE float floor(float x) { return floor_by_addition(x); }
CUVIL_INLINE double floor(double x) { return floor_by_addition(x); }
CUVIL_INLINE float ceil(float x) { return -floor_by_addition(-x); }
CUVIL_INLINE double ceil(double x) { return -floor_by_addition(-x); }
CUVIL_INLINE float trunc(float x) { return copysign(floor_by_addition(abs(x)), x); }
CUVIL_INLINE double trunc(double x) { return copysign(floor_by_addition(abs(x)), x); }
#else
CUVIL_INLINE float round_even(float x) { return __builtin_roundevenf(x); }
CUVIL_INLINE double round_even(double x) { return __builtin_roundeven(x); }
CUVIL_INLINE float floor(float x) { return __builtin_floorf(x); }
CUVIL_INLINE double floor(double x) { return __builtin_floor(x); }
CUVIL_INLINE float ceil(float x) { return __builtin_ceilf(x); }
CUVIL_INLINE double ceil(double x) { return __builtin_ceil(x); }
CUVIL_INLINE float trunc(float x) { return __builtin_truncf(x); }
CUVIL_INLINE double trunc(double x) { return __builtin_trunc(x); }
#endif

// Halves away from zero (C's round).
template <class T>
CUVIL_INLINE T round_away(T x) {
  const T t = trunc(x);
  return copysign(abs(x - t) >= T(0.5) ? t + copysign(T(1), x) : t, x);
}

CUVIL_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
CUVIL_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
CUVIL_INLINE float rsqrt(float x) { return 1.0f / sqrt(x); }   // 2 ULP
CUVIL_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }  // 2 ULP

// NumPy's maximum and minimum: NaN from either side wins. Beside a constant that is a number one
// comparison decides, which x86 has with the choice in one instruction.
template <class T>
CUVIL_INLINE T max_nan(T a, T b) {
  if (__builtin_constant_p(b == b) && b == b) return a < b ? b : a;
  const T m = a > b ? a : b;
  return a != a ? a : m;
}
template <class T>
CUVIL_INLINE T min_nan(T a, T b) {
  if (__builtin_constant_p(b == b) && b == b) return a > b ? b : a;
  const T m = a < b ? a : b;
  return a != a ? a : m;
}
// NaN stays NaN; when lo > hi the result is hi (NumPy, torch).
template <class T>
CUVIL_INLINE T clamp_nan(T x, T lo, T hi) {
  return min_nan(max_nan(x, lo), hi);
}
template <class T>
CUVIL_INLINE T relu(T x) {
  return x < T(0) ? T(0) : x;
}

// 2^n for an n in the normal exponent range.
template <class T>
CUVIL_INLINE T pow2_int(IntOf<T> n) {
  return from_bits(UIntOf<T>(n + FloatBits<T>::bias) << FloatBits<T>::mantissa);
}

// x * 2^n with one rounding, for |n| below twice the exponent range. The shift is a logical one of
// a non-negative number because AVX2 has no arithmetic shift of 64-bit lanes.
template <class T>
CUVIL_INLINE T scale_pow2(T x, IntOf<T> n) {
  constexpr IntOf<T> offset = 4 * (FloatBits<T>::bias + 1);
  const IntOf<T> half = IntOf<T>(UIntOf<T>(n + offset) >> 1) - offset / 2;
  return (x * pow2_int<T>(half)) * pow2_int<T>(n - half);
}

// Remainder with the sign of x, exact; not vectorised. fmod(x, 0) and fmod(inf, y) are NaN.
template <class T>
CUVIL_INLINE T fmod(T x, T y) {
  constexpr int mantissa = FloatBits<T>::mantissa;
  using U = UIntOf<T>;
  const U ux = to_bits(abs(x)), uy = to_bits(abs(y)), inf = to_bits(kInf<T>);
  if (uy == 0 || ux >= inf || uy > inf) return (x * y) / (x * y);
  if (ux < uy) return x;
  const U hidden = U(1) << mantissa;
  IntOf<T> ex = IntOf<T>(ux >> mantissa), ey = IntOf<T>(uy >> mantissa);
  U mx = ex ? (ux & (hidden - 1)) | hidden : ux, my = ey ? (uy & (hidden - 1)) | hidden : uy;
  ex += ex == 0, ey += ey == 0;
  // mx < 2^(mantissa+1), so several bits of the quotient fit one integer division.
  constexpr int room = 8 * int(sizeof(T)) - mantissa - 1;
  mx %= my;
  for (IntOf<T> left = ex - ey; left > 0 && mx != 0;) {
    const int step = left < room ? int(left) : room;
    mx = (mx << step) % my;
    left -= step;
  }
  // mx < 2^(mantissa+1) is exact as a T; ey is the exponent of its last bit.
  const T r = scale_pow2(T(mx), ey - FloatBits<T>::bias - mantissa);
  return copysign(r, x);
}

// Remainder with the sign of y (Python's and NumPy's %): remainder(x, 0) is NaN, inf divisors work.
template <class T>
CUVIL_INLINE T floor_mod(T x, T y) {
  const T r = fmod(x, y);
  const T adjusted = (r != T(0) && (r < T(0)) != (y < T(0))) ? r + y : r;
  return r == T(0) ? copysign(T(0), y) : adjusted;
}

}  // namespace cuvil
