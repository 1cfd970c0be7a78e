// Bits, signs, rounding, comparisons and the arithmetic of sizes.
//
// What this folder holds is written into a model's .c file piece by piece, as it is needed; a piece
// is a paragraph. Lines that begin with a colon after the slashes give the types that T (and S) of
// the pieces below them stand for; {a|b} is chosen by T's place among them; UINT and SINT are the
// integers of T's size; horner(x, c0, c1) is written out. Formulas and coefficients are those of
// native/math_*.hpp, where their sources are named.

//:
// With -Os it is size that counts: loops are plain, and functions called, not copied.
#if defined(__OPTIMIZE_SIZE__)
#define CUVIL_SMALL
#define CUVIL_INLINE
#else
#define CUVIL_INLINE inline
#endif

// Whose loops need all registers should not share them with what is around.
#if defined(__GNUC__) && !defined(CUVIL_SMALL)
#define CUVIL_APART __attribute__((noinline))
#else
#define CUVIL_APART
#endif

// Sums that a reduction makes side by side: of one row, and of neighbouring columns.
#if defined(CUVIL_SMALL)
#define CUVIL_SUMS 1
#define CUVIL_COLUMN_SUMS 1
#else
#define CUVIL_SUMS 8
#define CUVIL_COLUMN_SUMS 16
#endif

static inline ptrdiff_t cuvil_minimum(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

static inline ptrdiff_t cuvil_maximum(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

// The quotient rounded down; 0 for a divisor of 0.
static inline ptrdiff_t cuvil_floordiv(ptrdiff_t a, ptrdiff_t b) {
  if (b == 0) return 0;
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

// The remainder with the sign of the divisor; 0 for a divisor of 0.
static inline ptrdiff_t cuvil_mod(ptrdiff_t a, ptrdiff_t b) {
  if (b == 0) return 0;
  const ptrdiff_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Positions that padded elements are copied from.
static inline ptrdiff_t cuvil_reflect_index(ptrdiff_t at, ptrdiff_t size) {
  if (size <= 1) return 0;
  const ptrdiff_t folded = cuvil_mod(at + size - 1, 2 * (size - 1)) - (size - 1);
  return folded < 0 ? -folded : folded;
}

static inline ptrdiff_t cuvil_edge_index(ptrdiff_t at, ptrdiff_t size) {
  return at < 0 || size == 0 ? 0 : (at < size ? at : size - 1);
}

static inline ptrdiff_t cuvil_wrap_index(ptrdiff_t at, ptrdiff_t size) {
  return cuvil_mod(at, size);
}

// An index that may count from the end; outside [0, size) the call fails and 0 is used.
static inline ptrdiff_t cuvil_checked_index(int64_t index, ptrdiff_t size, int *status) {
  const int64_t at = index < 0 ? index + size : index;
  if (at >= 0 && at < size) return (ptrdiff_t)at;
  *status = 2;
  return 0;
}

// The same for an index that may not be negative.
static inline ptrdiff_t cuvil_index_from_start(int64_t index, ptrdiff_t size, int *status) {
  if (index >= 0 && index < size) return (ptrdiff_t)index;
  *status = 2;
  return 0;
}

//: T=f32,f64
static inline UINT cuvil_bits_T(T x) {
  UINT bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline T cuvil_from_bits_T(UINT bits) {
  T x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline T cuvil_abs_T(T x) { return cuvil_from_bits_T(cuvil_bits_T(x) & ((UINT)-1 >> 1)); }

static inline T cuvil_copysign_T(T x, T sign) {
  const UINT mask = (UINT)-1 >> 1;
  return cuvil_from_bits_T((cuvil_bits_T(x) & mask) | (cuvil_bits_T(sign) & ~mask));
}

static inline bool cuvil_isnan_T(T x) { return x != x; }

static inline bool cuvil_isinf_T(T x) { return cuvil_abs_T(x) == (T)__builtin_inf(); }

// -1, 0 or 1; keeps NaN and the sign of zero.
static inline T cuvil_sign_T(T x) { return x > 0 ? 1 : (x < 0 ? -1 : x); }

// NaN from either side wins.
static inline T cuvil_max_T(T a, T b) {
  const T greater = a > b ? a : b;
  return a != a ? a : greater;
}

static inline T cuvil_min_T(T a, T b) {
  const T less = a < b ? a : b;
  return a != a ? a : less;
}

// Values below 2^mantissa are rounded to nearest even by adding and taking away a large number.
static inline T cuvil_round_even_T(T x) {
  const T big = {8388608.0f | 4503599627370496.0}, a = cuvil_abs_T(x);
  const T rounded = (a + big) - big;
  return cuvil_copysign_T(a < big ? rounded : x, x);
}

static inline T cuvil_floor_T(T x) {
  const T r = cuvil_round_even_T(x);
  return cuvil_copysign_T(r > x ? r - 1 : r, x);
}

static inline T cuvil_ceil_T(T x) { return -cuvil_floor_T(-x); }

static inline T cuvil_trunc_T(T x) { return cuvil_copysign_T(cuvil_floor_T(cuvil_abs_T(x)), x); }

//: T=f32
// Correctly rounded. Where the compiler can't be asked for the machine's instruction, bit by bit.
static inline float cuvil_sqrt_f32(float x) {
#if defined(__SSE__)
  __asm__("sqrtss %1, %0" : "=x"(x) : "x"(x));
  return x;
#elif defined(__aarch64__)
  __asm__("fsqrt %s0, %s1" : "=w"(x) : "w"(x));
  return x;
#elif defined(__ARM_FP) && (__ARM_FP & 4) && defined(__GNUC__)
  __asm__("vsqrt.f32 %0, %1" : "=t"(x) : "t"(x));
  return x;
#else
  uint32_t bits = cuvil_bits_f32(x), root = 0, rest, bit;
  int32_t exponent = (int32_t)(bits >> 23);
  if (!(x > 0.0f) || x == __builtin_inff()) return x < 0.0f ? __builtin_nanf("") : x;
  rest = bits & 0x7fffffu;
  if (exponent == 0) {
    for (exponent = 1; (rest & 0x800000u) == 0; --exponent) rest <<= 1;
  }
  rest |= 0x800000u;
  exponent -= 127;
  if (exponent & 1) rest <<= 1;
  rest <<= 1;
  for (bit = 0x1000000u, bits = 0; bit != 0; bit >>= 1, rest <<= 1) {
    if (bits + bit <= rest) {
      bits += 2 * bit;
      rest -= bits - bit;
      root += bit;
    }
  }
  root += rest != 0 ? root & 1u : 0u;
  return cuvil_from_bits_f32((root >> 1) +
                             (uint32_t)(((exponent - (exponent & 1)) / 2 + 126) << 23));
#endif
}

//: T=f64
static inline double cuvil_sqrt_f64(double x) {
#if defined(__SSE2__)
  __asm__("sqrtsd %1, %0" : "=x"(x) : "x"(x));
  return x;
#elif defined(__aarch64__)
  __asm__("fsqrt %d0, %d1" : "=w"(x) : "w"(x));
  return x;
#else
  double y, half, scale = 1.0;
  if (!(x > 0.0) || x == __builtin_inf()) return x < 0.0 ? __builtin_nan("") : x;
  if (x < 0x1p-1000) {
    x *= 0x1p200;
    scale = 0x1p-100;
  } else if (x > 0x1p1000) {
    x *= 0x1p-200;
    scale = 0x1p100;
  }
  y = cuvil_from_bits_f64((cuvil_bits_f64(x) >> 1) + 0x1ff8000000000000ull);
  for (int step = 0; step < 5; ++step) {
    half = 0.5 * (y + x / y);
    y = half;
  }
  return y * scale;
#endif
}

//: T=f32,f64
static inline T cuvil_rsqrt_T(T x) { return 1 / cuvil_sqrt_T(x); }

// The remainder with the sign of x, exact.
static T cuvil_trunc_mod_T(T x, T y) {
  const int mantissa = {23 | 52}, room = {8 | 11};
  const UINT hidden = (UINT)1 << mantissa, infinite = cuvil_bits_T((T)__builtin_inf());
  const UINT ux = cuvil_bits_T(cuvil_abs_T(x)), uy = cuvil_bits_T(cuvil_abs_T(y));
  SINT ex = (SINT)(ux >> mantissa), ey = (SINT)(uy >> mantissa), left;
  UINT mx, my;
  if (uy == 0 || ux >= infinite || uy > infinite) return (x * y) / (x * y);
  if (ux < uy) return x;
  mx = ex ? (ux & (hidden - 1)) | hidden : ux;
  my = ey ? (uy & (hidden - 1)) | hidden : uy;
  ex += ex == 0;
  ey += ey == 0;
  mx %= my;
  for (left = ex - ey; left > 0 && mx != 0;) {
    const int step = left < room ? (int)left : room;
    mx = (mx << step) % my;
    left -= step;
  }
  return cuvil_copysign_T(cuvil_scale_pow2_T((T)mx, ey - {127 | 1023} - mantissa), x);
}

// The remainder with the sign of y.
static inline T cuvil_python_mod_T(T x, T y) {
  const T r = cuvil_trunc_mod_T(x, y);
  const T adjusted = r != 0 && (r < 0) != (y < 0) ? r + y : r;
  return r == 0 ? cuvil_copysign_T(0, y) : adjusted;
}

static inline T cuvil_floor_div_T(T a, T b) {
  const T plain = a / b, rest = cuvil_trunc_mod_T(a, b);
  const T turned = rest != 0 && (b < 0) != (rest < 0) ? 1 : 0;
  const T quotient = (a - rest) / b - turned;
  const T down = cuvil_floor_T(quotient);
  const T whole = quotient - down > (T)0.5 ? down + 1 : down;
  return b == 0 ? plain : (quotient == 0 ? cuvil_copysign_T(0, plain) : whole);
}
