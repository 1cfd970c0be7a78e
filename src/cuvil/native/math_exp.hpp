// Exponentials, logarithms and powers. The polynomials are minimax fits (Remez) on the reduced
// ranges; reductions follow W. J. Cody and W. Waite, "Software Manual for the Elementary
// Functions", 1980.
#pragma once
#include "math_base.hpp"

namespace cuvil {

// exp(r) = 1 + r + r^2 q(r), |r| <= ln(2)/2.
CUVIL_INLINE float exp_tail(float r) {
  return horner(r, 0.5f, 1.6666666e-01f, 4.1666295e-02f, 8.333498e-03f, 1.3944659e-03f,
                1.9790052e-04f);
}
CUVIL_INLINE double exp_tail(double r) {
  return horner(r, 0.5, 0.16666666666666682, 0.041666666666666095, 0.008333333333317034,
                0.0013888888889115217, 0.00019841269896386871, 2.480158692720201e-05,
                2.755723485852435e-06, 2.7557581453031996e-07, 2.5112038127800016e-08,
                2.0826735994543273e-09);
}

template <class T>
struct ExpParts {
  T n_float;   // the power of two
  IntOf<T> n;  // the same as an integer
  T r;         // what is left, |r| <= ln(2)/2
};

// x + lo = n ln2 + r. ln2 is split so that n times its upper part is exact.
template <class T>
CUVIL_INLINE ExpParts<T> exp_reduce(T x, T lo) {
  constexpr bool single = sizeof(T) == 4;
  constexpr T ln2_hi = single ? T(0.693145751953125) : T(0x1.62e42fee00000p-1);
  constexpr T ln2_lo = single ? T(1.4286068e-06f) : T(0x1.a39ef35793c76p-33);
  const T t = x * T(1.4426950408889634) + FloatBits<T>::magic;
  const T n = t - FloatBits<T>::magic;
  const IntOf<T> ni = IntOf<T>(to_bits(t) - to_bits(FloatBits<T>::magic));
  return {n, ni, ((x - n * ln2_hi) - n * ln2_lo) + lo};
}

// exp(x + lo) * 2^k for |lo| << 1; the range of x is cut where the result is 0 or inf for |k| <= 1.
template <class T>
CUVIL_INLINE T exp_scaled(T x, T lo, IntOf<T> k) {
  constexpr T top = sizeof(T) == 4 ? T(90) : T(711), bottom = sizeof(T) == 4 ? T(-105) : T(-747);
  x = x > top ? top : x;
  x = x < bottom ? bottom : x;
  const ExpParts<T> e = exp_reduce(x, lo);
  const T p = T(1) + (e.r + e.r * e.r * exp_tail(e.r));
  return scale_pow2(p, e.n + k);
}

// float and double: 1 ULP, denormal results too.
CUVIL_INLINE float exp(float x) { return exp_scaled(x, 0.0f, 0); }
CUVIL_INLINE double exp(double x) { return exp_scaled(x, 0.0, 0); }

// exp for arguments known to be <= 0 (softmax): results below the smallest normal become 0.
CUVIL_INLINE float exp_nonpositive(float x) {
  const float cut = x < -87.0f ? -87.0f : x;
  const ExpParts<float> e = exp_reduce(cut, 0.0f);
  const float p = 1.0f + (e.r + e.r * e.r * exp_tail(e.r));
  const float y = from_bits(to_bits(p) + (uint32_t(e.n) << 23));
  return x < -87.0f ? 0.0f : (x != x ? x : y);
}

// exp for x <= 0, with what `with_rest` adds to the rest r: 1 ULP, denormal results too, but
// anything for NaN. The result is made 2^64 times as large, where it is normal, and brought down
// by one product; the 64 comes with the number that rounds.
template <class Rest>
CUVIL_INLINE float exp_of_negative(float x, const Rest& with_rest) {
  constexpr float magic = FloatBits<float>::magic + 64.0f;
  const float cut = x < -105.0f ? -105.0f : x;
  const float t = cut * 1.4426950408889634f + magic, n = t - magic;
  const float r = with_rest((cut - n * 0.693145751953125f) - n * 1.4286068e-06f);
  const float p = 1.0f + (r + r * r * exp_tail(r));
  return from_bits(to_bits(p) + (to_bits(t) << 23)) * 0x1p-64f;
}
CUVIL_INLINE float exp_of_negative(float x) {
  return exp_of_negative(x, [](float r) { return r; });
}
CUVIL_INLINE float exp_of_negative(float x, float lo) {  // exp(x + lo), |lo| << 1
  return exp_of_negative(x, [lo](float r) { return r + lo; });
}
CUVIL_INLINE double exp_of_negative(double x) { return exp_scaled(x, 0.0, 0); }
CUVIL_INLINE double exp_of_negative(double x, double lo) { return exp_scaled(x, lo, 0); }

// exp(x + lo) 2^64, which is normal, for -105 <= x <= 0 and |lo| << 1: 2 ULP. For products whose
// other factor takes the 2^64 away again.
CUVIL_INLINE float exp_lifted(float x, float lo) {
  constexpr float magic = FloatBits<float>::magic + 64.0f;
  const float t = x * 1.4426950408889634f + magic, n = t - magic;
  const float r = ((x - n * 0.693145751953125f) - n * 1.4286068e-06f) + lo;
  const float p = horner(r, 1.0f, 1.0f, 4.9999994e-01f, 1.6666523e-01f, 4.1668292e-02f,
                         8.368535e-03f, 1.3818376e-03f);
  return from_bits(to_bits(p) + (to_bits(t) << 23));
}

// 2^r = 1 + r q(r), |r| <= 1/2.
CUVIL_INLINE float exp2_tail(float r) {
  return horner(r, 6.931472e-01f, 2.402265e-01f, 5.550411e-02f, 9.618036e-03f, 1.3333431e-03f,
                1.5467136e-04f, 1.5314978e-05f);
}
CUVIL_INLINE double exp2_tail(double r) {
  return horner(r, 0.6931471805599453, 0.24022650695910072, 0.0555041086648217,
                0.009618129107628494, 0.0013333558146390416, 0.000154035303933415,
                1.5252733856258948e-05, 1.321548683275398e-06, 1.0178051199728726e-07,
                7.054888354666257e-09, 4.4566752013017175e-10, 2.5741676452988332e-11);
}

// 2^(x + lo).
template <class T>
CUVIL_INLINE T exp2_sum(T x, T lo) {
  constexpr T top = sizeof(T) == 4 ? T(129) : T(1025);
  constexpr T bottom = sizeof(T) == 4 ? T(-151) : T(-1076);
  x = x > top ? top : x;
  x = x < bottom ? bottom : x;
  const T t = x + FloatBits<T>::magic;
  const T r = (x - (t - FloatBits<T>::magic)) + lo;
  const IntOf<T> n = IntOf<T>(to_bits(t) - to_bits(FloatBits<T>::magic));
  return scale_pow2(T(1) + r * exp2_tail(r), n);
}
CUVIL_INLINE float exp2(float x) { return exp2_sum(x, 0.0f); }   // 1 ULP
CUVIL_INLINE double exp2(double x) { return exp2_sum(x, 0.0); }  // 1 ULP

// exp(x) - 1. 2 ULP.
template <class T>
CUVIL_INLINE T expm1(T x) {
  constexpr T top = sizeof(T) == 4 ? T(89) : T(709.9);
  constexpr T bottom = sizeof(T) == 4 ? T(-20) : T(-40);
  T c = x > top ? top : x;
  c = c < bottom ? bottom : c;
  const ExpParts<T> e = exp_reduce(c, T(0));
  const T q = e.r + e.r * e.r * exp_tail(e.r);
  const T half = pow2_int<T>(e.n - 1);  // half of 2^n, which itself may be infinite
  const T y = T(2) * (half * q + (half - T(0.5)));
  // For n == 0 this is q itself; zeros keep their sign.
  return x == T(0) ? x : y;
}

template <class T>
struct LogParts {
  T e;  // exponent
  T f;  // x = 2^e (1 + f), 1 + f in [2/3, 4/3)
};

// x must be positive and finite; denormals are scaled first.
CUVIL_INLINE LogParts<float> log_reduce(float x) {
  const bool tiny = x < FloatBits<float>::min_normal;
  const uint32_t u = to_bits(tiny ? x * 0x1p23f : x) + (0x3f800000u - 0x3f2aaaabu);
  const float e = float(int32_t(u >> 23) - (tiny ? 150 : 127));
  return {e, from_bits((u & 0x7fffffu) + 0x3f2aaaabu) - 1.0f};
}
CUVIL_INLINE LogParts<double> log_reduce(double x) {
  constexpr uint64_t two_thirds = 0x3fe5555555555555ull, one = 0x3ff0000000000000ull;
  const bool tiny = x < FloatBits<double>::min_normal;
  const uint64_t u = to_bits(tiny ? x * 0x1p52 : x) + (one - two_thirds);
  // The exponent becomes a double by way of the mantissa of 2^52: no 64-bit conversion is needed.
  const double e = from_bits((u >> 52) | 0x4330000000000000ull) -
                   (tiny ? 0x1p52 + 1075.0 : 0x1p52 + 1023.0);
  return {e, from_bits((u & 0xfffffffffffffull) + two_thirds) - 1.0};
}

// log(1 + f) = f - log1p_gap(f).
CUVIL_INLINE float log1p_gap(float f) {
  const float q = horner(f, 3.3333334e-01f, -2.499982e-01f, 1.9999598e-01f, -1.6679576e-01f,
                         1.4304449e-01f, -1.2195824e-01f, 1.07543185e-01f, -1.2844843e-01f,
                         1.2006836e-01f);
  return f * f * (0.5f - f * q);
}
// s (f - R(s^2)) with s = f / (2 + f), see K. C. Ng's log in FDLIBM.
CUVIL_INLINE double log1p_gap(double f) {
  const double s = f / (2.0 + f), z = s * s;
  const double r = z * horner(z, 0.6666666666666666, 0.40000000000007846, 0.2857142856732154,
                              0.22222223040501796, 0.18181738258969316, 0.15388841974136694,
                              0.13210225690623045, 0.13604993632876033);
  const double half_square = 0.5 * f * f;
  return half_square - s * (half_square + r);
}

// What a logarithm gives where x is not positive and finite, and `value` elsewhere.
template <class T>
CUVIL_INLINE T log_special(T x, T value) {
  value = x == kInf<T> ? x : value;
  value = x == T(0) ? -kInf<T> : value;
  return x < T(0) || x != x ? kNaN<T> : value;
}

// log(x) + correction. ln2 is split so that e * hi is exact.
template <class T>
CUVIL_INLINE T log_sum(T x, T correction) {
  constexpr T hi = sizeof(T) == 4 ? T(0.693115234375) : T(0x1.62e42fefa2000p-1);
  constexpr T lo = sizeof(T) == 4 ? T(3.1946183e-05f) : T(0x1.9ef35793c7673p-41);
  const LogParts<T> p = log_reduce(x);
  return p.e * hi + (p.f - (log1p_gap(p.f) - (p.e * lo + correction)));
}

template <class T>
CUVIL_INLINE T log(T x) {  // 1 ULP
  return log_special(x, log_sum(x, T(0)));
}

// Logarithm to a base: (e, f) -> e * scale + log(1 + f) * factor, both constants in two parts.
template <class T>
CUVIL_INLINE T log_base(T x, T e_hi, T e_lo, T factor_hi, T factor_lo) {
  const LogParts<T> p = log_reduce(x);
  constexpr UIntOf<T> keep = ~((UIntOf<T>(1) << (sizeof(T) == 4 ? 12 : 27)) - 1);
  const T gap = log1p_gap(p.f), value = p.f - gap;
  const T head = from_bits(to_bits(value) & keep);
  const T tail = (p.f - head) - gap;
  const T small = value * factor_lo + tail * factor_hi + p.e * e_lo;
  // The two products are exact; the larger one leads (e is 0 or dominates).
  const T a = p.e * e_hi, b = head * factor_hi, sum = a + b;
  return log_special(x, sum + ((b - (sum - a)) + small));
}
CUVIL_INLINE float log2(float x) {  // 1 ULP; exact at powers of two
  return log_base(x, 1.0f, 0.0f, 0x1.714p+0f, 0.0003122284f);
}
CUVIL_INLINE double log2(double x) {  // 1 ULP
  return log_base(x, 1.0, 0.0, 0x1.7154760000000p+0, 0x1.4ae0bf85ddf44p-26);
}
CUVIL_INLINE float log10(float x) {  // 1 ULP
  return log_base(x, 0x1.344p-2f, 4.605039e-06f, 0x1.bcap-2f, 9.038034e-05f);
}
CUVIL_INLINE double log10(double x) {  // 1 ULP
  return log_base(x, 0x1.34413509f6000p-2, 0x1.9fef311f12b36p-42, 0x1.bcb7b10000000p-2,
                  0x1.49b9438ca9aaep-28);
}

// log(1 + x): the rounding error of 1 + x, divided by it, is added back. 1 ULP.
template <class T>
CUVIL_INLINE T log1p(T x) {
  const T u = T(1) + x;
  const T lost = x > T(1) ? T(1) - (u - x) : x - (u - T(1));
  const T safe = u > T(0) && u < kInf<T> ? u : T(1);
  const T y = log_special(u, log_sum(safe, lost / safe));
  return u == T(1) ? x : y;  // tiny x and both zeros
}

// log2|x| as a double, relative error below 2^-38: enough to round x^y to float.
CUVIL_INLINE double log2_for_pow(float x) {
  const LogParts<double> p = log_reduce(double(x));
  const double s = p.f / (2.0 + p.f), z = s * s;
  const double r = horner(z, 0.6666666666663679, 0.4000000005366001, 0.28571412981083627,
                          0.2222387474053364, 0.18103006316933354, 0.17097577057507302);
  return p.e + (2.0 * s + s * z * r) * 1.4426950408889634;
}

// C99's table for pow around `magnitude` = |x|^y.
template <class T>
CUVIL_INLINE T pow_special(T x, T y, T magnitude) {
  const T half = y * T(0.5);
  const bool integral = trunc(y) == y, odd = integral && trunc(half) != half;
  const T ax = abs(x), ay = abs(y);
  T v = magnitude;
  const bool grows = (y > T(0)) == (ax > T(1));
  v = ay == kInf<T> ? (ax == T(1) ? T(1) : (grows ? kInf<T> : T(0))) : v;
  v = ax == T(0) || ax == kInf<T> ? ((y > T(0)) == (ax == T(0)) ? T(0) : kInf<T>) : v;
  v = x < T(0) && ax < kInf<T> && ay < kInf<T> && !integral ? kNaN<T> : v;
  v = signbit(x) && odd ? -v : v;
  v = x != x || y != y ? kNaN<T> : v;
  return y == T(0) || x == T(1) ? T(1) : v;
}

CUVIL_INLINE float pow(float x, float y) {  // 1 ULP
  double p = double(y) * log2_for_pow(abs(x));
  p = p > 200.0 ? 200.0 : p;
  p = p < -200.0 ? -200.0 : p;
  const double t = p + FloatBits<double>::magic, r = p - (t - FloatBits<double>::magic);
  const double q = horner(r, 0.6931471805416296, 0.24022651076298562, 0.055504109626965566,
                          0.009618036838494255, 0.0013333430668172636, 0.0001546713540623996,
                          1.5314976746009163e-05);
  const int64_t n = int64_t(to_bits(t) - to_bits(FloatBits<double>::magic));
  return pow_special(x, y, float((1.0 + r * q) * pow2_int<double>(n)));
}

// Product of doubles as an unevaluated sum, by Dekker's splitting (no FMA is assumed).
struct DoublePair {
  double hi, lo;
};
CUVIL_INLINE double upper_half(double x) { return from_bits(to_bits(x) & 0xfffffffff8000000ull); }
CUVIL_INLINE DoublePair multiply_exact(double a, double b) {
#pragma clang fp contract(off)
  const double ah = upper_half(a), al = a - ah, bh = upper_half(b), bl = b - bh;
  const double p = a * b;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

// log2 of a positive finite x in two parts, relative error about 2^-65.
CUVIL_INLINE DoublePair log2_pair(double x) {
#pragma clang fp contract(off)
  const LogParts<double> p = log_reduce(x);
  // s = f / (2 + f) = s_hi + s_lo.
  const double d = 2.0 + p.f, d_lost = p.f - (d - 2.0);
  const double s_hi = p.f / d;
  const DoublePair back = multiply_exact(s_hi, d);
  const double s_lo = (((p.f - back.hi) - back.lo) - s_hi * d_lost) / d;
  const double z = s_hi * s_hi;
  const double r = s_hi * z * horner(z, 0.6666666666666666, 0.40000000000007846,
                                     0.2857142856732154, 0.22222223040501796,
                                     0.18181738258969316, 0.15388841974136694,
                                     0.13210225690623045, 0.13604993632876033);
  // ln(1 + f) = 2 s + r; then times log2(e) = 1.4426950408889634 + 2.0355273740931033e-17.
  const double two_s = 2.0 * s_hi, ln = two_s + r;
  const double ln_lo = (r - (ln - two_s)) + 2.0 * s_lo;
  const DoublePair prod = multiply_exact(ln, 0x1.71547652b82fep+0);
  const double tail = prod.lo + ln_lo * 0x1.71547652b82fep+0 + ln * 0x1.777d0ffda0d24p-56;
  const double hi = p.e + prod.hi;
  const double lo = (prod.hi - (hi - p.e)) + tail;
  const double sum = hi + lo;
  return {sum, lo - (sum - hi)};
}

CUVIL_INLINE double pow(double x, double y) {  // 4 ULP
#pragma clang fp contract(off)
  const double ax = abs(x);
  const bool ordinary = ax > 0.0 && ax < kInf<double>;
  const DoublePair l = log2_pair(ordinary ? ax : 1.0);
  double limited = y > 0x1p70 ? 0x1p70 : y;  // keeps the splitting finite; log2 is >= 2^-53 or 0
  limited = limited < -0x1p70 ? -0x1p70 : limited;
  const DoublePair prod = multiply_exact(limited, l.hi);
  const double lo = prod.lo + limited * l.lo;
  const bool inside = abs(prod.hi) < 1100.0;
  const double bound = prod.hi > 0.0 ? 1100.0 : -1100.0;
  return pow_special(x, y, exp2_sum(inside ? prod.hi : bound, inside ? lo : 0.0));
}

}  // namespace cuvil
