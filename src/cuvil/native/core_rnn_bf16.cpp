// Recurrent layers with weights of bf16, in pairs of units of the state.
#include "dot2.hpp"
#include "halves.hpp"
#include "rnn_bf16.hpp"
#include "rnn_sequence.hpp"

namespace cuvil {
namespace {

#if CUVIL_PAIR_PRODUCTS
// A state in two parts of bf16 that add up to it within 2^-16 of itself: what a cut leaves, and the
// rest. Both are multiplied, since a step waits for its weights anyway.
struct PairState {
  typedef int32_t Weight;
  struct Parts {
    vi high, low;
  };
  const vi_element *high, *low;

  PairState(const Step& s, int64_t row)
      : high(reinterpret_cast<const vi_element*>(s.parts + row * s.row)), low(high + s.row / 2) {}
  static int64_t steps(int64_t hidden) { return (hidden + 1) / 2; }
  static void split(const float* h, int64_t hidden, float* parts) {
    const int64_t even = hidden + hidden % 2;
    uint16_t* high = reinterpret_cast<uint16_t*>(parts);
    uint16_t* low = high + rnn_padded(hidden);
    for (int64_t i = 0; i < even; i += VL) {
      const vf x = load_n(h + i, min64(VL, even - i));
      const vf cut = (vf)((vi)x & splat(int32_t(0xffff0000u)));
      const vf rest = x == cut ? vf{} : x - cut;  // an infinity has none
      store_halves(high + i, rounded(cut), min64(VL, even - i));
      store_halves(low + i, rounded(rest), min64(VL, even - i));
    }
  }
  CUVIL_INLINE Parts at(int64_t k) const { return {splat(high[k]), splat(low[k])}; }
  static CUVIL_INLINE vf add(vf sum, const Parts& x, vi w) {
    return dot2(dot2(sum, x.low, w), x.high, w);
  }
};
#else
// The state as it is, and weights that are widened as they come.
struct PairState {
  typedef int32_t Weight;
  struct Parts {
    vf earlier, later;
  };
  const float* h;

  PairState(const Step& s, int64_t row) : h(s.h + row * s.row) {}
  static int64_t steps(int64_t hidden) { return (hidden + 1) / 2; }
  static void split(float*, int64_t, float*) {}
  CUVIL_INLINE Parts at(int64_t k) const { return {splat(h[2 * k]), splat(h[2 * k + 1])}; }
  static CUVIL_INLINE vf add(vf sum, const Parts& x, vi w) {
    sum += x.earlier * earlier(w);
    return sum + x.later * later(w);
  }
};
#endif

}  // namespace

void rnn_bf16(const RnnArgs* directions, int32_t count, void* scratch, Pool* pool) {
  run_directions<PairState>(directions, count, scratch, pool);
}

}  // namespace cuvil
