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

// Boxes that were kept, in blocks, so that a new one is compared with a whole block at once. A
// place without a box has the area 0, which overlaps nothing.
struct BoxBlock {
  static constexpr int64_t SIZE = 16;
  float low[2][SIZE], high[2][SIZE], area[SIZE];

  void clear() {
    for (int64_t j = 0; j < SIZE; ++j) area[j] = 0;
  }
  void put(int64_t j, const Box& box, float size) {
    for (int i = 0; i < 2; ++i) low[i][j] = box.low[i], high[i][j] = box.high[i];
    area[j] = size;
  }
};

inline float area_of(const Box& box) {
  return (box.high[0] - box.low[0]) * (box.high[1] - box.low[1]);
}

// Whether the share of `a`, whose area is above 0, in common with a box of the block is more than
// the threshold.
inline bool overlaps_any(const Box& a, float area, const BoxBlock& b, float threshold) {
#pragma clang fp contract(off)  // the share is compared with a threshold: no other rounding
  int32_t hits = 0;
  for (int64_t j = 0; j < BoxBlock::SIZE; ++j) {
    float side[2];
    for (int i = 0; i < 2; ++i) {
      const float high = a.high[i] < b.high[i][j] ? a.high[i] : b.high[i][j];
      side[i] = high - (a.low[i] > b.low[i][j] ? a.low[i] : b.low[i][j]);
    }
    const float common = side[0] * side[1], joint = area + b.area[j] - common;
    hits |= int32_t(side[0] > 0) & int32_t(side[1] > 0) & int32_t(b.area[j] > 0) &
            int32_t(joint > 0) & int32_t(common / joint > threshold);
  }
  return hits != 0;
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

// Scores in order, and the boxes that were kept: 32 bytes a box (28 of them used), and a block
// more.
constexpr int64_t nms_scratch_bytes(int64_t count) {
  return count * 32 + int64_t(sizeof(BoxBlock));
}

// The order of scores: the greatest first, NaN last, equal ones by position. The positions of up
// to 2^32 boxes fit beside the key.
inline void nms_row(const NmsArgs& a, int64_t row, char* scratch) {
  struct Item {
    uint64_t both;
    bool before(const Item& o) const { return both > o.both; }  // the first in order on top
  };
  Item* items = reinterpret_cast<Item*>(scratch);
  BoxBlock* stay = reinterpret_cast<BoxBlock*>(items + a.count);
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
    const float area = area_of(box);
    bool free = true;
    if (area > 0)
      for (int64_t j = 0; j * BoxBlock::SIZE < kept && free; ++j)
        free = !overlaps_any(box, area, stay[j], a.iou);
    if (!free) continue;
    BoxBlock& block = stay[kept / BoxBlock::SIZE];
    if (kept % BoxBlock::SIZE == 0) block.clear();
    block.put(kept % BoxBlock::SIZE, box, area);
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
