// How work is cut.
#pragma once
#include <stdint.h>

namespace cuvil {

// A range of items shorter than this is not worth handing over. Between kernels workers spin, so
// that one joins within a microsecond; a worker that sleeps is not waited for.
constexpr double MIN_RANGE_NS = 5000;

// For a contraction, where measuring showed something better than what is computed, which 0 stands
// for.
struct Cutting {
  int64_t panel_bytes = 0;  // packed panels that a thread keeps in its second-level cache
  int64_t row_limit = 0;    // rows a tile has at most; MR is the limit in any case
};

}  // namespace cuvil
