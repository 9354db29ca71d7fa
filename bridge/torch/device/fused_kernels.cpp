// _fused_* and _amp_*: updates of many tensors in one call, written in Hammock's tensor ops. One
// graph holds the whole step, so that these are fused as any other ops are.

#include <ATen/core/Tensor.h>
#include <hammock/autograd.h>
#include <hammock/ops.h>
#include <torch/library.h>

#include "device/device_tensor.h"
#include "device/native_kernels.h"
#include "device/record_op.h"

namespace hammock_torch {

namespace {

using hammock::Tensor;
using MaybeTensor = std::optional<at::Tensor>;

const Tensor& ValueOf(const at::Tensor& tensor) {
  TORCH_CHECK(DeviceTensor::Is(tensor),
              "hammock: expected a tensor of device hammock, found one of ", tensor.device());
  return DeviceTensor::Of(tensor)->value();
}
Tensor LearningRate(const at::Tensor& lr) {
  if (DeviceTensor::Is(lr)) return ValueOf(lr);
  return hammock::tensor(lr.item().toDouble(), hammock::DType::kF32, DeviceAt(CurrentIndex()));
}
double LearningRate(double lr) { return lr; }

/// The base of all updates: the caller's line, gradients scaled down, and nothing written where
/// `found_inf` is set.
class Update {
 public:
  Update(const MaybeTensor& grad_scale, const MaybeTensor& found_inf, bool maximize)
      : line_(Caller()), maximize_(maximize) {
    if (grad_scale && grad_scale->defined()) scale_ = ValueOf(*grad_scale);
    if (found_inf && found_inf->defined()) skip_ = hammock::ne(ValueOf(*found_inf), 0.0);
  }

  Tensor Grad(const at::Tensor& grad) const {
    Tensor value = ValueOf(grad);
    if (scale_.defined()) hammock::copy_(value, value / scale_);
    return maximize_ ? -value : value;
  }
  void Write(const at::Tensor& target, const Tensor& value) const {
    Tensor written = ValueOf(target);
    hammock::copy_(written, skip_.defined() ? hammock::where(skip_, written, value) : value);
  }

 private:
  hammock::LocationScope line_;
  hammock::NoGradGuard no_grad_;
  bool maximize_;
  Tensor scale_, skip_;
};

template <bool kDecoupled, class Rate>
void Adam(at::TensorList params, at::TensorList grads, at::TensorList averages,
          at::TensorList squares, at::TensorList largest, at::TensorList steps, Rate given_rate,
          double beta1, double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
          const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  Update update(grad_scale, found_inf, maximize);
  auto lr = LearningRate(given_rate);
  for (size_t i = 0; i < params.size(); ++i) {
    Tensor p = ValueOf(params[i]), g = update.Grad(grads[i]), step = ValueOf(steps[i]);
    if (weight_decay != 0 && kDecoupled) p = p - p * lr * weight_decay;
    if (weight_decay != 0 && !kDecoupled) g = g + p * weight_decay;
    Tensor m = ValueOf(averages[i]) * beta1 + g * (1 - beta1);
    Tensor v = ValueOf(squares[i]) * beta2 + g * g * (1 - beta2);
    Tensor bias1 = 1.0 - hammock::pow(beta1, step);
    Tensor bias2 = 1.0 - hammock::pow(beta2, step);
    Tensor second = v;
    if (amsgrad) {
      second = hammock::maximum(ValueOf(largest[i]), v);
      update.Write(largest[i], second);
    }
    Tensor denominator = hammock::sqrt(second) / hammock::sqrt(bias2) + eps;
    update.Write(averages[i], m);
    update.Write(squares[i], v);
    update.Write(params[i], p - m / denominator * (lr / bias1));
  }
}

template <class Rate>
void Sgd(at::TensorList params, at::TensorList grads, at::TensorList buffers, double weight_decay,
         double momentum, Rate given_rate, double dampening, bool nesterov, bool maximize,
         bool is_first_step, const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  Update update(grad_scale, found_inf, maximize);
  auto lr = LearningRate(given_rate);
  for (size_t i = 0; i < params.size(); ++i) {
    Tensor p = ValueOf(params[i]), g = update.Grad(grads[i]);
    if (weight_decay != 0) g = g + p * weight_decay;
    if (momentum != 0) {
      Tensor buffer = is_first_step ? g : ValueOf(buffers[i]) * momentum + g * (1 - dampening);
      update.Write(buffers[i], buffer);
      g = nesterov ? g + buffer * momentum : buffer;
    }
    update.Write(params[i], p - g * lr);
  }
}

template <class Rate>
void Adagrad(at::TensorList params, at::TensorList grads, at::TensorList sums, at::TensorList steps,
             Rate given_rate, double lr_decay, double weight_decay, double eps, bool maximize,
             const MaybeTensor& grad_scale, const MaybeTensor& found_inf) {
  Update update(grad_scale, found_inf, maximize);
  auto lr = LearningRate(given_rate);
  for (size_t i = 0; i < params.size(); ++i) {
    Tensor p = ValueOf(params[i]), g = update.Grad(grads[i]);
    if (weight_decay != 0) g = g + p * weight_decay;
    Tensor sum = ValueOf(sums[i]) + g * g;
    Tensor rate = lr / ((ValueOf(steps[i]) - 1.0) * lr_decay + 1.0);
    update.Write(sums[i], sum);
    update.Write(params[i], p - g / (hammock::sqrt(sum) + eps) * rate);
  }
}

void Unscale(at::TensorList grads, at::Tensor& found_inf, const at::Tensor& inv_scale) {
  hammock::LocationScope line(Caller());
  hammock::NoGradGuard no_grad;
  Tensor found = ValueOf(found_inf), scale = ValueOf(inv_scale);
  Tensor any = hammock::ne(found, 0.0);
  for (const at::Tensor& grad : grads) {
    Tensor value = ValueOf(grad);
    any = hammock::logical_or(any, hammock::logical_not(hammock::all(hammock::isfinite(value))));
    hammock::copy_(value, value * scale.to(value.dtype()));
  }
  hammock::copy_(found, any.to(found.dtype()));
}

at::Tensor& UpdateScale(at::Tensor& self, at::Tensor& growth_tracker, const at::Tensor& found_inf,
                        double growth, double backoff, int64_t interval) {
  hammock::LocationScope line(Caller());
  hammock::NoGradGuard no_grad;
  Tensor scale = ValueOf(self), tracker = ValueOf(growth_tracker);
  Tensor found = hammock::ne(ValueOf(found_inf), 0.0);
  Tensor successes = tracker + 1;
  Tensor grows = hammock::eq(successes, interval);
  Tensor larger = scale * growth;
  larger = hammock::where(hammock::isfinite(larger), larger, scale);
  Tensor next = hammock::where(found, scale * backoff, hammock::where(grows, larger, scale));
  Tensor count =
      hammock::where(hammock::logical_or(found, grows), hammock::zeros_like(tracker), successes);
  hammock::copy_(scale, next);
  hammock::copy_(tracker, count);
  return self;
}

}  // namespace

void RegisterFusedKernels(torch::Library& m) {
  using ByTensor = const at::Tensor&;
  m.impl("_fused_adam_", TORCH_FN((Adam<false, double>)));
  m.impl("_fused_adam_.tensor_lr", TORCH_FN((Adam<false, ByTensor>)));
  m.impl("_fused_adamw_", TORCH_FN((Adam<true, double>)));
  m.impl("_fused_adamw_.tensor_lr", TORCH_FN((Adam<true, ByTensor>)));
  m.impl("_fused_sgd_", TORCH_FN((Sgd<double>)));
  m.impl("_fused_sgd_.tensor_lr", TORCH_FN((Sgd<ByTensor>)));
  m.impl("_fused_adagrad_", TORCH_FN((Adagrad<double>)));
  m.impl("_fused_adagrad_.tensor_lr", TORCH_FN((Adagrad<ByTensor>)));
  m.impl("_amp_foreach_non_finite_check_and_unscale_", TORCH_FN(Unscale));
  m.impl("_amp_update_scale_", TORCH_FN(UpdateScale));
}

}  // namespace hammock_torch
