// Transposed 2-D convolution in f32 over NHWC, in gather form: no buffer of columns, no scattered
// sums.
//   y[n, oy, ox, o] = sum over i, j, k with oy = iy*sh - ph + i*dh, ox = ix*sw - pw + j*dw
//                     of x[n, iy, ix, g*cg + k] * w[g, k, o, i, j]
// Output pixels with equal (oy + ph) mod sh and (ox + pw) mod sw meet the same taps: each such
// phase is a small convolution of its own. oh and ow carry the end pads and the output padding. A
// tap outside x contributes nothing to a finite sum; like padding it is a row of zeros (Inf weights
// make NaN there).
// w_packed (packing.pack_conv_transpose): per group, per phase (ry, rx), panels
//   [ceil(og / NR)][taps of the phase * cg][NR]
// with taps (i, j) ascending, i*dh mod sh = ry, j*dw mod sw = rx.
// 1-D: h = kh = 1. A phase without taps gives +0. scratch: conv_transpose_scratch_bytes(...),
// 64-byte aligned.
#pragma once
#include "epilogue.hpp"
#include "threads.hpp"

namespace cuvil {

struct ConvTransposeArgs {
  int64_t n, h, w, c;
  int64_t oh, ow, oc;
  int32_t kh, kw, sh, sw, dh, dw;
  int64_t ph, pw;
  int32_t groups;
  const float* x;
  const float* w_packed;
  float* y;
  Epilogue epilogue;
  void* scratch;
  Pool* pool;
};

void conv_transpose2d_f32(const ConvTransposeArgs& args);

// taps = kh * kw, group_channels = c / groups.
constexpr int64_t conv_transpose_scratch_bytes(int64_t taps, int64_t group_channels,
                                               int32_t threads) {
  return (group_channels + 15) / 16 * 64 + threads * ((8 * MR * taps + 63) / 64 * 64);
}

}  // namespace cuvil
