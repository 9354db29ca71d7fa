#pragma once
/// The scalar functions that elementwise primitives are made of. Every fact of one stands in its
/// row of scalar_fn.inc, from which the enumeration and `InfoOf` are made; what it computes is
/// written by the emitters and the reference interpreter. scalar_table_test.cpp goes through the
/// table and fails where one of them lacks a function.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hammock/ir/dtype.h"

namespace hammock {

enum class ScalarFn : uint8_t {
#define HAMMOCK_FN(name, ...) k##name,
#include "hammock/ir/scalar_fn.inc"
#undef HAMMOCK_FN
};

/// The operands and the result of a function.
enum class ScalarForm : uint8_t {
  kNone,
  kUnary,    ///< f(x)
  kTest,     ///< f(x), a truth value
  kBinary,   ///< f(x, y)
  kCompare,  ///< f(x, y), a truth value
  kSelect,   ///< f(truth value, x, y)
};

/// How a function is compiled for elements of some dtype; later ones ask for shorter vectors.
enum class ScalarBody : uint8_t {
  kLight,   ///< inline, an instruction or two
  kHeavy,   ///< inline, a polynomial
  kWide,    ///< inline, a polynomial in double
  kByLane,  ///< inline, divisions of integers: each lane by itself
  kCall,    ///< a call of a C function for each lane
  kAbsent,  ///< there is no such function of these elements
};

/// The errors that a function may raise.
enum class ScalarError : uint8_t {
  kNone,
  kDivide,  ///< integers are divided by 0
};

/// A row of the table.
struct ScalarFnInfo {
  std::string_view op;  ///< the name of the primitive that computes it
  ScalarForm form;
  ScalarBody floats;
  ScalarBody ints;  ///< and of bool
  int cost;         ///< about how many simple instructions it takes for each element
  /// Every backend gives the same bits for floats, also for zeros and their signs, so that it may
  /// be computed at compile time.
  bool exact;
  /// Bounds of the error of compiled code, in units in the last place; 0 where results are
  /// correctly rounded. That of gelu holds above -1.
  double f32_ulps;
  double f64_ulps;
  ScalarError raises;
};

inline constexpr ScalarFnInfo kScalarFns[] = {
#define HAMMOCK_FN(name, op, form, floats, ints, cost, exact, f32, f64, raises)              \
  {#op, ScalarForm::k##form,   ScalarBody::k##floats, ScalarBody::k##ints, cost, exact, f32, \
   f64, ScalarError::k##raises},
#include "hammock/ir/scalar_fn.inc"
#undef HAMMOCK_FN
};
inline constexpr size_t kNumScalarFns = std::size(kScalarFns);

constexpr const ScalarFnInfo& InfoOf(ScalarFn fn) { return kScalarFns[static_cast<size_t>(fn)]; }
constexpr std::string_view NameOf(ScalarFn fn) { return InfoOf(fn).op; }
constexpr ScalarForm FormOf(ScalarFn fn) { return InfoOf(fn).form; }

constexpr int ArityOf(ScalarFn fn) {
  switch (FormOf(fn)) {
    case ScalarForm::kNone:
      return 0;
    case ScalarForm::kUnary:
    case ScalarForm::kTest:
      return 1;
    case ScalarForm::kBinary:
    case ScalarForm::kCompare:
      return 2;
    case ScalarForm::kSelect:
      return 3;
  }
  return 0;
}

/// Whether results are truth values.
constexpr bool IsTruth(ScalarFn fn) {
  return FormOf(fn) == ScalarForm::kTest || FormOf(fn) == ScalarForm::kCompare;
}

constexpr ScalarBody BodyOf(ScalarFn fn, DType dtype) {
  if (dtype <= DType::kI64) return InfoOf(fn).ints;
  return dtype <= DType::kF64 ? InfoOf(fn).floats : ScalarBody::kAbsent;
}

/// Whether the function of these elements divides integers, and so raises for a divisor of 0.
constexpr bool DividesIntegers(ScalarFn fn, DType dtype) {
  return dtype <= DType::kI64 && InfoOf(fn).raises == ScalarError::kDivide;
}

}  // namespace hammock
