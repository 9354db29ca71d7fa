#pragma once
/// Prints what instructions compute as LLVM IR; knows nothing of loops. 16-bit floats are held as
/// floats that they can represent, truth values as i1.

#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/emit/llvm_text.h"
#include "hammock/compiler/kernel.h"

namespace hammock::cpu {

/// The element type of values in registers, and in memory.
std::string_view RegisterElement(DType dtype);
std::string_view MemoryElement(DType dtype);

class ValueEmitter {
 public:
  explicit ValueEmitter(compiler::IrText& ir) : ir_(ir) {}

  static std::string TypeOf(DType dtype, int lanes);
  /// A value whose bits are the lowest of an i64.
  std::string FromBits(const std::string& bits, DType dtype);
  std::string Splat(const std::string& value, DType dtype, int lanes);
  /// From the form that values have in memory.
  std::string FromMemory(const std::string& value, DType dtype, int lanes);
  std::string ToMemory(const std::string& value, DType dtype, int lanes);
  /// Rounds a float to a 16-bit one, where the dtype is one.
  std::string Rounded(const std::string& value, DType dtype, int lanes);
  std::string Scalar(const compiler::Instr& instr, DType operand_dtype, int lanes,
                     const std::vector<std::string>& operands);
  /// Whether a float is a power of two whose inverse is normal, as an i1: then x / value is, bit
  /// for bit, x * (1 / value). Not a 16-bit float.
  std::string HasExactInverse(const std::string& value, DType dtype);
  std::string Cast(const std::string& value, DType from, DType to, int lanes);
  std::string Bitcast(const std::string& value, DType from, DType to, int lanes);
  std::string Combine(compiler::ReduceFn fn, DType dtype, int lanes, const std::string& sum,
                      const std::string& x);
  /// Combine of a maximum or minimum of floats that are not NaNs.
  std::string Extreme(compiler::ReduceFn fn, DType dtype, int lanes, const std::string& sum,
                      const std::string& x);
  /// Whether a float of some lanes is a NaN, as an i1.
  std::string AnyNan(const std::string& value, DType dtype, int lanes);
  std::string Identity(compiler::ReduceFn fn, DType dtype, int lanes);

 private:
  std::string Convert(std::string_view op, std::string_view from, const std::string& value,
                      std::string_view to, int lanes);
  std::string FloatCast(const std::string& value, DType from, DType to, int lanes);
  /// Through i64; what that does not hold becomes its smallest value. u64 holds more.
  std::string FloatToInt(const std::string& value, DType from, DType to, int lanes);
  std::string FloatToLowBits(const std::string& value, int lanes);
  std::string BoolScalar(const compiler::Instr& instr, int lanes,
                         const std::vector<std::string>& operands);
  /// One call per lane: of a function on doubles, or on 64-bit integers.
  std::string LaneCalls(const compiler::Instr& instr, DType dtype, int lanes,
                        const std::vector<std::string>& operands);

  compiler::IrText& ir_;
};

}  // namespace hammock::cpu
