// Minimal filtering of bf16: what is transformed lies in memory as bf16, sums are f32.
#include "dot2.hpp"
#include "halves.hpp"
#include "tile_bf16.hpp"
#include "winograd_form.hpp"

namespace cuvil {
namespace {

struct Halves {
  typedef uint16_t Element;
  static CUVIL_INLINE vf read(const uint16_t* p, int64_t lanes) {
    return widened(load_halves(p, lanes));
  }
  static CUVIL_INLINE float value(uint16_t x) {
    return __builtin_bit_cast(float, uint32_t(x) << 16);
  }
};

// Products in f32 of what is widened before its transform: nothing else is rounded.
struct Widened : Halves, FloatProducts {};

// Products of pairs of channels: what is transformed is rounded again.
struct PairsOf : Halves {
  static CUVIL_INLINE int64_t steps(int64_t c) { return (c + 1) / 2; }
  static CUVIL_INLINE void put(float* row, int64_t k, vf v) {
    *reinterpret_cast<halves_mem*>(reinterpret_cast<uint16_t*>(row) + k) = rounded(v);
  }
  static CUVIL_INLINE vf weight(const float* column, int64_t k) {
    const vi pair = (vi)load(column + k / 2 * NR);
    return k % 2 ? later(pair) : earlier(pair);
  }
  static CUVIL_INLINE void multiply(const TileOperands& a, int64_t mr, const float* b, float* out,
                                    int64_t cols) {
    multiply_tile_bf16(a, mr, b, out, NR, cols, true);
  }
};

}  // namespace

void winograd_2_bf16(const WinogradArgs& args) { Winograd<2, PairsOf>(args).run(); }
void winograd_4_bf16(const WinogradArgs& args) { Winograd<4, Widened>(args).run(); }

}  // namespace cuvil
