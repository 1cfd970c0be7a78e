// Convolution in f32 with the channels last, as an implicit matrix product: rows are output pixels,
// columns output channels, the inner dimension runs over (kd, kh, kw, channels of the group).
//   y[n, oz, oy, ox, o] = sum x[n, oz*sd - pd + q*dd, oy*sh - ph + i*dh, ox*sw - pw + j*dw,
//                               g*cg + k] * w[g, o, q, i, j, k]
// A pixel outside x is a row of zeros that is multiplied like any other (as in references that pad
// with zeros: Inf or NaN in a weight then makes NaN there). End pads are implied by od, oh and ow.
// 2-D: d = od = kd = 1; 1-D: h = oh = kh = 1 as well (strides and dilations 1, pads 0).
// w_packed: per group, panels [ceil(og / NR)][kd*kh*kw*cg][NR] (packing.pack_conv_weights), og =
// oc/groups, cg = c/groups. Output [n, od, oh, ow, oc], or whatever the epilogue makes of it (rows
// m = flattened pixel).
// Zero-size batches, images or channels are fine; c == 0 gives +0.
// scratch: conv_scratch_bytes(...) bytes, 64-byte aligned, not shared between concurrent calls.
// Needs kernel sizes, strides, dilations and groups >= 1 and c, oc multiples of groups.
#pragma once
#include "gemm.hpp"

namespace cuvil {

struct ConvArgs {
  int64_t n, d, h, w, c;
  int64_t od, oh, ow, oc;
  int32_t kd, kh, kw, sd, sh, sw, dd, dh, dw;
  int64_t pd, ph, pw;
  int32_t groups;
  const float* x;
  const float* w_packed;
  float* y;
  Epilogue epilogue;
  void* scratch;
  Pool* pool;
  Finish finish = {};
  Cutting cutting = {};
  void* copies = nullptr;  // of conv_bf16.hpp
};

void conv_f32(const ConvArgs& args);

// With fewer channels a tap is too short a run for the inner loop: then kernel rows are runs, and
// those that cross a border of the input are copied.
constexpr int64_t CONV_SHORT_RUN = 16;

// Floats of the row of zeros that stands for padding: a tap, or a kernel row where those are runs.
constexpr int64_t conv_zero_row(int64_t kw, int64_t group_channels) {
  return group_channels < CONV_SHORT_RUN ? kw * group_channels : group_channels;
}
// Bytes of one thread's table of pointers and copied rows.
constexpr int64_t conv_thread_bytes(int64_t taps, int64_t group_channels) {
  const int64_t copied = group_channels < CONV_SHORT_RUN ? MR * taps * group_channels : 0;
  return (8 * MR * taps + 63) / 64 * 64 + (4 * copied + 63) / 64 * 64;
}
// taps = kd * kh * kw, group_channels = c / groups. The row of zeros comes first, then the threads'
// parts.
constexpr int64_t conv_scratch_bytes(int64_t taps, int64_t kw, int64_t group_channels,
                                     int32_t threads) {
  return (conv_zero_row(kw, group_channels) + 15) / 16 * 64 +
         threads * conv_thread_bytes(taps, group_channels);
}

}  // namespace cuvil
