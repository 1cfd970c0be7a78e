// The loops around tiles of a matrix unit: contract.hpp for products of bf16. Internal to the core.
// The unit is fast enough that reading decides: an item is a group of strips of 32 rows, whose left
// operands stay in a thread's L2, against panels that are read once for all of them.
// Rows are copied where the unit can't read them as they lie: the pixels of a convolution, a last
// strip that is not whole, rows of odd length, rows that share a set of the first-level cache.
#pragma once
#include "contract.hpp"
#include "tile_amx.hpp"

namespace cuvil {

// Bytes of copied rows that a thread keeps in its L2.
constexpr int64_t AMX_GROUP_BYTES = 512 << 10;

constexpr int64_t amx_group_rows(int64_t pairs) {
  const int64_t rows = AMX_GROUP_BYTES / amx_row_bytes(pairs) / 32 * 32;
  return rows > 32 ? rows : 32;
}
// For products of `pairs` pairs a sum: one group of copied rows a thread.
constexpr int64_t amx_scratch_bytes(int64_t pairs, int32_t threads) {
  return threads * amx_group_rows(pairs) * amx_row_bytes(pairs);
}

// Below so many rows the usual tiles are as fast: reading the panels is all that counts.
constexpr int64_t AMX_LEAST_ROWS = 4;

#if CUVIL_AMX

// Bytes of the next panel that a step can fetch without waiting, where there are several strips: a
// single one takes no longer than memory does.
constexpr int64_t AMX_FETCHED = 1024;

struct AmxCut {
  int64_t strips, group, groups;  // group: strips of one
  int64_t panels, block, blocks;  // block: panels of one
  int64_t items, grain;
};

// Requires m, n, batch > 0.
inline AmxCut cut_amx(const Contraction& p) {
  AmxCut cut;
  const int64_t threads = pool_threads(p.pool);
  cut.strips = ceil_div(p.m, AMX_ROWS);
  cut.groups = ceil_div(cut.strips, amx_group_rows(p.k) / AMX_ROWS);
  if (threads > 1 && cut.groups > 1) cut.groups = min64(cut.strips, round_up(cut.groups, threads));
  cut.group = ceil_div(cut.strips, cut.groups);
  cut.groups = ceil_div(cut.strips, cut.group);
  cut.panels = ceil_div(p.n, NR);
  const int64_t wanted = threads > 1 ? ceil_div(2 * threads, p.batch * cut.groups) : 1;
  cut.block = ceil_div(cut.panels, min64(cut.panels, wanted));
  cut.blocks = ceil_div(cut.panels, cut.block);
  cut.items = p.batch * cut.groups * cut.blocks;
  // Some TFLOP/s, and the time to read the panels; only its magnitude matters.
  const double work = double(p.batch) * double(p.k + 16) * double(cut.panels * NR);
  const double per_item = (work * double(p.m) * 4 / 2000 + work * 4 / 20) / double(cut.items);
  cut.grain = per_item >= MIN_RANGE_NS ? 1 : int64_t(MIN_RANGE_NS / (per_item + 0.01)) + 1;
  return cut;
}

// `rows` rows from m0 on, each filled up with zeros to whole steps.
template <class Source>
void copy_rows(const Contraction& p, const Source& source, int64_t batch, int64_t m0, int64_t rows,
               int32_t thread, char* to) {
  const float* table[MR];
  const int64_t row = amx_row_bytes(p.k) / 4, padded = round_up(p.k, AMX_STEP_PAIRS);
  for (int64_t done = 0; done < rows; done += MR) {
    const int64_t mr = min64(MR, rows - done);
    const TileOperands from = source.prepare({batch, m0 + done, mr, thread, table});
    for (int64_t i = 0; i < mr; ++i) {
      float* const first = reinterpret_cast<float*>(to) + (done + i) * row;
      float* next = first;
      const float* const* run = from.rows + i;
      for (int64_t t = 0; t < from.taps; ++t, run += MR, next += from.kc)
        copy_floats(next, *run, from.kc);
      fill_floats(next, 0, first + padded - next);
    }
  }
}

template <class Source>
struct AmxItem {
  const Contraction& p;
  const AmxCut& cut;
  const Source& source;
  int64_t batch, first_strip, last_strip;
  int32_t thread;
  char* copies;

  int64_t rows(int64_t strip) const { return min64(AMX_ROWS, p.m - strip * AMX_ROWS); }
  AmxRows in_place(int64_t strip) const {
    return rows(strip) == AMX_ROWS ? source.in_place(batch, strip * AMX_ROWS) : AmxRows{};
  }
  char* copy(int64_t strip) const {
    return copies + (strip - first_strip) * AMX_ROWS * amx_row_bytes(p.k);
  }
  AmxRows left(int64_t strip) const {
    const AmxRows lying = in_place(strip);
    return lying.first ? lying : AmxRows{copy(strip), amx_row_bytes(p.k)};
  }

  void prepare() const {
    for (int64_t strip = first_strip; strip < last_strip; ++strip)
      if (!in_place(strip).first)
        copy_rows(p, source, batch, strip * AMX_ROWS, rows(strip), thread, copy(strip));
  }

  void multiply(int64_t panel) const {
    alignas(64) float tile[AMX_ROWS * NR];
    alignas(64) float rest[AMX_STEP_PAIRS * NR];
    const float* b = p.b + batch * p.b_batch + panel * p.k * NR;
    if (const int64_t odd = p.k % AMX_STEP_PAIRS) {
      copy_floats(rest, b + (p.k - odd) * NR, odd * NR);
      fill_floats(rest + odd * NR, 0, (AMX_STEP_PAIRS - odd) * NR);
    }
    const int64_t n0 = panel * NR, columns = min64(NR, p.n - n0);
    const int64_t column = (p.batch_is_columns ? batch * p.n : 0) + n0;
    const int64_t strips = last_strip - first_strip;
    const int64_t bytes = strips > 1 ? p.k * NR * int64_t(sizeof(float)) : 0;
    const Upcoming next = {b + p.k * NR, bytes, strips};
    for (int64_t strip = first_strip; strip < last_strip; ++strip) {
      const int64_t m0 = strip * AMX_ROWS, count = rows(strip);
      amx_multiply(left(strip), count, reinterpret_cast<const char*>(b),
                   reinterpret_cast<const char*>(rest), p.k, columns, tile, NR,
                   next.slice(strip - first_strip, p.k / AMX_STEP_PAIRS, AMX_FETCHED));
      if (p.epilogue.fn) {
        p.epilogue.fn(p.epilogue.ctx, tile, NR, p.batch_is_columns ? 0 : batch, m0, count, column,
                      columns);
        continue;
      }
      const int64_t at = batch * p.c_batch + m0 * p.c_row + n0;
      const Finish finish = p.finish.at(column, at);
      amx_store(tile, count, columns, p.c + at, p.c_row, p.finish.wanted() ? &finish : nullptr);
    }
  }
};

// As contract(). A Source also says where 32 rows lie that the unit can read, null if they don't:
//   AmxRows in_place(int64_t batch, int64_t m0) const
// `copies`: amx_scratch_bytes(k, ...).
template <class Source>
inline void contract_amx(const Contraction& p, const Source& source, void* copies) {
  if (p.batch <= 0 || p.m <= 0 || p.n <= 0) return;
  const AmxCut cut = cut_amx(p);
  const int64_t each = amx_scratch_bytes(p.k, 1);
  parallel_for(p.pool, cut.items, cut.grain, [&](int64_t begin, int64_t end, int32_t thread) {
    amx_begin();
    for (int64_t item = begin; item < end; ++item) {
      const int64_t group = item % cut.groups, block = item / cut.groups % cut.blocks;
      const int64_t first = group * cut.group, last = min64(cut.strips, first + cut.group);
      const AmxItem<Source> it = {p, cut, source, item / (cut.groups * cut.blocks), first, last,
                                  thread, static_cast<char*>(copies) + thread * each};
      it.prepare();
      const int64_t end_panel = min64(cut.panels, (block + 1) * cut.block);
      for (int64_t panel = block * cut.block; panel < end_panel; ++panel) it.multiply(panel);
    }
    amx_end();
  });
}
#endif

}  // namespace cuvil
