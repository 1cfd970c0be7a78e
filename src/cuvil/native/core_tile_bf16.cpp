// Register tiles of pairs of bf16.
#include "tile_bf16.hpp"

#include "dot2.hpp"
#include "pair_output.hpp"
#include "tile_loops.hpp"

namespace cuvil {
namespace {

typedef int32_t pair_mem __attribute__((aligned(1), may_alias));

struct Pairs {
  typedef pair_mem Left;
  typedef int32_t Packed;
  static CUVIL_INLINE const pair_mem* row(const float* of) {
    return reinterpret_cast<const pair_mem*>(of);
  }
  static CUVIL_INLINE vi spread(int32_t x) { return splat(x); }
  static CUVIL_INLINE vf add(vf sum, vi x, vi b) { return dot2(sum, x, b); }
#if CUVIL_LANE_PRODUCTS
  typedef PairLanes Lanes;
#endif
  template <int R, int V>
  static CUVIL_INLINE void start(vf (&acc)[R][V], const TileOutput& o) {
    start_sums<R, V>(acc, o);
  }
  template <int R, int V>
  static CUVIL_INLINE void finish(vf (&acc)[R][V], const TileOutput& o) {
    store_finished<R, V>(acc, o);
  }
};

}  // namespace

void multiply_tile_bf16(const TileOperands& a, int64_t mr, const float* b, float* out, int64_t ld,
                        int64_t cols, bool whole_vectors, const Finish* finish) {
  multiply_tile_with<Pairs>(a, mr, reinterpret_cast<const int32_t*>(b), out, ld, cols,
                            whole_vectors, finish);
}

}  // namespace cuvil
