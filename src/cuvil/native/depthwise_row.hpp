// Some neighbouring output pixels of one row of a depthwise convolution, for windows of fixed size.
// Internal to the core: shared by depthwise, depthwise_bf16 and chain.
#pragma once
#include "epilogue.hpp"

namespace cuvil {

// Channels [begin, end) of some neighbouring outputs: pixel p's go to out + p * stride.
struct Piece {
  int64_t begin, end;
  float* out;
  int64_t stride;
  const Finish* finish;

  // Finishes the sums of some pixels, all of the channels from ch on.
  template <int PX>
  CUVIL_INLINE void finish_pixels(vf (&acc)[PX], int64_t ch, int64_t lanes = VL) const {
    if (!finish) return;
    if (finish->bias) {
      const float* at = finish->bias + ch;
      const vf bias = lanes == VL ? load(at) : load_n(at, lanes);
#pragma unroll
      for (int p = 0; p < PX; ++p) acc[p] += bias;
    }
    if (!finish->clamped) return;
    const vf low = splat(finish->low), high = splat(finish->high);
#pragma unroll
    for (int p = 0; p < PX; ++p) acc[p] = at_most(at_least(acc[p], low), high);
  }
};

// Where the piece of channels from `begin` on ends: short enough for an epilogue's tile, and never
// leaving a rest shorter than a vector unless c itself is.
inline int64_t piece_end(int64_t begin, int64_t c) {
  const int64_t end = min64(c, begin + EPILOGUE_MAX_COLS);
  return c > end && c - end < VL ? end - VL : end;
}

// The input rows under a row of outputs: each one's first pixel, null in the padding.
struct InputLines {
  const float* const* line;
  int64_t width, step;  // pixels, and floats from one to the next
  const float* zeros;

  const float* at(int64_t i, int64_t x) const {
    return line[i] && uint64_t(x) < uint64_t(width) ? line[i] + x * step : zeros;
  }
};

// table[rows][COLUMNS]: where the inputs from column x0 on lie.
template <int COLUMNS>
__attribute__((noinline)) void window_table(const InputLines& in, int64_t rows, int64_t x0,
                                            const float** table) {
  const bool inside = x0 >= 0 && x0 + COLUMNS <= in.width;
  for (int64_t i = 0; i < rows; ++i, table += COLUMNS) {
    if (in.line[i] && inside) {
      const float* column = in.line[i] + x0 * in.step;
#pragma unroll
      for (int q = 0; q < COLUMNS; ++q, column += in.step) table[q] = column;
    } else {
#pragma clang loop vectorize(disable) unroll(disable)
      for (int q = 0; q < COLUMNS; ++q) table[q] = in.at(i, x0 + q);
    }
  }
}

// Table [KH][(PX - 1) * SW + KW]: an input column is loaded once for all the windows that hold it.
// Needs c >= VL; w: [KH][KW][c].
template <int KH, int KW, int SW, int PX>
CUVIL_MULTIPLIES __attribute__((noinline)) void shared_columns(
    const float* const* table, const float* w, int64_t c, const Piece& part) {
  constexpr int COLUMNS = (PX - 1) * SW + KW;
  for (int64_t at = part.begin; at < part.end; at += VL) {
    // The last vector overlaps its neighbour instead of being partial: the same values twice.
    const int64_t ch = min64(at, part.end - VL);
    vf acc[PX] = {};
#pragma unroll
    for (int i = 0; i < KH; ++i) {
      vf filter[KW];
#pragma unroll
      for (int j = 0; j < KW; ++j) filter[j] = load(w + (i * KW + j) * c + ch);
#pragma unroll
      for (int q = 0; q < COLUMNS; ++q) {
        const vf x = load(table[i * COLUMNS + q] + ch);
#pragma unroll
        for (int p = 0; p < PX; ++p)
          if (q >= p * SW && q < p * SW + KW) acc[p] += x * filter[q - p * SW];
      }
    }
    part.finish_pixels(acc, ch);
    float* out = part.out + (ch - part.begin);
#pragma unroll
    for (int p = 0; p < PX; ++p) store(out + p * part.stride, acc[p]);
  }
}

// Calls body.pixels<PX>(first) for runs of 7, 4, 2 and 1 pixels, none of more than MOST, until
// `count` are done.
template <int MOST = 7, class Body>
CUVIL_INLINE void each_run(int64_t count, const Body& body) {
  int64_t ox = 0;
  if constexpr (MOST >= 7)
    for (; count - ox >= 7; ox += 7) body.template pixels<7>(ox);
  if constexpr (MOST >= 4)
    for (; count - ox >= 4; ox += 4) body.template pixels<4>(ox);
  for (; count - ox >= 2; ox += 2) body.template pixels<2>(ox);
  if (count - ox >= 1) body.template pixels<1>(ox);
}

}  // namespace cuvil
