// The k first elements in order along one axis of [outer][size][inner], with their positions.
// Equal elements keep their order; NaN is greater than everything; -0 equals 0. A row of elements
// of up to four bytes may have 2^32 of them.
#pragma once
#include "kernel.hpp"

namespace cuvil {

// Unsigned integers in the order of the elements.
template <int BYTES>
struct SortWord { using type = uint32_t; };
template <>
struct SortWord<8> { using type = uint64_t; };

template <class T>
CUVIL_INLINE typename SortWord<sizeof(T)>::type sort_key(T x) {
  using Word = typename SortWord<sizeof(T)>::type;
  constexpr Word top = Word(1) << (8 * sizeof(Word) - 1);
  if constexpr (is_float_type<T>) {
    if (x != x) return Word(-1);
    const Word bits = Word(to_bits(x == T(0) ? T(0) : x));
    return bits & top ? Word(~bits) : Word(bits | top);
  } else if constexpr (IntLimits<T>::is_signed) {
    return Word(Word(x) ^ top);
  } else {
    return Word(x);
  }
}

// Key and position; all items of a row differ, so no sort needs to be stable.
template <class Word>
struct SortItem {
  Word key;
  int64_t position;
  CUVIL_INLINE bool before(const SortItem& o) const {
    return key != o.key ? key < o.key : position < o.position;
  }
};
template <>
struct SortItem<uint32_t> {
  uint64_t both;
  SortItem() = default;
  CUVIL_INLINE SortItem(uint32_t key, int64_t position)
      : both(uint64_t(key) << 32 | uint64_t(uint32_t(position))) {}
  CUVIL_INLINE bool before(const SortItem& o) const { return both < o.both; }
};
CUVIL_INLINE int64_t position_of(const SortItem<uint32_t>& i) { return int64_t(uint32_t(i.both)); }
CUVIL_INLINE int64_t position_of(const SortItem<uint64_t>& i) { return i.position; }

// Restores the heap (last in order on top) below `at`.
template <class Item>
void sift_down(Item* heap, int64_t at, int64_t n) {
  const Item item = heap[at];
  for (int64_t child = 2 * at + 1; child < n; at = child, child = 2 * at + 1) {
    if (child + 1 < n && heap[child].before(heap[child + 1])) ++child;
    if (!item.before(heap[child])) break;
    heap[at] = heap[child];
  }
  heap[at] = item;
}
template <class Item>
void heap_sort(Item* items, int64_t n) {
  for (int64_t i = n / 2 - 1; i >= 0; --i) sift_down(items, i, n);
  for (int64_t i = n - 1; i > 0; --i) {
    const Item top = items[0];
    items[0] = items[i];
    items[i] = top;
    sift_down(items, 0, i);
  }
}

// Puts the first `k` items in order to the front, sorted (quicksort, Hoare 1962; heap sort where
// the pivots are bad, Musser 1997).
template <class Item>
void sort_first(Item* items, int64_t n, int64_t k, int depth) {
  while (n > 16) {
    if (depth-- == 0) return heap_sort(items, n);
    Item a = items[0], b = items[n / 2], c = items[n - 1];
    if (b.before(a)) { const Item t = a; a = b; b = t; }
    const Item pivot = c.before(a) ? a : c.before(b) ? c : b;
    int64_t i = -1, j = n;
    for (;;) {
      while (items[++i].before(pivot)) {}
      while (pivot.before(items[--j])) {}
      if (i >= j) break;
      const Item t = items[i];
      items[i] = items[j];
      items[j] = t;
    }
    const int64_t left = j + 1;
    if (k > left) sort_first(items + left, n - left, k - left, depth);
    n = left;
  }
  for (int64_t i = 1; i < n; ++i) {
    const Item item = items[i];
    int64_t j = i;
    for (; j > 0 && item.before(items[j - 1]); --j) items[j] = items[j - 1];
    items[j] = item;
  }
}

template <class T>
using ItemOf = SortItem<typename SortWord<sizeof(T)>::type>;

// Bytes of scratch: one row of items a thread.
template <class T>
constexpr int64_t topk_scratch_bytes(int64_t size, int32_t threads) {
  return threads * size * int64_t(sizeof(ItemOf<T>));
}

template <class T>
void topk(const T* x, T* values, int64_t* positions, int64_t outer, int64_t size, int64_t inner,
          int64_t k, bool largest, void* scratch, Pool* pool) {
  using Item = ItemOf<T>;
  using Word = typename SortWord<sizeof(T)>::type;
  if (k <= 0) return;
  const int64_t rows = outer * inner;
  parallel_for(pool, rows, grain(size * 16), [&](int64_t from, int64_t to, int32_t thread) {
    Item* items = static_cast<Item*>(scratch) + thread * size;
    for (int64_t row = from; row < to; ++row) {
      const T* in = x + row / inner * size * inner + row % inner;
      const auto item = [&](int64_t i) {
        const Word key = sort_key(in[i * inner]);
        return Item{largest ? Word(~key) : key, i};
      };
      if (k * 8 <= size) {  // a heap of the best so far: most elements are compared once
        for (int64_t i = 0; i < k; ++i) items[i] = item(i);
        for (int64_t i = k / 2 - 1; i >= 0; --i) sift_down(items, i, k);
        for (int64_t i = k; i < size; ++i) {
          const Item next = item(i);
          if (!next.before(items[0])) continue;
          items[0] = next;
          sift_down(items, 0, k);
        }
        sort_first(items, k, k, 64);
      } else {
        for (int64_t i = 0; i < size; ++i) items[i] = item(i);
        sort_first(items, size, k, 64);
      }
      const int64_t out = row / inner * k * inner + row % inner;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t at = position_of(items[i]);
        values[out + i * inner] = in[at * inner];
        positions[out + i * inner] = at;
      }
    }
  });
}

}  // namespace cuvil
