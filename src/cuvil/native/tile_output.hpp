// The end of every register tile of f32 sums: what `finish` asks for, then the stores. Internal to
// the core. As in tile_loops.hpp, loops over accumulators are unrolled, to keep these in registers.
#pragma once
#include "tile.hpp"

namespace cuvil {

struct TileOutput {
  float* out;
  int64_t ld;
  int64_t tail;  // columns stored of the last vector; VL stores it whole
  const Finish* finish;
};

// Vector v of V at p, of whose last only the tail may be read.
template <int V>
CUVIL_INLINE vf load_within(const float* p, int v, int64_t tail) {
  return v + 1 < V || tail == VL ? load(p + v * VL) : load_n(p + v * VL, tail);
}

template <int R, int V>
CUVIL_INLINE void clear(vf (&acc)[R][V]) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int v = 0; v < V; ++v) acc[i][v] = vf{};
}

template <int R, int V>
CUVIL_INLINE void add_terms(vf (&acc)[R][V], const TileOutput& o) {
  const Finish& f = *o.finish;
  if (f.bias) {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const vf bias = load_within<V>(f.bias, v, o.tail);
#pragma unroll
      for (int i = 0; i < R; ++i) acc[i][v] += bias;
    }
  }
  if (f.residual) {
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int v = 0; v < V; ++v) acc[i][v] += load_within<V>(f.residual + i * o.ld, v, o.tail);
  }
}

template <int R, int V>
CUVIL_INLINE void clamp(vf (&acc)[R][V], const Finish& f) {
  if (f.clamped) {
    const vf low = splat(f.low), high = splat(f.high);
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int v = 0; v < V; ++v) acc[i][v] = at_most(at_least(acc[i][v], low), high);
  }
}

template <int R, int V>
CUVIL_INLINE void store_tile(vf (&acc)[R][V], const TileOutput& o) {
  if (o.finish) {
    add_terms<R, V>(acc, o);
    clamp<R, V>(acc, *o.finish);
  }
  if (o.tail == VL) {
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int v = 0; v < V; ++v) store(o.out + i * o.ld + v * VL, acc[i][v]);
    return;
  }
#pragma unroll
  for (int i = 0; i < R; ++i) {
    float* row = o.out + i * o.ld;
#pragma unroll
    for (int v = 0; v + 1 < V; ++v) store(row + v * VL, acc[i][v]);
    store_n(row + (V - 1) * VL, acc[i][V - 1], o.tail);
  }
}

}  // namespace cuvil
