// Gamma functions and the inverse of erf, computed in double. They loop or branch, so they stay
// scalar code. Formulas and coefficients: S. Moshier's Cephes; M. Giles, "Approximating the erfinv
// function" (2010), refined by Halley's steps.
#pragma once
#include "math_exp.hpp"
#include "math_special.hpp"
#include "math_trig.hpp"

namespace cuvil {

constexpr double kPi = 3.14159265358979323846, kLogRoot2Pi = 0.91893853320467274178;

inline double log_gamma_large(double x) {
  const double q = (x - 0.5) * log(x) - x + kLogRoot2Pi;
  if (x > 1e8) return q;
  const double p = 1.0 / (x * x);
  return q + horner(p, 8.33333333333331927722e-2, -2.77777777730099687205e-3,
                    7.93650340457716943945e-4, -5.95061904284301438324e-4,
                    8.11614167470508450300e-4) / x;
}
// log |gamma(x)|; inf at 0, -1, ... and at both infinities.
inline double log_gamma(double x) {
  if (x != x) return x;
  if (abs(x) > 1e305) return kInf<double>;  // where x log x is beyond the largest double
  if (x < -34.0) {
    const double q = -x, w = log_gamma_large(q), whole = floor(q);
    if (whole == q) return kInf<double>;
    const double z = q - whole;
    return log(kPi) - log(q * sin(kPi * (z > 0.5 ? 1.0 - z : z))) - w;
  }
  if (abs(x) < 1e-300) return x == 0.0 ? kInf<double> : -log(abs(x));
  if (x >= 13.0) return log_gamma_large(x);
  if (x <= 0.0 && x == floor(x)) return kInf<double>;
  double z = 1.0, shift = 0.0, u = x;
  while (u >= 3.0) {
    shift -= 1.0;
    u = x + shift;
    z *= u;
  }
  while (u < 2.0) {
    z /= u;
    shift += 1.0;
    u = x + shift;
  }
  const double t = (shift - 2.0) + x;
  const double above = horner(t, -8.53555664245765465627e5, -1.72173700820839662146e6,
                              -1.16237097492762307383e6, -3.31612992738871184744e5,
                              -3.88016315134637840924e4, -1.37825152569120859100e3);
  const double below = horner(t, -2.01889141433532773231e6, -2.53252307177582951285e6,
                              -1.13933444367982507207e6, -2.20528590553854454839e5,
                              -1.70642106651881159223e4, -3.51815701436523470549e2, 1.0);
  return log(abs(z)) + t * above / below;
}
template <class T>
inline T lgamma(T x) {
  return T(log_gamma(double(x)));
}

// x^a e^-x / gamma(a)
inline double gamma_front(double a, double x) {
  if (a < 20.0) return exp(a * log(x) - x - log_gamma(a));
  // log(x / a) by log1p, so that nothing cancels where x is near a.
  const double gap = (x - a) / a;
  const double power = abs(gap) < 0.5 ? log1p(gap) - gap : log(x / a) - gap;
  const double q = 1.0 / (a * a);
  const double rest = horner(q, 1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0,
                             1.0 / 1188.0) / a;
  return exp(a * power - rest) * sqrt(a / (2.0 * kPi));
}
// P(a, x) by its power series, for x up to about a.
inline double gamma_series(double a, double x) {
  double r = a, term = 1.0, sum = 1.0;
  for (int i = 0; i < 20000 && term > 0x1p-54 * sum; ++i) {
    r += 1.0;
    term *= x / r;
    sum += term;
  }
  return gamma_front(a, x) / a * sum;
}
// Q(a, x) by its continued fraction (W. Press et al., Numerical Recipes, 6.2: Lentz's method).
inline double gamma_fraction(double a, double x) {
  constexpr double tiny = 1e-300;
  double b = x + 1.0 - a, c = 1.0 / tiny, d = 1.0 / (b == 0.0 ? tiny : b), h = d;
  for (int i = 1; i < 20000; ++i) {
    const double n = -double(i) * (double(i) - a);
    b += 2.0;
    d = n * d + b;
    d = 1.0 / (abs(d) < tiny ? tiny : d);
    c = b + n / c;
    c = abs(c) < tiny ? tiny : c;
    h *= d * c;
    if (abs(d * c - 1.0) < 0x1p-53) break;
  }
  return gamma_front(a, x) * h;
}
// Q(a, x) for great a by the first terms of Temme's uniform expansion.
inline double gamma_uniform(double a, double x) {
  const double gap = (x - a) / a;
  const double half = gap - log1p(gap), size = sqrt(2.0 * (half < 0.0 ? 0.0 : half));
  const double eta = gap < 0.0 ? -size : size;
  const double front = exp(-a * half) / sqrt(2.0 * kPi * a);
  const double first = abs(eta) < 1e-3 ? -1.0 / 3.0 + eta / 12.0 : 1.0 / gap - 1.0 / eta;
  return 0.5 * erfc(eta * sqrt(0.5 * a)) + front * first;
}
// Regularised incomplete gamma functions: the lower, P, or the upper, Q.
inline double incomplete_gamma(double a, double x, bool upper) {
  if (a != a || x != x || a < 0.0 || x < 0.0) return kNaN<double>;
  const double none = upper ? 1.0 : 0.0, all = 1.0 - none;
  if (a == 0.0) return x > 0.0 ? all : kNaN<double>;
  if (x == 0.0) return none;
  if (a == kInf<double>) return x == kInf<double> ? kNaN<double> : none;
  if (x == kInf<double>) return all;
  if (a > 1e5) {
    const double q = gamma_uniform(a, x);
    return upper ? q : 1.0 - q;
  }
  if (x < a + 1.0 || x < 1.0) {
    const double p = gamma_series(a, x);
    return upper ? 1.0 - p : p;
  }
  const double q = gamma_fraction(a, x);
  return upper ? q : 1.0 - q;
}
template <class T>
inline T igamma(T a, T x) {
  return T(incomplete_gamma(double(a), double(x), false));
}
template <class T>
inline T igammac(T a, T x) {
  return T(incomplete_gamma(double(a), double(x), true));
}

inline double erf_inverse(double x) {
  if (!(abs(x) < 1.0)) return abs(x) == 1.0 ? x * kInf<double> : kNaN<double>;
  const double size = abs(x), rest = 1.0 - size;
  double w = -log(rest * (1.0 + size));
  double y = size;
  if (w < 5.0) {
    w -= 2.5;
    y *= horner(w, 1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
                -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08);
  } else {
    w = sqrt(w) - 3.0;
    y *= horner(w, 2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
                -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257);
  }
  for (int step = 0; step < 3; ++step) {
    const double gap = size < 0.5 ? erf(y) - size : rest - erfc(y);
    const double u = gap * exp(y * y) * 0.88622692545275801365;
    y -= u / (1.0 + y * u);
  }
  return copysign(y, x);
}
template <class T>
inline T erfinv(T x) {
  return T(erf_inverse(double(x)));
}

}  // namespace cuvil
