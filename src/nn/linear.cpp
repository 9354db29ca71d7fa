#include "hammock/nn/linear.h"

#include <cmath>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/nn/init.h"
#include "hammock/ops.h"
#include "hammock/sparse.h"
#include "nn/call_forward.h"
#include "nn/given.h"

namespace hammock::nn {
namespace {

/// PyTorch's for linear layers and convolutions: uniform within one over the root of the fan.
void ResetWeightAndBias(Tensor& weight, Tensor& bias) {
  init::kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias.defined()) return;
  auto [fan_in, fan_out] = init::calculate_fan_in_and_fan_out(weight);
  double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  init::uniform_(bias, -bound, bound);
}

/// One number, or one for each spatial dim.
template <class Options>
void CheckSizes(const char* layer, int dims, const Options& o) {
  for (auto [what, sizes] : {std::pair("kernel_size", &o.kernel_size),
                             {"stride", &o.stride},
                             {"padding", &o.padding},
                             {"dilation", &o.dilation}}) {
    std::string name = fmt::format("{}: {}", layer, what);
    int64_t least = sizes == &o.padding ? 0 : 1;
    for (int64_t size : sizes->Expanded(dims, name.c_str())) {
      if (size >= least) continue;
      Throw(ErrorCode::kValue, "{} is {}, expected at least {}", name, size, least);
    }
  }
}

void CheckChannels(const char* layer, int64_t in, int64_t out, int64_t groups) {
  if (in < 1 || out < 1 || groups < 1 || in % groups != 0 || out % groups != 0) {
    Throw(ErrorCode::kValue, "{}: {} channels in and {} out cannot be parted into {} groups", layer,
          in, out, groups);
  }
}

void CheckPadding(const char* layer, const std::optional<int64_t>& index, int64_t count) {
  if (!index || (*index >= -count && *index < count)) return;
  Throw(ErrorCode::kIndexOutOfRange, "{}: padding_idx is {}, there are {} embeddings", layer,
        *index, count);
}

Dims WeightSizes(int64_t first, int64_t second, const Dims& kernel) {
  Dims sizes = {first, second};
  for (int64_t size : kernel) sizes.push_back(size);
  return sizes;
}

/// The pairs of `pad`, last dim first, that keep the sizes of a convolution.
std::vector<int64_t> SamePadding(const Dims& kernel, const Dims& dilation) {
  std::vector<int64_t> pads;
  for (int dim = kernel.size() - 1; dim >= 0; --dim) {
    int64_t total = dilation[dim] * (kernel[dim] - 1);
    pads.push_back(total / 2);
    pads.push_back(total - total / 2);
  }
  return pads;
}

}  // namespace

UnaryModule::UnaryModule(std::string class_name) : Module(std::move(class_name)) {
  define("forward(Tensor input) -> Tensor", &UnaryModule::forward);
}

Tensor UnaryLayer::forward(const TensorAt& input) {
  if (Module* other = replacement()) {
    return detail::CallReplacement<Tensor>(*other, input.at, input.tensor);
  }
  return CallForward(*this, input.at, [&] { return Run(input.tensor); });
}

namespace {

[[noreturn]] void ThrowNoLayer(const char* which) {
  Throw(ErrorCode::kUninitializedTensor,
        "the handle{} has no layer; assign one first: fc = register_module(\"fc\", "
        "nn::Linear(784, 10))",
        which);
}

}  // namespace

void detail::ThrowNull(const Location& at) {
  LocationScope scope(at);
  ThrowNoLayer("");
}

void detail::ThrowNull(const MadeEmpty* handle) {
  // A call in progress knows more than the handle.
  if (!CurrentWhere().empty() || !handle) ThrowNoLayer("");
  LocationScope scope(handle->at);
  ThrowNoLayer(" that was made here");
}

void detail::ThrowNotBoxed(const Module& module) {
  Throw<NotSupported>(ErrorCode::kNotSupported,
                      "{}: a layer that was replaced is called with tensors and numbers, and "
                      "returns tensors",
                      module.class_name());
}

namespace {

void AppendFlat(AnyList& flat, const Any& value) {
  if (value.kind() != Any::Kind::kList && value.kind() != Any::Kind::kTuple) {
    flat.push_back(value);
    return;
  }
  for (const Any& part : value.ToList()) AppendFlat(flat, part);
}

}  // namespace

AnyList detail::Flat(const Module& module, const Any& result, size_t parts) {
  AnyList flat;
  AppendFlat(flat, result);
  if (flat.size() != parts) {
    Throw(ErrorCode::kValue,
          "{}: forward of the module that replaces a layer gives {} values, needs {}",
          module.class_name(), flat.size(), parts);
  }
  return flat;
}

Dims Sizes::Expanded(int count, const char* what) const {
  if (dims_.size() == count) return dims_;
  if (dims_.size() != 1) {
    Throw(ErrorCode::kValue, "{} has {} sizes, expected {}, or one for all", what, dims_.size(),
          count);
  }
  Dims all;
  for (int i = 0; i < count; ++i) all.push_back(dims_[0]);
  return all;
}

FlattenImpl::FlattenImpl(int64_t start_dim, int64_t end_dim)
    : UnaryLayer("Flatten"), start_dim_(start_dim), end_dim_(end_dim) {}

Tensor FlattenImpl::Run(const Tensor& input) { return flatten(input, start_dim_, end_dim_); }

// ---- Linear

LinearImpl::LinearImpl(int64_t in, int64_t out, bool with_bias)
    : UnaryLayer("Linear"), in_features(in), out_features(out) {
  weight = register_parameter("weight", empty({out_features, in_features}));
  bias = with_bias ? register_parameter("bias", empty({out_features}))
                   : register_parameter("bias", None);
  reset_parameters();
}

void LinearImpl::reset_parameters() { ResetWeightAndBias(weight, bias); }

Tensor LinearImpl::Run(const Tensor& input) { return linear(input, weight, Given(bias)); }

std::string LinearImpl::extra_repr() const {
  return fmt::format("in_features={}, out_features={}, bias={}", in_features, out_features,
                     bias.defined());
}

BilinearImpl::BilinearImpl(int64_t in1, int64_t in2, int64_t out, bool with_bias)
    : Module("Bilinear"), in1_features(in1), in2_features(in2), out_features(out) {
  weight = register_parameter("weight", empty({out_features, in1_features, in2_features}));
  bias = with_bias ? register_parameter("bias", empty({out_features}))
                   : register_parameter("bias", None);
  double bound = 1 / std::sqrt(static_cast<double>(in1_features));
  init::uniform_(weight, -bound, bound);
  if (with_bias) init::uniform_(bias, -bound, bound);
  define("forward(Tensor input1, Tensor input2) -> Tensor", &BilinearImpl::forward);
}

Tensor BilinearImpl::forward(const TensorAt& input1, const Tensor& input2) {
  return CallForward(*this, input1.at,
                     [&] { return bilinear(input1.tensor, input2, weight, Given(bias)); });
}

std::string BilinearImpl::extra_repr() const {
  return fmt::format("in1_features={}, in2_features={}, out_features={}, bias={}", in1_features,
                     in2_features, out_features, bias.defined());
}

// ---- Convolutions

namespace {

/// Weight and bias of a convolution, from its options.
template <class Conv>
void MakeParameters(Conv& layer, int dims, bool transposed) {
  const auto& o = layer.options;
  const char* name = layer.class_name().c_str();
  CheckChannels(name, o.in_channels, o.out_channels, o.groups);
  CheckSizes(name, dims, o);
  const Dims kernel = o.kernel_size.Expanded(dims, "kernel_size");
  const int64_t first = transposed ? o.in_channels : o.out_channels;
  const int64_t second = (transposed ? o.out_channels : o.in_channels) / o.groups;
  layer.weight = layer.register_parameter("weight", empty(WeightSizes(first, second, kernel)));
  layer.bias = o.bias ? layer.register_parameter("bias", empty({o.out_channels}))
                      : layer.register_parameter("bias", None);
  ResetWeightAndBias(layer.weight, layer.bias);
}

}  // namespace

ConvBase::ConvBase(const char* class_name, int dims, Options given)
    : UnaryLayer(class_name), options(std::move(given)), dims_(dims) {
  MakeParameters(*this, dims, /*transposed=*/false);
}

Tensor ConvBase::Run(const Tensor& input) {
  using Conv = Tensor (*)(const Tensor&, const Tensor&, const std::optional<Tensor>&, const Dims&,
                          const Dims&, const Dims&, int64_t, Location);
  static constexpr Conv kConv[] = {conv1d, conv2d, conv3d};
  Dims padding = options.padding.Expanded(dims_, "padding");
  Tensor padded = input;
  if (options.same || options.padding_mode != "zeros") {
    std::vector<int64_t> pads;
    if (options.same) {
      pads = SamePadding(options.kernel_size.Expanded(dims_, "kernel_size"),
                         options.dilation.Expanded(dims_, "dilation"));
    } else {
      for (int dim = dims_ - 1; dim >= 0; --dim) {
        pads.push_back(padding[dim]);
        pads.push_back(padding[dim]);
      }
    }
    padded = pad(input, pads, options.padding_mode == "zeros" ? "constant" : options.padding_mode);
    padding = Sizes(0).Expanded(dims_, "padding");
  }
  return kConv[dims_ - 1](padded, weight, Given(bias), options.stride.dims(), padding,
                          options.dilation.dims(), options.groups, Location::current());
}

std::string ConvBase::extra_repr() const {
  auto text = [&](const Sizes& sizes) { return ToString(sizes.Expanded(dims_, "sizes")); };
  std::string result =
      fmt::format("{}, {}, kernel_size={}, stride={}", options.in_channels, options.out_channels,
                  text(options.kernel_size), text(options.stride));
  if (options.same) result += ", padding=same";
  if (options.padding.dims() != Dims{0}) result += ", padding=" + text(options.padding);
  if (options.dilation.dims() != Dims{1}) result += ", dilation=" + text(options.dilation);
  if (options.groups != 1) result += fmt::format(", groups={}", options.groups);
  if (!options.bias) result += ", bias=false";
  if (options.padding_mode != "zeros") result += ", padding_mode=" + options.padding_mode;
  return result;
}

ConvTransposeBase::ConvTransposeBase(const char* class_name, int dims, Options given)
    : UnaryLayer(class_name), options(std::move(given)), dims_(dims) {
  MakeParameters(*this, dims, /*transposed=*/true);
}

Tensor ConvTransposeBase::Run(const Tensor& input) {
  static constexpr decltype(&conv_transpose1d) kConv[] = {conv_transpose1d, conv_transpose2d,
                                                          conv_transpose3d};
  return kConv[dims_ - 1](input, weight, Given(bias), options.stride.dims(), options.padding.dims(),
                          options.output_padding.dims(), options.groups, options.dilation.dims(),
                          Location::current());
}

std::string ConvTransposeBase::extra_repr() const {
  return fmt::format("{}, {}, kernel_size={}, stride={}", options.in_channels, options.out_channels,
                     ToString(options.kernel_size.Expanded(dims_, "kernel_size")),
                     ToString(options.stride.Expanded(dims_, "stride")));
}

// ---- Embeddings

EmbeddingImpl::EmbeddingImpl(const Options& given) : UnaryLayer("Embedding"), options(given) {
  CheckPadding("Embedding", options.padding_idx, options.num_embeddings);
  weight = register_parameter("weight", randn({options.num_embeddings, options.embedding_dim}));
  if (!options.padding_idx) return;
  NoGradGuard no_grad;
  weight[*options.padding_idx].zero_();
}

Tensor EmbeddingImpl::Run(const Tensor& input) {
  if (options.sparse) return sparse::embedding(input, weight, options.padding_idx);
  return embedding(input, weight, options.padding_idx);
}

std::string EmbeddingImpl::extra_repr() const {
  std::string result = fmt::format("{}, {}", options.num_embeddings, options.embedding_dim);
  if (options.padding_idx) result += fmt::format(", padding_idx={}", *options.padding_idx);
  return result;
}

EmbeddingBagImpl::EmbeddingBagImpl(const Options& given) : Module("EmbeddingBag"), options(given) {
  CheckPadding("EmbeddingBag", options.padding_idx, options.num_embeddings);
  weight = register_parameter("weight", randn({options.num_embeddings, options.embedding_dim}));
  define("forward(Tensor input, Tensor? offsets=None, Tensor? per_sample_weights=None) -> Tensor",
         &EmbeddingBagImpl::forward);
  if (!options.padding_idx) return;
  NoGradGuard no_grad;
  weight[*options.padding_idx].zero_();
}

Tensor EmbeddingBagImpl::forward(const TensorAt& input, const std::optional<Tensor>& offsets,
                                 const std::optional<Tensor>& per_sample_weights) {
  return CallForward(*this, input.at, [&] {
    return embedding_bag(input.tensor, weight, offsets, options.max_norm, options.norm_type, false,
                         options.mode, false, per_sample_weights, options.include_last_offset,
                         options.padding_idx);
  });
}

std::string EmbeddingBagImpl::extra_repr() const {
  return fmt::format("{}, {}, mode={}", options.num_embeddings, options.embedding_dim,
                     options.mode);
}

}  // namespace hammock::nn
