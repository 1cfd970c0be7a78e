// The register tile of products of bf16, summed in f32: tile.hpp with pairs of elements in place of
// floats. A pair is 4 bytes, the earlier element in the lower half; rows point at pairs (at any
// address), kc counts them, and a panel is [taps * kc][NR] pairs: one lane of b holds two steps of
// k.
// Products of two bf16 are exact in f32; sums are rounded in f32, in an order of the machine's.
// Where the machine has a dot product of pairs, denormal elements and sums count as 0.
#pragma once
#include "tile.hpp"

namespace cuvil {

void multiply_tile_bf16(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                        int64_t cols, bool whole_vectors, const Finish* finish = nullptr);

// What contract.hpp calls.
struct PairTile {
  void operator()(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                  int64_t cols, bool whole_vectors, const Finish* finish) const {
    multiply_tile_bf16(a, mr, b, out, ld, cols, whole_vectors, finish);
  }
};

}  // namespace cuvil
