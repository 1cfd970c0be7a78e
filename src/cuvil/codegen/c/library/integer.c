// Integers that wrap and never trap, casts that are defined everywhere, 16-bit floats.

//: T=i8,i16,i32,i64
static inline T cuvil_abs_T(T x) { return (T)(x < 0 ? (UINT)0 - (UINT)x : (UINT)x); }

static inline T cuvil_sign_T(T x) { return (T)(x > 0 ? 1 : (x < 0 ? -1 : 0)); }

// Towards zero; x / 0 is 0, the smallest integer over -1 is itself.
static inline T cuvil_div_T(T a, T b) {
  if (b == 0) return 0;
  return b == -1 ? (T)((UINT)0 - (UINT)a) : (T)(a / b);
}

static inline T cuvil_trunc_mod_T(T a, T b) { return b == 0 || b == -1 ? 0 : (T)(a % b); }

static inline T cuvil_floor_div_T(T a, T b) {
  const T rest = cuvil_trunc_mod_T(a, b);
  return (T)(cuvil_div_T(a, b) - (rest != 0 && (rest < 0) != (b < 0)));
}

static inline T cuvil_python_mod_T(T a, T b) {
  const T rest = cuvil_trunc_mod_T(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}

// Negative exponents: 1 for 1, +-1 for -1, else 0.
static inline T cuvil_power_T(T base, T exponent) {
  uint64_t b = (uint64_t)base, result = 1;
  if (exponent < 0) return (T)(base == 1 ? 1 : (base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0));
  for (uint64_t e = (uint64_t)exponent; e != 0; e >>= 1, b *= b) {
    if (e & 1) result *= b;
  }
  return (T)result;
}

// An amount outside [0, bits) gives 0, or the sign.
static inline T cuvil_shift_right_T(T a, T n) {
  const int bits = 8 * (int)sizeof(T);
  return (T)(a >> (n >= 0 && n < bits ? (int)n : bits - 1));
}

//: T=u8,u16,u32,u64,bool
static inline T cuvil_abs_T(T x) { return x; }

static inline T cuvil_sign_T(T x) { return (T)(x > 0); }

static inline T cuvil_div_T(T a, T b) { return b == 0 ? 0 : (T)(a / b); }

static inline T cuvil_trunc_mod_T(T a, T b) { return b == 0 ? 0 : (T)(a % b); }

static inline T cuvil_floor_div_T(T a, T b) { return cuvil_div_T(a, b); }

static inline T cuvil_python_mod_T(T a, T b) { return cuvil_trunc_mod_T(a, b); }

static inline T cuvil_power_T(T base, T exponent) {
  uint64_t b = base, result = 1;
  for (uint64_t e = exponent; e != 0; e >>= 1, b *= b) {
    if (e & 1) result *= b;
  }
  return (T)result;
}

static inline T cuvil_shift_right_T(T a, T n) { return n < 8 * sizeof(T) ? (T)(a >> n) : 0; }

//: T=i8,i16,i32,i64,u8,u16,u32,u64,bool
static inline T cuvil_max_T(T a, T b) { return a > b ? a : b; }

static inline T cuvil_min_T(T a, T b) { return a < b ? a : b; }

static inline T cuvil_shift_left_T(T a, T n) {
  const uint64_t amount = (uint64_t)n;
  return amount < 8 * sizeof(T) ? (T)((uint64_t)a << amount) : 0;
}

// Float to integer: what fits i32 keeps its low bits, all else is 0.
//: S=f32,f64 T=i8,i16,u8,u16
static inline T cuvil_cast_S_T(S x) {
  return (T)(int32_t)(cuvil_abs_S(x) < (S)2147483648.0 ? x : 0);
}

// NaN is 0, what is out of range becomes the nearest end.
//: S=f32,f64 T=i32
static inline int32_t cuvil_cast_S_T(S x) {
  if (x != x) return 0;
  if (x >= (S)2147483648.0) return INT32_MAX;
  return x <= (S)-2147483648.0 ? INT32_MIN : (int32_t)x;
}

//:
static int32_t cuvil_far_f32_i32(float x) { return cuvil_cast_f32_i32(cuvil_round_even_f32(x)); }

// The nearest integer, ties to even; NaN and what is out of range as above.
static inline int32_t cuvil_nearest_f32_i32(float x) {
  const float big = 12582912.0f; /* its last bit is worth 1 */
  if (!(cuvil_abs_f32(x) < 4194304.0f)) return cuvil_far_f32_i32(x);
  return (int32_t)(cuvil_bits_f32(x + big) - cuvil_bits_f32(big));
}

//: S=f32,f64 T=i64
static inline int64_t cuvil_cast_S_T(S x) {
  if (x != x) return 0;
  if (x >= (S)9223372036854775808.0) return INT64_MAX;
  return x <= (S)-9223372036854775808.0 ? INT64_MIN : (int64_t)x;
}

//: S=f32,f64 T=u32
static inline uint32_t cuvil_cast_S_T(S x) {
  return (uint32_t)(int64_t)(cuvil_abs_S(x) < (S)9223372036854775808.0 ? x : 0);
}

//: S=f32,f64 T=u64
static inline uint64_t cuvil_cast_S_T(S x) {
  if (x != x) return 0;
  if (x < 0) return (uint64_t)(int64_t)(x > (S)-9223372036854775808.0 ? x : 0);
  return x >= (S)18446744073709551616.0 ? UINT64_MAX : (uint64_t)x;
}

//:
static inline float cuvil_bf16_to_f32(uint16_t h) { return cuvil_from_bits_f32((uint32_t)h << 16); }

static inline uint16_t cuvil_f32_to_bf16(float x) {
  const uint32_t u = cuvil_bits_f32(x), rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (uint16_t)(x != x ? (u >> 16) | 0x40u : rounded);
}

static inline float cuvil_f16_to_f32(uint16_t h) {
  const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
  const float finite = cuvil_from_bits_f32(rest << 13) * 0x1p112f;
  const uint32_t special = (rest << 13) | 0x7f800000u;
  return cuvil_from_bits_f32((rest >= 0x7c00u ? special : cuvil_bits_f32(finite)) | sign);
}

static inline uint16_t cuvil_f32_to_f16(float x) {
  const uint32_t u = cuvil_bits_f32(x), sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  const uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - (112u << 23)) >> 13;
  const uint32_t tiny = cuvil_bits_f32(cuvil_from_bits_f32(a) + 0.5f) - cuvil_bits_f32(0.5f);
  uint32_t h = a < 0x38800000u ? tiny : normal;
  h = a >= 0x477ff000u ? 0x7c00u : h;
  h = a > 0x7f800000u ? 0x7e00u | ((a >> 13) & 0x3ffu) : h;
  return (uint16_t)(h | sign);
}

//: S=f32,f64,i8,i16,i32,i64,u8,u16,u32,u64 T=f32,f64,i8,i16,i32,i64,u8,u16,u32,u64
// The same bits as another type of the same size.
static inline T cuvil_bitcast_S_T(S x) {
  T y;
  memcpy(&y, &x, sizeof y);
  return y;
}

// The best element so far and where it was found; -1 before the first.
//: T=f32,f64,i8,i16,i32,i64,u8,u16,u32,u64,bool
typedef struct {
  T value;
  ptrdiff_t position;
} cuvil_best_T;

// NaN beats every number, ties go to the first position.
static inline void cuvil_take_greatest_T(cuvil_best_T *best, T value, ptrdiff_t position) {
  if (best->position >= 0 &&
      (best->value != best->value || !(value > best->value || value != value)))
    return;
  best->value = value;
  best->position = position;
}

static inline void cuvil_take_least_T(cuvil_best_T *best, T value, ptrdiff_t position) {
  if (best->position >= 0 &&
      (best->value != best->value || !(value < best->value || value != value)))
    return;
  best->value = value;
  best->position = position;
}

// Ties go to the last position.
static inline void cuvil_take_last_greatest_T(cuvil_best_T *best, T value, ptrdiff_t position) {
  if (best->position >= 0 && value == value &&
      !(best->value == best->value && value >= best->value))
    return;
  best->value = value;
  best->position = position;
}

static inline void cuvil_take_last_least_T(cuvil_best_T *best, T value, ptrdiff_t position) {
  if (best->position >= 0 && value == value &&
      !(best->value == best->value && value <= best->value))
    return;
  best->value = value;
  best->position = position;
}
