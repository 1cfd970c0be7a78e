// The rows of a depthwise convolution's output, and what each reads. Internal to the core: shared
// by depthwise and depthwise_bf16.
#pragma once
#include "depthwise.hpp"

namespace cuvil {

inline int64_t depthwise_taps(const DepthwiseArgs& a) { return int64_t(a.kd) * a.kh * a.kw; }

// One row of output pixels; elements are floats, or pairs of bf16 (depthwise_bf16.hpp).
struct OutputRow {
  const DepthwiseArgs& a;
  const float* zeros;
  const float** table;  // this thread's, [taps][DEPTHWISE_PIXELS]
  int64_t image, oz, oy;

  // Input row that tap row (q, i) reads, as an element offset; -1 in the padding.
  int64_t input_row(int64_t q, int64_t i) const {
    const int64_t z = oz * a.sd - a.pd + q * a.dd, y = oy * a.sh - a.ph + i * a.dh;
    const bool exists = uint64_t(z) < uint64_t(a.d) && uint64_t(y) < uint64_t(a.h);
    return exists ? ((image * a.d + z) * a.h + y) * a.w * a.c : -1;
  }
  // Number of the output pixel at ox.
  int64_t pixel(int64_t ox) const { return ((image * a.od + oz) * a.oh + oy) * a.ow + ox; }
  const float* input(int64_t row, int64_t x) const {
    return row >= 0 && uint64_t(x) < uint64_t(a.w) ? a.x + (row + x * a.c) : zeros;
  }
};

}  // namespace cuvil
