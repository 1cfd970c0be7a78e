// Transposed convolution in f32.
#include "conv_transpose_form.hpp"

namespace cuvil {

void conv_transpose2d_f32(const ConvTransposeArgs& a) { conv_transpose2d<FloatTile>(a); }

}  // namespace cuvil
