// Layers: convolution, normalisation, pooling, embeddings, resizing.

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

Any List(const Dims& dims) { return Any::Ints(dims.vec()); }

/// input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
Any Convolution(Call c) {
  Tensor input = c.tensor(0);
  const Tensor& weight = c.tensor(1);
  int rank = weight.dim() - 2;
  bool batched = input.dim() == weight.dim();
  if (!batched) input = hammock::unsqueeze(input, 0);
  Tensor result =
      CallOp("convolution", {input, weight, List(c.dims(3, rank)), List(c.dims(4, rank)),
                             List(c.dims(5, rank)), c.flag(6), List(c.dims(7, rank)), c.integer(8)})
          .ToTensor();
  if (!c.none(2)) {
    Dims sizes = Dims::Filled(result.dim(), 1);
    sizes[1] = c.tensor(2).numel();
    result = result + hammock::reshape(c.tensor(2), sizes);
  }
  return batched ? result : hammock::squeeze(result, 0);
}

/// PyTorch's dims of one sample: indices (weight, indices, padding_idx, ...). The padding index
/// matters to the gradient alone.
Any Embedding(Call c) { return hammock::embedding(c.tensor(1), c.tensor(0)); }

Any AdaptiveMaxPool(Call c, const char* op) {
  return CallOp(op, {c[0], c[1]}, {{"return_indices", true}});
}

// ---- Batch normalisation. Every form: input, weight, bias, running_mean, running_var, then flags.

std::optional<Tensor> Maybe(Call c, size_t i) {
  return c.none(i) ? std::nullopt : std::optional<Tensor>(c.tensor(i));
}

/// Batch normalisation; its saved statistics in eval mode are empty tensors in PyTorch's CPU
/// kernel.
Any BatchNorm(Call c, bool training, double momentum, double eps) {
  auto [result, mean, scale] = hammock::native_batch_norm(
      c.tensor(0), Maybe(c, 1), Maybe(c, 2), Maybe(c, 3), Maybe(c, 4), training, momentum, eps);
  return TupleOf({result, mean, scale});
}
Any NativeBatchNorm(Call c) { return BatchNorm(c, c.flag(5), c.real(6), c.real(7)); }
/// The result alone, as TorchScript has it.
Any BatchNormOfScript(Call c) { return NativeBatchNorm(c).ToList()[0]; }
Any BatchNormNoStats(Call c) {
  auto [result, mean, scale] =
      hammock::native_batch_norm(c.tensor(0), Maybe(c, 1), Maybe(c, 2), std::nullopt, std::nullopt,
                                 true, c.real(4), c.real(5));
  return TupleOf({result, mean, scale});
}
Any BatchNormNoTraining(Call c) { return BatchNorm(c, false, c.real(5), c.real(6)); }

/// As above; the running statistics are results instead of being written.
std::vector<Tensor> FunctionalBatchNorm(Call c, bool training, double momentum, double eps) {
  Tensor mean = hammock::clone(c.tensor(3)), var = hammock::clone(c.tensor(4));
  auto [result, save_mean, save_scale] = hammock::native_batch_norm(
      c.tensor(0), Maybe(c, 1), Maybe(c, 2), mean, var, training, momentum, eps);
  return {result, save_mean, save_scale, mean, var};
}
Any NativeBatchNormFunctional(Call c) {
  return TupleOf(FunctionalBatchNorm(c, c.flag(5), c.real(6), c.real(7)));
}
/// Results: out, save_mean, save_rstd, reserve(, running_mean, running_var).
Any BatchNormWithUpdate(Call c) {
  auto [result, mean, scale] = hammock::native_batch_norm(
      c.tensor(0), Maybe(c, 1), Maybe(c, 2), Maybe(c, 3), Maybe(c, 4), true, c.real(5), c.real(6));
  return TupleOf({result, mean, scale, hammock::zeros({0}, DType::kU8, CurrentDevice())});
}
Any BatchNormWithUpdateFunctional(Call c) {
  std::vector<Tensor> r = FunctionalBatchNorm(c, true, c.real(5), c.real(6));
  return TupleOf({r[0], r[1], r[2], hammock::zeros({0}, DType::kU8, CurrentDevice()), r[3], r[4]});
}
Any BatchNormNoUpdate(Call c) {
  Any three = BatchNorm(c, false, c.real(5), c.real(6));
  AnyList items = three.ToList();
  items.push_back(hammock::zeros({0}, DType::kU8, CurrentDevice()));
  return Any::Tuple(items);
}

/// input, normalized_shape, weight, eps -> (result, rstd)
Any FusedRmsNorm(Call c) {
  const Tensor& x = c.tensor(0);
  int rank = static_cast<int>(c.ints(1).size());
  Dims dims;
  for (int i = x.dim() - rank; i < x.dim(); ++i) dims.push_back(i);
  bool low = x.dtype() == DType::kF16 || x.dtype() == DType::kBF16;
  Tensor wide = low ? x.to(DType::kF32) : x;
  double eps = 1.1920928955078125e-07;
  if (wide.dtype() == DType::kF64) eps = 2.220446049250313e-16;
  if (!c.none(3)) eps = c.real(3);
  Tensor scale = hammock::rsqrt(hammock::mean(wide * wide, dims, true) + eps);
  Tensor result = (wide * scale).to(x.dtype());
  if (!c.none(2)) result = result * c.tensor(2);
  return TupleOf({result, scale});
}

// ---- Resizing: output_size, (align_corners,) scale_factors

struct Resize {
  std::vector<int64_t> size;
  std::vector<double> scales;
};
Resize ResizeOf(Call c, size_t size_at, size_t scales_at) {
  Resize result;
  const Tensor& x = c.tensor(0);
  if (!c.none(scales_at)) result.scales = c[scales_at].ToDoubles();
  if (!c.none(size_at)) {
    result.size = c.ints(size_at);
    result.scales.clear();
  } else {
    for (size_t i = 0; i < result.scales.size(); ++i) {
      result.size.push_back(static_cast<int64_t>(
          static_cast<double>(x.size(static_cast<int64_t>(i) + 2)) * result.scales[i]));
    }
  }
  return result;
}
Any ResizeVec(Call c, const char* op, bool corners) {
  Resize resize = ResizeOf(c, 1, corners ? 3 : 2);
  AnyList args = {c[0], Any::Ints(resize.size)};
  if (corners) args.push_back(c[2]);
  for (double scale : resize.scales) args.push_back(scale);
  return CallOp(op, args);
}

/// self, kernel_size, output_size, random_samples -> (result, indices)
Any FractionalMaxPool(Call c, const char* op) {
  return CallOp(op, {c[0], c[1], c[2]}, {{"_random_samples", c[3]}});
}

// ---- Cells of recurrent layers, which PyTorch has as one op on devices other than the CPU

/// input_gates, hidden_gates, cx, input_bias, hidden_bias -> (hy, cy, gates)
Any LstmCell(Call c) {
  Tensor gates = c.tensor(0) + c.tensor(1);
  if (!c.none(3)) gates = gates + c.tensor(3) + c.tensor(4);
  std::vector<Tensor> parts = hammock::chunk(gates, 4, 1);
  Tensor in = hammock::sigmoid(parts[0]), forget = hammock::sigmoid(parts[1]);
  Tensor cell = hammock::tanh(parts[2]), out = hammock::sigmoid(parts[3]);
  Tensor cy = forget * c.tensor(2) + in * cell;
  return TupleOf({out * hammock::tanh(cy), cy, hammock::cat({in, forget, cell, out}, 1)});
}
/// input_gates, hidden_gates, hx, input_bias, hidden_bias -> (hy, values for the gradient)
Any GruCell(Call c) {
  Tensor input = c.tensor(0), hidden = c.tensor(1);
  const Tensor& hx = c.tensor(2);
  if (!c.none(3)) {
    input = input + c.tensor(3);
    hidden = hidden + c.tensor(4);
  }
  std::vector<Tensor> of_input = hammock::chunk(input, 3, 1);
  std::vector<Tensor> of_hidden = hammock::chunk(hidden, 3, 1);
  Tensor reset = hammock::sigmoid(of_input[0] + of_hidden[0]);
  Tensor update = hammock::sigmoid(of_input[1] + of_hidden[1]);
  Tensor fresh = hammock::tanh(of_input[2] + reset * of_hidden[2]);
  return TupleOf(
      {fresh + update * (hx - fresh), hammock::cat({reset, update, fresh, hx, of_hidden[2]}, 1)});
}

Any PadMode(Call c) { return CallOp("pad", {c[0], c[1], c[2], c[3]}); }

constexpr AdaptorEntry kTable[] = {
    {"convolution", Convolution},
    {"_convolution", Convolution},
    {"convolution_overrideable", Convolution},
    {"embedding", Embedding},
    {"_adaptive_avg_pool2d",
     [](Call c) {
       return CallOp("adaptive_avg_pool2d", {c[0], c[1]});
     }},
    {"_adaptive_avg_pool3d",
     [](Call c) {
       return CallOp("adaptive_avg_pool3d", {c[0], c[1]});
     }},
    {"adaptive_max_pool1d", [](Call c) { return AdaptiveMaxPool(c, "adaptive_max_pool1d"); }},
    {"adaptive_max_pool2d", [](Call c) { return AdaptiveMaxPool(c, "adaptive_max_pool2d"); }},
    {"adaptive_max_pool3d", [](Call c) { return AdaptiveMaxPool(c, "adaptive_max_pool3d"); }},
    {"batch_norm", BatchNormOfScript},
    {"native_batch_norm", NativeBatchNorm},
    {"_native_batch_norm_legit", NativeBatchNorm},
    {"_native_batch_norm_legit.no_stats", BatchNormNoStats},
    {"_native_batch_norm_legit_no_training", BatchNormNoTraining},
    {"_native_batch_norm_legit_functional", NativeBatchNormFunctional},
    {"_batch_norm_with_update", BatchNormWithUpdate},
    {"_batch_norm_with_update_functional", BatchNormWithUpdateFunctional},
    {"_batch_norm_no_update", BatchNormNoUpdate},
    {"_fused_rms_norm", FusedRmsNorm},
    {"upsample_nearest1d.vec", [](Call c) { return ResizeVec(c, "upsample_nearest1d", false); }},
    {"upsample_nearest2d.vec", [](Call c) { return ResizeVec(c, "upsample_nearest2d", false); }},
    {"upsample_nearest3d.vec", [](Call c) { return ResizeVec(c, "upsample_nearest3d", false); }},
    {"upsample_linear1d.vec", [](Call c) { return ResizeVec(c, "upsample_linear1d", true); }},
    {"upsample_bilinear2d.vec", [](Call c) { return ResizeVec(c, "upsample_bilinear2d", true); }},
    {"upsample_bicubic2d.vec", [](Call c) { return ResizeVec(c, "upsample_bicubic2d", true); }},
    {"upsample_trilinear3d.vec", [](Call c) { return ResizeVec(c, "upsample_trilinear3d", true); }},
    {"fractional_max_pool2d",
     [](Call c) { return FractionalMaxPool(c, "fractional_max_pool2d_with_indices"); }},
    {"fractional_max_pool3d",
     [](Call c) { return FractionalMaxPool(c, "fractional_max_pool3d_with_indices"); }},
    {"_thnn_fused_lstm_cell", LstmCell},
    {"_thnn_fused_gru_cell", GruCell},
    {"pad", PadMode},
};

}  // namespace

std::span<const AdaptorEntry> NnAdaptors() { return kTable; }

}  // namespace hammock_torch
