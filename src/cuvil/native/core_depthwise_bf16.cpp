// Depthwise convolution of bf16: pairs of channels are widened as they are loaded. A segment of a
// row of outputs is walked for a few channels, then for the next ones, so that what neighbouring
// windows share is in the first cache.
#include "depthwise_bf16.hpp"

#include "cutting.hpp"
#include "depthwise_output.hpp"
#include "depthwise_row.hpp"
#include "pair_output.hpp"

namespace cuvil {
namespace {

#if defined(__aarch64__)
constexpr bool HAS_32_REGISTERS = true;
#else
constexpr bool HAS_32_REGISTERS = CUVIL_VEC_BYTES == 64;
#endif
// Pixels whose sums, two vectors each, are kept in registers together.
constexpr int RUN_PIXELS = HAS_32_REGISTERS ? 7 : 2;
constexpr int SEGMENT_PIXELS = 8 * 7;

// A vector of pairs: the sums of their even channels, and of their odd ones.
struct Split {
  vf even, odd;
};

CUVIL_INLINE Split widened_pairs(const float* at) {
  const vi x = load(reinterpret_cast<const int32_t*>(at));
  return {(vf)(x << 16), (vf)(x & int32_t(0xffff0000u))};
}

template <int... AT>
struct SplitLanes {
  static CUVIL_INLINE Split split(vf a, vf b) {
    return {__builtin_shufflevector(a, b, (2 * AT)...),
            __builtin_shufflevector(a, b, (2 * AT + 1)...)};
  }
  static CUVIL_INLINE vf first(const Split& x) {
    return __builtin_shufflevector(x.even, x.odd, (AT / 2 + AT % 2 * VL)...);
  }
  static CUVIL_INLINE vf second(const Split& x) {
    return __builtin_shufflevector(x.even, x.odd, (VL / 2 + AT / 2 + AT % 2 * VL)...);
  }
};
template <class, int... AT>
using SplitLanesOf = SplitLanes<AT...>;
using Splitting = __make_integer_seq<SplitLanesOf, int, VL>;

#if CUVIL_VEC_BYTES == 64 && defined(__AVX512BF16__)
template <class, int... AT>
struct RoundedLanes {
  typedef short shorts __attribute__((vector_size(64)));
  static CUVIL_INLINE vi interleave(shorts x) {
    return (vi)__builtin_shufflevector(x, x, (AT / 2 + AT % 2 * VL)...);
  }
};
#endif

CUVIL_INLINE vi rounded_pairs(const Split& x) {
#if CUVIL_VEC_BYTES == 64 && defined(__AVX512BF16__)
  typedef __make_integer_seq<RoundedLanes, int, 2 * VL> Halves;
  return Halves::interleave((Halves::shorts)__builtin_ia32_cvtne2ps2bf16_512(x.odd, x.even));
#else
  const bits low = __builtin_convertvector(rounded(x.even), bits);
  return (vi)(low | __builtin_convertvector(rounded(x.odd), bits) << 16);
#endif
}

// Pairs [begin, end) of some neighbouring outputs: pixel p's go to out + p * stride floats, or as
// bf16 to half + p * stride.
struct PairPiece {
  int64_t begin, end;
  float* out;
  uint16_t* half;
  int64_t stride;
  const Finish* finish;
};

CUVIL_INLINE void clamp_pairs(Split& x, vf low, vf high) {
  x.even = at_most(at_least(x.even, low), high);
  x.odd = at_most(at_least(x.odd, low), high);
}

template <int PX>
CUVIL_INLINE void finish_pairs(Split (&acc)[PX], const PairPiece& part, int64_t pair) {
  const Finish& f = *part.finish;
  if (f.bias) {
    const Split bias = Splitting::split(load(f.bias + 2 * pair), load(f.bias + 2 * pair + VL));
#pragma unroll
    for (int p = 0; p < PX; ++p) acc[p].even += bias.even, acc[p].odd += bias.odd;
  }
  if (f.clamped) {
    const vf low = splat(f.low), high = splat(f.high);
#pragma unroll
    for (int p = 0; p < PX; ++p) clamp_pairs(acc[p], low, high);
  }
}

template <int PX>
CUVIL_INLINE void store_pairs(const Split (&acc)[PX], const PairPiece& part, int64_t pair) {
  const int64_t at = 2 * (pair - part.begin);
  if (part.half)
#pragma unroll
    for (int p = 0; p < PX; ++p)
      store(reinterpret_cast<int32_t*>(part.half + (p * part.stride + at)), rounded_pairs(acc[p]));
  if (!part.out) return;
#pragma unroll
  for (int p = 0; p < PX; ++p) {
    float* to = part.out + (p * part.stride + at);
    store(to, Splitting::first(acc[p]));
    store(to + VL, Splitting::second(acc[p]));
  }
}

// Table [K][columns], of which the first (PX - 1) * SW + K are read. w: [K][K][2][c].
template <int K, int SW, int PX>
CUVIL_MULTIPLIES __attribute__((noinline)) void pair_columns(const float* const* table,
                                                             int64_t columns, const float* w,
                                                             int64_t c, const PairPiece& part) {
  for (int64_t at = part.begin; at < part.end; at += VL) {
    // The last vector overlaps its neighbour instead of being partial: the same values twice.
    const int64_t pair = min64(at, part.end - VL);
    Split acc[PX] = {};
#pragma unroll
    for (int i = 0; i < K; ++i) {
      Split filter[K];
#pragma unroll
      for (int j = 0; j < K; ++j) {
        const float* tap = w + (i * K + j) * 2 * c + pair;
        filter[j] = {load(tap), load(tap + c)};
      }
#pragma unroll
      for (int q = 0; q < (PX - 1) * SW + K; ++q) {
        const Split x = widened_pairs(table[i * columns + q] + pair);
#pragma unroll
        for (int p = 0; p < PX; ++p)
          if (q >= p * SW && q < p * SW + K) {
            acc[p].even += x.even * filter[q - p * SW].even;
            acc[p].odd += x.odd * filter[q - p * SW].odd;
          }
      }
    }
    if (part.finish) finish_pairs(acc, part, pair);
    store_pairs(acc, part, pair);
  }
}

// The outputs [first, first + count) of a row, count <= SEGMENT_PIXELS.
template <int K, int SW>
struct RowSegment {
  static constexpr int COLUMNS = (SEGMENT_PIXELS - 1) * SW + K;
  const OutputRow& row;
  int64_t first, begin, end;  // pairs of channels [begin, end)
  const float* table[K * COLUMNS];

  RowSegment(const OutputRow& of, int64_t x, int64_t count) : row(of), first(x) {
    const DepthwiseArgs& a = of.a;
    const int64_t columns = (count - 1) * SW + K, left = x * SW - a.pw;
    const int64_t begins = min64(columns, max64(0, -left));  // columns of the input
    const int64_t ends = max64(begins, min64(columns, a.w - left));
    const float** entry = table;
    for (int i = 0; i < K; ++i, entry += COLUMNS) {
      const int64_t line = of.input_row(0, i), from = line < 0 ? columns : begins;
      for (int64_t q = 0; q < from; ++q) entry[q] = of.zeros;
      const float* at = a.x + (line + left * a.c);
      for (int64_t q = from; q < ends; ++q) entry[q] = at + q * a.c;
      for (int64_t q = max64(from, ends); q < columns; ++q) entry[q] = of.zeros;
    }
  }
  template <int PX>
  void pixels(int64_t ox) const {
    const DepthwiseArgs& a = row.a;
    const int64_t m0 = row.pixel(first + ox), at = 2 * (m0 * a.c + begin);
    const float* const* columns = table + ox * SW;
    if (!a.epilogue.fn) {
      const Finish& f = a.finish;
      const PairPiece part = {begin, end, f.half_only ? nullptr : a.y + at,
                              f.half ? f.half + at : nullptr, 2 * a.c,
                              f.wanted() ? &f : nullptr};
      return pair_columns<K, SW, PX>(columns, COLUMNS, a.w_packed, a.c, part);
    }
    alignas(64) float tile[PX * EPILOGUE_MAX_COLS];
    const PairPiece part = {begin, end, tile, nullptr, EPILOGUE_MAX_COLS, nullptr};
    pair_columns<K, SW, PX>(columns, COLUMNS, a.w_packed, a.c, part);
    a.epilogue.fn(a.epilogue.ctx, tile, EPILOGUE_MAX_COLS, 0, m0, PX, 2 * begin,
                  2 * (end - begin));
  }
};

// Where the piece of pairs from `begin` on ends; see piece_end.
int64_t pair_piece_end(int64_t begin, int64_t c) {
  const int64_t end = min64(c, begin + EPILOGUE_MAX_COLS / 2);
  return c > end && c - end < VL ? end - VL : end;
}

template <int K, int SW>
void convolve_row(const OutputRow& row) {
  const DepthwiseArgs& a = row.a;
  for (int64_t x = 0; x < a.ow; x += SEGMENT_PIXELS) {
    const int64_t count = min64(SEGMENT_PIXELS, a.ow - x);
    RowSegment<K, SW> segment(row, x, count);
    for (int64_t begin = 0; begin < a.c; begin = segment.end) {
      segment.begin = begin, segment.end = pair_piece_end(begin, a.c);
      each_run<RUN_PIXELS>(count, segment);
    }
  }
}

template <int K, int SW>
void convolve(const DepthwiseArgs& a) {
  const int64_t rows = a.n * a.oh;
  if (rows <= 0 || a.ow <= 0) return;
  float* zeros = static_cast<float*>(a.scratch);
  fill_floats(zeros, 0, a.c);
  // Multiply-adds and moved bytes, each at its machine's usual rate; only the magnitude matters.
  const double row_elements = double(a.ow) * double(round_up(a.c, VL)) * 2;
  const double row_ns = row_elements * (double(K * K) * 2 / (1.5 * CUVIL_VEC_BYTES) + 4.0 / 20);
  const int64_t grain = row_ns >= MIN_RANGE_NS ? 1 : int64_t(MIN_RANGE_NS / row_ns) + 1;
  parallel_for(a.pool, rows, grain, [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t r = begin; r < end; ++r)
      convolve_row<K, SW>({a, zeros, nullptr, r / a.oh, 0, r % a.oh});
  });
}

}  // namespace

void depthwise_conv_bf16(const DepthwiseArgs& a) {
  if (a.kh == 3) return a.sw == 1 ? convolve<3, 1>(a) : convolve<3, 2>(a);
  return a.sw == 1 ? convolve<5, 1>(a) : convolve<5, 2>(a);
}

}  // namespace cuvil
