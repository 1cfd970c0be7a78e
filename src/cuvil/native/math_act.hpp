// Error function and activations, in forms that lose no accuracy in their tails.
#pragma once
#include "math_base.hpp"
#include "math_exp.hpp"

namespace cuvil {

// tanh(x) = u / (u + 2), u = exp(2|x|) - 1. 3 ULP.
template <class T>
CUVIL_INLINE T tanh(T x) {
  T a = abs(x);
  a = a > T(22) ? T(22) : a;
  const T u = expm1(a + a);
  return copysign(u / (u + T(2)), x);
}

// 1 / (1 + exp(-x)) by exp(-|x|), which never overflows. 3 ULP; anything for NaN.
template <class T>
CUVIL_INLINE T sigmoid_of_number(T x) {
  const T e = exp_of_negative(-abs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
template <class T>
CUVIL_INLINE T sigmoid(T x) {
  const T y = sigmoid_of_number(x);
  return x != x ? x : y;
}

// log(1 + exp(x)). 2 ULP.
template <class T>
CUVIL_INLINE T softplus(T x) {
  const T positive = x < T(0) ? T(0) : x;
  // log1p(e) for 0 < e <= 1: what u = 1 + e has lost counts lost / u, here to first order.
  const T e = exp(-abs(x)), u = T(1) + e, lost = e - (u - T(1));
  return positive + log_sum(u, lost * (T(1) - T(0.5) * e));
}
template <class T>
CUVIL_INLINE T log_sigmoid(T x) {
  return -softplus(-x);
}

// x sigmoid(x); NaN at -inf, as the product is. 4 ULP while sigmoid(x) is normal.
template <class T>
CUVIL_INLINE T silu(T x) {
  return x * sigmoid_of_number(x);
}

// x tanh(softplus(x)) = x n / (n + 2), n = e^x (e^x + 2). 5 ULP while exp(x) is normal.
template <class T>
CUVIL_INLINE T mish(T x) {
  const T cut = x > T(40) ? T(40) : x;
  const T e = exp(cut), n = e * (e + T(2));
  return x * (n / (n + T(2)));
}

template <class T>
CUVIL_INLINE T hard_sigmoid(T x, T alpha, T beta) {
  return clamp_nan(alpha * x + beta, T(0), T(1));
}
template <class T>
CUVIL_INLINE T hard_swish(T x) {
  return x * clamp_nan(x + T(3), T(0), T(6)) / T(6);
}
template <class T>
CUVIL_INLINE T leaky_relu(T x, T slope) {
  return x < T(0) ? slope * x : x;
}
template <class T>
CUVIL_INLINE T elu(T x, T alpha) {
  return x > T(0) ? x : alpha * expm1(x);
}
template <class T>
CUVIL_INLINE T celu(T x, T alpha) {
  return x > T(0) ? x : alpha * expm1(x / alpha);
}
template <class T>
CUVIL_INLINE T selu(T x) {  // G. Klambauer et al., "Self-normalizing neural networks", 2017
  constexpr T scale = T(1.0507009873554804934), alpha = T(1.6732632423543772848);
  return scale * elu(x, alpha);
}
template <class T>
CUVIL_INLINE T softsign(T x) {
  return x / (T(1) + abs(x));
}

// exp(t^2) erfc(t) (1 + 2t) as a polynomial in s = (t-a)/(t+a), t >= 0; the idea is that of
// M. M. Shepherd and J. G. Laframboise, "Chebyshev approximation of (1+2x) exp(x^2) erfc x", 1981.
struct ErfcxFloat {
  static constexpr float a = 2.0f, last = 10.2f;
  CUVIL_INLINE static float tail(float s) {
    return horner(s, 1.2769784e+00f, -9.276398e-02f, -1.6603146e-01f, 1.6405542e-01f,
                  -5.4203887e-02f, -8.060143e-03f, 8.630105e-03f, 1.3133133e-03f, -1.2280082e-03f,
                  -3.994533e-04f);
  }
};
struct ErfcxDouble {
  static constexpr double a = 4.0, last = 27.3;
  CUVIL_INLINE static double tail(double s) {
    return horner(s, 1.2329951186255526, -0.13962111684056286, 0.015379652102620135,
                  0.06809705425473357, -0.10103906603632345, 0.09373283499691432,
                  -0.06633036581203976, 0.037167515560702115, -0.01619773405471713,
                  0.005031969770610919, -0.0007577733614294204, -0.00019925557955249558,
                  0.00015062229012783134, -2.4402953850601448e-05, -1.1224821345721512e-05,
                  5.717498570733812e-06, 3.0127306805481384e-07, -8.34766283992195e-07,
                  6.28883989274604e-08, 1.1516053895172286e-07, -7.841985624403911e-09,
                  -1.3650110538253337e-08, -1.800216219300462e-09);
  }
};
template <class T>
struct ErfcxOf;
template <>
struct ErfcxOf<float> {
  using Form = ErfcxFloat;
};
template <>
struct ErfcxOf<double> {
  using Form = ErfcxDouble;
};

// erfc(t) for t >= 0, where t^2 = square_hi + square_lo.
template <class T>
CUVIL_INLINE T erfc_positive(T t, T square_hi, T square_lo) {
  using Form = typename ErfcxOf<T>::Form;
  const T c = t > Form::last ? Form::last : t;
  const T b = T(1) + T(2) * c, inverse = T(1) / ((c + Form::a) * b);
  const T s = (c - Form::a) * b * inverse;
  return exp_of_negative(-square_hi, -square_lo) * (Form::tail(s) * ((c + Form::a) * inverse));
}

template <class T>
struct Square {
  T hi, lo;
};
// factor * x^2 (factor a power of two) in two parts, the first exact: the lower bits of x are cut.
template <class T>
CUVIL_INLINE Square<T> square_parts(T x, T factor) {
  constexpr UIntOf<T> keep = ~((UIntOf<T>(1) << (sizeof(T) == 4 ? 12 : 27)) - 1);
  const T head = from_bits(to_bits(x) & keep);
  return {factor * head * head, factor * (x - head) * (x + head)};
}

template <class T>
CUVIL_INLINE T erfc(T x) {  // 8 ULP
  T t = abs(x);
  t = t > ErfcxOf<T>::Form::last + T(1) ? ErfcxOf<T>::Form::last + T(1) : t;
  const Square<T> q = square_parts(t, T(1));
  const T y = erfc_positive(t, q.hi, q.lo);
  return x < T(0) ? T(2) - y : y;
}

// x P(x^2), |x| <= 1.
CUVIL_INLINE float erf_small(float x) {
  return x * horner(x * x, 1.1283791e+00f, -3.7612626e-01f, 1.12835854e-01f, -2.6853813e-02f,
                    5.188328e-03f, -8.0101984e-04f, 7.8538775e-05f);
}
CUVIL_INLINE double erf_small(double x) {
  return x * horner(x * x, 1.1283791670955126, -0.3761263890318375, 0.11283791670954857,
                    -0.026866170645072907, 0.005223977624780965, -0.0008548326978747702,
                    0.00012055331037093965, -1.4925593511401867e-05, 1.6460972886829844e-06,
                    -1.6350025936209924e-07, 1.4657884472637242e-08, -1.1365683248456953e-09,
                    5.945290031037285e-11);
}

template <class T>
CUVIL_INLINE T erf(T x) {  // 3 ULP
  const T a = abs(x);
  const T large = copysign(T(1) - erfc(a), x), small = erf_small(x);
  return a <= T(1) ? small : large;
}

// x Phi(x), Phi from erfc on the side where it does not cancel. 8 ULP down to -13 (float)
// and -36 (double); the usual 0.5 x (1 + erf(x / sqrt 2)) in float has nothing left below -5.5.
CUVIL_INLINE double gelu_erf(double x) {
  double a = abs(x);
  a = a > 40.0 ? 40.0 : a;
  const Square<double> q = square_parts(a, 0.5);
  const double half = 0.5 * erfc_positive(a * 0.7071067811865476, q.hi, q.lo);
  return x * (x < 0.0 ? half : 1.0 - half);
}
// The same in fewer steps, as whole models end their products in it: Phi(-a) is exp(-a^2 / 2) times
// P(s) / (a + c), a polynomial in s = (a-c)/(a+c) as for erfc, with the number c of its paper.
CUVIL_INLINE float gelu_erf(float x) {
  float a = abs(x);
  a = a > 14.4f ? 14.4f : a;  // from there on Phi(-a) is 0
  const Square<float> q = square_parts(a, 0.5f);
  const float inverse = 1.0f / (a + 3.75f), s = 1.0f - 7.5f * inverse;
  // P made 2^-64 times as small, for exp_lifted.
  constexpr float down = 0x1p-64f;
  const float tail = horner(s, 7.502941e-01f * down, -5.881883e-01f * down, 3.529396e-01f * down,
                            -1.5152083e-01f * down, 3.7492506e-02f * down, 1.2000804e-03f * down,
                            -4.1690175e-03f * down, 5.096195e-04f * down, 4.434444e-04f * down);
  const float half = exp_lifted(-q.hi, -q.lo) * (tail * inverse);
  return x * (x >= 0.0f ? 1.0f - half : half);
}

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3); D. Hendrycks and
// K. Gimpel, "Gaussian error linear units", 2016. 14 ULP from -3 on; further left the rounding of u
// weighs ever more.
template <class T>
CUVIL_INLINE T gelu_tanh(T x) {
  const T u2 = x * (T(1.5957691216057308) + T(0.07135481627260025) * x * x);
  return x * sigmoid_of_number(u2);
}
template <class T>
CUVIL_INLINE T gelu_quick(T x) {  // x sigmoid(1.702 x), the same paper
  return x * sigmoid_of_number(T(1.702) * x);
}

}  // namespace cuvil
