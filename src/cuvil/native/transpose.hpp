// Copies of transposed matrices, square by square in registers.
#pragma once
#include "vec.hpp"

namespace cuvil {

// One square of VL x VL, or the part of it that exists.
template <bool PARTIAL>
CUVIL_INLINE void transpose_square(float* dst, int64_t dst_row, const float* src, int64_t src_row,
                                   int64_t rows, int64_t cols) {
  vf square[VL];
#pragma unroll
  for (int j = 0; j < VL; ++j) {
    if (PARTIAL) square[j] = j < cols ? load_n(src + j * src_row, min64(rows, VL)) : vf{};
    else square[j] = load(src + j * src_row);
  }
  transpose(square);
#pragma unroll
  for (int i = 0; i < VL; ++i) {
    if (!PARTIAL) store(dst + i * dst_row, square[i]);
    else if (i < rows) store_n(dst + i * dst_row, square[i], min64(cols, VL));
  }
}

// dst[i * dst_row + j] = src[j * src_row + i], i < rows, j < cols; strides may be negative.
// Blocks of some 64 x 64 suit a first-level cache: the caller cuts.
inline void transpose_block(float* dst, int64_t dst_row, const float* src, int64_t src_row,
                            int64_t rows, int64_t cols) {
  for (int64_t i = 0; i < rows; i += VL)
    for (int64_t j = 0; j < cols; j += VL) {
      float* to = dst + (i * dst_row + j);
      const float* from = src + (j * src_row + i);
      if (rows - i >= VL && cols - j >= VL)
        transpose_square<false>(to, dst_row, from, src_row, VL, VL);
      else
        transpose_square<true>(to, dst_row, from, src_row, rows - i, cols - j);
    }
}

}  // namespace cuvil
