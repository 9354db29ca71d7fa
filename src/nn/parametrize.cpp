#include "hammock/nn/parametrize.h"

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/nn/containers.h"
#include "hammock/ops.h"

namespace hammock::nn {
namespace {

/// The originals of one parameter and the modules that make its value of them, in order.
class ParametrizationListImpl : public Module {
 public:
  explicit ParametrizationListImpl(const std::vector<Tensor>& originals)
      : Module("ParametrizationList") {
    for (size_t i = 0; i < originals.size(); ++i) {
      std::string name = originals.size() == 1 ? "original" : fmt::format("original{}", i);
      originals_.push_back(register_parameter(name, originals[i].detach().clone()));
    }
  }
  void Add(const ModulePtr& parametrization) {
    register_module(std::to_string(named_children().size()), parametrization);
  }
  Tensor Compute() {
    std::vector<Any> values(originals_.begin(), originals_.end());
    for (const auto& [name, child] : named_children()) {
      values = {child->run_method("forward", values)};
    }
    return values.at(0).ToTensor();
  }

 private:
  std::vector<Parameter> originals_;
};

ModulePtr ChildOrNull(const Module& module, const std::string& name) {
  for (const auto& [child_name, child] : module.named_children()) {
    if (child_name == name) return child;
  }
  return nullptr;
}

std::shared_ptr<ParametrizationListImpl> ListOf(const Module& module, const std::string& name) {
  ModulePtr all = ChildOrNull(module, "parametrizations");
  return std::dynamic_pointer_cast<ParametrizationListImpl>(all ? ChildOrNull(*all, name)
                                                                : nullptr);
}

std::vector<Tensor> OriginalsOf(const Module& module, const std::string& name,
                                Module& parametrization) {
  Tensor value = module.get_tensor(name);
  if (!parametrization.find_method("right_inverse")) return {value};
  NoGradGuard no_grad;
  return PackTensors(parametrization.run_method("right_inverse", {Any(value)})).tensors;
}

}  // namespace

void register_parametrization(Module& module, const std::string& name,
                              const ModulePtr& parametrization, Location at) {
  LocationScope scope(at);
  if (!parametrization) Throw(ErrorCode::kValue, "register_parametrization: the module is null");
  if (auto list = ListOf(module, name)) return list->Add(parametrization);
  auto list =
      std::make_shared<ParametrizationListImpl>(OriginalsOf(module, name, *parametrization));
  list->Add(parametrization);
  if (!ChildOrNull(module, "parametrizations")) {
    module.register_module("parametrizations", ModuleDict());
  }
  module.get_submodule("parametrizations")->register_module(name, list);
  module.compute_parameter(name, [name](Module& self) { return ListOf(self, name)->Compute(); });
}

bool is_parametrized(const Module& module, const std::string& name) {
  return ListOf(module, name) != nullptr;
}

void remove_parametrizations(Module& module, const std::string& name, Location at) {
  LocationScope scope(at);
  if (!is_parametrized(module, name)) {
    Throw(ErrorCode::kUnknownName, "remove_parametrizations: '{}' of {} has none", name,
          module.class_name());
  }
  module.keep_computed(name);
  Module& all = *module.get_submodule("parametrizations");
  all.remove_submodule(name);
  if (all.named_children().empty()) module.remove_submodule("parametrizations");
}

// ---- Weight norm

namespace {

class WeightNormImpl : public Module {
 public:
  explicit WeightNormImpl(std::optional<int64_t> dim) : Module("WeightNorm"), dim_(dim) {
    define("forward(Tensor g, Tensor v) -> Tensor", &WeightNormImpl::forward);
    define("right_inverse(Tensor weight) -> (Tensor, Tensor)", &WeightNormImpl::right_inverse);
  }
  Tensor forward(const Tensor& g, const Tensor& v) { return v * (g / Norm(v)); }
  std::tuple<Tensor, Tensor> right_inverse(const Tensor& weight) { return {Norm(weight), weight}; }

 private:
  Tensor Norm(const Tensor& v) const {
    if (!dim_) return sqrt(square(v).sum());
    std::vector<int64_t> others;
    int64_t kept = *dim_ < 0 ? *dim_ + v.dim() : *dim_;
    for (int64_t dim = 0; dim < v.dim(); ++dim) {
      if (dim != kept) others.push_back(dim);
    }
    return sqrt(sum(square(v), others, true));
  }

  std::optional<int64_t> dim_;
};

// ---- Spectral norm

class SpectralNormImpl : public UnaryModule {
 public:
  SpectralNormImpl(const Tensor& weight, int64_t iterations, int64_t dim, double eps)
      : UnaryModule("SpectralNorm"), iterations_(iterations), dim_(dim), eps_(eps) {
    if (iterations < 1) {
      Throw(ErrorCode::kValue, "spectral_norm: n_power_iterations is {}, expected at least 1",
            iterations);
    }
    if (weight.dim() < 2) return;
    NoGradGuard no_grad;
    Tensor matrix = Matrix(weight.detach());
    auto direction = [&](int64_t size) {
      return normalize(randn({size}, matrix.dtype(), matrix.device()), 2, 0, eps_);
    };
    u_ = register_buffer("_u", direction(matrix.size(0)));
    v_ = register_buffer("_v", direction(matrix.size(1)));
    Iterate(matrix, 15);
  }

  Tensor forward(const Tensor& weight) override {
    if (weight.dim() < 2) return normalize(weight, 2, 0, eps_);
    Tensor matrix = Matrix(weight);
    if (is_training()) Iterate(matrix.detach(), iterations_);
    Tensor sigma = (u_.clone() * matmul(matrix, v_.clone())).sum();
    return weight / sigma;
  }

 private:
  Tensor Matrix(const Tensor& weight) const {
    return flatten(dim_ == 0 ? weight : movedim(weight, {dim_}, {0}), 1);
  }
  void Iterate(const Tensor& matrix, int64_t times) {
    NoGradGuard no_grad;
    for (int64_t i = 0; i < times; ++i) {
      u_.copy_(normalize(matmul(matrix, v_), 2, 0, eps_));
      v_.copy_(normalize(matmul(matrix.t(), u_), 2, 0, eps_));
    }
  }

  int64_t iterations_, dim_;
  double eps_;
  Buffer u_, v_;
};

}  // namespace

ModulePtr WeightNorm(std::optional<int64_t> dim, Location at) {
  return Layer<WeightNormImpl>(dim, at);
}

ModulePtr SpectralNorm(const Tensor& weight, int64_t n_power_iterations, int64_t dim, double eps,
                       Location at) {
  return Layer<SpectralNormImpl>(weight, n_power_iterations, dim, eps, at);
}

}  // namespace hammock::nn
