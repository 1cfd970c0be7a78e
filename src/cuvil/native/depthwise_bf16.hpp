// depthwise.hpp with an input of bf16, in the arguments as pairs of channels: c counts pairs, x
// points at them, and y (or a finish's half) has 2c channels. Weights and sums are f32.
// w_packed: [kh][kw][2][c], for each tap the weights of the even channels and of the odd ones
// (packing_bf16.pack_depthwise_bf16), as a vector of pairs is widened to the even and the odd ones.
// Only for images (d = od = kd = 1) and windows of 3x3 or 5x5 with sw of 1 or 2, without dilation,
// and for VL pairs at least.
#pragma once
#include "depthwise.hpp"

namespace cuvil {

void depthwise_conv_bf16(const DepthwiseArgs& args);

// A row of zeros.
constexpr int64_t depthwise_bf16_scratch_bytes(int64_t pairs) { return (pairs + 15) / 16 * 64; }

}  // namespace cuvil
