// Gradients of layers, as PyTorch's autograd calls them: with the results that the forward pass
// kept, and a mask of the gradients that are wanted.

#include <hammock/ir/function.h>
#include <hammock/ops.h>

#include "engine/adaptor.h"
#include "engine/scope.h"

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;
using hammock::CallOp;
using hammock::Dims;
using hammock::DType;
using hammock::Tensor;

namespace {

using Call = const AtenCall&;

std::vector<uint8_t> MaskAt(Call c, size_t i) {
  std::vector<uint8_t> mask;
  for (const Any& item : c[i].ToList()) mask.push_back(item.ToBool());
  return mask;
}

/// Undefined where the gradient is not wanted.
Any Masked(std::vector<Tensor> grads, const std::vector<uint8_t>& wanted) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) grads[i] = Tensor();
  }
  return TupleOf(grads);
}

Dims AllBut(const Tensor& x, int kept) {
  Dims dims;
  for (int i = 0; i < x.dim(); ++i) {
    if (i != kept) dims.push_back(i);
  }
  return dims;
}

/// grad, input, weight, (bias_sizes,) stride, padding, dilation, transposed, output_padding,
/// groups, mask
Any ConvolutionGrads(Call c, size_t first) {
  const Tensor& weight = c.tensor(2);
  int rank = weight.dim() - 2;
  bool batched = c.tensor(1).dim() == weight.dim();
  Tensor grad = batched ? c.tensor(0) : hammock::unsqueeze(c.tensor(0), 0);
  Tensor input = batched ? c.tensor(1) : hammock::unsqueeze(c.tensor(1), 0);
  std::vector<uint8_t> mask = MaskAt(c, first + 6);
  std::vector<Tensor> grads(2);
  if (mask[0] || mask[1]) {
    grads = RecordGrads("convolution", {input, weight}, {Tensor()},
                        {c.dims(first, rank), c.dims(first + 1, rank), c.dims(first + 2, rank),
                         c.flag(first + 3), c.dims(first + 4, rank), c.integer(first + 5)},
                        grad, {mask[0], mask[1]});
  }
  if (!batched && grads[0].defined()) grads[0] = hammock::squeeze(grads[0], 0);
  grads.push_back(mask[2] ? hammock::sum(grad, AllBut(grad, 1)) : Tensor());
  return Masked(grads, mask);
}
Any ConvolutionBackward(Call c) { return ConvolutionGrads(c, 4); }
Any ConvolutionBackwardOverrideable(Call c) { return ConvolutionGrads(c, 3); }

/// grad, input, normalized_shape, mean, rstd, weight, bias, mask
Any LayerNormBackward(Call c) {
  const Tensor& x = c.tensor(1);
  std::vector<uint8_t> mask = MaskAt(c, 7);
  int rank = static_cast<int>(c.ints(2).size());
  Dims inner, outer;
  for (int i = 0; i < x.dim(); ++i) (i < x.dim() - rank ? outer : inner).push_back(i);
  DType wide = c.tensor(4).dtype();  // f32 next to f16 and bf16
  Tensor grad = c.tensor(0).to(wide), scale = c.tensor(4);
  Tensor normalised = (x.to(wide) - c.tensor(3)) * scale;
  auto summed = [&](const Tensor& each, size_t like) {
    Tensor total = outer.empty() ? each : hammock::sum(each, outer);
    return c.none(like) ? total : total.to(c.tensor(like).dtype());
  };
  Tensor to_weight = mask[1] ? summed(grad * normalised, 5) : Tensor();
  Tensor to_bias = mask[2] ? summed(grad, 6) : Tensor();
  if (!mask[0]) return Masked({Tensor(), to_weight, to_bias}, mask);
  Tensor weighted = c.none(5) ? grad : grad * c.tensor(5).to(wide);
  Tensor to_input = (weighted - hammock::mean(weighted, inner, true) -
                     normalised * hammock::mean(weighted * normalised, inner, true)) *
                    scale;
  return Masked({to_input.to(x.dtype()), to_weight, to_bias}, mask);
}

// ---- Batch normalisation

struct BatchNormCall {
  Tensor grad, input, weight, running_mean, running_var, save_mean, save_scale;
  bool training;
  double eps;
  std::vector<uint8_t> mask;
};

Tensor AsChannels(const Tensor& vector, const Tensor& like) {
  Dims sizes = Dims::Filled(like.dim(), 1);
  sizes[1] = vector.numel();
  return hammock::reshape(vector, sizes);
}

Any BatchNormGrads(const BatchNormCall& b) {
  const Tensor& x = b.input;
  Tensor weight = b.weight;
  if (!weight.defined() && b.mask[1])
    weight = hammock::ones({x.size(1)}, x.dtype(), CurrentDevice());
  Tensor bias = b.mask[2] ? hammock::zeros({x.size(1)}, x.dtype(), CurrentDevice()) : Tensor();
  if (b.training) {
    Tensor variance = hammock::zeros_like(b.save_scale);  // its gradient is zero: never read
    return Masked(
        RecordGrads("_batch_norm_train", {x, weight, bias},
                    {Tensor(), b.save_mean, b.save_scale, variance}, {b.eps}, b.grad, b.mask),
        b.mask);
  }
  Tensor scale = hammock::rsqrt(b.running_var + b.eps);
  Tensor factor = AsChannels(b.weight.defined() ? scale * b.weight : scale, x);
  Tensor normalised = (x - AsChannels(b.running_mean, x)) * AsChannels(scale, x);
  Dims dims = AllBut(x, 1);
  return Masked({(b.grad * factor).to(x.dtype()), hammock::sum(b.grad * normalised, dims),
                 hammock::sum(b.grad, dims)},
                b.mask);
}

/// grad, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, mask
Any NativeBatchNormBackward(Call c) {
  return BatchNormGrads({c.tensor(0), c.tensor(1), c.maybe_tensor(2), c.maybe_tensor(3),
                         c.maybe_tensor(4), c.maybe_tensor(5), c.maybe_tensor(6), c.flag(7),
                         c.real(8), MaskAt(c, 9)});
}
/// grad, input, weight, running_mean, running_var, save_mean, save_var, update, eps, mask, reserve
Any BatchNormBackward(Call c) { return NativeBatchNormBackward(c); }

/// grad, input, mean, rstd, weight, N, C, HxW, group, mask
Any GroupNormBackward(Call c) {
  const Tensor &grad = c.tensor(0), &x = c.tensor(1);
  std::vector<uint8_t> mask = MaskAt(c, 9);
  int64_t n = c.integer(5), channels = c.integer(6), rest = c.integer(7), groups = c.integer(8);
  Dims grouped = {n, groups, channels / groups, rest};
  auto shaped = [&](const Tensor& t) { return hammock::reshape(t, grouped); };
  Tensor scale = hammock::reshape(c.tensor(3), {n, groups, 1, 1});
  Tensor mean = hammock::reshape(c.tensor(2), {n, groups, 1, 1});
  Tensor normalised = (shaped(x) - mean) * scale;
  Tensor g = shaped(grad);
  std::vector<Tensor> grads(3);
  if (mask[1]) grads[1] = hammock::reshape(hammock::sum(g * normalised, {0, 3}), {channels});
  if (mask[2]) grads[2] = hammock::reshape(hammock::sum(g, {0, 3}), {channels});
  if (mask[0]) {
    Tensor weighted = g;
    if (!c.none(4)) weighted = g * hammock::reshape(c.tensor(4), {1, groups, channels / groups, 1});
    double count = static_cast<double>(channels / groups * rest);
    Tensor first = hammock::sum(weighted, {2, 3}, true) / count;
    Tensor second = hammock::sum(weighted * normalised, {2, 3}, true) / count;
    grads[0] = hammock::reshape((weighted - first - normalised * second) * scale, x.sizes());
  }
  return Masked(grads, mask);
}

/// grad, input, normalized_shape, rstd, weight, mask
Any FusedRmsNormBackward(Call c) {
  const Tensor &grad = c.tensor(0), &x = c.tensor(1);
  std::vector<uint8_t> mask = MaskAt(c, 5);
  int rank = static_cast<int>(c.ints(2).size());
  Dims inner, outer;
  for (int i = 0; i < x.dim(); ++i) (i < x.dim() - rank ? outer : inner).push_back(i);
  Tensor scale = c.tensor(3), normalised = x * scale;
  Tensor weighted = c.none(4) ? grad : grad * c.tensor(4);
  Tensor to_input =
      (weighted - normalised * hammock::mean(weighted * normalised, inner, true)) * scale;
  Tensor to_weight;
  if (mask[1] && !c.none(4)) {
    Tensor each = grad * normalised;
    to_weight = (outer.empty() ? each : hammock::sum(each, outer)).to(c.tensor(4).dtype());
  }
  return Masked({to_input.to(x.dtype()), to_weight}, mask);
}

// ---- Pooling and resizing: the gradient of the forward op

Tensor OfForward(const Tensor& grad, const Tensor& self,
                 const std::function<Any(const Tensor&)>& forward) {
  return GradsOf(
      [&](const std::vector<Tensor>& in) {
        Any result = forward(in[0]);
        return result.IsSequence() ? result.ToList()[0].ToTensor() : result.ToTensor();
      },
      {self}, grad)[0];
}

/// grad, self, kernel_size, stride, padding, dilation, ceil_mode, indices
Any MaxPoolBackward(Call c, const char* op) {
  return OfForward(c.tensor(0), c.tensor(1), [&](const Tensor& x) {
    return CallOp(op, {x, c[2], c[3], c[4], c[5], c[6]});
  });
}
/// grad, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
Any AvgPoolBackward(Call c, const char* op) {
  return OfForward(c.tensor(0), c.tensor(1), [&](const Tensor& x) {
    return CallOp(op, {x, c[2], c[3], c[4], c[5], c[6], c[7]});
  });
}
Any AdaptiveBackward(Call c, const char* op, int rank) {
  std::vector<int64_t> sizes = c.tensor(0).sizes().vec();
  std::vector<int64_t> output(sizes.end() - rank, sizes.end());
  return OfForward(c.tensor(0), c.tensor(1), [&](const Tensor& x) {
    return CallOp(op, {x, Any::Ints(output)});
  });
}
/// grad, self, padding
Any PadBackward(Call c, const char* op) {
  return OfForward(c.tensor(0), c.tensor(1), [&](const Tensor& x) {
    return CallOp(op, {x, c[2]});
  });
}
/// grad, output_size, input_size, (align_corners,) scales...
Any ResizeBackward(Call c, const char* op) {
  const Tensor& grad = c.tensor(0);
  Tensor input = hammock::zeros(c.ints(2), grad.dtype(), CurrentDevice());
  return OfForward(grad, input, [&](const Tensor& x) {
    AnyList args = {x, c[1]};
    for (size_t i = 3; i < c.size(); ++i) args.push_back(c[i]);
    return CallOp(op, args);
  });
}

/// Modes that PyTorch has ops of, and Hammock one op for: scales follow from `first` on.
Tensor ResizedIn(const char* mode, const Tensor& x, const Any& sizes, Call c, size_t first) {
  const bool antialias = std::string_view(mode) != "nearest-exact";
  const bool corners = antialias && c.flag(first - 1);
  AnyList steps, scales;
  for (size_t i = first; i < c.size(); ++i) scales.push_back(c.none(i) ? 0.0 : c.real(i));
  return CallOp("_resize", {x, steps, sizes, mode, corners, scales, antialias}).ToTensor();
}
/// input, output_size, (align_corners,) scale_factors
Any ResizedByFactors(Call c, const char* mode) {
  const bool antialias = c.size() == 4;
  std::optional<Dims> sizes;
  std::optional<std::vector<double>> factors;
  if (c.none(1)) {
    factors = c[c.size() - 1].ToDoubles();
  } else {
    sizes = Dims(c.ints(1));
  }
  std::optional<bool> corners;
  if (antialias) corners = c.flag(2);
  return hammock::interpolate(c.tensor(0), sizes, factors, mode, corners, std::nullopt, antialias);
}
/// self, output_size, scales...
Any NearestExact(Call c) { return ResizedIn("nearest-exact", c.tensor(0), c[1], c, 2); }
/// grad, output_size, input_size, scales...
Any NearestExactBackward(Call c) {
  Tensor input = hammock::zeros(c.ints(2), c.tensor(0).dtype(), CurrentDevice());
  return OfForward(c.tensor(0), input,
                   [&](const Tensor& x) { return ResizedIn("nearest-exact", x, c[1], c, 3); });
}
/// self, output_size, align_corners, scales...
Any Antialiased(Call c, const char* mode) { return ResizedIn(mode, c.tensor(0), c[1], c, 3); }
/// grad, output_size, input_size, align_corners, scales...
Any AntialiasedBackward(Call c, const char* mode) {
  Tensor input = hammock::zeros(c.ints(2), c.tensor(0).dtype(), CurrentDevice());
  return OfForward(c.tensor(0), input,
                   [&](const Tensor& x) { return ResizedIn(mode, x, c[1], c, 4); });
}

constexpr const char* kGridModes[] = {"bilinear", "nearest", "bicubic"};
constexpr const char* kGridPaddings[] = {"zeros", "border", "reflection"};

/// input, grid, interpolation_mode, padding_mode, align_corners
Any GridSampler(Call c) {
  return hammock::grid_sample(c.tensor(0), c.tensor(1), kGridModes[c.integer(2)],
                              kGridPaddings[c.integer(3)], c.flag(4));
}
/// grad, input, grid, interpolation_mode, padding_mode, align_corners, mask
Any GridSamplerBackward(Call c) {
  std::vector<Tensor> grads = GradsOf(
      [&](const std::vector<Tensor>& in) {
        return hammock::grid_sample(in[0], in[1], kGridModes[c.integer(3)],
                                    kGridPaddings[c.integer(4)], c.flag(5));
      },
      {c.tensor(1), c.tensor(2)}, c.tensor(0));
  return c.size() > 6 ? Masked(grads, MaskAt(c, 6)) : TupleOf(grads);
}

// ---- Embeddings: grad, indices, num_weights, padding_idx, scale_grad_by_freq

Any EmbeddingDenseBackward(Call c) {
  const Tensor &grad = c.tensor(0), &indices = c.tensor(1);
  int64_t width = grad.size(-1), padding = c.integer(3);
  Tensor rows = hammock::reshape(grad, {indices.numel(), width});
  Tensor flat = hammock::reshape(indices, {-1});
  if (padding >= 0) {
    Tensor keep = hammock::unsqueeze(hammock::ne(flat, padding), 1);
    rows = hammock::where(keep, rows, hammock::zeros_like(rows));
  }
  if (c.flag(4)) {  // divided by how often each index occurs
    Tensor none = hammock::zeros({c.integer(2)}, grad.dtype(), CurrentDevice());
    Tensor counts = hammock::index_add(
        none, 0, flat, hammock::ones({flat.numel()}, grad.dtype(), CurrentDevice()));
    rows = rows / hammock::unsqueeze(hammock::index_select(counts, 0, flat), 1);
  }
  Tensor zeros = hammock::zeros({c.integer(2), width}, grad.dtype(), CurrentDevice());
  return hammock::index_add(zeros, 0, flat, rows);
}

/// grad, self, kernel_size, output_size, indices into the last dims
Any FractionalMaxPoolBackward(Call c, int rank) {
  const Tensor &grad = c.tensor(0), &self = c.tensor(1);
  auto planes = [&](const Tensor& x) { return hammock::flatten(x, x.dim() - rank, -1); };
  Tensor sums = hammock::scatter_add(planes(hammock::zeros_like(self)), -1, planes(c.tensor(4)),
                                     planes(grad));
  return hammock::reshape(sums, self.sizes());
}

// ---- Cells of recurrent layers

/// grad_hy, grad_cy, cx, cy, gates, has_bias -> gradients of the gates, of cx, of a bias
Any LstmCellBackward(Call c) {
  std::vector<Tensor> gates = hammock::chunk(c.tensor(4), 4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  Tensor tanh = hammock::tanh(c.tensor(3));
  Tensor grad_hy = c.none(0) ? hammock::zeros_like(tanh) : c.tensor(0);
  Tensor grad_cy = grad_hy * out * (1.0 - tanh * tanh);
  if (!c.none(1)) grad_cy = grad_cy + c.tensor(1);
  Tensor grad = hammock::cat(
      {grad_cy * cell * (1.0 - in) * in, grad_cy * c.tensor(2) * (1.0 - forget) * forget,
       grad_cy * in * (1.0 - cell * cell), grad_hy * tanh * (1.0 - out) * out},
      1);
  return TupleOf({grad, grad_cy * forget, c.flag(5) ? hammock::sum(grad, {0}) : Tensor()});
}
/// grad_hy, values of the forward pass, has_bias -> gradients of both gates, of hx, of both biases
Any GruCellBackward(Call c) {
  const Tensor& grad = c.tensor(0);
  std::vector<Tensor> kept = hammock::chunk(c.tensor(1), 5, 1);
  const Tensor &reset = kept[0], &update = kept[1], &fresh = kept[2], &hx = kept[3];
  Tensor to_update = grad * (hx - fresh) * (1.0 - update) * update;
  Tensor to_fresh = grad * (1.0 - update) * (1.0 - fresh * fresh);
  Tensor to_reset = to_fresh * kept[4] * (1.0 - reset) * reset;
  Tensor to_input = hammock::cat({to_reset, to_update, to_fresh}, 1);
  Tensor to_hidden = hammock::cat({to_reset, to_update, to_fresh * reset}, 1);
  auto of_bias = [&](const Tensor& x) { return c.flag(2) ? hammock::sum(x, {0}) : Tensor(); };
  return TupleOf({to_input, to_hidden, grad * update, of_bias(to_input), of_bias(to_hidden)});
}

// ---- Weights by direction and length

Dims AllButDim(const Tensor& x, int64_t dim) {
  return AllBut(x, static_cast<int>(dim < 0 ? dim + x.dim() : dim));
}

/// v, g, dim -> (w, norms)
Any WeightNorm(Call c) {
  const Tensor& v = c.tensor(0);
  Tensor norms = hammock::sqrt(hammock::sum(v * v, AllButDim(v, c.integer(2)), true));
  return TupleOf({v * (c.tensor(1) / norms), norms});
}
/// grad, v, g, norms, dim
Any WeightNormBackward(Call c) {
  const Tensor &grad = c.tensor(0), &v = c.tensor(1), &norms = c.tensor(3);
  Tensor along = hammock::sum(grad * v, AllButDim(v, c.integer(4)), true) / norms;
  return TupleOf({c.tensor(2) / norms * (grad - v * (along / norms)), along});
}

/// grad, mask, sizes of the source: the gradients under the mask, one after the other.
Any MaskedScatterBackward(Call c) {
  const Tensor& grad = c.tensor(0);
  int64_t count = 1;
  for (int64_t size : c.ints(2)) count *= size;
  Tensor mask = hammock::reshape(hammock::broadcast_to(c.tensor(1), grad.sizes()), {-1});
  Tensor rank = hammock::cumsum(mask.to(DType::kI64), 0) - 1;
  Tensor index = hammock::where(mask, rank, hammock::full_like(rank, count));
  Tensor rows = hammock::zeros({count + 1}, grad.dtype(), CurrentDevice());
  Tensor sums = hammock::index_add(rows, 0, index, hammock::reshape(grad, {-1}));
  return hammock::reshape(hammock::narrow(sums, 0, 0, count), c.ints(2));
}

/// x1, x2, p, compute_mode
Any CdistForward(Call c) { return hammock::cdist(c.tensor(0), c.tensor(1), c.real(2)); }
/// grad, x1, x2, p, distances: the gradient of x1
Any CdistBackward(Call c) {
  return OfForward(c.tensor(0), c.tensor(1),
                   [&](const Tensor& x) { return hammock::cdist(x, c.tensor(2), c.real(3)); });
}

constexpr AdaptorEntry kTable[] = {
    {"convolution_backward", ConvolutionBackward},
    {"convolution_backward_overrideable", ConvolutionBackwardOverrideable},
    {"native_layer_norm_backward", LayerNormBackward},
    {"native_batch_norm_backward", NativeBatchNormBackward},
    {"batch_norm_backward", BatchNormBackward},
    {"native_group_norm_backward", GroupNormBackward},
    {"_fused_rms_norm_backward", FusedRmsNormBackward},
    {"max_pool2d_with_indices_backward",
     [](Call c) { return MaxPoolBackward(c, "max_pool2d_with_indices"); }},
    {"max_pool3d_with_indices_backward",
     [](Call c) { return MaxPoolBackward(c, "max_pool3d_with_indices"); }},
    {"avg_pool2d_backward", [](Call c) { return AvgPoolBackward(c, "avg_pool2d"); }},
    {"avg_pool3d_backward", [](Call c) { return AvgPoolBackward(c, "avg_pool3d"); }},
    {"_adaptive_avg_pool2d_backward",
     [](Call c) { return AdaptiveBackward(c, "adaptive_avg_pool2d", 2); }},
    {"_adaptive_avg_pool3d_backward",
     [](Call c) { return AdaptiveBackward(c, "adaptive_avg_pool3d", 3); }},
    {"adaptive_max_pool2d_backward",
     [](Call c) { return AdaptiveBackward(c, "adaptive_max_pool2d", 2); }},
    {"adaptive_max_pool3d_backward",
     [](Call c) { return AdaptiveBackward(c, "adaptive_max_pool3d", 3); }},
    {"reflection_pad1d_backward", [](Call c) { return PadBackward(c, "reflection_pad1d"); }},
    {"reflection_pad2d_backward", [](Call c) { return PadBackward(c, "reflection_pad2d"); }},
    {"reflection_pad3d_backward", [](Call c) { return PadBackward(c, "reflection_pad3d"); }},
    {"replication_pad1d_backward", [](Call c) { return PadBackward(c, "replication_pad1d"); }},
    {"replication_pad2d_backward", [](Call c) { return PadBackward(c, "replication_pad2d"); }},
    {"replication_pad3d_backward", [](Call c) { return PadBackward(c, "replication_pad3d"); }},
    {"upsample_nearest1d_backward", [](Call c) { return ResizeBackward(c, "upsample_nearest1d"); }},
    {"upsample_nearest2d_backward", [](Call c) { return ResizeBackward(c, "upsample_nearest2d"); }},
    {"upsample_nearest3d_backward", [](Call c) { return ResizeBackward(c, "upsample_nearest3d"); }},
    {"upsample_linear1d_backward", [](Call c) { return ResizeBackward(c, "upsample_linear1d"); }},
    {"upsample_bilinear2d_backward",
     [](Call c) { return ResizeBackward(c, "upsample_bilinear2d"); }},
    {"upsample_bicubic2d_backward", [](Call c) { return ResizeBackward(c, "upsample_bicubic2d"); }},
    {"upsample_trilinear3d_backward",
     [](Call c) { return ResizeBackward(c, "upsample_trilinear3d"); }},
    {"_upsample_nearest_exact1d", NearestExact},
    {"_upsample_nearest_exact1d.vec", [](Call c) { return ResizedByFactors(c, "nearest-exact"); }},
    {"_upsample_nearest_exact1d_backward", NearestExactBackward},
    {"_upsample_nearest_exact2d", NearestExact},
    {"_upsample_nearest_exact2d.vec", [](Call c) { return ResizedByFactors(c, "nearest-exact"); }},
    {"_upsample_nearest_exact2d_backward", NearestExactBackward},
    {"_upsample_nearest_exact3d", NearestExact},
    {"_upsample_nearest_exact3d.vec", [](Call c) { return ResizedByFactors(c, "nearest-exact"); }},
    {"_upsample_nearest_exact3d_backward", NearestExactBackward},
    {"_upsample_bilinear2d_aa.vec", [](Call c) { return ResizedByFactors(c, "bilinear"); }},
    {"_upsample_bilinear2d_aa", [](Call c) { return Antialiased(c, "bilinear"); }},
    {"_upsample_bilinear2d_aa_backward", [](Call c) { return AntialiasedBackward(c, "bilinear"); }},
    {"_upsample_bicubic2d_aa.vec", [](Call c) { return ResizedByFactors(c, "bicubic"); }},
    {"_upsample_bicubic2d_aa", [](Call c) { return Antialiased(c, "bicubic"); }},
    {"_upsample_bicubic2d_aa_backward", [](Call c) { return AntialiasedBackward(c, "bicubic"); }},
    {"grid_sampler_2d", GridSampler},
    {"grid_sampler_3d", GridSampler},
    {"grid_sampler_2d_backward", GridSamplerBackward},
    {"grid_sampler_3d_backward", GridSamplerBackward},
    {"embedding_dense_backward", EmbeddingDenseBackward},
    {"fractional_max_pool2d_backward", [](Call c) { return FractionalMaxPoolBackward(c, 2); }},
    {"fractional_max_pool3d_backward", [](Call c) { return FractionalMaxPoolBackward(c, 3); }},
    {"_thnn_fused_lstm_cell_backward_impl", LstmCellBackward},
    {"_thnn_fused_gru_cell_backward", GruCellBackward},
    {"_weight_norm_interface", WeightNorm},
    {"_weight_norm_interface_backward", WeightNormBackward},
    {"masked_scatter_backward", MaskedScatterBackward},
    {"_cdist_forward", CdistForward},
    {"_cdist_backward", CdistBackward},
};

}  // namespace

std::span<const AdaptorEntry> NnGradAdaptors() { return kTable; }

}  // namespace hammock_torch
