// Attention on a matrix unit: queries in tiles of 32 rows against keys and values packed in pairs.
#include "attention_bf16.hpp"

#include "attention_rows.hpp"
#include "pair_output.hpp"

namespace cuvil {
#if CUVIL_AMX
namespace {

// Two vectors' elements as one vector of pairs, in order.
CUVIL_INLINE vf paired(vf low, vf high) {
  return (vf)__builtin_ia32_cvtne2ps2bf16_512(high, low);
}

CUVIL_INLINE vf load_part(const float* p, int64_t n) {
  return n >= VL ? load(p) : (n > 0 ? load_n(p, n) : vf{});
}

// The 32 elements from p on, of which n exist, rounded.
CUVIL_INLINE vf load_pairs(const float* p, int64_t n) {
  return paired(load_part(p, n), load_part(p + VL, n - VL));
}

// Keys into panels [ceil(n / 32)][steps of 16 pairs of dim][32] of pairs; what doesn't exist is 0.
void pack_keys(float* dst, const float* k, int64_t row, int64_t n, int64_t dim) {
  const int64_t pairs = round_up(dim, 32) / 2;
  for (int64_t j = 0; j < round_up(n, NR); j += VL) {
    float* panel = dst + j / NR * NR * pairs + j % NR;
    for (int64_t d = 0; d < dim; d += 2 * VL) {
      vf rows[VL];
#pragma unroll
      for (int i = 0; i < VL; ++i)
        rows[i] = j + i < n ? load_pairs(k + (j + i) * row + d, dim - d) : vf{};
      transpose(rows);
#pragma unroll
      for (int i = 0; i < VL; ++i) store(panel + (d / 2 + i) * NR, rows[i]);
    }
  }
}

// Values into panels [ceil(dim / 32)][pairs of keys, steps of 16][32]; a pair is two keys' elements
// of one column. `length`: keys of a panel, at least n.
void pack_values(float* dst, const float* v, int64_t row, int64_t n, int64_t dim, int64_t length) {
  for (int64_t c = 0; c < dim; c += VL) {
    float* panel = dst + c / NR * NR * (length / 2) + c % NR;
    const int64_t width = dim - c;
    for (int64_t j = 0; j < round_up(n, 32); j += 2) {
      const float* src = v + j * row + c;
      const vf even = j < n ? load_part(src, width) : vf{};
      const vf odd = j + 1 < n ? load_part(src + row, width) : vf{};
      const bits low = __builtin_convertvector(rounded(even), bits);
      const bits high = __builtin_convertvector(rounded(odd), bits);
      store(panel + j / 2 * NR, (vf)(low | high << 16));
    }
  }
}

void round_row(char* dst, const float* src, int64_t n) {
  for (int64_t d = 0; d < n; d += 2 * VL)
    store(reinterpret_cast<float*>(dst) + d / 2, load_pairs(src + d, n - d));
}

struct Workspace {
  int64_t dim, width, length, block;  // padded: of a query, of a value, keys; keys of a block
  float* keys;
  float* values;
  char* queries;
  char* weights;
  float* scores;
  float* total;
  float* tile;
  RowState* state;

  Workspace(const AttentionArgs& a, int32_t thread) {
    dim = round_up(a.head_dim, 32);
    width = round_up(a.v_dim, 32);
    length = round_up(a.kv_len, 32);
    block = attention_block(a.kv_len, a.key_block);
    char* next = static_cast<char*>(a.scratch) +
                 thread * attention_unit_bytes(a.kv_len, a.head_dim, a.v_dim, a.key_block);
    const auto take = [&](int64_t bytes) {
      char* const here = next;
      next += bytes;
      return here;
    };
    keys = reinterpret_cast<float*>(take(length * dim * 2));
    values = reinterpret_cast<float*>(take(length * width * 2));
    queries = take(AMX_ROWS * amx_row_bytes(dim / 2));
    weights = take(AMX_ROWS * amx_row_bytes(block / 2));
    scores = reinterpret_cast<float*>(take(AMX_ROWS * block * 4));
    total = reinterpret_cast<float*>(take(AMX_ROWS * width * 4));
    tile = reinterpret_cast<float*>(take(AMX_ROWS * NR * 4));
    state = reinterpret_cast<RowState*>(take(AMX_ROWS * sizeof(RowState)));
  }

  AmxRows query_rows() const { return {queries, amx_row_bytes(dim / 2)}; }
  AmxRows weight_rows() const { return {weights, amx_row_bytes(block / 2)}; }
};

// Scores of a block's keys; columns up to whole panels are written.
void score_block(const Workspace& w, int64_t mr, int64_t j0, int64_t n) {
  for (int64_t j = 0; j < n; j += NR) {
    const float* panel = w.keys + (j0 + j) * (w.dim / 2);
    amx_multiply(w.query_rows(), mr, reinterpret_cast<const char*>(panel), nullptr, w.dim / 2, NR,
                 w.scores + j, w.block);
  }
}

// Adds a finished tile of a block's values to the running output, or starts or ends it.
CUVIL_INLINE void gather_row(const Head& h, const Workspace& w, int64_t i, int64_t r, int64_t c,
                             float keep, bool first, bool last) {
  const AttentionArgs& a = h.args;
  float* tile = w.tile + r * NR;
  float* total = w.total + r * w.width + c;
  for (int u = 0; u < NR; u += VL) {
    vf sum = load(tile + u);
    if (!first) sum += load(total + u) * keep;
    store((last ? tile : total) + u, sum);
  }
  if (last)
    scale_store(h.out + i * a.out_row + c, tile, min64(NR, a.v_dim - c), row_norm(a, w.state[r]));
}

// Queries [i0, i0 + mr) against the packed keys and values.
void attend_tile(const Head& h, const Workspace& w, int64_t i0, int64_t mr) {
  const AttentionArgs& a = h.args;
  const int64_t end = h.visible(i0 + mr - 1);
  float keep[AMX_ROWS];
  for (int64_t r = 0; r < mr; ++r) {
    round_row(w.queries + r * w.query_rows().row_bytes, h.q + (i0 + r) * a.q_row, a.head_dim);
    w.state[r] = {kNegInf, 0.0f};
  }
  int64_t j0 = 0;
  do {
    const int64_t n = min64(w.block, end - j0), padded = round_up(n, 32);
    const bool first = j0 == 0, last = j0 + n >= end;
    score_block(w, mr, j0, n);
    for (int64_t r = 0; r < mr; ++r) {
      float* const row = w.scores + r * w.block;
      keep[r] = soften_row(h, i0 + r, j0, row, n, padded, &w.state[r]);
      round_row(w.weights + r * w.weight_rows().row_bytes, row, padded);
    }
    for (int64_t c = 0; c < a.v_dim; c += NR) {
      const float* panel = w.values + (c * w.length + j0 * NR) / 2;
      amx_multiply(w.weight_rows(), mr, reinterpret_cast<const char*>(panel), nullptr, padded / 2,
                   a.v_dim - c, w.tile, NR);
      for (int64_t r = 0; r < mr; ++r) gather_row(h, w, i0 + r, r, c, keep[r], first, last);
    }
    j0 += n;
  } while (j0 < end);
  if (!a.zero_nan_rows) return;
  for (int64_t r = 0; r < mr; ++r)
    if (has_nan_weights(a, w.state[r])) weigh_nothing(h, i0 + r);
}

void attend_unit(const AttentionArgs& a, const Plan& plan, int64_t unit, int32_t thread) {
  const Workspace w(a, thread);
  const Unit u(a, plan, unit);
  const Head shared(a, u.batch, u.head);
  const int64_t keys = shared.visible(u.end - 1);
  pack_keys(w.keys, shared.k, a.k_row, keys, a.head_dim);
  pack_values(w.values, shared.v, a.v_row, keys, a.v_dim, w.length);
  amx_begin();
  for (int64_t g = 0; g < plan.group; ++g) {
    const Head h(a, u.batch, u.head + g);
    for (int64_t i = u.begin; i < u.end; i += AMX_ROWS)
      attend_tile(h, w, i, min64(AMX_ROWS, u.end - i));
  }
  amx_end();
}

}  // namespace
#endif

void attention_bf16(const AttentionArgs& a) {
#if CUVIL_AMX
  if (a.q_len >= kFewQueries && amx_ready())
    return attend_all(a, [&](const Plan& plan, int64_t unit, int32_t thread) {
      attend_unit(a, plan, unit, thread);
    });
#endif
  attention_f32(a);
}

}  // namespace cuvil
