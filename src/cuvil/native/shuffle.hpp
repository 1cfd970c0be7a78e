// Work across the lanes of vectors: sums of several vectors at once, transposition.
#pragma once
#include "vec.hpp"

namespace cuvil {

template <int... I>
struct Lanes {};
template <int N, int... I>
struct LanesBelow : LanesBelow<N - 1, N - 1, I...> {};
template <int... I>
struct LanesBelow<0, I...> {
  using List = Lanes<I...>;
};
using AllLanes = LanesBelow<VL>::List;

template <int... I>
CUVIL_INLINE vf add_neighbours(vf a, vf b, Lanes<I...>) {
  return __builtin_shufflevector(a, b, (2 * I)...) + __builtin_shufflevector(a, b, (2 * I + 1)...);
}
// Lane i of the result is the sum of the lanes of in[i]; in is used up.
CUVIL_INLINE vf sum_each(vf (&in)[VL]) {
#pragma unroll
  for (int n = VL; n > 1; n /= 2) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) in[i] = add_neighbours(in[2 * i], in[2 * i + 1], AllLanes{});
  }
  return in[0];
}

// Lanes of a and b alternating: the lower halves of both, and the upper.
template <int... I>
CUVIL_INLINE void interleave(vf a, vf b, vf* low, vf* high, Lanes<I...>) {
  *low = __builtin_shufflevector(a, b, (I % 2 * VL + I / 2)...);
  *high = __builtin_shufflevector(a, b, (I % 2 * VL + I / 2 + VL / 2)...);
}
// Transposes VL rows of VL lanes by log2(VL) perfect shuffles.
CUVIL_INLINE void transpose(vf (&rows)[VL]) {
#pragma unroll
  for (int step = 1; step < VL; step *= 2) {
    vf next[VL];
#pragma unroll
    for (int i = 0; i < VL / 2; ++i) {
      interleave(rows[i], rows[i + VL / 2], &next[2 * i], &next[2 * i + 1], AllLanes{});
    }
#pragma unroll
    for (int i = 0; i < VL; ++i) rows[i] = next[i];
  }
}

}  // namespace cuvil
