// Sums across the lanes of several vectors at once.
#pragma once
#include "vec.hpp"

namespace cuvil {

template <class, int... I>
struct NeighbourLanes {
  static CUVIL_INLINE vf add(vf a, vf b) {
    return __builtin_shufflevector(a, b, (2 * I)...) +
           __builtin_shufflevector(a, b, (2 * I + 1)...);
  }
};
using Neighbours = __make_integer_seq<NeighbourLanes, int, VL>;

// Lane i of the result is the sum of the lanes of in[i]; in is used up.
CUVIL_INLINE vf sum_each(vf (&in)[VL]) {
#pragma unroll
  for (int n = VL; n > 1; n /= 2) {
#pragma unroll
    for (int i = 0; i < n / 2; ++i) in[i] = Neighbours::add(in[2 * i], in[2 * i + 1]);
  }
  return in[0];
}

}  // namespace cuvil
