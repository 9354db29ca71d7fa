#pragma once
/// FunctionSchema: a PyTorch-style signature, parsed from text such as
///   "softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor".
/// It fills defaults and checks names, counts and types; every message quotes the schema.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/any.h"

namespace hammock {

struct HAMMOCK_API SchemaType {
  enum class Base {
    kTensor,
    kScalar,
    kInt,
    kFloat,
    kBool,
    kString,
    kDType,
    kDevice,
    kGenerator,
    kGraph,
    kDict,
    kTuple,
    kObject,
    kNested,
    kAny,
    kNone
  };
  Base base = Base::kAny;
  bool list = false;
  bool optional = false;
  bool optional_items = false;  ///< "Tensor?[]": items may be none
  int fixed_length = 0;         ///< "int[2]": one number stands for all of them
  /// "SymInt": an int that is a size, or a position among elements. It takes what an int takes. As
  /// an attribute of a node it may vary among graphs that share a compilation, where an int chooses
  /// the computation (docs/design/sizes.md).
  bool symbolic = false;
  /// Of a tuple, its items; of a dict, its values; of a list of lists ("int[][]"), the lists.
  std::vector<SchemaType> inner = {};
  std::string class_name = {};  ///< of an object: "__backends__.toy"

  std::string to_string() const;
  /// Whether `value` may be passed; converts nothing.
  bool Accepts(const Any& value) const;
  bool operator==(const SchemaType&) const = default;
};

struct HAMMOCK_API SchemaArgument {
  std::string name;
  SchemaType type;
  std::optional<Any> default_value;
  bool keyword_only = false;
  bool written = false;  ///< "Tensor(a!) self": the call writes it
};

class HAMMOCK_API FunctionSchema {
 public:
  /// Throws ValueError (kParse) with the column of the fault.
  static FunctionSchema Parse(std::string_view text);

  const std::string& name() const { return name_; }          ///< "add"
  const std::string& overload() const { return overload_; }  ///< "" or "alpha" in "add.alpha(...)"
  std::string full_name() const;                             ///< "add" or "add.alpha"
  const std::vector<SchemaArgument>& arguments() const { return arguments_; }
  const std::vector<SchemaType>& returns() const { return returns_; }
  bool variadic_returns() const { return variadic_returns_; }  ///< "-> Tensor[]"
  int IndexOf(std::string_view argument) const;                ///< -1 if there is none
  std::string to_string() const;

  /// One value per argument, in order, defaults filled in. `input` and `self` name the same
  /// argument. Throws TypeError (kSchema) for wrong names, types or counts.
  std::vector<Any> Bind(const std::vector<Any>& args,
                        const std::vector<std::pair<std::string, Any>>& kwargs) const;
  /// As Bind, but returns the message instead of throwing; used to choose among overloads.
  std::optional<std::vector<Any>> TryBind(const std::vector<Any>& args,
                                          const std::vector<std::pair<std::string, Any>>& kwargs,
                                          std::string* why_not) const;
  /// TypeError (kSchema) that names what the schema returns and what was returned. Several results
  /// are a tuple or a list.
  void CheckReturned(const Any& result) const;

 private:
  std::string name_;
  std::string overload_;
  std::vector<SchemaArgument> arguments_;
  std::vector<SchemaType> returns_;
  bool variadic_returns_ = false;
};

}  // namespace hammock
