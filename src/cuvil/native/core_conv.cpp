// Convolution: finds where each output pixel's inputs lie and hands pointers to the contraction
// loops.
#include "pixel_rows.hpp"

namespace cuvil {

void conv_f32(const ConvArgs& a) {
  const int64_t pixels = a.n * a.od * a.oh * a.ow, og = a.oc / a.groups, cg = a.c / a.groups;
  if (pixels <= 0 || og <= 0) return;
  if (is_matrix_product(a)) {
    gemm_f32({1, pixels, og, cg, a.x, 0, cg, 1, a.w_packed, 0, a.y, 0, og, a.epilogue, a.scratch,
              a.pool, a.finish, a.cutting, true});
    return;
  }
  Contraction p = pixel_contraction(a);
  p.cutting = a.cutting;
  contract(p, PixelRows(a));
}

}  // namespace cuvil
