// The sum of an array of lanes: the first half is joined with the second, and so on down to one.
// Written in vectors: of the loops that say the same, compilers make scalar steps.
#pragma once
#include "vec.hpp"

namespace cuvil {

template <class T, int lanes>
struct Lanes {
  typedef T vec __attribute__((vector_size(lanes * sizeof(T))));
  typedef T mem __attribute__((vector_size(lanes * sizeof(T)), aligned(sizeof(T)), may_alias));
};

template <class, int... I>
struct HalfOfLanes {
  template <class T>
  static CUVIL_INLINE T sum(typename Lanes<T, 2 * sizeof...(I)>::vec v);
};

template <class T, int lanes>
CUVIL_INLINE T sum_of_lanes(typename Lanes<T, lanes>::vec v) {
  if constexpr (lanes == 1) return v[0];
  else return __make_integer_seq<HalfOfLanes, int, lanes / 2>::template sum<T>(v);
}

template <class U, int... I>
template <class T>
CUVIL_INLINE T HalfOfLanes<U, I...>::sum(typename Lanes<T, 2 * sizeof...(I)>::vec v) {
  constexpr int half = sizeof...(I);
  return sum_of_lanes<T, half>(
      __builtin_shufflevector(v, v, I...) + __builtin_shufflevector(v, v, (half + I)...));
}

template <int lanes, class T>
CUVIL_INLINE T sum_of_lanes(const T* p) {
  return sum_of_lanes<T, lanes>(*reinterpret_cast<const typename Lanes<T, lanes>::mem*>(p));
}

}  // namespace cuvil
