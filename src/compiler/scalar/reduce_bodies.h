#pragma once
/// How reductions combine two values, over any type of numbers: Note [Scalar bodies] in
/// scalar_bodies.h, Note [Reductions] in kernel.h.

#include <limits>

#include "compiler/scalar/scalar_bodies.h"
#include "hammock/compiler/kernel.h"

namespace hammock::compiler {

/// The larger or smaller of two that are not NaNs, in one instruction.
template <class N>
HAMMOCK_BODY N Extreme(ReduceFn fn, const N& sum, const N& x) {
  return fn == ReduceFn::kMax ? Select(x > sum, x, sum) : Select(x < sum, x, sum);
}

/// `sum` is what there was before `x`. Where that is a NaN, it is still there after Extreme.
template <class N>
HAMMOCK_BODY N Combine(ReduceFn fn, const N& sum, const N& x) {
  constexpr bool kFloat = std::floating_point<typename N::Element>;
  switch (fn) {
    case ReduceFn::kSum:
      return sum + x;
    case ReduceFn::kProd:
      return sum * x;
    case ReduceFn::kMax:
    case ReduceFn::kMin:
      if constexpr (kFloat) return Select(IsNan(x), x, Extreme(fn, sum, x));
      return Extreme(fn, sum, x);
    case ReduceFn::kAny:
    case ReduceFn::kAll:
      break;  // of truth values only
  }
  return sum;
}

/// The neutral element.
template <class T>
constexpr T IdentityOf(ReduceFn fn) {
  using Limits = std::numeric_limits<T>;
  constexpr T kHighest = Limits::has_infinity ? Limits::infinity() : Limits::max();
  constexpr T kLowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  switch (fn) {
    case ReduceFn::kProd:
    case ReduceFn::kAll:
      return 1;
    case ReduceFn::kMax:
      return kLowest;
    case ReduceFn::kMin:
      return kHighest;
    case ReduceFn::kSum:
    case ReduceFn::kAny:
      break;
  }
  return 0;
}

}  // namespace hammock::compiler
