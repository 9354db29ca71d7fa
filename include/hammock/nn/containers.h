#pragma once
/// Modules that hold modules.

#include <string>
#include <utility>
#include <vector>

#include "hammock/nn/layer.h"

namespace hammock::nn {

/// Layers one after another, named by their numbers or by what they are given.
///
///   nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
class HAMMOCK_API SequentialImpl : public UnaryModule {
 public:
  SequentialImpl() : UnaryModule("Sequential") {}
  template <class... Layers>
  requires(std::convertible_to<Layers, ModulePtr>&&...) explicit SequentialImpl(Layers&&... layers)
      : SequentialImpl() {
    (push_back(layers), ...);
  }
  void push_back(const ModulePtr& layer);
  void push_back(const std::string& name, const ModulePtr& layer);
  size_t size() const { return named_children().size(); }
  ModulePtr operator[](size_t index) const { return named_children().at(index).second; }
  Tensor forward(const Tensor& input) override;
};

/// Modules by number; the program calls them.
class HAMMOCK_API ModuleListImpl : public Module {
 public:
  ModuleListImpl() : Module("ModuleList") {}
  template <class... Layers>
  requires(std::convertible_to<Layers, ModulePtr>&&...) explicit ModuleListImpl(Layers&&... layers)
      : ModuleListImpl() {
    (push_back(layers), ...);
  }
  void push_back(const ModulePtr& module);
  size_t size() const { return named_children().size(); }
  ModulePtr operator[](size_t index) const { return named_children().at(index).second; }
  /// As the layer that it is; TypeError where it is another.
  template <class Impl>
  Layer<Impl> at(size_t index) const {
    auto found = std::dynamic_pointer_cast<Impl>((*this)[index]);
    if (!found) ThrowOtherType(std::to_string(index));
    return found;
  }

 private:
  [[noreturn]] void ThrowOtherType(const std::string& name) const;
};

/// Modules by name.
class HAMMOCK_API ModuleDictImpl : public Module {
 public:
  ModuleDictImpl() : Module("ModuleDict") {}
  explicit ModuleDictImpl(const std::vector<std::pair<std::string, ModulePtr>>& modules);
  void insert(const std::string& name, const ModulePtr& module) { register_module(name, module); }
  size_t size() const { return named_children().size(); }
  bool contains(const std::string& name) const;
  ModulePtr operator[](const std::string& name) const { return get_submodule(name); }
};

using Sequential = Layer<SequentialImpl>;
using ModuleList = Layer<ModuleListImpl>;
using ModuleDict = Layer<ModuleDictImpl>;

}  // namespace hammock::nn
