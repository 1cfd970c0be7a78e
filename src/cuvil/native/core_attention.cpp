// Attention: queries in tiles of MR rows against packed keys and values; few queries go row by row
// over the keys as they lie.
#include "attention.hpp"

#include "attention_rows.hpp"
#include "shuffle.hpp"
#include "tile.hpp"

namespace cuvil {
namespace {

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

void attend_unit(const AttentionArgs& a, const Plan& plan, const Unit& u, int32_t thread) {
  const Workspace w(a, thread);
  if (!plan.direct) {
    const Head h(a, u.batch, u.head);
    const int64_t keys = h.visible(u.end - 1);
    pack_keys(w.keys, h.k, a.k_row, keys, a.head_dim);
    // Panels lie kv_len rows apart however many are filled.
    for (int64_t c = 0; c < a.v_dim; c += NR)
      pack_values(w.values + c * a.kv_len, h.v + c, a.v_row, keys, min64(NR, a.v_dim - c));
  }
  for (int64_t g = 0; g < plan.group; ++g) {
    const Head h(a, u.batch, u.head + g);
    if (!plan.direct) {
      attend_rows(h, w, u.begin, u.end);
    } else {
      for (int64_t i = u.begin; i < u.end; ++i) attend_row(h, w, i);
    }
  }
}

}  // namespace

void attention_f32(const AttentionArgs& a) {
  attend_all(a, [&](const Plan& plan, const Unit& u, int32_t thread) {
    attend_unit(a, plan, u, thread);
  });
}

}  // namespace cuvil
