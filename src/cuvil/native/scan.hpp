// Running sums along one axis of [outer][size][inner].
#pragma once
#include "kernel.hpp"

namespace cuvil {

// Integers wrap.
template <class T>
CUVIL_INLINE T wrapping_add(T a, T b) {
  if constexpr (is_float_type<T>) return a + b;
  else return T(uint64_t(a) + uint64_t(b));
}

// What is added in: a long sum of floats would lose most of their digits.
template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<float> {
  using type = double;
};
template <class T>
using Wide = typename WideOf<T>::type;

// exclusive: the element itself is left out; reverse: from the end.
template <class T>
void cumsum(const T* x, T* y, int64_t outer, int64_t size, int64_t inner, bool exclusive,
            bool reverse, Pool* pool) {
  if (outer <= 0 || size <= 0 || inner <= 0) return;
  // Columns are shared among threads by blocks that fill whole cache lines.
  const int64_t width = inner < 256 ? inner : 256, blocks = (inner + width - 1) / width;
  parallel_for(pool, outer * blocks, grain(size * width), [&](int64_t from, int64_t to, int32_t) {
    for (int64_t item = from; item < to; ++item) {
      const int64_t column = item % blocks * width;
      const int64_t n = column + width < inner ? width : inner - column;
      const int64_t start = (item / blocks) * size * inner + column;
      const int64_t step = reverse ? -inner : inner;
      int64_t at = reverse ? start + (size - 1) * inner : start;
      Wide<T> sums[256];
      for (int64_t j = 0; j < n; ++j) sums[j] = Wide<T>(0);
      for (int64_t i = 0; i < size; ++i, at += step) {
        CUVIL_INDEPENDENT
        for (int64_t j = 0; j < n; ++j) {
          const Wide<T> next = wrapping_add(sums[j], Wide<T>(x[at + j]));
          y[at + j] = T(exclusive ? sums[j] : next);
          sums[j] = next;
        }
      }
    }
  });
}

}  // namespace cuvil
