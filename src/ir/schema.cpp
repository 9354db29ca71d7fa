#include "hammock/ir/schema.h"

#include <algorithm>
#include <utility>

#include "base/nearest.h"
#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "ir/schema_access.h"
#include "ir/text.h"

namespace hammock {
namespace {

using Base = SchemaType::Base;
using Kind = Any::Kind;

bool AcceptsAll(const std::vector<SchemaType>& types, const Any& value) {
  if (!value.IsSequence() || value.ToList().size() != types.size()) return false;
  for (size_t i = 0; i < types.size(); ++i) {
    if (!types[i].Accepts(value.ToList()[i])) return false;
  }
  return true;
}

bool AcceptsItem(const SchemaType& type, const Any& value) {
  Kind kind = value.kind();
  switch (type.base) {
    case Base::kFloat:
      return value.IsNumber() && kind != Kind::kComplex;
    case Base::kTensor:
    case Base::kScalar:
      return value.IsNumber() || (type.base == Base::kTensor && kind == Kind::kTensor);
    case Base::kInt:
      return kind == Kind::kInt || kind == Kind::kBool;
    case Base::kBool:
      return kind == Kind::kBool;
    case Base::kString:
      return kind == Kind::kString;
    case Base::kDType:
      return kind == Kind::kDType;
    case Base::kDevice:  // by name, or the front end's object
      return kind == Kind::kString || kind == Kind::kObject;
    case Base::kGenerator:
      return kind == Kind::kObject;
    case Base::kGraph:
      return kind == Kind::kGraph;
    case Base::kDict: {
      if (kind != Kind::kDict) return false;
      const AnyDict& items = value.ToDict();
      return std::all_of(items.begin(), items.end(),
                         [&](const auto& item) { return type.inner[0].Accepts(item.second); });
    }
    case Base::kTuple:
      return kind == Kind::kTuple && AcceptsAll(type.inner, value);
    case Base::kObject:
      return kind == Kind::kObject && value.type_name() == type.class_name;
    case Base::kNested:
      return type.inner[0].Accepts(value);
    case Base::kAny:
      return true;
    case Base::kNone:
      return kind == Kind::kNone;
  }
  return false;
}

/// Whether values of that type may have to be converted.
bool Converts(const SchemaType& type) {
  return type.base == Base::kInt || type.base == Base::kFloat || type.fixed_length > 0 ||
         std::any_of(type.inner.begin(), type.inner.end(), Converts);
}

Any ConvertItem(const SchemaType& type, const Any& value) {
  if (value.IsNone() || !Converts(type)) return value;
  switch (type.base) {
    case Base::kFloat:
      return Any(value.ToDouble());
    case Base::kInt:
      return Any(value.ToInt());
    case Base::kNested:
      return ConvertArgument(type.inner[0], value);
    case Base::kTuple: {
      AnyList items;
      for (size_t i = 0; i < type.inner.size(); ++i) {
        items.push_back(ConvertArgument(type.inner[i], value.ToList()[i]));
      }
      return Any::Tuple(std::move(items));
    }
    case Base::kDict: {
      AnyDict items;
      for (const auto& [key, item] : value.ToDict()) {
        items[key] = ConvertArgument(type.inner[0], item);
      }
      return Any(std::move(items));
    }
    default:
      return value;
  }
}

bool IsSelf(std::string_view name) { return name == "self" || name == "input"; }

}  // namespace

std::string SchemaType::to_string() const {
  std::string out;
  switch (base) {
    case Base::kDict:
      out = "Dict(str, " + inner[0].to_string() + ")";
      break;
    case Base::kTuple: {
      const char* separator = "Tuple(";
      for (const SchemaType& item : inner) {
        out += std::exchange(separator, ", ");
        out += item.to_string();
      }
      out += ')';
      break;
    }
    case Base::kObject:
      out = class_name;
      break;
    case Base::kNested:
      out = inner[0].to_string();
      break;
    default:
      out = symbolic ? "SymInt" : BaseNameOf(base);
  }
  if (list) {
    if (optional_items) out += '?';
    out += '[';
    if (fixed_length > 0) out += std::to_string(fixed_length);
    out += ']';
  }
  if (optional) out += '?';
  return out;
}

bool SchemaType::Accepts(const Any& value) const {
  if (optional && value.IsNone()) return true;
  if (!list) return AcceptsItem(*this, value);
  if (!value.IsSequence()) return fixed_length > 0 && AcceptsItem(*this, value);
  const AnyList& items = value.ToList();
  // As in PyTorch an empty list may stand for "not given" (`int[2] stride=[]`), one item for all.
  int size = static_cast<int>(items.size());
  if (fixed_length > 1 && size > 1 && size != fixed_length) return false;
  return std::all_of(items.begin(), items.end(), [&](const Any& item) {
    if (item.IsNone() && optional_items) return true;
    if (base == Base::kTensor) return item.IsTensor();  // lists of numbers are no lists of tensors
    return AcceptsItem(*this, item);
  });
}

Any ConvertArgument(const SchemaType& type, const Any& value) {
  if (value.IsNone()) return value;
  if (!type.list) return ConvertItem(type, value);
  auto repeat = [&](const Any& item) {
    return Any(AnyList(static_cast<size_t>(type.fixed_length), ConvertItem(type, item)));
  };
  if (!value.IsSequence()) return repeat(value);
  if (type.fixed_length > 1 && value.ToList().size() == 1) return repeat(value.ToList()[0]);
  if (!Converts(type)) return value;
  AnyList items;
  for (const Any& item : value.ToList()) items.push_back(ConvertItem(type, item));
  return Any(std::move(items));
}

std::string FunctionSchema::full_name() const {
  return overload_.empty() ? name_ : name_ + "." + overload_;
}

int FunctionSchema::IndexOf(std::string_view argument) const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].name == argument) return static_cast<int>(i);
  }
  if (!IsSelf(argument)) return -1;
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (IsSelf(arguments_[i].name)) return static_cast<int>(i);
  }
  return -1;
}

std::string FunctionSchema::to_string() const {
  std::string out = full_name() + "(";
  bool keywords = false;
  const char* separator = "";
  for (const SchemaArgument& argument : arguments_) {
    out += std::exchange(separator, ", ");
    if (argument.keyword_only && !std::exchange(keywords, true)) out += "*, ";
    std::string type = argument.type.to_string();
    size_t base = BaseNameOf(argument.type.base).size();
    if (argument.written) type.insert(base, "(a!)");
    out += type + " " + argument.name;
    if (!argument.default_value) continue;
    const Any& value = *argument.default_value;
    out += '=';
    out += value.IsNone() ? "None" : value.to_string();
  }
  out += ") -> ";
  if (returns_.size() == 1) return out + returns_[0].to_string();
  separator = "(";
  if (returns_.empty()) out += '(';
  for (const SchemaType& type : returns_) {
    out += std::exchange(separator, ", ");
    out += type.to_string();
  }
  return out + ")";
}

std::vector<Any> FunctionSchema::Bind(
    const std::vector<Any>& args, const std::vector<std::pair<std::string, Any>>& kwargs) const {
  std::string why_not;
  if (auto bound = TryBind(args, kwargs, &why_not)) return *std::move(bound);
  Throw<TypeError>(ErrorCode::kSchema, "{}: {}; its schema is {}", full_name(), why_not,
                   to_string());
}

namespace {

// One call's arguments, as far as they are bound.
class Binder {
 public:
  explicit Binder(const FunctionSchema& schema)
      : schema_(schema), bound_(schema.arguments().size()), given_(bound_.size(), false) {}

  bool Positional(const std::vector<Any>& args) {
    const auto& arguments = schema_.arguments();
    size_t limit = std::count_if(arguments.begin(), arguments.end(),
                                 [](const SchemaArgument& a) { return !a.keyword_only; });
    if (args.size() > limit) {
      return Fail(fmt::format("takes at most {} positional arguments, got {}", limit, args.size()));
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (!Set(i, args[i])) return false;
    }
    return true;
  }

  bool Keywords(const std::vector<std::pair<std::string, Any>>& kwargs) {
    for (const auto& [name, value] : kwargs) {
      int index = schema_.IndexOf(name);
      if (index < 0) return FailUnknown(name);
      if (given_[index]) return Fail(fmt::format("argument '{}' is given twice", name));
      if (!Set(index, value)) return false;
    }
    return true;
  }

  bool Defaults() {
    for (size_t i = 0; i < bound_.size(); ++i) {
      if (given_[i]) continue;
      const SchemaArgument& argument = schema_.arguments()[i];
      if (!argument.default_value) {
        return Fail(
            fmt::format("argument '{}' ({}) is missing", argument.name, argument.type.to_string()));
      }
      // Lists are shared by reference: the caller gets one of its own.
      const Any& value = *argument.default_value;
      bound_[i] = value.IsList() ? Any(AnyList(value.ToList())) : value;
    }
    return true;
  }

  std::vector<Any> Take() { return std::move(bound_); }
  std::string TakeReason() { return std::move(reason_); }

 private:
  bool Set(size_t index, const Any& value) {
    const SchemaArgument& argument = schema_.arguments()[index];
    if (!argument.type.Accepts(value)) {
      return Fail(fmt::format("argument '{}' must be {}, got {}: {}", argument.name,
                              argument.type.to_string(), value.type_name(), value.to_string()));
    }
    bound_[index] = ConvertArgument(argument.type, value);
    given_[index] = true;
    return true;
  }

  bool FailUnknown(const std::string& name) {
    std::vector<std::string_view> names;
    for (const SchemaArgument& argument : schema_.arguments()) names.push_back(argument.name);
    std::string_view nearest = NearestName(name, names);
    if (nearest.empty()) return Fail(fmt::format("there is no argument '{}'", name));
    return Fail(fmt::format("there is no argument '{}'; did you mean '{}'?", name, nearest));
  }

  bool Fail(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  const FunctionSchema& schema_;
  std::vector<Any> bound_;
  std::vector<bool> given_;
  std::string reason_;
};

}  // namespace

std::optional<std::vector<Any>> FunctionSchema::TryBind(
    const std::vector<Any>& args, const std::vector<std::pair<std::string, Any>>& kwargs,
    std::string* why_not) const {
  Binder binder(*this);
  if (binder.Positional(args) && binder.Keywords(kwargs) && binder.Defaults()) return binder.Take();
  if (why_not) *why_not = binder.TakeReason();
  return std::nullopt;
}

void FunctionSchema::CheckReturned(const Any& result) const {
  auto refuse = [&](const std::string& expected, const std::string& actual) {
    Throw<TypeError>(ErrorCode::kSchema, "{}: must return {}, returned {}; its schema is {}",
                     full_name(), expected, actual, to_string());
  };
  auto check = [&](const SchemaType& type, const Any& value, const std::string& which) {
    if (type.Accepts(value)) return;
    refuse(which + type.to_string(), which + value.type_name() + ": " + value.to_string());
  };
  if (returns_.size() == 1) return check(returns_[0], result, "");
  if (returns_.empty() && result.IsNone()) return;
  if (!result.IsSequence()) {
    refuse(fmt::format("{} values", returns_.size()), result.type_name());
  }
  const AnyList& values = result.ToList();
  if (values.size() != returns_.size()) {
    refuse(fmt::format("{} values", returns_.size()), fmt::format("{} values", values.size()));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    check(returns_[i], values[i], fmt::format("as result {} a ", i));
  }
}

}  // namespace hammock
