// recurrent.hpp with inputs and weights of bf16: x, w and r point at those, w is packed as
// gemm_bf16.hpp says, r as rnn_bf16.hpp has it; the size of the inputs is even. All else is f32.
#pragma once
#include "recurrent.hpp"

namespace cuvil {

void recurrent_bf16(const RecurrentArgs& args);

}  // namespace cuvil
