// Non-maximum suppression: of boxes that overlap much, the one with the best score.
#pragma once
#include "topk.hpp"

namespace cuvil {

struct Box {
  float low[2], high[2];
};

inline Box box_of(const float* b, bool center) {
  Box r;
  for (int i = 0; i < 2; ++i) {
    const float half = b[2 + i] / 2;
    r.low[i] = center ? b[i] - half : (b[i] < b[2 + i] ? b[i] : b[2 + i]);
    r.high[i] = center ? b[i] + half : (b[i] < b[2 + i] ? b[2 + i] : b[i]);
    // A box with a NaN overlaps nothing.
    if (b[i] != b[i] || b[2 + i] != b[2 + i]) r.low[i] = r.high[i] = __builtin_nanf("");
  }
  return r;
}

inline bool overlaps(const Box& a, const Box& b, float threshold) {
#pragma clang fp contract(off)  // the share is compared with a threshold: no other rounding
  float common = 1, first = 1, second = 1;
  for (int i = 0; i < 2; ++i) {
    const float high = a.high[i] < b.high[i] ? a.high[i] : b.high[i];
    const float side = high - (a.low[i] > b.low[i] ? a.low[i] : b.low[i]);
    if (!(side > 0)) return false;
    common *= side;
    first *= a.high[i] - a.low[i];
    second *= b.high[i] - b.low[i];
  }
  const float joint = first + second - common;
  return first > 0 && second > 0 && joint > 0 && common / joint > threshold;
}

struct NmsArgs {
  const float* boxes;   // [batches][count][4]
  const float* scores;  // [batches][classes][count]
  int64_t batches, classes, count, limit;
  int64_t most;
  float iou, low;
  bool has_low, center;
  int64_t* picked;  // [batches][classes][limit]
  int64_t* found;   // [batches][classes]
  char* scratch;  // nms_scratch_bytes(count) a thread
};

// Scores in order, and the boxes that were kept.
constexpr int64_t nms_scratch_bytes(int64_t count) {
  return count * int64_t(sizeof(uint64_t) + sizeof(Box));
}

// The order of scores: the greatest first, NaN last, equal ones by position. The positions of up
// to 2^32 boxes fit beside the key.
inline void nms_row(const NmsArgs& a, int64_t row, char* scratch) {
  struct Item {
    uint64_t both;
    bool before(const Item& o) const { return both > o.both; }  // the first in order on top
  };
  Item* items = reinterpret_cast<Item*>(scratch);
  Box* stay = reinterpret_cast<Box*>(items + a.count);
  const float* scores = a.scores + row * a.count;
  const float* boxes = a.boxes + row / a.classes * a.count * 4;
  int64_t* picked = a.picked + row * a.limit;
  int64_t n = 0;
  for (int64_t i = 0; i < a.count; ++i) {
    if (a.has_low && !(scores[i] > a.low)) continue;
    const uint32_t key = scores[i] != scores[i] ? ~0u : ~sort_key(scores[i]);
    items[n++].both = uint64_t(key) << 32 | uint64_t(uint32_t(i));
  }
  for (int64_t i = n / 2 - 1; i >= 0; --i) sift_down(items, i, n);
  const int64_t most = a.most < a.limit ? a.most : a.limit;
  int64_t kept = 0;
  while (n > 0 && kept < most) {
    const int64_t at = int64_t(uint32_t(items[0].both));
    items[0] = items[--n];
    if (n > 0) sift_down(items, 0, n);
    const Box box = box_of(boxes + at * 4, a.center);
    bool free = true;
    for (int64_t j = 0; j < kept && free; ++j) {
      free = !overlaps(box, stay[j], a.iou);
    }
    if (!free) continue;
    stay[kept] = box;
    picked[kept++] = at;
  }
  a.found[row] = kept;
  for (; kept < a.limit; ++kept) picked[kept] = 0;
}

inline void nms(const NmsArgs& args, Pool* pool) {
  const int64_t rows = args.batches * args.classes;
  parallel_for(pool, rows, grain(args.count * 32), [&](int64_t from, int64_t to, int32_t thread) {
    for (int64_t row = from; row < to; ++row) {
      nms_row(args, row, args.scratch + thread * nms_scratch_bytes(args.count));
    }
  });
}

}  // namespace cuvil
