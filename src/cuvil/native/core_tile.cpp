// Register tiles of f32.
#include "tile_loops.hpp"

namespace cuvil {
namespace {

struct Floats {
  typedef float Left, Packed;
  static CUVIL_INLINE const float* row(const float* of) { return of; }
  static CUVIL_INLINE vf spread(float x) { return splat(x); }
  static CUVIL_INLINE vf add(vf sum, vf x, vf b) { return sum + x * b; }
#if CUVIL_LANE_PRODUCTS
  typedef FloatLanes Lanes;
#endif
  template <int R, int V>
  static CUVIL_INLINE void start(vf (&acc)[R][V], const TileOutput&) {
    clear<R, V>(acc);
  }
  template <int R, int V>
  static CUVIL_INLINE void finish(vf (&acc)[R][V], const TileOutput& o) {
    store_tile<R, V>(acc, o);
  }
};

}  // namespace

void multiply_tile(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                   int64_t cols, bool whole_vectors, const Finish* finish) {
  multiply_tile_with<Floats>(a, mr, b, out, ld, cols, whole_vectors, finish);
}

}  // namespace cuvil
