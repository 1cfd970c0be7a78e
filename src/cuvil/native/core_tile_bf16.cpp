// Register tiles of pairs of bf16, one for each number of rows and of vectors a row.
#include "tile_bf16.hpp"

#include "tile_output.hpp"

// As in core_tile.cpp, loops over accumulators are unrolled so that these stay in registers.
namespace cuvil {
namespace {

typedef int32_t pair_mem __attribute__((aligned(1), may_alias));

// acc + x[0] b[0] + x[1] b[1] in each lane; x is the same pair in all lanes.
CUVIL_INLINE vf dot2(vf acc, int32_t x, vi b) {
  const vi a = splat(x);
#if CUVIL_VEC_BYTES == 64 && defined(__AVX512BF16__)
  typedef __bf16 pairs __attribute__((vector_size(64)));
  return __builtin_ia32_dpbf16ps_512(acc, (pairs)a, (pairs)b);
#else
  constexpr int32_t upper = int32_t(0xffff0000u);
  acc += (vf)(a << 16) * (vf)(b << 16);
  return acc + (vf)(a & upper) * (vf)(b & upper);
#endif
}

constexpr int HALF_BYTES = CUVIL_VEC_BYTES / 2;
typedef uint16_t halves __attribute__((vector_size(HALF_BYTES)));
typedef uint16_t halves_mem __attribute__((vector_size(HALF_BYTES), aligned(2), may_alias));
typedef uint32_t bits __attribute__((vector_size(CUVIL_VEC_BYTES)));

// To nearest, ties to even; NaN stays NaN.
CUVIL_INLINE halves rounded(vf x) {
#if CUVIL_VEC_BYTES == 64 && defined(__AVX512BF16__)
  typedef __bf16 out __attribute__((vector_size(32)));
  return (halves)__builtin_ia32_cvtneps2bf16_512_mask(x, out{}, -1);
#else
  const bits u = (bits)x, nearest = u + 0x7fff + (u >> 16 & 1);
  return __builtin_convertvector((x == x ? nearest : u | 0x400000) >> 16, halves);
#endif
}

template <int R, int V>
CUVIL_INLINE void store_halves(const vf (&acc)[R][V], const TileOutput& o) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int v = 0; v < V; ++v) {
      uint16_t* to = o.finish->half + i * o.ld + v * VL;
      const halves h = rounded(acc[i][v]);
      if (v + 1 < V || o.tail == VL) {
        *reinterpret_cast<halves_mem*>(to) = h;
      } else {
        for (int j = 0; j < VL; ++j)
          if (j < o.tail) to[j] = h[j];
      }
    }
}

template <int R, int V>
CUVIL_INLINE void store_sums(vf (&acc)[R][V], TileOutput o) {
  if (o.finish && o.finish->half) {
    finish_tile<R, V>(acc, o);
    store_halves<R, V>(acc, o);
    if (o.finish->half_only) return;
    o.finish = nullptr;
  }
  store_tile<R, V>(acc, o);
}

const pair_mem* pairs_of(const float* row) { return reinterpret_cast<const pair_mem*>(row); }

template <int R, int V>
__attribute__((noinline)) void multiply_rows(const TileOperands& a, const int32_t* b,
                                             const TileOutput& o) {
  vf acc[R][V] = {};
  const float* const* table = a.rows;
  for (int64_t t = 0; t < a.taps; ++t, table += MR) {
    const pair_mem* row[R];
#pragma unroll
    for (int i = 0; i < R; ++i) row[i] = pairs_of(table[i]);
    for (int64_t k = 0; k < a.kc; ++k, b += NR) {
      vi bv[V];
#pragma unroll
      for (int v = 0; v < V; ++v) bv[v] = load(b + v * VL);
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const int32_t x = row[i][k];
#pragma unroll
        for (int v = 0; v < V; ++v) acc[i][v] = dot2(acc[i][v], x, bv[v]);
      }
    }
  }
  store_sums<R, V>(acc, o);
}

// A row alone has partial sums over k mod ROW_CHAINS (tile.hpp).
template <int V>
__attribute__((noinline)) void multiply_row(const TileOperands& a, const int32_t* b,
                                            const TileOutput& o) {
  vf acc[ROW_CHAINS][V] = {};
  for (int64_t t = 0; t < a.taps; ++t) {
    const pair_mem* row = pairs_of(a.rows[t * MR]);
    int64_t k = 0;
    for (; k + ROW_CHAINS <= a.kc; k += ROW_CHAINS, b += ROW_CHAINS * NR)
#pragma unroll
      for (int u = 0; u < ROW_CHAINS; ++u)
#pragma unroll
        for (int v = 0; v < V; ++v)
          acc[u][v] = dot2(acc[u][v], row[k + u], load(b + u * NR + v * VL));
    for (; k < a.kc; ++k, b += NR)
#pragma unroll
      for (int v = 0; v < V; ++v) acc[0][v] = dot2(acc[0][v], row[k], load(b + v * VL));
  }
  vf total[1][V];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    total[0][v] = acc[0][v];
#pragma unroll
    for (int u = 1; u < ROW_CHAINS; ++u) total[0][v] += acc[u][v];
  }
  store_sums<1, V>(total, o);
}

template <int R, int V>
void select_rows(const TileOperands& a, int64_t mr, const int32_t* b, const TileOutput& o) {
  if constexpr (R == 1) {
    multiply_row<V>(a, b, o);
  } else {
    if (mr == R) return multiply_rows<R, V>(a, b, o);
    select_rows<R - 1, V>(a, mr, b, o);
  }
}

template <int V>
void select_vectors(const TileOperands& a, int64_t mr, const int32_t* b, const TileOutput& o,
                    int64_t vectors) {
  if constexpr (V > 1) {
    if (vectors < V) return select_vectors<V - 1>(a, mr, b, o, vectors);
  }
  select_rows<MR, V>(a, mr, b, o);
}

}  // namespace

void multiply_tile_bf16(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                        int64_t cols, bool whole_vectors, const Finish* finish) {
  const int64_t vectors = ceil_div(cols, VL);
  const int64_t tail = whole_vectors ? VL : cols - (vectors - 1) * VL;
  select_vectors<NR / VL>(a, mr, reinterpret_cast<const int32_t*>(b),
                          {out, ld, tail, finish}, vectors);
}

}  // namespace cuvil
