// A depthwise convolution with the 1x1 convolutions around it, in f32 with the channels last, row
// by row of the output, so that what lies between them stays in the caches:
//   a = after_expand(x * expand)               [n, h, w, mid]     or x, where expand is null
//   b = after_depthwise(depthwise(a, filter))  [n, oh, ow, mid]   window k x k, strides s x s
//   y = epilogue(b * project)                  [n, oh, ow, oc]
// Where project is null, y is what epilogue makes of depthwise(a, filter).
// A thread keeps the k rows of a under one row of b in a ring, and some pixels of b. It does the
// rows that two threads need twice. A pixel outside a is a row of zeros that is multiplied like any
// other, whatever after_expand makes of zero.
// Weights as in conv.hpp (expand [c, mid], project [mid, oc], panels) and depthwise.hpp. Sums are
// those of gemm.hpp and depthwise.hpp, in the same order.
// Needs mid >= 16 and mid == c without expand; k 3 or 5, s 1 or 2. Zero-size batches and images do
// nothing.
// scratch: chain_scratch_bytes(...) bytes, 64-byte aligned, not shared between concurrent calls.
#pragma once
#include "gemm.hpp"

namespace cuvil {

// Works on a finished part of an intermediate where it lies; rows, columns and their numbers as in
// Epilogue (epilogue.hpp), but columns past nr must not be read. m is the flattened pixel.
struct InPlace {
  void (*fn)(const void* ctx, float* tile, int64_t ld, int64_t batch, int64_t m0, int64_t mr,
             int64_t n0, int64_t nr);
  const void* ctx;
};

struct ChainArgs {
  int64_t n, h, w, c, mid, oh, ow, oc;
  int32_t k, s;
  int64_t ph, pw;
  const float* x;
  const float* expand;
  Finish finish_expand;  // instead of after_expand; without a residual
  InPlace after_expand;
  const float* filter;
  Finish finish_depthwise;  // instead of after_depthwise; without a residual
  InPlace after_depthwise;
  const float* project;
  float* y;
  Epilogue epilogue;  // or finish, where there is no function; without a residual if no project
  Finish finish;
  void* scratch;
  Pool* pool;
};

void chain_f32(const ChainArgs& args);

// Pixels of b that are projected together.
constexpr int64_t CHAIN_STRIP = 28;

// The row of zeros, then for each thread a note of what its ring holds, the ring and the strip.
constexpr int64_t chain_scratch_bytes(int64_t k, int64_t w, int64_t mid, bool expand, bool project,
                                      int32_t threads) {
  const int64_t pixels = (expand ? k * w : 0) + (project ? CHAIN_STRIP : 0);
  return (mid + 15) / 16 * 64 + threads * (64 + pixels * gemm_scratch_stride(mid) * 4);
}

}  // namespace cuvil
