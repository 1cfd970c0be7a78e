// Products of bytes by matrices: where AArch64 has I8MM, one instruction multiplies two rows by two
// columns over eight steps. Internal to the core.
#pragma once
#include "lanes_arm.hpp"

#if defined(__ARM_FEATURE_MATMUL_INT8) && !defined(__ARM_FEATURE_SVE)
#define CUVIL_BYTE_MATRICES 1

namespace cuvil {

// Eight bytes of two rows, after `flip`.
CUVIL_INLINE int8x16_t row_pair(const uint8_t* first, const uint8_t* second, uint32_t flip) {
  __asm__ volatile("" : "+r"(flip));  // as in ByteLanes
  const uint8x16_t both = vcombine_u8(vld1_u8(first), vld1_u8(second));
  return (int8x16_t)(both ^ (uint8x16_t)(vi)splat(int32_t(flip)));
}

// acc += the rows' first 8 * count bytes times the panel's words from b on. Rows go in pairs, of
// which a last one may be half empty.
template <int R, int V>
CUVIL_INLINE void multiply_matrices(vi (&acc)[R][V], const uint8_t* const (&row)[R], int64_t count,
                                    uint32_t flip, const int32_t* b) {
  constexpr int P = (R + 1) / 2;
  int32x4_t block[P][2 * V] = {};
  for (int64_t k = 0; k < 8 * count; k += 8, b += 2 * NR) {
    int8x16_t x[P];
#pragma unroll
    for (int p = 0; p < P; ++p)
      x[p] = row_pair(row[2 * p] + k, row[2 * p + 1 < R ? 2 * p + 1 : 2 * p] + k, flip);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int32x4_t first = (int32x4_t)load(b + v * VL), then = (int32x4_t)load(b + NR + v * VL);
      const int8x16_t low = (int8x16_t)vzip1q_s32(first, then);
      const int8x16_t high = (int8x16_t)vzip2q_s32(first, then);
#pragma unroll
      for (int p = 0; p < P; ++p) {
        block[p][2 * v] = vmmlaq_s32(block[p][2 * v], x[p], low);
        block[p][2 * v + 1] = vmmlaq_s32(block[p][2 * v + 1], x[p], high);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < R; ++i)
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int64x2_t low = (int64x2_t)block[i / 2][2 * v];
      const int64x2_t high = (int64x2_t)block[i / 2][2 * v + 1];
      acc[i][v] += (vi)(i % 2 ? vzip2q_s64(low, high) : vzip1q_s64(low, high));
    }
}

}  // namespace cuvil
#else
#define CUVIL_BYTE_MATRICES 0
#endif
