#include <algorithm>

#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

/// Sizes that broadcast a vector along dim 1.
Dims ChannelSizes(const Tensor& x) {
  Dims sizes = Dims::Filled(x.dim(), 1);
  sizes[1] = x.size(1);
  return sizes;
}

Dims DimsFrom(int first, int last) {
  Dims dims;
  for (int i = first; i < last; ++i) dims.push_back(i);
  return dims;
}

Values BatchNormalization(Call& c) {
  Tensor x = c[0], scale = c[1], bias = c[2], mean = c[3], var = c[4];
  double eps = c.Float("epsilon", 1e-5), momentum = c.Float("momentum", 0.9);
  bool training = c.opset() >= 14 ? c.Int("training_mode", 0) != 0 : c.Wants(1);
  if (!training) {
    bool plain = x.dim() > 1 && scale.dtype() == x.dtype() && mean.dtype() == x.dtype();
    if (plain) return {batch_norm(x, mean, var, scale, bias, false, 0.1, eps)};
    Dims sizes = ChannelSizes(x);
    Tensor wide = x.to(mean.dtype());
    Tensor y = (wide - mean.reshape(sizes)) * rsqrt(var.reshape(sizes) + eps);
    return {(y * scale.reshape(sizes) + bias.reshape(sizes)).to(x.dtype())};
  }
  Dims dims{0};
  for (int i = 2; i < x.dim(); ++i) dims.push_back(i);
  auto [own_var, own_mean] = var_mean(x, dims, 0, true);
  Dims sizes = ChannelSizes(x);
  Tensor y = (x - own_mean) * rsqrt(own_var + eps) * scale.reshape(sizes) + bias.reshape(sizes);
  Tensor new_mean = mean * momentum + own_mean.reshape({-1}).to(mean.dtype()) * (1 - momentum);
  Tensor new_var = var * momentum + own_var.reshape({-1}).to(var.dtype()) * (1 - momentum);
  return {y, new_mean, new_var};
}

Values InstanceNormalization(Call& c) {
  return {instance_norm(c[0], std::nullopt, std::nullopt, c[1], c[2], true, 0.1,
                        c.Float("epsilon", 1e-5))};
}

Values GroupNormalization(Call& c) {
  Tensor x = c[0], scale = c[1], bias = c[2];
  int64_t groups = c.Int("num_groups", 1);
  if (groups < 1 || x.size(1) % groups != 0)
    c.Fail("{} groups of {}", groups, x.shape().to_string());
  if (c.opset() < 21) {  // one scale a group
    int64_t each = x.size(1) / groups;
    scale = repeat_interleave(scale, each);
    bias = repeat_interleave(bias, each);
  }
  return {group_norm(x, groups, scale, bias, c.Float("epsilon", 1e-5))};
}

/// Statistics in f32 (stash_type 1) or in the input's dtype.
DType StashType(const Call& c, DType own) {
  int64_t stash = c.Int("stash_type", 1);
  DType dtype = DTypeOfElement(static_cast<int32_t>(stash));
  return own == DType::kF64 ? own : dtype;
}

Values LayerNormalization(Call& c) {
  Tensor x = c[0];
  int axis = static_cast<int>(Wrapped(c, c.Int("axis", -1), x.dim()));
  double eps = c.Float("epsilon", 1e-5);
  Dims normalized;
  for (int i = axis; i < x.dim(); ++i) normalized.push_back(x.size(i));
  Tensor scale = c[1];
  std::optional<Tensor> bias = c.Optional(2);
  bool plain = scale.sizes() == normalized && (!bias || bias->sizes() == normalized);
  if (plain && !c.Wants(1) && !c.Wants(2)) {
    return {layer_norm(x, normalized, scale, bias, eps)};
  }
  Tensor wide = x.to(StashType(c, x.dtype()));
  Dims dims = DimsFrom(axis, x.dim());
  Tensor mean_of = mean(wide, dims, true);
  Tensor centred = wide - mean_of;
  Tensor inverse = rsqrt(mean(centred * centred, dims, true) + eps);
  Tensor y = (centred * inverse).to(x.dtype()) * scale;
  return {bias ? y + *bias : y, mean_of, inverse};
}

Values RmsNormalization(Call& c) {
  Tensor x = c[0];
  int axis = static_cast<int>(Wrapped(c, c.Int("axis", -1), x.dim()));
  Tensor wide = x.to(StashType(c, x.dtype()));
  Tensor squares = mean(wide * wide, DimsFrom(axis, x.dim()), true);
  Tensor y = wide * rsqrt(squares + c.Float("epsilon", 1e-5));
  return {y.to(x.dtype()) * c[1]};
}

Values Lrn(Call& c) {
  return {local_response_norm(c[0], c.Int("size", 1), c.Float("alpha", 1e-4), c.Float("beta", 0.75),
                              c.Float("bias", 1))};
}

Values LpNormalization(Call& c) {
  Tensor x = c[0];
  int64_t axis = Wrapped(c, c.Int("axis", -1), x.dim());
  int64_t p = c.Int("p", 2);
  Tensor norms = p == 1 ? sum(abs(x), {axis}, true) : sqrt(sum(x * x, {axis}, true));
  return {where(eq(norms, 0), zeros_like(x), x / norms)};
}

Values MeanVarianceNormalization(Call& c) {
  Tensor x = c[0];
  Dims axes = c.HasAttribute("axes") ? AxesOf(c, "axes", 1, x.dim()) : Dims{0, 2, 3};
  Tensor centred = x - mean(x, axes, true);
  return {centred / (sqrt(mean(centred * centred, axes, true)) + 1e-9)};
}

/// Before opset 13 all dims from the axis on were one.
template <Tensor (*F)(const Tensor&, int64_t, std::optional<DType>, Location)>
Values Soft(Call& c) {
  Tensor x = c[0];
  bool old = c.opset() < 13;
  int64_t axis = Wrapped(c, c.Int("axis", old ? 1 : -1), x.dim());
  if (!old || axis == x.dim() - 1) return {F(x, axis, std::nullopt, Location())};
  int split = static_cast<int>(axis);
  Tensor flat = x.reshape({Product(x.sizes(), 0, split), Product(x.sizes(), split, x.dim())});
  return {F(flat, 1, std::nullopt, Location()).reshape(x.sizes())};
}

Values Hardmax(Call& c) {
  Tensor x = c[0];
  bool old = c.opset() < 13;
  int64_t axis = Wrapped(c, c.Int("axis", old ? 1 : -1), x.dim());
  Dims sizes = x.sizes();
  if (old) {
    int split = static_cast<int>(axis);
    x = x.reshape({Product(sizes, 0, split), Product(sizes, split, sizes.size())});
    axis = 1;
  }
  Dims along = Dims::Filled(x.dim(), 1);
  along[static_cast<int>(axis)] = x.size(axis);
  Tensor steps = arange(x.size(axis), DType::kI64, c.device()).reshape(along);
  return {eq(steps, argmax(x, axis, true)).to(x.dtype()).reshape(sizes)};
}

constexpr Operator kRows[] = {
    {"BatchNormalization", 1, kNewestOpset, BatchNormalization},
    {"GroupNormalization", 18, kNewestOpset, GroupNormalization},
    {"Hardmax", 1, kNewestOpset, Hardmax},
    {"InstanceNormalization", 1, kNewestOpset, InstanceNormalization},
    {"LRN", 1, kNewestOpset, Lrn},
    {"LayerNormalization", 1, kNewestOpset, LayerNormalization},
    {"LogSoftmax", 1, kNewestOpset, Soft<log_softmax>},
    {"LpNormalization", 1, kNewestOpset, LpNormalization},
    {"MeanVarianceNormalization", 9, kNewestOpset, MeanVarianceNormalization},
    {"RMSNormalization", 23, kNewestOpset, RmsNormalization},
    {"Softmax", 1, kNewestOpset, Soft<softmax>},
};

}  // namespace

std::span<const Operator> NormOperators() { return kRows; }

}  // namespace hammock::onnx
