// Operands of attention in pairs of bf16: keys and values packed, rows rounded, and scores turned
// into weights that are rounded at once. Internal to the core; for machines with a dot product of
// pairs of 64 bytes.
#pragma once
#include "attention_rows.hpp"
#include "pair_output.hpp"
#include "shuffle.hpp"

namespace cuvil {

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
inline void pack_key_pairs(float* dst, const float* k, int64_t row, int64_t n, int64_t dim) {
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
inline void pack_value_pairs(float* dst, const float* v, int64_t row, int64_t n, int64_t dim,
                             int64_t length) {
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

inline void round_row(char* dst, const float* src, int64_t n) {
  for (int64_t d = 0; d < n; d += 2 * VL)
    store(reinterpret_cast<float*>(dst) + d / 2, load_pairs(src + d, n - d));
}

// 2^x for x <= 0 (or NaN), relative error 2^-13.7, a small part of what rounding to bf16 adds; 0
// for -inf. The cubic of least relative error on [0, 1).
CUVIL_INLINE vf short_exp2(vf x) {
  typedef float lanes __attribute__((vector_size(64)));
  constexpr int FLOOR = 1, PRESENT_ROUNDING = 4;
  const vf r = (vf)__builtin_ia32_reduceps512_mask((lanes)x, FLOOR, lanes{}, -1, PRESENT_ROUNDING);
  vf p = splat(0.07802301f);
  p = p * r + 0.22606939f;
  p = p * r + 0.69583285f;
  p = p * r + 0.99992525f;
  return (vf)__builtin_ia32_scalefps512_mask((lanes)p, (lanes)x, lanes{}, -1, PRESENT_ROUNDING);
}

// dst = 2^((s - top) * scale) in bf16, n a multiple of 2 VL; returns the sums by lane, of what
// wasn't rounded yet.
CUVIL_INLINE vf round_weights(char* dst, const float* s, int64_t n, float scale, float top) {
  vf sum[2] = {};
  const vf c = splat(scale), t = splat(top);
  for (int64_t j = 0; j < n; j += 2 * VL) {
    const vf low = short_exp2((load(s + j) - t) * c);
    const vf high = short_exp2((load(s + j + VL) - t) * c);
    sum[0] += low;
    sum[1] += high;
    store(reinterpret_cast<float*>(dst) + j / 2, paired(low, high));
  }
  return sum[0] + sum[1];
}

// Scores and weights of rows next to each other, `ld` floats and `weight_bytes` apart.
struct SoftRows {
  float* scores;
  int64_t ld;
  char* weights;
  int64_t weight_bytes;
};

// soften_row for up to VL queries from i0 on, whose weights are rounded to pairs: `top` and `sum`
// hold each row's state, `keep` gets the factors for what was accumulated before.
inline void soften_rows(const Head& h, int64_t i0, int64_t count, int64_t j0, int64_t n,
                        const SoftRows& rows, float* top, float* sum, float* keep) {
  const int64_t padded = round_up(n, 2 * VL);
  float scale = 1.0f;
  vf high[VL] = {};
  for (int64_t r = 0; r < count; ++r) {
    float* const s = rows.scores + r * rows.ld;
    scale = mask_row(h, i0 + r, j0, s, n, padded);
    high[r] = row_max_lanes(s, padded);
  }
  transpose(high);
  vf most = high[0];
#pragma unroll
  for (int i = 1; i < VL; ++i) most = larger(high[i], most);
  const vf none = splat(kNegInf), before = load(top), now = larger(most, before);
  // Nothing seen yet: any finite top gives weights 0 and keeps -inf - -inf out.
  const vf base = now == none ? vf{} : now;
  vf sums[VL] = {};
  for (int64_t r = 0; r < count; ++r)
    sums[r] = round_weights(rows.weights + r * rows.weight_bytes, rows.scores + r * rows.ld, padded,
                            scale, base[r]);
  const vf factor = before == none ? vf{} : exp2_nonpositive((before - base) * scale);
  store(keep, factor);
  store(sum, load(sum) * factor + sum_each(sums));
  store(top, now);
}

}  // namespace cuvil
