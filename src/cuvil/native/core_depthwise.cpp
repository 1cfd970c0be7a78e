// Depthwise convolution: pointer tables for a few output pixels, then a walk over the channels.
#include "depthwise.hpp"

#include "cutting.hpp"
#include "depthwise_output.hpp"
#include "depthwise_row.hpp"

namespace cuvil {
namespace {

// Calls body for all channels of the pixels [ox, ox + PX): straight into the output, or piece by
// piece into a tile that the epilogue takes.
template <int PX, class Body>
CUVIL_INLINE void each_piece(const OutputRow& row, int64_t ox, const Body& body) {
  const DepthwiseArgs& a = row.a;
  const int64_t m0 = row.pixel(ox);
  if (!a.epilogue.fn) {
    body(Piece{0, a.c, a.y + m0 * a.c, a.c, a.finish.wanted() ? &a.finish : nullptr});
    return;
  }
  alignas(64) float tile[PX * EPILOGUE_MAX_COLS];
  for (int64_t begin = 0, end; begin < a.c; begin = end) {
    end = piece_end(begin, a.c);
    body(Piece{begin, end, tile, EPILOGUE_MAX_COLS, nullptr});
    a.epilogue.fn(a.epilogue.ctx, tile, EPILOGUE_MAX_COLS, 0, m0, PX, begin, end - begin);
  }
}

// K x K taps, none between which is left out; any step from row to row.
template <int K, int SW>
struct FixedWindow {
  const OutputRow& row;
  const float* lines[K];

  explicit FixedWindow(const OutputRow& of) : row(of) {
    for (int i = 0; i < K; ++i) {
      const int64_t base = row.input_row(0, i);
      lines[i] = base >= 0 ? row.a.x + base : nullptr;
    }
  }
  template <int PX>
  void pixels(int64_t ox) const {
    constexpr int COLUMNS = (PX - 1) * SW + K;
    const DepthwiseArgs& a = row.a;
    const float* table[K * COLUMNS];
    window_table<COLUMNS>({lines, a.w, a.c, row.zeros}, K, ox * SW - a.pw, table);
    each_piece<PX>(row, ox, [&](const Piece& part) {
      shared_columns<K, K, SW, PX>(table, a.w_packed, a.c, part);
    });
  }
};

// Table [taps][DEPTHWISE_PIXELS]. PARTIAL: the piece is shorter than a vector.
template <int PX, bool PARTIAL>
CUVIL_MULTIPLIES __attribute__((noinline)) void separate_taps(const OutputRow& row,
                                                              const Piece& part) {
  const int64_t c = row.a.c, taps = depthwise_taps(row.a);
  const int64_t lanes = PARTIAL ? part.end - part.begin : VL;
  for (int64_t at = part.begin; at < part.end; at += VL) {
    const int64_t ch = PARTIAL ? at : min64(at, part.end - VL);
    const float* w = row.a.w_packed + ch;
    const float* const* tap = row.table;
    vf acc[PX] = {};
    for (int64_t t = 0; t < taps; ++t, tap += DEPTHWISE_PIXELS, w += c) {
      const vf filter = PARTIAL ? load_n(w, lanes) : load(w);
#pragma unroll
      for (int p = 0; p < PX; ++p)
        acc[p] += (PARTIAL ? load_n(tap[p] + ch, lanes) : load(tap[p] + ch)) * filter;
    }
    part.finish_pixels(acc, ch, lanes);
#pragma unroll
    for (int p = 0; p < PX; ++p) {
      float* out = part.out + p * part.stride + (ch - part.begin);
      if (PARTIAL) store_n(out, acc[p], lanes);
      else store(out, acc[p]);
    }
  }
}

struct AnyWindow {
  const OutputRow& row;

  explicit AnyWindow(const OutputRow& of) : row(of) {}
  template <int PX>
  void pixels(int64_t ox) const {
    const DepthwiseArgs& a = row.a;
    const float** entry = row.table;
    for (int64_t q = 0; q < a.kd; ++q)
      for (int64_t i = 0; i < a.kh; ++i) {
        const int64_t base = row.input_row(q, i);
        for (int64_t j = 0; j < a.kw; ++j, entry += DEPTHWISE_PIXELS)
          for (int p = 0; p < PX; ++p)
            entry[p] = row.input(base, (ox + p) * a.sw - a.pw + j * a.dw);
      }
    each_piece<PX>(row, ox, [&](const Piece& part) {
      if (part.end - part.begin < VL) separate_taps<PX, true>(row, part);
      else separate_taps<PX, false>(row, part);
    });
  }
};

static_assert(DEPTHWISE_PIXELS == 7, "each_run's widest step");

template <class Window>
void convolve(const DepthwiseArgs& a) {
  const int64_t rows = a.n * a.od * a.oh;
  if (rows <= 0 || a.ow <= 0 || a.c <= 0) return;
  const int64_t taps = depthwise_taps(a);
  float* zeros = static_cast<float*>(a.scratch);
  char* tables = static_cast<char*>(a.scratch) + round_up(a.c, 16) * 4;
  const int64_t table_bytes = round_up(8 * DEPTHWISE_PIXELS * taps, 64);
  fill_floats(zeros, 0, a.c);
  // Multiply-adds and moved bytes, each at its machine's usual rate; only the magnitude matters.
  const double row_elements = double(a.ow) * double(round_up(a.c, VL));
  const double row_ns = row_elements * (double(taps) * 2 / (1.5 * CUVIL_VEC_BYTES) + 8.0 / 20);
  const int64_t grain = row_ns >= MIN_RANGE_NS ? 1 : int64_t(MIN_RANGE_NS / row_ns) + 1;
  parallel_for(a.pool, rows, grain, [&](int64_t begin, int64_t end, int32_t thread) {
    const float** table = reinterpret_cast<const float**>(tables + thread * table_bytes);
    for (int64_t r = begin; r < end; ++r) {
      const OutputRow row = {a, zeros, table, r / a.oh / a.od, r / a.oh % a.od, r % a.oh};
      each_run(a.ow, Window(row));
    }
  });
}

}  // namespace

void depthwise_conv_f32(const DepthwiseArgs& args) {
  DepthwiseArgs a = args;
  if (a.w == 1 && a.kw == 1 && a.pw == 0 && a.ow == 1) {  // a column: walk along it, not across
    a.w = a.h, a.h = 1;
    a.ow = a.oh, a.oh = 1;
    a.kw = a.kh, a.kh = 1;
    a.sw = a.sh, a.dw = a.dh;
    a.pw = a.ph, a.ph = 0;
  }
  const bool fixed = a.kd == 1 && a.dh == 1 && a.dw == 1 && a.kh == a.kw && a.c >= VL;
  if (fixed && a.kh == 3 && a.sw == 1) return convolve<FixedWindow<3, 1>>(a);
  if (fixed && a.kh == 3 && a.sw == 2) return convolve<FixedWindow<3, 2>>(a);
  if (fixed && a.kh == 5 && a.sw == 1) return convolve<FixedWindow<5, 1>>(a);
  if (fixed && a.kh == 5 && a.sw == 2) return convolve<FixedWindow<5, 2>>(a);
  convolve<AnyWindow>(a);
}

}  // namespace cuvil
