// Pooling over regions of images [N, C, H, W]: ops/region.py defines both operators.
#pragma once
#include "kernel.hpp"

namespace cuvil {

template <class T>
struct RegionArgs {
  int64_t count, channels, images, in_height, in_width, height, width;
  double scale;
  const T* x;
  const T* regions;
  T* out;
  Fault* fault;
  Pool* pool;
};

CUVIL_INLINE bool is_finite(double x) { return x - x == 0; }
CUVIL_INLINE double floor_of(double x) { return floor(x); }

// Samples of one bin along one axis.
struct RegionSamples {
  double start, step, count;
  double from, to;  // those that may lie in [-1, size]

  RegionSamples(double start, double bin, int64_t ratio, int64_t size) : start(start) {
    count = ratio > 0 ? double(ratio) : -floor_of(-bin);
    if (!(count > 0)) count = 0;
    step = count > 0 ? bin / count : 0;
    from = 0;
    to = count;
    if (step > 0) {
      const double low = floor_of((-1 - start) / step) - 1;
      const double high = 1 - floor_of((start - double(size)) / step);
      from = low > from ? low : from;
      to = high < to ? high : to;
    }
  }
  // A whole number: far from the image, from + 1 may be `from` itself.
  CUVIL_INLINE int64_t tries() const { return to > from ? int64_t(to - from) : 0; }
  CUVIL_INLINE double at(int64_t i) const { return start + (from + double(i) + 0.5) * step; }
};

// The elements around a place within [-1, size], and the weight of the upper one.
struct RegionTap {
  int64_t low, high;
  double weight;

  RegionTap(double at, int64_t size) {
    at = at > 0 ? at : 0;
    low = int64_t(at);
    low = low < size - 1 ? low : size - 1;
    high = low + 1 < size ? low + 1 : size - 1;
    weight = low >= size - 1 ? 0 : at - double(low);
  }
};

template <class T>
double align_bin(const T* plane, int64_t height, int64_t width, const RegionSamples& ys,
                 const RegionSamples& xs, bool greatest) {
  double sum = 0, best = -__builtin_inf(), inside = 0;
  for (int64_t i = 0; i < ys.tries(); ++i) {
    const double y = ys.at(i);
    if (!(y >= -1 && y <= double(height))) continue;
    const RegionTap row(y, height);
    for (int64_t j = 0; j < xs.tries(); ++j) {
      const double x = xs.at(j);
      if (!(x >= -1 && x <= double(width))) continue;
      const RegionTap column(x, width);
      const double u = 1 - row.weight, v = 1 - column.weight;
      const double parts[4] = {u * v * double(plane[row.low * width + column.low]),
                               u * column.weight * double(plane[row.low * width + column.high]),
                               row.weight * v * double(plane[row.high * width + column.low]),
                               row.weight * column.weight *
                                   double(plane[row.high * width + column.high])};
      ++inside;
      for (const double part : parts) {
        sum += part;
        best = max(best, part);
      }
    }
  }
  const double all = ys.count * xs.count;
  if (!greatest) return sum / (all > 1 ? all : 1);
  return inside == all && all > 0 ? best : max(best, 0.0);
}

// `batch` has each region's image.
template <class T, class I>
void roi_align(const RegionArgs<T>& a, const I* batch, int64_t ratio, bool half_pixel,
               bool greatest) {
  const int64_t bins = a.height * a.width, plane = a.in_height * a.in_width;
  parallel_for(a.pool, a.count, grain(a.channels * bins * 64), [&](int64_t r, int64_t to, int32_t) {
    for (; r < to; ++r) {
      T* out = a.out + r * a.channels * bins;
      const int64_t image = index_from_start(int64_t(batch[r]), a.images, a.fault);
      double ends[4];
      bool finite = plane > 0 && a.images > 0;  // else there is no element to read
      for (int i = 0; i < 4; ++i) {
        ends[i] = double(a.regions[4 * r + i]) * a.scale;
        finite = finite && is_finite(ends[i]);
        ends[i] -= half_pixel ? 0.5 : 0.0;
      }
      double width = ends[2] - ends[0], height = ends[3] - ends[1];
      finite = finite && is_finite(width) && is_finite(height);
      if (!half_pixel) {
        width = width > 1 ? width : 1;
        height = height > 1 ? height : 1;
      }
      const double step_y = height / double(a.height), step_x = width / double(a.width);
      for (int64_t bin = 0; bin < bins; ++bin) {
        if (!finite) {
          for (int64_t c = 0; c < a.channels; ++c) out[c * bins + bin] = T(__builtin_nan(""));
          continue;
        }
        const double row = double(bin / a.width), column = double(bin % a.width);
        const RegionSamples ys(ends[1] + row * step_y, step_y, ratio, a.in_height);
        const RegionSamples xs(ends[0] + column * step_x, step_x, ratio, a.in_width);
        const T* from = a.x + image * a.channels * plane;
        for (int64_t c = 0; c < a.channels; ++c)
          out[c * bins + bin] =
              T(align_bin(from + c * plane, a.in_height, a.in_width, ys, xs, greatest));
      }
    }
  });
}

// First and last (exclusive) element of a bin along one axis.
struct RegionEdges {
  int64_t low, high;

  RegionEdges(int64_t start, int64_t size, int64_t bin, int64_t bins, int64_t limit) {
    low = inside(start + bin * size / bins, limit);
    high = inside(start + ((bin + 1) * size + bins - 1) / bins, limit);
  }
  static int64_t inside(int64_t at, int64_t limit) { return at < 0 ? 0 : at < limit ? at : limit; }
};

template <class T>
void roi_max_pool(const RegionArgs<T>& a) {
  const int64_t bins = a.height * a.width, plane = a.in_height * a.in_width;
  parallel_for(a.pool, a.count, grain(a.channels * bins * 16), [&](int64_t r, int64_t to, int32_t) {
    for (; r < to; ++r) {
      T* out = a.out + r * a.channels * bins;
      const T* region = a.regions + 5 * r;
      const double number = double(region[0]);
      const bool known = number >= 0 && number < double(a.images);
      const int64_t image = index_from_start(known ? int64_t(number) : -1, a.images, a.fault);
      int64_t ends[4] = {0, 0, 0, 0};
      bool finite = a.images > 0;  // else there is no element to read
      for (int i = 0; i < 4; ++i) {
        const double end_at = double(region[1 + i]) * a.scale;
        const bool fits = end_at > -2147483648.0 && end_at < 2147483648.0;
        finite = finite && fits;
        ends[i] = fits ? int64_t(end_at + (end_at < 0 ? -0.5 : 0.5)) : 0;
      }
      const int64_t width = ends[2] - ends[0] + 1, height = ends[3] - ends[1] + 1;
      for (int64_t bin = 0; bin < bins; ++bin) {
        const int64_t rows = height > 1 ? height : 1;
        const RegionEdges ys(ends[1], rows, bin / a.width, a.height, a.in_height);
        const RegionEdges xs(ends[0], width > 1 ? width : 1, bin % a.width, a.width, a.in_width);
        const bool empty = ys.low >= ys.high || xs.low >= xs.high;
        for (int64_t c = 0; c < a.channels; ++c) {
          if (!finite) {
            out[c * bins + bin] = T(__builtin_nan(""));
            continue;
          }
          const T* from = a.x + (image * a.channels + c) * plane;
          T best = empty ? T(0) : T(-__builtin_inf());
          for (int64_t y = ys.low; y < ys.high; ++y)
            for (int64_t x = xs.low; x < xs.high; ++x) best = max(best, from[y * a.in_width + x]);
          out[c * bins + bin] = best;
        }
      }
    }
  });
}

}  // namespace cuvil
