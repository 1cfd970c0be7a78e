// Fetching what is read next. A core that waits for the panels of a product to come from memory
// doesn't multiply, and its own prefetching doesn't look that far: so the tiles of some panels
// fetch those that come after them, each its slice, while they compute.
#pragma once
#include "vec.hpp"

namespace cuvil {

// A tile's slice: at every step of its loop (over k, or of a matrix unit) one line of 64 bytes goes
// into the second-level cache, `stride` bytes after the last one; below 64 that is the same line
// for some steps.
struct Ahead {
  const void* first = nullptr;
  int64_t stride = 0;
};

constexpr int64_t AHEAD_LEAST_STRIDE = 8;

// What comes next, which `tiles` tiles have to fetch among them.
struct Upcoming {
  const void* first;
  int64_t bytes, tiles;

  // At most `most` bytes a step: a tile would wait for more, as memory doesn't give more than some
  // 20 GB/s.
  __attribute__((noinline)) Ahead slice(int64_t tile, int64_t steps, int64_t most) const {
    if (bytes <= 0 || steps <= 0) return {};
    const int64_t even = max64(AHEAD_LEAST_STRIDE, ceil_div(bytes, tiles * steps));
    const int64_t stride = min64(even, most), from = tile * stride * steps;
    return from < bytes ? Ahead{static_cast<const char*>(first) + from, stride} : Ahead{};
  }
};

// Walks along a slice. Without one it stays with `here`, which the loop has in its first-level
// cache.
struct AheadWalk {
  const char* at;
  int64_t stride;

  CUVIL_INLINE AheadWalk(const Ahead& ahead, const void* here)
      : at(static_cast<const char*>(ahead.first ? ahead.first : here)), stride(ahead.stride) {}
  CUVIL_INLINE void step() {
    __builtin_prefetch(at, 0, 2);
    at += stride;
  }
  // All lines of a long step.
  CUVIL_INLINE void steps() {
    for (const char* const end = at + stride; at < end; at += 64) __builtin_prefetch(at, 0, 2);
  }
};

}  // namespace cuvil
