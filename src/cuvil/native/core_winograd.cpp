// Minimal filtering in f32.
#include "winograd_form.hpp"

namespace cuvil {
namespace {

struct FilteredFloats : FloatProducts {
  typedef float Element;
  static CUVIL_INLINE vf read(const float* p, int64_t lanes) {
    return lanes == VL ? load(p) : load_n(p, lanes);
  }
  static CUVIL_INLINE float value(float x) { return x; }
};

}  // namespace

void winograd_2_f32(const WinogradArgs& args) { Winograd<2, FilteredFloats>(args).run(); }
void winograd_4_f32(const WinogradArgs& args) { Winograd<4, FilteredFloats>(args).run(); }

}  // namespace cuvil
