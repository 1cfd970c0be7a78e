// Resampling, one axis after the other or two neighbouring axes at once. What each output position
// reads and with which weight is computed once a call (ops/resize.py has the formulas).
#pragma once
#include "kernel.hpp"

namespace cuvil {

enum ResizeMode : int32_t { kNearest, kLinear, kCubic };
enum ResizeCoordinate : int32_t {
  kHalfPixel, kHalfPixelSymmetric, kPytorchHalfPixel, kAlignCorners, kAsymmetric, kCrop
};
enum ResizeRounding : int32_t { kRoundPreferFloor, kRoundPreferCeil, kFloor, kCeil };

struct ResizeHow {
  ResizeMode mode;
  ResizeCoordinate coordinate;
  ResizeRounding rounding;
  double cubic;  // Keys' parameter
  bool exclude_outside, antialias;
};
struct ResizeAxis {
  int64_t size, out;
  double scale;       // 0: out / size
  double start, end;  // of a crop, as parts of the input
};

// Where output position i lies in the input.
inline double resize_coordinate(const ResizeHow& how, const ResizeAxis& a, int64_t at) {
#pragma clang fp contract(off)
  const double i = double(at), size = double(a.size), out = double(a.out), last = size - 1.0;
  const bool given = a.scale != 0.0;
  const double half = given ? (i + 0.5) / a.scale - 0.5 : (i + 0.5) * size / out - 0.5;
  switch (how.coordinate) {
    case kHalfPixel: return half;
    case kHalfPixelSymmetric:
      return (given ? size / 2.0 * (1.0 - out / (a.scale * size)) : 0.0) + half;
    case kPytorchHalfPixel: return a.out > 1 ? half : 0.0;
    case kAlignCorners: return a.out > 1 ? i * last / (out - 1.0) : 0.0;
    case kAsymmetric: return given ? i / a.scale : i * size / out;
    default:
      if (a.out > 1) return a.start * last + i * (a.end - a.start) * last / (out - 1.0);
      return 0.5 * (a.start + a.end) * last;
  }
}

// How much wider the filter is than an input step, inverted: below 1 where antialiasing shrinks.
inline double resize_shrink(const ResizeHow& how, const ResizeAxis& a) {
  if (!how.antialias || a.size == 0) return 1.0;
  const double scale = a.scale != 0.0 ? a.scale : double(a.out) / double(a.size);
  return scale < 1.0 ? scale : 1.0;
}
inline int64_t resize_taps(const ResizeHow& how, const ResizeAxis& a) {
  if (how.mode == kNearest || a.out == 0) return 1;
  return 2 * int64_t(ceil((how.mode == kLinear ? 1.0 : 2.0) / resize_shrink(how, a)));
}

inline double resize_weight(const ResizeHow& how, double distance) {
  const double d = abs(distance);
  if (how.mode == kLinear) return d < 1.0 ? 1.0 - d : 0.0;
  const double a = how.cubic;  // Keys 1981, eq. 15
  if (d <= 1.0) return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
  return d < 2.0 ? ((d - 5.0) * d + 8.0) * d * a - 4.0 * a : 0.0;
}

// What the positions of one axis read: position o reads index[t * out + o], t < taps.
template <class W>
struct ResizeTable {
  int64_t taps, out;
  int64_t* index;
  W* weight;         // none for nearest
  uint8_t* outside;  // [out]
};

inline int64_t resize_clip(double x, int64_t size) {
  return x <= 0.0 ? 0 : x >= double(size - 1) ? size - 1 : int64_t(x);
}
inline double resize_round(ResizeRounding how, double x) {
  switch (how) {
    case kRoundPreferFloor: return ceil(x - 0.5);
    case kRoundPreferCeil: return floor(x + 0.5);
    case kFloor: return floor(x);
    default: return ceil(x);
  }
}

template <class W>
constexpr int64_t resize_table_bytes(int64_t taps, int64_t out) {
  return ((taps * int64_t(8 + sizeof(W)) + 1) * out + 63) / 64 * 64;
}

template <class W>
ResizeTable<W> resize_table(const ResizeHow& how, const ResizeAxis& a, char* memory) {
  ResizeTable<W> t = {resize_taps(how, a), a.out, reinterpret_cast<int64_t*>(memory), nullptr,
                      nullptr};
  t.weight = reinterpret_cast<W*>(t.index + t.taps * a.out);
  t.outside = reinterpret_cast<uint8_t*>(t.weight + t.taps * a.out);
  const double shrink = resize_shrink(how, a);
  for (int64_t o = 0; o < a.out; ++o) {
    const double x = resize_coordinate(how, a, o);
    t.outside[o] = how.coordinate == kCrop && (x < 0.0 || x > double(a.size - 1));
    if (how.mode == kNearest) {
      t.index[o] = resize_clip(resize_round(how.rounding, x), a.size);
      continue;
    }
    const double first = floor(x) + double(1 - t.taps / 2);
    double total = 0.0;
    for (int64_t k = 0; k < t.taps; ++k) {
      const double at = first + double(k);
      const bool inside = at >= 0.0 && at <= double(a.size - 1);
      if (inside || !how.exclude_outside) total += resize_weight(how, (at - x) * shrink);
    }
    const bool normalise = how.exclude_outside || shrink != 1.0;
    for (int64_t k = 0; k < t.taps; ++k) {
      const double at = first + double(k);
      const bool inside = at >= 0.0 && at <= double(a.size - 1);
      const double w =
          inside || !how.exclude_outside ? resize_weight(how, (at - x) * shrink) : 0.0;
      t.index[k * a.out + o] = resize_clip(at, a.size);
      t.weight[k * a.out + o] = W(normalise ? w / total : w);
    }
  }
  return t;
}

// y[j] = the blend for position o of rows of n elements.
template <class T>
CUVIL_INLINE void blend_rows(T* __restrict y, const T* __restrict x, const ResizeTable<T>& t,
                             int64_t o, int64_t n) {
  const T* a = x + t.index[o] * n;
  const T first = t.weight[o];
  int64_t k = 1;
  if (t.taps > 1) {
    const T *b = x + t.index[t.out + o] * n, second = t.weight[t.out + o];
    for (int64_t j = 0; j < n; ++j) y[j] = a[j] * first + b[j] * second;
    k = 2;
  } else {
    for (int64_t j = 0; j < n; ++j) y[j] = a[j] * first;
  }
  for (; k < t.taps; ++k) {
    const T* row = x + t.index[k * t.out + o] * n;
    const T weight = t.weight[k * t.out + o];
    for (int64_t j = 0; j < n; ++j) y[j] += row[j] * weight;
  }
}

// All positions of an axis whose neighbours lie `n` elements apart.
template <class T>
CUVIL_INLINE void blend_line(T* __restrict y, const T* __restrict x, const ResizeTable<T>& t,
                             int64_t n) {
  if (n != 1) {
    for (int64_t o = 0; o < t.out; ++o) blend_rows(y + o * n, x, t, o, n);
    return;
  }
  for (int64_t o = 0; o < t.out; ++o) y[o] = x[t.index[o]] * t.weight[o];
  for (int64_t k = 1; k < t.taps; ++k) {
    const int64_t* index = t.index + k * t.out;
    const T* weight = t.weight + k * t.out;
    for (int64_t o = 0; o < t.out; ++o) y[o] += x[index[o]] * weight[o];
  }
}

template <class T>
CUVIL_INLINE void pick_line(T* __restrict y, const T* __restrict x, const int64_t* index,
                            int64_t out, int64_t n) {
  if (n == 1) {
    for (int64_t o = 0; o < out; ++o) y[o] = x[index[o]];
    return;
  }
  for (int64_t o = 0; o < out; ++o)
    __builtin_memcpy(y + o * n, x + index[o] * n, uint64_t(n) * sizeof(T));
}

// [outer][size][inner] to [outer][out][inner].
template <bool nearest, class T, class W>
void resize_axis(const T* x, T* y, int64_t outer, int64_t size, int64_t inner,
                 const ResizeTable<W>& t, Pool* pool) {
  const int64_t work = t.out * inner * t.taps;
  parallel_for(pool, outer, grain(work), [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t i = begin; i < end; ++i) {
      T* to = y + i * t.out * inner;
      const T* from = x + i * size * inner;
      if constexpr (nearest) pick_line(to, from, t.index, t.out, inner);
      else blend_line(to, from, t, inner);
    }
  });
}

// [outer][height][width][inner] to [outer][out height][out width][inner]; `lines` is scratch of
// width * inner elements a thread (unused for nearest).
template <bool nearest, class T, class W>
void resize_plane(const T* x, T* y, int64_t outer, int64_t height, int64_t width, int64_t inner,
                  const ResizeTable<W>& th, const ResizeTable<W>& tw, T* lines, Pool* pool) {
  const int64_t row = width * inner, out_row = tw.out * inner;
  const int64_t work = row * th.taps + out_row * tw.taps;
  parallel_for(pool, outer * th.out, grain(work), [&](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t o = i % th.out;
      const T* plane = x + i / th.out * height * row;
      T* to = y + i * out_row;
      if constexpr (nearest) {
        const bool again = i > begin && o > 0 && th.index[o] == th.index[o - 1];
        if (again) __builtin_memcpy(to, to - out_row, uint64_t(out_row) * sizeof(T));
        else pick_line(to, plane + th.index[o] * row, tw.index, tw.out, inner);
      } else {
        T* line = lines + thread * row;
        blend_rows(line, plane, th, o, row);
        blend_line(to, line, tw, inner);
      }
    }
  });
}

// y = value where the axis' coordinate lies outside the input.
template <class T, class W>
void fill_outside(T* y, int64_t outer, int64_t inner, const ResizeTable<W>& t, T value) {
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t o = 0; o < t.out; ++o)
      if (t.outside[o])
        for (int64_t j = 0; j < inner; ++j) y[(i * t.out + o) * inner + j] = value;
}

}  // namespace cuvil
