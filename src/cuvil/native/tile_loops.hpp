// The loops of a register tile with f32 sums, one kernel for each number of rows and of vectors a
// row, whatever is multiplied. Internal to the core.
// An Arithmetic says how:
//   Left, Packed               what one step of a row is, and an element of the packed panel
//   static Left* row(const float*)                 a row of the table
//   static X spread(Left), vf add(vf sum, X, B)    a step in all lanes; sum plus step times panel
//   Lanes                                          the same by lanes, see lanes_arm.hpp
//   static void start(vf (&)[R][V], const TileOutput&)    what the sums begin with
//   static void finish(vf (&)[R][V], const TileOutput&)   what becomes of them
// Every loop over accumulators carries `#pragma unroll`: one index that is not a constant would
// keep all of them in memory.
#pragma once
#include "tile_output.hpp"
#if CUVIL_LANE_PRODUCTS
#include "lanes_arm.hpp"
#endif

namespace cuvil {

template <class Arithmetic, int R, int V>
CUVIL_MULTIPLIES __attribute__((noinline)) void multiply_rows(
    const TileOperands& a, const typename Arithmetic::Packed* b, const TileOutput& o) {
  vf acc[R][V];
  fetch_residual<R, V>(o);
  Arithmetic::template start<R, V>(acc, o);
  const float* const* table = a.rows;
  constexpr bool FETCHES = R >= FETCHING_ROWS && V * VL == TILE_COLUMNS;
  AheadWalk ahead(a.ahead, a.rows);
  for (int64_t t = 0; t < a.taps; ++t, table += MR) {
    const typename Arithmetic::Left* row[R];
#pragma unroll
    for (int i = 0; i < R; ++i) row[i] = Arithmetic::row(table[i]);
    int64_t k = 0;
#if CUVIL_LANE_PRODUCTS
    for (; k + 4 <= a.kc; k += 4, b += 4 * NR)
      multiply_words(typename Arithmetic::Lanes(), acc, row, 4 * k, b);
#endif
#if defined(__wasm__)  // a loop in a browser has a check of its own in every turn
#pragma clang loop unroll_count(4)
#endif
    for (; k < a.kc; ++k, b += NR) {
      if constexpr (FETCHES) ahead.step();
      decltype(load(b)) bv[V];
#pragma unroll
      for (int v = 0; v < V; ++v) bv[v] = load(b + v * VL);
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const auto x = Arithmetic::spread(row[i][k]);
#pragma unroll
        for (int v = 0; v < V; ++v) acc[i][v] = Arithmetic::add(acc[i][v], x, bv[v]);
        keep_order(acc[i]);
      }
    }
  }
  Arithmetic::template finish<R, V>(acc, o);
}

// A row alone has partial sums over k mod ROW_CHAINS (tile.hpp).
template <class Arithmetic, int V>
CUVIL_MULTIPLIES __attribute__((noinline)) void multiply_row(
    const TileOperands& a, const typename Arithmetic::Packed* b, const TileOutput& o) {
  vf acc[ROW_CHAINS][V] = {};
  Arithmetic::template start<1, V>(reinterpret_cast<vf(&)[1][V]>(acc[0]), o);
  for (int64_t t = 0; t < a.taps; ++t) {
    const typename Arithmetic::Left* row = Arithmetic::row(a.rows[t * MR]);
    const auto step = [&](int chain, int64_t k) __attribute__((always_inline)) {
      const auto x = Arithmetic::spread(row[k]);
#pragma unroll
      for (int v = 0; v < V; ++v)
        acc[chain][v] = Arithmetic::add(acc[chain][v], x, load(b + chain * NR + v * VL));
    };
    int64_t k = 0;
    for (; k + ROW_CHAINS <= a.kc; k += ROW_CHAINS, b += ROW_CHAINS * NR)
#pragma unroll
      for (int u = 0; u < ROW_CHAINS; ++u) step(u, k + u);
    for (; k < a.kc; ++k, b += NR) step(0, k);
  }
  vf total[1][V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    total[0][v] = acc[0][v];
#pragma unroll
    for (int u = 1; u < ROW_CHAINS; ++u) total[0][v] += acc[u][v];
  }
  Arithmetic::template finish<1, V>(total, o);
}

template <class Arithmetic, int R, int V>
void select_rows(const TileOperands& a, int64_t mr, const typename Arithmetic::Packed* b,
                 const TileOutput& o) {
  if constexpr (R == 1) {
    multiply_row<Arithmetic, V>(a, b, o);
  } else {
    if (mr == R) return multiply_rows<Arithmetic, R, V>(a, b, o);
    select_rows<Arithmetic, R - 1, V>(a, mr, b, o);
  }
}

template <class Arithmetic, int V>
void select_vectors(const TileOperands& a, int64_t mr, const typename Arithmetic::Packed* b,
                    const TileOutput& o, int64_t vectors) {
  if constexpr (V > 1) {
    if (vectors < V) return select_vectors<Arithmetic, V - 1>(a, mr, b, o, vectors);
  }
  select_rows<Arithmetic, MR, V>(a, mr, b, o);
}

// multiply_tile of tile.hpp with that arithmetic.
template <class Arithmetic>
void multiply_tile_with(const TileOperands& a, int64_t mr, const typename Arithmetic::Packed* b,
                        float* out, int64_t ld, int64_t cols, bool whole_vectors,
                        const Finish* finish) {
  if constexpr (TILE_COLUMNS < NR) {
    if (cols > TILE_COLUMNS) {
      multiply_tile_with<Arithmetic>(a, mr, b, out, ld, TILE_COLUMNS, false, finish);
      const Finish next = finish ? finish->at(TILE_COLUMNS, TILE_COLUMNS) : Finish{};
      return multiply_tile_with<Arithmetic>(a, mr, b + TILE_COLUMNS, out + TILE_COLUMNS, ld,
                                            cols - TILE_COLUMNS, whole_vectors,
                                            finish ? &next : nullptr);
    }
  }
  const int64_t vectors = ceil_div(cols, VL);
  const int64_t tail = whole_vectors ? VL : cols - (vectors - 1) * VL;
  select_vectors<Arithmetic, TILE_COLUMNS / VL>(a, mr, b, {out, ld, tail, finish}, vectors);
}

}  // namespace cuvil
