#include "hammock/nn/containers.h"

#include <algorithm>

#include "base/throw.h"

namespace hammock::nn {

Tensor SequentialImpl::forward(const Tensor& input) {
  Tensor value = input;
  for (const auto& [name, layer] : named_children()) value = (*layer)(value);
  return value;
}

void ModuleListImpl::ThrowOtherType(const std::string& name) const {
  Throw<TypeError>(ErrorCode::kValue, "ModuleList: number {} is a {}", name,
                   get_submodule(name)->class_name());
}

ModuleDictImpl::ModuleDictImpl(const std::vector<std::pair<std::string, ModulePtr>>& modules)
    : ModuleDictImpl() {
  for (const auto& [name, module] : modules) insert(name, module);
}

void ParameterListImpl::push_back(const Tensor& value) {
  parameters_.push_back(register_parameter(std::to_string(size()), value));
}

ParameterDictImpl::ParameterDictImpl(const NamedTensors& values) : ParameterDictImpl() {
  for (const auto& [name, value] : values) insert(name, value);
}

void ParameterDictImpl::insert(const std::string& name, const Tensor& value) {
  parameters_.emplace(name, register_parameter(name, value));
}

Parameter& ParameterDictImpl::operator[](const std::string& name) {
  auto entry = parameters_.find(name);
  if (entry != parameters_.end()) return entry->second;
  Throw(ErrorCode::kUnknownName, "ParameterDict has no parameter '{}'", name);
}

bool ModuleDictImpl::contains(const std::string& name) const {
  return std::any_of(named_children().begin(), named_children().end(),
                     [&](const auto& child) { return child.first == name; });
}

}  // namespace hammock::nn
