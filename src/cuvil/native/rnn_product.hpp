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
  const float* h;      // the states of the previous step (or r * h), rows `row` apart
  const float* parts;  // the same as State::split leaves them
  float* pre;          // products by gate, rows `pre_row` and gates `gate` apart
  int64_t row, pre_row, gate, steps;
  bool backwards;
};

// A State is a row's state as it is multiplied:
//   Weight                          an element of the packed weights
//   static int64_t steps(hidden)    steps of the sum, of one weight each
//   static void split(float* h, hidden, float* parts)   before a step
//   X at(k)                         a step's part, in all lanes
//   static vf add(vf sum, X, weights)
// A row of floats is the plain one.
struct FloatState {
  typedef float Weight;
  const float* h;

  FloatState(const Step& s, int64_t row) : h(s.h + row * s.row) {}
  static int64_t steps(int64_t hidden) { return hidden; }
  static void split(float*, int64_t, float*) {}
  CUVIL_INLINE vf at(int64_t k) const { return splat(h[k]); }
  static CUVIL_INLINE vf add(vf sum, vf x, vf w) { return sum + x * w; }
};

// Rows rows[0..R) times P vectors of a block of packed weights [steps][G][LANES]; unit u0 on.
template <class State, int G, int R, int P>
CUVIL_INLINE void multiply_block(const Step& s, const int64_t* rows,
                                 const typename State::Weight* weights, int64_t u0) {
  // A lone row has too few sums to keep the multiplier busy: it keeps several partial ones.
  constexpr int sums = G * P;
  constexpr int chains = R > 1 || sums >= 8 ? 1 : (sums == 1 ? 8 : sums == 2 ? 4 : 2);
  vf acc[chains][R][sums] = {};
  const auto row = [&](int r) __attribute__((always_inline)) { return State(s, rows[r]); };
  const auto step = [&](int c, int64_t k, const typename State::Weight* from)
      __attribute__((always_inline)) {
#pragma unroll
    for (int g = 0; g < sums; ++g) {
      const auto w = load(from + g / P * LANES + g % P * VL);
#pragma unroll
      for (int r = 0; r < R; ++r) acc[c][r][g] = State::add(acc[c][r][g], row(r).at(k), w);
    }
  };
  int64_t k = 0;
  for (; k + chains <= s.steps; k += chains, weights += chains * G * LANES) {
#pragma unroll
    for (int c = 0; c < chains; ++c) step(c, k + c, weights + c * G * LANES);
  }
  if constexpr (chains > 1) {
    for (; k < s.steps; ++k, weights += G * LANES) step(0, k, weights);
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
template <class State, int G, int S>
CUVIL_INLINE void multiply_streams(const Step& s, int64_t row,
                                   const typename State::Weight* weights, int64_t u0) {
  static_assert(kParts == 1, "a block is one vector");
  vf acc[S][G] = {};
  const State state(s, row);
  const int64_t block = s.steps * G * LANES;
#pragma clang loop unroll_count(4)
  for (int64_t k = 0; k < s.steps; ++k, weights += G * LANES) {
    const auto x = state.at(k);
#pragma unroll
    for (int i = 0; i < S; ++i) {
#pragma unroll
      for (int g = 0; g < G; ++g)
        acc[i][g] = State::add(acc[i][g], x, load(weights + i * block + g * LANES));
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
template <class State, int G, int R, int P>
CUVIL_INLINE void multiply_parts(const Step& s, const int64_t* rows,
                                 const typename State::Weight* block, int64_t u0) {
#pragma unroll
  for (int p = 0; p < LANES; p += P * VL)
    multiply_block<State, G, R, P>(s, rows, block + p, u0 + p);
}

template <class State, int G>
CUVIL_INLINE void multiply_lone_row(const Step& s, const int64_t* row,
                                    const typename State::Weight* block, int64_t u0) {
  if constexpr (streams(G) > 1) {
    multiply_streams<State, G, 1>(s, *row, block, u0);
  } else {
    multiply_parts<State, G, 1, at_once(G)>(s, row, block, u0);
  }
}

// Blocks [first, last) for all listed rows. Every other step walks them backwards: it begins with
// the weights that the step before used last, which are still in a cache that can't hold all.
template <class State, int G>
CUVIL_MULTIPLIES __attribute__((noinline)) void multiply_blocks(
    const Step& s, const int64_t* rows, int64_t count, const typename State::Weight* weights,
    int64_t first, int64_t last) {
  const int64_t blocks = last - first, size = s.steps * G * LANES;
  int64_t done = 0;
  if constexpr (streams(G) > 1) {
    for (; count == 1 && done + streams(G) <= blocks; done += streams(G)) {
      const int64_t b = s.backwards ? last - streams(G) - done : first + done;
      multiply_streams<State, G, streams(G)>(s, rows[0], weights + b * size, b * LANES);
    }
  }
  for (; done < blocks; ++done) {
    const int64_t b = s.backwards ? last - 1 - done : first + done;
    const typename State::Weight* block = weights + b * size;
    const int64_t u0 = b * LANES;
    int64_t r = 0;
    for (; r + kRows <= count; r += kRows)
      multiply_parts<State, G, kRows, 1>(s, rows + r, block, u0);
    for (; kRows > 2 && r + 2 <= count; r += 2)
      multiply_parts<State, G, 2, 1>(s, rows + r, block, u0);
    for (; r < count; ++r) multiply_lone_row<State, G>(s, rows + r, block, u0);
  }
}

}  // namespace cuvil
