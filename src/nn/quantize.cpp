#include "hammock/nn/quantize.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops.h"
#include "nn/given.h"

namespace hammock::nn {
namespace {

/// A scale for each row of a matrix, or each filter of a convolution.
Dims OfRows(const Tensor& weight) {
  Dims sizes = Dims::Filled(static_cast<int>(weight.dim()), 1);
  sizes[0] = weight.size(0);
  return sizes;
}

std::string ScaleText(const Tensor& weight, const Tensor& scale) {
  const int64_t columns = scale.size(-1);
  std::string text = fmt::format("{}", NameOf(weight.dtype()));
  if (columns > 1) text += fmt::format(", group={}", weight.size(-1) / columns);
  return text;
}

/// Unsigned weights are signed ones of as many bits with their zero in the middle.
struct CentredDType {
  DType likened;
  int64_t middle;  ///< 0 of what is signed
};
CentredDType Centred(DType dtype) {
  constexpr DType kSigned[][2] = {
      {DType::kU8, DType::kI8}, {DType::kU4, DType::kI4}, {DType::kU2, DType::kI2}};
  for (const auto& [of_weights, likened] : kSigned) {
    if (of_weights == dtype) return {likened, int64_t{1} << (InfoOf(dtype).bits - 1)};
  }
  return {dtype, 0};
}

}  // namespace

// ---- Observers

MinMaxObserver::MinMaxObserver(double momentum) : momentum_(momentum) {
  if (!(momentum > 0 && momentum <= 1)) {
    Throw(ErrorCode::kValue, "MinMaxObserver: a momentum of {}, needs to be above 0 and at most 1",
          momentum);
  }
}

void MinMaxObserver::observe(const Tensor& values) {
  if (values.numel() == 0) return;
  NoGradGuard no_grad;
  Tensor x = values.to(DType::kF32);
  Tensor least = amin(x), most = amax(x);
  if (!least_.defined()) {
    least_ = least;
    most_ = most;
  } else if (momentum_ == 1) {
    least_ = minimum(least_, least);
    most_ = maximum(most_, most);
  } else {
    least_ = least_ + (least - least_) * momentum_;
    most_ = most_ + (most - most_) * momentum_;
  }
}

MinMaxObserver::Scale MinMaxObserver::scale(DType dtype, Location at) const {
  LocationScope scope(at);
  if (empty()) Throw(ErrorCode::kValue, "MinMaxObserver: no values were observed");
  NoGradGuard no_grad;
  const double lowest = InfoOf(dtype).lowest, highest = InfoOf(dtype).highest;
  Tensor least = clamp(least_, std::nullopt, 0.0), most = clamp(most_, 0.0, std::nullopt);
  Tensor scale = (most - least) / (highest - lowest);
  scale = where(gt(scale, 0.0), scale, 1.0);
  Tensor zero = clamp(round(lowest - least / scale), lowest, highest).to(DType::kI32);
  return {scale, zero};
}

Calibration::Calibration(Module& model, double momentum) {
  for (const auto& [name, module] : model.named_modules()) {
    if (!dynamic_cast<LinearImpl*>(module) && !dynamic_cast<ConvBase*>(module)) continue;
    auto observer = std::make_shared<MinMaxObserver>(momentum);
    observers_[name] = observer;
    hooks_.push_back(module->register_forward_pre_hook(
        [observer](Module&, std::vector<Tensor>& inputs) { observer->observe(inputs.at(0)); }));
  }
}

Calibration::~Calibration() { stop(); }

void Calibration::stop() {
  for (HookHandle& hook : hooks_) hook.remove();
  hooks_.clear();
}

const MinMaxObserver* Calibration::find(const std::string& name) const {
  auto found = observers_.find(name);
  return found == observers_.end() ? nullptr : found->second.get();
}

// ---- Layers

QuantizedLinearImpl::QuantizedLinearImpl(const LinearImpl& from, DType dtype, int64_t group)
    : UnaryLayer("QuantizedLinear"),
      in_features(from.in_features),
      out_features(from.out_features) {
  NoGradGuard no_grad;
  const int64_t each = group == 0 ? in_features : group;
  if (each < 1 || in_features % each != 0) {
    Throw(ErrorCode::kValue, "QuantizedLinear: rows of {} cannot be parted into groups of {}",
          in_features, group);
  }
  const auto [likened, middle] = Centred(dtype);
  Tensor scales = quantization_scale(from.weight, {out_features, in_features / each}, likened);
  // A scale is rounded before it is used: what is stored is what quantised.
  const DType held = from.weight.dtype() == DType::kF64 ? DType::kF32 : from.weight.dtype();
  scales = scales.to(held);
  std::optional<Tensor> zero;
  if (middle != 0) zero = full({}, middle, DType::kI32);
  weight = register_buffer("weight", quantize(from.weight, scales, zero, dtype));
  scale = register_buffer("scale", scales);
  bias = from.bias.defined() ? register_buffer("bias", from.bias.detach())
                             : register_buffer("bias", None);
}

Tensor QuantizedLinearImpl::Run(const Tensor& input) {
  std::optional<Tensor> zero;
  if (const int64_t middle = Centred(weight.dtype()).middle; middle != 0) {
    zero = full(scale.sizes(), middle, DType::kU8, weight.device());
  }
  return quantized_linear(input, weight, scale, zero, Given(bias));
}

std::string QuantizedLinearImpl::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, weight={}", in_features, out_features,
                     ScaleText(weight, scale));
}

ByteLinearImpl::ByteLinearImpl(const LinearImpl& from, const MinMaxObserver& observer)
    : UnaryLayer("ByteLinear"), in_features(from.in_features), out_features(from.out_features) {
  NoGradGuard no_grad;
  Tensor scales = quantization_scale(from.weight, OfRows(from.weight), DType::kI8);
  weight = register_buffer("weight", quantize(from.weight, scales, std::nullopt, DType::kI8));
  scale = register_buffer("scale", scales.reshape({out_features}));
  MinMaxObserver::Scale input = observer.scale(DType::kU8);
  input_scale = register_buffer("input_scale", input.scale);
  input_zero = register_buffer("input_zero", input.zero_point);
  bias = from.bias.defined() ? register_buffer("bias", from.bias.detach())
                             : register_buffer("bias", None);
}

Tensor ByteLinearImpl::Run(const Tensor& input) {
  Tensor rows = input.reshape({-1, in_features});
  Tensor bytes = quantize(rows, input_scale, input_zero, DType::kU8);
  Tensor sums = int_matmul(bytes, weight.t(), input_zero).to(DType::kF32);
  Tensor result = sums * (scale.to(DType::kF32) * input_scale.to(DType::kF32));
  if (bias.defined()) result = result + bias.to(DType::kF32);
  Dims sizes = input.sizes();
  sizes[sizes.size() - 1] = out_features;
  return result.to(input.dtype()).reshape(sizes);
}

std::string ByteLinearImpl::extra_repr() const {
  return fmt::format("in_features={}, out_features={}", in_features, out_features);
}

ByteConvImpl::ByteConvImpl(const ConvBase& from, const MinMaxObserver& observer)
    : UnaryLayer("ByteConv"), options(from.options) {
  NoGradGuard no_grad;
  Tensor scales = quantization_scale(from.weight, OfRows(from.weight), DType::kI8);
  weight = register_buffer("weight", quantize(from.weight, scales, std::nullopt, DType::kI8));
  Dims channels = OfRows(from.weight);
  std::swap(channels[0], channels[1]);
  scale = register_buffer("scale", scales.reshape(channels));
  MinMaxObserver::Scale input = observer.scale(DType::kU8);
  input_scale = register_buffer("input_scale", input.scale);
  input_zero = register_buffer("input_zero", input.zero_point);
  bias = from.bias.defined() ? register_buffer("bias", from.bias.detach().reshape(channels))
                             : register_buffer("bias", None);
}

Tensor ByteConvImpl::Run(const Tensor& input) {
  const int spatial = static_cast<int>(weight.dim()) - 2;
  const bool batched = input.dim() == weight.dim();
  Tensor bytes =
      quantize(batched ? input : input.unsqueeze(0), input_scale, input_zero, DType::kU8);
  Tensor sums = int_convolution(bytes, weight, input_zero, std::nullopt,
                                options.stride.Expanded(spatial, "stride"),
                                options.padding.Expanded(spatial, "padding"),
                                options.dilation.Expanded(spatial, "dilation"), options.groups)
                    .to(DType::kF32);
  Tensor result = sums * (scale.to(DType::kF32) * input_scale.to(DType::kF32));
  if (bias.defined()) result = result + bias.to(DType::kF32);
  return (batched ? result : result.squeeze(0)).to(input.dtype());
}

std::string ByteConvImpl::extra_repr() const {
  return fmt::format("{}, {}, groups={}", options.in_channels, options.out_channels,
                     options.groups);
}

// ---- The pass

namespace {

bool IsByteConv(const Module& module) {
  const auto* conv = dynamic_cast<const ConvBase*>(&module);
  return conv && conv->options.padding_mode == "zeros" && !conv->options.same;
}

/// Null where the layer stays as it is.
ModulePtr QuantizedForm(const std::string& name, const Module& module,
                        const QuantizeOptions& options) {
  if (options.keep && options.keep(name, module)) return nullptr;
  const MinMaxObserver* observer = options.calibration ? options.calibration->find(name) : nullptr;
  const bool observed = observer && !observer->empty();
  if (observed && IsByteConv(module)) {
    return std::make_shared<ByteConvImpl>(dynamic_cast<const ConvBase&>(module), *observer);
  }
  const auto* linear = dynamic_cast<const LinearImpl*>(&module);
  if (!linear) return nullptr;
  if (observed) return std::make_shared<ByteLinearImpl>(*linear, *observer);
  if (options.group > 0 && linear->in_features % options.group != 0) return nullptr;
  const int64_t packed = 8 / std::min(InfoOf(options.dtype).bits, 8);
  if (linear->in_features % packed != 0) return nullptr;
  return std::make_shared<QuantizedLinearImpl>(*linear, options.dtype, options.group);
}

}  // namespace

std::vector<std::string> quantize_(Module& model, const QuantizeOptions& options, Location at) {
  LocationScope scope(at);
  if (options.calibration) options.calibration->stop();
  std::vector<std::string> names;
  for (const auto& [name, module] : model.named_modules()) {
    if (!name.empty()) names.push_back(name);
  }
  std::vector<std::string> replaced;
  for (const std::string& name : names) {
    ModulePtr layer = model.get_submodule(name);
    ModulePtr quantized = QuantizedForm(name, *layer, options);
    if (!quantized) continue;
    quantized->train(layer->is_training());
    model.replace_submodule(name, quantized);
    replaced.push_back(name);
  }
  return replaced;
}

}  // namespace hammock::nn
