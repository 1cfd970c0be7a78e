// The end of a tile of products of bf16: tile_output.hpp, and the result rounded to bf16. Internal
// to the core.
#pragma once
#include "halves.hpp"
#include "tile_output.hpp"

namespace cuvil {

template <int R, int V>
CUVIL_INLINE void store_rounded(const vf (&acc)[R][V], const TileOutput& o) {
  uint16_t* row = o.finish->half;
  const int64_t ld = o.ld, tail = o.tail;
  if (V == 2 && tail == VL) {
#pragma unroll
    for (int i = 0; i < R; ++i, row += ld) store_both(row, acc[i][0], acc[i][V - 1]);
    return;
  }
#pragma unroll
  for (int i = 0; i < R; ++i, row += ld)
#pragma unroll
    for (int v = 0; v < V; ++v)
      store_halves(row + v * VL, rounded(acc[i][v]), v + 1 < V ? VL : tail);
}

template <int R, int V>
CUVIL_INLINE void add_halves(vf (&acc)[R][V], const TileOutput& o) {
  const uint16_t* row = o.finish->residual_half;
#pragma unroll
  for (int i = 0; i < R; ++i, row += o.ld)
#pragma unroll
    for (int v = 0; v < V; ++v)
      acc[i][v] += widened(load_halves(row + v * VL, v + 1 < V ? VL : o.tail));
}

// What is added to a sum, as what it begins with: there is less to do when it is complete.
template <int R, int V>
CUVIL_INLINE void start_sums(vf (&acc)[R][V], const TileOutput& o) {
  clear<R, V>(acc);
  if (!o.finish) return;
  add_terms<R, V>(acc, o);
  if (o.finish->residual_half) add_halves<R, V>(acc, o);
}

// The end of sums that began so.
template <int R, int V>
CUVIL_INLINE void store_finished(vf (&acc)[R][V], TileOutput o) {
  if (o.finish) {
    clamp<R, V>(acc, *o.finish);
    if (o.finish->half) store_rounded<R, V>(acc, o);
    if (o.finish->half_only) return;
    o.finish = nullptr;
  }
  store_tile<R, V>(acc, o);
}

template <int R, int V>
CUVIL_INLINE void store_sums(vf (&acc)[R][V], const TileOutput& o) {
  if (o.finish) {
    add_terms<R, V>(acc, o);
    if (o.finish->residual_half) add_halves<R, V>(acc, o);
  }
  store_finished<R, V>(acc, o);
}

}  // namespace cuvil
