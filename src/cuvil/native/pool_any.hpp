// Pooling of any element type and layout, element by element: what pool.hpp does not cover.
#pragma once
#include "kernel.hpp"
#include "pool.hpp"

namespace cuvil {

template <class T>
struct AnyPoolArgs {
  int64_t n, c;
  PoolAxis axes[3];  // depth, height, width
  bool channels_last;
  bool count_include_pad;  // averages
  const T* x;
  Pool* pool;
};

// Taps of one window along one axis that lie inside the input.
struct PoolTaps {
  int64_t first, from, to, counted;

  PoolTaps(const PoolAxis& a, int64_t o, bool with_padding) {
    first = o * a.stride - a.begin;
    from = a.kernel;
    to = counted = 0;
    const int64_t low = with_padding ? -a.begin : 0, high = a.size + (with_padding ? a.end : 0);
    for (int64_t t = 0; t < a.kernel; ++t) {
      const int64_t at = first + t * a.dilation;
      counted += at >= low && at < high;
      if (at < 0 || at >= a.size) continue;
      from = t < from ? t : from;
      to = t + 1;
    }
  }
};

// Calls visit(element, flat position in its plane) for what a window sees, in order of the window.
template <class T, class Visit>
CUVIL_INLINE void visit_window(const AnyPoolArgs<T>& a, const PoolTaps* taps, const T* plane,
                               int64_t step, const Visit& visit) {
  const PoolAxis *d = &a.axes[0], *h = &a.axes[1], *w = &a.axes[2];
  for (int64_t i = taps[0].from; i < taps[0].to; ++i)
    for (int64_t j = taps[1].from; j < taps[1].to; ++j)
      for (int64_t k = taps[2].from; k < taps[2].to; ++k) {
        const int64_t z = taps[0].first + i * d->dilation, y = taps[1].first + j * h->dilation;
        const int64_t at = (z * h->size + y) * w->size + taps[2].first + k * w->dilation;
        visit(plane[at * step], at);
      }
}

// out[i] = pool(windows, visitable) for every output element; `pool` gets the taps, the plane and
// the step between its elements.
template <class T, class Out, class One>
void pool_each(const AnyPoolArgs<T>& a, Out* out, const One& one) {
  const int64_t oh = a.axes[1].out, ow = a.axes[2].out, places = a.axes[0].out * oh * ow;
  const int64_t size = a.axes[0].size * a.axes[1].size * a.axes[2].size;
  const int64_t window = a.axes[0].kernel * a.axes[1].kernel * a.axes[2].kernel;
  parallel_for(a.pool, a.n * places, grain(a.c * window), [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / places, place = item % places;
      const PoolTaps taps[3] = {PoolTaps(a.axes[0], place / (oh * ow), a.count_include_pad),
                                PoolTaps(a.axes[1], place / ow % oh, a.count_include_pad),
                                PoolTaps(a.axes[2], place % ow, a.count_include_pad)};
      for (int64_t c = 0; c < a.c; ++c) {
        const T* plane = a.x + (a.channels_last ? n * size * a.c + c : (n * a.c + c) * size);
        Out* to = out + (a.channels_last ? item * a.c + c : (n * a.c + c) * places + place);
        *to = one(taps, plane, a.channels_last ? a.c : 1);
      }
    }
  });
}

// NaN wins; a window of padding only gives -inf or the least integer.
template <class T>
void max_pool_any(const AnyPoolArgs<T>& a, T* out) {
  pool_each(a, out, [&](const PoolTaps* taps, const T* plane, int64_t step) {
    T best;
    if constexpr (is_float_type<T>) best = T(-__builtin_inf());
    else best = IntLimits<T>::min;
    visit_window(a, taps, plane, step, [&](T x, int64_t) { best = max(best, x); });
    return best;
  });
}

// The place of the first greatest element, NaN above all; 0 for a window of padding only.
template <class T>
void max_pool_indices(const AnyPoolArgs<T>& a, int64_t* out) {
  pool_each(a, out, [&](const PoolTaps* taps, const T* plane, int64_t step) {
    T best = T(0);
    int64_t where = -1;
    visit_window(a, taps, plane, step, [&](T x, int64_t at) {
      if (where >= 0 && !(x > best) && !(x != x && best == best)) return;
      best = x;
      where = at;
    });
    return where < 0 ? int64_t(0) : where;
  });
}

// What a window is summed in: f32 in f64, since windows may be long.
template <class T>
struct PoolSum {
  using Type = T;
};
template <>
struct PoolSum<float> {
  using Type = double;
};

template <class T>
void average_pool_any(const AnyPoolArgs<T>& a, T* out) {
  pool_each(a, out, [&](const PoolTaps* taps, const T* plane, int64_t step) {
    using S = typename PoolSum<T>::Type;
    S sum = S(0);
    visit_window(a, taps, plane, step, [&](T x, int64_t) { sum += x; });
    const int64_t count = taps[0].counted * taps[1].counted * taps[2].counted;
    return count == 0 ? T(0) : T(sum / S(count));
  });
}

}  // namespace cuvil
