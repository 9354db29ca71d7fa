#pragma once
/// Scalar functions, casts and reductions as text of a C-like language: expressions that call
/// functions, which are collected on the way. An emitter of the loop IR (kernel.h) prints loops and
/// accesses itself, and gets the text of every other instruction here:
///
///   ScalarText scalars(kOpenClC);
///   std::string y = scalars.Scalar(ScalarFn::kExp, DType::kF32, {"x"});  // "exp_f32(x)"
///   text = scalars.Functions() + "__kernel void ...";
///
/// The text rounds each operation once, in the order of all other backends, so results have the
/// same bits where the language's +, *, / and sqrt are rounded correctly and it is compiled without
/// contraction. It calls to_f16, from_f16, to_bf16, from_bf16 (bits of 16-bit floats, unsigned
/// short), to_i64 and to_u64 (of doubles; what no integer holds becomes the smallest one), which
/// the program that includes it defines.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/compiler/kernel.h"
#include "hammock/export.h"

namespace hammock::compiler {

/// The differences between C-like languages of devices.
struct Dialect {
  std::string_view i64, u64;          ///< types of 64 bits
  std::string_view i64_end, u64_end;  ///< endings of their literals
  std::string_view function;          ///< before a function
  std::string_view table;             ///< before a table of constants
  std::string_view float_function;    ///< ending of functions of floats: "f" in sqrtf
  /// Functions that reinterpret bits.
  std::string_view float_bits, bits_float, double_bits, bits_double;
};
HAMMOCK_API extern const Dialect kCudaC;
HAMMOCK_API extern const Dialect kOpenClC;

/// The type of values of `dtype`: "float" for the 16-bit floats, "bool".
HAMMOCK_API std::string_view ValueType(const Dialect& dialect, DType dtype);
/// The type of elements in memory: "unsigned short" for the 16-bit floats, "unsigned char" for
/// bool.
HAMMOCK_API std::string_view MemoryType(const Dialect& dialect, DType dtype);

/// Whether there is text for the function on this dtype.
HAMMOCK_API bool HasText(ScalarFn fn, DType dtype);

/// Not thread-safe; one for each module.
class HAMMOCK_API ScalarText {
 public:
  explicit ScalarText(const Dialect& dialect) : dialect_(&dialect) {}

  /// `fn` of operands of one dtype. The result is rounded to that dtype, or a bool.
  std::string Scalar(ScalarFn fn, DType dtype, const std::vector<std::string>& operands);
  std::string Cast(const std::string& value, DType from, DType to);
  std::string Bitcast(const std::string& value, DType from, DType to);
  std::string FromMemory(const std::string& element, DType dtype);
  std::string ToMemory(const std::string& value, DType dtype);
  /// A value from the 64 bits that hold it in their lowest bytes.
  std::string FromBits(const std::string& bits, DType dtype);
  /// An instruction of a kernel that only computes (kScalar, kCast, kBitcast); `operand(k)` is the
  /// text of its operand k.
  std::string Computed(const Kernel& kernel, const Instr& instr,
                       const std::function<std::string(int k)>& operand);
  /// `sum` is the value before `x`.
  std::string Combine(ReduceFn fn, DType dtype, const std::string& sum, const std::string& x);
  std::string Identity(ReduceFn fn, DType dtype);

  /// The functions that the expressions call, in an order in which they can be compiled.
  std::string Functions() const;

 private:
  std::string Call(const std::string& name, const std::vector<std::string>& operands);
  void Define(const std::string& name, ScalarFn fn, DType dtype);
  void DefineWithoutBody(const std::string& name, ScalarFn fn, DType dtype);

  const Dialect* dialect_;
  std::map<std::string, std::string> tables_;
  std::map<std::string, std::string> functions_;  // text by name
};

}  // namespace hammock::compiler
