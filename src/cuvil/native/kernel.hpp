// What generated kernels use besides the contraction templates: scalar operators by the names the
// operator table gives them, checked indices, and loop marks.
#pragma once
#include "abi.hpp"
#include "lanes.hpp"
#include "math.hpp"
#include "threads.hpp"

// The arrays of a kernel don't overlap and its iterations are independent.
#define CUVIL_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define CUVIL_ALWAYS_INLINE __attribute__((always_inline))

namespace cuvil {

template <class T>
constexpr bool is_float_type = T(0.5) != T(0);

// IEEE 754-2019 maximum and minimum: NaN from either side wins.
template <class T>
CUVIL_INLINE T max(T a, T b) {
  if constexpr (is_float_type<T>) return max_nan(a, b);
  else return a > b ? a : b;
}
template <class T>
CUVIL_INLINE T min(T a, T b) {
  if constexpr (is_float_type<T>) return min_nan(a, b);
  else return a < b ? a : b;
}

template <class T>
CUVIL_INLINE T div(T a, T b) {
  if constexpr (is_float_type<T>) return a / b;
  else return div_trunc(a, b);
}
// Rounded towards minus infinity; for floats (a - mod(a, b)) / b as Python and NumPy have it, which
// floor(a / b) misses where the quotient is rounded up to a whole number.
template <class T>
CUVIL_INLINE T floor_div(T a, T b) {
  if constexpr (is_float_type<T>) {
    const T plain = a / b;
    const T rest = fmod(a, b);
    const T turned = rest != T(0) && (b < T(0)) != (rest < T(0)) ? T(1) : T(0);
    const T quotient = (a - rest) / b - turned;
    const T down = floor(quotient);
    const T whole = quotient - down > T(0.5) ? down + T(1) : down;
    return b == T(0) ? plain : (quotient == T(0) ? copysign(T(0), plain) : whole);
  } else {
    return div_floor(a, b);
  }
}
template <class T>
CUVIL_INLINE T python_mod(T a, T b) {
  if constexpr (is_float_type<T>) return floor_mod(a, b);
  else return mod_floor(a, b);
}
template <class T>
CUVIL_INLINE T trunc_mod(T a, T b) {
  if constexpr (is_float_type<T>) return fmod(a, b);
  else return mod_trunc(a, b);
}
template <class T>
CUVIL_INLINE T power(T a, T b) {
  if constexpr (is_float_type<T>) return pow(a, b);
  else return pow_int(a, b);
}
CUVIL_INLINE uint8_t abs(uint8_t x) { return x; }
CUVIL_INLINE uint16_t abs(uint16_t x) { return x; }
CUVIL_INLINE uint32_t abs(uint32_t x) { return x; }
CUVIL_INLINE uint64_t abs(uint64_t x) { return x; }

inline bool is_faulty(const Fault* fault) { return fault->size != 0 || fault->code != 0; }
// Records that constraint or check `number` does not hold, unless something failed before.
inline void set_broken(Fault* fault, int64_t number) {
  if (!is_faulty(fault)) *fault = {number, 0, kBrokenConstraint};
}

// `index`, which means the position `at`; outside [0, size) it is recorded and 0 is used.
CUVIL_INLINE int64_t position_inside(int64_t at, int64_t index, int64_t size, Fault* fault) {
  if (__builtin_expect(uint64_t(at) < uint64_t(size), 1)) return at;
  if (__atomic_load_n(&fault->size, __ATOMIC_RELAXED) == 0) {
    fault->index = index;
    __atomic_store_n(&fault->size, size > 0 ? size : -1, __ATOMIC_RELAXED);
  }
  return 0;
}
// An index counted from the end if negative.
CUVIL_INLINE int64_t checked_index(int64_t index, int64_t size, Fault* fault) {
  return position_inside(index < 0 ? index + size : index, index, size, fault);
}
// An index that may not be negative.
CUVIL_INLINE int64_t index_from_start(int64_t index, int64_t size, Fault* fault) {
  return position_inside(index, index, size, fault);
}

// Source positions of padded elements: reflect repeats when the pad is wider than the axis.
CUVIL_INLINE int64_t reflect_index(int64_t at, int64_t size) {
  if (size <= 1) return 0;
  const int64_t period = 2 * (size - 1);
  const int64_t folded = mod(at + size - 1, period) - (size - 1);
  return folded < 0 ? -folded : folded;
}
CUVIL_INLINE int64_t edge_index(int64_t at, int64_t size) {
  return at < 0 || size == 0 ? 0 : (at < size ? at : size - 1);
}
CUVIL_INLINE int64_t wrap_index(int64_t at, int64_t size) { return mod(at, size); }

// The best element so far and where it was found; -1 before the first.
template <class T>
struct Best {
  T value = T(0);
  int64_t position = -1;
};
// Whether `x` replaces `best`: NaN beats every number, ties go to the first position (or the last).
template <bool last, class T>
CUVIL_INLINE void take_if(Best<T>& best, Best<T> x, bool better) {
  const bool nan_best = best.value != best.value, nan_x = x.value != x.value;
  const bool same = x.value == best.value || (nan_best && nan_x);
  const bool earlier = last ? x.position > best.position : x.position < best.position;
  if (x.position < 0) return;
  if (best.position < 0 || (nan_x && !nan_best) || (better && !nan_best) || (same && earlier))
    best = x;
}
template <bool last, class T>
CUVIL_INLINE void take_greatest(Best<T>& best, Best<T> x) {
  take_if<last>(best, x, x.value > best.value);
}
template <bool last, class T>
CUVIL_INLINE void take_least(Best<T>& best, Best<T> x) {
  take_if<last>(best, x, x.value < best.value);
}

// Items a thread should take at least, when each costs about `work` simple operations.
inline int64_t grain(int64_t work) { return work >= 32768 || work <= 0 ? 1 : 32768 / work; }

// Bytes rounded up so that the next buffer is aligned for vectors.
inline int64_t aligned(int64_t bytes) { return (bytes + 63) & ~int64_t(63); }

}  // namespace cuvil
