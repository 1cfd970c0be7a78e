// C = A B with bf16 in and f32 out, batched; products are exact and sums in f32 (tile_bf16.hpp).
// k is even. A has rows a_row elements apart, columns contiguous.
// B is packed (packing.pack_gemm_bf16): panels [ceil(n / NR)][k / 2][NR][2], so that one lane holds
// two steps of k; columns past n are zero. b_batch, pairs between the batch entries' panel sets,
// may be 0.
// C: rows c_row apart, columns contiguous; unused when epilogue.fn is set (see epilogue.hpp).
#pragma once
#include "epilogue.hpp"
#include "threads.hpp"

namespace cuvil {

struct GemmBf16Args {
  int64_t batch, m, n, k;
  const uint16_t* a;
  int64_t a_batch, a_row;
  const uint16_t* b;
  int64_t b_batch;
  float* c;
  int64_t c_batch, c_row;
  Epilogue epilogue;
  Pool* pool;
  Finish finish = {};
  void* copies = nullptr;  // amx_scratch_bytes(k / 2, ...) of contract_amx.hpp; null: no use of it
};

void gemm_bf16(const GemmBf16Args& args);

}  // namespace cuvil
