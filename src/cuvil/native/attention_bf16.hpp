// attention.hpp where q, k, v and the weights of a softmax may be rounded to bf16: on a machine
// with a matrix unit or a dot product of pairs in 64 bytes they are, from kFewQueries queries on,
// and sums stay f32; elsewhere nothing is rounded. Weights are exact to 2^-13 before they are
// rounded, and a row's norm is of those. Denormal elements and sums count as 0 in such products.
#pragma once
#include "attention.hpp"
#include "tile_amx.hpp"

// Whether the machine has what attention in pairs is written with.
#if CUVIL_VEC_BYTES == 64 && CUVIL_NR == 32 && defined(__AVX512BF16__)
#define CUVIL_PAIR_ATTENTION 1
#else
#define CUVIL_PAIR_ATTENTION 0
#endif

namespace cuvil {

// As attention_f32, with a scratch of attention_bf16_scratch_bytes(...).
void attention_bf16(const AttentionArgs& args);

// Per thread: packed keys and values; then for the rows of the larger tile, the matrix unit's, the
// queries, the scores, their weights, the running output, a tile, and two numbers each.
constexpr int64_t attention_unit_bytes(int64_t kv_len, int64_t head_dim, int64_t v_dim,
                                       int64_t chosen = 0) {
  const int64_t keys = attention_pad(kv_len, 32), block = attention_block(kv_len, chosen);
  const int64_t packed = keys * (attention_pad(head_dim, 32) + attention_pad(v_dim, 32)) * 2;
  const int64_t row = amx_row_bytes((head_dim + 1) / 2) + amx_row_bytes(block / 2) +
                      (block + attention_pad(v_dim, 32) + NR + 2) * 4;
  return packed + AMX_ROWS * row;
}
constexpr int64_t attention_bf16_scratch_bytes(int64_t kv_len, int64_t head_dim, int64_t v_dim,
                                               int32_t threads, int64_t chosen = 0) {
  const int64_t unit = threads * attention_unit_bytes(kv_len, head_dim, v_dim, chosen);
  const int64_t plain = attention_scratch_bytes(kv_len, head_dim, v_dim, threads, chosen);
  return unit > plain ? unit : plain;
}

}  // namespace cuvil
