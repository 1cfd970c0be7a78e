// conv_transpose.hpp on pairs of bf16, summed in f32: x and w_packed point at those
// (packing_bf16.pack_conv_transpose_bf16), and c counts them, as conv_transpose_scratch_bytes does.
#pragma once
#include "conv_transpose.hpp"

namespace cuvil {

void conv_transpose2d_bf16(const ConvTransposeArgs& args);

}  // namespace cuvil
