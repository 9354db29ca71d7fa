/// ai.onnx.preview.training: gradients inside of a graph, and one step of an optimiser for any
/// number of tensors.

#include <algorithm>
#include <unordered_set>

#include "hammock/autograd.h"
#include "onnx/operators/families.h"
#include "onnx/program.h"

namespace hammock::onnx {
namespace {

constexpr const char* kTraining = "ai.onnx.preview.training";

/// The nodes of a graph that compute `result` where the values of `known` are given.
std::shared_ptr<format::Graph> Between(const format::Graph& graph,
                                       const std::vector<std::string>& known,
                                       const std::string& result) {
  const std::unordered_set<std::string> given(known.begin(), known.end());
  std::unordered_set<std::string> needed{result};
  auto part = std::make_shared<format::Graph>();
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool makes = std::ranges::any_of(node->outputs, [&](const std::string& name) {
      return needed.contains(name) && !given.contains(name);
    });
    if (!makes) continue;
    part->nodes.push_back(*node);
    needed.insert(node->inputs.begin(), node->inputs.end());
    for (const format::Attribute& attribute : node->attributes) {
      for (const auto& inner : attribute.graphs) {
        for (std::string& name : OuterNames(*inner)) needed.insert(std::move(name));
      }
    }
  }
  std::ranges::reverse(part->nodes);
  part->outputs.push_back({result, {}});
  return part;
}

/// Derivatives of the value `y` by those that `xs` names. What lies between is computed again, with
/// the inputs of this node in the place of `xs` and `zs`.
Values Gradient(Call& c) {
  std::vector<std::string> names = c.TextList("xs");
  const size_t count = names.size();
  for (const std::string& name : c.TextList("zs")) names.push_back(name);
  if (c.size() != names.size()) c.Fail("{} inputs for {} names", c.size(), names.size());
  const bool twice = AutoGradMode::is_enabled();
  EnableGradGuard grad_mode;
  Scope scope(&c.run().scope());
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i >= count) {
      scope.Set(names[i], c.At(i));
      continue;
    }
    Tensor x = c[i];
    leaves.push_back(x.requires_grad() ? x : x.detach().requires_grad_());
    scope.Set(names[i], leaves.back());
  }
  Values results =
      c.run().RunPart(Between(c.run().program().model.graph, names, c.Text("y")), scope);
  Tensor y = c.run().TensorOf(results.at(0));
  if (!y.requires_grad()) c.Fail("'{}' does not depend on any of its inputs", c.Text("y"));
  std::vector<Tensor> gradients = grad({y}, leaves, {ones_like(y)}, true, twice, true);
  Values values;
  for (size_t i = 0; i < count; ++i) {
    values.push_back(gradients[i].defined() ? gradients[i] : zeros_like(leaves[i]));
  }
  return values;
}

// ---- optimisers

/// How many tensors are updated, each with a gradient and `states` more.
size_t Groups(const Call& c, size_t states) { return (c.size() - 2) / (2 + states); }

Values Adagrad(Call& c) {
  size_t n = Groups(c, 1);
  Tensor rate = c[0], steps = c[1];
  Tensor r = rate.to(DType::kF32) / (1 + steps.to(DType::kF32) * c.Float("decay_factor", 0));
  Values values, states;
  for (size_t i = 0; i < n; ++i) {
    Tensor x = c[2 + i], g = c[2 + n + i], h = c[2 + 2 * n + i];
    g = x * c.Float("norm_coefficient", 0) + g;
    h = h + g * g;
    values.push_back(x - r * g / (sqrt(h) + c.Float("epsilon", 0)));
    states.push_back(h);
  }
  values.insert(values.end(), states.begin(), states.end());
  return values;
}

Values Adam(Call& c) {
  size_t n = Groups(c, 2);
  double alpha = c.Float("alpha", 0.9), beta = c.Float("beta", 0.999);
  Tensor t = c[1].to(DType::kF32);
  Tensor rate = c[0].to(DType::kF32);
  Tensor adjusted = where(t > 0, rate * sqrt(1 - pow(beta, t)) / (1 - pow(alpha, t)), rate);
  Values values, first, second;
  for (size_t i = 0; i < n; ++i) {
    Tensor x = c[2 + i], g = c[2 + n + i], v = c[2 + 2 * n + i], h = c[2 + 3 * n + i];
    g = x * c.Float("norm_coefficient", 0) + g;
    v = v * alpha + g * (1 - alpha);
    h = h * beta + g * g * (1 - beta);
    Tensor moved = x - adjusted * v / (sqrt(h) + c.Float("epsilon", 0));
    values.push_back(moved * (1 - c.Float("norm_coefficient_post", 0)));
    first.push_back(v);
    second.push_back(h);
  }
  values.insert(values.end(), first.begin(), first.end());
  values.insert(values.end(), second.begin(), second.end());
  return values;
}

Values Momentum(Call& c) {
  size_t n = Groups(c, 1);
  double alpha = c.Float("alpha", 0), beta = c.Float("beta", 0);
  bool nesterov = c.Text("mode") == "nesterov";
  Tensor rate = c[0].to(DType::kF32), t = c[1].to(DType::kF32);
  Tensor share =
      where(t > 0, full({}, beta, DType::kF32, c.device()), ones({}, DType::kF32, c.device()));
  Values values, states;
  for (size_t i = 0; i < n; ++i) {
    Tensor x = c[2 + i], g = c[2 + n + i], v = c[2 + 2 * n + i];
    g = x * c.Float("norm_coefficient", 0) + g;
    v = v * alpha + g * share;
    values.push_back(x - rate * (nesterov ? g + v * alpha : v));
    states.push_back(v);
  }
  values.insert(values.end(), states.begin(), states.end());
  return values;
}

constexpr Operator kRows[] = {
    {"Adagrad", 1, 1, Adagrad, Needs::kNothing, kTraining},
    {"Adam", 1, 1, Adam, Needs::kNothing, kTraining},
    {"Gradient", 1, 1, Gradient, Needs::kScope, kTraining},
    {"Momentum", 1, 1, Momentum, Needs::kNothing, kTraining},
};

}  // namespace

std::span<const Operator> TrainingOperators() { return kRows; }

}  // namespace hammock::onnx
