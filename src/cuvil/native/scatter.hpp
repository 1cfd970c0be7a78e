// Scattering in order of the updates: the last of several at one place wins, or each is combined.
#pragma once
#include "kernel.hpp"
#include "scan.hpp"

namespace cuvil {

constexpr int kScatterRank = 16;

struct Assign {
  template <class T>
  static CUVIL_INLINE T join(T, T update) { return update; }
};
struct AddTo {
  template <class T>
  static CUVIL_INLINE T join(T old, T update) { return wrapping_add(old, update); }
};
struct MultiplyBy {
  template <class T>
  static CUVIL_INLINE T join(T old, T update) {
    if constexpr (is_float_type<T>) return old * update;
    else return T(uint64_t(old) * uint64_t(update));
  }
};
struct Greatest {
  template <class T>
  static CUVIL_INLINE T join(T old, T update) { return max(old, update); }
};
struct Least {
  template <class T>
  static CUVIL_INLINE T join(T old, T update) { return min(old, update); }
};

template <class T>
void scatter_base(T* out, const T* data, int64_t count, Pool* pool) {
  parallel_for(pool, count, int64_t(1) << 16, [&](int64_t begin, int64_t end, int32_t) {
    __builtin_memcpy(out + begin, data + begin, uint64_t(end - begin) * sizeof(T));
  });
}

// out[.., index[i, j, k], ..] = join(.., updates[i, j, k]) along `axis`. `shape` is that of index
// and updates, `sizes` that of data. Places that differ before the axis never meet, so they are
// shared among threads.
template <class Join, class T, class I>
void scatter_elements(T* out, const I* index, const T* updates, int rank, int axis,
                      const int64_t* shape, const int64_t* sizes, Fault* fault, Pool* pool) {
  int64_t lead = 1, lines = 1, strides[kScatterRank], stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= sizes[i];
    (i < axis ? lead : lines) *= shape[i];
  }
  if (lead == 0 || lines == 0) return;
  parallel_for(pool, lead, grain(lines * 8), [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t item = begin * lines; item < end * lines; ++item) {
      int64_t rest = item, at = 0;
      for (int i = rank - 1; i >= 0; --i) {
        const int64_t here = rest % shape[i];
        rest /= shape[i];
        at += strides[i] *
              (i == axis ? checked_index(int64_t(index[item]), sizes[i], fault) : here);
      }
      // A dimension without elements has no place to write to.
      if (sizes[axis] > 0) out[at] = Join::join(out[at], updates[item]);
    }
  });
}

// out[index[i]] = join(.., updates[i]) for `rows` rows of `depth` indices into the first dimensions
// of data, each naming a block of `block` elements. Threads share the blocks' elements.
template <class Join, class T, class I>
void scatter_nd(T* out, const I* index, const T* updates, int64_t rows, int depth, int64_t block,
                const int64_t* sizes, Fault* fault, Pool* pool) {
  for (int i = 0; i < depth; ++i)
    if (sizes[i] == 0 && rows > 0 && block > 0) {
      checked_index(0, 0, fault);
      return;
    }
  parallel_for(pool, block, grain(rows), [&](int64_t begin, int64_t end, int32_t) {
    for (int64_t r = 0; r < rows; ++r) {
      int64_t at = 0;
      for (int i = 0; i < depth; ++i)
        at = at * sizes[i] + checked_index(int64_t(index[r * depth + i]), sizes[i], fault);
      T* to = out + at * block;
      const T* from = updates + r * block;
      for (int64_t j = begin; j < end; ++j) to[j] = Join::join(to[j], from[j]);
    }
  });
}

}  // namespace cuvil
