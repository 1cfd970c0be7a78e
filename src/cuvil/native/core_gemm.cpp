// Matrix products: strided rows into the contraction loops, and packing of a dynamic B.
#include "gemm.hpp"

#include "contract.hpp"

namespace cuvil {
namespace {

struct MatrixRows {
  const GemmArgs& args;

  TileOperands prepare(const TileRequest& want) const {
    const float* first = args.a + want.batch * args.a_batch + want.m0 * args.a_row;
    int64_t stride = args.a_row;
    if (args.a_col != 1) {
      stride = gemm_scratch_stride(args.k);
      float* rows = static_cast<float*>(args.scratch) + want.thread * MR * stride;
      gather_rows(rows, stride, first, want.mr);
      first = rows;
    }
    for (int64_t i = 0; i < want.mr; ++i) want.table[i] = first + i * stride;
    return {want.table, 1, args.k};
  }

  void gather_rows(float* dst, int64_t stride, const float* src, int64_t mr) const {
    if (args.a_row == 1) {
      for (int64_t i = 0; i < mr; i += VL)
        gather_columns(dst + i * stride, stride, src + i, min64(VL, mr - i));
      return;
    }
    for (int64_t k = 0; k < args.k; ++k)
      for (int64_t i = 0; i < mr; ++i) dst[i * stride + k] = src[i * args.a_row + k * args.a_col];
  }

  // Rows of a matrix stored by columns; a destination row has room for whole vectors.
  void gather_columns(float* dst, int64_t stride, const float* src, int64_t mr) const {
    for (int64_t k = 0; k < args.k; k += VL) {
      vf square[VL];
      for (int j = 0; j < VL; ++j)
        square[j] = k + j < args.k ? load_n(src + (k + j) * args.a_col, mr) : vf{};
      transpose(square);
      for (int i = 0; i < VL; ++i)
        if (i < mr) store(dst + i * stride + k, square[i]);
    }
  }
};

void pack_rows(float* dst, const float* b, int64_t k, int64_t cols, int64_t row) {
  for (int64_t i = 0; i < k; ++i, dst += NR, b += row)
    for (int v = 0; v < NR / VL; ++v)
      store(dst + v * VL, load_n(b + v * VL, max64(0, min64(VL, cols - v * VL))));
}

// A panel of a matrix stored by columns, col apart: squares of vectors are transposed.
void pack_columns(float* dst, const float* b, int64_t k, int64_t cols, int64_t col) {
  for (int64_t i = 0; i < k; i += VL, dst += VL * NR, b += VL) {
    const int64_t depth = min64(VL, k - i);
    for (int64_t v = 0; v < NR; v += VL) {
      vf square[VL];
      for (int j = 0; j < VL; ++j)
        square[j] = v + j < cols ? load_n(b + (v + j) * col, depth) : vf{};
      transpose(square);
      for (int r = 0; r < VL; ++r)
        if (r < depth) store(dst + r * NR + v, square[r]);
    }
  }
}

void pack_strided(float* dst, const float* b, int64_t k, int64_t cols, int64_t row, int64_t col) {
  for (int64_t i = 0; i < k; ++i, dst += NR, b += row) {
    for (int64_t j = 0; j < cols; ++j) dst[j] = b[j * col];
    for (int64_t j = cols; j < NR; ++j) dst[j] = 0;
  }
}

}  // namespace

void gemm_f32(const GemmArgs& a) {
  const int64_t row_limit = a.a_col == 1 ? tile_rows_at(a.a_row, a.k) : MR;
  // Gathered rows should serve several panels before they are gathered again.
  const int64_t min_panels = a.a_col == 1 ? 1 : 8;
  const Contraction p = {a.batch, a.m,       a.n,        a.k,        a.b,    a.b_batch,
                         a.c,     a.c_batch, a.c_row,    false,      row_limit, min_panels,
                         a.epilogue, a.pool, a.finish,   a.cutting, a.constant_b};
  contract(p, MatrixRows{a});
}

void pack_b_f32(float* dst, const float* b, int64_t k, int64_t n, int64_t row, int64_t col) {
  for (int64_t j = 0; j < n; j += NR, dst += k * NR) {
    const int64_t cols = min64(NR, n - j);
    if (col == 1) pack_rows(dst, b + j, k, cols, row);
    else if (row == 1) pack_columns(dst, b + j * col, k, cols, col);
    else pack_strided(dst, b + j * col, k, cols, row, col);
  }
}

}  // namespace cuvil
