// Register tiles of pairs of bf16.
#include "tile_bf16.hpp"

#include "tile_loops.hpp"

namespace cuvil {
namespace {

typedef int32_t pair_mem __attribute__((aligned(1), may_alias));

// acc + a[0] b[0] + a[1] b[1] in each lane.
CUVIL_INLINE vf dot2(vf acc, vi a, vi b) {
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

struct Pairs {
  typedef pair_mem Left;
  typedef int32_t Packed;
  static CUVIL_INLINE const pair_mem* row(const float* of) {
    return reinterpret_cast<const pair_mem*>(of);
  }
  static CUVIL_INLINE vi spread(int32_t x) { return splat(x); }
  static CUVIL_INLINE vf add(vf sum, vi x, vi b) { return dot2(sum, x, b); }
#if CUVIL_LANE_PRODUCTS
  typedef PairLanes Lanes;
#endif
  template <int R, int V>
  static CUVIL_INLINE void finish(vf (&acc)[R][V], const TileOutput& o) {
    store_sums<R, V>(acc, o);
  }
};

}  // namespace

void multiply_tile_bf16(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                        int64_t cols, bool whole_vectors, const Finish* finish) {
  multiply_tile_with<Pairs>(a, mr, reinterpret_cast<const int32_t*>(b), out, ld, cols,
                            whole_vectors, finish);
}

}  // namespace cuvil
