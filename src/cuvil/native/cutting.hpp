// How a contraction's work is cut, where measuring showed something better than what is computed,
// which 0 stands for.
#pragma once
#include <stdint.h>

namespace cuvil {

struct Cutting {
  int64_t panel_bytes = 0;  // packed panels that a thread keeps in its second-level cache
  int64_t row_limit = 0;    // rows a tile has at most; MR is the limit in any case
};

}  // namespace cuvil
