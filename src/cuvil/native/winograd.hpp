// 3x3 convolution of stride 1 in f32 with the channels last, by minimal filtering (Winograd 1980;
// Lavin and Gray 2016): a tile of m x m outputs costs (m + 2)^2 products instead of 9 m^2.
//   y[n, oy, ox, o] = sum x[n, oy - ph + i, ox - pw + j, k] * w[o, k, i, j]
// m = 2 evaluates polynomials at 0, 1, -1 and infinity; m = 4 at 0, +-11/16, +-3/2 and infinity,
// which among small dyadic points loses least (about 1.5e-6 of the output's scale at 128 channels;
// the usual 0, +-1, +-2 lose 8e-6, m = 2 loses 4e-7, the direct sum 2e-7).
// A tile with an output that is not finite is computed again from the inputs, tap by tap, since
// here an Inf or NaN of one pixel reaches outputs whose windows don't hold it.
// w_packed: panels [ceil(oc / NR)][(m + 2)^2][c][NR] (packing.pack_winograd).
// Epilogue tiles: pixels of one output row by at most NR channels.
// scratch: winograd_scratch_bytes(...) bytes, 64-byte aligned, not shared between concurrent calls.
// Zero-size batches and images are fine; c and oc >= 1.
#pragma once
#include "gemm.hpp"

namespace cuvil {

struct WinogradArgs {
  int64_t n, h, w, c;
  int64_t oh, ow, oc;
  int64_t ph, pw;
  const void* x;
  const float* w_packed;
  float* y;
  Epilogue epilogue;
  void* scratch;
  Pool* pool;
  int64_t group = 0;  // tiles that are multiplied together; 0: as winograd_group has it
};

void winograd_2_f32(const WinogradArgs& args);
void winograd_4_f32(const WinogradArgs& args);

// Transformed tiles that are multiplied together. A group's transformed input should stay in the
// second-level cache. `c` are words of a transformed pixel here: channels, or pairs of them.
constexpr int64_t WINOGRAD_GROUP_BYTES = CUVIL_VEC_BYTES == 64 ? 1100 << 10 : 400 << 10;
constexpr int64_t winograd_group(int64_t m, int64_t c) {
  const int64_t points = (m + 2) * (m + 2);
  const int64_t fit = WINOGRAD_GROUP_BYTES / (points * gemm_scratch_stride(c) * 4) / MR;
  return (fit < 1 ? 1 : fit > 4 ? 4 : fit) * MR;
}
// Floats between the values of neighbouring points: odd numbers of lines, so that they spread over
// the cache's sets.
constexpr int64_t winograd_products_stride(int64_t group) { return group * NR + 16; }
constexpr int64_t winograd_scratch_bytes(int64_t m, int64_t c, int32_t threads,
                                         int64_t chosen = 0) {
  const int64_t group = chosen > 0 ? chosen : winograd_group(m, c), points = (m + 2) * (m + 2);
  const int64_t input = points * (group * gemm_scratch_stride(c) + 16);
  return 4 * ((c + 15) / 16 * 16 +
              threads * (input + points * winograd_products_stride(group)));
}

}  // namespace cuvil
