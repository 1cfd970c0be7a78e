// Trigonometric and hyperbolic functions and their inverses.
#pragma once
#include "math_base.hpp"
#include "math_exp.hpp"
#include "math_trig_table.hpp"

namespace cuvil {

// pi/2 in four parts of 26, 26, 26 and 53 bits: k times each of the first three is exact for
// |k| < 2^27 (Cody and Waite).
inline constexpr double kHalfPi1 = 0x1.921fb50000000p+0, kHalfPi2 = 0x1.110b460000000p-26,
                        kHalfPi3 = 0x1.1a62630000000p-54, kHalfPi4 = 0x1.8a2e03707344ap-81;
inline constexpr double kTwoOverPi = 0.6366197723675814;

// sin and cos on [-pi/4, pi/4] in double, accurate enough to be rounded to float.
CUVIL_INLINE double sin_near_zero(double r, double z) {
  return r + r * z * horner(z, -0.16666666641425296, 0.00833332936213607, -0.00019839327092797542,
                            2.7182368909225026e-06);
}
CUVIL_INLINE double cos_near_zero(double z) {
  return (1.0 - 0.5 * z) +
         z * z * horner(z, 0.041666646755118095, -0.0013887361798680822, 2.4437766588106192e-05);
}

struct ReducedAngle {
  double r;    // x = quadrant * pi/2 + r, |r| <= pi/4
  uint64_t q;  // only its two lowest bits mean something
};

// Every finite float: from 2^23 on, x = m 2^e is replaced by m (2^e mod 2 pi), which is below 2^26.
CUVIL_INLINE ReducedAngle reduce_angle(float x) {
  const uint32_t u = to_bits(x) & 0x7fffffffu;
  const int32_t e = int32_t(u >> 23) - 150;
  const int32_t index = e < 0 ? 0 : (e > 104 ? 104 : e);
  const double m = double(int32_t((u & 0x7fffffu) | 0x800000u));
  const double a = abs(double(x));
  const double head = e < 0 ? a : m * kPow2Mod2PiHead[index];
  const double tail = e < 0 ? 0.0 : m * kPow2Mod2PiTail[index];
  const double t = head * kTwoOverPi + FloatBits<double>::magic;
  const double k = t - FloatBits<double>::magic;
  double r = ((head - k * kHalfPi1) - k * kHalfPi2) + (tail - k * kHalfPi3);
  r = e == 105 ? kNaN<double> : r;  // inf and NaN
  return {r, to_bits(t)};
}

CUVIL_INLINE float sin_of(ReducedAngle a, uint64_t quadrants) {
  const uint64_t q = a.q + quadrants;
  const double z = a.r * a.r;
  const double v = q & 1 ? cos_near_zero(z) : sin_near_zero(a.r, z);
  return float(from_bits(to_bits(v) ^ ((q & 2) << 62)));
}

CUVIL_INLINE float sin(float x) {  // 1 ULP for every x
  const float y = sin_of(reduce_angle(x), 0);
  return x == 0.0f ? x : from_bits(to_bits(y) ^ (to_bits(x) & 0x80000000u));
}
CUVIL_INLINE float cos(float x) { return sin_of(reduce_angle(x), 1); }  // 1 ULP for every x
CUVIL_INLINE float tan(float x) {                                       // 1 ULP for every x
  const ReducedAngle a = reduce_angle(x);
  const double z = a.r * a.r, s = sin_near_zero(a.r, z), c = cos_near_zero(z);
  const float y = float(a.q & 1 ? -c / s : s / c);
  return x == 0.0f ? x : from_bits(to_bits(y) ^ (to_bits(x) & 0x80000000u));
}

struct ReducedAnglePair {
  double r, r_lo;
  uint64_t q;
};

struct Product192 {
  uint64_t hi, mid, lo;
};
// The low 192 bits of m * (w0 w1 w2), from 32-bit products (not every target has wider ones).
CUVIL_INLINE Product192 multiply_window(uint64_t m, uint64_t w0, uint64_t w1, uint64_t w2) {
  const uint64_t words[6] = {w2 & 0xffffffffu, w2 >> 32, w1 & 0xffffffffu,
                             w1 >> 32,         w0 & 0xffffffffu, w0 >> 32};
  const uint64_t halves[2] = {m & 0xffffffffu, m >> 32};
  uint64_t out[6] = {0, 0, 0, 0, 0, 0};
  for (int i = 0; i < 2; ++i) {
    uint64_t carry = 0;
    for (int j = 0; i + j < 6; ++j) {
      const uint64_t t = halves[i] * words[j] + out[i + j] + carry;
      out[i + j] = t & 0xffffffffu;
      carry = t >> 32;
    }
  }
  return {out[5] << 32 | out[4], out[3] << 32 | out[2], out[1] << 32 | out[0]};
}

// M. H. Payne and R. N. Hanek, "Radian reduction for trigonometric functions", 1983: only the bits
// of 2/pi that matter modulo 4 are multiplied. For finite a >= 2^26.
__attribute__((noinline, cold)) inline ReducedAnglePair reduce_huge_angle(double a) {
  const uint64_t u = to_bits(a), m = (u & 0xfffffffffffffull) | 0x10000000000000ull;
  // a = m 2^e. The window starts at the bit of 2/pi whose product with 2^e has weight 2.
  const int start = int(u >> 52) - 1075 - 2 + 64, word = start >> 6, shift = start & 63;
  uint64_t w[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t next = word + i + 1 < 21 ? kTwoOverPiBits[word + i + 1] : 0;
    w[i] = shift ? kTwoOverPiBits[word + i] << shift | next >> (64 - shift)
                 : kTwoOverPiBits[word + i];
  }
  const Product192 p = multiply_window(m, w[0], w[1], w[2]);
  const uint64_t q = (p.hi + 0x2000000000000000ull) >> 62;  // nearest multiple of pi/2, mod 4
  // The fraction in units of 2^-128, as sign and magnitude.
  uint64_t hi = p.hi << 2 | p.mid >> 62, mid = p.mid << 2 | p.lo >> 62;
  const bool negative = (hi >> 63) != 0;
  if (negative) {
    mid = ~mid + 1;
    hi = ~hi + (mid == 0);
  }
  const int zeros = hi ? __builtin_clzll(hi) : 64 + (mid ? __builtin_clzll(mid) : 63);
  const int s = zeros & 63;
  const uint64_t top = zeros >= 64 ? mid << s : (s ? hi << s | mid >> (64 - s) : hi);
  const uint64_t rest = zeros >= 64 ? 0 : mid << s;
  const double scale = pow2_int<double>(-64 - zeros);
  const double f_hi = double(int64_t(top >> 11)) * 2048.0 * scale;
  const double f_lo = (double(int64_t(top & 2047)) + double(int64_t(rest >> 11)) * 0x1p-53) * scale;
  const DoublePair prod = multiply_exact(f_hi, 0x1.921fb54442d18p+0);
  const double lo = prod.lo + (f_hi * 0x1.1a62633145c07p-54 + f_lo * 0x1.921fb54442d18p+0);
  const double r = prod.hi + lo, r_lo = lo - (r - prod.hi);
  return {negative ? -r : r, negative ? -r_lo : r_lo, q};
}

// a - b as a value and what rounding took from it (D. E. Knuth's two-sum).
CUVIL_INLINE DoublePair subtract_exact(double a, double b) {
  const double d = a - b, v = d - a;
  return {d, (a - (d - v)) - (b + v)};
}

// |x|, any finite double. The rare large case is a call, which keeps loops over doubles scalar.
CUVIL_INLINE ReducedAnglePair reduce_angle(double x) {
  const double a = abs(x);
  if (a >= 0x1p26 && a < kInf<double>) return reduce_huge_angle(a);
  const double t = a * kTwoOverPi + FloatBits<double>::magic;
  const double k = t - FloatBits<double>::magic;
  const DoublePair d1 = subtract_exact(a - k * kHalfPi1, k * kHalfPi2);
  const DoublePair d2 = subtract_exact(d1.hi, k * kHalfPi3);
  const double lo = (d1.lo + d2.lo) - k * kHalfPi4;
  const double r = d2.hi + lo;
  return {r, lo - (r - d2.hi), to_bits(t)};
}

// Kernels with a correction for the lower part, arranged as in FDLIBM.
CUVIL_INLINE double sin_near_zero(ReducedAnglePair a) {
  const double z = a.r * a.r, cube = a.r * z;
  const double q = horner(z, 0.008333333333322314, -0.00019841269829724817, 2.755731366195514e-06,
                          -2.5050753251914876e-08, 1.5896504359190316e-10);
  return a.r - ((z * (0.5 * a.r_lo - cube * q) - a.r_lo) - cube * -0.16666666666666632);
}
CUVIL_INLINE double cos_near_zero(ReducedAnglePair a) {
  const double z = a.r * a.r, half = 0.5 * z, w = 1.0 - half;
  const double q = horner(z, 0.0416666666666666, -0.001388888888887399, 2.4801587289395082e-05,
                          -2.7557314326070805e-07, 2.08757195637335e-09, -1.1359448926482873e-11);
  return w + (((1.0 - w) - half) + (z * z * q - a.r * a.r_lo));
}
CUVIL_INLINE double sin_of(ReducedAnglePair a, uint64_t quadrants) {
  const uint64_t q = a.q + quadrants;
  const double v = q & 1 ? cos_near_zero(a) : sin_near_zero(a);
  return from_bits(to_bits(v) ^ ((q & 2) << 62));
}
CUVIL_INLINE double sin(double x) {  // 1 ULP for every x
  const double y = sin_of(reduce_angle(x), 0);
  return x == 0.0 ? x : from_bits(to_bits(y) ^ (to_bits(x) & FloatBits<double>::sign_mask));
}
CUVIL_INLINE double cos(double x) { return sin_of(reduce_angle(x), 1); }  // 1 ULP for every x
CUVIL_INLINE double tan(double x) {                                       // 3 ULP for every x
  const ReducedAnglePair a = reduce_angle(x);
  const double s = sin_near_zero(a), c = cos_near_zero(a);
  const double y = a.q & 1 ? -c / s : s / c;
  return x == 0.0 ? x : from_bits(to_bits(y) ^ (to_bits(x) & FloatBits<double>::sign_mask));
}

// atan(t) = t + t z q(z), z = t^2, |t| <= tan(pi/8).
CUVIL_INLINE float atan_tail(float z) {
  return horner(z, -3.3333316e-01f, 1.9998471e-01f, -1.4243522e-01f, 1.0593726e-01f,
                -6.0779877e-02f);
}
CUVIL_INLINE double atan_tail(double z) {
  return horner(z, -0.33333333333333326, 0.19999999999997647, -0.14285714285385617,
                0.11111111088048978, -0.09090908140519119, 0.07692282680785595,
                -0.06666225775680334, 0.058770136633974575, -0.052183606097893936,
                0.04503403069364089, -0.03347172122979047, 0.0151929994019967);
}

// pi/4 times 0..4, each as head and tail.
template <class T>
CUVIL_INLINE T quarter_pi_head(T k) {
  return k * T(0.7853981633974483);
}
template <class T>
constexpr T kQuarterPiTail = sizeof(T) == 4 ? T(-2.1855694e-08f) : T(3.061616997868383e-17);

// atan of lo/hi for 0 <= lo <= hi, plus the angle's place: quarter + sign * that, in units of pi/4.
template <class T>
CUVIL_INLINE T atan_ratio(T num, T den, T quarters, T flip) {
  const bool upper = num > den * T(0.41421356237309503);
  // atan(n/d) = pi/4 + atan((n-d)/(n+d))
  const T t = (upper ? num - den : num) / (upper ? num + den : den), z = t * t;
  const T k = quarters + (upper ? flip : T(0));
  const T tail = t * z * atan_tail(z);
  return quarter_pi_head(k) + (flip * t + (flip * tail + k * kQuarterPiTail<T>));
}

template <class T>
CUVIL_INLINE T atan(T x) {  // 2 ULP
  const T a = abs(x);
  const bool beyond = a > T(1);
  const T num = beyond ? T(1) : a, den = beyond ? a : T(1);
  const T y = atan_ratio(num, den, beyond ? T(2) : T(0), beyond ? T(-1) : T(1));
  return x == T(0) ? x : copysign(y, x);
}

template <class T>
CUVIL_INLINE T atan2(T y, T x) {  // 3 ULP
  T ay = abs(y), ax = abs(x);
  const bool both = ax == kInf<T> && ay == kInf<T>;
  ay = both ? T(1) : ay, ax = both ? T(1) : ax;
  // Powers of two keep num + den and den * tan(pi/8) away from overflow and underflow.
  const T huge = sizeof(T) == 4 ? T(0x1p100) : T(0x1p1000);
  const T up = sizeof(T) == 4 ? T(0x1p60) : T(0x1p600);
  const T top = ax > ay ? ax : ay;
  const T scale = top > huge ? T(1) / up : (top < T(1) / huge ? up : T(1));
  ay *= scale, ax *= scale;
  const bool beyond = ay > ax, left = signbit(x);
  const T num = beyond ? ax : ay, den = beyond ? ay : ax;
  const T safe = den == T(0) ? T(1) : den;  // atan2(0, 0) is an angle by its signs
  const T quarters = beyond ? T(2) : (left ? T(4) : T(0));
  const T flip = beyond != left ? T(-1) : T(1);
  const T angle = atan_ratio(num, safe, quarters, flip);
  const T small = num == T(0) || beyond || left ? angle : num / safe;
  const T precise = num < safe * T(0x1p-30) ? small : angle;
  return x != x || y != y ? kNaN<T> : copysign(precise, y);
}

// asin(x) = x + x z q(z), z = x^2, |x| <= 1/2.
CUVIL_INLINE float asin_tail(float z) {
  return horner(z, 1.6666754e-01f, 7.495233e-02f, 4.5478344e-02f, 2.4140963e-02f, 4.223061e-02f);
}
CUVIL_INLINE double asin_tail(double z) {
  return horner(z, 0.16666666666666763, 0.07499999999970108, 0.04464285717527711,
                0.030381942675711107, 0.02237221589365988, 0.01735159572183727,
                0.013981015858029052, 0.01139731506275808, 0.010789197533923335,
                0.0036726515282039136, 0.021789516190502897, -0.021115127457314878,
                0.03270117337448611);
}

// Beyond 1/2: asin(x) = pi/2 - 2 asin(sqrt((1-x)/2)). Outside [-1, 1] the square root gives NaN.
template <class T>
CUVIL_INLINE T asin(T x) {  // 3 ULP
  const T a = abs(x);
  const bool outer = a > T(0.5);
  const T z = outer ? (T(1) - a) * T(0.5) : a * a;
  const T s = outer ? sqrt(z) : a;
  const T v = s + s * z * asin_tail(z);
  const T y = outer ? quarter_pi_head(T(2)) - (v + v - T(2) * kQuarterPiTail<T>) : v;
  return copysign(y, x);
}

template <class T>
CUVIL_INLINE T acos(T x) {  // 2 ULP
  const T a = abs(x);
  const bool outer = a > T(0.5);
  const T z = outer ? (T(1) - a) * T(0.5) : a * a;
  const T s = outer ? sqrt(z) : x;
  const T tail = s * z * asin_tail(z);
  const T near_one = T(2) * (s + tail);
  const T y = x < T(0) ? quarter_pi_head(T(4)) - (near_one - T(4) * kQuarterPiTail<T>) : near_one;
  const T middle = quarter_pi_head(T(2)) - (s + (tail - T(2) * kQuarterPiTail<T>));
  return outer ? y : middle;
}

// The float forms round the double ones: 1 ULP. The double forms: 3 ULP.
CUVIL_INLINE double sinh(double x) {
  const double a = abs(x), e = expm1(a), half = exp_scaled(a, 0.0, -1);
  const double y = a < 22.0 ? 0.5 * (e + e / (e + 1.0)) : half;
  return x == 0.0 ? x : copysign(x != x ? x : y, x);
}
CUVIL_INLINE double cosh(double x) {
  const double half = exp_scaled(abs(x), 0.0, -1);
  return half + 0.25 / half;
}
CUVIL_INLINE double asinh(double x) {
  const double a = abs(x), square = a * a;
  const double inner = log1p(a + square / (1.0 + sqrt(square + 1.0)));
  const double outer = log(a) + 0.6931471805599453;
  const double y = a > 0x1p28 ? outer : inner;
  return x == 0.0 ? x : copysign(y, x);
}
CUVIL_INLINE double acosh(double x) {
  const double t = x - 1.0;
  const double inner = log1p(t + sqrt(2.0 * t + t * t));
  const double outer = log(x) + 0.6931471805599453;
  const double y = x > 0x1p28 ? outer : inner;
  return x < 1.0 ? kNaN<double> : y;
}
CUVIL_INLINE double atanh(double x) {
  const double a = abs(x);
  const double y = 0.5 * log1p(2.0 * a / (1.0 - a));
  return a > 1.0 ? kNaN<double> : (x == 0.0 ? x : copysign(y, x));
}
CUVIL_INLINE float sinh(float x) { return float(sinh(double(x))); }
CUVIL_INLINE float cosh(float x) { return float(cosh(double(x))); }
CUVIL_INLINE float asinh(float x) { return float(asinh(double(x))); }
CUVIL_INLINE float acosh(float x) { return float(acosh(double(x))); }
CUVIL_INLINE float atanh(float x) { return float(atanh(double(x))); }

}  // namespace cuvil
