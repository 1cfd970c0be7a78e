// Factorisations of small dense matrices, row major, in batches. Everything is computed in double:
// what a float loses it loses once, when the result is stored.
#pragma once
#include "kernel.hpp"

namespace cuvil {

// body(batch, work) for every matrix of a batch; `scratch` holds `bytes` for each thread.
template <class Body>
void each_matrix(int64_t batch, int64_t cost, char* scratch, int64_t bytes, Pool* pool,
                 const Body& body) {
  parallel_for(pool, batch, grain(cost), [&](int64_t from, int64_t to, int32_t thread) {
    double* work = reinterpret_cast<double*>(scratch + thread * bytes);
    for (int64_t i = from; i < to; ++i) body(i, work);
  });
}

template <class T>
void store(T* to, const double* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = T(from[i]);
}
template <class T>
void load(double* to, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = double(from[i]);
}

// a = P L U, L with a unit diagonal below, U above; the pivot of a column is its first largest
// element. pivots[i] (from 1) is the row exchanged with row i; info is the first zero pivot or 0.
template <class T>
void lu_factor(const T* a, T* lu, int32_t* pivots, int32_t* info, int64_t batch, int64_t m,
               int64_t n, bool pivot, char* scratch, Pool* pool) {
  const int64_t k = m < n ? m : n;
  each_matrix(batch, m * n * k, scratch, m * n * 8, pool, [&](int64_t at, double* w) {
    load(w, a + at * m * n, m * n);
    info[at] = 0;
    for (int64_t j = 0; j < k; ++j) {
      int64_t best = j;
      for (int64_t i = j + 1; pivot && i < m; ++i)
        if (abs(w[i * n + j]) > abs(w[best * n + j])) best = i;
      pivots[at * k + j] = int32_t(best + 1);
      if (w[best * n + j] == 0.0) {
        if (info[at] == 0) info[at] = int32_t(j + 1);
        continue;
      }
      for (int64_t c = 0; best != j && c < n; ++c) {
        const double t = w[j * n + c];
        w[j * n + c] = w[best * n + c];
        w[best * n + c] = t;
      }
      for (int64_t i = j + 1; i < m; ++i) {
        const double factor = w[i * n + j] /= w[j * n + j];
        for (int64_t c = j + 1; c < n; ++c) w[i * n + c] -= factor * w[j * n + c];
      }
    }
    store(lu + at * m * n, w, m * n);
  });
}

// order[i] is the row of the matrix that lands in row i after the exchanges.
inline void exchanges_to_order(const int32_t* pivots, int64_t* order, int64_t batch, int64_t k,
                               int64_t m, Fault* fault, Pool* pool) {
  parallel_for(pool, batch, grain(m + k), [&](int64_t from, int64_t to, int32_t) {
    for (int64_t at = from; at < to; ++at) {
      int64_t* row = order + at * m;
      for (int64_t i = 0; i < m; ++i) row[i] = i;
      for (int64_t i = 0; i < k; ++i) {
        const int64_t with = index_from_start(int64_t(pivots[at * k + i]) - 1, m, fault);
        const int64_t t = row[i];
        row[i] = row[with];
        row[with] = t;
      }
    }
  });
}

// a = L L^T from the lower triangle of a. Where a leading minor is not positive, info is its order
// and the whole result NaN.
template <class T>
void cholesky(const T* a, T* l, int32_t* info, int64_t batch, int64_t n, char* scratch,
              Pool* pool) {
  each_matrix(batch, n * n * n / 3, scratch, n * n * 8, pool, [&](int64_t at, double* w) {
    load(w, a + at * n * n, n * n);
    int64_t failed = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        double sum = w[i * n + j];
        for (int64_t c = 0; c < j; ++c) sum -= w[i * n + c] * w[j * n + c];
        if (i == j && !(sum > 0.0) && failed == 0) failed = i + 1;
        w[i * n + j] = i == j ? sqrt(sum) : sum / w[j * n + j];
      }
      for (int64_t j = i + 1; j < n; ++j) w[i * n + j] = 0.0;
    }
    for (int64_t i = 0; failed != 0 && i < n * n; ++i) w[i] = kNaN<double>;
    info[at] = int32_t(failed);
    store(l + at * n * n, w, n * n);
  });
}

// X with a X = b, a [n, n] triangular, b [n, k].
template <class T>
void triangular_solve(const T* a, const T* b, T* x, int64_t batch, int64_t n, int64_t k, bool upper,
                      bool unit, char* scratch, Pool* pool) {
  each_matrix(batch, n * n * k, scratch, n * k * 8, pool, [&](int64_t at, double* w) {
    const T* tri = a + at * n * n;
    load(w, b + at * n * k, n * k);
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step;
      const int64_t first = upper ? i + 1 : 0, last = upper ? n : i;
      for (int64_t j = first; j < last; ++j) {
        const double factor = double(tri[i * n + j]);
        for (int64_t c = 0; c < k; ++c) w[i * k + c] -= factor * w[j * k + c];
      }
      for (int64_t c = 0; !unit && c < k; ++c) w[i * k + c] /= double(tri[i * n + i]);
    }
    store(x + at * n * k, w, n * k);
  });
}

// The reflection that maps column j from row j on to a multiple of the unit vector: its vector is
// left below the diagonal (1 on it), its factor returned (LAPACK's larfg).
inline double reflect_column(double* w, int64_t m, int64_t n, int64_t j) {
  double scale = 0.0;
  for (int64_t i = j + 1; i < m; ++i) scale = max_nan(scale, abs(w[i * n + j]));
  if (scale == 0.0) return 0.0;
  const double alpha = w[j * n + j];
  scale = max_nan(scale, abs(alpha));
  double sum = 0.0;
  for (int64_t i = j; i < m; ++i) {
    const double part = w[i * n + j] / scale;
    sum += part * part;
  }
  const double beta = copysign(scale * sqrt(sum), -alpha);
  for (int64_t i = j + 1; i < m; ++i) w[i * n + j] /= alpha - beta;
  w[j * n + j] = beta;
  return (beta - alpha) / beta;
}

// Columns first..n-1 of rows j..m-1 of w times (1 - tau v v^T), v from column j of `from`.
inline void apply_reflection(double* w, const double* from, int64_t m, int64_t n, int64_t from_n,
                             int64_t j, int64_t first, double tau) {
  for (int64_t c = first; tau != 0.0 && c < n; ++c) {
    double sum = w[j * n + c];
    for (int64_t i = j + 1; i < m; ++i) sum += from[i * from_n + j] * w[i * n + c];
    sum *= tau;
    w[j * n + c] -= sum;
    for (int64_t i = j + 1; i < m; ++i) w[i * n + c] -= sum * from[i * from_n + j];
  }
}

// R on and above the diagonal, reflections below, their factors in tau (LAPACK's geqrf).
template <class T>
void qr_factor(const T* a, T* packed, T* tau, int64_t batch, int64_t m, int64_t n, char* scratch,
               Pool* pool) {
  const int64_t k = m < n ? m : n;
  each_matrix(batch, 2 * m * n * k, scratch, m * n * 8, pool, [&](int64_t at, double* w) {
    load(w, a + at * m * n, m * n);
    for (int64_t j = 0; j < k; ++j) {
      const double factor = reflect_column(w, m, n, j);
      apply_reflection(w, w, m, n, n, j, j + 1, factor);
      tau[at * k + j] = T(factor);
    }
    store(packed + at * m * n, w, m * n);
  });
}

// The first n columns of the product of k reflections (LAPACK's orgqr).
template <class T>
void householder_product(const T* packed, const T* tau, T* q, int64_t batch, int64_t m, int64_t n,
                         int64_t k, char* scratch, Pool* pool) {
  each_matrix(batch, 2 * m * n * k, scratch, 2 * m * n * 8, pool, [&](int64_t at, double* w) {
    double* v = w + m * n;
    load(v, packed + at * m * n, m * n);
    for (int64_t i = 0; i < m * n; ++i) w[i] = i / n == i % n ? 1.0 : 0.0;
    for (int64_t j = k - 1; j >= 0; --j)
      apply_reflection(w, v, m, n, n, j, 0, double(tau[at * k + j]));
    store(q + at * m * n, w, m * n);
  });
}

// c = a b, all [n, n].
inline void multiply(const double* a, const double* b, double* c, int64_t n) {
  for (int64_t i = 0; i < n * n; ++i) c[i] = 0.0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

// The exponential: a is halved until its norm is at most 1/2, where 20 terms of the series give all
// digits, and the result squared as often.
template <class T>
void matrix_exp(const T* a, T* out, int64_t batch, int64_t n, char* scratch, Pool* pool) {
  each_matrix(batch, 30 * n * n * n, scratch, 3 * n * n * 8, pool, [&](int64_t at, double* w) {
    double *x = w + n * n, *next = x + n * n;
    load(w, a + at * n * n, n * n);
    double norm = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      double row = 0.0;
      for (int64_t j = 0; j < n; ++j) row += abs(w[i * n + j]);
      norm = max_nan(norm, row);
    }
    const bool broken = !(norm < kInf<double>);
    int halvings = 0;
    for (; norm > 0.5 && !broken; norm *= 0.5) ++halvings;
    const double scale = exp2(-double(halvings));
    for (int64_t i = 0; i < n * n; ++i) w[i] *= scale;
    for (int64_t i = 0; i < n * n; ++i) x[i] = i / n == i % n ? 1.0 : 0.0;
    for (int term = 20; term > 0; --term) {
      multiply(w, x, next, n);
      for (int64_t i = 0; i < n * n; ++i) x[i] = (i / n == i % n ? 1.0 : 0.0) + next[i] / term;
    }
    for (; halvings > 0; --halvings) {
      multiply(x, x, next, n);
      double* const t = x;
      x = next;
      next = t;
    }
    for (int64_t i = 0; broken && i < n * n; ++i) x[i] = kNaN<double>;
    store(out + at * n * n, x, n * n);
  });
}

}  // namespace cuvil
