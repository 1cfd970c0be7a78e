// Minimal filtering in f32.
#include "winograd_form.hpp"

namespace cuvil {
namespace {

struct FilteredFloats {
  typedef float Element;
  static CUVIL_INLINE int64_t steps(int64_t c) { return c; }
  static CUVIL_INLINE vf read(const float* p, int64_t lanes) {
    return lanes == VL ? load(p) : load_n(p, lanes);
  }
  static CUVIL_INLINE float value(float x) { return x; }
  static CUVIL_INLINE void put(float* row, int64_t k, vf v) { store(row + k, v); }
  static CUVIL_INLINE vf weight(const float* column, int64_t k) { return load(column + k * NR); }
  static CUVIL_INLINE void multiply(const TileOperands& a, int64_t mr, const float* b, float* out,
                                    int64_t cols) {
    multiply_tile(a, mr, b, out, NR, cols, true);
  }
};

}  // namespace

void winograd_2_f32(const WinogradArgs& args) { Winograd<2, FilteredFloats>(args).run(); }
void winograd_4_f32(const WinogradArgs& args) { Winograd<4, FilteredFloats>(args).run(); }

}  // namespace cuvil
