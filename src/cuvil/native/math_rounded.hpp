// Activations whose results are rounded to bf16 at once, so that 2^-9 of them is as good as exact.
// Below 1e-17 in magnitude a result may be off by that much.
#pragma once
#include "math_base.hpp"

namespace cuvil {

// x / (1 + 2^v), relative error 2^-13 besides that of v; infinite 2^v from 128 on.
CUVIL_INLINE float divided_by_one_and_exp2(float x, float v) {
  float cut = v < -126.0f ? -126.0f : v;
  cut = cut > 128.0f ? 128.0f : cut;
  const float t = cut + FloatBits<float>::magic, r = cut - (t - FloatBits<float>::magic);
  const float p = 1.0f + r * horner(r, 6.9328290e-01f, 2.4221098e-01f, 5.5009101e-02f);
  return x / (1.0f + from_bits(to_bits(p) + (to_bits(t) << 23)));
}

// x Phi(x) = x / (1 + exp(-g(x))), g(x) = log(Phi(x) / Phi(-x)) odd and smooth: a polynomial to
// 2^-9 of the result down to -5, 2^-7 to -9; further left the exponent goes on in a line.
CUVIL_INLINE float gelu_erf_rounded(float x) {
  float square = x * x;
  square = square > 81.0f ? 81.0f : square;
  const float slope = horner(square, -2.29513216e+00f, -1.10717036e-01f, 1.61322299e-03f,
                             -2.31340055e-05f, 1.93362953e-07f, -6.72106037e-10f);
  return divided_by_one_and_exp2(x, x * slope);
}

// x sigmoid(2u), as gelu_tanh.
CUVIL_INLINE float gelu_tanh_rounded(float x) {
  return divided_by_one_and_exp2(x, x * (-2.3022082f - 1.02943242e-01f * x * x));
}

CUVIL_INLINE float silu_rounded(float x) {
  return divided_by_one_and_exp2(x, x * -1.44269502f);
}

}  // namespace cuvil
