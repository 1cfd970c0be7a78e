// Rows of a matrix in lexicographic order.
#pragma once
#include "topk.hpp"

namespace cuvil {

template <class T>
struct RowItem {
  const T* row;
  int64_t width, position;
  CUVIL_INLINE bool before(const RowItem& o) const {
    for (int64_t i = 0; i < width; ++i) {
      const auto a = sort_key(row[i]), b = sort_key(o.row[i]);
      if (a != b) return a < b;
    }
    return position < o.position;
  }
};

template <class T>
void row_order(const T* x, int64_t rows, int64_t width, int64_t* out, void* scratch) {
  RowItem<T>* items = static_cast<RowItem<T>*>(scratch);
  for (int64_t i = 0; i < rows; ++i) items[i] = {x + i * width, width, i};
  sort_first(items, rows, rows, 64);
  for (int64_t i = 0; i < rows; ++i) out[i] = items[i].position;
}

}  // namespace cuvil
