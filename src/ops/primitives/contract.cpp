#include <algorithm>

#include "hammock/op_builder.h"
#include "hammock/ops/elementwise.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/complex_parts.h"
#include "ops/primitives/convolution.h"

namespace hammock::ops {
namespace {

/// Marks the dims of `type` that two lists name; each at most once.
void MarkDims(const InferCall& call, const Shape& type, std::span<const int64_t> dims,
              bool (&used)[kMaxRank]) {
  for (int64_t dim : dims) {
    if (dim < 0 || dim >= type.rank()) {
      Refuse(call, ErrorCode::kDimOutOfRange, "dimension {} of {} is out of range [0, {})", dim,
             type.to_string(), type.rank());
    }
    if (used[dim]) {
      Refuse(call, ErrorCode::kValue, "dimension {} of {} is named twice", dim, type.to_string());
    }
    used[dim] = true;
  }
}

/// Dims that are contracted or batched together must be as many and as large.
void CheckPairs(const InferCall& call, const Shape& a, const Shape& b,
                const std::vector<int64_t>& a_dims, const std::vector<int64_t>& b_dims,
                const char* what) {
  if (a_dims.size() != b_dims.size()) {
    Refuse(call, ErrorCode::kValue, "{} {} dims of a but {} of b", a_dims.size(), what,
           b_dims.size());
  }
  for (size_t i = 0; i < a_dims.size(); ++i) {
    int64_t a_size = a.size(static_cast<int>(a_dims[i]));
    int64_t b_size = b.size(static_cast<int>(b_dims[i]));
    if (a_size != b_size) {
      Refuse(call, ErrorCode::kShapeMismatch, "{} sizes differ: {} @ {} needs {} == {}", what,
             a.to_string(), b.to_string(), a_size, b_size);
    }
  }
}

void InferDotGeneral(const InferCall& call) {
  const Shape& a = *call.in[0];
  const Shape& b = *call.in[1];
  RequireSameDType(call, a, b);
  RequireDType(call, a.dtype() != DType::kBool, a, "a number dtype");
  const std::vector<int64_t>& a_contract = call.attrs[0].ints();
  const std::vector<int64_t>& b_contract = call.attrs[1].ints();
  const std::vector<int64_t>& a_batch = call.attrs[2].ints();
  const std::vector<int64_t>& b_batch = call.attrs[3].ints();
  bool a_used[kMaxRank] = {};
  bool b_used[kMaxRank] = {};
  MarkDims(call, a, a_batch, a_used);
  MarkDims(call, a, a_contract, a_used);
  MarkDims(call, b, b_batch, b_used);
  MarkDims(call, b, b_contract, b_used);
  CheckPairs(call, a, b, a_contract, b_contract, "inner");
  CheckPairs(call, a, b, a_batch, b_batch, "batch");
  Dims sizes;
  for (int64_t dim : a_batch) sizes.push_back(a.size(static_cast<int>(dim)));
  for (int d = 0; d < a.rank(); ++d) {
    if (!a_used[d]) sizes.push_back(a.size(d));
  }
  for (int d = 0; d < b.rank(); ++d) {
    if (!b_used[d]) sizes.push_back(b.size(d));
  }
  CheckSizes(call.op.name(), sizes);
  call.out = {a.With(sizes)};
}

/// The attributes of a convolution, checked for count and range.
struct Window {
  const std::vector<int64_t>& stride;
  const std::vector<int64_t>& padding;
  const std::vector<int64_t>& dilation;
  bool transposed;
  const std::vector<int64_t>& output_padding;
  int64_t groups;
};

Window WindowOf(std::span<const Attr> attrs) {
  return {attrs[0].ints(),    attrs[1].ints(), attrs[2].ints(),
          attrs[3].boolean(), attrs[4].ints(), attrs[5].integer()};
}

Window CheckedWindow(const InferCall& call, size_t spatial) {
  Window window = {CheckedList(call, 0, spatial), CheckedList(call, 1, spatial),
                   CheckedList(call, 2, spatial), call.attrs[3].boolean(),
                   CheckedList(call, 4, spatial), call.attrs[5].integer()};
  for (size_t i = 0; i < spatial; ++i) {
    if (window.stride[i] < 1 || window.dilation[i] < 1 || window.padding[i] < 0 ||
        window.output_padding[i] < 0) {
      Refuse(call, ErrorCode::kValue,
             "stride {} and dilation {} must be at least 1, padding {} and output_padding {} at "
             "least 0",
             window.stride[i], window.dilation[i], window.padding[i], window.output_padding[i]);
    }
  }
  if (window.groups < 1) {
    Refuse(call, ErrorCode::kValue, "groups is {}, needs at least 1", window.groups);
  }
  return window;
}

void CheckChannels(const InferCall& call, const Shape& input, const Shape& weight,
                   const Window& window) {
  int64_t wanted = weight.size(0);
  if (!window.transposed && __builtin_mul_overflow(weight.size(1), window.groups, &wanted)) {
    Refuse(call, ErrorCode::kValue, "groups is {}, too many for weight of size {}", window.groups,
           weight.to_string());
  }
  if (input.size(1) != wanted) {
    Refuse(call, ErrorCode::kShapeMismatch,
           "given groups={}, weight of size {}, expected input {} to have {} channels, but got {} "
           "channels instead",
           window.groups, weight.to_string(), input.to_string(), wanted, input.size(1));
  }
  if (weight.size(0) % window.groups != 0) {
    Refuse(call, ErrorCode::kShapeMismatch, "weight {} does not divide into {} groups",
           weight.to_string(), window.groups);
  }
}

void InferConvolution(const InferCall& call) {
  const Shape& input = *call.in[0];
  const Shape& weight = *call.in[1];
  RequireSameDType(call, input, weight);
  RequireDType(call, input.dtype() != DType::kBool, input, "a number dtype");
  if (input.rank() < 3 || weight.rank() != input.rank()) {
    Refuse(call, ErrorCode::kShapeMismatch,
           "input {} and weight {} need one rank of at least 3 (batch, channels, spatial dims)",
           input.to_string(), weight.to_string());
  }
  Window window = CheckedWindow(call, input.rank() - 2);
  CheckChannels(call, input, weight, window);
  Dims sizes = {input.size(0), window.transposed ? weight.size(1) * window.groups : weight.size(0)};
  for (int d = 2; d < input.rank(); ++d) {
    int i = d - 2;
    int64_t reach = window.dilation[i] * (weight.size(d) - 1) + 1;
    int64_t padded = input.size(d) + 2 * window.padding[i];
    int64_t size = window.transposed ? (input.size(d) - 1) * window.stride[i] -
                                           2 * window.padding[i] + reach + window.output_padding[i]
                                     : (padded - reach) / window.stride[i] + 1;
    if (weight.size(d) < 1 || (!window.transposed && padded < reach) || size < 0) {
      Refuse(call, ErrorCode::kShapeMismatch,
             "kernel size can't be greater than actual input size: input {} padded to {}, weight "
             "{} reaching over {} in dimension {}",
             input.to_string(), padded, weight.to_string(), reach, d);
    }
    sizes.push_back(size);
  }
  CheckSizes(call.op.name(), sizes);
  call.out = {input.With(sizes)};
}

// ---- gradients

Dims FreeDims(int rank, const Dims& contract, const Dims& batch) {
  Dims free;
  for (int d = 0; d < rank; ++d) {
    if (!Contains(contract, d) && !Contains(batch, d)) free.push_back(d);
  }
  return free;
}

/// The gradient of one operand: g contracted with the other over the other's free dims, which lie
/// in g from `other_free_at` on, brought back to the operand's order of dims.
Tensor DotGrad(const Tensor& g, const Tensor& other, int rank, const Dims& contract,
               const Dims& batch, const Dims& other_contract, const Dims& other_batch,
               int other_free_at) {
  Dims other_free = FreeDims(other.dim(), other_contract, other_batch);
  Dims free = FreeDims(rank, contract, batch);
  Dims g_contract, g_batch;
  for (int i = 0; i < other_free.size(); ++i) g_contract.push_back(other_free_at + i);
  for (int i = 0; i < batch.size(); ++i) g_batch.push_back(i);
  // The side whose dims stand first in the operand stands first here: mostly nothing is permuted.
  bool g_first = free.empty() || contract.empty() || free[0] < *std::ranges::min_element(contract);
  Tensor product = g_first ? Apply(kDotGeneral, Location(), {g, other},
                                   {g_contract, other_free, g_batch, other_batch})
                           : Apply(kDotGeneral, Location(), {other, g},
                                   {other_free, g_contract, other_batch, g_batch});
  // Its dims: batch, and the operand's free ones and the other's contracted ones in ascending
  // order.
  int free_at = batch.size() + (g_first ? 0 : contract.size());
  int contract_at = batch.size() + (g_first ? free.size() : 0);
  Dims order = Dims::Filled(rank, 0);
  for (int i = 0; i < batch.size(); ++i) order[static_cast<int>(batch[i])] = i;
  for (int i = 0; i < free.size(); ++i) order[static_cast<int>(free[i])] = free_at + i;
  for (int i = 0; i < contract.size(); ++i) {
    int64_t position = std::count_if(other_contract.begin(), other_contract.end(),
                                     [&](int64_t d) { return d < other_contract[i]; });
    order[static_cast<int>(contract[i])] = contract_at + position;
  }
  return Permuted(product, order);
}

Tensors DotGeneralVjp(const VjpCall& c) {
  const Tensor &a = c.in[0], &b = c.in[1];
  Dims a_contract(c.attrs[0].ints()), b_contract(c.attrs[1].ints());
  Dims a_batch(c.attrs[2].ints()), b_batch(c.attrs[3].ints());
  int batch = a_batch.size();
  int a_free = a.dim() - batch - a_contract.size();
  Tensor to_a, to_b;
  if (c.needs(0)) {
    to_a = DotGrad(c.grad(), conj(b), a.dim(), a_contract, a_batch, b_contract, b_batch,
                   batch + a_free);
  }
  if (c.needs(1)) {
    to_b = DotGrad(c.grad(), conj(a), b.dim(), b_contract, b_batch, a_contract, a_batch, batch);
  }
  return {to_a, to_b};
}

/// The first `sizes` of the dims behind batch and channels.
Tensor Cropped(Tensor x, const Dims& sizes) {
  for (int d = 2; d < x.dim(); ++d) x = Sliced(x, d, 0, sizes[d]);
  return x;
}

/// The weight [O, C/groups, k...] of a convolution that maps `input` to something with gradient
/// `g`: a convolution with batch and channels exchanged, stride and dilation too.
Tensor WeightGrad(const Tensor& input, const Tensor& g, const Window& window, const Dims& sizes) {
  int64_t batch = input.shape().size(0), channels = input.shape().size(1);
  int64_t each = channels / window.groups;
  Dims grouped = input.sizes(), merged = input.sizes();
  grouped[1] = window.groups;
  grouped.insert(2, each);
  merged[0] = each;
  merged[1] = window.groups * batch;
  Dims order = {2, 1, 0};
  for (int d = 3; d < grouped.size(); ++d) order.push_back(d);
  Tensor rows = Reshaped(Permuted(Reshaped(input, grouped), order), merged);
  Dims none = Dims::Filled(input.dim() - 2, 0);
  Tensor result = Apply(kConvolution, Location(), {rows, Moved(g, 0, 1)},
                        {Dims(window.dilation), Dims(window.padding), Dims(window.stride), false,
                         none, window.groups});
  return Cropped(Moved(result, 0, 1), sizes);
}

/// The sizes of a convolution's result behind batch and channels.
Dims PlacesOf(const Dims& input, const Dims& weight, const Window& window) {
  Dims pixels;
  for (int d = 2; d < input.size(); ++d) {
    int64_t reach = window.dilation[d - 2] * (weight[d] - 1) + 1;
    pixels.push_back((input[d] + 2 * window.padding[d - 2] - reach) / window.stride[d - 2] + 1);
  }
  return pixels;
}

Dims Spatial(const Dims& sizes) { return Dims(std::span(sizes.begin() + 2, sizes.end())); }

const std::vector<int64_t> kNoPadding;

Window WeightWindow(std::span<const Attr> attrs) {
  return {attrs[1].ints(), attrs[2].ints(), attrs[3].ints(), false, kNoPadding, attrs[4].integer()};
}

void InferWeightBackward(const InferCall& call) {
  const Shape &grad = *call.in[0], &input = *call.in[1];
  RequireSameDType(call, grad, input);
  RequireDType(call, IsFloat(input.dtype()), input, "a float dtype");
  if (input.rank() < 3 || grad.rank() != input.rank()) {
    Refuse(call, ErrorCode::kShapeMismatch, "grad {} and input {} need one rank of at least 3",
           grad.to_string(), input.to_string());
  }
  auto spatial = static_cast<size_t>(input.rank() - 2);
  Dims weight(CheckedList(call, 0, spatial + 2));
  CheckSizes(call.op.name(), weight);
  for (size_t attr = 1; attr <= 3; ++attr) {
    for (int64_t value : CheckedList(call, static_cast<int>(attr), spatial)) {
      if (value >= (attr == 2 ? 0 : 1)) continue;
      Refuse(call, ErrorCode::kValue, "stride and dilation must be at least 1, padding at least 0");
    }
  }
  Window window = WeightWindow(call.attrs);
  bool fits = window.groups >= 1 && input.size(1) % window.groups == 0 &&
              weight[0] % window.groups == 0 && weight[0] == grad.size(1) &&
              weight[1] == input.size(1) / window.groups && grad.size(0) == input.size(0) &&
              PlacesOf(input.sizes(), weight, window) == Spatial(grad.sizes());
  if (!fits) {
    Refuse(call, ErrorCode::kShapeMismatch,
           "a weight of {} does not convolve {} to {} with {} groups",
           input.With(weight).to_string(), input.to_string(), grad.to_string(), window.groups);
  }
  call.out = {input.With(weight)};
}

std::vector<Tensor> ExpandWeightBackward(const ExpandCall& c) {
  return {WeightGrad(c.in[1], c.in[0], WeightWindow(c.attrs), Dims(c.attrs[0].ints()))};
}

/// The gradient of `weight`; one node where its sizes say all.
Tensor ToWeight(const Tensor& grad, const Tensor& input, const Window& window, const Dims& weight) {
  if (PlacesOf(input.sizes(), weight, window) != Spatial(grad.sizes()) || !IsFloat(grad.dtype())) {
    return WeightGrad(input, grad, window, weight);
  }
  return Apply(
      kConvolutionWeightBackward, Location(), {grad, input},
      {weight, Dims(window.stride), Dims(window.padding), Dims(window.dilation), window.groups});
}

Tensors ConvolutionVjp(const VjpCall& c) {
  const Tensor &input = c.in[0], &weight = c.in[1], &g = c.grad();
  Window window = WindowOf(c.attrs);
  if (g.numel() == 0 || input.numel() == 0 || weight.numel() == 0) {
    return {ZerosLike(input.shape(), g), ZerosLike(weight.shape(), g)};
  }
  Tensor to_input, to_weight;
  Dims stride(window.stride), padding(window.padding), dilation(window.dilation);
  if (c.needs(0)) {
    Dims output_padding = Dims::Filled(input.dim() - 2, 0);
    for (int d = 2; d < input.dim() && !window.transposed; ++d) {
      int i = d - 2;
      int64_t reach = dilation[i] * (weight.shape().size(d) - 1) + 1;
      output_padding[i] =
          input.shape().size(d) - ((g.shape().size(d) - 1) * stride[i] - 2 * padding[i] + reach);
    }
    to_input = window.transposed
                   ? Apply(kConvolution, Location(), {g, conj(weight)},
                           {stride, padding, dilation, false, output_padding, window.groups})
                   : ConvolveTransposed(g, conj(weight), {stride, padding, dilation, window.groups},
                                        output_padding, Location());
    to_input = Cropped(to_input, input.sizes());
  }
  if (c.needs(1)) {
    to_weight = window.transposed ? ToWeight(conj(input), g, window, weight.sizes())
                                  : ToWeight(g, conj(input), window, weight.sizes());
  }
  return {to_input, to_weight};
}

// ---- a multiplication and an addition for each term

int64_t FlopsOfDot(const CostCall& call) {
  int64_t terms = 1;
  for (int64_t dim : call.attrs[0].ints()) terms *= call.in[0]->size(static_cast<int>(dim));
  return 2 * terms * call.out[0].numel();
}

int64_t TermsOfChannel(const Shape& weight) {
  return weight.size(0) == 0 ? 0 : weight.numel() / weight.size(0);
}

/// A transposed one adds each element of its input to as many elements as it has terms.
int64_t FlopsOfConvolution(const CostCall& call) {
  const bool transposed = call.attrs[3].boolean();
  return 2 * TermsOfChannel(*call.in[1]) * (transposed ? *call.in[0] : call.out[0]).numel();
}

int64_t FlopsOfWeightBackward(const CostCall& call) {
  return 2 * TermsOfChannel(call.out[0]) * call.in[0]->numel();
}

}  // namespace

Tensor ConvolveTransposed(const Tensor& input, const Tensor& weight,
                          const ConvolutionWindow& window, Dims output_padding,
                          const Location& at) {
  Dims low = Dims::Filled(input.dim(), 0), high = low;
  bool is_padded = false;
  for (int i = 0; i < output_padding.size(); ++i) {
    const int64_t reached = std::min(output_padding[i], window.padding[i]);
    high[i + 2] = output_padding[i] - reached;
    is_padded |= high[i + 2] > 0;
    output_padding[i] = reached;
  }
  Tensor result =
      Apply(kConvolution, at, {input, weight},
            {window.stride, window.padding, window.dilation, true, output_padding, window.groups});
  if (!is_padded) return result;
  return Apply(kPad, at, {result, ConstantLike(0, result)}, {low, high});
}

constinit const OpDef kDotGeneral = {
    .schema =
        "dot_general(Tensor a, Tensor b, int[] a_contract, int[] b_contract, int[] a_batch, "
        "int[] b_batch) -> Tensor",
    .doc =
        "Sums products over the contracted dims; the result has the batch dims, the rest of "
        "`a`, the rest of `b`.",
    .infer = InferDotGeneral,
    .complex = BilinearParts,
    .vjp = DotGeneralVjp,
    .flops = FlopsOfDot,
    .samples = {{"f32[3,4] f32[4,5]", "{a_contract=[1], b_contract=[0], a_batch=[], b_batch=[]}"},
                {"f32[2,3,4] f32[2,5,4]",
                 "{a_contract=[2], b_contract=[2], a_batch=[0], b_batch=[0]}"},
                {"f32[3] f32[4]", "{a_contract=[], b_contract=[], a_batch=[], b_batch=[]}"}},
};
constinit const OpDef kConvolution = {
    .schema =
        "convolution(Tensor input, Tensor weight, int[] stride, int[] padding, "
        "int[] dilation, bool transposed, SymInt[] output_padding, int groups) -> Tensor",
    .doc = "Cross-correlation over the dims after batch and channels, or its transpose.",
    .autocast = AutocastRule::kLow,
    .infer = InferConvolution,
    .complex = BilinearParts,
    .vjp = ConvolutionVjp,
    .flops = FlopsOfConvolution,
    .samples = {{"f32[2,4,6,5] f32[6,2,3,2]",
                 "{stride=[2,1], padding=[1,0], dilation=[1,2], transposed=false, "
                 "output_padding=[0,0], groups=2}"},
                {"f32[2,4,5] f32[4,3,3]",
                 "{stride=[2], padding=[1], dilation=[1], transposed=true, output_padding=[1], "
                 "groups=1}"}},
};

constinit const OpDef kConvolutionWeightBackward = {
    .schema =
        "_convolution_weight_backward(Tensor grad, Tensor input, SymInt[] sizes, int[] stride, "
        "int[] "
        "padding, int[] dilation, int groups) -> Tensor",
    .doc = "The gradient of the weight, of these sizes, of a convolution of `input`.",
    .infer = InferWeightBackward,
    .expand = ExpandWeightBackward,
    .flops = FlopsOfWeightBackward,
    .samples = {{"f32[2,6,3,3] f32[2,4,6,5]",
                 "{sizes=[6,2,3,2], stride=[2,1], padding=[1,0], dilation=[1,2], groups=2}"},
                {"f32[3,2,5] f32[3,4,5]",
                 "{sizes=[2,4,3], stride=[1], padding=[1], dilation=[1], groups=1}"}},
};

}  // namespace hammock::ops
