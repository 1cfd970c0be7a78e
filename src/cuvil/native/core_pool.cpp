// Pooling: one output position at a time, vectors along the channels, the window inside registers.
#include "pool.hpp"

#include "vec.hpp"

namespace cuvil {
namespace {

struct Max {
  static CUVIL_INLINE vf seed() { return splat(-__builtin_inff()); }
  // A NaN in x replaces m; a NaN in m stays, since comparing with it is false.
  static CUVIL_INLINE vf join(vf m, vf x) { return ((x > m) | (x != x)) ? x : m; }
  static CUVIL_INLINE vf finish(vf m, float) { return m; }
};
struct Sum {
  static CUVIL_INLINE vf seed() { return vf{}; }
  static CUVIL_INLINE vf join(vf m, vf x) { return m + x; }
  static CUVIL_INLINE vf finish(vf m, float count) { return m / splat(count); }
};
// A window of many taps is a sum of sums of sums, so that rounding errors don't pile up.
constexpr int64_t PART = 128;
struct LongSum : Sum {
  vf middle = {}, top = {};
  int64_t parts = 0;
  CUVIL_INLINE void take(vf& sum) {
    middle += sum;
    sum = vf{};
    if (++parts % PART) return;
    top += middle;
    middle = vf{};
  }
  CUVIL_INLINE vf whole() const { return top + middle; }
};
template <class Op>
constexpr bool is_long = false;
template <>
constexpr bool is_long<LongSum> = true;

// Calls tap(k) for k in [from, to); where sums are long, part() after each PART of them.
template <class Op, class Tap, class Part>
CUVIL_INLINE void each_tap(int64_t from, int64_t to, Tap tap, Part part) {
  if constexpr (is_long<Op>) {
    while (from < to) {
      const int64_t stop = min64(to, from + PART);
      for (; from < stop; ++from) tap(from);
      part();
    }
  } else {
    for (int64_t k = from; k < to; ++k) tap(k);
  }
}

// The part of a window that lies inside the input: taps [from, to) at first + tap * dilation.
struct Span {
  int64_t first, from, to;

  Span(const PoolAxis& a, int64_t o) {
    first = o * a.stride - a.begin;
    from = first < 0 ? ceil_div(-first, a.dilation) : 0;
    to = first < a.size ? min64(a.kernel, ceil_div(a.size - first, a.dilation)) : 0;
    from = min64(from, to);
  }
  int64_t count() const { return to - from; }
};

// Taps inside the padded input.
int64_t padded_count(const PoolAxis& a, int64_t o) {
  const int64_t first = o * a.stride - a.begin, limit = a.size + a.end;
  return first < limit ? min64(a.kernel, ceil_div(limit - first, a.dilation)) : 0;
}

struct Window {
  Span d, h, w;
  const float* image;
};

// V vectors of channels from c0 on; `left` channels of the last one exist.
template <class Op, int V>
CUVIL_INLINE void pool_channels(const PoolingArgs& a, const Window& win, int64_t c0, int64_t left,
                                float count, float* y) {
  const PoolAxis &ad = a.axes[0], &ah = a.axes[1], &aw = a.axes[2];
  vf acc[V];
  Op sums[V];
#pragma unroll
  for (int v = 0; v < V; ++v) acc[v] = Op::seed();
  for (int64_t i = win.d.from; i < win.d.to; ++i) {
    const int64_t z = (win.d.first + i * ad.dilation) * ah.size;
    for (int64_t j = win.h.from; j < win.h.to; ++j) {
      const int64_t row = (z + win.h.first + j * ah.dilation) * aw.size + win.w.first;
      const float* p = win.image + (row + win.w.from * aw.dilation) * a.c + c0;
      const auto tap = [&](int64_t) __attribute__((always_inline)) {
#pragma unroll
        for (int v = 0; v < V; ++v) {
          const bool whole = v + 1 < V || left == VL;
          acc[v] = Op::join(acc[v], whole ? load(p + v * VL) : load_n(p + v * VL, left));
        }
        p += aw.dilation * a.c;
      };
      each_tap<Op>(win.w.from, win.w.to, tap, [&]() __attribute__((always_inline)) {
        if constexpr (is_long<Op>)
          for (int v = 0; v < V; ++v) sums[v].take(acc[v]);
      });
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) {
    if constexpr (is_long<Op>) acc[v] = sums[v].whole();
    const vf out = Op::finish(acc[v], count);
    if (v + 1 < V || left == VL) {
      store(y + c0 + v * VL, out);
    } else {
      store_n(y + c0 + v * VL, out, left);
    }
  }
}

template <class Op>
CUVIL_INLINE void pool_position(const PoolingArgs& a, const Window& win, float count, float* y) {
  int64_t c = 0;
  for (; c + 4 * VL <= a.c; c += 4 * VL) pool_channels<Op, 4>(a, win, c, VL, count, y);
  for (; c < a.c; c += VL) pool_channels<Op, 1>(a, win, c, min64(VL, a.c - c), count, y);
}

// Few channels leave vectors mostly empty: then VL neighbouring outputs of a channel form one.
// Requires the windows of outputs ow .. ow + VL to lie inside along the last axis.
template <class Op>
CUVIL_INLINE void pool_neighbours(const PoolingArgs& a, const Window& win, int64_t ow, int64_t c,
                                  float count, float* y) {
  const PoolAxis &ad = a.axes[0], &ah = a.axes[1], &aw = a.axes[2];
  const int64_t step = aw.stride * a.c, tap = aw.dilation * a.c;
  const int64_t first = (ow * aw.stride - aw.begin) * a.c + c;
  vf acc = Op::seed();
  Op sum;
  for (int64_t i = win.d.from; i < win.d.to; ++i) {
    const int64_t z = (win.d.first + i * ad.dilation) * ah.size;
    for (int64_t j = win.h.from; j < win.h.to; ++j) {
      const float* p = win.image + (z + win.h.first + j * ah.dilation) * aw.size * a.c + first;
      const auto take = [&](int64_t) __attribute__((always_inline)) {
        vf x;
#pragma unroll
        for (int l = 0; l < VL; ++l) x[l] = p[l * step];
        acc = Op::join(acc, x);
        p += tap;
      };
      each_tap<Op>(0, aw.kernel, take, [&]() __attribute__((always_inline)) {
        if constexpr (is_long<Op>) sum.take(acc);
      });
    }
  }
  if constexpr (is_long<Op>) acc = sum.whole();
  const vf out = Op::finish(acc, count);
#pragma unroll
  for (int l = 0; l < VL; ++l) y[l * a.c] = out[l];
}

template <class Op, bool average>
void pool_rows(const PoolingArgs& a, int64_t begin, int64_t end) {
  const PoolAxis &ad = a.axes[0], &ah = a.axes[1], &aw = a.axes[2];
  for (int64_t r = begin; r < end; ++r) {
    const int64_t oh = r % ah.out, od = r / ah.out % ad.out, n = r / ah.out / ad.out;
    const float* image = a.x + n * ad.size * ah.size * aw.size * a.c;
    Window win = {Span(ad, od), Span(ah, oh), Span(aw, 0), image};
    const int64_t inside = win.d.count() * win.h.count();
    const int64_t padded = average ? padded_count(ad, od) * padded_count(ah, oh) : 0;
    for (int64_t ow = 0; ow < aw.out; ++ow) {
      const bool block = a.c < VL / 2 && inside > 0 && ow + VL <= aw.out &&
                         Span(aw, ow).count() == aw.kernel &&
                         Span(aw, ow + VL - 1).count() == aw.kernel;
      if (block) {
        int64_t count = average && a.count_include_pad ? padded * aw.kernel : inside * aw.kernel;
        if (average && a.divisor) count = a.divisor;
        for (int64_t c = 0; c < a.c; ++c)
          pool_neighbours<Op>(a, win, ow, c, float(count), a.y + (r * aw.out + ow) * a.c + c);
        ow += VL - 1;
        continue;
      }
      win.w = Span(aw, ow);
      int64_t count = inside * win.w.count();
      if (count == 0) {
        count = 1;
      } else if (average) {
        if (a.count_include_pad) count = padded * padded_count(aw, ow);
        if (a.divisor) count = a.divisor;
      }
      pool_position<Op>(a, win, float(count), a.y + (r * aw.out + ow) * a.c);
    }
  }
}

template <class Op, bool average>
void run(const PoolingArgs& a) {
  const int64_t rows = a.n * a.axes[0].out * a.axes[1].out;
  const int64_t window = a.axes[0].kernel * a.axes[1].kernel * a.axes[2].kernel;
  const int64_t per_row = a.axes[2].out * window * round_up(a.c, VL);
  // Some 64 thousand elements read take a few microseconds.
  const int64_t grain = max64(1, (int64_t(1) << 16) / max64(1, per_row));
  parallel_for(a.pool, rows, grain, [&](int64_t begin, int64_t end, int32_t) {
    pool_rows<Op, average>(a, begin, end);
  });
}

}  // namespace

void max_pool_f32(const PoolingArgs& a) { run<Max, false>(a); }
void average_pool_f32(const PoolingArgs& a) {
  const bool many = a.axes[0].kernel * a.axes[1].kernel * a.axes[2].kernel > PART;
  many ? run<LongSum, true>(a) : run<Sum, true>(a);
}

}  // namespace cuvil
