// What the forms of attention share: a head's view of the arguments, the softmax of a row of scores
// block by block, and how the work is cut. Internal to the core.
#pragma once
#include "attention.hpp"
#include "softmax_row.hpp"
#include "threads.hpp"

namespace cuvil {

constexpr float kLog2E = 1.4426950408889634f;
constexpr float kNegInf = -__builtin_inff();
constexpr int64_t kFewQueries = 4;  // below this, packing costs more than the tile saves

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

// Scores s[0..n) of keys j0.. of query i are scaled, and the mask is put in.
inline void add_mask(const Head& h, int64_t i, int64_t j0, float* s, int64_t n, float scale) {
  const AttentionArgs& a = h.args;
  const int64_t at = i * a.mask_row + j0 * a.mask_col;
  if (a.mask_kind == 1) {
    const float* m = reinterpret_cast<const float*>(h.mask) + at;
    if (a.mask_col == 1) {
      for (int64_t j = 0; j < n; ++j) s[j] = s[j] * scale + m[j];
    } else {
      for (int64_t j = 0; j < n; ++j) s[j] = s[j] * scale + m[j * a.mask_col];
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
  float top, sum;  // the largest score so far, and the weights' sum relative to it
};

// Scores of query i against keys [j0, j0 + n) with the mask in, and -inf up to column `padded`.
// Returns the factor > 0 that makes log2 scores of them.
CUVIL_INLINE float mask_row(const Head& h, int64_t i, int64_t j0, float* s, int64_t n,
                            int64_t padded) {
  const AttentionArgs& a = h.args;
  const int64_t seen = max64(0, min64(n, h.visible(i) - j0));
  const float factor = a.scale * kLog2E;
  // -inf must stay itself under a scale <= 0, so such scores (and masked ones) are scaled here.
  const bool masked = a.mask_kind != 0, odd_scale = !(factor > 0.0f && factor < __builtin_inff());
  if (masked) {
    add_mask(h, i, j0, s, seen, a.scale);
  } else if (odd_scale) {
    for (int64_t j = 0; j < seen; ++j) s[j] *= a.scale;
  }
  for (int64_t j = seen; j < padded; ++j) s[j] = kNegInf;
  return masked || odd_scale ? kLog2E : factor;
}

// Turns the scores of query i against keys [j0, j0 + n) into weights, `padded` columns wide, and
// brings the row's state up to date. Returns the factor for what was accumulated before.
CUVIL_INLINE float soften_row(const Head& h, int64_t i, int64_t j0, float* s, int64_t n,
                              int64_t padded, RowState* state) {
  const float scale = mask_row(h, i, j0, s, n, padded);
  const float high = row_max(s, padded);
  const float top = high > state->top ? high : state->top;
  // Nothing seen yet: any finite top gives weights 0 and keeps -inf - -inf out.
  const float base = top == kNegInf ? 0.0f : top;
  const float sum = row_weights(s, padded, scale, base);
  const float less = (state->top - base) * scale;
  const float keep = state->top == kNegInf ? 0.0f : exp2_nonpositive(splat(less))[0];
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
inline void weigh_nothing(const Head& h, int64_t i) {
  const AttentionArgs& a = h.args;
  float* out = h.out + i * a.out_row;
  for (int64_t c = 0; c < a.v_dim; ++c) {
    float sum = 0.0f;
    for (int64_t j = 0; j < a.kv_len; ++j) sum += 0.0f * h.v[j * a.v_row + c];
    out[c] = sum;
  }
}

CUVIL_INLINE void scale_store(float* dst, const float* src, int64_t n, float factor) {
  int64_t c = 0;
  for (; c + VL <= n; c += VL) store(dst + c, load(src + c) * factor);
  if (c < n) store_n(dst + c, load(src + c) * factor, n - c);
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

// Queries [begin, end) of `group` heads from `head` on.
struct Unit {
  int64_t batch, head, begin, end;

  Unit(const AttentionArgs& a, const Plan& plan, int64_t unit) {
    const int64_t part = unit % plan.parts, shared = unit / plan.parts;
    batch = shared / a.kv_heads;
    head = shared % a.kv_heads * plan.group;
    begin = a.q_len * part / plan.parts;
    end = a.q_len * (part + 1) / plan.parts;
  }
};

// Whether all values of keys from `first` on are finite: only then 0 times them is 0.
inline bool finite_values(const Head& h, int64_t first) {
  const AttentionArgs& a = h.args;
  vf sum = {};
  for (int64_t j = first; j < a.kv_len; ++j) {
    const float* row = h.v + j * a.v_row;
    int64_t c = 0;
    for (; c + VL <= a.v_dim; c += VL) sum += load(row + c) * 0.0f;
    if (c < a.v_dim) sum += load_n(row + c, a.v_dim - c) * 0.0f;
  }
  return sum_lanes(sum) == 0.0f;
}

// Keys that are later than a query weigh 0 in its row of softmax(...) v, which makes NaN of Inf and
// NaN. The tiles leave most of them out.
inline void weigh_later_keys(const AttentionArgs& a, const Plan& plan, const Unit& u) {
  const Head shared(a, u.batch, u.head);
  const int64_t first = shared.visible(u.begin);
  if (first >= a.kv_len || finite_values(shared, first)) return;
  for (int64_t g = 0; g < plan.group; ++g) {
    const Head h(a, u.batch, u.head + g);
    for (int64_t i = u.begin; i < u.end; ++i)
      for (int64_t j = h.visible(i); j < a.kv_len; ++j)
        for (int64_t c = 0; c < a.v_dim; ++c)
          h.out[i * a.out_row + c] += 0.0f * h.v[j * a.v_row + c];
  }
}

// Calls attend(plan, unit, thread) for all units.
template <class Attend>
void attend_all(const AttentionArgs& a, const Attend& attend) {
  if (a.batch <= 0 || a.heads <= 0 || a.q_len <= 0 || a.v_dim <= 0) return;
  const Plan plan(a);
  const int64_t units = a.batch * a.kv_heads * plan.parts;
  // A unit below some ten microseconds is not worth waking a thread for.
  const int64_t work = a.q_len * a.kv_len * (a.head_dim + a.v_dim) * plan.group / plan.parts;
  const int64_t grain = max64(1, (int64_t(1) << 18) / max64(1, work));
  parallel_for(a.pool, units, grain, [&](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t u = begin; u < end; ++u) {
      const Unit unit(a, plan, u);
      attend(plan, unit, thread);
      weigh_later_keys(a, plan, unit);
    }
  });
}

}  // namespace cuvil
