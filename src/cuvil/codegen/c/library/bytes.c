// Products of bytes, summed in 32 bits: exact, whatever the order.
//
// Weights lie in fours of columns, four channels of one side by side: [columns / 4][taps]
// [channels / 4][4][4], with zeros behind the last channel and column.

//:
#if defined(__ARM_FEATURE_SIMD32)
#include <arm_acle.h> /* the compiler's own: two products in one instruction */
#define CUVIL_PAIRS
#endif

//: T=u8,i8
// `sum` and four products.
static inline int32_t cuvil_dot4_T(const T *a, const int8_t *w, int32_t sum) {
#if defined(CUVIL_PAIRS)
  uint32_t x, y;
  memcpy(&x, a, 4);
  memcpy(&y, w, 4);
  sum = __smlad((int16x2_t){__uxtb16|__sxtb16}(x), __sxtb16(y), sum);
  return __smlad((int16x2_t){__uxtb16|__sxtb16}(__ror(x, 8)), __sxtb16(__ror(y, 8)), sum);
#else
  return sum + a[0] * w[0] + a[1] * w[1] + a[2] * w[2] + a[3] * w[3];
#endif
}

// One row by four columns.
static void cuvil_tile_line_T(const T *const *rows, ptrdiff_t taps, ptrdiff_t channels,
                              const int8_t *w, int32_t *tile) {
  int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (ptrdiff_t t = 0; t < taps; ++t, rows += CUVIL_ROWS) {
    const T *a = *rows, *const end = a + channels / 4 * 4;
    for (; a != end; a += 4, w += 16) {
      s0 = cuvil_dot4_T(a, w, s0), s1 = cuvil_dot4_T(a, w + 4, s1);
      s2 = cuvil_dot4_T(a, w + 8, s2), s3 = cuvil_dot4_T(a, w + 12, s3);
    }
    if (channels % 4 == 0) continue;
    for (ptrdiff_t c = 0; c < channels % 4; ++c) {
      s0 += a[c] * w[c], s1 += a[c] * w[c + 4], s2 += a[c] * w[c + 8], s3 += a[c] * w[c + 12];
    }
    w += 16;
  }
  tile[0] = s0, tile[1] = s1, tile[2] = s2, tile[3] = s3;
}

// tile[i][j] = sum over taps and channels, for `count` rows and some columns.
static void cuvil_tile_T(const T *const *rows, ptrdiff_t count, ptrdiff_t taps, ptrdiff_t channels,
                         const int8_t *w, ptrdiff_t columns, int32_t *tile) {
  const ptrdiff_t four = taps * ((channels + 3) / 4 * 16);
  for (ptrdiff_t j = 0; j < columns; j += 4, w += four) {
    for (ptrdiff_t i = 0; i < count; ++i) {
      cuvil_tile_line_T(rows + i, taps, channels, w, tile + i * CUVIL_PANEL + j);
    }
  }
}

// Some channels of one pixel of a depthwise convolution; w is [taps][channels].
static void cuvil_depthwise_T(const T *const *taps, ptrdiff_t count, const int8_t *w,
                              ptrdiff_t channels, ptrdiff_t first, ptrdiff_t columns,
                              int32_t *tile) {
  ptrdiff_t j = 0;
  w += first;
  for (; j + 4 <= columns; j += 4, w += 4) {
    const int8_t *b = w;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (ptrdiff_t t = 0; t < count; ++t, b += channels) {
      if (!taps[t]) continue;
      const T *a = taps[t] + first + j;
      s0 += a[0] * b[0], s1 += a[1] * b[1], s2 += a[2] * b[2], s3 += a[3] * b[3];
    }
    tile[j] = s0, tile[j + 1] = s1, tile[j + 2] = s2, tile[j + 3] = s3;
  }
  for (; j < columns; ++j, ++w) {
    int32_t sum = 0;
    for (ptrdiff_t t = 0; t < count; ++t) {
      if (taps[t]) sum += taps[t][first + j] * w[t * channels];
    }
    tile[j] = sum;
  }
}
