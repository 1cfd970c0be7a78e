// Scalar elementwise mathematics without libm and, unless a comment says so, without branches:
// called in a plain loop, clang vectorises them. Every function has a float and a double form; NaN,
// infinities, signed zeros and denormals follow C99 Annex F. "n ULP" bounds the error in units of
// the last place of the result, as the tests measure it over the whole range.
#pragma once
#include "math_act.hpp"
#include "math_base.hpp"
#include "math_exp.hpp"
#include "math_gamma.hpp"
#include "math_int.hpp"
#include "math_rounded.hpp"
#include "math_special.hpp"
#include "math_trig.hpp"
