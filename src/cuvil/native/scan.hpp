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

template <class T>
struct RunningSum {
  static constexpr T start = T(0);
  CUVIL_INLINE static T join(T a, T b) { return wrapping_add(a, b); }
};
template <class T>
struct RunningProduct {
  static constexpr T start = T(1);
  CUVIL_INLINE static T join(T a, T b) {
    if constexpr (is_float_type<T>) return a * b;
    else return T(uint64_t(a) * uint64_t(b));
  }
};

// The smaller exponential is added to the greater one; equal infinities stay themselves.
template <class T>
struct RunningLogSum {
  static constexpr T start = -kInf<T>;
  CUVIL_INLINE static T join(T a, T b) {
    const T top = max_nan(a, b), low = min_nan(a, b);
    return top == low && isinf(top) ? top : top + log1p(exp(low - top));
  }
};

// Columns are shared among threads by blocks that fill whole cache lines: calls
// `line(start, n)` for n columns from `start`.
template <class F>
void for_columns(int64_t outer, int64_t size, int64_t inner, Pool* pool, F line) {
  if (outer <= 0 || size <= 0 || inner <= 0) return;
  const int64_t width = inner < 256 ? inner : 256, blocks = (inner + width - 1) / width;
  parallel_for(pool, outer * blocks, grain(size * width), [&](int64_t from, int64_t to, int32_t) {
    for (int64_t item = from; item < to; ++item) {
      const int64_t column = item % blocks * width;
      const int64_t n = column + width < inner ? width : inner - column;
      line((item / blocks) * size * inner + column, n);
    }
  });
}

// exclusive: the element itself is left out; reverse: from the end.
template <class T, class Join>
void running(const T* x, T* y, int64_t outer, int64_t size, int64_t inner, bool exclusive,
             bool reverse, Pool* pool) {
  for_columns(outer, size, inner, pool, [&](int64_t start, int64_t n) {
    const int64_t step = reverse ? -inner : inner;
    int64_t at = reverse ? start + (size - 1) * inner : start;
    Wide<T> sums[256];
    for (int64_t j = 0; j < n; ++j) sums[j] = Join::start;
    for (int64_t i = 0; i < size; ++i, at += step) {
      CUVIL_INDEPENDENT
      for (int64_t j = 0; j < n; ++j) {
        const Wide<T> next = Join::join(sums[j], Wide<T>(x[at + j]));
        y[at + j] = T(exclusive ? sums[j] : next);
        sums[j] = next;
      }
    }
  });
}

template <class T>
void cumsum(const T* x, T* y, int64_t outer, int64_t size, int64_t inner, bool exclusive,
            bool reverse, Pool* pool) {
  running<T, RunningSum<Wide<T>>>(x, y, outer, size, inner, exclusive, reverse, pool);
}
template <class T>
void cumprod(const T* x, T* y, int64_t outer, int64_t size, int64_t inner, bool exclusive,
             bool reverse, Pool* pool) {
  running<T, RunningProduct<Wide<T>>>(x, y, outer, size, inner, exclusive, reverse, pool);
}
template <class T>
void logcumsumexp(const T* x, T* y, int64_t outer, int64_t size, int64_t inner, Pool* pool) {
  running<T, RunningLogSum<Wide<T>>>(x, y, outer, size, inner, false, false, pool);
}

// The greatest (least) element so far and its position: the last of equal ones, and from a NaN on
// the last NaN.
template <class T, bool GREATEST>
void running_extreme(const T* x, T* values, int64_t* positions, int64_t outer, int64_t size,
                     int64_t inner, Pool* pool) {
  for_columns(outer, size, inner, pool, [&](int64_t start, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      int64_t at = start + j, place = 0;
      T best = x[at];
      for (int64_t i = 0; i < size; ++i, at += inner) {
        const T next = x[at];
        const bool better = GREATEST ? next >= best : next <= best;
        if (next != next || (best == best && better)) best = next, place = i;
        values[at] = best;
        positions[at] = place;
      }
    }
  });
}

}  // namespace cuvil
