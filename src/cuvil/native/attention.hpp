// Scaled dot-product attention in one pass: softmax(q k^T scale + mask) v, f32.
// Online softmax: M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018;
// tiling: T. Dao et al., "FlashAttention", 2022. Scores never leave the first-level cache.
#pragma once
#include <stdint.h>

#include "threads.hpp"
#include "vec.hpp"

namespace cuvil {

// Strides are in elements; the last dimension of q, k, v and out is contiguous.
struct AttentionArgs {
  int64_t batch, heads, kv_heads;  // kv_heads divides heads; head h reads h / (heads / kv_heads)
  int64_t q_len, kv_len, head_dim, v_dim;
  const float* q;
  const float* k;
  const float* v;
  int64_t q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row;
  const void* mask;
  int32_t mask_kind;  // 0 none, 1 f32 added to the scores, 2 one byte a score, 0 hides the key
  int64_t mask_batch, mask_head, mask_row, mask_col;  // 0 broadcasts
  bool causal;                                        // key j is visible to query i when
  int64_t causal_offset;                              // j <= i + causal_offset
  // A row with every score -inf: NaN, as softmax gives; or 0, as torch's
  // scaled_dot_product_attention gives (since 2.5, for bool and for additive masks).
  bool zero_masked_rows;
  bool zero_nan_rows;  // a row whose weights are NaN has weights 0 (and 0 * inf stays NaN)
  float scale;
  float* out;
  int64_t out_batch, out_head, out_row;
  void* scratch;  // attention_scratch_bytes(...), 64-byte aligned
  Pool* pool;
  int64_t key_block = 0;  // see ATTENTION_BLOCK; a multiple of NR, 0: that
};

void attention_f32(const AttentionArgs& args);

constexpr int64_t attention_pad(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
// Keys handled between two rescalings; up to one and a half times as many are taken at once.
constexpr int64_t ATTENTION_BLOCK = 384;
constexpr int64_t attention_block(int64_t kv_len, int64_t chosen = 0) {
  const int64_t block = chosen > 0 ? chosen : ATTENTION_BLOCK;
  return kv_len <= block * 3 / 2 ? attention_pad(kv_len, NR) : block;
}
// Per thread: packed keys and values, then for MR rows the scores, the running output, a tile,
// and two numbers each.
constexpr int64_t attention_scratch_floats(int64_t kv_len, int64_t head_dim, int64_t v_dim,
                                           int64_t chosen = 0) {
  const int64_t keys = attention_pad(kv_len, NR) * head_dim;
  const int64_t values = kv_len * attention_pad(v_dim, NR);
  const int64_t rows = MR * (attention_block(kv_len, chosen) + attention_pad(v_dim, NR) + NR + 2);
  return attention_pad(keys, 16) + attention_pad(values, 16) + attention_pad(rows, 16);
}
constexpr int64_t attention_scratch_bytes(int64_t kv_len, int64_t head_dim, int64_t v_dim,
                                          int32_t threads, int64_t chosen = 0) {
  return threads * attention_scratch_floats(kv_len, head_dim, v_dim, chosen) *
         int64_t(sizeof(float));
}

}  // namespace cuvil
