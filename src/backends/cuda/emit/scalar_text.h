#pragma once
/// Scalar functions, casts and reductions as text of CUDA C++: expressions that call device
/// functions, which are collected on the way.

#include <map>
#include <string>
#include <vector>

#include "compiler/loops/kernel.h"

namespace hammock::cuda {

/// Whether there is text for the function on this dtype.
bool HasText(ScalarFn fn, DType dtype);

/// Not thread-safe; one for each module.
class ScalarText {
 public:
  /// `fn` of operands of one dtype. The result is rounded to that dtype, or a bool.
  std::string Scalar(ScalarFn fn, DType dtype, const std::vector<std::string>& operands);
  std::string Cast(const std::string& value, DType from, DType to);
  std::string Bitcast(const std::string& value, DType from, DType to);
  std::string FromMemory(const std::string& element, DType dtype);
  std::string ToMemory(const std::string& value, DType dtype);
  /// A value from the 64 bits that hold it in their lowest bytes.
  std::string FromBits(const std::string& bits, DType dtype);
  /// `sum` is the value before `x`.
  std::string Combine(compiler::ReduceFn fn, DType dtype, const std::string& sum,
                      const std::string& x);
  std::string Identity(compiler::ReduceFn fn, DType dtype);

  /// The functions that the expressions call, in an order in which they can be compiled.
  std::string Functions() const;

 private:
  std::string Call(const std::string& name, const std::vector<std::string>& operands);
  void Define(const std::string& name, ScalarFn fn, DType dtype);
  void DefineWithoutBody(const std::string& name, ScalarFn fn, DType dtype);

  std::map<std::string, std::string> tables_;
  std::map<std::string, std::string> functions_;  // text by name
};

}  // namespace hammock::cuda
