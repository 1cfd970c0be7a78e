// Eigenvalues of symmetric matrices and singular values, by Jacobi's rotations in double.
#pragma once
#include "linalg.hpp"

namespace cuvil {

constexpr int kSweeps = 60;

struct Rotation {
  double c, s;
};
// The rotation that makes the matrix [[a, b], [b, d]] diagonal (Golub and Van Loan, 8.5.2).
inline Rotation rotation(double a, double b, double d) {
  if (b == 0.0) return {1.0, 0.0};
  const double theta = (d - a) / (2.0 * b);
  const double size = abs(theta) > 1e150 ? abs(theta) : sqrt(1.0 + theta * theta);
  const double t = copysign(1.0, theta) / (abs(theta) + size);
  const double c = 1.0 / sqrt(1.0 + t * t);
  return {c, t * c};
}

// Columns p and q of x [m, n] turned.
inline void turn_columns(double* x, int64_t m, int64_t n, int64_t p, int64_t q, Rotation r) {
  for (int64_t i = 0; i < m; ++i) {
    const double a = x[i * n + p], b = x[i * n + q];
    x[i * n + p] = r.c * a - r.s * b;
    x[i * n + q] = r.s * a + r.c * b;
  }
}

inline bool has_nan_or_inf(const double* x, int64_t n) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum != 0.0;
}

// Whether the element of largest magnitude (the first of equals) of column c is negative.
inline bool leads_negative(const double* x, int64_t m, int64_t n, int64_t c) {
  double best = 0.0;
  for (int64_t i = 0; i < m; ++i)
    if (abs(x[i * n + c]) > abs(best) * (1.0 + 1e-9)) best = x[i * n + c];
  return best < 0.0;
}

// Eigenvalues in ascending order and unit eigenvectors in columns, from the lower triangle. The
// leading element of each vector is positive.
template <class T>
void eigh(const T* a, T* values, T* vectors, int64_t batch, int64_t n, char* scratch, Pool* pool) {
  each_matrix(batch, 8 * n * n * n, scratch, (2 * n * n + n) * 8, pool, [&](int64_t at, double* w) {
    double *v = w + n * n, *diagonal = v + n * n;
    const T* in = a + at * n * n;
    double total = 0.0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        w[i * n + j] = double(i >= j ? in[i * n + j] : in[j * n + i]);
        v[i * n + j] = i == j ? 1.0 : 0.0;
        total += w[i * n + j] * w[i * n + j];
      }
    const bool broken = has_nan_or_inf(w, n * n);
    for (int sweep = 0; sweep < kSweeps && !broken; ++sweep) {
      double off = 0.0;
      for (int64_t p = 0; p < n; ++p)
        for (int64_t q = p + 1; q < n; ++q) off += w[p * n + q] * w[p * n + q];
      if (off <= 1e-32 * total) break;
      for (int64_t p = 0; p < n; ++p)
        for (int64_t q = p + 1; q < n; ++q) {
          const Rotation r = rotation(w[p * n + p], w[p * n + q], w[q * n + q]);
          turn_columns(w, n, n, p, q, r);
          for (int64_t j = 0; j < n; ++j) {
            const double x = w[p * n + j], y = w[q * n + j];
            w[p * n + j] = r.c * x - r.s * y;
            w[q * n + j] = r.s * x + r.c * y;
          }
          turn_columns(v, n, n, p, q, r);
        }
    }
    for (int64_t i = 0; i < n; ++i) diagonal[i] = broken ? kNaN<double> : w[i * n + i];
    for (int64_t place = 0; place < n; ++place) {
      int64_t least = -1;
      for (int64_t i = 0; i < n; ++i)
        if (w[i * n + i] < kInf<double> && (least < 0 || diagonal[i] < diagonal[least])) least = i;
      if (broken || least < 0) least = place;
      const double sign = leads_negative(v, n, n, least) ? -1.0 : 1.0;
      values[at * n + place] = T(diagonal[least]);
      for (int64_t i = 0; i < n; ++i)
        vectors[(at * n + i) * n + place] = T(broken ? kNaN<double> : sign * v[i * n + least]);
      w[least * n + least] = kInf<double>;  // taken
    }
  });
}

// Columns from..to-1 of x [m, n] completed to an orthonormal set: unit vectors, what is left of
// them after two projections, the one with most left first.
inline void complete_basis(double* x, int64_t m, int64_t n, int64_t from, int64_t to) {
  for (int64_t c = from; c < to; ++c) {
    int64_t best = 0;
    double most = -1.0;
    for (int64_t e = 0; e < m; ++e) {
      double rest = 1.0;
      for (int64_t j = 0; j < c; ++j) rest -= x[e * n + j] * x[e * n + j];
      if (rest > most) {
        most = rest;
        best = e;
      }
    }
    for (int64_t i = 0; i < m; ++i) x[i * n + c] = i == best ? 1.0 : 0.0;
    double size = 0.0;
    for (int round = 0; round < 2; ++round) {
      for (int64_t j = 0; j < c; ++j) {
        double dot = 0.0;
        for (int64_t i = 0; i < m; ++i) dot += x[i * n + j] * x[i * n + c];
        for (int64_t i = 0; i < m; ++i) x[i * n + c] -= dot * x[i * n + j];
      }
      size = 0.0;
      for (int64_t i = 0; i < m; ++i) size += x[i * n + c] * x[i * n + c];
    }
    size = sqrt(size);
    for (int64_t i = 0; i < m; ++i) x[i * n + c] /= size;
  }
}

// Doubles of scratch for a tall matrix m x n (m >= n) whose left basis gets `columns` columns.
constexpr int64_t svd_doubles(int64_t m, int64_t n, int64_t columns) {
  return m * n + n * n + m * columns + n * n + n;
}

// a = u diag(s) vh for an m x n matrix with m >= n whose elements lie at these strides: one-sided
// Jacobi (Hestenes, 1958). u gets `columns` columns (n or m). The leading element of each
// column of v is positive; of further columns of u as well.
template <class T>
void svd_tall(const T* a, int64_t row, int64_t column, int64_t m, int64_t n, int64_t columns,
              double* w, double*& u, double*& s, double*& v) {
  double* g = w;
  double* turned = g + m * n;
  u = turned + n * n;
  v = u + m * columns;
  s = v + n * n;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) g[i * n + j] = double(a[i * row + j * column]);
  for (int64_t i = 0; i < n * n; ++i) turned[i] = i / n == i % n ? 1.0 : 0.0;
  const bool broken = has_nan_or_inf(g, m * n);
  for (int sweep = 0; sweep < kSweeps && !broken; ++sweep) {
    bool quiet = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        double alpha = 0.0, beta = 0.0, gamma = 0.0;
        for (int64_t i = 0; i < m; ++i) {
          const double x = g[i * n + p], y = g[i * n + q];
          alpha += x * x;
          beta += y * y;
          gamma += x * y;
        }
        if (gamma == 0.0 || abs(gamma) <= 1e-15 * sqrt(alpha) * sqrt(beta)) continue;
        quiet = false;
        const Rotation r = rotation(alpha, gamma, beta);
        turn_columns(g, m, n, p, q, r);
        turn_columns(turned, n, n, p, q, r);
      }
    if (quiet) break;
  }
  double largest = 0.0;
  for (int64_t j = 0; j < n; ++j) {
    double sum = 0.0;
    for (int64_t i = 0; i < m; ++i) sum += g[i * n + j] * g[i * n + j];
    s[j] = broken ? kNaN<double> : sqrt(sum);
    largest = s[j] > largest ? s[j] : largest;
  }
  int64_t full = 0;
  for (int64_t place = 0; place < n; ++place) {
    int64_t best = place;
    for (int64_t j = place + 1; j < n; ++j) best = s[j] > s[best] ? j : best;
    const double size = s[best];
    s[best] = s[place];
    s[place] = size;
    for (int64_t i = 0; best != place && i < m; ++i) {
      const double t = g[i * n + best];
      g[i * n + best] = g[i * n + place];
      g[i * n + place] = t;
    }
    for (int64_t i = 0; best != place && i < n; ++i) {
      const double t = turned[i * n + best];
      turned[i * n + best] = turned[i * n + place];
      turned[i * n + place] = t;
    }
    const double sign = leads_negative(turned, n, n, place) ? -1.0 : 1.0;
    for (int64_t i = 0; i < n; ++i)
      v[i * n + place] = broken ? kNaN<double> : sign * turned[i * n + place];
    const bool counts = size > largest * 1e-15 && size > 0.0;
    full += counts && full == place ? 1 : 0;
    for (int64_t i = 0; i < m; ++i)
      u[i * columns + place] = broken ? kNaN<double> : sign * g[i * n + place] / size;
  }
  if (!broken) complete_basis(u, m, columns, full, columns);
  for (int64_t c = n; !broken && c < columns; ++c)
    for (int64_t i = 0, turn = leads_negative(u, m, columns, c); turn && i < m; ++i)
      u[i * columns + c] = -u[i * columns + c];
  for (int64_t c = n; broken && c < columns; ++c)
    for (int64_t i = 0; i < m; ++i) u[i * columns + c] = kNaN<double>;
}

// u [m, cu], s [k], vh [cv, n]: k = min(m, n); cu and cv are k, or m and n where `full`.
template <class T>
void svd(const T* a, T* u, T* s, T* vh, int64_t batch, int64_t m, int64_t n, bool full,
         char* scratch, int64_t bytes, Pool* pool) {
  const bool wide = n > m;
  const int64_t tall = wide ? n : m, k = wide ? m : n, columns = full ? tall : k;
  each_matrix(batch, 16 * tall * k * k, scratch, bytes, pool, [&](int64_t at, double* w) {
    double *left, *sizes, *right;
    svd_tall(a + at * m * n, wide ? 1 : n, wide ? n : 1, tall, k, columns, w, left, sizes, right);
    store(s + at * k, sizes, k);
    T* tall_out = wide ? vh + at * columns * n : u + at * m * columns;
    T* short_out = wide ? u + at * k * k : vh + at * k * k;
    for (int64_t i = 0; i < tall; ++i)
      for (int64_t c = 0; c < columns; ++c)
        tall_out[wide ? c * tall + i : i * columns + c] = T(left[i * columns + c]);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t c = 0; c < k; ++c)
        short_out[wide ? i * k + c : c * k + i] = T(right[i * k + c]);
  });
}

}  // namespace cuvil
