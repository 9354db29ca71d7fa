// Gradients of gradients as programs use them: a gradient penalty, products with a Hessian,
// gradients per sample, functions with a gradient of their own, high derivatives. And long graphs:
// what is recorded by hand over many ops.
#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

/// k x^2, with a gradient of its own that can be differentiated.
struct Square : autograd::Function<Square> {
  static Tensor forward(autograd::AutogradContext* context, const Tensor& x, double k) {
    context->save_for_backward({x});
    context->saved_data["k"] = k;
    return x * x * k;
  }
  static std::vector<Tensor> backward(autograd::AutogradContext* context,
                                      std::vector<Tensor> grads) {
    return {grads[0] * 2 * context->get_saved_variables()[0] * context->saved_data["k"].ToDouble()};
  }
};

Tensor GradOf(const Tensor& y, const Tensor& x, bool create_graph = true) {
  return grad({y}, {x}, {}, std::nullopt, create_graph)[0];
}

double Largest(const Tensor& x) { return x.abs().max().item<double>(); }

void TrainWithAPenalty() {
  nn::Sequential critic(
      nn::Conv2d(
          {.in_channels = 1, .out_channels = 4, .kernel_size = 3, .stride = 2, .padding = 1}),
      nn::GroupNorm(2, 4), nn::SiLU(), nn::Flatten(), nn::Linear(4 * 7 * 7, 1));
  optim::Adam optimizer(critic->parameters(), {.lr = 1e-2});
  Tensor images = randn({8, 1, 14, 14});
  std::vector<double> penalties;
  for (int i = 0; i < 30; ++i) {
    Tensor penalty;
    step([&] {
      optimizer.zero_grad();
      Tensor x = images.detach().requires_grad_();
      Tensor norms = GradOf(critic(x).sum(), x).flatten(1).norm(2.0, {1});
      penalty = (norms - 1).square().mean();
      penalty.backward();
      optimizer.step();
      penalty = penalty.detach();
    });
    penalties.push_back(penalty.item<double>());
  }
  CheckAtMost(penalties.back(), 0.2 * penalties[0], "the penalty after 30 steps");
  CheckAtMost(static_cast<double>(LazyGraphExecutor::Get()->GetCacheStats().misses), 6,
              "compiles of a loop with second derivatives");
}

void MultiplyWithAHessian() {
  Tensor a = randn({5, 5}, f64), v = randn({5}, f64), x = randn({5}, f64).requires_grad_();
  Tensor g = GradOf((matmul(a, x).tanh() * x).sum(), x);
  std::vector<Tensor> rows;
  for (int i = 0; i < 5; ++i) rows.push_back(GradOf(g[i], x));
  Tensor hessian = stack(rows), product = GradOf((g * v).sum(), x);
  CheckAtMost(Largest(matmul(hessian, v) - product), 1e-12, "a product with the Hessian");
  CheckAtMost(Largest(hessian - hessian.t()), 1e-12, "the Hessian is symmetric");
  auto tanh_of = [&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{matmul(a, in[0]).tanh()};
  };
  auto [value, forward] = jvp(tanh_of, {x.detach()}, {v});
  Tensor expected = matmul(a, v) * (1 - matmul(a, x.detach()).tanh().square());
  CheckAtMost(Largest(forward[0] - expected), 1e-12, "a product with the Jacobian");
}

void LookAtSamples() {
  nn::Linear net(20, 5);
  Tensor x = randn({32, 20}), labels = randint(0, 5, {32});
  Tensor total = zeros_like(net->weight);
  for (int i = 0; i < 32; ++i) {
    Tensor loss = cross_entropy(net(x.narrow(0, i, 1)), labels.narrow(0, i, 1));
    total = total + GradOf(loss, net->weight, false);
  }
  Tensor whole = GradOf(cross_entropy(net(x), labels), net->weight, false);
  CheckAtMost(Largest(total / 32 - whole), 1e-6, "the mean of gradients per sample");
}

void DifferentiateOften() {
  Tensor x = tensor({1.0, 2.0}).requires_grad_();
  Tensor g = GradOf(Square::apply(x, 3.0).sum(), x);
  CheckNear(g[1].item<double>(), 12, 1e-6, "a gradient of its own");
  CheckNear(GradOf(g.sum(), x, false)[0].item<double>(), 6, 1e-6, "its gradient");
  Tensor angle = tensor(0.7, f64).requires_grad_(), y = angle.sin();
  for (int i = 0; i < 8; ++i) y = GradOf(y, angle);
  CheckNear(y.item<double>(), std::sin(0.7), 1e-12, "the eighth derivative of the sine");
}

/// Also a value that is read out of many, and one that depends on all steps before.
void RecordLongGraphs(int64_t n) {
  std::vector<Tensor> parts, losses;
  Tensor x = ones({100});
  for (int64_t i = 0; i < n; ++i) {
    parts.push_back(ones({2}) * i);
    losses.push_back((x * i).sum());
  }
  CheckNear(stack(parts).sum().item<double>(), static_cast<double>(n * (n - 1)), 1e-6, "a stack");
  double sum = 0;
  for (const Tensor& loss : losses) sum += loss.item<double>();
  CheckNear(sum, 50.0 * static_cast<double>(n * (n - 1)), 1e-6, "losses that are read one by one");
  Tensor start = ones({4}, f64).requires_grad_(), y = start;
  for (int64_t i = 0; i < n; ++i) y = y * 0.999 + start * 1e-3;
  y.sum().backward();
  CheckNear(start.grad()[0].item<double>(), 1, 1e-9, "the gradient of a long recurrence");
  nn::LSTMCell cell(16, 32);
  nn::LSTMState state(zeros({8, 32}), zeros({8, 32}));
  Tensor input = randn({8, 16});
  for (int64_t i = 0; i < n / 4; ++i) state = cell(input, state);
  std::get<0>(state).sum().backward();
  Check(isfinite(cell->parameters()[0].grad()).all().item<bool>(), "gradients of a long LSTM");
}

}  // namespace

int main() {
  manual_seed(0);
  TrainWithAPenalty();
  MultiplyWithAHessian();
  LookAtSamples();
  DifferentiateOften();
  const double began = Seconds();
  RecordLongGraphs(1000);
  CheckAtMost(Seconds() - began, 60, "seconds for long graphs");
  return Result();
}
