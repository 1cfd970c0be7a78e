// Attention: queries in tiles of MR rows against packed keys and values; few queries go row by row
// over the keys as they lie.
#include "attention.hpp"

#include "shuffle.hpp"
#include "softmax_row.hpp"
#include "tile.hpp"

namespace cuvil {
namespace {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kNegInf = -__builtin_inff();
constexpr int64_t kFewQueries = 4;  // below this, packing costs more than the tile saves

// Keys into panels [ceil(n / NR)][dim][NR]; lanes past the last key are zero.
void pack_keys(float* dst, const float* k, int64_t row, int64_t n, int64_t dim) {
  for (int64_t j = 0; j < round_up(n, NR); j += VL) {
    float* panel = dst + j / NR * NR * dim + j % NR;
    for (int64_t d = 0; d < dim; d += VL) {
      const int64_t width = min64(VL, dim - d);
      vf rows[VL];
#pragma unroll
      for (int i = 0; i < VL; ++i) {
        const float* src = k + (j + i) * row + d;
        rows[i] = j + i >= n ? vf{} : (width == VL ? load(src) : load_n(src, width));
      }
      transpose(rows);
#pragma unroll
      for (int i = 0; i < VL; ++i)
        if (i < width) store(panel + (d + i) * NR, rows[i]);
    }
  }
}

// Values into panels [ceil(dim / NR)][n][NR]; columns past dim are zero.
void pack_values(float* dst, const float* v, int64_t row, int64_t n, int64_t dim) {
  for (int64_t c = 0; c < dim; c += NR, dst += n * NR) {
    for (int u = 0; u < NR; u += VL) {
      const int64_t width = max64(0, min64(VL, dim - c - u));
      const float* src = v + c + u;
      if (width == VL) {
        for (int64_t j = 0; j < n; ++j) store(dst + j * NR + u, load(src + j * row));
      } else {
        for (int64_t j = 0; j < n; ++j)
          store(dst + j * NR + u, width ? load_n(src + j * row, width) : vf{});
      }
    }
  }
}

// One head's view of the arguments.
struct Head {
  const AttentionArgs& args;
  const float* q;
  const float* k;
  const float* v;
  float* out;
  const char* mask;  // of the first row and column

  Head(const AttentionArgs& a, int64_t b, int64_t h) : args(a) {
    const int64_t group = a.heads / a.kv_heads;
    q = a.q + b * a.q_batch + h * a.q_head;
    k = a.k + b * a.k_batch + h / group * a.k_head;
    v = a.v + b * a.v_batch + h / group * a.v_head;
    out = a.out + b * a.out_batch + h * a.out_head;
    const int64_t bytes = a.mask_kind == 2 ? 1 : 4;
    mask = static_cast<const char*>(a.mask) + (b * a.mask_batch + h * a.mask_head) * bytes;
  }

  // Keys that query i may see.
  int64_t visible(int64_t i) const {
    if (!args.causal) return args.kv_len;
    return max64(0, min64(args.kv_len, i + args.causal_offset + 1));
  }
};

// Scores s[0..n) of keys j0.. of query i become log2-scaled, with the mask in.
void add_mask(const Head& h, int64_t i, int64_t j0, float* s, int64_t n, float scale) {
  const AttentionArgs& a = h.args;
  const int64_t at = i * a.mask_row + j0 * a.mask_col;
  if (a.mask_kind == 1) {
    const float* m = reinterpret_cast<const float*>(h.mask) + at;
    if (a.mask_col == 1) {
      for (int64_t j = 0; j < n; ++j) s[j] = s[j] * scale + m[j] * kLog2E;
    } else {
      for (int64_t j = 0; j < n; ++j) s[j] = s[j] * scale + m[j * a.mask_col] * kLog2E;
    }
    return;
  }
  const uint8_t* m = reinterpret_cast<const uint8_t*>(h.mask) + at;
  if (a.mask_col == 1) {
    for (int64_t j = 0; j < n; ++j) s[j] = m[j] ? s[j] * scale : kNegInf;
  } else {
    for (int64_t j = 0; j < n; ++j) s[j] = m[j * a.mask_col] ? s[j] * scale : kNegInf;
  }
}

struct RowState {
  float top, sum;  // the largest log2 score so far, and the weights' sum relative to it
};

// Turns the scores of query i against keys [j0, j0 + n) into weights, `padded` columns wide, and
// brings the row's state up to date. Returns the factor for what was accumulated before.
CUVIL_INLINE float soften_row(const Head& h, int64_t i, int64_t j0, float* s, int64_t n,
                              int64_t padded, RowState* state) {
  const AttentionArgs& a = h.args;
  const int64_t seen = max64(0, min64(n, h.visible(i) - j0));
  float scale = a.scale * kLog2E;
  // -inf must stay itself under a scale <= 0, so such scores (and masked ones) are scaled here.
  const bool masked = a.mask_kind != 0, odd_scale = !(scale > 0.0f && scale < __builtin_inff());
  if (masked) {
    add_mask(h, i, j0, s, seen, scale);
    scale = 1.0f;
  } else if (odd_scale) {
    for (int64_t j = 0; j < seen; ++j) s[j] *= scale;
    scale = 1.0f;
  }
  for (int64_t j = seen; j < padded; ++j) s[j] = kNegInf;
  const float high = row_max(s, padded) * scale;
  const float top = high > state->top ? high : state->top;
  // Nothing seen yet: any finite top gives weights 0 and keeps -inf - -inf out.
  const float base = top == kNegInf ? 0.0f : top;
  const float sum = row_weights(s, padded, scale, base);
  const float keep = state->top == kNegInf ? 0.0f : exp2_nonpositive(splat(state->top - base))[0];
  state->sum = state->sum * keep + sum;
  state->top = top;
  return keep;
}

// What a row's accumulated values are multiplied by at the end. Every score -inf leaves sum 0; no
// keys at all make an empty sum of values, which is 0.
CUVIL_INLINE float row_norm(const AttentionArgs& a, const RowState& s) {
  if (a.kv_len == 0) return 0.0f;
  if (s.top == kNegInf && s.sum == 0.0f) return a.zero_masked_rows ? 0.0f : __builtin_nanf("");
  return 1.0f / s.sum;
}

// Whether softmax gives NaN for this row.
CUVIL_INLINE bool has_nan_weights(const AttentionArgs& a, const RowState& s) {
  return a.kv_len > 0 && (__builtin_isnan(s.sum) || (s.top == kNegInf && s.sum == 0.0f));
}

// A row of values times weights of 0: 0, or NaN where a value is no number.
void weigh_nothing(const Head& h, int64_t i) {
  const AttentionArgs& a = h.args;
  float* out = h.out + i * a.out_row;
  for (int64_t c = 0; c < a.v_dim; ++c) {
    float sum = 0.0f;
    for (int64_t j = 0; j < a.kv_len; ++j) sum += 0.0f * h.v[j * a.v_row + c];
    out[c] = sum;
  }
}

struct Workspace {
  float* keys;
  float* values;
  float* scores;
  float* total;
  float* tile;
  RowState* state;

  Workspace(const AttentionArgs& a, int32_t thread) {
    keys = static_cast<float*>(a.scratch) +
           thread * attention_scratch_floats(a.kv_len, a.head_dim, a.v_dim, a.key_block);
    values = keys + round_up(round_up(a.kv_len, NR) * a.head_dim, 16);
    scores = values + round_up(a.kv_len * round_up(a.v_dim, NR), 16);
    total = scores + MR * attention_block(a.kv_len, a.key_block);
    tile = total + MR * round_up(a.v_dim, NR);
    state = reinterpret_cast<RowState*>(tile + MR * NR);
  }
};

CUVIL_INLINE void scale_store(float* dst, const float* src, int64_t n, float factor) {
  int64_t c = 0;
  for (; c + VL <= n; c += VL) store(dst + c, load(src + c) * factor);
  if (c < n) store_n(dst + c, load(src + c) * factor, n - c);
}

// Weights of one block times its values, added to the running output (or started, or finished).
void add_values(const Head& h, const Workspace& w, int64_t i0, int64_t mr, int64_t j0, int64_t n,
                const float* keep, bool first, bool last) {
  const AttentionArgs& a = h.args;
  const int64_t block = attention_block(a.kv_len, a.key_block), width = round_up(a.v_dim, NR);
  const float* rows[MR];
  uint32_t nan_rows = 0;
  for (int64_t r = 0; r < mr; ++r) rows[r] = w.scores + r * block;
  for (int64_t c = 0; c < a.v_dim; c += NR) {
    const int64_t cols = min64(NR, a.v_dim - c);
    const float* panel = w.values + c * a.kv_len + j0 * NR;
    multiply_tile({rows, 1, n}, mr, panel, w.tile, NR, cols, true);
    for (int64_t r = 0; r < mr; ++r) {
      float* tile = w.tile + r * NR;
      float* total = w.total + r * width + c;
      if (!first) {
        const vf k = splat(keep[r]);
        for (int u = 0; u < NR; u += VL) {
          if (u < cols) store(tile + u, load(total + u) * k + load(tile + u));
        }
      }
      if (last) {
        scale_store(h.out + (i0 + r) * a.out_row + c, tile, cols, row_norm(a, w.state[r]));
        if (c == 0 && a.zero_nan_rows && has_nan_weights(a, w.state[r])) nan_rows |= 1u << r;
      } else {
        for (int u = 0; u < NR; u += VL)
          if (u < cols) store(total + u, load(tile + u));
      }
    }
  }
  for (int64_t r = 0; nan_rows >> r; ++r)
    if (nan_rows >> r & 1) weigh_nothing(h, i0 + r);
}

// Queries [i0, i0 + mr) against the packed keys and values.
void attend_tile(const Head& h, const Workspace& w, int64_t i0, int64_t mr) {
  const AttentionArgs& a = h.args;
  const int64_t block = attention_block(a.kv_len, a.key_block), end = h.visible(i0 + mr - 1);
  const float* rows[MR];
  float keep[MR];
  for (int64_t r = 0; r < mr; ++r) {
    rows[r] = h.q + (i0 + r) * a.q_row;
    w.state[r] = {kNegInf, 0.0f};
  }
  int64_t j0 = 0;
  do {
    const int64_t n = min64(block, end - j0), padded = round_up(n, VL);
    for (int64_t j = 0; j < n; j += NR) {
      multiply_tile({rows, 1, a.head_dim}, mr, w.keys + (j0 + j) * a.head_dim, w.scores + j, block,
                    min64(NR, n - j), true);
    }
    for (int64_t r = 0; r < mr; ++r)
      keep[r] = soften_row(h, i0 + r, j0, w.scores + r * block, n, padded, &w.state[r]);
    add_values(h, w, i0, mr, j0, n, keep, j0 == 0, j0 + n >= end);
    j0 += n;
  } while (j0 < end);
}

// Queries [i0, i1) of one head, in tiles as equal as they can be.
void attend_rows(const Head& h, const Workspace& w, int64_t i0, int64_t i1) {
  const int64_t tiles = ceil_div(i1 - i0, MR);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t from = i0 + (i1 - i0) * t / tiles, to = i0 + (i1 - i0) * (t + 1) / tiles;
    attend_tile(h, w, from, to - from);
  }
}

// Scores of one query against keys [j0, j0 + n), a multiple of VL at a time.
CUVIL_INLINE void score_keys(const float* q, const float* k, int64_t row, int64_t dim, float* s,
                             int64_t n) {
  for (int64_t j = 0; j < n; j += VL) {
    vf sums[VL];
    const float* src[VL];
#pragma unroll
    for (int i = 0; i < VL; ++i) {
      sums[i] = vf{};
      src[i] = k + min64(j + i, n - 1) * row;
    }
    int64_t d = 0;
    for (; d + VL <= dim; d += VL) {
      const vf x = load(q + d);
#pragma unroll
      for (int i = 0; i < VL; ++i) sums[i] += x * load(src[i] + d);
    }
    if (d < dim) {
      const vf x = load_n(q + d, dim - d);
      for (int i = 0; i < VL; ++i) sums[i] += x * load_n(src[i] + d, dim - d);
    }
    store(s + j, sum_each(sums));
  }
}

// total[c] = total[c] * keep + sum of p[j] v[j][c], for V vectors of columns.
template <int V>
CUVIL_INLINE void weigh_values(const float* p, const float* v, int64_t row, int64_t n, float keep,
                               float* total) {
  vf acc[2][V];
  for (int u = 0; u < V; ++u) {
    acc[0][u] = load(total + u * VL) * keep;
    acc[1][u] = vf{};
  }
  int64_t j = 0;
  for (; j + 2 <= n; j += 2) {
    for (int u = 0; u < V; ++u) acc[0][u] += splat(p[j]) * load(v + j * row + u * VL);
    for (int u = 0; u < V; ++u) acc[1][u] += splat(p[j + 1]) * load(v + (j + 1) * row + u * VL);
  }
  for (; j < n; ++j)
    for (int u = 0; u < V; ++u) acc[0][u] += splat(p[j]) * load(v + j * row + u * VL);
  for (int u = 0; u < V; ++u) store(total + u * VL, acc[0][u] + acc[1][u]);
}

// One query over keys and values as they lie in memory.
void attend_row(const Head& h, const Workspace& w, int64_t i) {
  const AttentionArgs& a = h.args;
  const int64_t block = attention_block(a.kv_len, a.key_block), end = h.visible(i);
  RowState state = {kNegInf, 0.0f};
  for (int64_t c = 0; c < a.v_dim; ++c) w.total[c] = 0.0f;
  for (int64_t j0 = 0; j0 < end; j0 += block) {
    const int64_t n = min64(block, end - j0);
    float* s = w.scores;
    score_keys(h.q + i * a.q_row, h.k + j0 * a.k_row, a.k_row, a.head_dim, s, n);
    const float keep = soften_row(h, i, j0, s, n, round_up(n, VL), &state);
    const float* v = h.v + j0 * a.v_row;
    int64_t c = 0;
    for (; c + 4 * VL <= a.v_dim; c += 4 * VL)
      weigh_values<4>(s, v + c, a.v_row, n, keep, w.total + c);
    for (; c + VL <= a.v_dim; c += VL)
      weigh_values<1>(s, v + c, a.v_row, n, keep, w.total + c);
    for (; c < a.v_dim; ++c) {
      float sum = w.total[c] * keep;
      for (int64_t j = 0; j < n; ++j) sum += s[j] * v[j * a.v_row + c];
      w.total[c] = sum;
    }
  }
  scale_store(h.out + i * a.out_row, w.total, a.v_dim, row_norm(a, state));
  if (a.zero_nan_rows && has_nan_weights(a, state)) weigh_nothing(h, i);
}

// Each unit of work is a part of the queries of all heads that share one head of keys.
struct Plan {
  int64_t parts, group;
  bool direct;  // row by row, without packing

  explicit Plan(const AttentionArgs& a) {
    group = a.heads / a.kv_heads;
    direct = a.q_len < kFewQueries;
    const int64_t shared = a.batch * a.kv_heads, threads = pool_threads(a.pool);
    // Splitting repeats the packing, so it waits until heads alone would leave threads idle.
    const int64_t wanted = shared % threads == 0 || shared >= 4 * threads ? 1 : threads;
    parts = direct ? 1 : max64(1, min64(wanted, a.q_len / (2 * MR)));
  }
};

void attend_unit(const AttentionArgs& a, const Plan& plan, int64_t unit, int32_t thread) {
  const Workspace w(a, thread);
  const int64_t part = unit % plan.parts, shared = unit / plan.parts;
  const int64_t b = shared / a.kv_heads, first = shared % a.kv_heads * plan.group;
  const int64_t i0 = a.q_len * part / plan.parts, i1 = a.q_len * (part + 1) / plan.parts;
  if (!plan.direct) {
    const Head h(a, b, first);
    const int64_t keys = h.visible(i1 - 1);
    pack_keys(w.keys, h.k, a.k_row, keys, a.head_dim);
    // Panels lie kv_len rows apart however many are filled.
    for (int64_t c = 0; c < a.v_dim; c += NR)
      pack_values(w.values + c * a.kv_len, h.v + c, a.v_row, keys, min64(NR, a.v_dim - c));
  }
  for (int64_t g = 0; g < plan.group; ++g) {
    const Head h(a, b, first + g);
    if (!plan.direct) {
      attend_rows(h, w, i0, i1);
    } else {
      for (int64_t i = i0; i < i1; ++i) attend_row(h, w, i);
    }
  }
}

}  // namespace

void attention_f32(const AttentionArgs& a) {
  if (a.batch <= 0 || a.heads <= 0 || a.q_len <= 0 || a.v_dim <= 0) return;
  const Plan plan(a);
  const int64_t units = a.batch * a.kv_heads * plan.parts;
  // A unit below some ten microseconds is not worth waking a thread for.
  const int64_t work = a.q_len * a.kv_len * (a.head_dim + a.v_dim) * plan.group / plan.parts;
  const int64_t grain = max64(1, (int64_t(1) << 18) / max64(1, work));
  parallel_for(a.pool, units, grain, [&](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t u = begin; u < end; ++u) attend_unit(a, plan, u, thread);
  });
}

}  // namespace cuvil
