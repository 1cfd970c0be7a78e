// Products of bytes: the loops of contract.hpp around a register tile of i32.
#include "gemm_i8.hpp"

#include "contract.hpp"
#if CUVIL_LANE_PRODUCTS
#include "bytes_arm.hpp"
#else
#define CUVIL_BYTE_MATRICES 0
#endif

namespace cuvil {
namespace {

// Rows of a tile: sums of more would leave no registers for the words of A, which a dot product
// can't take from memory; of lanes there is what flips bytes beside the words, of matrices what
// pairs the panel's words.
constexpr int MOST_BYTE_ROWS = CUVIL_BYTE_MATRICES ? 4 : CUVIL_LANE_PRODUCTS && VL == 4 ? 5 : 10;
constexpr int BYTE_ROWS = MR < MOST_BYTE_ROWS ? MR : MOST_BYTE_ROWS;

typedef uint32_t word_mem __attribute__((aligned(1), may_alias));
typedef int16_t vs __attribute__((vector_size(CUVIL_VEC_BYTES)));

// acc + x[0] b[0] + .. + x[3] b[3] in each lane: x four bytes the same in all lanes (SIGNED_BYTES
// says of which kind), b four i8.
CUVIL_INLINE vi dot4(vi acc, uint32_t x, vi b) {
  [[maybe_unused]] const vi a = splat(int32_t(x));
#if CUVIL_LANE_PRODUCTS
  return add_bytes(acc, a, b);
#elif CUVIL_VEC_BYTES == 64 && defined(__AVX512VNNI__)
  return (vi)__builtin_ia32_vpdpbusd512(acc, a, b);
#elif CUVIL_VEC_BYTES == 32 && (defined(__AVXVNNI__) || defined(__AVX512VNNI__))
  return (vi)__builtin_ia32_vpdpbusd256(acc, a, b);
#elif CUVIL_VEC_BYTES == 64 && defined(__AVX512BW__)
  const vi even = (vi)__builtin_ia32_pmaddwd512((vs)(a & 0x00ff00ff), ((vs)b << 8) >> 8);
  return acc + even + (vi)__builtin_ia32_pmaddwd512((vs)((a >> 8) & 0x00ff00ff), (vs)b >> 8);
#elif CUVIL_VEC_BYTES == 32 && defined(__AVX2__)
  const vi even = (vi)__builtin_ia32_pmaddwd256((vs)(a & 0x00ff00ff), ((vs)b << 8) >> 8);
  return acc + even + (vi)__builtin_ia32_pmaddwd256((vs)((a >> 8) & 0x00ff00ff), (vs)b >> 8);
#elif CUVIL_VEC_BYTES == 16 && defined(__SSE2__)
  const vi even = (vi)__builtin_ia32_pmaddwd128((vs)(a & 0x00ff00ff), ((vs)b << 8) >> 8);
  return acc + even + (vi)__builtin_ia32_pmaddwd128((vs)((a >> 8) & 0x00ff00ff), (vs)b >> 8);
#else
  acc += splat(int32_t(x & 0xff)) * ((b << 24) >> 24);
  acc += splat(int32_t(x >> 8 & 0xff)) * ((b << 16) >> 24);
  acc += splat(int32_t(x >> 16 & 0xff)) * ((b << 8) >> 24);
  return acc + splat(int32_t(x >> 24)) * (b >> 24);
#endif
}

CUVIL_INLINE uint32_t word(const uint8_t* row, int64_t k) {
  return *reinterpret_cast<const word_mem*>(row + 4 * k);
}
// The last, incomplete word of a row: 0 past its end, and nothing read there.
CUVIL_INLINE uint32_t last_word(const uint8_t* row, int64_t k, int64_t count) {
  uint32_t out = 0;
  for (int64_t i = 0; i < count; ++i) out |= uint32_t(row[4 * k + i]) << (8 * i);
  return out;
}

struct ByteTile {
  int64_t k;
  uint32_t flip;  // 0x80808080 where A's bytes are not of the kind that is multiplied

  template <int R, int V>
  __attribute__((noinline)) void multiply_rows(const TileOperands& a, const int32_t* b,
                                               int32_t* out, int64_t ld, int64_t tail) const {
    const uint8_t* row[R];
    vi acc[R][V];
#pragma unroll
    for (int i = 0; i < R; ++i) row[i] = reinterpret_cast<const uint8_t*>(a.rows[i]);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const vi start = load(b + v * VL);
#pragma unroll
      for (int i = 0; i < R; ++i) acc[i][v] = start;
    }
    b += NR;
    const int64_t whole = k / 4, rest = k % 4;
    int64_t w = 0;
#if CUVIL_BYTE_MATRICES
    multiply_matrices(acc, row, whole / 2, flip, b);
    w = whole / 2 * 2, b += w * NR;
#elif CUVIL_LANE_PRODUCTS
    for (; w + 4 <= whole; w += 4, b += 4 * NR) multiply_words(ByteLanes{flip}, acc, row, 4 * w, b);
#endif
    AheadWalk ahead(a.ahead, a.rows);
    for (; w < whole; ++w, b += NR) {
      if constexpr (R >= FETCHING_ROWS && V * VL == TILE_COLUMNS) ahead.step();
      vi bv[V];
#pragma unroll
      for (int v = 0; v < V; ++v) bv[v] = load(b + v * VL);
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const uint32_t x = word(row[i], w) ^ flip;
#pragma unroll
        for (int v = 0; v < V; ++v) acc[i][v] = dot4(acc[i][v], x, bv[v]);
      }
    }
    if (rest) {
#pragma unroll
      for (int i = 0; i < R; ++i) {
        const uint32_t x = last_word(row[i], whole, rest) ^ flip;
#pragma unroll
        for (int v = 0; v < V; ++v) acc[i][v] = dot4(acc[i][v], x, load(b + v * VL));
      }
    }
#pragma unroll
    for (int i = 0; i < R; ++i)
#pragma unroll
      for (int v = 0; v < V; ++v) {
        if (v + 1 < V || tail == VL) store(out + i * ld + v * VL, acc[i][v]);
        else store_n((float*)(out + i * ld + v * VL), (vf)acc[i][v], tail);
      }
  }

  template <int R, int V>
  void select_rows(const TileOperands& a, int64_t mr, const int32_t* b, int32_t* out, int64_t ld,
                   int64_t tail) const {
    if constexpr (R > 1)
      if (mr < R) return select_rows<R - 1, V>(a, mr, b, out, ld, tail);
    multiply_rows<R, V>(a, b, out, ld, tail);
  }

  template <int V>
  void select_vectors(const TileOperands& a, int64_t mr, const int32_t* b, int32_t* out,
                      int64_t ld, int64_t vectors, int64_t tail) const {
    if constexpr (V > 1)
      if (vectors < V) return select_vectors<V - 1>(a, mr, b, out, ld, vectors, tail);
    select_rows<BYTE_ROWS, V>(a, mr, b, out, ld, tail);
  }

  void operator()(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                  int64_t cols, bool whole_vectors, const Finish*) const {
    for (int64_t from = 0; from < cols; from += TILE_COLUMNS) {
      const int64_t some = min64(TILE_COLUMNS, cols - from), vectors = ceil_div(some, VL);
      const int64_t tail = whole_vectors ? VL : some - (vectors - 1) * VL;
      select_vectors<TILE_COLUMNS / VL>(a, mr, (const int32_t*)b + from, (int32_t*)out + from, ld,
                                        vectors, tail);
    }
  }
};

struct ByteRows {
  const GemmI8Args& args;

  TileOperands prepare(const TileRequest& want) const {
    const char* first = static_cast<const char*>(args.a) + want.batch * args.a_batch;
    for (int64_t i = 0; i < want.mr; ++i)
      want.table[i] = reinterpret_cast<const float*>(first + (want.m0 + i) * args.a_row);
    return {want.table, 1, args.k};
  }
};

}  // namespace

void gemm_i8(const GemmI8Args& a) {
  // A panel is 1 + ceil(k / 4) rows of NR words, which is what the loops have to know of k.
  const Contraction p = {a.batch, a.m, a.n, 1 + ceil_div(a.k, 4), (const float*)a.b, a.b_batch,
                         (float*)a.c, a.c_batch, a.c_row, false,
                         min64(BYTE_ROWS, tile_rows_at(a.a_row / 4, ceil_div(a.k, 4))), 1,
                         a.epilogue, a.pool, {}, {}, true};
  contract(p, ByteRows{a}, ByteTile{a.k, a.a_signed == SIGNED_BYTES ? 0u : 0x80808080u});
}

}  // namespace cuvil
