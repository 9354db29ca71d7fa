#include "engine/aten_op.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <hammock/ir/function.h>
#include <hammock/ops/elementwise.h>
#include <hammock/ops/view.h>

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "engine/scope.h"

// Note [Matching schemas]
// A record fits an op of PyTorch if every argument that the op must be given has a counterpart: the
// argument of the same name, else the next one without counterpart of a type that takes it.
// Arguments of the record without counterpart take the record's default. Arguments of PyTorch
// without counterpart must have PyTorch's default in the call, unless they say nothing of values
// (kIgnored). Records with fewer arguments come first: `add` before `add.alpha`, which is tried
// where alpha is not 1. Values are converted by the type of the record's argument (Converted).
// Names say that in the namespaces aten and prim alone: `mylib::relu` is what its library says, and
// an adaptor of an op of another namespace has that in its name.

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;
using hammock::OpDef;
using hammock::SchemaArgument;
using hammock::SchemaType;
using Base = hammock::SchemaType::Base;

namespace {

constexpr std::string_view kIgnored[] = {"device",        "layout",       "pin_memory",
                                         "memory_format", "implicit",     "non_blocking",
                                         "sparse_grad",   "requires_grad"};

bool IsIgnored(const std::string& argument) {
  return std::find(std::begin(kIgnored), std::end(kIgnored), argument) != std::end(kIgnored);
}

bool SameName(const std::string& a, const std::string& b) {
  auto is_self = [](const std::string& name) { return name == "self" || name == "input"; };
  return a == b || (is_self(a) && is_self(b));
}

bool IsNumber(c10::TypeKind kind) {
  return kind == c10::TypeKind::NumberType || kind == c10::TypeKind::IntType ||
         kind == c10::TypeKind::FloatType || kind == c10::TypeKind::BoolType ||
         kind == c10::TypeKind::ComplexType;
}

/// 0 for a type that is taken as it is, more the further it is converted, -1 if it is not.
int Distance(c10::TypePtr theirs, const SchemaType& ours, const std::string& name) {
  if (ours.base == Base::kAny) return 3;
  if (auto optional = theirs->cast<c10::OptionalType>()) theirs = optional->getElementType();
  if (auto list = theirs->cast<c10::ListType>()) {
    if (!ours.list) return -1;
    SchemaType item = ours;
    item.list = false;
    return Distance(list->getElementType(), item, name);
  }
  int list_cost = ours.list ? (ours.fixed_length > 0 ? 1 : -1) : 0;
  if (list_cost < 0) return -1;
  c10::TypeKind kind = theirs->kind();
  switch (ours.base) {
    case Base::kTensor:
      return kind == c10::TypeKind::TensorType ? list_cost : IsNumber(kind) ? 2 : -1;
    case Base::kScalar:
      return kind == c10::TypeKind::NumberType ? 0 : IsNumber(kind) ? 1 : -1;
    case Base::kInt:
      return kind == c10::TypeKind::IntType      ? list_cost
             : kind == c10::TypeKind::NumberType ? 2
                                                 : -1;
    case Base::kFloat:
      return kind == c10::TypeKind::FloatType ? list_cost : IsNumber(kind) ? 1 : -1;
    case Base::kBool:
      return kind == c10::TypeKind::BoolType ? 0 : -1;
    case Base::kString:
      if (kind == c10::TypeKind::StringType) return 0;
      return kind == c10::TypeKind::IntType && name == "reduction" ? 1 : -1;
    case Base::kDType:
      return kind == c10::TypeKind::IntType ? 0 : -1;
    case Base::kDevice:
    case Base::kGenerator:
      return 0;
    default:
      return -1;
  }
}

bool SameValue(const Any& a, const Any& b) {
  if (a.IsNone() || b.IsNone()) return a.IsNone() && b.IsNone();
  if (a.IsNumber() && b.IsNumber()) return a.ToScalar().ToDouble() == b.ToScalar().ToDouble();
  if (a.IsSequence() && b.IsSequence()) {
    return std::equal(a.ToList().begin(), a.ToList().end(), b.ToList().begin(), b.ToList().end(),
                      SameValue);
  }
  return a.kind() == Any::Kind::kString && b.kind() == Any::Kind::kString &&
         a.ToStringRef() == b.ToStringRef();
}

/// `value` as an argument of that type takes it; nothing where it does not.
std::optional<Any> Converted(const Any& value, const SchemaArgument& argument) {
  const SchemaType& type = argument.type;
  if (type.base == Base::kDevice) return Any(CurrentDevice().to_string());
  Any result = value;
  if (type.base == Base::kDType && value.kind() == Any::Kind::kInt) {
    result = ToDType(static_cast<c10::ScalarType>(value.ToInt()));
  } else if (type.base == Base::kString && value.kind() == Any::Kind::kInt) {
    result = ReductionName(value.ToInt());
  } else if (type.fixed_length > 1 && value.IsSequence() && value.ToList().size() == 1) {
    result = AnyList(static_cast<size_t>(type.fixed_length), value.ToList()[0]);
  } else if (type.base == Base::kInt && !type.list && value.kind() == Any::Kind::kFloat &&
             value.ToDouble() == static_cast<double>(static_cast<int64_t>(value.ToDouble()))) {
    result = static_cast<int64_t>(value.ToDouble());
  }
  if (result.IsNone()) return type.optional ? result : argument.default_value;
  if (!type.Accepts(result)) return std::nullopt;
  if (type.list && !result.IsSequence()) {
    return AnyList(static_cast<size_t>(type.fixed_length), result);
  }
  if (type.list || !result.IsNumber()) return result;
  if (type.base == Base::kFloat) return Any(result.ToDouble());
  return type.base == Base::kInt ? Any(result.ToInt()) : result;
}

/// "view_copy" is the view with memory of its own: of a value, the same.
std::string WithoutCopy(const std::string& name) {
  constexpr std::string_view kSuffix = "_copy";
  if (name.size() <= kSuffix.size() || !name.ends_with(kSuffix)) return name;
  std::string base = name.substr(0, name.size() - kSuffix.size());
  return base == "index" || base == "_to" || base == "lift_fresh" ? name : base;
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

/// An argument that only takes a result.
bool IsOutArgument(const c10::Argument& argument) {
  return IsWritten(argument) && argument.kwarg_only();
}

/// The overload that "Scalar_out" writes the result of: "Scalar".
std::string WithoutOut(const std::string& overload) {
  if (!overload.ends_with("out")) return overload;
  return overload.substr(0, overload.size() - std::min<size_t>(4, overload.size()));
}

/// Whether an op draws random numbers, which are PyTorch's (Note [Random numbers]).
bool IsRandom(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    c10::TypePtr type = argument.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() == c10::TypeKind::GeneratorType) return true;
  }
  auto op = c10::Dispatcher::singleton().findSchema(schema.operator_name());
  return op && op->hasTag(at::Tag::nondeterministic_seeded);
}

/// Whether tensors go in or out; ops on numbers alone are the host's.
bool IsOfTensors(const c10::FunctionSchema& schema) {
  auto holds = [](const c10::Argument& argument) {
    c10::TypePtr type = argument.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (auto list = type->cast<c10::ListType>()) type = list->getElementType();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->kind() == c10::TypeKind::TensorType;
  };
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), holds) ||
         std::any_of(schema.returns().begin(), schema.returns().end(), holds);
}

bool IsOfTorch(const std::string& name) {
  return name.starts_with("aten::") || name.starts_with("prim::");
}

std::string FullName(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty() ? schema.name()
                                        : schema.name() + "." + schema.overload_name();
}

}  // namespace

const AtenOp& AtenOp::Of(const c10::FunctionSchema& schema) {
  static std::shared_mutex mutex;
  static auto& table = *new std::unordered_map<std::string, std::unique_ptr<AtenOp>>;
  std::string name = FullName(schema);
  {
    std::shared_lock lock(mutex);
    if (auto found = table.find(name); found != table.end()) return *found->second;
  }
  std::unique_ptr<AtenOp> made(new AtenOp(schema));
  std::unique_lock lock(mutex);
  return *table.emplace(name, std::move(made)).first->second;
}

AtenOp::AtenOp(const c10::FunctionSchema& schema) : schema_(schema), name_(FullName(schema)) {
  for (const c10::Argument& argument : schema_.arguments()) {
    argument_names_.push_back(argument.name());
    std::optional<Any> value;
    if (argument.default_value()) value = FromIValue(*argument.default_value(), CurrentDevice());
    defaults_.push_back(std::move(value));
  }
  if (!IsOfTorch(schema_.name())) {
    adaptor_ = FindAdaptor(schema_.name());
    return;
  }
  std::string base = schema_.name().substr(schema_.name().find("::") + 2);
  std::string overload = schema_.overload_name();
  bool writes_outs =
      std::any_of(schema_.arguments().begin(), schema_.arguments().end(), IsOutArgument);
  adaptor_ = FindAdaptor(base + "." + overload);
  // An adaptor of all overloads knows nothing of `out` arguments.
  if (!adaptor_ && !writes_outs) adaptor_ = FindAdaptor(base);
  bool in_place = base.ends_with("_") && !base.ends_with("__");
  std::string pure = in_place ? base.substr(0, base.size() - 1) : base;
  // An adaptor of the op without writing knows more than a record that writes.
  bool adapted = in_place && (FindAdaptor(pure + "." + overload) || FindAdaptor(pure));
  if (!adaptor_ && !writes_outs && !adapted) FindCandidates(base);
  std::string copied = WithoutCopy(base);
  if (!known() && !writes_outs && copied != base) {
    adaptor_ = FindAdaptor(copied + "." + overload);
    if (!adaptor_) adaptor_ = FindAdaptor(copied);
    if (!adaptor_) FindCandidates(copied);
  }
  if (known()) return;
  // The op without writing: "relu_" as "relu", "add.out" without its last arguments.
  std::vector<c10::Argument> kept;
  for (size_t i = 0; i < schema_.arguments().size(); ++i) {
    const c10::Argument& argument = schema_.arguments()[i];
    // Of an op with `out` arguments, the op without them writes to all others itself.
    if (writes_outs ? IsOutArgument(argument) : IsWritten(argument)) written_.push_back(i);
    if (!IsOutArgument(argument)) {
      kept.emplace_back(argument.name(), argument.type(), argument.N(), argument.default_value(),
                        argument.kwarg_only());
    }
  }
  if (written_.empty() || !(in_place || writes_outs)) return;
  std::unique_ptr<AtenOp> op(new AtenOp(
      c10::FunctionSchema("aten::" + pure, WithoutOut(overload), kept, schema_.returns())));
  if (op->known()) pure_ = std::move(op);
}

void AtenOp::FindCandidates(const std::string& name) {
  if (!IsOfTensors(schema_) || IsRandom(schema_)) return;
  std::vector<const OpDef*> records = hammock::op_registry::Overloads(name);
  auto callable = [](const OpDef* record) { return record->call != nullptr; };
  if (std::any_of(records.begin(), records.end(), callable)) {
    std::erase_if(records, [&](const OpDef* record) { return !callable(record); });
  }
  for (const OpDef* record : records) {
    if (auto candidate = Match(*record)) candidates_.push_back(*std::move(candidate));
  }
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score < b.score; });
}

/// Whether a record returns as many values; one that returns Any or a list says nothing of it.
bool AtenOp::SameResults(const OpDef& record) const {
  const hammock::FunctionSchema& schema = record.info().schema;
  size_t ours = schema.returns().size(), theirs = schema_.returns().size();
  bool open = schema.variadic_returns() || (ours == 1 && schema.returns()[0].base == Base::kAny);
  return open || ours == theirs;
}

std::optional<AtenOp::Candidate> AtenOp::Match(const OpDef& record) const {
  const auto& theirs = schema_.arguments();
  const auto& ours = record.info().schema.arguments();
  Candidate candidate;
  candidate.record = &record;
  candidate.sources.assign(ours.size(), -1);
  std::vector<bool> used(theirs.size());
  candidate.score = 10 * static_cast<int>(ours.size());
  if (!SameResults(record)) return std::nullopt;
  auto join = [&](size_t i, size_t j, int furthest) {
    int distance = Distance(theirs[j].type(), ours[i].type, ours[i].name);
    if (distance < 0 || distance > furthest) return false;
    candidate.sources[i] = static_cast<int>(j);
    candidate.score += distance;
    used[j] = true;
    return true;
  };
  for (size_t i = 0; i < ours.size(); ++i) {
    for (size_t j = 0; j < theirs.size(); ++j) {
      if (used[j] || !SameName(ours[i].name, theirs[j].name())) continue;
      if (!join(i, j, 3)) return std::nullopt;
      break;
    }
  }
  size_t next = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (candidate.sources[i] >= 0 || ours[i].keyword_only) continue;
    while (next < theirs.size() && (used[next] || IsIgnored(theirs[next].name()))) ++next;
    bool joined = next < theirs.size() && !theirs[next].kwarg_only() && join(i, next, 1);
    if (!joined && !ours[i].default_value && !ours[i].type.optional) return std::nullopt;
  }
  for (size_t j = 0; j < theirs.size(); ++j) {
    if (used[j] || IsIgnored(theirs[j].name())) continue;
    if (!defaults_[j]) return std::nullopt;
    candidate.unmatched.push_back(static_cast<int>(j));
  }
  return candidate;
}

std::optional<std::vector<Any>> AtenOp::Bind(const Candidate& candidate,
                                             const std::vector<Any>& values,
                                             std::string* why_not) const {
  const hammock::FunctionSchema& schema = candidate.record->info().schema;
  for (int j : candidate.unmatched) {
    if (SameValue(values[static_cast<size_t>(j)], *defaults_[static_cast<size_t>(j)])) continue;
    *why_not += "; " + schema.to_string() + " has no " + schema_.arguments()[j].name();
    return std::nullopt;
  }
  std::vector<Any> bound;
  const auto& ours = schema.arguments();
  for (size_t i = 0; i < ours.size(); ++i) {
    int source = candidate.sources[i];
    std::optional<Any> value;
    if (source >= 0 || ours[i].type.base == Base::kDevice) {
      value = Converted(source < 0 ? Any() : values[static_cast<size_t>(source)], ours[i]);
    } else {
      value = ours[i].default_value ? *ours[i].default_value : Any();
    }
    if (!value) {
      *why_not += "; " + schema.to_string() + " does not take " + ours[i].name;
      return std::nullopt;
    }
    bound.push_back(*std::move(value));
  }
  return bound;
}

Any AtenOp::Call(const std::vector<Any>& values) const {
  if (adaptor_) return adaptor_(AtenCall(argument_names_, values));
  if (pure_) return CallAndWrite(values);
  std::string why_not;
  for (const Candidate& candidate : candidates_) {
    auto bound = Bind(candidate, values, &why_not);
    if (!bound) continue;
    const OpDef& record = *candidate.record;
    return record.call ? record.call(*bound) : hammock::CallOp(record.name(), *bound);
  }
  throw Unsupported(name_ + (candidates_.empty() ? ": Hammock has no such op" : why_not));
}

Any AtenOp::CallAndWrite(const std::vector<Any>& values) const {
  std::vector<Any> inputs;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!IsOutArgument(schema_.arguments()[i])) inputs.push_back(values[i]);
  }
  Any result = pure_->Call(inputs);
  AnyList results = result.IsSequence() ? result.ToList() : AnyList{result};
  for (size_t i = 0; i < written_.size() && i < results.size(); ++i) {
    if (!results[i].IsTensor() || !values[written_[i]].IsTensor()) continue;
    hammock::Tensor target = values[written_[i]].ToTensor();
    hammock::Tensor value = results[i].ToTensor();
    // PyTorch gives an `out` of another size the size of the result; here only its value counts.
    if (target.sizes() == value.sizes()) {
      results[i] = hammock::copy_(target, value);
    } else {
      results[i] = value.to(target.dtype());
    }
  }
  return result.IsSequence() ? Any::Tuple(results) : results[0];
}

}  // namespace hammock_torch
