// Random ops. See Note [Random numbers] in scope.h: PyTorch's generator draws on the CPU. Ops that
// draw as many numbers as values say (multinomial, poisson) run by PyTorch whole.

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <hammock/ops.h>

#include "engine/adaptor.h"
#include "engine/scope.h"
#include "engine/values.h"

namespace hammock_torch {

using hammock::Any;
using hammock::DType;
using hammock::Tensor;

namespace {

const decltype(c10::make_optional(int64_t{0})) kNoEnd{};

using Call = const AtenCall&;

at::TensorOptions OptionsOf(DType dtype) { return at::TensorOptions(FromDType(dtype)); }

/// Fills an empty tensor of the type of `like` on the host, in every run anew.
template <class Fill>
Tensor DrawLike(const Tensor& like, Fill fill) {
  std::vector<int64_t> sizes = like.sizes().vec();
  at::TensorOptions options = OptionsOf(like.dtype());
  return Draw([sizes, options, fill] {
    at::Tensor values = at::empty(sizes, options);
    fill(values);
    return values;
  });
}

Any Uniform(Call c) {
  double from = c.real(1), to = c.real(2);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.uniform_(from, to); });
}
Any Normal(Call c) {
  double mean = c.real(1), std = c.real(2);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.normal_(mean, std); });
}
/// Standard ones, for a mean and a deviation that are tensors or numbers.
Any NormalOf(const hammock::Dims& sizes, DType dtype, const Tensor& mean, const Tensor& std) {
  Tensor drawn =
      DrawLike(hammock::empty(sizes, dtype, CurrentDevice()), [](at::Tensor& x) { x.normal_(); });
  return drawn * std + mean;
}
Any NormalOfMeans(Call c) {
  double std = c.real(1);
  const Tensor& mean = c.tensor(0);
  return DrawLike(mean, [=](at::Tensor& x) { x.normal_(0, std); }) + mean;
}
Any NormalOfDeviations(Call c) {
  const Tensor& std = c.tensor(1);
  return NormalOf(std.sizes(), std.dtype(), hammock::full_like(std, c.number(0)), std);
}
Any NormalOfBoth(Call c) {
  std::vector<int64_t> means = c.tensor(0).sizes().vec(), deviations = c.tensor(1).sizes().vec();
  return NormalOf(at::infer_size(means, deviations), c.tensor(0).dtype(), c.tensor(0), c.tensor(1));
}
Any Exponential(Call c) {
  double rate = c.real(1);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.exponential_(rate); });
}
Any Cauchy(Call c) {
  double median = c.real(1), sigma = c.real(2);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.cauchy_(median, sigma); });
}
Any Geometric(Call c) {
  double p = c.real(1);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.geometric_(p); });
}
Any LogNormal(Call c) {
  double mean = c.real(1), std = c.real(2);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.log_normal_(mean, std); });
}
Any Random(Call c) {
  return DrawLike(c.tensor(0), [](at::Tensor& x) { x.random_(); });
}
Any RandomTo(Call c) {
  int64_t to = c.integer(1);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.random_(to); });
}
Any RandomFrom(Call c) {
  int64_t from = c.integer(1);
  if (c.none(2)) return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.random_(from, kNoEnd); });
  int64_t to = c.integer(2);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.random_(from, to); });
}
Any BernoulliNumber(Call c) {
  double p = c.real(1);
  return DrawLike(c.tensor(0), [=](at::Tensor& x) { x.bernoulli_(p); });
}
/// A number below the probability of each element, which the graph computes.
Any Below(const Tensor& probability, DType result) {
  DType dtype = probability.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor drawn = DrawLike(hammock::empty(probability.sizes(), dtype, CurrentDevice()),
                          [](at::Tensor& x) { x.uniform_(); });
  return hammock::lt(drawn, probability.to(dtype)).to(result);
}
Any Bernoulli(Call c) { return Below(c.tensor(0), c.tensor(0).dtype()); }
Any BernoulliTensor(Call c) {
  const Tensor& self = c.tensor(0);
  return Below(hammock::expand(c.tensor(1), self.sizes()), self.dtype());
}

// ---- Creation: sizes first, dtype by name

template <class Fill>
Any DrawNew(Call c, size_t sizes_at, DType otherwise, Fill fill) {
  int at = c.find("dtype");
  DType dtype = at < 0 ? otherwise : c.dtype(static_cast<size_t>(at), otherwise);
  return DrawLike(hammock::empty(c.ints(sizes_at), dtype, CurrentDevice()), fill);
}
Any Rand(Call c) {
  return DrawNew(c, 0, DType::kF32, [](at::Tensor& x) { x.uniform_(); });
}
Any Randn(Call c) {
  return DrawNew(c, 0, DType::kF32, [](at::Tensor& x) { x.normal_(); });
}
Any Randint(Call c) {
  int64_t high = c.integer(0);
  return DrawNew(c, 1, DType::kI64, [=](at::Tensor& x) { x.random_(0, high); });
}
Any RandintLow(Call c) {
  int64_t low = c.integer(0), high = c.integer(1);
  return DrawNew(c, 2, DType::kI64, [=](at::Tensor& x) { x.random_(low, high); });
}
Tensor EmptyLike(Call c) {
  int at = c.find("dtype");
  DType dtype = c.dtype(static_cast<size_t>(at), c.tensor(0).dtype());
  return hammock::empty(c.tensor(0).sizes(), dtype, CurrentDevice());
}
Any RandLike(Call c) {
  return DrawLike(EmptyLike(c), [](at::Tensor& x) { x.uniform_(); });
}
Any RandnLike(Call c) {
  return DrawLike(EmptyLike(c), [](at::Tensor& x) { x.normal_(); });
}
Any RandintLike(Call c) {
  int64_t high = c.integer(1);
  return DrawLike(EmptyLike(c), [=](at::Tensor& x) { x.random_(0, high); });
}
Any RandintLikeLow(Call c) {
  int64_t low = c.integer(1), high = c.integer(2);
  return DrawLike(EmptyLike(c), [=](at::Tensor& x) { x.random_(low, high); });
}
Any NormalOfSizes(Call c) {
  double mean = c.real(0), std = c.real(1);
  return DrawNew(c, 2, DType::kF32, [=](at::Tensor& x) { x.normal_(mean, std); });
}
Any Randperm(Call c) {
  int64_t n = c.integer(0);
  int at = c.find("dtype");
  at::TensorOptions options = OptionsOf(c.dtype(static_cast<size_t>(at), DType::kI64));
  return Draw([=] { return at::randperm(n, options); });
}

// ---- Dropout

/// input, p, train -> (result, mask)
Any NativeDropout(Call c) {
  const Tensor& x = c.tensor(0);
  double keep = 1.0 - c.real(1);
  if (!c.none(2) && !c.flag(2)) {
    return TupleOf({x, hammock::ones(x.sizes(), DType::kBool, CurrentDevice())});
  }
  if (keep == 0) {
    return TupleOf(
        {hammock::zeros_like(x), hammock::zeros(x.sizes(), DType::kBool, CurrentDevice())});
  }
  // As PyTorch's CPU kernel: the mask is drawn in the dtype of the input.
  Tensor mask = DrawLike(x, [=](at::Tensor& m) { m.bernoulli_(keep); });
  return TupleOf({x * mask * (1.0 / keep), mask.to(DType::kBool)});
}
/// input, p, train -> result
Any Dropout(Call c) { return c.flag(2) ? NativeDropout(c).ToList()[0] : Any(c.tensor(0)); }
Any OtherDropout(Call c) {
  if (c.flag(2)) throw Unsupported("this kind of dropout, in training,");
  return c.tensor(0);
}
/// While training, rrelu draws a number for each negative element.
Any RreluOf(Call c, size_t lower_at) {
  if (c.flag(lower_at + 2)) throw Unsupported("rrelu in training");
  return hammock::leaky_relu(c.tensor(0), (c.real(lower_at) + c.real(lower_at + 1)) / 2);
}
Any Rrelu(Call c) { return RreluOf(c, 1); }
Any RreluWithNoise(Call c) { return RreluOf(c, 2); }
Any NativeDropoutBackward(Call c) { return c.tensor(0) * c.tensor(1) * c.number(2); }

constexpr AdaptorEntry kTable[] = {
    {"uniform", Uniform},
    {"normal_functional", Normal},
    {"normal", Normal},
    {"normal.Tensor_float", NormalOfMeans},
    {"normal.float_Tensor", NormalOfDeviations},
    {"normal.Tensor_Tensor", NormalOfBoth},
    {"normal.float_float", NormalOfSizes},
    {"exponential", Exponential},
    {"cauchy", Cauchy},
    {"geometric", Geometric},
    {"log_normal", LogNormal},
    {"random", Random},
    {"random.to", RandomTo},
    {"random.from", RandomFrom},
    {"bernoulli", Bernoulli},
    {"bernoulli.p", BernoulliNumber},
    {"bernoulli.float", BernoulliNumber},
    {"bernoulli.Tensor", BernoulliTensor},
    {"rand", Rand},
    {"randn", Randn},
    {"randint", Randint},
    {"randint.low", RandintLow},
    {"randint.low_generator", RandintLow},
    {"randint_like", RandintLike},
    {"randint_like.generator", RandintLike},
    {"randint_like.low_dtype", RandintLikeLow},
    {"randint_like.low_generator_dtype", RandintLikeLow},
    {"rand_like", RandLike},
    {"randn_like", RandnLike},
    {"randperm", Randperm},
    {"dropout", Dropout},
    {"alpha_dropout", OtherDropout},
    {"feature_dropout", OtherDropout},
    {"feature_alpha_dropout", OtherDropout},
    {"rrelu", Rrelu},
    {"rrelu_with_noise", RreluWithNoise},
    {"native_dropout", NativeDropout},
    {"native_dropout_backward", NativeDropoutBackward},
};

}  // namespace

std::span<const AdaptorEntry> RandomAdaptors() { return kTable; }

}  // namespace hammock_torch
