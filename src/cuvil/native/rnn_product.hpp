// A step's product of recurrent layers: the rows' states times the packed recurrent weights, block
// by block of LANES units. Internal to the core.
#pragma once
#include "rnn.hpp"

namespace cuvil {

// Rows of a batch multiplied together, as the number of registers allows.
constexpr int kRows = CUVIL_VEC_BYTES == 32 ? 2 : 4;
// Vectors of a block, and how many of them a lone row takes at once: it has sums to spare.
constexpr int kParts = LANES / VL;
#if defined(__aarch64__)
constexpr int kMostSums = 16;  // of 32 registers
#else
constexpr int kMostSums = 8;
#endif
constexpr int at_once(int gates) {
  return kParts * gates <= kMostSums || kParts == 1 ? kParts : kParts / 2;
}

// Blocks that a lone row takes at once: 1, or in a browser, whose blocks are one vector, as many as
// give 6 to 8 sums. Each is a stream of weights of its own, so more of them are on their way from
// the outer caches.
#if defined(__wasm__)
constexpr int streams(int gates) { return gates == 3 ? 2 : 8 / gates; }
#else
constexpr int streams(int) { return 1; }
#endif

struct Step {
  const float* h;  // the states of the previous step (or r * h), rows `row` apart
  float* pre;      // products by gate, rows `pre_row` and gates `gate` apart
  int64_t row, pre_row, gate, hidden;
  bool backwards;
};

CUVIL_INLINE vf load_weights(const float* p) { return load(p); }
CUVIL_INLINE vf load_weights(const uint16_t* p) {
  typedef uint16_t narrow __attribute__((vector_size(CUVIL_VEC_BYTES / 2), aligned(2), may_alias));
  return (vf)(__builtin_convertvector(*reinterpret_cast<const narrow*>(p), vi) << 16);
}

// Rows rows[0..R) times P vectors of a block of packed weights [hidden][G][LANES]; unit u0 on.
template <int G, int R, int P, class Weight>
CUVIL_INLINE void multiply_block(const Step& s, const int64_t* rows, const Weight* weights,
                                 int64_t u0) {
  // A lone row has too few sums to keep the multiplier busy: it keeps several partial ones.
  constexpr int sums = G * P;
  constexpr int chains = R > 1 || sums >= 8 ? 1 : (sums == 1 ? 8 : sums == 2 ? 4 : 2);
  vf acc[chains][R][sums] = {};
  const float* h[R];
#pragma unroll
  for (int r = 0; r < R; ++r) h[r] = s.h + rows[r] * s.row;
  int64_t k = 0;
  for (; k + chains <= s.hidden; k += chains, weights += chains * G * LANES) {
#pragma unroll
    for (int c = 0; c < chains; ++c) {
#pragma unroll
      for (int g = 0; g < sums; ++g) {
        const vf w = load_weights(weights + (c * G + g / P) * LANES + g % P * VL);
#pragma unroll
        for (int r = 0; r < R; ++r) acc[c][r][g] += splat(h[r][k + c]) * w;
      }
    }
  }
  if constexpr (chains > 1) {
    for (; k < s.hidden; ++k, weights += G * LANES) {
#pragma unroll
      for (int g = 0; g < sums; ++g)
        acc[0][0][g] += splat(h[0][k]) * load_weights(weights + g / P * LANES + g % P * VL);
    }
  }
#pragma unroll
  for (int r = 0; r < R; ++r) {
#pragma unroll
    for (int g = 0; g < sums; ++g) {
      vf sum = acc[0][r][g];
#pragma unroll
      for (int c = 1; c < chains; ++c) sum += acc[c][r][g];
      store(s.pre + rows[r] * s.pre_row + g / P * s.gate + u0 + g % P * VL, sum);
    }
  }
}

// A lone row times S blocks of one vector, unit u0 on.
template <int G, int S, class Weight>
CUVIL_INLINE void multiply_streams(const Step& s, int64_t row, const Weight* weights, int64_t u0) {
  static_assert(kParts == 1, "a block is one vector");
  vf acc[S][G] = {};
  const float* h = s.h + row * s.row;
  const int64_t block = s.hidden * G * LANES;
#pragma clang loop unroll_count(4)
  for (int64_t k = 0; k < s.hidden; ++k, weights += G * LANES) {
    const vf x = splat(h[k]);
#pragma unroll
    for (int i = 0; i < S; ++i) {
#pragma unroll
      for (int g = 0; g < G; ++g) acc[i][g] += x * load_weights(weights + i * block + g * LANES);
      keep_order(acc[i]);
    }
  }
  float* out = s.pre + row * s.pre_row + u0;
#pragma unroll
  for (int i = 0; i < S; ++i) {
#pragma unroll
    for (int g = 0; g < G; ++g) store(out + g * s.gate + i * LANES, acc[i][g]);
  }
}

// Some rows times a block, P vectors of it at a time.
template <int G, int R, int P, class Weight>
CUVIL_INLINE void multiply_parts(const Step& s, const int64_t* rows, const Weight* block,
                                 int64_t u0) {
#pragma unroll
  for (int p = 0; p < LANES; p += P * VL) multiply_block<G, R, P>(s, rows, block + p, u0 + p);
}

template <int G, class Weight>
CUVIL_INLINE void multiply_lone_row(const Step& s, const int64_t* row, const Weight* block,
                                    int64_t u0) {
  if constexpr (streams(G) > 1) {
    multiply_streams<G, 1>(s, *row, block, u0);
  } else {
    multiply_parts<G, 1, at_once(G)>(s, row, block, u0);
  }
}

// Blocks [first, last) for all listed rows. Every other step walks them backwards: it begins with
// the weights that the step before used last, which are still in a cache that can't hold all.
template <int G, class Weight>
CUVIL_MULTIPLIES __attribute__((noinline)) void multiply_blocks(
    const Step& s, const int64_t* rows, int64_t count, const Weight* weights, int64_t first,
    int64_t last) {
  const int64_t blocks = last - first, size = s.hidden * G * LANES;
  int64_t done = 0;
  if constexpr (streams(G) > 1) {
    for (; count == 1 && done + streams(G) <= blocks; done += streams(G)) {
      const int64_t b = s.backwards ? last - streams(G) - done : first + done;
      multiply_streams<G, streams(G)>(s, rows[0], weights + b * size, b * LANES);
    }
  }
  for (; done < blocks; ++done) {
    const int64_t b = s.backwards ? last - 1 - done : first + done;
    const Weight* block = weights + b * size;
    const int64_t u0 = b * LANES;
    int64_t r = 0;
    for (; r + kRows <= count; r += kRows) multiply_parts<G, kRows, 1>(s, rows + r, block, u0);
    for (; kRows > 2 && r + 2 <= count; r += 2) multiply_parts<G, 2, 1>(s, rows + r, block, u0);
    for (; r < count; ++r) multiply_lone_row<G>(s, rows + r, block, u0);
  }
}

}  // namespace cuvil
