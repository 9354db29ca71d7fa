#include "ir/op_info.h"

#include <algorithm>
#include <set>

#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "ir/schema_access.h"

namespace hammock {
namespace {

using Base = SchemaType::Base;

std::set<std::string, std::less<>> SplitNames(std::string_view list) {
  std::set<std::string, std::less<>> names;
  while (!list.empty()) {
    size_t comma = std::min(list.find(','), list.size());
    std::string_view name = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) names.emplace(name);
  }
  return names;
}

template <class... Args>
[[noreturn]] void Reject(const OpInfo& info, fmt::format_string<Args...> format, Args&&... args) {
  Throw(ErrorCode::kSchema, "register: {}: {}", info.schema.to_string(),
        fmt::format(format, std::forward<Args>(args)...));
}

// Operands are tensors and lifted scalars; everything else is an attribute.
void SplitArguments(const OpDef& def, OpInfo& info) {
  auto baked = SplitNames(def.baked);
  const auto& arguments = info.schema.arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const SchemaArgument& argument = arguments[i];
    bool is_baked = baked.erase(argument.name) > 0;
    if (is_baked && argument.type.base != Base::kScalar) {
      Reject(info, "'{}' is listed as baked, but only Scalar arguments can be", argument.name);
    }
    bool scalar_operand = argument.type.base == Base::kScalar && !argument.type.list && !is_baked;
    if (argument.type.base == Base::kTensor || scalar_operand) {
      info.operand_args.push_back(static_cast<int>(i));
    } else {
      info.attribute_args.push_back(static_cast<int>(i));
    }
  }
  if (!baked.empty()) Reject(info, "baked argument '{}' does not exist", *baked.begin());
}

void CheckNodeArguments(OpInfo& info) {
  const auto& arguments = info.schema.arguments();
  for (size_t i = 0; i < info.operand_args.size(); ++i) {
    const SchemaArgument& argument = arguments[info.operand_args[i]];
    if (argument.written) Reject(info, "a node cannot write its operand '{}'", argument.name);
    if (!argument.type.list) continue;
    info.variadic = true;
    if (i + 1 != info.operand_args.size()) {
      Reject(info, "a Tensor[] operand must be the last one, unlike '{}'", argument.name);
    }
  }
  for (int index : info.attribute_args) {
    if (CanBeAttribute(arguments[index].type)) continue;
    Reject(info, "'{}' of type {} cannot be an attribute of a node", arguments[index].name,
           arguments[index].type.to_string());
  }
}

void CheckNodeResults(const OpDef& def, const OpInfo& info) {
  const auto& returns = info.schema.returns();
  for (const SchemaType& type : returns) {
    if (type.base != Base::kTensor) Reject(info, "a node returns tensors only");
  }
  if (!info.schema.variadic_returns() && static_cast<int>(returns.size()) != def.num_outputs) {
    Reject(info, "num_outputs is {}, but the schema returns {}", def.num_outputs, returns.size());
  }
  if (!def.IsElementwise()) return;
  if (def.num_outputs != 1 || info.variadic || info.operand_args.empty()) {
    Reject(info, "an elementwise op has single operands and one result");
  }
}

}  // namespace

std::unique_ptr<OpInfo> MakeOpInfo(const OpDef& def) {
  HAMMOCK_CHECK(def.schema != nullptr, "a record without a schema");
  auto info = std::make_unique<OpInfo>();
  info->schema = FunctionSchema::Parse(def.schema);
  info->name = info->schema.full_name();
  info->seed = Combine(HashString(info->name), static_cast<uint64_t>(def.version));
  if (def.version < 1) Reject(*info, "version {} is not positive", def.version);
  SplitArguments(def, *info);
  if (def.IsNode()) {
    CheckNodeArguments(*info);
    CheckNodeResults(def, *info);
  } else if (def.IsComposite()) {
    Reject(*info, "an expansion needs `infer` or `rule`");
  } else if (!def.call) {
    Reject(*info, "neither `call` nor `infer` nor `rule`: nothing to run");
  }
  return info;
}

int OpInfo::AttributeIndex(std::string_view attribute) const {
  for (size_t i = 0; i < attribute_args.size(); ++i) {
    if (schema.arguments()[attribute_args[i]].name == attribute) return static_cast<int>(i);
  }
  return -1;
}

const std::string& OpInfo::AttributeName(int index) const {
  return schema.arguments()[attribute_args[index]].name;
}

bool OpInfo::IsSize(int attribute) const {
  return schema.arguments()[attribute_args[attribute]].type.symbolic;
}

}  // namespace hammock
