#pragma once
/// Modules that hold modules or parameters.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "hammock/nn/layer.h"

namespace hammock::nn {

/// A name as an index, with the line where it was given.
struct NameArg {
  NameArg(const std::string& name, Location at = Location::current())  // NOLINT: implicit
      : name(name), at(at) {}
  NameArg(const char* name, Location at = Location::current()) : name(name), at(at) {}  // NOLINT
  std::string name;
  Location at;
};

namespace detail {
/// By number; ValueError where there are fewer.
HAMMOCK_API const ModulePtr& ChildAt(const Module& module, const IndexArg& index);
}  // namespace detail

/// Layers one after another, named by their numbers or by what they are given.
///
///   nn::Sequential net(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
class HAMMOCK_API SequentialImpl : public UnaryLayer {
 public:
  SequentialImpl() : UnaryLayer("Sequential") {}
  template <class... Layers>
  requires(std::convertible_to<Layers, ModulePtr>&&...) explicit SequentialImpl(Layers&&... layers)
      : SequentialImpl() {
    (push_back(layers, Location()), ...);
  }
  template <std::derived_from<Module> M>
  void push_back(std::shared_ptr<M> layer, Location at = Location::current()) {
    push_back(std::to_string(size()), std::move(layer), at);
  }
  template <std::derived_from<Module> M>
  void push_back(const std::string& name, std::shared_ptr<M> layer,
                 Location at = Location::current()) {
    register_module(name, std::move(layer), at);
  }
  size_t size() const { return named_children().size(); }
  ModulePtr operator[](const IndexArg& index) const { return detail::ChildAt(*this, index); }

 protected:
  Tensor Run(const Tensor& input) override;
};

/// Modules by number; the program calls them.
class HAMMOCK_API ModuleListImpl : public Module {
 public:
  ModuleListImpl() : Module("ModuleList") {}
  template <class... Layers>
  requires(std::convertible_to<Layers, ModulePtr>&&...) explicit ModuleListImpl(Layers&&... layers)
      : ModuleListImpl() {
    (push_back(layers, Location()), ...);
  }
  template <std::derived_from<Module> M>
  void push_back(std::shared_ptr<M> module, Location at = Location::current()) {
    register_module(std::to_string(size()), std::move(module), at);
  }
  size_t size() const { return named_children().size(); }
  ModulePtr operator[](const IndexArg& index) const { return detail::ChildAt(*this, index); }
  /// As the layer that it is; TypeError where it is another.
  template <class Impl>
  Layer<Impl> at(const IndexArg& index) const {
    auto found = std::dynamic_pointer_cast<Impl>((*this)[index]);
    if (!found) ThrowOtherType(index);
    return found;
  }

 private:
  [[noreturn]] void ThrowOtherType(const IndexArg& index) const;
};

/// Modules by name.
class HAMMOCK_API ModuleDictImpl : public Module {
 public:
  ModuleDictImpl() : Module("ModuleDict") {}
  explicit ModuleDictImpl(const std::vector<std::pair<std::string, ModulePtr>>& modules);
  template <std::derived_from<Module> M>
  void insert(const std::string& name, std::shared_ptr<M> module,
              Location at = Location::current()) {
    register_module(name, std::move(module), at);
  }
  size_t size() const { return named_children().size(); }
  bool contains(const std::string& name) const;
  ModulePtr operator[](const NameArg& name) const { return get_submodule(name.name, name.at); }
};

/// Parameters by number.
///
///   nn::ParameterList list(randn({2, 2}), randn({3}));
///   Tensor y = x.matmul((*list)[0]);
class HAMMOCK_API ParameterListImpl : public Module {
 public:
  ParameterListImpl();
  template <std::convertible_to<Tensor>... T>
  explicit ParameterListImpl(const T&... values) : ParameterListImpl() {
    (push_back(values, Location()), ...);
  }
  void push_back(const Tensor& value, Location at = Location::current());
  size_t size() const { return parameters_.size(); }
  Parameter& operator[](const IndexArg& index);
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }

 private:
  std::vector<Parameter> parameters_;
};

/// Parameters by name.
class HAMMOCK_API ParameterDictImpl : public Module {
 public:
  ParameterDictImpl();
  explicit ParameterDictImpl(const NamedTensors& values);
  void insert(const std::string& name, const Tensor& value, Location at = Location::current());
  size_t size() const { return parameters_.size(); }
  bool contains(const std::string& name) const;
  /// ValueError where there is none.
  Parameter& operator[](const NameArg& name);

 private:
  std::map<std::string, Parameter> parameters_;
};

using Sequential = Layer<SequentialImpl>;
using ModuleList = Layer<ModuleListImpl>;
using ModuleDict = Layer<ModuleDictImpl>;
using ParameterList = Layer<ParameterListImpl>;
using ParameterDict = Layer<ParameterDictImpl>;

}  // namespace hammock::nn
