// Register-tiled multiply kernels, one for each number of rows and of vectors a row.
#include "tile_output.hpp"

// Every loop over accumulators carries `#pragma unroll`: one index that is not a constant would
// keep all of them in memory.
namespace cuvil {
namespace {

template <int R, int V>
__attribute__((noinline)) void multiply_rows(const TileOperands& a, const float* b,
                                             const TileOutput& o) {
  vf acc[R][V] = {};
  const float* const* table = a.rows;
  for (int64_t t = 0; t < a.taps; ++t, table += MR) {
    const float* row[R];
#pragma unroll
    for (int i = 0; i < R; ++i) row[i] = table[i];
    for (int64_t k = 0; k < a.kc; ++k, b += NR) {
      vf bv[V];
#pragma unroll
      for (int v = 0; v < V; ++v) bv[v] = load(b + v * VL);
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const vf x = splat(row[i][k]);
#pragma unroll
        for (int v = 0; v < V; ++v) acc[i][v] += x * bv[v];
      }
    }
  }
  store_tile<R, V>(acc, o);
}

template <int V>
__attribute__((noinline)) void multiply_row(const TileOperands& a, const float* b,
                                            const TileOutput& o) {
  vf acc[ROW_CHAINS][V] = {};
  for (int64_t t = 0; t < a.taps; ++t) {
    const float* row = a.rows[t * MR];
    int64_t k = 0;
    for (; k + ROW_CHAINS <= a.kc; k += ROW_CHAINS, b += ROW_CHAINS * NR)
#pragma unroll
      for (int u = 0; u < ROW_CHAINS; ++u)
#pragma unroll
        for (int v = 0; v < V; ++v)
          acc[u][v] += splat(row[k + u]) * load(b + u * NR + v * VL);
    for (; k < a.kc; ++k, b += NR)
#pragma unroll
      for (int v = 0; v < V; ++v) acc[0][v] += splat(row[k]) * load(b + v * VL);
  }
  vf total[1][V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    total[0][v] = acc[0][v];
#pragma unroll
    for (int u = 1; u < ROW_CHAINS; ++u) total[0][v] += acc[u][v];
  }
  store_tile<1, V>(total, o);
}

template <int R, int V>
void select_rows(const TileOperands& a, int64_t mr, const float* b, const TileOutput& o) {
  if constexpr (R == 1) {
    multiply_row<V>(a, b, o);
  } else {
    if (mr == R) return multiply_rows<R, V>(a, b, o);
    select_rows<R - 1, V>(a, mr, b, o);
  }
}

template <int V>
void select_vectors(const TileOperands& a, int64_t mr, const float* b, const TileOutput& o,
                    int64_t vectors) {
  if constexpr (V > 1) {
    if (vectors < V) return select_vectors<V - 1>(a, mr, b, o, vectors);
  }
  select_rows<MR, V>(a, mr, b, o);
}

}  // namespace

void multiply_tile(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                   int64_t cols, bool whole_vectors, const Finish* finish) {
  const int64_t vectors = ceil_div(cols, VL);
  const int64_t tail = whole_vectors ? VL : cols - (vectors - 1) * VL;
  select_vectors<NR / VL>(a, mr, b, {out, ld, tail, finish}, vectors);
}

}  // namespace cuvil
