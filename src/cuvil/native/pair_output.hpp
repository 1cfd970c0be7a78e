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

// The first n of a vector of bf16 at p, 0 <= n <= VL; the rest is 0, and is not stored.
CUVIL_INLINE halves load_halves(const uint16_t* p, int64_t n) {
  if (n == VL) return *reinterpret_cast<const halves_mem*>(p);
  halves h = {};
  for (int j = 0; j < VL; ++j)
    if (j < n) h[j] = p[j];
  return h;
}
CUVIL_INLINE void store_halves(uint16_t* p, halves h, int64_t n) {
  if (n == VL) {
    *reinterpret_cast<halves_mem*>(p) = h;
    return;
  }
#if CUVIL_VEC_BYTES == 64 && __has_builtin(__builtin_masked_store)
  typedef uint16_t halves_ext __attribute__((ext_vector_type(VL)));
  __builtin_masked_store(lanes_below(n), (halves_ext)h, p);
#else
  for (int j = 0; j < VL; ++j)
    if (j < n) p[j] = h[j];
#endif
}

// Two neighbouring vectors as bf16, in one store.
CUVIL_INLINE void store_both(uint16_t* p, vf first, vf second) {
#if CUVIL_VEC_BYTES == 64 && defined(__AVX512BF16__)
  store(reinterpret_cast<int32_t*>(p), (vi)__builtin_ia32_cvtne2ps2bf16_512(second, first));
#else
  store_halves(p, rounded(first), VL);
  store_halves(p + VL, rounded(second), VL);
#endif
}

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

CUVIL_INLINE vf widened(halves h) { return (vf)(__builtin_convertvector(h, bits) << 16); }

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
