// C = A W' in f32 with weights W [n, k] of 2, 4 or 8 bits, in blocks of `size` along k that share a
// scale and a zero point: w = (code - zero) * scale.
// codes: panels [ceil(n / NR)][blocks][size * bits / 8][NR] bytes, low bits first along k.
// scales, zeros: [ceil(n / NR)][blocks][NR]; zeros may be null, then `zero` is that of all blocks.
// A has contiguous rows a_row apart. C: rows c_row apart; unused when epilogue.fn is set.
// scratch: gemm_blocks_scratch_bytes(...), 64-byte aligned.
#pragma once
#include "epilogue.hpp"
#include "threads.hpp"

namespace cuvil {

struct GemmBlocksArgs {
  int64_t m, n, k, size;
  int32_t bits;
  const float* a;
  int64_t a_row;
  const uint8_t* codes;
  const float* scales;
  const float* zeros;
  float zero;
  float* c;
  int64_t c_row;
  Epilogue epilogue;
  void* scratch;
  Pool* pool;
};

void gemm_blocks(const GemmBlocksArgs& args);

// One unpacked panel a thread.
constexpr int64_t gemm_blocks_scratch_bytes(int64_t k, int32_t threads) {
  return threads * k * NR * int64_t(sizeof(float));
}

}  // namespace cuvil
