// Depthwise convolution in f32 with the channels last, one filter a channel (multiplier 1).
//   y[n, oz, oy, ox, ch] = sum of x[n, oz*sd - pd + q*dd, oy*sh - ph + i*dh, ox*sw - pw + j*dw, ch]
//                                 * w[q, i, j, ch]
// w: [kd][kh][kw][c] (packing.pack_depthwise). End pads are implied by od, oh and ow; a pixel
// outside x is a row of zeros that is multiplied like any other. 2-D: d = od = kd = 1; 1-D:
// h = oh = kh = 1 as well (w = ow = kw = 1 is turned round to that).
// Vectors run over channels, several output pixels of one row stay in registers, so that an input
// loaded once serves every pixel whose window holds it. 3x3 and 5x5 with sw of 1 or 2, without
// dilation or kd, have kernels of their own, everything else a loop over taps. Products are added
// in order of (q, i, j).
// Epilogue tiles: pixels of one output row by at most EPILOGUE_MAX_COLS channels.
// scratch: depthwise_scratch_bytes(...) bytes, 64-byte aligned, not shared between concurrent
// calls.
#pragma once
#include "epilogue.hpp"
#include "threads.hpp"

namespace cuvil {

struct DepthwiseArgs {
  int64_t n, d, h, w, c;
  int64_t od, oh, ow;
  int32_t kd, kh, kw, sd, sh, sw, dd, dh, dw;
  int64_t pd, ph, pw;
  const float* x;
  const float* w_packed;
  float* y;
  Epilogue epilogue;
  void* scratch;
  Pool* pool;
  Finish finish = {};  // without a residual
};

void depthwise_conv_f32(const DepthwiseArgs& args);

// Output pixels of one row that are computed together.
constexpr int64_t DEPTHWISE_PIXELS = 7;

// taps = kd * kh * kw. A row of zeros, then each thread's table of pointers.
constexpr int64_t depthwise_scratch_bytes(int64_t taps, int64_t c, int32_t threads) {
  return (c + 15) / 16 * 64 + threads * ((8 * DEPTHWISE_PIXELS * taps + 63) / 64 * 64);
}

}  // namespace cuvil
