#include "hammock/nn/containers.h"

#include <algorithm>

#include "base/throw.h"

namespace hammock::nn {

void SequentialImpl::push_back(const ModulePtr& layer) { push_back(std::to_string(size()), layer); }

void SequentialImpl::push_back(const std::string& name, const ModulePtr& layer) {
  if (!layer) Throw(ErrorCode::kValue, "Sequential: layer '{}' is null", name);
  register_module(name, layer);
}

Tensor SequentialImpl::forward(const Tensor& input) {
  Tensor value = input;
  for (const auto& [name, layer] : named_children()) value = (*layer)(value);
  return value;
}

void ModuleListImpl::push_back(const ModulePtr& module) {
  register_module(std::to_string(size()), module);
}

void ModuleListImpl::ThrowOtherType(const std::string& name) const {
  Throw<TypeError>(ErrorCode::kValue, "ModuleList: number {} is a {}", name,
                   get_submodule(name)->class_name());
}

ModuleDictImpl::ModuleDictImpl(const std::vector<std::pair<std::string, ModulePtr>>& modules)
    : ModuleDictImpl() {
  for (const auto& [name, module] : modules) insert(name, module);
}

bool ModuleDictImpl::contains(const std::string& name) const {
  return std::any_of(named_children().begin(), named_children().end(),
                     [&](const auto& child) { return child.first == name; });
}

}  // namespace hammock::nn
