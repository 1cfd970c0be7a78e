// Products: a tile of some rows by up to CUVIL_PANEL columns is summed in registers.
//
// Weights lie in panels of CUVIL_PANEL columns, [taps][channels][columns]; the last is as wide
// as is left. rows[tap * CUVIL_ROWS + i] is where row i finds a tap's channels.

//:
#define CUVIL_PANEL 16

// With -Os products are made one element at a time, where there are so few that it costs no time.
#if defined(CUVIL_SMALL) && !defined(CUVIL_BUSY)
#define CUVIL_PLAIN
#endif

// How many rows and columns a tile has, and floats a vector register: what the machine's registers
// can hold; one element where it is size that counts.
#if defined(CUVIL_PLAIN)
#define CUVIL_ROWS 1
#define CUVIL_COLUMNS 1
#elif defined(__AVX512F__)
#define CUVIL_LANES 16
#define CUVIL_ROWS 12
#elif defined(__AVX__)
#define CUVIL_LANES 8
#define CUVIL_ROWS 6
#elif defined(__aarch64__)
#define CUVIL_LANES 4
#define CUVIL_ROWS 6
#elif defined(__SSE2__) || (defined(__ARM_NEON) && defined(__GNUC__)) || defined(__wasm_simd128__)
#define CUVIL_LANES 4
#define CUVIL_ROWS 3
#else
#define CUVIL_ROWS 4
#endif
#if !defined(CUVIL_COLUMNS)
#define CUVIL_COLUMNS CUVIL_PANEL
#endif

// How loops over a finished tile are to be made faster: not by vectors of several rows.
#if defined(__clang__)
#define CUVIL_ROW_BY_ROW _Pragma("clang loop vectorize(disable)")
#define CUVIL_IN_VECTORS _Pragma("clang loop unroll(disable)")
#else
#define CUVIL_ROW_BY_ROW
#define CUVIL_IN_VECTORS
#endif

#if defined(CUVIL_LANES)
typedef float cuvil_lanes __attribute__((vector_size(4 * CUVIL_LANES)));

// `count` rows of a full panel, a constant where this is called.
static inline __attribute__((always_inline)) void cuvil_tile_rows(
    const int count, const float *const *rows, ptrdiff_t taps, ptrdiff_t channels, const float *w,
    float *tile) {
  cuvil_lanes sum[CUVIL_ROWS][CUVIL_PANEL / CUVIL_LANES] = {0};
  for (ptrdiff_t t = 0; t < taps; ++t, rows += CUVIL_ROWS) {
    const float *a[CUVIL_ROWS];
    for (int i = 0; i < count; ++i) a[i] = rows[i];
    for (ptrdiff_t c = 0; c < channels; ++c, w += CUVIL_PANEL) {
      cuvil_lanes b[CUVIL_PANEL / CUVIL_LANES];
      memcpy(b, w, sizeof b);
      for (int i = 0; i < count; ++i) {
        for (int j = 0; j < CUVIL_PANEL / CUVIL_LANES; ++j) sum[i][j] += a[i][c] * b[j];
      }
    }
  }
  memcpy(tile, sum, (size_t)count * CUVIL_PANEL * sizeof(float));
}

static void cuvil_tile_full(const float *const *rows, ptrdiff_t taps, ptrdiff_t channels,
                            const float *w, float *tile) {
  cuvil_tile_rows(CUVIL_ROWS, rows, taps, channels, w, tile);
}

static void cuvil_tile_some(const float *const *rows, ptrdiff_t taps, ptrdiff_t channels,
                            const float *w, float *tile) {
  cuvil_tile_rows(CUVIL_ROWS < 4 ? CUVIL_ROWS : 4, rows, taps, channels, w, tile);
}

// One row of a full panel; four sums a column, since each waits for the one before.
static void cuvil_tile_row(const float *const *rows, ptrdiff_t taps, ptrdiff_t channels,
                           const float *w, float *tile) {
  cuvil_lanes sum[4][CUVIL_PANEL / CUVIL_LANES] = {0};
  for (ptrdiff_t t = 0; t < taps; ++t, rows += CUVIL_ROWS) {
    const float *a = *rows;
    for (ptrdiff_t left = channels / 4; left > 0; --left, a += 4, w += 4 * CUVIL_PANEL) {
      cuvil_lanes b[4][CUVIL_PANEL / CUVIL_LANES];
      memcpy(b, w, sizeof b);
      for (int k = 0; k < 4; ++k) {
        for (int j = 0; j < CUVIL_PANEL / CUVIL_LANES; ++j) sum[k][j] += a[k] * b[k][j];
      }
    }
    for (ptrdiff_t left = channels % 4; left > 0; --left, ++a, w += CUVIL_PANEL) {
      cuvil_lanes b[CUVIL_PANEL / CUVIL_LANES];
      memcpy(b, w, sizeof b);
      for (int j = 0; j < CUVIL_PANEL / CUVIL_LANES; ++j) sum[0][j] += *a * b[j];
    }
  }
  for (int j = 0; j < CUVIL_PANEL / CUVIL_LANES; ++j)
    sum[0][j] = (sum[0][j] + sum[1][j]) + (sum[2][j] + sum[3][j]);
  memcpy(tile, sum, CUVIL_PANEL * sizeof(float));
}
#endif

// Four rows by four columns of a panel of `width` columns, in sixteen registers.
#if !defined(CUVIL_PLAIN)
static CUVIL_APART void cuvil_tile_square(const float *const *rows, ptrdiff_t taps,
                                          ptrdiff_t channels, const float *w, ptrdiff_t width,
                                          float *tile) {
  float s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
  float s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
  for (ptrdiff_t t = 0; t < taps; ++t, rows += CUVIL_ROWS) {
    const float *a0 = rows[0], *a1 = rows[1], *a2 = rows[2], *a3 = rows[3];
    for (ptrdiff_t c = 0; c < channels; ++c, w += width) {
      const float b0 = w[0], b1 = w[1], b2 = w[2], b3 = w[3];
      float x = *a0++;
      s00 += x * b0, s01 += x * b1, s02 += x * b2, s03 += x * b3;
      x = *a1++;
      s10 += x * b0, s11 += x * b1, s12 += x * b2, s13 += x * b3;
      x = *a2++;
      s20 += x * b0, s21 += x * b1, s22 += x * b2, s23 += x * b3;
      x = *a3++;
      s30 += x * b0, s31 += x * b1, s32 += x * b2, s33 += x * b3;
    }
  }
  tile[0] = s00, tile[1] = s01, tile[2] = s02, tile[3] = s03;
  tile += CUVIL_PANEL;
  tile[0] = s10, tile[1] = s11, tile[2] = s12, tile[3] = s13;
  tile += CUVIL_PANEL;
  tile[0] = s20, tile[1] = s21, tile[2] = s22, tile[3] = s23;
  tile += CUVIL_PANEL;
  tile[0] = s30, tile[1] = s31, tile[2] = s32, tile[3] = s33;
}
#endif

// One row by four columns.
#if !defined(CUVIL_PLAIN)
static void cuvil_tile_line(const float *const *rows, ptrdiff_t taps, ptrdiff_t channels,
                            const float *w, ptrdiff_t width, float *tile) {
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (ptrdiff_t t = 0; t < taps; ++t, rows += CUVIL_ROWS) {
    const float *a = rows[0];
    for (ptrdiff_t c = 0; c < channels; ++c, w += width) {
      const float x = *a++;
      s0 += x * w[0], s1 += x * w[1], s2 += x * w[2], s3 += x * w[3];
    }
  }
  tile[0] = s0, tile[1] = s1, tile[2] = s2, tile[3] = s3;
}
#endif

// One element: the products of a row and a column of a panel, summed.
static CUVIL_APART float cuvil_tile_element(const float *const *rows, ptrdiff_t taps,
                                            ptrdiff_t channels, const float *w,
                                            ptrdiff_t width) {
  float sum = 0;
  for (ptrdiff_t t = 0; t < taps; ++t, rows += CUVIL_ROWS) {
    const float *a = *rows;
    for (ptrdiff_t c = 0; c < channels; ++c, w += width) sum += a[c] * *w;
  }
  return sum;
}

// tile[i][j] = sum over taps and channels, for `count` rows and the columns from n0 on of a matrix
// that has n of them, up to CUVIL_COLUMNS.
static CUVIL_INLINE void cuvil_tile_f32(const float *const *rows, ptrdiff_t count, ptrdiff_t taps,
                                        ptrdiff_t channels, const float *w, ptrdiff_t n0,
                                        ptrdiff_t n, float *tile) {
#if defined(CUVIL_PLAIN)
  const ptrdiff_t j = n0 % CUVIL_PANEL, last = n % CUVIL_PANEL;
  const ptrdiff_t width = n0 < n - last ? CUVIL_PANEL : last;
  (void)count;
  *tile = cuvil_tile_element(rows, taps, channels, w + (n0 - j) * taps * channels + j, width);
#else
  const ptrdiff_t width = cuvil_minimum(CUVIL_PANEL, n - n0);
  w += n0 * taps * channels;
#if defined(CUVIL_LANES)
  if (width == CUVIL_PANEL) {
    ptrdiff_t i = 0;
    if (count == CUVIL_ROWS) {
      cuvil_tile_full(rows, taps, channels, w, tile);
      return;
    }
    for (; i + 4 <= count; i += 4) {
      cuvil_tile_some(rows + i, taps, channels, w, tile + i * CUVIL_PANEL);
    }
    for (; i < count; ++i) cuvil_tile_row(rows + i, taps, channels, w, tile + i * CUVIL_PANEL);
    return;
  }
#endif
  if (width < 4) {
    for (ptrdiff_t i = 0; i < count; ++i) {
      for (ptrdiff_t j = 0; j < width; ++j)
        tile[i * CUVIL_PANEL + j] = cuvil_tile_element(rows + i, taps, channels, w + j, width);
    }
    return;
  }
  for (ptrdiff_t four = 0; four < width; four += 4) { /* the last four may overlap others */
    const ptrdiff_t j = cuvil_minimum(four, width - 4);
    ptrdiff_t i = 0;
    for (; i + 4 <= count; i += 4) {
      cuvil_tile_square(rows + i, taps, channels, w + j, width, tile + i * CUVIL_PANEL + j);
    }
    for (; i < count; ++i) {
      cuvil_tile_line(rows + i, taps, channels, w + j, width, tile + i * CUVIL_PANEL + j);
    }
  }
#endif
}

// A panel of a matrix that is no constant.
static void cuvil_pack_panel(float *to, const float *b, ptrdiff_t k, ptrdiff_t columns,
                             ptrdiff_t row, ptrdiff_t column) {
  for (ptrdiff_t i = 0; i < k; ++i) {
    for (ptrdiff_t j = 0; j < columns; ++j) *to++ = b[i * row + j * column];
  }
}

// Some channels of one pixel of a depthwise convolution; w is [taps][channels].
static void cuvil_depthwise_f32(const float *const *taps, ptrdiff_t count, const float *w,
                            ptrdiff_t channels, ptrdiff_t first, ptrdiff_t columns, float *tile) {
#if defined(CUVIL_LANES)
  if (columns == CUVIL_PANEL) {
    cuvil_lanes sum[CUVIL_PANEL / CUVIL_LANES] = {0};
    for (ptrdiff_t t = 0; t < count; ++t, w += channels) {
      cuvil_lanes a[CUVIL_PANEL / CUVIL_LANES], b[CUVIL_PANEL / CUVIL_LANES];
      if (!taps[t]) continue;
      memcpy(a, taps[t] + first, sizeof a);
      memcpy(b, w + first, sizeof b);
      for (int j = 0; j < CUVIL_PANEL / CUVIL_LANES; ++j) sum[j] += a[j] * b[j];
    }
    memcpy(tile, sum, sizeof sum);
    return;
  }
#endif
  ptrdiff_t j = 0;
#if !defined(CUVIL_PLAIN)
  for (; j + 4 <= columns; j += 4) {
    const float *b = w + first + j;
    float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (ptrdiff_t t = 0; t < count; ++t, b += channels) {
      const float *a = taps[t];
      if (!a) continue;
      a += first + j;
      s0 += a[0] * b[0], s1 += a[1] * b[1], s2 += a[2] * b[2], s3 += a[3] * b[3];
    }
    tile[j] = s0, tile[j + 1] = s1, tile[j + 2] = s2, tile[j + 3] = s3;
  }
#endif
  for (; j < columns; ++j) {
    float sum = 0;
    for (ptrdiff_t t = 0; t < count; ++t) {
      if (taps[t]) sum += taps[t][first + j] * w[t * channels + first + j];
    }
    tile[j] = sum;
  }
}
