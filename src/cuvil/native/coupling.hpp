// Probabilities of classes from those of pairs: Wu, Lin, Weng, "Probability estimates for
// multi-class classification by pairwise coupling", 2004, second method; libsvm's stopping rule.
#pragma once
#include "kernel.hpp"

namespace cuvil {

inline int64_t coupling_doubles(int64_t k) { return k * k + 2 * k; }

template <class T>
void couple_row(const T* pairs, T* out, int64_t k, double* scratch) {
  double *q = scratch, *part = q + k * k, *p = part + k;
  for (int64_t i = 0; i < k; ++i) {
    p[i] = 1.0 / double(k);
    q[i * k + i] = 0;
  }
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = i + 1; j < k; ++j) {
      const double r = double(*pairs++), other = 1 - r;
      q[i * k + i] += other * other;
      q[j * k + j] += r * r;
      q[i * k + j] = q[j * k + i] = -r * other;
    }
  for (int64_t round = 0; round < (k > 100 ? k : 100); ++round) {
    double whole = 0, worst = 0;
    for (int64_t i = 0; i < k; ++i) {
      part[i] = 0;
      for (int64_t j = 0; j < k; ++j) part[i] += q[i * k + j] * p[j];
      whole += p[i] * part[i];
    }
    for (int64_t i = 0; i < k; ++i) worst = max(worst, __builtin_fabs(part[i] - whole));
    if (worst < 0.005 / double(k)) break;
    for (int64_t t = 0; t < k; ++t) {
      const double own = q[t * k + t], step = (whole - part[t]) / own, scale = 1 + step;
      p[t] += step;
      whole = (whole + step * (step * own + 2 * part[t])) / (scale * scale);
      for (int64_t j = 0; j < k; ++j) {
        part[j] = (part[j] + step * q[t * k + j]) / scale;
        p[j] /= scale;
      }
    }
  }
  for (int64_t i = 0; i < k; ++i) out[i] = T(p[i]);
}

template <class T>
void couple_pairs(const T* pairs, T* out, int64_t rows, int64_t k, void* scratch, Pool* pool) {
  parallel_for(pool, rows, grain(k * k * 200), [&](int64_t begin, int64_t end, int32_t thread) {
    double* mine = static_cast<double*>(scratch) + thread * coupling_doubles(k);
    for (int64_t i = begin; i < end; ++i)
      couple_row(pairs + i * (k * (k - 1) / 2), out + i * k, k, mine);
  });
}

}  // namespace cuvil
