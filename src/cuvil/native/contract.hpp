// The loops around the register tile, shared by gemm and conv: which rows meet which panels, in
// which order, on which thread, and where finished tiles go. Internal to the core.
// Work is cut into items: (batch, block of panels, strip of row tiles), strips innermost, so that a
// thread walks down the rows while one block of packed panels stays in its L2.
// A strip is one row tile, or up to four when the columns are few (so an epilogue gets enough to
// do).
// Row tiles are balanced (49 rows on tiles of 14: 13 + 12 + 12 + 12), as a short last tile wastes
// the multiplier. Inner dimension never split: each accumulator is finished when it is stored.
// A Source says where the left operand's rows are:
//   TileOperands prepare(const TileRequest&) const
// and may build its table in the request's `table` (one tap) or in that thread's scratch; the
// result is valid until the thread's next prepare.
// A Multiply computes one register tile; it takes what multiply_tile takes, which is the usual one.
// Those of f32 sums know `finish`.
#pragma once
#include "cutting.hpp"
#include "epilogue.hpp"
#include "threads.hpp"
#include "tile.hpp"

namespace cuvil {

struct Contraction {
  int64_t batch, m, n, k;
  const float* b;          // packed panels
  int64_t b_batch;
  float* c;
  int64_t c_batch, c_row;
  bool batch_is_columns;   // conv groups: batch g owns columns g*n.. of one output
  int64_t row_limit;       // rows a tile may have, at most MR (see tile_rows_at)
  int64_t min_panels;      // panels a block has at least, when there are as many
  Epilogue epilogue;
  Pool* pool;
  Finish finish = {};
  Cutting cutting = {};
  bool constant_b = false;  // b lies among the weights
};

// Rows at a multiple of 4 KB apart share one set of a first-level cache (8 ways of 32 KB, 12 of 48
// KB):
// more of them than ways would evict each other at every step of k, so such tiles have fewer rows.
constexpr int64_t tile_rows_at(int64_t row_stride, int64_t row_length) {
  return row_stride % 1024 == 0 && row_length > 64 && MR > 7 ? 7 : MR;
}

struct TileRequest {
  int64_t batch, m0, mr;
  int32_t thread;
  const float** table;  // room for MR pointers
};

// Bytes of packed panels that a thread keeps in its L2 (1 MB on current servers, 256 KB on small
// cores).
constexpr int64_t L2_PANEL_BYTES = CUVIL_VEC_BYTES == 64 ? 512 << 10 : 160 << 10;

struct Cut {
  int64_t row_tiles, tile_rows, longer_tiles;  // the first longer_tiles have tile_rows + 1 rows
  int64_t strip_tiles, strips;
  int64_t panels, block_panels, blocks;
  int64_t items, grain;

  int64_t first_row(int64_t tile) const { return tile * tile_rows + min64(tile, longer_tiles); }
  int64_t rows(int64_t tile) const { return tile_rows + (tile < longer_tiles); }
};

// Requires m, n, batch > 0.
__attribute__((noinline)) inline Cut cut_contraction(const Contraction& p) {
  Cut cut;
  const int64_t most = p.cutting.row_limit;
  cut.row_tiles = ceil_div(p.m, most > 0 ? min64(most, MR) : p.row_limit);
  cut.tile_rows = p.m / cut.row_tiles;
  cut.longer_tiles = p.m % cut.row_tiles;
  cut.panels = ceil_div(p.n, NR);
  cut.strip_tiles = max64(1, EPILOGUE_PANELS / cut.panels);
  cut.strips = ceil_div(cut.row_tiles, cut.strip_tiles);
  const int64_t panel_bytes = max64(p.k, 1) * NR * int64_t(sizeof(float));
  const int64_t threads = pool_threads(p.pool);
  // Rows that stay in the cache as well are read again for little; the next block needs room too.
  const bool rows_stay = p.m * p.k * int64_t(sizeof(float)) <= 2 * L2_PANEL_BYTES;
  const int64_t usual = rows_stay ? L2_PANEL_BYTES / 2 : L2_PANEL_BYTES;
  const int64_t room = p.cutting.panel_bytes > 0 ? p.cutting.panel_bytes : usual;
  cut.block_panels = min64(cut.panels, max64(p.min_panels, room / panel_bytes));
  if (threads > 1) {
    const int64_t wanted = ceil_div(4 * threads, p.batch * cut.strips);
    cut.block_panels = min64(cut.block_panels, max64(1, cut.panels / wanted));
  }
  cut.blocks = ceil_div(cut.panels, cut.block_panels);
  cut.items = p.batch * cut.blocks * cut.strips;
  // Time at the multiplier's peak plus time to read the panels; only its magnitude matters.
  const double work = double(p.batch) * double(p.k + 16) * double(cut.panels * NR);
  const double ns = work * double(p.m) * 2 / (1.8 * CUVIL_VEC_BYTES) + work * 4 / 20;
  const double per_item = ns / double(cut.items);
  cut.grain = per_item >= MIN_RANGE_NS ? 1 : int64_t(MIN_RANGE_NS / (per_item + 0.01)) + 1;
  return cut;
}

// With more row tiles, waiting for the first panels is nothing beside the work.
constexpr int64_t FEW_ROW_TILES = 16;

// What the tiles of `block` fetch: the panels of the next one; behind the last one what follows a
// constant among the weights, as that is what the next kernels read.
__attribute__((noinline)) inline Upcoming next_panels(const Contraction& p, const Cut& cut,
                                                      const float* b, int64_t block) {
  const int64_t from = block * cut.block_panels, to = min64(cut.panels, from + cut.block_panels);
  const int64_t next = min64(cut.panels, to + cut.block_panels) - to;
  const int64_t panel = p.k * NR, bytes = next * panel * int64_t(sizeof(float));
  const int64_t behind = p.constant_b && cut.row_tiles <= FEW_ROW_TILES ? L2_PANEL_BYTES / 2 : 0;
  return {b + to * panel, next > 0 ? bytes : behind, cut.row_tiles * (to - from)};
}

// One strip against one block of panels.
template <class Source, class Multiply>
inline void contract_item(const Contraction& p, const Cut& cut, const Source& source,
                          const Multiply& multiply, int64_t item, int32_t thread) {
  alignas(64) float buffer[EPILOGUE_PANELS * MR * NR];
  const int64_t strip = item % cut.strips, block = item / cut.strips % cut.blocks;
  const int64_t batch = item / (cut.strips * cut.blocks);
  const int64_t first_tile = strip * cut.strip_tiles;
  const int64_t last_tile = min64(cut.row_tiles, first_tile + cut.strip_tiles);
  const int64_t first_panel = block * cut.block_panels;
  const int64_t last_panel = min64(cut.panels, first_panel + cut.block_panels);
  const int64_t m0 = cut.first_row(first_tile);
  const int64_t first_column = p.batch_is_columns ? batch * p.n : 0;
  const float* b = p.b + batch * p.b_batch;
  const Upcoming next = next_panels(p, cut, b, block);
  const float* table[MR];
  TileOperands rows = {};
  for (int64_t panel0 = first_panel; panel0 < last_panel; panel0 += EPILOGUE_PANELS) {
    const int64_t panel1 = min64(last_panel, panel0 + EPILOGUE_PANELS);
    const int64_t n0 = panel0 * NR, n1 = min64(p.n, panel1 * NR);
    const bool direct = p.epilogue.fn == nullptr;
    float* out = direct ? p.c + (batch * p.c_batch + m0 * p.c_row + n0) : buffer;
    const int64_t ld = direct ? p.c_row : (panel1 - panel0) * NR;
    int64_t done = 0;
    for (int64_t tile = first_tile; tile < last_tile; ++tile) {
      const int64_t mr = cut.rows(tile);
      // Strips of several tiles have one group of panels only, so nothing is prepared twice.
      if (cut.strip_tiles > 1 || panel0 == first_panel)
        rows = source.prepare({batch, m0 + done, mr, thread, table});
      for (int64_t panel = panel0; panel < panel1; ++panel) {
        rows.ahead = next.slice(tile * (last_panel - first_panel) + panel - first_panel,
                                rows.kc * rows.taps, mr * FETCHED_EACH_ROW);
        const int64_t cols = min64(NR, p.n - panel * NR);
        float* const tile_out = out + done * ld + (panel - panel0) * NR;
        const Finish finish = p.finish.at(first_column + panel * NR, tile_out - p.c);
        multiply(rows, mr, b + panel * p.k * NR, tile_out, ld, cols, !direct,
                 direct && p.finish.wanted() ? &finish : nullptr);
      }
      done += mr;
    }
    if (!direct) {
      p.epilogue.fn(p.epilogue.ctx, buffer, ld, p.batch_is_columns ? 0 : batch, m0, done,
                    first_column + n0, n1 - n0);
    }
  }
}

struct FloatTile {
  void operator()(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                  int64_t cols, bool whole_vectors, const Finish* finish) const {
    multiply_tile(a, mr, b, out, ld, cols, whole_vectors, finish);
  }
};

template <class Source, class Multiply = FloatTile>
inline void contract(const Contraction& p, const Source& source, const Multiply& multiply = {}) {
  if (p.batch <= 0 || p.m <= 0 || p.n <= 0) return;
  const Cut cut = cut_contraction(p);
  parallel_for(p.pool, cut.items, cut.grain, [&](int64_t begin, int64_t end, int32_t thread) {
    for (int64_t item = begin; item < end; ++item)
      contract_item(p, cut, source, multiply, item, thread);
  });
}

}  // namespace cuvil
