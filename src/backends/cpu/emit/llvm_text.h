#pragma once
/// Prints LLVM IR. It numbers values, collects the declarations of what is called, and knows the
/// names of types; what the lines mean is its user's business. No LLVM is needed.
///   IrText ir;
///   ir.BeginFunction("void @twice(ptr %x)");
///   std::string x = ir.Value("load float, ptr %x, align 4");          // %0 = load ...
///   std::string y = ir.Value("fadd float {}, {}", x, x);              // %1 = fadd float %0, %0
///   ir.Line("store float {}, ptr %x, align 4", y);
///   ir.Line("ret void");
///   ir.EndFunction();
///   ir.Module()

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "hammock/ir/dtype.h"

namespace hammock::compiler {

/// The type of one element as values have it: "float", "i8" (also for bool in memory), "half".
std::string_view IrElement(DType dtype);
/// `element`, or a vector of it: "<16 x float>".
std::string IrType(std::string_view element, int lanes);
/// A constant in all lanes: "0x3FF8000000000000" or "splat (float 0x3FF8000000000000)". Exact.
std::string IrConstant(std::string_view element, int lanes, double value);
std::string IrConstant(std::string_view element, int lanes, int64_t value);

/// Instructions that the code may use because the processor has them.
struct IrTarget {
  bool scale = false;  ///< AVX-512's multiplication by powers of two
};

/// Not thread-safe; one for each module.
class IrText {
 public:
  explicit IrText(const IrTarget& target = {}) : target_(target) {}
  const IrTarget& target() const { return target_; }

  /// `signature`: "void @name(ptr %x)" and attributes. All parameters and labels need names, since
  /// values are numbered from 0 in each function.
  void BeginFunction(std::string_view signature);
  void EndFunction();

  /// %n = text; returns "%n".
  template <class... Args>
  std::string Value(fmt::format_string<Args...> format, Args&&... args) {
    return Define(fmt::format(format, std::forward<Args>(args)...));
  }
  /// A line that makes no value, or one with a name of its own ("%next = add ...").
  template <class... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    Add(fmt::format(format, std::forward<Args>(args)...));
  }
  /// Begins a block.
  void Label(std::string_view name);
  /// A name that no other call gave: "stem0", "stem1", ...
  std::string NewName(std::string_view stem);
  /// A function or constant that the module refers to; each line is printed once.
  void Declare(std::string line);
  /// Calls an intrinsic on values of one type, which is also the result's: Intrinsic("fma",
  /// "float", 16, "%0", "%1", "%2").
  template <class... Names>
  std::string Intrinsic(std::string_view name, std::string_view element, int lanes,
                        const Names&... values) {
    std::string_view names[] = {values...};
    return CallIntrinsic(name, element, lanes, names, sizeof...(values));
  }

  /// Elements of a table of constants, which becomes part of the module; `index` is of i64.
  std::string Lookup(std::span<const double> table, int lanes, std::string_view index);
  /// x * 2^n, rounded once, of vectors that fill registers of 512 bits; needs target().scale.
  std::string Scale(std::string_view element, int lanes, std::string_view x, std::string_view n);

  /// All functions and declarations so far.
  std::string Module() const;

 private:
  std::string Define(std::string_view text);
  void Add(std::string_view line);
  std::string CallIntrinsic(std::string_view name, std::string_view element, int lanes,
                            const std::string_view* values, size_t count);

  std::string ScalePart(std::string_view element, int lanes, std::string_view x,
                        std::string_view n);
  /// Lanes [first, first + lanes) of the two values one after the other, of `from` lanes each.
  std::string Lanes(std::string_view element, int from, std::string_view a, std::string_view b,
                    int first, int lanes);

  IrTarget target_;
  std::string text_;
  std::set<std::string> declarations_;
  std::map<const double*, std::string> tables_;  // names
  int next_value_ = 0;
  int next_name_ = 0;
};

}  // namespace hammock::compiler
