// The register tile: every contraction ends here.
//   out[i, j] = sum over t < taps, k < kc of rows[t][i][k] * b[t * kc + k][j]     i < mr, j < cols
// rows is a table of pointers [taps][MR] (row stride MR whatever mr is), so one kernel serves a
// matrix (taps = 1, pointers one row apart), a convolution (a pointer a pixel and tap, padding
// pointing at a row of zeros) and any gathered operand. b is one packed panel [taps * kc][NR].
// A zero-padded column of b makes only its own column of out, which is not stored (whole_vectors
// false) or not read, so Inf and NaN in rows never reach a real column through the padding.
// taps * kc == 0 gives +0. One accumulator an element and fused multiply-adds in order of k, except
// that a single row (mr == 1) keeps ROW_CHAINS partial sums over k mod ROW_CHAINS: a lone row would
// otherwise wait for the latency of each addition.
#pragma once
#include "ahead.hpp"
#include "epilogue.hpp"

namespace cuvil {

constexpr int ROW_CHAINS = 4;

// Bytes of what comes next that a tile can fetch in a step of k without waiting, for each row.
constexpr int64_t FETCHED_EACH_ROW = 10;

// Fewer rows take no longer than memory does, and fetch nothing.
constexpr int FETCHING_ROWS = 4;

struct TileOperands {
  const float* const* rows;
  int64_t taps, kc;
  Ahead ahead = {};
};

// Stores columns [0, cols), 0 < cols <= NR. With whole_vectors it may store up to the next multiple
// of VL. `finish`, if given, is of this tile: its residual has the rows' stride ld, and bias and
// residual are read for columns [0, cols) only, so it goes without whole_vectors.
void multiply_tile(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                   int64_t cols, bool whole_vectors, const Finish* finish = nullptr);

}  // namespace cuvil
