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
    for (int64_t k = 0; k < args.k; ++k)
      for (int64_t i = 0; i < mr; ++i) dst[i * stride + k] = src[i * args.a_row + k * args.a_col];
  }
};

void pack_rows(float* dst, const float* b, int64_t k, int64_t cols, int64_t row) {
  for (int64_t i = 0; i < k; ++i, dst += NR, b += row)
    for (int v = 0; v < NR / VL; ++v)
      store(dst + v * VL, load_n(b + v * VL, max64(0, min64(VL, cols - v * VL))));
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
  const Contraction p = {a.batch,   a.m,     a.n,   a.k,       a.b,        a.b_batch, a.c,
                         a.c_batch, a.c_row, false, row_limit, a.epilogue, a.pool};
  contract(p, MatrixRows{a});
}

void pack_b_f32(float* dst, const float* b, int64_t k, int64_t n, int64_t row, int64_t col) {
  for (int64_t j = 0; j < n; j += NR, dst += k * NR) {
    const int64_t cols = min64(NR, n - j);
    if (col == 1) pack_rows(dst, b + j, k, cols, row);
    else pack_strided(dst, b + j * col, k, cols, row, col);
  }
}

}  // namespace cuvil
