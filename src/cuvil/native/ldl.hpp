// Symmetric indefinite matrices, a = L D L^T with rows exchanged: Bunch and Kaufman, 1977 (LAPACK's
// sytf2 and sytrs, lower). D has blocks of 1 and 2, marked by positive and equal negative pivots.
#pragma once
#include "linalg.hpp"

namespace cuvil {

// Where the column (or row, by the stride) has its first largest element of [from, to).
inline int64_t largest(const double* x, int64_t stride, int64_t from, int64_t to) {
  int64_t best = from;
  for (int64_t i = from + 1; i < to; ++i)
    if (abs(x[i * stride]) > abs(x[best * stride])) best = i;
  return best;
}

inline void exchange(double& a, double& b) {
  const double t = a;
  a = b;
  b = t;
}

struct LdlPivot {
  int64_t row, size;  // the row exchanged with the block's last, the block's size (0: no pivot)
};
inline LdlPivot choose_pivot(const double* w, int64_t n, int64_t k) {
  constexpr double alpha = 0.6403882032022076;  // (1 + sqrt(17)) / 8
  const double here = abs(w[k * n + k]);
  const int64_t at = k + 1 < n ? largest(w + k, n, k + 1, n) : k;
  const double column = k + 1 < n ? abs(w[at * n + k]) : 0.0;
  if ((here == 0.0 && column == 0.0) || here != here) return {k, 0};
  if (here >= alpha * column) return {k, 1};
  double row = abs(w[at * n + largest(w + at * n, 1, k, at)]);
  if (at + 1 < n) row = max_nan(row, abs(w[largest(w + at, n, at + 1, n) * n + at]));
  if (here >= alpha * column * (column / row)) return {k, 1};
  if (abs(w[at * n + at]) >= alpha * row) return {at, 1};
  return {at, 2};
}

inline void exchange_symmetric(double* w, int64_t n, int64_t k, int64_t a, int64_t b) {
  for (int64_t i = b + 1; i < n; ++i) exchange(w[i * n + a], w[i * n + b]);
  for (int64_t i = a + 1; i < b; ++i) exchange(w[i * n + a], w[b * n + i]);
  exchange(w[a * n + a], w[b * n + b]);
  if (a != k) exchange(w[a * n + k], w[b * n + k]);
}

inline void eliminate_one(double* w, int64_t n, int64_t k) {
  const double inverse = 1.0 / w[k * n + k];
  for (int64_t j = k + 1; j < n; ++j)
    for (int64_t i = j; i < n; ++i) w[i * n + j] -= inverse * w[i * n + k] * w[j * n + k];
  for (int64_t i = k + 1; i < n; ++i) w[i * n + k] *= inverse;
}
inline void eliminate_two(double* w, int64_t n, int64_t k) {
  const double off = w[(k + 1) * n + k];
  const double d1 = w[(k + 1) * n + k + 1] / off, d2 = w[k * n + k] / off;
  const double scale = 1.0 / (d1 * d2 - 1.0) / off;
  for (int64_t j = k + 2; j < n; ++j) {
    const double x = scale * (d1 * w[j * n + k] - w[j * n + k + 1]);
    const double y = scale * (d2 * w[j * n + k + 1] - w[j * n + k]);
    for (int64_t i = j; i < n; ++i) w[i * n + j] -= w[i * n + k] * x + w[i * n + k + 1] * y;
    w[j * n + k] = x;
    w[j * n + k + 1] = y;
  }
}

template <class T>
void ldl_factor(const T* a, T* ld, int32_t* pivots, int32_t* info, int64_t batch, int64_t n,
                char* scratch, Pool* pool) {
  each_matrix(batch, n * n * n / 3, scratch, n * n * 8, pool, [&](int64_t at, double* w) {
    load(w, a + at * n * n, n * n);
    int32_t* out = pivots + at * n;
    info[at] = 0;
    for (int64_t k = 0; k < n;) {
      const LdlPivot p = choose_pivot(w, n, k);
      const int64_t size = p.size > 1 ? 2 : 1, last = k + size - 1;
      if (p.size == 0 && info[at] == 0) info[at] = int32_t(k + 1);
      if (p.row != last) exchange_symmetric(w, n, k, last, p.row);
      if (p.size == 1) eliminate_one(w, n, k);
      if (p.size == 2) eliminate_two(w, n, k);
      for (int64_t i = k; i <= last; ++i) out[i] = int32_t(size == 2 ? -(p.row + 1) : p.row + 1);
      k += size;
    }
    for (int64_t i = 0; i < n * n; ++i) w[i] = i / n < i % n ? 0.0 : w[i];
    store(ld + at * n * n, w, n * n);
  });
}

// Row k of b less the rows after it times column j of ld, on the way back.
template <class T>
void subtract_rows_after(double* b, const T* ld, int64_t n, int64_t columns, int64_t k,
                         int64_t row) {
  for (int64_t i = k + 1; i < n; ++i)
    for (int64_t c = 0; c < columns; ++c)
      b[row * columns + c] -= double(ld[i * n + row]) * b[i * columns + c];
}

template <class T>
void ldl_solve_one(const T* ld, const int32_t* pivots, double* b, int64_t n, int64_t columns,
                   Fault* fault) {
  const auto swap_rows = [&](int64_t i, int64_t pivot) {
    const int64_t j = index_from_start((pivot < 0 ? -pivot : pivot) - 1, n, fault);
    for (int64_t c = 0; c < columns; ++c) exchange(b[i * columns + c], b[j * columns + c]);
  };
  for (int64_t k = 0; k < n;) {
    const bool two = pivots[k] < 0 && k + 1 < n;
    const int64_t last = two ? k + 1 : k;
    swap_rows(last, pivots[k]);
    for (int64_t i = last + 1; i < n; ++i)
      for (int64_t j = k; j <= last; ++j)
        for (int64_t c = 0; c < columns; ++c)
          b[i * columns + c] -= double(ld[i * n + j]) * b[j * columns + c];
    const double off = two ? double(ld[last * n + k]) : 1.0;
    const double d1 = double(ld[k * n + k]) / off, d2 = double(ld[last * n + last]) / off;
    for (int64_t c = 0; c < columns; ++c) {
      double &x = b[k * columns + c], &y = b[last * columns + c];
      if (!two) {
        x /= d1;
        continue;
      }
      const double size = d1 * d2 - 1.0, first = x / off, second = y / off;
      x = (d2 * first - second) / size;
      y = (d1 * second - first) / size;
    }
    k = last + 1;
  }
  for (int64_t k = n - 1; k >= 0;) {
    const bool two = pivots[k] < 0 && k > 0;
    subtract_rows_after(b, ld, n, columns, k, k);
    if (two) subtract_rows_after(b, ld, n, columns, k, k - 1);
    swap_rows(k, pivots[k]);
    k -= two ? 2 : 1;
  }
}

template <class T>
void ldl_solve(const T* ld, const int32_t* pivots, const T* b, T* x, int64_t batch, int64_t n,
               int64_t columns, Fault* fault, char* scratch, Pool* pool) {
  each_matrix(batch, n * n * columns, scratch, n * columns * 8, pool, [&](int64_t at, double* w) {
    load(w, b + at * n * columns, n * columns);
    ldl_solve_one(ld + at * n * n, pivots + at * n, w, n, columns, fault);
    store(x + at * n * columns, w, n * columns);
  });
}

}  // namespace cuvil
