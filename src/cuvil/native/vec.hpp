// Vectors of the target machine, as clang's vector extension spells them; no intrinsics.
//   CUVIL_VEC_BYTES  bytes of a vector register: 64 (AVX-512), 32 (AVX2), 16 (NEON, SSE, wasm)
//   CUVIL_MR, CUVIL_NR  rows of a register tile of the contraction kernels, columns of a panel
//   CUVIL_TILE_COLUMNS  columns of a register tile, NR unless several machines share panels
//   CUVIL_LANES  units of a block of recurrent weights, VL unless several machines share them
// Types: vf (VL x f32), vi (VL x i32), vb (one bool a lane, what masked accesses take).
// load/store accept any float address (no alignment beyond 4 bytes).
// load_n/store_n touch exactly the first n floats, 0 <= n <= VL; load_n fills the rest with +0,
// so neither ever reads or writes past a buffer's end.
// Reductions join lanes pairwise (lane i with i + half), the same order on every machine of
// equal width. NaN and Inf pass through everything here as IEEE has it.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifndef CUVIL_VEC_BYTES
#define CUVIL_VEC_BYTES 16
#endif
#ifndef CUVIL_MR
#define CUVIL_MR (CUVIL_VEC_BYTES == 64 ? 14 : CUVIL_VEC_BYTES == 32 ? 6 : 8)
#endif
#ifndef CUVIL_NR
#define CUVIL_NR (CUVIL_VEC_BYTES == 64 ? 32 : CUVIL_VEC_BYTES == 32 ? 16 : 8)
#endif
#ifndef CUVIL_TILE_COLUMNS
#define CUVIL_TILE_COLUMNS CUVIL_NR
#endif
#ifndef CUVIL_LANES
#define CUVIL_LANES (CUVIL_VEC_BYTES / 4)
#endif
// Whether a product can take one lane of a vector (lanes_arm.hpp).
#if defined(__aarch64__) && (CUVIL_VEC_BYTES == 16 || defined(__ARM_FEATURE_SVE))
#define CUVIL_LANE_PRODUCTS 1
#else
#define CUVIL_LANE_PRODUCTS 0
#endif
#define CUVIL_INLINE inline __attribute__((always_inline))

// Marks the inner loops of products. WebAssembly's fused multiply-add is part of relaxed SIMD,
// whose minimum and maximum the compiler takes for `a < b ? a : b` though they may lose a NaN. So
// only functions with this mark get it; they have no such choices but at_least and at_most.
#if defined(CUVIL_RELAXED)
#define CUVIL_MULTIPLIES __attribute__((target("relaxed-simd")))
#else
#define CUVIL_MULTIPLIES
#endif

namespace cuvil {

constexpr int VL = CUVIL_VEC_BYTES / 4;
constexpr int MR = CUVIL_MR;
constexpr int NR = CUVIL_NR;
constexpr int TILE_COLUMNS = CUVIL_TILE_COLUMNS;
constexpr int LANES = CUVIL_LANES;
static_assert(TILE_COLUMNS % VL == 0 && NR % TILE_COLUMNS == 0, "a tile is whole vectors");
static_assert(LANES % VL == 0, "a block is whole vectors");

typedef float vf __attribute__((vector_size(CUVIL_VEC_BYTES)));
typedef int32_t vi __attribute__((vector_size(CUVIL_VEC_BYTES)));
typedef bool vb __attribute__((ext_vector_type(CUVIL_VEC_BYTES / 4)));
// The spelling of vf that clang's masked accesses insist on; same bits.
typedef float vf_ext __attribute__((ext_vector_type(CUVIL_VEC_BYTES / 4)));
// The same vectors as they lie in memory: aligned as one element, aliasing with anything.
typedef float vf_mem __attribute__((vector_size(CUVIL_VEC_BYTES), aligned(4), may_alias));
typedef int32_t vi_mem __attribute__((vector_size(CUVIL_VEC_BYTES), aligned(4), may_alias));
typedef int32_t vi_element __attribute__((may_alias));

// Vectors that must have their values at this point of the code. The compiler moves loads up where
// it writes WebAssembly, in which registers never run out; a browser's compiler then spills.
template <class T, int V>
CUVIL_INLINE void keep_order(T (&a)[V]) {
#if defined(__wasm__)
#pragma unroll
  for (int v = 0; v < V; ++v) __asm__ volatile("" : "+r"(a[v]));
#else
  (void)a;
#endif
}

CUVIL_INLINE vf load(const float* p) { return *reinterpret_cast<const vf_mem*>(p); }
CUVIL_INLINE void store(float* p, vf v) { *reinterpret_cast<vf_mem*>(p) = v; }
CUVIL_INLINE vi load(const int32_t* p) { return *reinterpret_cast<const vi_mem*>(p); }
CUVIL_INLINE void store(int32_t* p, vi v) { *reinterpret_cast<vi_mem*>(p) = v; }
// Not `vf{} + x`: that would turn -0 into +0.
CUVIL_INLINE vf splat(float x) {
  vf v;
  for (int i = 0; i < VL; ++i) v[i] = x;
  return v;
}
CUVIL_INLINE vi splat(int32_t x) { return x - vi{}; }

// max(x, low) and min(x, high), by lane; an x that is NaN stays NaN.
#if defined(__wasm__)
// Where it may, the compiler takes relaxed instructions that lose the NaN: these never do.
CUVIL_INLINE vf at_least(vf x, vf low) { return __builtin_wasm_pmax_f32x4(x, low); }
CUVIL_INLINE vf at_most(vf x, vf high) { return __builtin_wasm_pmin_f32x4(x, high); }
#else
CUVIL_INLINE vf at_least(vf x, vf low) { return x < low ? low : x; }
CUVIL_INLINE vf at_most(vf x, vf high) { return x > high ? high : x; }
#endif

CUVIL_INLINE vi lane_index() {
  vi v;
  for (int i = 0; i < VL; ++i) v[i] = i;
  return v;
}
// Lanes below n.
CUVIL_INLINE vb lanes_below(int64_t n) {
  return __builtin_convertvector(lane_index() < splat(int32_t(n)), vb);
}

// Machines with mask registers keep partial accesses in one instruction; on the others a loop
// over the lanes is what the compiler would make of a masked access anyway.
#if CUVIL_VEC_BYTES >= 32 && __has_builtin(__builtin_masked_store)
CUVIL_INLINE vf load_n(const float* p, int64_t n) {
  return (vf)__builtin_masked_load(lanes_below(n), p, vf_ext(0.0f));
}
CUVIL_INLINE void store_n(float* p, vf v, int64_t n) {
  __builtin_masked_store(lanes_below(n), (vf_ext)v, p);
}
#else
CUVIL_INLINE vf load_n(const float* p, int64_t n) {
  vf v = {};
  for (int i = 0; i < VL; ++i)
    if (i < n) v[i] = p[i];
  return v;
}
CUVIL_INLINE void store_n(float* p, vf v, int64_t n) {
  for (int i = 0; i < VL; ++i)
    if (i < n) p[i] = v[i];
}
#endif

CUVIL_INLINE float sum_lanes(vf v) {
  for (int half = VL / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) v[i] += v[i + half];
  return v[0];
}

template <int... AT>
struct LaneList {
  // Swaps the blocks of S lanes off the diagonal of a pair of rows.
  template <int S>
  static CUVIL_INLINE void exchange(vf& top, vf& bottom) {
    const vf a = top, b = bottom;
    top = __builtin_shufflevector(a, b, (AT & S ? VL + AT - S : AT)...);
    bottom = __builtin_shufflevector(a, b, (AT & S ? VL + AT : AT + S)...);
  }
};
template <class, int... AT>
using LanesOf = LaneList<AT...>;
using AllLanes = __make_integer_seq<LanesOf, int, VL>;

// Transposes a square of VL rows in registers: blocks of VL/2 off the diagonal change places, then
// within each quarter blocks of VL/4, and so on.
template <int S = VL / 2>
CUVIL_INLINE void transpose(vf (&row)[VL]) {
#pragma unroll
  for (int i = 0; i < VL; ++i)
    if (!(i & S)) AllLanes::exchange<S>(row[i], row[i + S]);
  if constexpr (S > 1) transpose<S / 2>(row);
}

inline void copy_floats(float* dst, const float* src, int64_t n) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) store(dst + i, load(src + i));
  if (i < n) store_n(dst + i, load_n(src + i, n - i), n - i);
}
inline void fill_floats(float* dst, float value, int64_t n) {
  int64_t i = 0;
  for (; i + VL <= n; i += VL) store(dst + i, splat(value));
  if (i < n) store_n(dst + i, splat(value), n - i);
}

CUVIL_INLINE int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
CUVIL_INLINE int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
CUVIL_INLINE int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
CUVIL_INLINE int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace cuvil
