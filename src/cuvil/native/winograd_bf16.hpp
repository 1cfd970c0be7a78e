// winograd.hpp for an input of bf16. Tiles of 2 x 2 multiply pairs of channels that are rounded
// again after their transform, which loses some 1.7 times as much as the direct product of bf16;
// in tiles of 4 x 4 it would lose five times as much, so those multiply in f32 and round nothing.
// w_packed of tiles of 2 x 2: panels [ceil(oc / NR)][16][ceil(c / 2)][NR] of pairs
// (packing_bf16.pack_winograd_bf16).
#pragma once
#include "winograd.hpp"

namespace cuvil {

void winograd_2_bf16(const WinogradArgs& args);
void winograd_4_bf16(const WinogradArgs& args);

}  // namespace cuvil
