// Max and average pooling over up to three spatial axes, f32, channels last: x [n, d, h, w, c] to
// y [n, od, oh, ow, c], both contiguous. Two axes: d = od = kernel = 1; one: h too.
#pragma once
#include <stdint.h>

#include "threads.hpp"

namespace cuvil {

struct PoolAxis {
  int64_t size, out;
  int64_t kernel, stride, dilation;
  int64_t begin, end;  // padding; `end` matters only to an average that counts the padding
};

struct PoolingArgs {
  int64_t n, c;
  PoolAxis axes[3];  // depth, height, width
  // Averages: divide by the window's part of the padded input (true) or of the input (false).
  bool count_include_pad;
  int64_t divisor;  // averages: divide by this when it is not 0
  const float* x;
  float* y;
  Pool* pool;
};

// NaN anywhere in a window makes it NaN; a window wholly in the padding gives -inf.
void max_pool_f32(const PoolingArgs& args);
// Sums in order of the window; a window wholly in the padding gives 0.
void average_pool_f32(const PoolingArgs& args);

}  // namespace cuvil
