// Exponentials, logarithms, powers and the activations made of them.

//: T=f32
// exp(r) = 1 + r + r^2 q(r), |r| <= ln(2)/2.
static inline float cuvil_exp_tail_f32(float r) {
  return horner(r, 0.5f, 1.6666666e-01f, 4.1666295e-02f, 8.333498e-03f, 1.3944659e-03f,
                1.9790052e-04f);
}

// 2^r = 1 + r q(r), |r| <= 1/2.
static inline float cuvil_exp2_tail_f32(float r) {
  return horner(r, 6.931472e-01f, 2.402265e-01f, 5.550411e-02f, 9.618036e-03f, 1.3333431e-03f,
                1.5467136e-04f, 1.5314978e-05f);
}

// log(1 + f) = f - this.
static inline float cuvil_log1p_gap_f32(float f) {
  const float q =
      horner(f, 3.3333334e-01f, -2.499982e-01f, 1.9999598e-01f, -1.6679576e-01f, 1.4304449e-01f,
             -1.2195824e-01f, 1.07543185e-01f, -1.2844843e-01f, 1.2006836e-01f);
  return f * f * (0.5f - f * q);
}

// x = 2^e (1 + f), 1 + f in [2/3, 4/3), for a positive and finite x.
static inline float cuvil_log_reduce_f32(float x, float *e) {
  const bool tiny = x < 0x1p-126f;
  const uint32_t u = cuvil_bits_f32(tiny ? x * 0x1p23f : x) + (0x3f800000u - 0x3f2aaaabu);
  *e = (float)((int32_t)(u >> 23) - (tiny ? 150 : 127));
  return cuvil_from_bits_f32((u & 0x7fffffu) + 0x3f2aaaabu) - 1.0f;
}

//: T=f64
static inline double cuvil_exp_tail_f64(double r) {
  return horner(r, 0.5, 0.16666666666666682, 0.041666666666666095, 0.008333333333317034,
                0.0013888888889115217, 0.00019841269896386871, 2.480158692720201e-05,
                2.755723485852435e-06, 2.7557581453031996e-07, 2.5112038127800016e-08,
                2.0826735994543273e-09);
}

static inline double cuvil_exp2_tail_f64(double r) {
  return horner(r, 0.6931471805599453, 0.24022650695910072, 0.0555041086648217,
                0.009618129107628494, 0.0013333558146390416, 0.000154035303933415,
                1.5252733856258948e-05, 1.321548683275398e-06, 1.0178051199728726e-07,
                7.054888354666257e-09, 4.4566752013017175e-10, 2.5741676452988332e-11);
}

static inline double cuvil_log1p_gap_f64(double f) {
  const double s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  const double r = z * horner(z, 0.6666666666666666, 0.40000000000007846, 0.2857142856732154,
                              0.22222223040501796, 0.18181738258969316, 0.15388841974136694,
                              0.13210225690623045, 0.13604993632876033);
  return half - s * (half + r);
}

static inline double cuvil_log_reduce_f64(double x, double *e) {
  const uint64_t two_thirds = 0x3fe5555555555555ull, one = 0x3ff0000000000000ull;
  const bool tiny = x < 0x1p-1022;
  const uint64_t u = cuvil_bits_f64(tiny ? x * 0x1p52 : x) + (one - two_thirds);
  *e = (double)((int32_t)(u >> 52) - (tiny ? 1075 : 1023));
  return cuvil_from_bits_f64((u & 0xfffffffffffffull) + two_thirds) - 1.0;
}

//: T=f32,f64
// 2^n for an n in the normal range of exponents.
static inline T cuvil_pow2_T(SINT n) {
  return cuvil_from_bits_T((UINT)(n + {127 | 1023}) << {23 | 52});
}

// x * 2^n with one rounding, in two steps, since 2^n alone may be no normal number.
static inline T cuvil_scale_pow2_T(T x, SINT n) {
  const UINT both = (UINT)(n + {254 | 2046}), half = both / 2;
  return (x * cuvil_from_bits_T(half << {23 | 52})) *
         cuvil_from_bits_T((both - half) << {23 | 52});
}

// x = n ln2 + rest; ln2 is split so that n times its upper part is exact.
static inline SINT cuvil_exp_reduce_T(T x, T *rest) {
  const T magic = {12582912.0f | 6755399441055744.0};
  const T t = x * (T)1.4426950408889634 + magic, n = t - magic;
  *rest = (x - n * {0.693145751953125f | 0x1.62e42fee00000p-1}) -
          n * {1.4286068e-06f | 0x1.a39ef35793c76p-33};
  return (SINT)(cuvil_bits_T(t) - cuvil_bits_T(magic));
}

// exp(x + low) * 2^k for |low| << 1, |k| <= 1.
static inline T cuvil_exp_scaled_T(T x, T low, SINT k) {
  T r;
  SINT n;
  x = x>{90.0f | 711.0} ? {90.0f | 711.0} : x;
  x = x < {-105.0f | -747.0} ? {-105.0f | -747.0} : x;
  n = cuvil_exp_reduce_T(x, &r);
  r += low;
  return cuvil_scale_pow2_T(1 + (r + r * r * cuvil_exp_tail_T(r)), n + k);
}

static inline T cuvil_exp_T(T x) { return cuvil_exp_scaled_T(x, 0, 0); }

static inline T cuvil_exp2_sum_T(T x, T low) {
  const T magic = {12582912.0f | 6755399441055744.0};
  T t, r;
  x = x>{129.0f | 1025.0} ? {129.0f | 1025.0} : x;
  x = x < {-151.0f | -1076.0} ? {-151.0f | -1076.0} : x;
  t = x + magic;
  r = (x - (t - magic)) + low;
  return cuvil_scale_pow2_T(1 + r * cuvil_exp2_tail_T(r),
                            (SINT)(cuvil_bits_T(t) - cuvil_bits_T(magic)));
}

static inline T cuvil_exp2_T(T x) { return cuvil_exp2_sum_T(x, 0); }

static inline T cuvil_expm1_T(T x) {
  T c = x>{89.0f | 709.9} ? {89.0f | 709.9} : x, r, q, half;
  SINT n;
  c = c < {-20.0f | -40.0} ? {-20.0f | -40.0} : c;
  n = cuvil_exp_reduce_T(c, &r);
  q = r + r * r * cuvil_exp_tail_T(r);
  half = cuvil_pow2_T(n - 1);
  return x == 0 ? x : 2 * (half * q + (half - (T)0.5));
}

// What a logarithm gives where x is not positive and finite, and `value` elsewhere.
static inline T cuvil_log_special_T(T x, T value) {
  value = x == (T)__builtin_inf() ? x : value;
  value = x == 0 ? -(T)__builtin_inf() : value;
  return x < 0 || x != x ? (T)__builtin_nan("") : value;
}

// log(x) + correction.
static inline T cuvil_log_sum_T(T x, T correction) {
  T e;
  const T f = cuvil_log_reduce_T(x, &e);
  return e * {0.693115234375f | 0x1.62e42fefa2000p-1} +
         (f - (cuvil_log1p_gap_T(f) - (e * {3.1946183e-05f | 0x1.9ef35793c7673p-41} + correction)));
}

static inline T cuvil_log_T(T x) { return cuvil_log_special_T(x, cuvil_log_sum_T(x, 0)); }

static inline T cuvil_log2_T(T x) {
  T e;
  const T f = cuvil_log_reduce_T(x, &e), gap = cuvil_log1p_gap_T(f), value = f - gap;
  const T head = cuvil_from_bits_T(cuvil_bits_T(value) & ~(((UINT)1 << {12 | 27}) - 1));
  const T tail = (f - head) - gap;
  const T b = head * {0x1.714p+0f | 0x1.7154760000000p+0}, sum = e + b;
  const T small =
      value * {0.0003122284f | 0x1.4ae0bf85ddf44p-26} + tail * {0x1.714p+0f | 0x1.7154760000000p+0};
  return cuvil_log_special_T(x, sum + ((b - (sum - e)) + small));
}

// The rounding error of 1 + x, divided by it, is added back.
static inline T cuvil_log1p_T(T x) {
  const T u = 1 + x, lost = x > 1 ? 1 - (u - x) : x - (u - 1);
  const T safe = u > 0 && u < (T)__builtin_inf() ? u : 1;
  const T y = cuvil_log_special_T(u, cuvil_log_sum_T(safe, lost / safe));
  return u == 1 ? x : y;
}

static inline T cuvil_tanh_T(T x) {
  const T a = cuvil_abs_T(x), c = a > 22 ? 22 : a, u = cuvil_expm1_T(c + c);
  return cuvil_copysign_T(u / (u + 2), x);
}

static inline T cuvil_sigmoid_T(T x) {
  const T e = cuvil_exp_T(-cuvil_abs_T(x)), y = (x < 0 ? e : 1) / (1 + e);
  return x != x ? x : y;
}

static inline T cuvil_softplus_T(T x) {
  const T positive = x < 0 ? 0 : x, e = cuvil_exp_T(-cuvil_abs_T(x));
  const T u = 1 + e, lost = e - (u - 1);
  return positive + cuvil_log_sum_T(u, lost * (1 - (T)0.5 * e));
}

static inline T cuvil_silu_T(T x) { return x * cuvil_sigmoid_T(x); }

static inline T cuvil_gelu_tanh_T(T x) {
  return x * cuvil_sigmoid_T(x * ((T)1.5957691216057308 + (T)0.07135481627260025 * x * x));
}

// C99's table for pow around `magnitude` = |x|^y.
static inline T cuvil_pow_special_T(T x, T y, T magnitude) {
  const T half = y * (T)0.5, infinite = (T)__builtin_inf();
  const bool integral = cuvil_trunc_T(y) == y, odd = integral && cuvil_trunc_T(half) != half;
  const T ax = cuvil_abs_T(x), ay = cuvil_abs_T(y);
  const bool grows = (y > 0) == (ax > 1);
  T v = magnitude;
  v = ay == infinite ? (ax == 1 ? 1 : (grows ? infinite : 0)) : v;
  v = ax == 0 || ax == infinite ? ((y > 0) == (ax == 0) ? 0 : infinite) : v;
  v = x < 0 && ax < infinite && ay < infinite && !integral ? (T)__builtin_nan("") : v;
  v = (cuvil_bits_T(x) & ~((UINT)-1 >> 1)) != 0 && odd ? -v : v;
  v = x != x || y != y ? (T)__builtin_nan("") : v;
  return y == 0 || x == 1 ? 1 : v;
}

//: T=f32
// By way of double, whose 53 bits leave y log2|x| enough.
static float cuvil_power_f32(float x, float y) {
  const float ax = cuvil_abs_f32(x);
  const bool ordinary = ax > 0.0f && ax < __builtin_inff();
  double e, p;
  const double f = cuvil_log_reduce_f64(ordinary ? (double)ax : 1.0, &e);
  p = (double)y * (e + (f - cuvil_log1p_gap_f64(f)) * 1.4426950408889634);
  p = p > 200.0 ? 200.0 : p;
  p = p < -200.0 ? -200.0 : p;
  return cuvil_pow_special_f32(x, y, (float)cuvil_exp2_sum_f64(p == p ? p : 0.0, 0.0));
}

//: T=f64
static inline double cuvil_upper_half(double x) {
  return cuvil_from_bits_f64(cuvil_bits_f64(x) & 0xfffffffff8000000ull);
}

// a * b = result + low, by Dekker's splitting.
static inline double cuvil_multiply_exact(double a, double b, double *low) {
  const double ah = cuvil_upper_half(a), al = a - ah, bh = cuvil_upper_half(b), bl = b - bh;
  const double p = a * b;
  *low = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
  return p;
}

static double cuvil_power_f64(double x, double y) {
  const double ax = cuvil_abs_f64(x);
  const bool ordinary = ax > 0.0 && ax < __builtin_inf();
  double e, back_low, product_low, limited = y > 0x1p70 ? 0x1p70 : y, log_low;
  const double f = cuvil_log_reduce_f64(ordinary ? ax : 1.0, &e);
  const double d = 2.0 + f, d_lost = f - (d - 2.0), s = f / d;
  const double back = cuvil_multiply_exact(s, d, &back_low);
  const double s_low = (((f - back) - back_low) - s * d_lost) / d, z = s * s;
  const double r =
      s * z *
      horner(z, 0.6666666666666666, 0.40000000000007846, 0.2857142856732154, 0.22222223040501796,
             0.18181738258969316, 0.15388841974136694, 0.13210225690623045, 0.13604993632876033);
  const double two_s = 2.0 * s, ln = two_s + r, ln_low = (r - (ln - two_s)) + 2.0 * s_low;
  const double scaled = cuvil_multiply_exact(ln, 0x1.71547652b82fep+0, &product_low);
  const double tail = product_low + ln_low * 0x1.71547652b82fep+0 + ln * 0x1.777d0ffda0d24p-56;
  const double high = e + scaled, low = (scaled - (high - e)) + tail, log = high + low;
  double product, rest;
  log_low = low - (log - high);
  limited = limited < -0x1p70 ? -0x1p70 : limited;
  product = cuvil_multiply_exact(limited, log, &rest);
  rest += limited * log_low;
  if (!(cuvil_abs_f64(product) < 1100.0)) {
    product = product > 0.0 ? 1100.0 : -1100.0;
    rest = 0.0;
  }
  return cuvil_pow_special_f64(x, y, cuvil_exp2_sum_f64(product, rest));
}
