// What a convolution's kernel sees: where its taps lie, and the taps of short rows side by side.

//:
// A convolution's sizes, channels last: input, output, kernel, strides, dilations, pads in front.
typedef struct {
  ptrdiff_t d, h, w, c, od, oh, ow, kd, kh, kw, sd, sh, sw, dd, dh, dw, pd, ph, pw;
} cuvil_window;

//: T=f32,u8,i8
// Where pixel `m` of the output finds tap 0, 1, ... of the kernel: at `absent` outside the input.
static void cuvil_taps_T(const cuvil_window *s, const T *x, ptrdiff_t m, const T *absent,
                       const T **taps, ptrdiff_t step) {
  const ptrdiff_t row = m / s->ow, plane = row / s->oh, n = plane / s->od;
  const ptrdiff_t left = (m - row * s->ow) * s->sw - s->pw;
  const ptrdiff_t top = (row - plane * s->oh) * s->sh - s->ph;
  const ptrdiff_t front = (plane - n * s->od) * s->sd - s->pd;
  for (ptrdiff_t i = 0; i < s->kd; ++i) {
    const ptrdiff_t z = front + i * s->dd;
    for (ptrdiff_t j = 0; j < s->kh; ++j) {
      const ptrdiff_t y = top + j * s->dh;
      const bool inside = z >= 0 && z < s->d && y >= 0 && y < s->h;
      const T *line = x + (((n * s->d + z) * s->h + y) * s->w + left) * s->c;
      for (ptrdiff_t k = 0; k < s->kw; ++k, taps += step) {
        const ptrdiff_t at = left + k * s->dw;
        *taps = inside && at >= 0 && at < s->w ? line + k * s->dw * s->c : absent;
      }
    }
  }
}

// The same of a transposed convolution, whose strides move the output.
static void cuvil_turned_taps_T(const cuvil_window *s, const T *x, ptrdiff_t m,
                              const T *absent, const T **taps, ptrdiff_t step) {
  const ptrdiff_t row = m / s->ow, plane = row / s->oh, n = plane / s->od;
  const ptrdiff_t left = m - row * s->ow + s->pw, top = row - plane * s->oh + s->ph;
  const ptrdiff_t front = plane - n * s->od + s->pd;
  for (ptrdiff_t i = 0; i < s->kd; ++i) {
    const ptrdiff_t z = front - i * s->dd;
    for (ptrdiff_t j = 0; j < s->kh; ++j) {
      const ptrdiff_t y = top - j * s->dh;
      for (ptrdiff_t k = 0; k < s->kw; ++k, taps += step) {
        const ptrdiff_t at = left - k * s->dw;
        const bool inside = z >= 0 && y >= 0 && at >= 0 && z % s->sd == 0 && y % s->sh == 0 &&
                            at % s->sw == 0 && z / s->sd < s->d && y / s->sh < s->h &&
                            at / s->sw < s->w;
        *taps = inside
                    ? x + (((n * s->d + z / s->sd) * s->h + y / s->sh) * s->w + at / s->sw) * s->c
                    : absent;
      }
    }
  }
}

// The taps of some rows, one after the other: `patch` is [CUVIL_ROWS][taps * channels].
static void cuvil_patch_T(const T **rows, ptrdiff_t count, ptrdiff_t taps, ptrdiff_t channels,
                        T *patch) {
  for (ptrdiff_t i = 0; i < count; ++i) {
    T *to = patch + i * taps * channels;
    for (ptrdiff_t t = 0; t < taps; ++t) {
      const T *from = rows[t * CUVIL_ROWS + i];
      for (ptrdiff_t c = 0; c < channels; ++c) *to++ = from[c];
    }
    rows[i] = patch + i * taps * channels;
  }
}

