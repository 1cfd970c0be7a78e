// Chains around a depthwise convolution: a ring of expanded rows, a strip of convolved pixels.
#include "chain.hpp"

#include "cutting.hpp"
#include "depthwise_row.hpp"
#include "tile.hpp"

namespace cuvil {
namespace {

constexpr int64_t STRIP = CHAIN_STRIP < EPILOGUE_MAX_ROWS ? CHAIN_STRIP : EPILOGUE_MAX_ROWS;

int64_t tile_row_limit(int64_t stride) {
  return stride % 1024 == 0 && MR > 7 ? 7 : MR;  // as contract.hpp has it
}

// [count, k] times packed [k, n]: rows are `stride` floats apart. Row tiles are balanced.
struct Product {
  const float* rows;
  int64_t stride, k, n;
  const float* packed;
  int64_t tiles, tile_rows, longer, panels;  // the first `longer` tiles have one row more

  Product(const float* a, int64_t a_row, int64_t count, int64_t depth, int64_t columns,
          const float* b)
      : rows(a), stride(a_row), k(depth), n(columns), packed(b) {
    tiles = ceil_div(count, tile_row_limit(stride));
    tile_rows = count / tiles;
    longer = count - tile_rows * tiles;
    panels = ceil_div(n, NR);
  }
  int64_t first(int64_t tile) const { return tile * tile_rows + min64(tile, longer); }

  // Panels [from, to) of a tile, stored from `out` on; `finish` is that of the tile.
  void multiply(int64_t tile, int64_t from, int64_t to, float* out, int64_t ld,
                const Finish* finish, bool whole) const {
    const int64_t at = first(tile), mr = tile_rows + (tile < longer);
    const float* table[MR];
    for (int64_t i = 0; i < mr; ++i) table[i] = rows + (at + i) * stride;
    for (int64_t panel = from; panel < to; ++panel) {
      const Finish part = finish ? finish->at(panel * NR, panel * NR) : Finish{};
      multiply_tile({table, 1, k}, mr, packed + panel * k * NR, out + (panel - from) * NR, ld,
                    min64(NR, n - panel * NR), whole, finish ? &part : nullptr);
    }
  }
};

// What a thread's ring holds: rows [0, next) of `image` as far as it has room, if its next output
// row is `row`.
struct Held {
  int64_t row, next;
};

template <int K, int S>
struct Walk {
  const ChainArgs& a;
  const float* zeros;
  float *ring, *strip;
  int64_t step;  // floats of a pixel in either
  int64_t image, oy;

  float* slot(int64_t y) const { return ring + y % K * a.w * step; }
  const float* input(int64_t y) const { return a.x + (image * a.h + y) * a.w * a.c; }
  int64_t pixel(int64_t ox) const { return (image * a.oh + oy) * a.ow + ox; }

  void expand(int64_t y) const {
    if (a.w <= 0) return;
    const Product p(input(y), a.c, a.w, a.c, a.mid, a.expand);
    const int64_t panels = p.panels, m0 = (image * a.h + y) * a.w;
    const Finish* finish = a.finish_expand.wanted() ? &a.finish_expand : nullptr;
    for (int64_t tile = 0; tile < p.tiles; ++tile) {
      const int64_t at = p.first(tile), mr = p.first(tile + 1) - at;
      for (int64_t from = 0; from < panels; from += EPILOGUE_PANELS) {
        const int64_t to = min64(panels, from + EPILOGUE_PANELS), n0 = from * NR;
        float* out = slot(y) + at * step + n0;
        p.multiply(tile, from, to, out, step, finish, !finish);
        if (a.after_expand.fn)
          a.after_expand.fn(a.after_expand.ctx, out, step, 0, m0 + at, mr, n0,
                            min64(a.mid, to * NR) - n0);
      }
    }
  }

  void project(int64_t ox, int64_t count) const {
    const Product p(strip, step, count, a.mid, a.oc, a.project);
    const int64_t panels = p.panels, tiles = p.tiles, m0 = pixel(ox);
    if (!a.epilogue.fn) {
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t offset = (m0 + p.first(tile)) * a.oc;
        const Finish finish = a.finish.at(0, offset);
        p.multiply(tile, 0, panels, a.y + offset, a.oc, a.finish.wanted() ? &finish : nullptr,
                   false);
      }
      return;
    }
    alignas(64) float buffer[EPILOGUE_PANELS * MR * NR];
    const int64_t together = max64(1, EPILOGUE_PANELS / panels);
    for (int64_t tile = 0; tile < tiles; tile += together) {
      const int64_t last = min64(tiles, tile + together), at = p.first(tile);
      for (int64_t from = 0; from < panels; from += EPILOGUE_PANELS) {
        const int64_t to = min64(panels, from + EPILOGUE_PANELS), ld = (to - from) * NR;
        for (int64_t t = tile; t < last; ++t)
          p.multiply(t, from, to, buffer + (p.first(t) - at) * ld, ld, nullptr, true);
        a.epilogue.fn(a.epilogue.ctx, buffer, ld, 0, m0 + at, p.first(last) - at, from * NR,
                      min64(a.oc, to * NR) - from * NR);
      }
    }
  }

  // Convolves pixels [begin, ...) of the row, into the strip or to their reader.
  struct Convolve {
    const Walk& walk;
    const InputLines& in;
    int64_t begin;

    template <int PX>
    void pixels(int64_t ox) const {
      constexpr int COLUMNS = (PX - 1) * S + K;
      const ChainArgs& a = walk.a;
      const float* table[K * COLUMNS];
      window_table<COLUMNS>(in, K, (begin + ox) * S - a.pw, table);
      const int64_t m0 = walk.pixel(begin + ox);
      if (!a.project && !a.epilogue.fn) {
        const Finish* finish = a.finish.wanted() ? &a.finish : nullptr;
        shared_columns<K, K, S, PX>(table, a.filter, a.mid,
                                    {0, a.mid, a.y + m0 * a.mid, a.mid, finish});
        return;
      }
      alignas(64) float tile[PX * EPILOGUE_MAX_COLS];
      const Finish& between = a.finish_depthwise;
      const Finish* finish = a.project && between.wanted() ? &between : nullptr;
      for (int64_t from = 0, to; from < a.mid; from = to) {
        to = piece_end(from, a.mid);
        float* out = a.project ? walk.strip + ox * walk.step + from : tile;
        const int64_t ld = a.project ? walk.step : EPILOGUE_MAX_COLS;
        shared_columns<K, K, S, PX>(table, a.filter, a.mid, {from, to, out, ld, finish});
        if (!a.project) {
          a.epilogue.fn(a.epilogue.ctx, out, ld, 0, m0, PX, from, to - from);
        } else if (a.after_depthwise.fn) {
          a.after_depthwise.fn(a.after_depthwise.ctx, out, ld, 0, m0, PX, from, to - from);
        }
      }
    }
  };

  // Expands what row oy needs beyond rows [0, next); returns the new `next`.
  int64_t row(int64_t next) const {
    const int64_t top = oy * S - a.ph, end = min64(a.h, top + K);
    const float* lines[K];
    if (a.expand)
      for (int64_t y = max64(next, max64(top, 0)); y < end; ++y) expand(y);
    for (int64_t i = 0; i < K; ++i) {
      const bool exists = uint64_t(top + i) < uint64_t(a.h);
      lines[i] = !exists ? nullptr : a.expand ? slot(top + i) : input(top + i);
    }
    const InputLines in = {lines, a.w, a.expand ? step : a.c, zeros};
    if (!a.project) {
      each_run(a.ow, Convolve{*this, in, 0});
    } else {
      for (int64_t ox = 0, count; ox < a.ow; ox += count) {
        count = min64(STRIP, a.ow - ox);
        each_run(count, Convolve{*this, in, ox});
        project(ox, count);
      }
    }
    return max64(next, end);
  }
};

double row_ns(const ChainArgs& a) {
  const double in = a.expand ? double(a.w) * double(a.s) * double(a.c) : 0;
  const double out = double(a.ow) * (double(a.k * a.k) + (a.project ? double(a.oc) : 0));
  return double(a.mid) * (in + out) * 2 / (1.5 * CUVIL_VEC_BYTES);
}

template <int K, int S>
void run(const ChainArgs& a) {
  const int64_t step = gemm_scratch_stride(a.mid);
  const int64_t ring = a.expand ? K * a.w * step : 0, strip = a.project ? CHAIN_STRIP * step : 0;
  float* zeros = static_cast<float*>(a.scratch);
  float* parts = zeros + round_up(a.mid, 16);
  const int64_t part = 16 + ring + strip;
  fill_floats(zeros, 0, a.mid);
  for (int32_t t = 0; t < pool_threads(a.pool); ++t)
    *reinterpret_cast<Held*>(parts + t * part) = {-1, 0};
  // A range begins with rows that another one makes as well, so ranges are long.
  const int64_t rows = a.n * a.oh, shares = 2 * int64_t(pool_threads(a.pool));
  const int64_t grain = max64(ceil_div(rows, shares), int64_t(MIN_RANGE_NS / (row_ns(a) + 1)) + 1);
  parallel_for(a.pool, rows, grain, [&](int64_t begin, int64_t end, int32_t thread) {
    float* mine = parts + thread * part;
    Held& held = *reinterpret_cast<Held*>(mine);
    int64_t next = held.row == begin ? held.next : 0;
    for (int64_t r = begin; r < end; ++r) {
      const Walk<K, S> walk = {a,    zeros,    mine + 16, mine + 16 + ring,
                               step, r / a.oh, r % a.oh};
      next = walk.row(walk.oy == 0 ? 0 : next);
    }
    held = {end, next};
  });
}

}  // namespace

void chain_f32(const ChainArgs& a) {
  if (a.n <= 0 || a.oh <= 0 || a.ow <= 0 || (a.project && a.oc <= 0)) return;
  if (a.k == 3 && a.s == 1) return run<3, 1>(a);
  if (a.k == 3 && a.s == 2) return run<3, 2>(a);
  if (a.k == 5 && a.s == 1) return run<5, 1>(a);
  run<5, 2>(a);
}

}  // namespace cuvil
