// Pools, recurrent layers, attention.

//:
// One axis of a pool: its sizes, and the pads that an average may count.
typedef struct {
  ptrdiff_t size, out, kernel, stride, dilation, begin, end;
} cuvil_axis;

// The taps of window `o` inside the input, [from, to); where the first is; how many are counted.
typedef struct {
  ptrdiff_t first, from, to, counted;
} cuvil_span;

static cuvil_span cuvil_span_of(const cuvil_axis *a, ptrdiff_t o, bool with_padding) {
  const ptrdiff_t low = with_padding ? -a->begin : 0, high = a->size + (with_padding ? a->end : 0);
  cuvil_span s = {o * a->stride - a->begin, a->kernel, 0, 0};
  for (ptrdiff_t t = 0; t < a->kernel; ++t) {
    const ptrdiff_t at = s.first + t * a->dilation;
    s.counted += at >= low && at < high;
    if (at < 0 || at >= a->size) continue;
    if (t < s.from) s.from = t;
    s.to = t + 1;
  }
  return s;
}

//: T=f32,f64,i8,i16,i32,i64,u8,u16,u32,u64
// x and y are [n][places][c] with channels last, else [n][c][places].
static void cuvil_max_pool_T(const T *x, T *y, const cuvil_axis *axes, ptrdiff_t n, ptrdiff_t c,
                             bool last, T lowest) {
  const cuvil_axis *d = axes, *h = axes + 1, *w = axes + 2;
  const ptrdiff_t size = d->size * h->size * w->size, places = d->out * h->out * w->out;
  for (ptrdiff_t item = 0; item < n * places; ++item) {
    const ptrdiff_t image = item / places, place = item % places;
    const cuvil_span a = cuvil_span_of(d, place / (h->out * w->out), false);
    const cuvil_span b = cuvil_span_of(h, place / w->out % h->out, false);
    const cuvil_span e = cuvil_span_of(w, place % w->out, false);
    const ptrdiff_t step = last ? c : 1, channel = last ? 1 : size;
    const T *from = x + image * size * c;
    T *to = y + (last ? item * c : image * c * places + place);
    for (ptrdiff_t q = 0; q < c; ++q) to[q * (last ? 1 : places)] = lowest;
    for (ptrdiff_t i = a.from; i < a.to; ++i) {
      for (ptrdiff_t j = b.from; j < b.to; ++j) {
        for (ptrdiff_t k = e.from; k < e.to; ++k) {
          const ptrdiff_t z = a.first + i * d->dilation, v = b.first + j * h->dilation;
          const T *at = from + ((z * h->size + v) * w->size + e.first + k * w->dilation) * step;
          if (last) {
            for (ptrdiff_t q = 0; q < c; ++q) to[q] = cuvil_max_T(at[q], to[q]);
          } else {
            for (ptrdiff_t q = 0; q < c; ++q)
              to[q * places] = cuvil_max_T(at[q * channel], to[q * places]);
          }
        }
      }
    }
  }
}

//: T=f32,f64
static void cuvil_avg_pool_T(const T *x, T *y, const cuvil_axis *axes, ptrdiff_t n, ptrdiff_t c,
                             bool last, bool with_padding) {
  const cuvil_axis *d = axes, *h = axes + 1, *w = axes + 2;
  const ptrdiff_t size = d->size * h->size * w->size, places = d->out * h->out * w->out;
  for (ptrdiff_t item = 0; item < n * places; ++item) {
    const ptrdiff_t image = item / places, place = item % places;
    const cuvil_span a = cuvil_span_of(d, place / (h->out * w->out), with_padding);
    const cuvil_span b = cuvil_span_of(h, place / w->out % h->out, with_padding);
    const cuvil_span e = cuvil_span_of(w, place % w->out, with_padding);
    const ptrdiff_t step = last ? c : 1, channel = last ? 1 : size, to_step = last ? 1 : places;
    const ptrdiff_t counted = a.counted * b.counted * e.counted;
    const T *from = x + image * size * c;
    T *to = y + (last ? item * c : image * c * places + place);
    for (ptrdiff_t q = 0; q < c; ++q) {
      T sum = 0;
      for (ptrdiff_t i = a.from; i < a.to; ++i) {
        for (ptrdiff_t j = b.from; j < b.to; ++j) {
          const ptrdiff_t z = a.first + i * d->dilation, v = b.first + j * h->dilation;
          const T *at = from + ((z * h->size + v) * w->size + e.first) * step + q * channel;
          for (ptrdiff_t k = e.from; k < e.to; ++k) sum += at[k * w->dilation * step];
        }
      }
      to[q * to_step] = counted == 0 ? 0 : sum / (T)counted;
    }
  }
}

//:
// One direction of a recurrent layer. Gates are i, o, f, c (LSTM), z, r, h (GRU) or one.
typedef struct {
  ptrdiff_t steps, batch, size, hidden, directions, direction;
  bool backward, linear_before_reset, input_forget;
  float clip;
  const float *x, *w, *r, *bias, *peephole, *h0, *c0;
  const int64_t *lengths;
  const int32_t *lengths32;
  float (*functions[3])(float, float, float);
  float alpha[3], beta[3];
  float *y, *h, *c, *scratch;
} cuvil_layer;

// A gate's activation: f(x, alpha, beta).
static float cuvil_gate_sigmoid(float x, float alpha, float beta) {
  (void)alpha;
  (void)beta;
  return cuvil_sigmoid_f32(x);
}

static float cuvil_gate_tanh(float x, float alpha, float beta) {
  (void)alpha;
  (void)beta;
  return cuvil_tanh_f32(x);
}

static float cuvil_gate_relu(float x, float alpha, float beta) {
  (void)alpha;
  (void)beta;
  return x < 0.0f ? 0.0f : x;
}

static float cuvil_gate_softsign(float x, float alpha, float beta) {
  (void)alpha;
  (void)beta;
  return x / (1.0f + cuvil_abs_f32(x));
}

static float cuvil_gate_softplus(float x, float alpha, float beta) {
  (void)alpha;
  (void)beta;
  return cuvil_softplus_f32(x);
}

static float cuvil_gate_hard_sigmoid(float x, float alpha, float beta) {
  const float y = alpha * x + beta;
  return y < 0.0f ? 0.0f : (y > 1.0f ? 1.0f : y);
}

static float cuvil_gate_scaled_tanh(float x, float alpha, float beta) {
  return alpha * cuvil_tanh_f32(beta * x);
}

static float cuvil_gate_affine(float x, float alpha, float beta) {
  return alpha * x + beta;
}

static float cuvil_gate_leaky_relu(float x, float alpha, float beta) {
  (void)beta;
  return x < 0.0f ? alpha * x : x;
}

static float cuvil_gate_thresholded_relu(float x, float alpha, float beta) {
  (void)beta;
  return x <= alpha ? 0.0f : x;
}

static float cuvil_gate_elu(float x, float alpha, float beta) {
  (void)beta;
  return x > 0.0f ? x : alpha * cuvil_expm1_f32(x);
}

static inline float cuvil_clip(const cuvil_layer *a, float x) {
  if (!(a->clip > 0.0f)) return x;
  return x < -a->clip ? -a->clip : (x > a->clip ? a->clip : x);
}

// Rows by a [k, n] matrix in panels, to rows `step` apart; `more`: added to what is there.
static CUVIL_INLINE void cuvil_rows_product(const float *const *rows, ptrdiff_t count, ptrdiff_t k,
                                            const float *w, ptrdiff_t n, bool more, float *to,
                                            ptrdiff_t step) {
  float tile[CUVIL_ROWS * CUVIL_COLUMNS];
  for (ptrdiff_t n0 = 0; n0 < n; n0 += CUVIL_COLUMNS) {
    const ptrdiff_t columns = cuvil_minimum(CUVIL_COLUMNS, n - n0);
    cuvil_tile_f32(rows, count, 1, k, w, n0, n, tile);
    for (ptrdiff_t i = 0; i < count; ++i) {
      float *const line = to + i * step + n0;
      for (ptrdiff_t j = 0; j < columns; ++j)
        line[j] = tile[i * CUVIL_COLUMNS + j] + (more ? line[j] : 0.0f);
    }
  }
}

static inline float cuvil_bias_at(const cuvil_layer *a, ptrdiff_t line) {
  return a->bias ? a->bias[line] : 0.0f;
}

// gates: what the input gives, 4 * hidden; state and cell go on to the next step.
static void cuvil_lstm_step(const cuvil_layer *a, float *gates, float *state, float *cell) {
  const ptrdiff_t n = a->hidden;
  const float *const peep = a->peephole, *const row = state;
  cuvil_rows_product(&row, 1, n, a->r, 4 * n, true, gates, 0);
  for (ptrdiff_t u = 0; u < n; ++u) {
    float i = gates[u] + cuvil_bias_at(a, u);
    float o = gates[n + u] + cuvil_bias_at(a, n + u);
    float f = gates[2 * n + u] + cuvil_bias_at(a, 2 * n + u);
    const float c = gates[3 * n + u] + cuvil_bias_at(a, 3 * n + u);
    if (peep) {
      i += peep[u] * cell[u];
      f += peep[2 * n + u] * cell[u];
    }
    i = a->functions[0](cuvil_clip(a, i), a->alpha[0], a->beta[0]);
    f = a->input_forget ? 1.0f - i : a->functions[0](cuvil_clip(a, f), a->alpha[0], a->beta[0]);
    cell[u] = f * cell[u] + i * a->functions[1](cuvil_clip(a, c), a->alpha[1], a->beta[1]);
    if (peep) o += peep[n + u] * cell[u];
    o = a->functions[0](cuvil_clip(a, o), a->alpha[0], a->beta[0]);
    state[u] = o * a->functions[2](cell[u], a->alpha[2], a->beta[2]);
  }
}

static void cuvil_gru_step(const cuvil_layer *a, float *gates, float *state, float *reset) {
  const ptrdiff_t n = a->hidden;
  const float *const row = state, *const gated = reset;
  float *back = reset + n;
  cuvil_rows_product(&row, 1, n, a->r, 2 * n, true, gates, 0);
  for (ptrdiff_t u = 0; u < 2 * n; ++u) {
    const float sum = gates[u] + cuvil_bias_at(a, u);
    gates[u] = a->functions[0](cuvil_clip(a, sum), a->alpha[0], a->beta[0]);
  }
  for (ptrdiff_t u = 0; u < n; ++u)
    reset[u] = a->linear_before_reset ? state[u] : gates[n + u] * state[u];
  cuvil_rows_product(&gated, 1, n, a->r + 2 * n * n, n, false, back, 0);
  for (ptrdiff_t u = 0; u < n; ++u) {
    const float sum = back[u] + cuvil_bias_at(a, 3 * n + u);
    const float add = a->linear_before_reset ? gates[n + u] * sum : sum;
    const float argument = gates[2 * n + u] + cuvil_bias_at(a, 2 * n + u) + add;
    const float new = a->functions[1](cuvil_clip(a, argument), a->alpha[1], a->beta[1]);
    state[u] = (1.0f - gates[u]) * new + gates[u] * state[u];
  }
}

static void cuvil_rnn_step(const cuvil_layer *a, float *gates, float *state, float *unused) {
  const ptrdiff_t n = a->hidden;
  const float *const row = state;
  (void)unused;
  cuvil_rows_product(&row, 1, n, a->r, n, true, gates, 0);
  for (ptrdiff_t u = 0; u < n; ++u) {
    const float sum = gates[u] + cuvil_bias_at(a, u);
    state[u] = a->functions[0](cuvil_clip(a, sum), a->alpha[0], a->beta[0]);
  }
}

// scratch: CUVIL_AHEAD steps of gates, the state, the cell, and two more rows.
#define CUVIL_AHEAD (CUVIL_ROWS < 4 ? CUVIL_ROWS : 4)

static void cuvil_recurrent(const cuvil_layer *a, ptrdiff_t gates,
                            void (*step)(const cuvil_layer *, float *, float *, float *)) {
  const ptrdiff_t n = a->hidden, columns = gates * n;
  float *ahead = a->scratch, *state = ahead + CUVIL_AHEAD * columns, *cell = state + n;
  for (ptrdiff_t row = 0; row < a->batch; ++row) {
    const ptrdiff_t asked = a->lengths ? (ptrdiff_t)a->lengths[row]
                                       : (a->lengths32 ? (ptrdiff_t)a->lengths32[row] : a->steps);
    const ptrdiff_t length = cuvil_maximum(0, cuvil_minimum(a->steps, asked));
    const ptrdiff_t from = (a->direction * a->batch + row) * n;
    for (ptrdiff_t u = 0; u < n; ++u) {
      state[u] = a->h0 ? a->h0[from + u] : 0.0f;
      cell[u] = a->c0 ? a->c0[from + u] : 0.0f;
    }
    for (ptrdiff_t s = 0; s < a->steps; ++s) {
      const ptrdiff_t t = a->backward ? a->steps - 1 - s : s, place = s % CUVIL_AHEAD;
      float *y = a->y + ((t * a->directions + a->direction) * a->batch + row) * n;
      if (place == 0) { /* the inputs' part of the next few steps: w is read once for them */
        const ptrdiff_t some = cuvil_minimum(CUVIL_AHEAD, a->steps - s);
        const float *rows[CUVIL_ROWS];
        for (ptrdiff_t i = 0; i < some; ++i)
          rows[i] = a->x + ((a->backward ? t - i : t + i) * a->batch + row) * a->size;
        cuvil_rows_product(rows, some, a->size, a->w, columns, false, ahead, columns);
      }
      if (t < length) step(a, ahead + place * columns, state, cell);
      for (ptrdiff_t u = 0; u < n; ++u) y[u] = t < length ? state[u] : 0.0f;
    }
    for (ptrdiff_t u = 0; u < n; ++u) {
      a->h[from + u] = a->steps > 0 && length == 0 ? 0.0f : state[u];
      if (a->c) a->c[from + u] = a->steps > 0 && length == 0 ? 0.0f : cell[u];
    }
  }
}

// softmax(q k^T scale + mask) v. Strides are in elements, the last dimension is contiguous.
typedef struct {
  ptrdiff_t batch, heads, kv_heads, q_len, kv_len, head_dim, v_dim;
  const float *q, *k, *v;
  ptrdiff_t q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row;
  const float *added;
  const uint8_t *shown;
  ptrdiff_t mask_batch, mask_head, mask_row, mask_col;
  bool causal, zero_masked_rows, zero_nan_rows;
  ptrdiff_t causal_offset;
  float scale;
  float *out;
  ptrdiff_t out_batch, out_head, out_row;
  float *keys, *values, *scores;
} cuvil_attention_args;

// The scores of one query as weights. NaN goes through; -inf everywhere is NaN, or 0 if asked.
static void cuvil_weigh(const cuvil_attention_args *a, float *scores, ptrdiff_t b, ptrdiff_t h,
                        ptrdiff_t i) {
  const ptrdiff_t mask = b * a->mask_batch + h * a->mask_head + i * a->mask_row;
  float top = -__builtin_inff(), sum = 0.0f;
  for (ptrdiff_t j = 0; j < a->kv_len; ++j) {
    float s = scores[j] * a->scale;
    if (a->added) s += a->added[mask + j * a->mask_col];
    if (a->shown && !a->shown[mask + j * a->mask_col]) s = -__builtin_inff();
    if (a->causal && j > i + a->causal_offset) s = -__builtin_inff();
    scores[j] = s;
    top = cuvil_max_f32(s, top);
  }
  if (top == -__builtin_inff() && a->zero_masked_rows) {
    for (ptrdiff_t j = 0; j < a->kv_len; ++j) scores[j] = 0.0f;
    return;
  }
  for (ptrdiff_t j = 0; j < a->kv_len; ++j) {
    scores[j] = cuvil_exp_f32(scores[j] - top);
    sum += scores[j];
  }
  if (sum != sum && a->zero_nan_rows) {
    for (ptrdiff_t j = 0; j < a->kv_len; ++j) scores[j] = 0.0f;
    return;
  }
  for (ptrdiff_t j = 0; j < a->kv_len; ++j) scores[j] /= sum;
}

static void cuvil_pack(float *to, const float *b, ptrdiff_t k, ptrdiff_t n, ptrdiff_t row,
                       ptrdiff_t column) {
  for (ptrdiff_t n0 = 0; n0 < n; n0 += CUVIL_PANEL) {
    cuvil_pack_panel(to + n0 * k, b + n0 * column, k, cuvil_minimum(CUVIL_PANEL, n - n0), row,
                     column);
  }
}

static void cuvil_attention(const cuvil_attention_args *a) {
  for (ptrdiff_t b = 0; b < a->batch; ++b) {
    for (ptrdiff_t h = 0; h < a->heads; ++h) {
      const ptrdiff_t from = h / (a->heads / a->kv_heads);
      cuvil_pack(a->keys, a->k + b * a->k_batch + from * a->k_head, a->head_dim, a->kv_len, 1,
                 a->k_row);
      cuvil_pack(a->values, a->v + b * a->v_batch + from * a->v_head, a->kv_len, a->v_dim, a->v_row,
                 1);
      for (ptrdiff_t i0 = 0; i0 < a->q_len; i0 += CUVIL_AT_ONCE) {
        const ptrdiff_t count = cuvil_minimum(CUVIL_AT_ONCE, a->q_len - i0);
        const float *rows[CUVIL_ROWS];
        float *out = a->out + b * a->out_batch + h * a->out_head + i0 * a->out_row;
        for (ptrdiff_t i = 0; i < count; ++i)
          rows[i] = a->q + b * a->q_batch + h * a->q_head + (i0 + i) * a->q_row;
        cuvil_rows_product(rows, count, a->head_dim, a->keys, a->kv_len, false, a->scores, a->kv_len);
        for (ptrdiff_t i = 0; i < count; ++i) {
          rows[i] = a->scores + i * a->kv_len;
          cuvil_weigh(a, a->scores + i * a->kv_len, b, h, i0 + i);
        }
        cuvil_rows_product(rows, count, a->kv_len, a->values, a->v_dim, false, out, a->out_row);
      }
    }
  }
}

// Queries at once.
#define CUVIL_AT_ONCE CUVIL_ROWS
