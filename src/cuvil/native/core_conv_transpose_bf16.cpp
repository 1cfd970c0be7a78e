// Transposed convolution of bf16: the pixels of conv_transpose_form.hpp, whose elements are pairs.
#include "conv_transpose_bf16.hpp"

#include "conv_transpose_form.hpp"
#include "tile_bf16.hpp"

namespace cuvil {

void conv_transpose2d_bf16(const ConvTransposeArgs& a) { conv_transpose2d<PairTile>(a); }

}  // namespace cuvil
