// conv.hpp with pairs of bf16 channels in place of floats, and f32 out (tile_bf16.hpp): in the
// arguments x and w_packed are pairs, c counts pairs, and w_packed is packing.pack_conv_bf16's,
// panels [ceil(og / NR)][kd*kh*kw*cg][NR] of pairs. Each group has an even number of channels.
// Scratch is as conv.hpp says, for a group's pairs; copies is amx_scratch_bytes(pairs of a sum,
// threads) of contract_amx.hpp, or null where no matrix unit is to be used.
#pragma once
#include "conv.hpp"

namespace cuvil {

void conv_bf16(const ConvArgs& args);

}  // namespace cuvil
