// Convolution of bf16: the pixels of core_conv.cpp, whose elements are pairs, on tiles of pairs.
#include "conv_bf16.hpp"

#include "contract_amx.hpp"
#include "conv_amx.hpp"
#include "gemm_bf16.hpp"
#include "pixel_rows.hpp"
#include "tile_bf16.hpp"

namespace cuvil {
#if CUVIL_AMX
namespace {

struct PairPixels : PixelRows {
  using PixelRows::PixelRows;
  AmxRows in_place(int64_t, int64_t) const { return {}; }
};

}  // namespace
#endif

namespace {

// A product of all pixels, as if they were one line.
ConvArgs as_line(const ConvArgs& a, int64_t pixels) {
  ConvArgs line = a;
  line.n = line.d = line.h = line.od = line.oh = 1;
  line.w = line.ow = pixels;
  return line;
}

}  // namespace

void conv_bf16(const ConvArgs& a) {
  const int64_t pixels = a.n * a.od * a.oh * a.ow, og = a.oc / a.groups, cg = a.c / a.groups;
  if (pixels <= 0 || og <= 0) return;
  if (is_matrix_product(a)) {
    // A matrix product reads rows in place that are whole steps.
    if (a.c % AMX_STEP_PAIRS && conv_amx(as_line(a, pixels))) return;
    gemm_bf16({1, pixels, og, 2 * cg, reinterpret_cast<const uint16_t*>(a.x), 0, 2 * cg,
               reinterpret_cast<const uint16_t*>(a.w_packed), 0, a.y, 0, og, a.epilogue, a.pool,
               a.finish, a.copies});
    return;
  }
  if (conv_amx(a)) return;
#if CUVIL_AMX
  if (a.copies && pixels >= AMX_LEAST_ROWS && amx_ready())
    return contract_amx(pixel_contraction(a), PairPixels(a), a.copies);
#endif
  contract(pixel_contraction(a), PixelRows(a), PairTile{});
}

}  // namespace cuvil
