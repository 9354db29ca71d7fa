#pragma once
/// How reductions combine two values, over any type of numbers: Note [Scalar bodies] in
/// scalar_bodies.h, Note [Reductions] in kernel.h.

#include <limits>

#include "compiler/kernel.h"
#include "compiler/scalar_bodies.h"

namespace hammock::compiler {

/// `sum` is what there was before `x`. The inner selects are one instruction, after which a `sum`
/// that is a NaN is still there.
template <class N>
HAMMOCK_BODY N Combine(ReduceFn fn, const N& sum, const N& x) {
  constexpr bool kFloat = std::floating_point<typename N::Element>;
  switch (fn) {
    case ReduceFn::kSum:
      return sum + x;
    case ReduceFn::kProd:
      return sum * x;
    case ReduceFn::kMax:
      if constexpr (kFloat) return Select(IsNan(x), x, Select(x > sum, x, sum));
      return Select(x > sum, x, sum);
    case ReduceFn::kMin:
      if constexpr (kFloat) return Select(IsNan(x), x, Select(x < sum, x, sum));
      return Select(x < sum, x, sum);
    case ReduceFn::kAny:
    case ReduceFn::kAll:
      break;  // of truth values only
  }
  return sum;
}

/// What changes nothing when it is combined.
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
