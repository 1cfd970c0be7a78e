// The two passes of a softmax over one row of scores, in powers of two.
#pragma once
#include "vec.hpp"

namespace cuvil {

CUVIL_INLINE vf larger(vf a, vf b) { return at_least(b, a); }

CUVIL_INLINE float max_lanes(vf v) {
  float m = v[0];
  for (int i = 1; i < VL; ++i) m = v[i] > m ? v[i] : m;
  return m;
}

// 2^x for x <= 0 (or NaN), relative error 2^-22; from 2^-126.5 down it is 0: there the exponent
// that is put together is that of 0.
CUVIL_INLINE vf exp2_nonpositive(vf x) {
  const vf magic = splat(12582912.0f + 127.0f);  // leaves the biased exponent in the lowest bits
  const vf cut = at_least(x, splat(-127.0f));
  const vf t = cut + magic;
  const vf r = cut - (t - magic);
  vf p = splat(1.3269521e-03f);
  p = p * r + 9.671291e-03f;
  p = p * r + 5.5507109e-02f;
  p = p * r + 2.4022247e-01f;
  p = p * r + 6.9314700e-01f;
  p = p * r + 1.0f;
  return p * (vf)((vi)t << 23);
}

// The largest of whole vectors of s, by lane, n a multiple of VL; a NaN is none.
CUVIL_INLINE vf row_max_lanes(const float* s, int64_t n) {
  vf m[2] = {splat(-__builtin_inff()), splat(-__builtin_inff())};
  int64_t j = 0;
  for (; j + 2 * VL <= n; j += 2 * VL) {
    m[0] = larger(load(s + j), m[0]);
    m[1] = larger(load(s + j + VL), m[1]);
  }
  if (j < n) m[0] = larger(load(s + j), m[0]);
  return larger(m[0], m[1]);
}
CUVIL_INLINE float row_max(const float* s, int64_t n) { return max_lanes(row_max_lanes(s, n)); }

// s = 2^((s - top) * scale); returns the sum. The difference comes first: it is 0 at the top
// however large that is, where a product that is not rounded would leave what rounding took off.
CUVIL_INLINE float row_weights(float* s, int64_t n, float scale, float top) {
  vf sum[2] = {};
  const vf c = splat(scale), t = splat(top);
  int64_t j = 0;
  for (; j + 2 * VL <= n; j += 2 * VL) {
    const vf p = exp2_nonpositive((load(s + j) - t) * c);
    const vf q = exp2_nonpositive((load(s + j + VL) - t) * c);
    store(s + j, p);
    store(s + j + VL, q);
    sum[0] += p;
    sum[1] += q;
  }
  if (j < n) {
    const vf p = exp2_nonpositive((load(s + j) - t) * c);
    store(s + j, p);
    sum[0] += p;
  }
  return sum_lanes(sum[0] + sum[1]);
}

}  // namespace cuvil
