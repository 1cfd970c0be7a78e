// Convolution of bf16 on a matrix unit without copies of its windows. Internal to the core.
// A tile's rows are pixels next to each other in an output line (a segment), whose inputs for one
// tap lie at equal distances in the image: so the unit reads them there. Where a tap's channels are
// few, a step takes several taps of a kernel line, which are contiguous. Segments whose windows
// touch the padding read copies of their input lines, with zeros outside.
#pragma once
#include "conv.hpp"

namespace cuvil {

// Does what conv_bf16 does, or nothing and returns false: where there is no unit, or the usual
// loops are faster.
bool conv_amx(const ConvArgs& args);

}  // namespace cuvil
