// Ensembles of decision trees: rows walk down tables of nodes, eight walks at once, without
// branches on data. ops/tree_tables.py says how the tables are laid out.
#pragma once
#include "kernel.hpp"

namespace cuvil {

constexpr int kWalks = 8;
// Trees summed one after the other, for a single row; their sums are added in order, so that the
// result does not depend on the number of threads.
constexpr int64_t kTreeBlock = 64;

// Where a feature of one walk lies: in tiles of eight rows, feature by feature, or in one row.
// A link holds the feature times 32, which is its place in bytes in a tile of f32.
struct NarrowTree {
  using Value = float;
  float value;
  int32_t link;
  CUVIL_INLINE uint32_t place(uint32_t mask) const { return uint32_t(link) & mask; }
  CUVIL_INLINE int64_t offset(int shift) const { return link >> shift; }
  CUVIL_INLINE bool missing() const { return link & 1; }
  CUVIL_INLINE uint32_t payload() const { return to_bits(value); }
};
template <class T>
struct WideTree {
  using Value = T;
  uint32_t words[sizeof(T) / 4];
  uint32_t link;
  int32_t step;
  CUVIL_INLINE uint32_t place(uint32_t) const { return link & ~31u; }
  CUVIL_INLINE int64_t offset(int) const { return step; }
  CUVIL_INLINE bool missing() const { return link & 1; }
  CUVIL_INLINE uint32_t payload() const { return words[0]; }
};
template <class T>
CUVIL_INLINE T tree_value(const WideTree<T>& node) {
  T value;
  __builtin_memcpy(&value, node.words, sizeof(T));
  return value;
}
CUVIL_INLINE float tree_value(const NarrowTree& node) { return node.value; }

template <class Node>
struct TreeArgs {
  using T = typename Node::Value;
  int64_t rows, features, trees, targets;
  int64_t tiles;  // of eight rows, that a thread works on at once
  int bits;       // of a feature in a narrow link
  const T* x;
  const Node* nodes;
  const int32_t* roots;
  T* out;
  void* scratch;
  Pool* pool;
  CUVIL_INLINE uint32_t mask() const { return ((1u << bits) - 1) << 5; }
  CUVIL_INLINE int shift() const { return bits + 5; }
};

// What is taken of two weights. `start` is that of none; to Least and Greatest a NaN is none. All
// are joined in f64: votes of equal weight then sum to a true half.
struct TreeSum {
  static CUVIL_INLINE double start() { return 0; }
  static CUVIL_INLINE double join(double a, double b) { return a + b; }
  static CUVIL_INLINE double finish(double a) { return a; }
};
struct TreeLeast {
  static CUVIL_INLINE double start() { return __builtin_nan(""); }
  static CUVIL_INLINE double join(double a, double b) { return a != a || b < a ? b : a; }
  static CUVIL_INLINE double finish(double a) { return a == a ? a : 0; }
};
struct TreeGreatest {
  static CUVIL_INLINE double start() { return __builtin_nan(""); }
  static CUVIL_INLINE double join(double a, double b) { return a != a || b > a ? b : a; }
  static CUVIL_INLINE double finish(double a) { return a == a ? a : 0; }
};

// Leaves: join what a leaf holds into a row of sums.
template <class Join, class T>
struct LeafOne {
  const int32_t* target;
  template <class Node>
  CUVIL_INLINE void operator()(double* row, int64_t tree, const Node& leaf) const {
    double* to = row + target[tree];
    *to = Join::join(*to, double(tree_value(leaf)));
  }
};
template <class Join, class T>
struct LeafDense {
  const T* weights;
  int64_t targets;
  template <class Node>
  CUVIL_INLINE void operator()(double* row, int64_t, const Node& leaf) const {
    const T* from = weights + int64_t(leaf.payload()) * targets;
    CUVIL_INDEPENDENT
    for (int64_t i = 0; i < targets; ++i) row[i] = Join::join(row[i], double(from[i]));
  }
};
template <class Join, class T>
struct LeafSparse {
  const int32_t *starts, *ids;
  const T* weights;
  template <class Node>
  CUVIL_INLINE void operator()(double* row, int64_t, const Node& leaf) const {
    const uint32_t number = leaf.payload();
    for (int32_t i = starts[number]; i < starts[number + 1]; ++i)
      row[ids[i]] = Join::join(row[ids[i]], double(weights[i]));
  }
};

// Eight walks from nodes at[] to their leaves. With TILE the walks are rows of one tile at x, else
// trees over one row at x.
template <bool MISSING, bool TILE, class Node>
CUVIL_INLINE void walk(const Node** at, const typename Node::Value* x, uint32_t mask, int shift) {
  using T = typename Node::Value;
  const Node* p[kWalks];
#pragma unroll
  for (int i = 0; i < kWalks; ++i) p[i] = at[i];
  for (;;) {
    int64_t live = 0;
#pragma unroll
    for (int i = 0; i < kWalks; ++i) {
      const uint64_t place = p[i]->place(mask);
      const T value = TILE ? *reinterpret_cast<const T*>(
                                 reinterpret_cast<const char*>(x + i) + place * (sizeof(T) / 4))
                           : x[place >> 5];
      const int64_t offset = p[i]->offset(shift);
      int64_t yes = value <= tree_value(*p[i]);
      if constexpr (MISSING) yes |= int64_t(value != value) & int64_t(p[i]->missing());
      live |= offset;
      p[i] += offset + yes;
    }
    if (live == 0) break;
  }
#pragma unroll
  for (int i = 0; i < kWalks; ++i) at[i] = p[i];
}

// Rows [begin, end) of x as tiles of eight, feature by feature, with a last feature of NaN. Rows
// past the end are those of the last tile's first row.
template <class T>
void tree_tiles(T* tiles, const T* x, int64_t begin, int64_t end, int64_t features) {
  for (int64_t row = begin; row < end; row += kWalks) {
    for (int64_t i = 0; i < kWalks; ++i) {
      const T* from = x + (row + i < end ? row + i : row) * features;
      for (int64_t f = 0; f < features; ++f) tiles[f * kWalks + i] = from[f];
      tiles[features * kWalks + i] = T(__builtin_nan(""));
    }
    tiles += (features + 1) * kWalks;
  }
}

// The scratch of a thread holds the sums of its tiles' rows, then the tiles.
template <class Join, bool MISSING, class Node, class Leaves>
void trees_over_rows(const TreeArgs<Node>& a, const Leaves& leaves) {
  using T = typename Node::Value;
  const int64_t tiles = (a.rows + kWalks - 1) / kWalks, tile = (a.features + 1) * kWalks;
  const int64_t mine = a.tiles * (tile * int64_t(sizeof(T)) + kWalks * a.targets * 8);
  const int64_t work = a.trees * 8 * kWalks * 12;
  parallel_for(a.pool, tiles, grain(work), [&](int64_t from, int64_t to, int32_t thread) {
    double* const sums = reinterpret_cast<double*>(static_cast<char*>(a.scratch) + thread * mine);
    T* const x = reinterpret_cast<T*>(sums + a.tiles * kWalks * a.targets);
    for (int64_t first = from; first < to; first += a.tiles) {
      const int64_t count = to - first < a.tiles ? to - first : a.tiles;
      const int64_t begin = first * kWalks, all = begin + count * kWalks;
      const int64_t end = all < a.rows ? all : a.rows;
      tree_tiles(x, a.x, begin, end, a.features);
      for (int64_t i = 0; i < count * kWalks * a.targets; ++i) sums[i] = Join::start();
      for (int64_t tree = 0; tree < a.trees; ++tree) {
        const Node* const root = a.nodes + a.roots[tree];
        for (int64_t t = 0; t < count; ++t) {
          const Node* at[kWalks];
          for (int i = 0; i < kWalks; ++i) at[i] = root;
          walk<MISSING, true>(at, x + t * tile, a.mask(), a.shift());
          double* row = sums + t * kWalks * a.targets;
          for (int i = 0; i < kWalks; ++i, row += a.targets) leaves(row, tree, *at[i]);
        }
      }
      T* const out = a.out + begin * a.targets;
      CUVIL_INDEPENDENT
      for (int64_t i = 0; i < (end - begin) * a.targets; ++i) out[i] = T(Join::finish(sums[i]));
    }
  });
}

// The scratch holds the sums of each block of trees, then a copy of the row.
template <class Join, bool MISSING, class Node, class Leaves>
void trees_over_trees(const TreeArgs<Node>& a, const Leaves& leaves) {
  using T = typename Node::Value;
  const int64_t blocks = (a.trees + kTreeBlock - 1) / kTreeBlock;
  double* const sums = static_cast<double*>(a.scratch);
  T* const x = reinterpret_cast<T*>(sums + blocks * a.targets);
  x[a.features] = T(__builtin_nan(""));
  for (int64_t row = 0; row < a.rows; ++row) {
    for (int64_t f = 0; f < a.features; ++f) x[f] = a.x[row * a.features + f];
    const int64_t least = grain(kTreeBlock * 8 * 12);
    parallel_for(a.pool, blocks, least, [&](int64_t from, int64_t to, int32_t) {
      for (int64_t block = from; block < to; ++block) {
        double* const sum = sums + block * a.targets;
        for (int64_t i = 0; i < a.targets; ++i) sum[i] = Join::start();
        const int64_t last = (block + 1) * kTreeBlock, end = last < a.trees ? last : a.trees;
        for (int64_t tree = block * kTreeBlock; tree < end; tree += kWalks) {
          const int64_t count = end - tree < kWalks ? end - tree : kWalks;
          const Node* at[kWalks];
          for (int64_t i = 0; i < kWalks; ++i)
            at[i] = a.nodes + a.roots[i < count ? tree + i : tree];
          walk<MISSING, false>(at, x, a.mask(), a.shift());
          for (int64_t i = 0; i < count; ++i) leaves(sum, tree + i, *at[i]);
        }
      }
    });
    T* const out = a.out + row * a.targets;
    for (int64_t i = 0; i < a.targets; ++i) {
      double sum = Join::start();
      for (int64_t block = 0; block < blocks; ++block)
        sum = Join::join(sum, sums[block * a.targets + i]);
      out[i] = T(Join::finish(sum));
    }
  }
}

template <class Join, bool MISSING, class Node, class Leaves>
void tree_ensemble(const TreeArgs<Node>& a, const Leaves& leaves) {
  if (a.rows >= kWalks) trees_over_rows<Join, MISSING>(a, leaves);
  else trees_over_trees<Join, MISSING>(a, leaves);
}

}  // namespace cuvil
