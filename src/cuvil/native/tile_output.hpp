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

// The compiler would load the residual's rows all at once, for which registers don't suffice.
CUVIL_INLINE void keep_loads_apart() { __asm__ volatile("" ::: "memory"); }

// Has the residual come near while the tile computes: it often lies where a load takes long.
template <int R, int V>
CUVIL_INLINE void fetch_residual(const TileOutput& o) {
  if (!o.finish || !o.finish->residual) return;
  const float* row = o.finish->residual;
#pragma clang loop unroll(disable)
  for (int i = 0; i < R; ++i, row += o.ld)
#pragma unroll
    for (int v = 0; v < V * VL; v += 16) __builtin_prefetch(row + v);
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
    const float* row = f.residual;
#pragma unroll
    for (int i = 0; i < R; ++i, row += o.ld) {
#pragma unroll
      for (int v = 0; v < V; ++v) acc[i][v] += load_within<V>(row, v, o.tail);
      keep_loads_apart();
    }
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
  float* row = o.out;
  const int64_t ld = o.ld;  // a copy, which the stores can't change
  if (o.tail == VL) {
#pragma unroll
    for (int i = 0; i < R; ++i, row += ld)
#pragma unroll
      for (int v = 0; v < V; ++v) store(row + v * VL, acc[i][v]);
    return;
  }
  const int64_t tail = o.tail;
#pragma unroll
  for (int i = 0; i < R; ++i, row += ld) {
#pragma unroll
    for (int v = 0; v + 1 < V; ++v) store(row + v * VL, acc[i][v]);
    store_n(row + (V - 1) * VL, acc[i][V - 1], tail);
  }
}

}  // namespace cuvil
