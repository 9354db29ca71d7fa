/// Quantised operators of com.microsoft, as ONNX Runtime's quantizer writes them.

#include <algorithm>

#include "onnx/operators/microsoft.h"
#include "onnx/operators/quantized.h"
#include "onnx/program.h"

namespace hammock::onnx {
namespace {

/// Input `i` with its scale and zero point, the two inputs after it, as f32.
Tensor Real(const Call& c, size_t i) { return Dequantized(c[i], c[i + 1], c.Optional(i + 2)); }

/// A result with the scale and zero point of inputs `i` and `i + 1`; without one it is like `x`.
Tensor Requantized(const Call& c, const Tensor& y, size_t i, const Tensor& like) {
  return Quantized(c, y, c[i].reshape({}), c.Optional(i + 1),
                   c.Has(i + 1) ? c[i + 1].dtype() : like.dtype());
}

template <Tensor (*F)(const Tensor&, const TensorArg&, Location)>
Values QLinearBinary(Call& c) {
  return {Requantized(c, F(Real(c, 0), Real(c, 3), Location()), 6, c[0])};
}

Values QLinearSigmoid(Call& c) { return {Requantized(c, sigmoid(Real(c, 0)), 3, c[0])}; }

Values QLinearLeakyRelu(Call& c) {
  return {Requantized(c, leaky_relu(Real(c, 0), c.Float("alpha", 0.01)), 3, c[0])};
}

Values QLinearSoftmax(Call& c) {
  Tensor x = Real(c, 0);
  auto axis = static_cast<int>(Wrapped(c, c.Int("axis", -1), x.dim()));
  if (c.Int("opset", 13) >= 13) return {Requantized(c, softmax(x, axis), 3, c[0])};
  Tensor flat = x.reshape({Product(x.sizes(), 0, axis), Product(x.sizes(), axis, x.dim())});
  return {Requantized(c, softmax(flat, 1).reshape(x.sizes()), 3, c[0])};
}

Values QLinearConcat(Call& c) {
  std::vector<Tensor> parts;
  for (size_t i = 2; i + 2 < c.size() + 1; i += 3) parts.push_back(Real(c, i));
  if (parts.empty()) c.Fail("nothing to join");
  return {Requantized(c, cat(parts, c.Int("axis", 0)), 0, c[2])};
}

Values QLinearReduceMean(Call& c) {
  Tensor x = Real(c, 0);
  Dims axes = AxesOf(c, "axes", 5, x.dim());
  if (axes.empty()) {
    for (int64_t i = 0; i < x.dim(); ++i) axes.push_back(i);
  }
  return {Requantized(c, mean(x, axes, c.Int("keepdims", 1) != 0), 3, c[0])};
}

Values QLinearWhere(Call& c) {
  return {Requantized(c, where(c[0], Real(c, 1), Real(c, 4)), 7, c[1])};
}

// ---- images, with channels in the second dim or in the last

Tensor ChannelsSecond(const Tensor& x) {
  Dims order{0, x.dim() - 1};
  for (int64_t i = 1; i + 1 < x.dim(); ++i) order.push_back(i);
  return x.permute(order);
}
Tensor ChannelsLast(const Tensor& x) {
  Dims order{0};
  for (int64_t i = 2; i < x.dim(); ++i) order.push_back(i);
  order.push_back(1);
  return x.permute(order);
}

/// An operator of ONNX on other inputs, with this node's attributes.
Tensor Through(Call& c, const char* op, Values inputs) {
  const Operator* found = FindOperator("", op, kNewestOpset);
  Call inner(c.run(), c.node(), kNewestOpset, inputs);
  return c.run().TensorOf(found->run(inner).at(0));
}

Values Pooled(Call& c, const char* op) {
  bool last = c.Int("channels_last", 0);
  Tensor x = Real(c, 0);
  Tensor y = Through(c, op, {last ? ChannelsSecond(x) : x});
  return {Requantized(c, last ? ChannelsLast(y) : y, 3, c[0])};
}
Values QLinearAveragePool(Call& c) { return Pooled(c, "AveragePool"); }
Values QLinearGlobalAveragePool(Call& c) { return Pooled(c, "GlobalAveragePool"); }

Values NhwcMaxPool(Call& c) {
  return {ChannelsLast(Through(c, "MaxPool", {ChannelsSecond(c[0])}))};
}

Values ConvOfEither(Call& c) {
  if (!c.Int("channels_last", 0)) return QLinearConv(c);
  Values inputs(c.inputs().begin(), c.inputs().end());
  inputs[0] = ChannelsSecond(c[0]);
  Call inner(c.run(), c.node(), c.opset(), inputs);
  return {ChannelsLast(QLinearConv(inner)[0].tensor)};
}

// ---- matmuls

Values QGemm(Call& c) {
  Tensor a = c.Int("transA", 0) ? c[0].t() : c[0], b = c.Int("transB", 0) ? c[3].t() : c[3];
  Tensor sums = IntegerMatmul({a, ZeroPoint(c, 2)}, {b, ZeroPoint(c, 5)});
  Tensor scale = c[1].reshape({}) * c[4] * c.Float("alpha", 1);
  if (c.Has(6)) sums = sums + c[6];
  Tensor y = sums.to(DType::kF32) * scale;
  return {c.Has(7) ? Requantized(c, y, 7, c[0]) : y};
}

Values MatMulIntegerToFloat(Call& c) {
  Tensor sums = IntegerMatmul({c[0], ZeroPoint(c, 4)}, {c[1], ZeroPoint(c, 5)});
  Tensor y = sums.to(DType::kF32) * (c[2] * c[3]);
  return {c.Has(6) ? y + c[6] : y};
}

struct Dynamic {
  Tensor values, scale, zero;
};
/// An input with the scale and zero point that its own range gives.
Dynamic QuantizedByRange(Call& c, const Tensor& x) {
  const Operator* op = FindOperator("", "DynamicQuantizeLinear", kNewestOpset);
  Values inputs{x};
  Call inner(c.run(), c.node(), kNewestOpset, inputs);
  Values results = op->run(inner);
  return {results[0].tensor, results[1].tensor, results[2].tensor};
}

Values DynamicQuantizeMatMul(Call& c) {
  Dynamic x = QuantizedByRange(c, c[0]);
  Tensor sums = IntegerMatmul({x.values, x.zero}, {c[1], ZeroPoint(c, 3)});
  Tensor y = sums.to(DType::kF32) * (x.scale * c[2]);
  return {c.Has(4) ? y + c[4] : y};
}

/// LSTM whose weights (directions, in, gates) are quantised, one scale a direction or a column;
/// inputs and states are, by their range.
Values DynamicQuantizeLstm(Call& c) {
  auto real = [&](size_t weight, size_t scale) {
    auto spread = [&](const Tensor& s) {
      return s.dim() == 2 ? s.unsqueeze(1) : s.reshape({-1, 1, 1});
    };
    Tensor zero = spread(c[scale + 1]).to(DType::kI32);
    Tensor steps = (c[weight].to(DType::kI32) - zero).to(DType::kF32);
    return (steps * spread(c[scale])).transpose(1, 2);
  };
  if (c.size() != 12) c.Fail("{} inputs, needs 12", c.size());
  Values inputs(c.inputs().begin(), c.inputs().begin() + 8);
  inputs[0] = RoundedToRange(c, c[0]);
  inputs[1] = real(1, 8);
  inputs[2] = real(2, 10);
  Call inner(c.run(), c.node(), kNewestOpset, inputs);
  return FindOperator("", "LSTM", kNewestOpset)->run(inner);
}

/// Attention whose input and weights are quantised.
Values QAttention(Call& c) {
  Tensor sums = IntegerMatmul({c[0], ZeroPoint(c, 6)}, {c[1], ZeroPoint(c, 7)});
  Tensor all = sums.to(DType::kF32) * (c[3].reshape({}) * c[4]) + c[2];
  return AttentionOf(c, {all, c.Optional(5), c.Optional(8), std::nullopt});
}

Values Standard(Call& c) { return FindOperator("", c.node().op, kNewestOpset)->run(c); }

constexpr Operator kRows[] = {
    OfMicrosoft("DequantizeLinear", Standard, "x x_scale x_zero_point; axis block_size"),
    OfMicrosoft(
        "DynamicQuantizeLSTM", DynamicQuantizeLstm,
        "X W R B sequence_lens initial_h initial_c P W_scale W_zero_point R_scale R_zero_point; "
        "hidden_size direction activations activation_alpha activation_beta clip input_forget"),
    OfMicrosoft("DynamicQuantizeMatMul", DynamicQuantizeMatMul, "A B b_scale b_zero_point bias"),
    OfMicrosoft("MatMulIntegerToFloat", MatMulIntegerToFloat,
                "A B a_scale b_scale a_zero_point b_zero_point bias"),
    OfMicrosoft("NhwcMaxPool", NhwcMaxPool,
                "x; kernel_shape pads strides dilations auto_pad ceil_mode"),
    OfMicrosoft(
        "QAttention", QAttention,
        "input weight bias input_scale weight_scale mask_index input_zero_point "
        "weight_zero_point past; num_heads scale mask_filter_value unidirectional do_rotary=0 "
        "past_present_share_buffer=0"),
    OfMicrosoft(
        "QGemm", QGemm,
        "A a_scale a_zero_point B b_scale b_zero_point C y_scale y_zero_point; alpha transA "
        "transB"),
    OfMicrosoft("QLinearAdd", QLinearBinary<add>,
                "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point"),
    OfMicrosoft("QLinearAveragePool", QLinearAveragePool,
                "X x_scale x_zero_point y_scale y_zero_point; kernel_shape pads strides auto_pad "
                "ceil_mode count_include_pad channels_last"),
    OfMicrosoft("QLinearConcat", QLinearConcat, "Y_scale Y_zero_point inputs*; axis"),
    OfMicrosoft(
        "QLinearConv", ConvOfEither,
        "x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B; kernel_shape "
        "group pads strides dilations auto_pad channels_last"),
    OfMicrosoft("QLinearGlobalAveragePool", QLinearGlobalAveragePool,
                "X x_scale x_zero_point y_scale y_zero_point; channels_last"),
    OfMicrosoft("QLinearLeakyRelu", QLinearLeakyRelu,
                "X X_scale X_zero_point Y_scale Y_zero_point; alpha"),
    OfMicrosoft("QLinearMul", QLinearBinary<mul>,
                "A A_scale A_zero_point B B_scale B_zero_point C_scale C_zero_point"),
    OfMicrosoft("QLinearReduceMean", QLinearReduceMean,
                "data data_scale data_zero_point reduced_scale reduced_zero_point; axes keepdims"),
    OfMicrosoft("QLinearSigmoid", QLinearSigmoid, "X X_scale X_zero_point Y_scale Y_zero_point"),
    OfMicrosoft("QLinearSoftmax", QLinearSoftmax,
                "X X_scale x_zero_point y_scale y_zero_point; axis opset"),
    OfMicrosoft("QLinearWhere", QLinearWhere,
                "condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point"),
    OfMicrosoft("QuantizeLinear", Standard, "x y_scale y_zero_point; axis block_size saturate"),
};

}  // namespace

std::span<const Operator> ContribQuantizeOperators() { return kRows; }

}  // namespace hammock::onnx
