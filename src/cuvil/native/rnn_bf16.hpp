// rnn.hpp with recurrent weights of bf16 in pairs of units of the state, the earlier one in the
// lower half: r_packed points at [ceil(hidden / LANES)][ceil(hidden / 2)][gates][LANES] of them;
// what has no partner stands with 0. States and sums are f32. Where the machine has a dot product
// of pairs, a state is multiplied in two parts of bf16, with 16 bits of it.
#pragma once
#include "rnn.hpp"

namespace cuvil {

void rnn_bf16(const RnnArgs* directions, int32_t count, void* scratch, Pool* pool);

}  // namespace cuvil
