// Trigonometric and hyperbolic functions and their inverses, and the error function.

//: T=f64
static inline double cuvil_subtract_exact(double a, double b, double *low) {
  const double d = a - b, v = d - a;
  *low = (a - (d - v)) - (b + v);
  return d;
}

// 2 / pi, 64 bits a word after a word of zeros.
static const uint64_t cuvil_two_over_pi[] = {
    0,
    0xa2f9836e4e441529ull,
    0xfc2757d1f534ddc0ull,
    0xdb6295993c439041ull,
    0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull,
    0xfe1deb1cb129a73eull,
    0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull,
    0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull,
    0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full,
    0x6d367ecf27cb09b7ull,
    0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull,
    0x6bfb5fb11f8d5d08ull,
    0x56033046fc7b6babull,
    0xf0cfbc209af4361dull,
};

// M. H. Payne and R. N. Hanek, "Radian reduction for trigonometric functions", 1983, for a >= 2^26.
static double cuvil_reduce_huge_angle(double a, double *low, uint64_t *quadrant) {
  const uint64_t u = cuvil_bits_f64(a), m = (u & 0xfffffffffffffull) | 0x10000000000000ull;
  const int start = (int)(u >> 52) - 1075 - 2 + 64, word = start >> 6, shift = start & 63;
  uint64_t words[6], halves[2], out[6] = {0, 0, 0, 0, 0, 0}, high, middle, last, top, rest;
  bool negative;
  int zeros = 0;
  double scale = 1.0, head, tail, product, product_low, r, r_low;
  for (int i = 0; i < 3; ++i) {
    const uint64_t now = cuvil_two_over_pi[word + i];
    const uint64_t next = word + i + 1 < 21 ? cuvil_two_over_pi[word + i + 1] : 0;
    const uint64_t w = shift ? now << shift | next >> (64 - shift) : now;
    words[4 - 2 * i] = w & 0xffffffffu;
    words[5 - 2 * i] = w >> 32;
  }
  halves[0] = m & 0xffffffffu;
  halves[1] = m >> 32;
  for (int i = 0; i < 2; ++i) {
    uint64_t carry = 0;
    for (int j = 0; i + j < 6; ++j) {
      const uint64_t t = halves[i] * words[j] + out[i + j] + carry;
      out[i + j] = t & 0xffffffffu;
      carry = t >> 32;
    }
  }
  high = out[5] << 32 | out[4];
  middle = out[3] << 32 | out[2];
  last = out[1] << 32 | out[0];
  *quadrant = (high + 0x2000000000000000ull) >> 62;
  high = high << 2 | middle >> 62;
  middle = middle << 2 | last >> 62;
  negative = (high >> 63) != 0;
  if (negative) {
    middle = ~middle + 1;
    high = ~high + (middle == 0);
  }
  for (top = high, rest = middle; zeros < 127 && (top >> 63) == 0; ++zeros, scale *= 0.5) {
    top = top << 1 | rest >> 63;
    rest <<= 1;
  }
  scale *= 0x1p-64;
  head = (double)(top >> 11) * 2048.0 * scale;
  tail = ((double)(top & 2047) + (double)(rest >> 11) * 0x1p-53) * scale;
  product = cuvil_multiply_exact(head, 0x1.921fb54442d18p+0, &product_low);
  product_low += head * 0x1.1a62633145c07p-54 + tail * 0x1.921fb54442d18p+0;
  r = product + product_low;
  r_low = product_low - (r - product);
  *low = negative ? -r_low : r_low;
  return negative ? -r : r;
}

// |x| = quadrant * pi/2 + result + low.
static double cuvil_reduce_angle(double x, double *low, uint64_t *quadrant) {
  const double a = cuvil_abs_f64(x), magic = 6755399441055744.0;
  const double t = a * 0.6366197723675814 + magic, k = t - magic;
  double low1, low2, d1, d2, rest, r;
  if (a >= 0x1p26 && a < __builtin_inf()) return cuvil_reduce_huge_angle(a, low, quadrant);
  d1 = cuvil_subtract_exact(a - k * 0x1.921fb50000000p+0, k * 0x1.110b460000000p-26, &low1);
  d2 = cuvil_subtract_exact(d1, k * 0x1.1a62630000000p-54, &low2);
  rest = (low1 + low2) - k * 0x1.8a2e03707344ap-81;
  r = d2 + rest;
  *low = rest - (r - d2);
  *quadrant = cuvil_bits_f64(t);
  return r;
}

static double cuvil_sin_near_zero(double r, double low) {
  const double z = r * r, cube = r * z;
  const double q = horner(z, 0.008333333333322314, -0.00019841269829724817, 2.755731366195514e-06,
                          -2.5050753251914876e-08, 1.5896504359190316e-10);
  return r - ((z * (0.5 * low - cube * q) - low) - cube * -0.16666666666666632);
}

static double cuvil_cos_near_zero(double r, double low) {
  const double z = r * r, half = 0.5 * z, w = 1.0 - half;
  const double q = horner(z, 0.0416666666666666, -0.001388888888887399, 2.4801587289395082e-05,
                          -2.7557314326070805e-07, 2.08757195637335e-09, -1.1359448926482873e-11);
  return w + (((1.0 - w) - half) + (z * z * q - r * low));
}

static double cuvil_sine(double x, uint64_t quadrants) {
  double low, v;
  uint64_t q;
  const double r = cuvil_reduce_angle(x, &low, &q);
  q += quadrants;
  v = q & 1 ? cuvil_cos_near_zero(r, low) : cuvil_sin_near_zero(r, low);
  return q & 2 ? -v : v;
}

static double cuvil_sin_f64(double x) {
  const double y = cuvil_sine(x, 0);
  return x == 0.0 ? x : (x < 0.0 ? -y : y);
}

static double cuvil_cos_f64(double x) { return cuvil_sine(x, 1); }

static double cuvil_tan_f64(double x) {
  double low, s, c, y;
  uint64_t q;
  const double r = cuvil_reduce_angle(x, &low, &q);
  s = cuvil_sin_near_zero(r, low);
  c = cuvil_cos_near_zero(r, low);
  y = q & 1 ? -c / s : s / c;
  return x == 0.0 ? x : (x < 0.0 ? -y : y);
}

static inline double cuvil_atan_tail_f64(double z) {
  return horner(z, -0.33333333333333326, 0.19999999999997647, -0.14285714285385617,
                0.11111111088048978, -0.09090908140519119, 0.07692282680785595,
                -0.06666225775680334, 0.058770136633974575, -0.052183606097893936,
                0.04503403069364089, -0.03347172122979047, 0.0151929994019967);
}

static inline double cuvil_asin_tail_f64(double z) {
  return horner(z, 0.16666666666666763, 0.07499999999970108, 0.04464285717527711,
                0.030381942675711107, 0.02237221589365988, 0.01735159572183727,
                0.013981015858029052, 0.01139731506275808, 0.010789197533923335,
                0.0036726515282039136, 0.021789516190502897, -0.021115127457314878,
                0.03270117337448611);
}

static inline double cuvil_sinh_f64(double x) {
  const double a = cuvil_abs_f64(x), e = cuvil_expm1_f64(a),
               half = cuvil_exp_scaled_f64(a, 0.0, -1);
  const double y = a < 22.0 ? 0.5 * (e + e / (e + 1.0)) : half;
  return x == 0.0 ? x : cuvil_copysign_f64(x != x ? x : y, x);
}

static inline double cuvil_cosh_f64(double x) {
  const double half = cuvil_exp_scaled_f64(cuvil_abs_f64(x), 0.0, -1);
  return half + 0.25 / half;
}

static inline double cuvil_asinh_f64(double x) {
  const double a = cuvil_abs_f64(x), square = a * a;
  const double inner = cuvil_log1p_f64(a + square / (1.0 + cuvil_sqrt_f64(square + 1.0)));
  const double y = a > 0x1p28 ? cuvil_log_f64(a) + 0.6931471805599453 : inner;
  return x == 0.0 ? x : cuvil_copysign_f64(y, x);
}

static inline double cuvil_acosh_f64(double x) {
  const double t = x - 1.0, inner = cuvil_log1p_f64(t + cuvil_sqrt_f64(2.0 * t + t * t));
  const double y = x > 0x1p28 ? cuvil_log_f64(x) + 0.6931471805599453 : inner;
  return x < 1.0 ? __builtin_nan("") : y;
}

static inline double cuvil_atanh_f64(double x) {
  const double a = cuvil_abs_f64(x), y = 0.5 * cuvil_log1p_f64(2.0 * a / (1.0 - a));
  return a > 1.0 ? __builtin_nan("") : (x == 0.0 ? x : cuvil_copysign_f64(y, x));
}

//: T=f32
// By way of double.
static inline float cuvil_sin_f32(float x) { return (float)cuvil_sin_f64((double)x); }

static inline float cuvil_cos_f32(float x) { return (float)cuvil_cos_f64((double)x); }

static inline float cuvil_tan_f32(float x) { return (float)cuvil_tan_f64((double)x); }

static inline float cuvil_sinh_f32(float x) { return (float)cuvil_sinh_f64((double)x); }

static inline float cuvil_cosh_f32(float x) { return (float)cuvil_cosh_f64((double)x); }

static inline float cuvil_asinh_f32(float x) { return (float)cuvil_asinh_f64((double)x); }

static inline float cuvil_acosh_f32(float x) { return (float)cuvil_acosh_f64((double)x); }

static inline float cuvil_atanh_f32(float x) { return (float)cuvil_atanh_f64((double)x); }

static inline float cuvil_atan_tail_f32(float z) {
  return horner(z, -3.3333316e-01f, 1.9998471e-01f, -1.4243522e-01f, 1.0593726e-01f,
                -6.0779877e-02f);
}

static inline float cuvil_asin_tail_f32(float z) {
  return horner(z, 1.6666754e-01f, 7.495233e-02f, 4.5478344e-02f, 2.4140963e-02f, 4.223061e-02f);
}

//: T=f32,f64
// atan(num / den) for 0 <= num <= den, turned: quarters * pi/4 + flip * that.
static inline T cuvil_atan_ratio_T(T num, T den, T quarters, T flip) {
  const bool upper = num > den * (T)0.41421356237309503;
  const T t = (upper ? num - den : num) / (upper ? num + den : den), z = t * t;
  const T k = quarters + (upper ? flip : 0), tail = t * z * cuvil_atan_tail_T(z);
  return k * (T)0.7853981633974483 +
         (flip * t + (flip * tail + k * {-2.1855694e-08f | 3.061616997868383e-17}));
}

static inline T cuvil_atan_T(T x) {
  const T a = cuvil_abs_T(x);
  const bool beyond = a > 1;
  const T y = cuvil_atan_ratio_T(beyond ? 1 : a, beyond ? a : 1, beyond ? 2 : 0, beyond ? -1 : 1);
  return x == 0 ? x : cuvil_copysign_T(y, x);
}

static inline T cuvil_atan2_T(T y, T x) {
  T ay = cuvil_abs_T(y), ax = cuvil_abs_T(x);
  const bool both = cuvil_isinf_T(x) && cuvil_isinf_T(y);
  const bool left = (cuvil_bits_T(x) & ~((UINT)-1 >> 1)) != 0;
  const T huge = {0x1p100f | 0x1p1000}, up = {0x1p60f | 0x1p600};
  T top, scale, num, den, flip, angle, small;
  bool beyond;
  ay = both ? 1 : ay;
  ax = both ? 1 : ax;
  top = ax > ay ? ax : ay;
  scale = top > huge ? 1 / up : (top < 1 / huge ? up : 1);
  ay *= scale;
  ax *= scale;
  beyond = ay > ax;
  num = beyond ? ax : ay;
  den = beyond ? ay : ax;
  den = den == 0 ? 1 : den;
  flip = beyond != left ? -1 : 1;
  angle = cuvil_atan_ratio_T(num, den, beyond ? 2 : (left ? 4 : 0), flip);
  small = num == 0 || beyond || left ? angle : num / den;
  angle = num < den * (T)0x1p-30 ? small : angle;
  return x != x || y != y ? (T)__builtin_nan("") : cuvil_copysign_T(angle, y);
}

static inline T cuvil_asin_T(T x) {
  const T a = cuvil_abs_T(x);
  const bool outer = a > (T)0.5;
  const T z = outer ? (1 - a) * (T)0.5 : a * a, s = outer ? cuvil_sqrt_T(z) : a;
  const T v = s + s * z * cuvil_asin_tail_T(z);
  const T y =
      outer ? (T)1.5707963267948966 - (v + v - 2 * {-2.1855694e-08f | 3.061616997868383e-17}) : v;
  return cuvil_copysign_T(y, x);
}

static inline T cuvil_acos_T(T x) {
  const T a = cuvil_abs_T(x), low = {-2.1855694e-08f | 3.061616997868383e-17};
  const bool outer = a > (T)0.5;
  const T z = outer ? (1 - a) * (T)0.5 : a * a, s = outer ? cuvil_sqrt_T(z) : x;
  const T tail = s * z * cuvil_asin_tail_T(z), near_one = 2 * (s + tail);
  const T y = x < 0 ? (T)3.141592653589793 - (near_one - 4 * low) : near_one;
  return outer ? y : (T)1.5707963267948966 - (s + (tail - 2 * low));
}

// exp(t^2) erfc(t) (1 + 2t) over s = (t - a) / (t + a), after M. M. Shepherd and J. G. Laframboise,
// "Chebyshev approximation of (1+2x) exp(x^2) erfc x", 1981.
//: T=f32
static inline float cuvil_erfcx_tail_f32(float s) {
  return horner(s, 1.2769784e+00f, -9.276398e-02f, -1.6603146e-01f, 1.6405542e-01f, -5.4203887e-02f,
                -8.060143e-03f, 8.630105e-03f, 1.3133133e-03f, -1.2280082e-03f, -3.994533e-04f);
}

// x P(x^2), |x| <= 1.
static inline float cuvil_erf_small_f32(float x) {
  return x * horner(x * x, 1.1283791e+00f, -3.7612626e-01f, 1.12835854e-01f, -2.6853813e-02f,
                    5.188328e-03f, -8.0101984e-04f, 7.8538775e-05f);
}

//: T=f64
static inline double cuvil_erfcx_tail_f64(double s) {
  return horner(s, 1.2329951186255526, -0.13962111684056286, 0.015379652102620135,
                0.06809705425473357, -0.10103906603632345, 0.09373283499691432,
                -0.06633036581203976, 0.037167515560702115, -0.01619773405471713,
                0.005031969770610919, -0.0007577733614294204, -0.00019925557955249558,
                0.00015062229012783134, -2.4402953850601448e-05, -1.1224821345721512e-05,
                5.717498570733812e-06, 3.0127306805481384e-07, -8.34766283992195e-07,
                6.28883989274604e-08, 1.1516053895172286e-07, -7.841985624403911e-09,
                -1.3650110538253337e-08, -1.800216219300462e-09);
}

static inline double cuvil_erf_small_f64(double x) {
  return x * horner(x * x, 1.1283791670955126, -0.3761263890318375, 0.11283791670954857,
                    -0.026866170645072907, 0.005223977624780965, -0.0008548326978747702,
                    0.00012055331037093965, -1.4925593511401867e-05, 1.6460972886829844e-06,
                    -1.6350025936209924e-07, 1.4657884472637242e-08, -1.1365683248456953e-09,
                    5.945290031037285e-11);
}

//: T=f32,f64
// erfc(t) for t >= 0, where t^2 = high + low.
static inline T cuvil_erfc_positive_T(T t, T high, T low) {
  const T c = t>{10.2f | 27.3} ? {10.2f | 27.3} : t, b = 1 + 2 * c,
          inverse = 1 / ((c + {2.0f | 4.0}) * b);
  const T s = (c - {2.0f | 4.0}) * b * inverse;
  return cuvil_exp_scaled_T(-high, -low, 0) *
         (cuvil_erfcx_tail_T(s) * ((c + {2.0f | 4.0}) * inverse));
}

// x without its lower bits, so that its square is exact.
static inline T cuvil_head_T(T x) {
  return cuvil_from_bits_T(cuvil_bits_T(x) & ~(((UINT)1 << {12 | 27}) - 1));
}

static inline T cuvil_erfc_T(T x) {
  T t = cuvil_abs_T(x), head, y;
  t = t>{11.2f | 28.3} ? {11.2f | 28.3} : t;
  head = cuvil_head_T(t);
  y = cuvil_erfc_positive_T(t, head * head, (t - head) * (t + head));
  return x < 0 ? 2 - y : y;
}

static inline T cuvil_erf_T(T x) {
  return cuvil_abs_T(x) <= 1 ? cuvil_erf_small_T(x)
                             : cuvil_copysign_T(1 - cuvil_erfc_T(cuvil_abs_T(x)), x);
}

// x Phi(x), Phi from erfc on the side where nothing cancels.
static inline T cuvil_gelu_erf_T(T x) {
  T a = cuvil_abs_T(x), head, half;
  a = a > 40 ? 40 : a;
  head = cuvil_head_T(a);
  half = (T)0.5 * cuvil_erfc_positive_T(a * (T)0.7071067811865476, (T)0.5 * head * head,
                                        (T)0.5 * (a - head) * (a + head));
  return x * (x < 0 ? half : 1 - half);
}
