// Minimal filtering: groups of tiles are transformed, multiplied point by point, transformed back.
// Internal to the core.
// A Form says what is read and multiplied; sums and transforms are f32:
//   Element                     an element of the input
//   static int64_t steps(c)     words of a transformed pixel, and rows of a panel
//   static vf read(const Element*, lanes); float value(Element)
//   static void put(float* row, k, vf)         VL channels of a transformed pixel from the k-th on
//   static vf weight(const float* column, k)   the k-th channel's transformed weights
//   static void multiply(...)                  as multiply_tile (tile.hpp)
#pragma once
#include "contract.hpp"
#include "winograd.hpp"

namespace cuvil {

// What a Form has whose products are f32, whatever it reads.
struct FloatProducts {
  static CUVIL_INLINE int64_t steps(int64_t c) { return c; }
  static CUVIL_INLINE void put(float* row, int64_t k, vf v) { store(row + k, v); }
  static CUVIL_INLINE vf weight(const float* column, int64_t k) { return load(column + k * NR); }
  static CUVIL_INLINE void multiply(const TileOperands& a, int64_t mr, const float* b, float* out,
                                    int64_t cols) {
    multiply_tile(a, mr, b, out, NR, cols, true);
  }
};

// The one-dimensional transforms for m outputs. POINTS is m + 2; `tap` gives back a filter's tap
// from its transformed values (packing.pack_winograd has the forward one).
template <int OUTPUTS>
struct Filtering;

template <>
struct Filtering<2> {
  static constexpr int POINTS = 4;
  static CUVIL_INLINE void input(vf (&d)[4]) {
    const vf d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
    d[0] = d2 - d0;
    d[1] = d1 + d2;
    d[2] = d2 - d1;
    d[3] = d3 - d1;
  }
  static CUVIL_INLINE void output(const vf (&v)[4], vf (&y)[2]) {
    y[0] = v[0] + (v[1] + v[2]);
    y[1] = (v[1] - v[2]) + v[3];
  }
  static CUVIL_INLINE vf tap(int i, const vf (&u)[4]) {
    return i == 0 ? -u[0] : i == 1 ? u[1] - u[2] : u[3];
  }
};

template <>
struct Filtering<4> {
  static constexpr int POINTS = 6;
  static constexpr float A = 0.6875f, B = 1.5f;
  static constexpr float AA = A * A, BB = B * B;
  static CUVIL_INLINE void input(vf (&d)[6]) {
    const vf d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3], d4 = d[4], d5 = d[5];
    const vf even_a = d4 - BB * d2, odd_a = A * (d3 - BB * d1);
    const vf even_b = d4 - AA * d2, odd_b = B * (d3 - AA * d1);
    d[0] = AA * BB * d0 + (d4 - (AA + BB) * d2);
    d[1] = even_a + odd_a;
    d[2] = even_a - odd_a;
    d[3] = even_b + odd_b;
    d[4] = even_b - odd_b;
    d[5] = AA * BB * d1 + (d5 - (AA + BB) * d3);
  }
  static CUVIL_INLINE void output(const vf (&v)[6], vf (&y)[4]) {
    const vf sum_a = v[1] + v[2], sum_b = v[3] + v[4];
    const vf dif_a = A * (v[1] - v[2]), dif_b = B * (v[3] - v[4]);
    y[0] = v[0] + (sum_a + sum_b);
    y[1] = dif_a + dif_b;
    y[2] = AA * sum_a + BB * sum_b;
    y[3] = AA * dif_a + (BB * dif_b + v[5]);
  }
  static CUVIL_INLINE vf tap(int i, const vf (&u)[6]) {
    if (i == 0) return AA * BB * u[0];
    return i == 1 ? A * (AA - BB) * (u[1] - u[2]) : u[5];
  }
};

// Whether any lane is an infinity or a NaN: both are all ones in the exponent.
CUVIL_INLINE vi unbounded(vf v) { return ((vi)v & splat(0x7f800000)) == splat(0x7f800000); }
CUVIL_INLINE bool any_lane(vi mask, int64_t lanes) {
  if (lanes < VL) mask &= lane_index() < splat(int32_t(lanes));
  return __builtin_reduce_or(mask) != 0;
}

template <int OUTPUTS, class Form>
struct Winograd {
  typedef typename Form::Element Element;
  using F = Filtering<OUTPUTS>;
  static constexpr int P = F::POINTS, POINTS = P * P;
  // With fewer tiles together the weights are read more than they are used.
  static constexpr int64_t MIN_TILES = 6;
  // Tiles of a row that are handed over at once.
  static constexpr int64_t SEGMENT = EPILOGUE_MAX_ROWS / OUTPUTS;

  const WinogradArgs& a;
  const Element* input;
  int64_t tile_rows, tile_columns, tiles, panels, steps;
  int64_t channels, group, products;  // strides of transformed pixels, points of products
  const Element* zeros;
  float* parts;

  // A tile's place: its image and its first output.
  struct Place {
    int64_t image, oy, ox;
  };
  explicit Winograd(const WinogradArgs& args)
      : a(args), input(static_cast<const Element*>(args.x)), steps(Form::steps(args.c)) {
    tile_rows = ceil_div(a.oh, OUTPUTS);
    tile_columns = ceil_div(a.ow, OUTPUTS);
    tiles = a.n * tile_rows * tile_columns;
    panels = ceil_div(a.oc, NR);
    channels = gemm_scratch_stride(steps);
    group = a.group > 0 ? a.group : winograd_group(OUTPUTS, steps);
    products = winograd_products_stride(group);
    float* scratch = static_cast<float*>(a.scratch);
    zeros = reinterpret_cast<const Element*>(scratch);
    parts = scratch + round_up(steps, 16);
    fill_floats(scratch, 0, round_up(steps, 16));
  }

  int64_t input_floats() const { return POINTS * (group * channels + 16); }
  int64_t part_floats() const { return input_floats() + POINTS * products; }
  float* transformed_of(int32_t thread) const { return parts + thread * part_floats(); }
  float* products_of(int32_t thread) const { return transformed_of(thread) + input_floats(); }
  int64_t point_stride() const { return group * channels + 16; }

  Place place(int64_t tile) const {
    const int64_t row = tile / tile_columns;
    return {row / tile_rows, row % tile_rows * OUTPUTS, tile % tile_columns * OUTPUTS};
  }

  const Element* pixel(const Place& at, int64_t i, int64_t j) const {
    const int64_t y = at.oy - a.ph + i, x = at.ox - a.pw + j;
    const bool exists = uint64_t(y) < uint64_t(a.h) && uint64_t(x) < uint64_t(a.w);
    return exists ? input + ((at.image * a.h + y) * a.w + x) * a.c : zeros;
  }

  // One tile's channels into dst, whose points are point_stride() apart.
  void transform_input(int64_t tile, float* dst) const {
    const Place at = place(tile);
    const Element* table[P][P];
    for (int i = 0; i < P; ++i)
      for (int j = 0; j < P; ++j) table[i][j] = pixel(at, i, j);
    for (int64_t k = 0; k < a.c; k += VL) transform_lanes(table, k, dst);
  }

  void transform_lanes(const Element* const (&table)[P][P], int64_t k, float* dst) const {
    const int64_t lanes = min64(VL, a.c - k);
    vf between[P][P];
#pragma unroll
    for (int j = 0; j < P; ++j) {
      vf column[P];
#pragma unroll
      for (int i = 0; i < P; ++i)
        column[i] = Form::read(table[i][j] + k, lanes);
      F::input(column);
#pragma unroll
      for (int i = 0; i < P; ++i) between[i][j] = column[i];
    }
    const int64_t stride = point_stride();
#pragma unroll
    for (int i = 0; i < P; ++i) {
      F::input(between[i]);
#pragma unroll
      for (int j = 0; j < P; ++j) Form::put(dst + (i * P + j) * stride, k, between[i][j]);
    }
  }

  // The products of `count` transformed tiles with one panel, at every point.
  void multiply(const float* transformed, int64_t count, int64_t panel, float* out) const {
    const float* u = a.w_packed + panel * POINTS * steps * NR;
    const int64_t cols = min64(NR, a.oc - panel * NR);
    const int64_t chunks = ceil_div(count, MR), point_bytes = steps * NR * int64_t(sizeof(float));
    const bool near = panels * POINTS * point_bytes <= L2_PANEL_BYTES;
    for (int64_t p = 0; p < POINTS; ++p, u += steps * NR) {
      const Upcoming next = {u + steps * NR, near ? 0 : point_bytes, chunks};
      const float* rows = transformed + p * point_stride();
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const int64_t m0 = chunk * count / chunks, mr = (chunk + 1) * count / chunks - m0;
        const float* table[MR];
        for (int64_t i = 0; i < mr; ++i) table[i] = rows + (m0 + i) * channels;
        const Ahead ahead = next.slice(chunk, steps, mr * FETCHED_EACH_ROW);
        Form::multiply({table, 1, steps, ahead}, mr, u, out + p * products + m0 * NR, cols);
      }
    }
  }

  // Outputs of a group's tiles from their products, a stretch of one row of tiles at a time.
  void finish(int64_t first, int64_t count, int64_t panel, const float* sums) const {
    for (int64_t done = 0; done < count;) {
      const Place at = place(first + done);
      const int64_t left = tile_columns - at.ox / OUTPUTS;
      const int64_t some = min64(min64(left, SEGMENT), count - done);
      finish_segment(at, some, panel, sums + done * NR);
      done += some;
    }
  }

  void finish_segment(const Place& at, int64_t count, int64_t panel, const float* sums) const {
    alignas(64) float tile[OUTPUTS][SEGMENT * OUTPUTS * NR];
    const int64_t n0 = panel * NR, columns = min64(NR, a.oc - n0);
    for (int64_t t = 0; t < count; ++t)
      for (int64_t v = 0; v < columns; v += VL) {
        float* rows[OUTPUTS];
        for (int r = 0; r < OUTPUTS; ++r) rows[r] = &tile[r][t * OUTPUTS * NR + v];
        const vi odd = transform_output(sums + t * NR + v, rows);
        if (__builtin_expect(any_lane(odd, min64(VL, columns - v)), 0))
          sum_taps({at.image, at.oy, at.ox + t * OUTPUTS}, panel, v, rows);
      }
    const int64_t pixels = min64(count * OUTPUTS, a.ow - at.ox);
    for (int64_t r = 0; r < min64(OUTPUTS, a.oh - at.oy); ++r) {
      const int64_t m0 = (at.image * a.oh + at.oy + r) * a.ow + at.ox;
      hand_over(tile[r], m0, pixels, n0, columns);
    }
  }

  // Returns which lanes have an output that is not finite.
  CUVIL_INLINE vi transform_output(const float* sums, float* const (&rows)[OUTPUTS]) const {
    vf between[OUTPUTS][P];
#pragma unroll
    for (int j = 0; j < P; ++j) {
      vf column[P], y[OUTPUTS];
#pragma unroll
      for (int i = 0; i < P; ++i) column[i] = load(sums + (i * P + j) * products);
      F::output(column, y);
#pragma unroll
      for (int r = 0; r < OUTPUTS; ++r) between[r][j] = y[r];
    }
    vi odd = {};
#pragma unroll
    for (int r = 0; r < OUTPUTS; ++r) {
      vf y[OUTPUTS];
      F::output(between[r], y);
#pragma unroll
      for (int q = 0; q < OUTPUTS; ++q) {
        store(rows[r] + q * NR, y[q]);
        odd |= unbounded(y[q]);
      }
    }
    return odd;
  }

  void hand_over(const float* tile, int64_t m0, int64_t pixels, int64_t n0, int64_t cols) const {
    if (a.epilogue.fn) return a.epilogue.fn(a.epilogue.ctx, tile, NR, 0, m0, pixels, n0, cols);
    for (int64_t i = 0; i < pixels; ++i)
      copy_floats(a.y + (m0 + i) * a.oc + n0, tile + i * NR, cols);
  }

  // VL channels of one tile by the definition.
  __attribute__((noinline, minsize)) void sum_taps(const Place& at, int64_t panel, int64_t v,
                                          float* const (&rows)[OUTPUTS]) const {
    const float* u = a.w_packed + panel * POINTS * steps * NR + v;
    vf acc[OUTPUTS][OUTPUTS] = {};
    for (int64_t k = 0; k < a.c; ++k) {
      vf taps[3][3];
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) taps[i][j] = tap(u, k, i, j);
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
          for (int r = 0; r < OUTPUTS; ++r)
            for (int q = 0; q < OUTPUTS; ++q)
              acc[r][q] += splat(Form::value(pixel(at, r + i, q + j)[k])) * taps[i][j];
    }
    for (int r = 0; r < OUTPUTS; ++r)
      for (int q = 0; q < OUTPUTS; ++q) store(rows[r] + q * NR, acc[r][q]);
  }

  vf tap(const float* u, int64_t k, int i, int j) const {
    vf row[P];
    for (int q = 0; q < P; ++q) {
      vf column[P];
      for (int p = 0; p < P; ++p) column[p] = Form::weight(u + (p * P + q) * steps * NR, k);
      row[q] = F::tap(i, column);
    }
    return F::tap(j, row);
  }

  void transform_range(int64_t first, int64_t begin, int64_t end, float* dst) const {
    for (int64_t i = begin; i < end; ++i) transform_input(first + i, dst + i * channels);
  }

  void run() const {
    if (tiles <= 0) return;
    const int64_t groups = ceil_div(tiles, group), threads = pool_threads(a.pool);
    if (threads == 1 || groups >= 2 * threads) return run_groups(groups);
    // Each thread reads all weights for its own groups: only where that is nothing beside the work.
    const int64_t even = round_up(groups, threads), bytes = panels * POINTS * steps * NR * 4;
    if (tiles >= MIN_TILES * even && bytes <= 6 * L2_PANEL_BYTES) return run_groups(even);
    for (int64_t g = 0; g < groups; ++g)
      run_shared(g * tiles / groups, (g + 1) * tiles / groups - g * tiles / groups);
  }

  // Every thread takes groups of its own.
  void run_groups(int64_t groups) const {
    parallel_for(a.pool, groups, 1, [&](int64_t begin, int64_t end, int32_t thread) {
      float* transformed = transformed_of(thread);
      float* sums = products_of(thread);
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = g * tiles / groups, count = (g + 1) * tiles / groups - first;
        transform_range(first, 0, count, transformed);
        for (int64_t panel = 0; panel < panels; ++panel) {
          multiply(transformed, count, panel, sums);
          finish(first, count, panel, sums);
        }
      }
    });
  }

  // All threads work on one group: first its tiles, then the panels.
  void run_shared(int64_t first, int64_t count) const {
    float* transformed = transformed_of(0);
    const double tile_ns = double(POINTS) * double(a.c) * 8 / 60;
    parallel_for(a.pool, count, grain(tile_ns), [&](int64_t begin, int64_t end, int32_t) {
      transform_range(first, begin, end, transformed);
    });
    // Few panels are cut across the tiles too, so that every thread gets a share.
    const int64_t threads = pool_threads(a.pool);
    const bool whole = panels % threads == 0 || panels >= 4 * threads;
    const int64_t parts = whole ? 1 : max64(1, min64(threads, count / MIN_TILES));
    const double item_ns = double(POINTS) * double(count / parts) * double(steps) * NR * 2 /
                           (1.8 * CUVIL_VEC_BYTES);
    const int64_t items = panels * parts;
    parallel_for(a.pool, items, grain(item_ns), [&](int64_t begin, int64_t end, int32_t thread) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t panel = item / parts, part = item % parts;
        const int64_t from = part * count / parts, some = (part + 1) * count / parts - from;
        multiply(transformed + from * channels, some, panel, products_of(thread));
        finish(first + from, some, panel, products_of(thread));
      }
    });
  }

  static int64_t grain(double item_ns) {
    return item_ns >= MIN_RANGE_NS ? 1 : int64_t(MIN_RANGE_NS / (item_ns + 0.01)) + 1;
  }
};

}  // namespace cuvil
