// Attention in pairs of bf16: queries in tiles against keys and values packed in pairs, on a matrix
// unit or by the dot product of pairs.
#include "attention_bf16.hpp"

#include "tile_bf16.hpp"
#if CUVIL_PAIR_ATTENTION
#include "attention_pairs.hpp"
#endif

namespace cuvil {
#if CUVIL_PAIR_ATTENTION
namespace {

static_assert(MR <= AMX_ROWS, "the scratch is for a matrix unit's rows");

// Rows of pairs, `bytes` from one to the next.
struct RoundedRows {
  char* first;
  int64_t bytes;

  char* at(int64_t r) const { return first + r * bytes; }
};

// What multiplies the rows of a tile, of which next() takes so many of those that are left:
//   out[i, j] = sum over k < pairs(n) of rows[i][k] panel[k][j]
// Rows and panels have whole steps of 32 elements; in one of both those past n are 0.
struct DotUnit {
  static void begin() {}
  static void end() {}
  // Tiles as equal as they can be: a row less is that much time less.
  static int64_t next(int64_t left) { return ceil_div(left, ceil_div(left, MR)); }
  static int64_t pairs(int64_t n) { return ceil_div(n, 2); }
  static void multiply(const RoundedRows& rows, int64_t mr, const float* panel, int64_t pairs,
                       int64_t columns, float* out, int64_t ld) {
    const float* table[MR];
    for (int64_t r = 0; r < mr; ++r) table[r] = reinterpret_cast<const float*>(rows.at(r));
    multiply_tile_bf16({table, 1, pairs}, mr, panel, out, ld, min64(NR, columns), true);
  }
};

#if CUVIL_AMX && CUVIL_PAIR_ATTENTION
struct MatrixUnit {
  static void begin() { amx_begin(); }
  static void end() { amx_end(); }
  static int64_t next(int64_t left) { return min64(left, AMX_ROWS); }
  static int64_t pairs(int64_t n) { return round_up(n, 32) / 2; }
  static void multiply(const RoundedRows& rows, int64_t mr, const float* panel, int64_t pairs,
                       int64_t columns, float* out, int64_t ld) {
    amx_multiply({rows.first, rows.bytes}, mr, reinterpret_cast<const char*>(panel), nullptr, pairs,
                 columns, out, ld);
  }
};
#endif

struct PairSpace {
  int64_t dim, width, length, block;  // padded: of a query, of a value, keys; keys of a block
  float* keys;
  float* values;
  RoundedRows queries, weights;
  float* scores;
  float* total;
  float* tile;
  float* top;  // of each row: RowState
  float* sum;

  PairSpace(const AttentionArgs& a, int32_t thread) {
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
    queries.bytes = amx_row_bytes(dim / 2);
    queries.first = take(AMX_ROWS * queries.bytes);
    weights.bytes = amx_row_bytes(block / 2);
    weights.first = take(AMX_ROWS * weights.bytes);
    scores = reinterpret_cast<float*>(take(AMX_ROWS * block * 4));
    total = reinterpret_cast<float*>(take(AMX_ROWS * width * 4));
    tile = reinterpret_cast<float*>(take(AMX_ROWS * NR * 4));
    top = reinterpret_cast<float*>(take(AMX_ROWS * 4));
    sum = reinterpret_cast<float*>(take(AMX_ROWS * 4));
  }

  RowState state(int64_t r) const { return {top[r], sum[r]}; }
};

// Scores of a block's keys; columns up to whole vectors are written.
template <class On>
void score_block(const PairSpace& w, int64_t mr, int64_t head_dim, int64_t j0, int64_t n) {
  for (int64_t j = 0; j < n; j += NR) {
    const float* panel = w.keys + (j0 + j) * (w.dim / 2);
    On::multiply(w.queries, mr, panel, On::pairs(head_dim), n - j, w.scores + j, w.block);
  }
}

// Adds a finished tile of a block's values to the running output, or starts or ends it.
CUVIL_INLINE void gather_row(const Head& h, const PairSpace& w, int64_t i, int64_t r, int64_t c,
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
    scale_store(h.out + i * a.out_row + c, tile, min64(NR, a.v_dim - c), row_norm(a, w.state(r)));
}

// Queries [i0, i0 + mr) against the packed keys and values.
template <class On>
void attend_pair_tile(const Head& h, const PairSpace& w, int64_t i0, int64_t mr) {
  const AttentionArgs& a = h.args;
  const int64_t end = h.visible(i0 + mr - 1);
  float keep[AMX_ROWS];
  for (int64_t r = 0; r < mr; ++r) round_row(w.queries.at(r), h.q + (i0 + r) * a.q_row, a.head_dim);
  fill_floats(w.top, kNegInf, AMX_ROWS);
  fill_floats(w.sum, 0.0f, AMX_ROWS);
  int64_t j0 = 0;
  do {
    const int64_t n = min64(w.block, end - j0);
    const bool first = j0 == 0, last = j0 + n >= end;
    score_block<On>(w, mr, a.head_dim, j0, n);
    for (int64_t r = 0; r < mr; r += VL) {
      const SoftRows rows = {w.scores + r * w.block, w.block, w.weights.at(r), w.weights.bytes};
      soften_rows(h, i0 + r, min64(VL, mr - r), j0, n, rows, w.top + r, w.sum + r, keep + r);
    }
    for (int64_t c = 0; c < a.v_dim; c += NR) {
      const float* panel = w.values + (c * w.length + j0 * NR) / 2;
      On::multiply(w.weights, mr, panel, On::pairs(n), a.v_dim - c, w.tile, NR);
      for (int64_t r = 0; r < mr; ++r) gather_row(h, w, i0 + r, r, c, keep[r], first, last);
    }
    j0 += n;
  } while (j0 < end);
  if (!a.zero_nan_rows) return;
  for (int64_t r = 0; r < mr; ++r)
    if (has_nan_weights(a, w.state(r))) weigh_nothing(h, i0 + r);
}

template <class On>
void attend_pair_unit(const AttentionArgs& a, const Plan& plan, const Unit& u, int32_t thread) {
  const PairSpace w(a, thread);
  const Head shared(a, u.batch, u.head);
  const int64_t keys = shared.visible(u.end - 1);
  pack_key_pairs(w.keys, shared.k, a.k_row, keys, a.head_dim);
  pack_value_pairs(w.values, shared.v, a.v_row, keys, a.v_dim, w.length);
  On::begin();
  for (int64_t g = 0; g < plan.group; ++g) {
    const Head h(a, u.batch, u.head + g);
    for (int64_t i = u.begin, rows; i < u.end; i += rows) {
      rows = On::next(u.end - i);
      attend_pair_tile<On>(h, w, i, rows);
    }
  }
  On::end();
}

template <class On>
void attend_on(const AttentionArgs& a) {
  attend_all(a, [&](const Plan& plan, const Unit& u, int32_t thread) {
    attend_pair_unit<On>(a, plan, u, thread);
  });
}

}  // namespace
#endif

void attention_bf16(const AttentionArgs& a) {
#if CUVIL_AMX && CUVIL_PAIR_ATTENTION
  if (a.q_len >= kFewQueries && amx_ready()) return attend_on<MatrixUnit>(a);
#endif
#if CUVIL_PAIR_ATTENTION
  if (a.q_len >= kFewQueries) return attend_on<DotUnit>(a);
#endif
  attention_f32(a);
}

}  // namespace cuvil
