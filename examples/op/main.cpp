// Calls, checks and trains through an op that Hammock does not know, and a function with a gradient
// of its own.
#include <hammock/hammock.h>
#include <hammock/testing.h>

#include <cstdio>

#include "swiglu.h"

using namespace hammock;
using swiglu_op::swiglu;

namespace {

int failures = 0;

void Expect(bool good, const char* what) {
  std::printf("%s  %s\n", good ? "ok  " : "FAIL", what);
  if (!good) ++failures;
}

/// Rounds; the gradient passes as if it had not.
struct RoundThrough : autograd::Function<RoundThrough> {
  static Tensor forward(autograd::AutogradContext*, const Tensor& x) { return round(x); }
  static std::vector<Tensor> backward(autograd::AutogradContext*, std::vector<Tensor> grads) {
    return grads;
  }
};

void ShowCalls() {
  Tensor gate = tensor({-1.0, 0.5, 2.0}), value = tensor({3.0, 4.0, 5.0});
  Tensor by_hand = gate * sigmoid(gate * 2.0) * value;
  Expect(allclose(swiglu(gate, value, 2.0), by_hand), "called from C++");
  Tensor by_name = CallOp("swiglu", {gate, value}, {{"beta", 2.0}}).ToTensor();
  Expect(allclose(by_name, by_hand), "called by name");
  Expect(swiglu(gate.to(bf16), value.to(bf16)).dtype() == bf16, "dtypes follow the record's rule");
  Expect(DescribeOps().find("swiglu(Tensor gate") != std::string::npos, "described");
}

void ShowChecks() {
  std::string problems = testing::CheckOp(swiglu_op::kSwiglu);
  Expect(problems.empty(), "lazily as eagerly, with right gradients of both orders");
  std::printf("%s", problems.c_str());
}

void ShowTraining() {
  manual_seed(1);
  Tensor x = randn({64, 4}), target = x.slice(1, 0, 1) * x.slice(1, 1, 2);
  Tensor w = (randn({4, 16}) * 0.5).requires_grad_(), v = (randn({4, 16}) * 0.5).requires_grad_();
  Tensor out = (randn({16, 1}) * 0.5).requires_grad_();
  double first = 0, last = 0;
  for (int i = 0; i < 300; ++i) {
    Tensor loss = square(matmul(swiglu(matmul(x, w), matmul(x, v)), out) - target).mean();
    loss.backward();
    NoGradGuard no_grad;
    for (Tensor* weight : {&w, &v, &out}) {
      weight->sub_(weight->grad() * 0.05);
      weight->set_grad(Tensor());
    }
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  std::printf("      loss %.4f, then %.4f\n", first, last);
  Expect(last < 0.1 * first, "trained through");
}

void ShowFunction() {
  Tensor x = tensor({0.4, 1.6}).requires_grad_();
  Tensor y = RoundThrough::apply(x);
  (y * tensor({2.0, 3.0})).sum().backward();
  Expect(allclose(y, tensor({0.0, 2.0})), "a function of one's own");
  Expect(allclose(x.grad(), tensor({2.0, 3.0})), "and its gradient");
}

}  // namespace

int main() {
  ShowCalls();
  ShowChecks();
  ShowTraining();
  ShowFunction();
  return failures == 0 ? 0 : 1;
}
