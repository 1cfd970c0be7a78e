// Elements of 8 bits and less, stored as their bits in a byte each: casts to and from them.
#pragma once
#include "math_int.hpp"

namespace cuvil {

// What stands at the top of a narrow float's range. `unsigned_zero`: no -0, whose code is the NaN.
enum class Top { finite, nan, infinity, unsigned_zero };

template <int exponent_bits, int mantissa_bits, int bias_, Top top_>
struct NarrowFloat {
  static constexpr int mantissa = mantissa_bits, bias = bias_;
  static constexpr Top top = top_;
  static constexpr uint32_t sign = 1u << (exponent_bits + mantissa_bits);
  // The codes of the largest finite value, of what is beyond it, and of NaN.
  static constexpr uint32_t largest =
      top == Top::nan ? sign - 2 : (top == Top::infinity ? sign - 1 - (1u << mantissa) : sign - 1);
  static constexpr uint32_t nan = top == Top::unsigned_zero || top == Top::finite
                                      ? sign
                                      : (top == Top::nan ? sign - 1 : largest + 3);
  static constexpr uint32_t beyond = top == Top::infinity ? largest + 1
                                     : top == Top::finite ? largest
                                                          : nan;
};
using F8E4M3FN = NarrowFloat<4, 3, 7, Top::nan>;
using F8E4M3FNUZ = NarrowFloat<4, 3, 8, Top::unsigned_zero>;
using F8E5M2 = NarrowFloat<5, 2, 15, Top::infinity>;
using F8E5M2FNUZ = NarrowFloat<5, 2, 16, Top::unsigned_zero>;
using F6E2M3 = NarrowFloat<2, 3, 1, Top::finite>;
using F6E3M2 = NarrowFloat<3, 2, 3, Top::finite>;
using F4E2M1 = NarrowFloat<2, 1, 1, Top::finite>;

template <class N>
CUVIL_INLINE float from_narrow(uint8_t code) {
  const uint32_t sign = uint32_t(code) & N::sign, rest = uint32_t(code) & (N::sign - 1);
  // Exponents shift by the difference of the biases; multiplying rescales denormals exactly.
  const float size = from_bits(rest << (23 - N::mantissa)) * pow2_int<float>(127 - N::bias);
  uint32_t bits = to_bits(size);
  if constexpr (N::top == Top::nan) bits = rest == N::nan ? 0x7fc00000u : bits;
  if constexpr (N::top == Top::infinity) {
    bits = rest > N::largest ? (rest == N::beyond ? 0x7f800000u : 0x7fc00000u) : bits;
  }
  bits |= sign ? 0x80000000u : 0u;
  if constexpr (N::top == Top::unsigned_zero) bits = rest == 0 && sign ? 0x7fc00000u : bits;
  return from_bits(bits);
}

template <class N, bool saturate>
CUVIL_INLINE uint8_t to_narrow(float x) {
  const uint32_t a = to_bits(x) & 0x7fffffffu;
  constexpr int dropped = 23 - N::mantissa;
  // Normal results: round the dropped bits away, to nearest even. Denormal results: adding a power
  // of two puts the last kept bit at the end of the float's mantissa, so the addition rounds.
  const uint32_t half = (1u << (dropped - 1)) - 1 + ((a >> dropped) & 1u);
  const uint32_t normal = ((a + half) >> dropped) - (uint32_t(127 - N::bias) << N::mantissa);
  const float shift = pow2_int<float>(dropped + 1 - N::bias);
  const uint32_t denormal = to_bits(from_bits(a) + shift) - to_bits(shift);
  uint32_t code = a < uint32_t(128 - N::bias) << 23 ? denormal : normal;
  code = code > N::largest ? (saturate ? N::largest : N::beyond) : code;
  const uint32_t sign = (to_bits(x) >> 31) != 0 ? N::sign : 0u;
  if constexpr (N::top == Top::unsigned_zero) {
    return uint8_t(x != x ? N::nan : (code == 0 ? 0u : code | sign));
  } else if constexpr (N::top == Top::finite) {
    return uint8_t(x != x ? N::nan : code | sign);
  } else {
    return uint8_t((x != x ? N::nan : code) | sign);
  }
}

#define CUVIL_NARROW(name, Type)                                                      \
  CUVIL_INLINE float from_##name(uint8_t code) { return from_narrow<Type>(code); }    \
  template <bool saturate>                                                            \
  CUVIL_INLINE uint8_t to_##name(float x) {                                           \
    return to_narrow<Type, saturate>(x);                                              \
  }
CUVIL_NARROW(f8e4m3fn, F8E4M3FN)
CUVIL_NARROW(f8e4m3fnuz, F8E4M3FNUZ)
CUVIL_NARROW(f8e5m2, F8E5M2)
CUVIL_NARROW(f8e5m2fnuz, F8E5M2FNUZ)
CUVIL_NARROW(f6e2m3fn, F6E2M3)
CUVIL_NARROW(f6e3m2fn, F6E3M2)
CUVIL_NARROW(f4e2m1fn, F4E2M1)
#undef CUVIL_NARROW

// Powers of two from 2^-127 (code 0) to 2^127; 255 is NaN.
CUVIL_INLINE float from_f8e8m0fnu(uint8_t code) {
  const uint32_t bits = code == 0 ? 0x00400000u : uint32_t(code) << 23;
  return from_bits(code == 255 ? 0x7fc00000u : bits);
}
enum class Round { up, down, nearest };
template <bool saturate, Round round>
CUVIL_INLINE uint8_t to_f8e8m0fnu(float x) {
  const uint32_t bits = to_bits(x);
  // A denormal is made normal first, so that its exponent is found in the same place.
  const bool denormal = bits < 0x00800000u;
  const uint32_t a = denormal ? to_bits(x * 0x1p64f) : bits;
  const uint32_t add = round == Round::up ? 0x7fffffu : (round == Round::nearest ? 0x400000u : 0u);
  const int32_t code = int32_t((a + add) >> 23) - (denormal ? 64 : 0);
  const bool zero = (bits & 0x7fffffffu) == 0, low = zero || code < 0;
  const bool high = bits == 0x7f800000u || code > 254;
  const uint8_t end = saturate ? (low ? 0 : 254) : 255;
  const bool none = !(x >= 0.0f);  // negative or NaN
  return none ? uint8_t(255) : (low || high ? end : uint8_t(code));
}

// Integers of 4 and 2 bits: the low bits of a byte, whose others are ignored and written as the
// sign's (or zeros).
CUVIL_INLINE int32_t from_i4(uint8_t code) { return int32_t(code & 15u) - ((code & 8u) ? 16 : 0); }
CUVIL_INLINE int32_t from_u4(uint8_t code) { return int32_t(code & 15u); }
CUVIL_INLINE int32_t from_i2(uint8_t code) { return int32_t(code & 3u) - ((code & 2u) ? 4 : 0); }
CUVIL_INLINE int32_t from_u2(uint8_t code) { return int32_t(code & 3u); }
CUVIL_INLINE uint8_t to_i4(uint32_t x) { return uint8_t(from_i4(uint8_t(x))); }
CUVIL_INLINE uint8_t to_u4(uint32_t x) { return uint8_t(x & 15u); }
CUVIL_INLINE uint8_t to_i2(uint32_t x) { return uint8_t(from_i2(uint8_t(x))); }
CUVIL_INLINE uint8_t to_u2(uint32_t x) { return uint8_t(x & 3u); }

}  // namespace cuvil
