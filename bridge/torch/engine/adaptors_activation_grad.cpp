// Gradients of activations and other elementwise ops, as PyTorch's autograd calls them.

#include <hammock/ir/function.h>
#include <hammock/ops.h>

#include "engine/adaptor.h"

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;
using hammock::CallOp;
using hammock::Tensor;

namespace {

using Call = const AtenCall&;

/// The gradient by the record's: `name_backward(grad, self, rest...)` of `name(self, rest...)`.
Any OfRecord(Call c, const char* op) {
  return GradsOf(
      [&](const std::vector<Tensor>& in) {
        AnyList args = {in[0]};
        for (size_t i = 2; i < c.size(); ++i) args.push_back(c[i]);
        return CallOp(op, args).ToTensor();
      },
      {c.tensor(1)}, c.tensor(0))[0];
}

Any Zeroed(const Tensor& grad, const Tensor& keep) {
  return hammock::where(keep, grad, hammock::zeros_like(grad));
}

/// The gradient passes where the value is above the threshold.
Any Threshold(Call c) { return Zeroed(c.tensor(0), hammock::gt(c.tensor(1), c.number(2))); }
Any Tanh(Call c) { return c.tensor(0) * (1.0 - c.tensor(1) * c.tensor(1)); }
Any Sigmoid(Call c) { return c.tensor(0) * (1.0 - c.tensor(1)) * c.tensor(1); }
Any Gelu(Call c) {
  std::string approximate = c.size() > 2 ? c[2].ToStringRef() : "none";
  return GradsOf([&](const std::vector<Tensor>& in) { return hammock::gelu(in[0], approximate); },
                 {c.tensor(1)}, c.tensor(0))[0];
}
Any Hardtanh(Call c) {
  const Tensor& x = c.tensor(1);
  return Zeroed(c.tensor(0),
                hammock::logical_and(hammock::gt(x, c.number(2)), hammock::lt(x, c.number(3))));
}
Any LeakyRelu(Call c) {
  return hammock::where(hammock::gt(c.tensor(1), 0), c.tensor(0), c.tensor(0) * c.number(2));
}
/// grad, alpha, scale, input_scale, is_result, self_or_result
Any Elu(Call c) {
  const Tensor &grad = c.tensor(0), &x = c.tensor(5);
  double alpha = c.real(1), scale = c.real(2), input_scale = c.real(3);
  double negative = input_scale * alpha * scale;
  Tensor below = c.flag(4) ? grad * input_scale * (x + alpha * scale)
                           : grad * negative * hammock::exp(x * input_scale);
  return hammock::where(hammock::le(x, 0), below, grad * scale);
}
/// grad, self, buffer: the buffer holds exp(-|x|) on some devices and nothing on others.
Any LogSigmoid(Call c) { return c.tensor(0) * hammock::sigmoid(hammock::neg(c.tensor(1))); }
Any Softplus(Call c) {
  const Tensor &grad = c.tensor(0), &x = c.tensor(1);
  Tensor scaled = x * c.number(2);
  return hammock::where(hammock::gt(scaled, c.number(3)), grad, grad * hammock::sigmoid(scaled));
}
Any Shrink(Call c) {
  return Zeroed(c.tensor(0), hammock::gt(hammock::abs(c.tensor(1)), c.number(2)));
}
Any Logit(Call c) {
  const Tensor &grad = c.tensor(0), &x = c.tensor(1);
  Tensor inside = grad / (x * (1.0 - x));
  if (c.none(2) || c.real(2) < 0) return inside;
  double eps = c.real(2);
  return Zeroed(inside, hammock::logical_and(hammock::ge(x, eps), hammock::le(x, 1.0 - eps)));
}
Any Glu(Call c) {
  return GradsOf([&](const std::vector<Tensor>& in) { return hammock::glu(in[0], c.integer(2)); },
                 {c.tensor(1)}, c.tensor(0))[0];
}
/// grad, self, weight -> both gradients
Any Prelu(Call c) {
  const Tensor &grad = c.tensor(0), &x = c.tensor(1), &weight = c.tensor(2);
  Tensor positive = hammock::gt(x, 0);
  Tensor to_self = hammock::where(positive, grad, grad * weight);
  Tensor to_weight = hammock::where(positive, hammock::zeros_like(grad), grad * x);
  return TupleOf({to_self, to_weight});
}
Any PreluForward(Call c) {
  const Tensor& x = c.tensor(0);
  return hammock::where(hammock::gt(x, 0), x, x * c.tensor(1));
}

/// The dtype that PyTorch wants the gradient in.
Tensor InDType(Call c, size_t i, const Tensor& grad) { return grad.to(c.dtype(i, grad.dtype())); }
/// grad, output, dim, input_dtype
Any LogSoftmax(Call c) {
  const Tensor &grad = c.tensor(0), &y = c.tensor(1);
  return InDType(c, 3, grad - hammock::exp(y) * hammock::sum(grad, {c.integer(2)}, true));
}
Any Softmax(Call c) {
  const Tensor &grad = c.tensor(0), &y = c.tensor(1);
  Tensor weighted = grad * y;
  return InDType(c, 3, weighted - y * hammock::sum(weighted, {c.integer(2)}, true));
}

constexpr AdaptorEntry kTable[] = {
    {"threshold_backward", Threshold},
    {"tanh_backward", Tanh},
    {"sigmoid_backward", Sigmoid},
    {"gelu_backward", Gelu},
    {"silu_backward", [](Call c) { return OfRecord(c, "silu"); }},
    {"mish_backward", [](Call c) { return OfRecord(c, "mish"); }},
    {"hardswish_backward", [](Call c) { return OfRecord(c, "hardswish"); }},
    {"hardsigmoid_backward", [](Call c) { return OfRecord(c, "hardsigmoid"); }},
    {"hardtanh_backward", Hardtanh},
    {"leaky_relu_backward", LeakyRelu},
    {"elu_backward", Elu},
    {"log_sigmoid_backward", LogSigmoid},
    {"softplus_backward", Softplus},
    {"softshrink_backward", Shrink},
    {"hardshrink_backward", Shrink},
    {"logit_backward", Logit},
    {"glu_backward", Glu},
    {"_prelu_kernel", PreluForward},
    {"_prelu_kernel_backward", Prelu},
    {"_log_softmax_backward_data", LogSoftmax},
    {"_softmax_backward_data", Softmax},
};

}  // namespace

std::span<const AdaptorEntry> ActivationGradAdaptors() { return kTable; }

}  // namespace hammock_torch
