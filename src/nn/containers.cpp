#include "hammock/nn/containers.h"

#include <algorithm>

#include "base/throw.h"

namespace hammock::nn {

Tensor SequentialImpl::Run(const Tensor& input) {
  Tensor value = input;
  for (const auto& [name, layer] : named_children()) value = (*layer)(value);
  return value;
}

namespace {

void CheckIndex(const Module& module, const IndexArg& index, size_t size) {
  if (index.index >= 0 && index.index < static_cast<int64_t>(size)) return;
  LocationScope scope(index.at);
  Throw(ErrorCode::kIndexOutOfRange, "{}: number {} asked for, there are {}", module.class_name(),
        index.index, size);
}

}  // namespace

const ModulePtr& detail::ChildAt(const Module& module, const IndexArg& index) {
  const auto& children = module.named_children();
  CheckIndex(module, index, children.size());
  return children[index.index].second;
}

void ModuleListImpl::ThrowOtherType(const IndexArg& index) const {
  LocationScope scope(index.at);
  Throw<TypeError>(ErrorCode::kValue, "ModuleList: number {} is a {}", index.index,
                   (*this)[index]->class_name());
}

ModuleDictImpl::ModuleDictImpl(const std::vector<std::pair<std::string, ModulePtr>>& modules)
    : ModuleDictImpl() {
  for (const auto& [name, module] : modules) insert(name, module, Location());
}

ParameterListImpl::ParameterListImpl() : Module("ParameterList") {}

void ParameterListImpl::push_back(const Tensor& value, Location at) {
  parameters_.push_back(register_parameter(std::to_string(size()), value, true, at));
}

Parameter& ParameterListImpl::operator[](const IndexArg& index) {
  CheckIndex(*this, index, size());
  return parameters_[index.index];
}

ParameterDictImpl::ParameterDictImpl() : Module("ParameterDict") {}
ParameterDictImpl::ParameterDictImpl(const NamedTensors& values) : ParameterDictImpl() {
  for (const auto& [name, value] : values) insert(name, value, Location());
}

bool ParameterDictImpl::contains(const std::string& name) const {
  return parameters_.contains(name);
}

void ParameterDictImpl::insert(const std::string& name, const Tensor& value, Location at) {
  parameters_.emplace(name, register_parameter(name, value, true, at));
}

Parameter& ParameterDictImpl::operator[](const NameArg& name) {
  auto entry = parameters_.find(name.name);
  if (entry != parameters_.end()) return entry->second;
  LocationScope scope(name.at);
  Throw(ErrorCode::kUnknownName, "ParameterDict has no parameter '{}'", name.name);
}

bool ModuleDictImpl::contains(const std::string& name) const {
  return std::any_of(named_children().begin(), named_children().end(),
                     [&](const auto& child) { return child.first == name; });
}

}  // namespace hammock::nn
