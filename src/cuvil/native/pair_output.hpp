// The end of a tile of products of bf16: tile_output.hpp, and the result rounded to bf16. Internal
// to the core.
#pragma once
#include "tile_output.hpp"

namespace cuvil {

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

// The first n halves, 0 <= n <= VL; what is not read is 0. Written for each of a tile's rows, so it
// had better be one instruction or one call.
#if CUVIL_VEC_BYTES == 64
typedef uint16_t halves_ext __attribute__((ext_vector_type(VL)));
CUVIL_INLINE halves load_halves_n(const uint16_t* p, int64_t n) {
  return (halves)__builtin_masked_load(lanes_below(n), p, halves_ext(uint16_t(0)));
}
CUVIL_INLINE void store_halves_n(uint16_t* p, halves h, int64_t n) {
  __builtin_masked_store(lanes_below(n), (halves_ext)h, p);
}
#else
__attribute__((noinline)) inline halves load_halves_n(const uint16_t* p, int64_t n) {
  halves h = {};
  for (int i = 0; i < VL; ++i)
    if (i < n) h[i] = p[i];
  return h;
}
__attribute__((noinline)) inline void store_halves_n(uint16_t* p, halves h, int64_t n) {
  for (int i = 0; i < VL; ++i)
    if (i < n) p[i] = h[i];
}
#endif

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
        store_halves_n(to, h, o.tail);
      }
    }
}

CUVIL_INLINE vf widened(halves h) { return (vf)(__builtin_convertvector(h, bits) << 16); }

template <int R, int V>
CUVIL_INLINE void add_halves(vf (&acc)[R][V], const TileOutput& o) {
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const uint16_t* from = o.finish->residual_half + i * o.ld + v * VL;
      const bool whole = v + 1 < V || o.tail == VL;
      acc[i][v] += widened(whole ? *reinterpret_cast<const halves_mem*>(from)
                                 : load_halves_n(from, o.tail));
    }
}

template <int R, int V>
CUVIL_INLINE void store_sums(vf (&acc)[R][V], TileOutput o) {
  if (o.finish) {
    add_terms<R, V>(acc, o);
    if (o.finish->residual_half) add_halves<R, V>(acc, o);
    clamp<R, V>(acc, *o.finish);
    if (o.finish->half) store_halves<R, V>(acc, o);
    if (o.finish->half_only) return;
    o.finish = nullptr;
  }
  store_tile<R, V>(acc, o);
}

}  // namespace cuvil
