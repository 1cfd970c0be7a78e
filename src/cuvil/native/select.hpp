// Which elements a mask picks.
#pragma once
#include "kernel.hpp"

namespace cuvil {

// Where the first `size` true elements of mask[count] are; 0 for those that there are not.
inline void positions(const uint8_t* mask, int64_t count, int64_t* out, int64_t size) {
  int64_t found = 0, at = 0;
  for (; at + 8 <= count && found < size; at += 8) {
    uint64_t word;
    __builtin_memcpy(&word, mask + at, 8);
    if (word == 0) continue;
    for (int64_t i = at; i < at + 8 && found < size; ++i) {
      out[found] = i;
      found += mask[i] != 0;
    }
  }
  for (; at < count && found < size; ++at) {
    out[found] = at;
    found += mask[at] != 0;
  }
  for (; found < size; ++found) out[found] = 0;
}

}  // namespace cuvil
