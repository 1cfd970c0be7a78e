// Scaled error function, Hurwitz's zeta function, orthogonal polynomials. Zeta and the polynomials
// loop, so they stay scalar code.
#pragma once
#include "math_act.hpp"
#include "math_exp.hpp"
#include "math_trig.hpp"

namespace cuvil {

// exp(x^2) erfc(x). 8 ULP.
template <class T>
CUVIL_INLINE T erfcx(T x) {
  using Form = typename ErfcxOf<T>::Form;
  const T t = abs(x), c = t > Form::last ? Form::last : t;
  const T near = Form::tail((c - Form::a) / (c + Form::a)) / (T(1) + T(2) * c);
  // Further out the asymptotic series, M. Abramowitz and I. Stegun, 7.1.23.
  const T far = t < Form::last ? Form::last : t, z = T(0.5) / (far * far);
  const T series = horner(z, T(1), T(-1), T(3), T(-15), T(105), T(-945));
  const T right = t < Form::last ? near : series * T(0.5641895835477563) / far;
  const Square<T> q = square_parts(c, T(1));
  const T grown = T(2) * exp_scaled(q.hi, q.lo, 0);
  const T y = x < T(0) ? (t < Form::last ? grown - right : kInf<T>) : right;
  return x != x ? x : y;
}

// The sum of (k + q)^-x by Euler and Maclaurin: S. Moshier's zeta in Cephes.
inline double zeta_sum(double x, double q) {
  constexpr double eps = 0x1p-53;
  constexpr double a[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9,
                          7.47242496e10, -2.950130727918164224e12, 1.1646782814350067249e14,
                          -4.5979787224074726105e15, 1.8152105401943546773e17,
                          -7.1661652561756670113e18};
  double sum = pow(q, -x), w = q, term = 0.0;
  for (int i = 0; i < 9 || w <= 9.0; ++i) {
    w += 1.0;
    term = pow(w, -x);
    sum += term;
    if (-eps * sum < term && term < eps * sum) return sum;
  }
  sum += term * w / (x - 1.0);
  sum -= 0.5 * term;
  double factor = 1.0, k = 0.0;
  for (const double number : a) {
    factor *= x + k;
    term /= w;
    const double t = factor * term / number;
    sum += t;
    if (abs(t / sum) < eps) return sum;
    k += 1.0;
    factor *= x + k;
    term /= w;
    k += 1.0;
  }
  return sum;
}
// 1 ULP for floats; doubles a few.
template <class T>
inline T zeta(T x, T q) {
  if (x == T(1)) return kInf<T>;
  if (x != x || q != q) return kNaN<T>;
  if (x < T(1)) return kNaN<T>;
  if (q <= T(0)) {
    if (q == floor(q)) return kInf<T>;
    if (x != floor(x)) return kNaN<T>;
  }
  return T(zeta_sum(double(x), double(q)));
}

// A degree given as a float; what is no number or out of range becomes negative.
template <class T>
CUVIL_INLINE int64_t degree_of(T n) {
  return abs(n) < T(0x1p62) ? int64_t(n) : -1;
}

// P_n from P_0 = 1 and P_1 = `value`, until a value is NaN. step(k, P_k, P_(k-1)) is P_(k+1).
template <class T, class Step>
inline T polynomial(T value, int64_t n, Step step) {
  T older = T(1);
  if (n == 0) return older;
  for (int64_t k = 1; k < n && value == value; ++k) {
    const T next = step(T(k), value, older);
    older = value;
    value = next;
  }
  return value;
}
template <class T>
inline T chebyshev_steps(T x, T first, int64_t n) {
  return polynomial(first, n, [x](T, T q, T p) { return (x + x) * q - p; });
}
// At x = 1 or -1: the size there, with the sign of (-1)^n.
template <class T>
CUVIL_INLINE T chebyshev_end(T x, int64_t n, T right, T left) {
  return x > T(0) ? right : (n % 2 == 0 ? left : -left);
}

template <class T>
inline T chebyshev_t(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (abs(x) == T(1)) return chebyshev_end(x, n, T(1), T(1));
  if (n > 6 && abs(x) < T(1)) return cos(T(n) * acos(x));
  return chebyshev_steps(x, x, n);
}
template <class T>
inline T chebyshev_u(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (abs(x) == T(1)) return chebyshev_end(x, n, T(n) + T(1), T(n) + T(1));
  if (n > 8 && abs(x) < T(1)) return sin((T(n) + T(1)) * acos(x)) / sin(acos(x));
  return chebyshev_steps(x, x + x, n);
}
template <class T>
inline T chebyshev_v(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (abs(x) == T(1)) return chebyshev_end(x, n, T(1), T(n) + T(n) + T(1));
  if (n > 8 && abs(x) < T(1)) return cos((T(n) + T(0.5)) * acos(x)) / cos(acos(x) / T(2));
  return chebyshev_steps(x, x + x - T(1), n);
}
template <class T>
inline T chebyshev_w(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (abs(x) == T(1)) return chebyshev_end(x, n, T(n) + T(n) + T(1), T(1));
  if (n > 8 && abs(x) < T(1)) return sin((T(n) + T(0.5)) * acos(x)) / sin(acos(x) / T(2));
  return chebyshev_steps(x, x + x + T(1), n);
}

// Beyond these degrees their numbers overflow.
template <class T>
constexpr int64_t kHermiteLimit = sizeof(T) == 4 ? 128 : 512;
template <class T>
inline T hermite(T x, T degree, T factor) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (n > kHermiteLimit<T>) return kNaN<T>;
  return polynomial(factor * x, n,
                    [=](T k, T q, T p) { return factor * x * q - factor * k * p; });
}
template <class T>
inline T hermite_h(T x, T degree) {
  return hermite(x, degree, T(2));
}
template <class T>
inline T hermite_he(T x, T degree) {
  return hermite(x, degree, T(1));
}

template <class T>
inline T laguerre(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (x == T(0)) return T(1);
  return polynomial(T(1) - x, n, [x](T k, T q, T p) {
    return (((k + k) + (T(1) - x)) * q - k * p) / (k + T(1));
  });
}
template <class T>
inline T legendre(T x, T degree) {
  const int64_t n = degree_of(degree);
  if (n < 0) return T(0);
  if (abs(x) == T(1)) return chebyshev_end(x, n, T(1), T(1));
  return polynomial(x, n, [x](T k, T q, T p) {
    return ((k + k + T(1)) * x * q - k * p) / (k + T(1));
  });
}

}  // namespace cuvil
