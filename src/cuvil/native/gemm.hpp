// C = A B in f32, batched: c[i, m, n] = sum over k of a[i, m, k] * b[i, k, n].
// A has any strides; a_col == 1 is read in place, anything else is gathered tile by tile into
// scratch.
// B is packed: panels [ceil(n / NR)][k][NR], columns past n are zero (packing.pack_gemm_b at
// compile time, pack_b_f32 at run time). b_batch, elements between the batch entries' panel sets,
// may be 0.
// C: rows c_row apart, columns contiguous; unused when epilogue.fn is set (see epilogue.hpp).
// Zero-size batch, m or n do nothing; k == 0 gives +0. Fused multiply-adds in order of k.
// scratch: gemm_scratch_bytes(...) bytes, 64-byte aligned, not shared between concurrent calls: 0
// when a_col == 1, else threads * MR * gemm_scratch_stride(k) * 4, stride = 16 * (ceil(k / 16) |
// 1).
#pragma once
#include "cutting.hpp"
#include "epilogue.hpp"
#include "threads.hpp"

namespace cuvil {

struct GemmArgs {
  int64_t batch, m, n, k;
  const float* a;
  int64_t a_batch, a_row, a_col;
  const float* b;
  int64_t b_batch;
  float* c;
  int64_t c_batch, c_row;
  Epilogue epilogue;
  void* scratch;
  Pool* pool;
  Finish finish = {};
  Cutting cutting = {};
  bool constant_b = false;  // b lies among the weights
};

void gemm_f32(const GemmArgs& args);

// Row stride of gathered rows: an odd number of 64-byte lines, so that rows spread over the cache's
// sets.
constexpr int64_t gemm_scratch_stride(int64_t k) { return 16 * ((k + 15) / 16 | 1); }

// a_contiguous: a_col == 1. m and n don't change the answer today; they are what it may depend on.
constexpr int64_t gemm_scratch_bytes(int64_t /*m*/, int64_t /*n*/, int64_t k, bool a_contiguous,
                                     int32_t threads) {
  return a_contiguous ? 0 : threads * MR * gemm_scratch_stride(k) * int64_t(sizeof(float));
}

// Floats in the packed form of one [k, n] matrix.
constexpr int64_t packed_b_size(int64_t k, int64_t n) { return (n + NR - 1) / NR * NR * k; }

// Packs b[i * row + j * col], i < k, j < n, into dst[packed_b_size(k, n)].
void pack_b_f32(float* dst, const float* b, int64_t k, int64_t n, int64_t row, int64_t col);

}  // namespace cuvil
