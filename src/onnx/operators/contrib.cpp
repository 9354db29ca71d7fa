/// Operators of com.microsoft that ONNX Runtime's optimizer and exporters write into files: fused
/// floats. The quantised ones are in contrib_quantize.cpp.

#include <algorithm>

#include "hammock/ops/quantize.h"
#include "onnx/operators/microsoft.h"
#include "onnx/operators/window.h"

namespace hammock::onnx {

namespace {

// ---- activations

Values Gelu(Call& c) { return {gelu(c[0])}; }
Values BiasGelu(Call& c) { return {gelu(c[0] + c[1])}; }
Values FastGelu(Call& c) { return {gelu(c.Has(1) ? c[0] + c[1] : c[0], "tanh")}; }
Values QuickGelu(Call& c) {
  Tensor x = c[0];
  return {x * sigmoid(x * c.Float("alpha", 1.702))};
}

/// An activation by name, as fused convolutions and matmuls have one.
Tensor Activated(const Call& c, const Tensor& x, const std::vector<float>& given) {
  std::string name = c.Text("activation");
  auto parameter = [&](size_t i, double otherwise) {
    return i < given.size() ? static_cast<double>(given[i]) : otherwise;
  };
  if (name.empty()) return x;
  if (name == "Relu") return relu(x);
  if (name == "Sigmoid") return sigmoid(x);
  if (name == "Tanh") return tanh(x);
  if (name == "LeakyRelu") return leaky_relu(x, parameter(0, 0.01));
  if (name == "Clip") return clamp(x, parameter(0, -3.4e38), parameter(1, 3.4e38));
  if (name == "HardSigmoid") return clamp(x * parameter(0, 0.2) + parameter(1, 0.5), 0.0, 1.0);
  c.Unsupported("activation '{}'", name);
}

Values FusedConv(Call& c) {
  Tensor y = Convolved(c, c[0], c[1], c.Optional(2));
  if (c.Has(3)) y = y + c[3];
  return {Activated(c, y, c.FloatList("activation_params"))};
}

// ---- matmuls

/// (batch..., rows, columns) of an operand whose batch dims come after its rows.
Tensor BatchFirst(const Tensor& x) {
  Dims order;
  for (int64_t i = 1; i + 1 < x.dim(); ++i) order.push_back(i);
  order.push_back(0);
  order.push_back(x.dim() - 1);
  return x.permute(order);
}

Values FusedMatMul(Call& c) {
  Tensor a = c[0], b = c[1];
  if (c.Int("transBatchA", 0)) a = BatchFirst(a);
  if (c.Int("transBatchB", 0)) b = BatchFirst(b);
  if (c.Int("transA", 0) && a.dim() > 1) a = a.transpose(-2, -1);
  if (c.Int("transB", 0) && b.dim() > 1) b = b.transpose(-2, -1);
  double alpha = c.Float("alpha", 1);
  Tensor y = matmul(a, b);
  return {alpha == 1 ? y : y * alpha};
}

Values FusedGemm(Call& c) {
  Tensor a = c.Int("transA", 0) ? c[0].t() : c[0], b = c.Int("transB", 0) ? c[1].t() : c[1];
  Tensor y = matmul(a, b) * c.Float("alpha", 1);
  if (c.Has(2)) y = y + c[2] * c.Float("beta", 1);
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta", "activation_gamma"}) {
    if (c.HasAttribute(name)) parameters.push_back(static_cast<float>(c.Float(name, 0)));
  }
  return {Activated(c, y, parameters)};
}

/// Weights (rows, blocks, bytes of a block) of a few bits each, low bits first, with a scale and a
/// zero point a block.
Tensor UnpackedBlocks(const Call& c, const Tensor& packed, int64_t bits) {
  if (bits < 1 || 8 % bits != 0) c.Unsupported("elements of {} bits", bits);
  int64_t each = 8 / bits;
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < each; ++i) {
    parts.push_back(bitwise_and(bitwise_right_shift(packed, i * bits), (1 << bits) - 1));
  }
  Dims sizes = packed.sizes();
  sizes[sizes.size() - 1] *= each;
  return stack(parts, -1).reshape(sizes);
}

/// x times a transposed weight of 4 or 8 bits (columns, depth), which stays as it is: whole blocks.
Tensor TimesQuantized(const Call& c, Tensor x, int64_t columns, int64_t blocks, int64_t block,
                      int64_t bits) {
  Tensor packed = c[1].reshape({columns, -1});
  Tensor weight = bits == 8 ? packed : view_dtype(packed, DType::kU4);
  Tensor zero = full({columns, blocks}, bits == 8 ? 128 : 8, DType::kU8, x.device());
  if (c.Has(3)) {
    Tensor given = UnpackedBlocks(c, c[3].reshape({columns, -1}), bits);
    zero = narrow(given, 1, 0, blocks);
  }
  int64_t rest = blocks * block - x.size(-1);
  if (rest > 0) x = constant_pad_nd(x, {0, rest});
  std::optional<Tensor> bias = c.Optional(5);
  return quantized_linear(x, weight, c[2].reshape({columns, blocks}), zero, bias);
}

Values MatMulNBits(Call& c) {
  int64_t depth = c.Int("K", 0), columns = c.Int("N", 0), bits = c.Int("bits", 4);
  int64_t block = c.Int("block_size", 32);
  if (depth < 1 || columns < 1 || block < 1)
    c.Fail("K {}, N {}, blocks of {}", depth, columns, block);
  int64_t blocks = (depth + block - 1) / block;
  Tensor x = c[0];
  bool integers = !c.Has(3) || c[3].dtype() == DType::kU8;
  // Blocks fill whole bytes.
  bool whole = c[1].numel() * 8 == columns * blocks * block * bits;
  if ((bits == 4 || bits == 8) && integers && whole) {
    return {TimesQuantized(c, x, columns, blocks, block, bits)};
  }
  Tensor codes = UnpackedBlocks(c, c[1].reshape({columns, blocks, -1}), bits);
  Tensor scale = c[2].reshape({columns, blocks, 1}).to(DType::kF32);
  Tensor values = codes.to(DType::kF32);
  if (!c.Has(3)) {
    values = values - static_cast<double>(int64_t{1} << (bits - 1));
  } else if (c[3].dtype() != DType::kU8) {
    values = values - c[3].reshape({columns, blocks, 1}).to(DType::kF32);
  } else {
    Tensor zero = UnpackedBlocks(c, c[3].reshape({columns, -1}), bits);
    values = values - narrow(zero, 1, 0, blocks).unsqueeze(-1).to(DType::kF32);
  }
  Tensor weight = narrow((values * scale).reshape({columns, -1}), 1, 0, depth);
  Tensor y = matmul(x, weight.t().to(x.dtype()));
  return {c.Has(5) ? y + c[5] : y};
}

// ---- normalisation

/// The sum over the last dim that skip connections make, and what follows from it.
Tensor SkipSum(const Call& c, size_t bias) {
  Tensor sum = c[0] + c[1];
  return c.Has(bias) ? sum + c[bias] : sum;
}

Values SkipLayerNormalization(Call& c) {
  Tensor sum = SkipSum(c, 4);
  Tensor y = layer_norm(sum, {sum.size(-1)}, c[2], c.Optional(3), c.Float("epsilon", 1e-12));
  return {y, Value(), Value(), sum};
}

Tensor RmsNormalized(const Tensor& x, const Tensor& scale, double eps, Tensor* inverse = nullptr) {
  Tensor wide = x.dtype() == DType::kF64 ? x : x.to(DType::kF32);
  Tensor factor = rsqrt(mean(wide * wide, {-1}, true) + eps);
  if (inverse) *inverse = factor;
  return (wide * factor).to(scale.dtype()) * scale;
}

Values SkipSimplifiedLayerNormalization(Call& c) {
  Tensor sum = SkipSum(c, 3);
  return {RmsNormalized(sum, c[2], c.Float("epsilon", 1e-12)), Value(), Value(), sum};
}

Values SimplifiedLayerNormalization(Call& c) {
  Tensor x = c[0], inverse;
  if (Wrapped(c, c.Int("axis", -1), x.dim()) != x.dim() - 1) c.Unsupported("axes before the last");
  Tensor y = RmsNormalized(x, c[1], c.Float("epsilon", 1e-5), &inverse);
  return {y, inverse};
}

/// (word + position + segment) embeddings, normalised; the mask becomes the length of each sample.
Values EmbedLayerNormalization(Call& c) {
  Tensor ids = c[0].to(DType::kI64);
  int64_t batch = ids.size(0), length = ids.size(1);
  Tensor sum = embedding(ids, c[2]);
  Tensor positions = c.Has(8) ? embedding(c[8].to(DType::kI64), c[3]) : narrow(c[3], 0, 0, length);
  sum = sum + positions;
  if (c.Has(1) && c.Has(4)) sum = sum + embedding(c[1].to(DType::kI64), c[4]);
  Tensor y = layer_norm(sum, {sum.size(-1)}, c[5], c[6], c.Float("epsilon", 1e-12));
  Tensor lengths = c.Has(7) ? hammock::sum(c[7].to(DType::kI32), {1}).to(DType::kI32)
                            : zeros({batch}, DType::kI32, c.device());
  return {y, lengths, sum};
}

// ---- small ones

Values Inverse(Call& c) { return {linalg_inv(c[0])}; }
Values ExpandDims(Call& c) {
  Tensor x = c[0];
  return {x.unsqueeze(c.Number(1).ToInt())};
}
Values Trilu(Call& c) {
  int64_t k = c.Has(1) ? c.Number(1).ToInt() : 0;
  return {c.Int("upper", 1) ? triu(c[0], k) : tril(c[0], k)};
}
Values IsAllFinite(Call& c) {
  Tensor finite;
  bool infinity = !c.Int("isnan_only", 0), nan = !c.Int("isinf_only", 0);
  for (const Tensor& x : c.Tensors()) {
    Tensor bad = infinity && nan ? logical_not(isfinite(x)) : infinity ? isinf(x) : isnan(x);
    Tensor fine = logical_not(any(bad)).reshape({1});
    finite = finite.defined() ? logical_and(finite, fine) : fine;
  }
  return {finite};
}

Values CDist(Call& c) {
  Tensor a = c[0].unsqueeze(1), b = c[1].unsqueeze(0);
  Tensor squares = sum((a - b) * (a - b), {-1});
  return {c.Text("metric", "sqeuclidean") == "euclidean" ? sqrt(squares) : squares};
}

constexpr Operator kRows[] = {
    OfMicrosoft("BiasGelu", BiasGelu, "A B"),
    OfMicrosoft("CDist", CDist, "A B; metric"),
    OfMicrosoft(
        "EmbedLayerNormalization", EmbedLayerNormalization,
        "input_ids segment_ids word_embedding position_embedding segment_embedding gamma beta "
        "mask position_ids; epsilon mask_index_type"),
    OfMicrosoft("ExpandDims", ExpandDims, "X axis"),
    OfMicrosoft("FastGelu", FastGelu, "X bias"),
    OfMicrosoft("FusedConv", FusedConv,
                "X W B Z; activation activation_params group pads strides dilations kernel_shape "
                "auto_pad"),
    OfMicrosoft(
        "FusedGemm", FusedGemm,
        "A B C; activation activation_alpha activation_beta activation_gamma alpha beta transA "
        "transB"),
    OfMicrosoft("FusedMatMul", FusedMatMul, "A B; alpha transA transB transBatchA transBatchB"),
    OfMicrosoft("Gelu", Gelu, "X"),
    OfMicrosoft("Inverse", Inverse, "X"),
    OfMicrosoft("IsAllFinite", IsAllFinite, "input*; isnan_only isinf_only"),
    OfMicrosoft("MatMulNBits", MatMulNBits,
                "A B scales zero_points !g_idx bias; K N bits block_size accuracy_level "
                "weight_prepacked=0"),
    OfMicrosoft("QuickGelu", QuickGelu, "X; alpha"),
    {"SimplifiedLayerNormalization", 1, kNewestOpset, SimplifiedLayerNormalization},
    OfMicrosoft("SkipLayerNormalization", SkipLayerNormalization,
                "input skip gamma beta bias; epsilon"),
    OfMicrosoft("SkipSimplifiedLayerNormalization", SkipSimplifiedLayerNormalization,
                "input skip gamma bias; epsilon"),
    OfMicrosoft("TransposeMatMul", FusedMatMul, "A B; alpha transA transB"),
    OfMicrosoft("Trilu", Trilu, "X k; upper"),
};

}  // namespace

std::span<const Operator> ContribOperators() { return kRows; }

}  // namespace hammock::onnx
