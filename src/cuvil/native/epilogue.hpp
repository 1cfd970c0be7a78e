// What a contraction does with its finished accumulators.
// With fn == null the kernel stores them to its own output. Otherwise it hands over each finished
// f32 tile, and writing the output is fn's business alone (bias, activation, residual, layout).
//   tile   64-byte aligned, row stride ld elements (a multiple of the vector length); hot in L1.
//          Columns from nr up to the next multiple of the vector length may be read (their values
//          mean nothing), so fn can load whole vectors and only its stores need care. It may write
//          to [0, mr) x [0, nr), though the pointer does not say so.
//   rows   m0 .. m0+mr of the flattened M (gemm: rows of one batch entry; conv: n*OH*OW pixels)
//   cols   n0 .. n0+nr (gemm: N; conv: output channel, absolute over groups)
// mr <= EPILOGUE_MAX_ROWS and nr <= EPILOGUE_MAX_COLS; every (row, column) is handed over exactly
// once, from any thread of the pool, in no particular order. batch is 0 for convolutions.
#pragma once
#include "vec.hpp"

namespace cuvil {

struct Epilogue {
  void (*fn)(const void* ctx, const float* tile, int64_t ld, int64_t batch, int64_t m0, int64_t mr,
             int64_t n0, int64_t nr);
  const void* ctx;
};

// The epilogues that most layers have, done while the tile is in registers:
//   c = min(max(sum + bias[n] + residual[m, n], low), high)
// each part only where it is wanted, in this order; NaN stays NaN. residual lies as c does. Used
// where `wanted` and there is no function. Products of bf16 also round the result into `half`,
// which lies as c does too; with half_only it is not written to c, which is then half's address.
// They may have their residual in bf16 instead, in residual_half.
struct Finish {
  const float* bias;
  const float* residual;
  float low, high;
  bool clamped, half_only;
  uint16_t* half;
  const uint16_t* residual_half;

  bool wanted() const {  // without branches: many kernels ask
    return (uintptr_t(bias) | uintptr_t(residual) | uintptr_t(half) | uintptr_t(residual_half) |
            clamped) != 0;
  }
  // For a tile that begins `columns` to the right, and `offset` elements of c further on.
  Finish at(int64_t columns, int64_t offset) const {
    return {bias ? bias + columns : nullptr, residual ? residual + offset : nullptr, low, high,
            clamped, half_only, half ? half + offset : nullptr,
            residual_half ? residual_half + offset : nullptr};
  }
};

// A tile holds up to four panels of columns, or, when there are fewer columns, up to four register
// tiles of rows.
constexpr int64_t EPILOGUE_PANELS = 4;
constexpr int64_t EPILOGUE_MAX_COLS = EPILOGUE_PANELS * NR;
constexpr int64_t EPILOGUE_MAX_ROWS = EPILOGUE_PANELS * MR;

}  // namespace cuvil
