// Normalisation of batches, groups, instances and channels.

#include "hammock/ops/norms.h"

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/kit/reduce_steps.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kRenorm;

extern const OpDef kBatchNormTrain, kBatchNormEval, kGroupNorm, kGroupNormMoments;

using Maybe = std::optional<Tensor>;

Tensor OrUndefined(const Maybe& tensor) { return tensor ? *tensor : Tensor(); }

/// A vector as channels (dim 1) of `rank` dims, in the dtype of `like`.
Tensor AsChannels(const Tensor& vector, const Tensor& like) {
  Dims sizes = Dims::Filled(like.dim(), 1);
  sizes[1] = vector.numel();
  return Reshaped(Casted(vector, like.dtype()), sizes);
}

Tensor ScaledAndShifted(Tensor x, const Tensor& weight, const Tensor& bias) {
  if (weight.defined()) x = x * AsChannels(weight, x);
  if (bias.defined()) x = x + AsChannels(bias, x);
  return x;
}

struct Moments {
  Tensor mean, variance;  // with sizes of one along `dims`
};

/// As in PyTorch, sums over a whole batch are made in double precision.
Tensor WideSum(const Tensor& x, const Dims& dims) {
  return Reduce(kReduceSum, Casted(x, DType::kF64), dims, true);
}

Moments MomentsOf(const Tensor& x, const Dims& dims) {
  Tensor sum = WideSum(x, dims);
  Tensor count = ConstantLike(CountOf(x.sizes(), dims), sum);
  Tensor mean = sum / count;
  Tensor distance = Casted(x, DType::kF64) - mean;
  Tensor variance = WideSum(distance * distance, dims) / count;
  return {Casted(mean, x.dtype()), Casted(variance, x.dtype())};
}

Tensor InverseDeviation(const Tensor& variance, double eps) {
  return rsqrt(variance + ConstantLike(eps, variance));
}

// ---- Batches

Dims AllButChannels(const Tensor& x) {
  Dims dims{0};
  for (int i = 2; i < x.dim(); ++i) dims.push_back(i);
  return dims;
}

void CheckChannels(const char* op, const Shape& input, const char* what, const Shape* vector) {
  if (!vector || (vector->rank() == 1 && vector->numel() == input.size(1))) return;
  Throw(ErrorCode::kShapeMismatch, "{}: {} must hold one number for each of {} channels, got {}",
        op, what, input.size(1), vector->to_string());
}

void CheckChannels(const char* op, const Tensor& input, const char* what, const Maybe& vector) {
  CheckChannels(op, input.shape(), what, vector ? &vector->shape() : nullptr);
}

/// Checks that every norm of channels needs; the front functions say more.
void CheckNorm(const InferCall& c, std::initializer_list<int> vectors) {
  const Shape& input = *c.in[0];
  if (input.rank() < 2 || !IsFloat(input.dtype())) {
    Refuse(c, ErrorCode::kShapeMismatch, "needs floats of at least 2 dims, got {}",
           input.to_string());
  }
  for (int i : vectors) CheckChannels(c.op.name(), input, "each vector", c.in[i]);
}

/// f32 next to f16 and bf16 inputs where parameters are wider than they.
DType StatisticsType(const InferCall& c) {
  DType dtype = c.in[0]->dtype();
  for (const Shape* other : c.in.subspan(1)) {
    if (other) dtype = PromoteTypes(dtype, other->dtype());
  }
  return dtype;
}

void InferBatchNormTrain(const InferCall& c) {
  CheckNorm(c, {1, 2});
  c.out.push_back(*c.in[0]);
  Shape statistics(StatisticsType(c), {c.in[0]->size(1)});
  c.out.insert(c.out.end(), 3, statistics);
}

std::vector<Tensor> ExpandBatchNormTrain(const ExpandCall& c) {
  Tensor x = Casted(c.in[0], WideFloat(c.out[0].dtype()));
  auto [mean, variance] = MomentsOf(x, AllButChannels(x));
  Tensor scale = InverseDeviation(variance, c.attrs[0].real());
  Tensor result = ScaledAndShifted((x - mean) * scale, c.in[1], c.in[2]);
  auto flat = [&](const Tensor& y) {
    return Casted(Reshaped(y, c.out[1].sizes()), c.out[1].dtype());
  };
  return {Casted(result, c.out[0].dtype()), flat(mean), flat(scale), flat(variance)};
}

std::vector<Tensor> BatchNormTrainVjp(const VjpCall& c) {
  DType wide = WideFloat(c.in[0].dtype());
  Tensor x = Casted(c.in[0], wide), grad = Casted(c.grad(), wide);
  Tensor scale = AsChannels(c.out[2], x);
  Tensor normalised = (x - AsChannels(c.out[1], x)) * scale;
  Dims dims = AllButChannels(x);
  Tensor count = ConstantLike(CountOf(x.sizes(), dims), x);
  Tensor to_bias = Casted(WideSum(grad, dims), wide);
  Tensor to_weight = Casted(WideSum(grad * normalised, dims), wide);
  auto vector = [&](int input, const Tensor& sums) {
    if (!c.needs(input)) return Tensor();
    return Casted(Reshaped(sums, c.in[input].sizes()), c.in[input].dtype());
  };
  std::vector<Tensor> grads = {Tensor(), vector(1, to_weight), vector(2, to_bias)};
  if (!c.needs(0)) return grads;
  Tensor factor = c.in[1].defined() ? scale * AsChannels(c.in[1], x) : scale;
  Tensor to_input = (grad - (to_bias + normalised * to_weight) / count) * factor;
  // Mean, inverse deviation and variance are results as well.
  Tensor to_scale = AsChannels(c.grads[2], x) * scale * scale;
  Tensor to_variance = AsChannels(c.grads[3], x) * ConstantLike(2, x) / scale;
  to_input = to_input + (AsChannels(c.grads[1], x) + normalised * (to_variance - to_scale)) / count;
  grads[0] = Casted(to_input, c.in[0].dtype());
  return grads;
}

void InferBatchNormEval(const InferCall& c) {
  CheckNorm(c, {1, 2, 3, 4});
  c.out.push_back(*c.in[0]);
}

std::vector<Tensor> ExpandBatchNormEval(const ExpandCall& c) {
  Tensor x = Casted(c.in[0], WideFloat(c.out[0].dtype()));
  Tensor scale = InverseDeviation(Casted(c.in[2], x.dtype()), c.attrs[0].real());
  Tensor result = (x - AsChannels(c.in[1], x)) * AsChannels(scale, x);
  return {Casted(ScaledAndShifted(result, c.in[3], c.in[4]), c.out[0].dtype())};
}

void CheckBatchNorm(const char* op, const Tensor& input, const Maybe& weight, const Maybe& bias,
                    const Maybe& running_mean, const Maybe& running_var, bool training) {
  NeedFloat(op, input);
  NeedRank(op, input, 2);
  CheckChannels(op, input, "weight", weight);
  CheckChannels(op, input, "bias", bias);
  CheckChannels(op, input, "running_mean", running_mean);
  CheckChannels(op, input, "running_var", running_var);
  if (!training && (!running_mean || !running_var)) {
    Throw(ErrorCode::kValue, "{}: needs running_mean and running_var unless training", op);
  }
}

/// Writes running + momentum * (value - running).
void UpdateRunning(const char* op, const Maybe& running, const Tensor& value, double momentum) {
  if (!running) return;
  NoGradGuard no_grad;
  Tensor target = *running;
  Tensor wide = Casted(target, WideFloat(target.dtype()));
  Tensor mixed = wide * (1 - momentum) + Casted(value, wide.dtype()) * momentum;
  WriteInPlace(op, target, Casted(mixed, target.dtype()));
}

std::tuple<Tensor, Tensor, Tensor> BatchNormTrain(const char* op, const Tensor& input,
                                                  const Maybe& weight, const Maybe& bias,
                                                  const Maybe& running_mean,
                                                  const Maybe& running_var, double momentum,
                                                  double eps, const Location& at) {
  const Tensor operands[] = {input, OrUndefined(weight), OrUndefined(bias)};
  const Attr attrs[] = {eps};
  std::vector<Tensor> results = ApplyMulti(kBatchNormTrain, at, operands, attrs);
  double count = static_cast<double>(input.numel()) / static_cast<double>(input.size(1));
  UpdateRunning(op, running_mean, results[1], momentum);
  if (running_var) {
    Tensor variance = Casted(results[3], WideFloat(results[3].dtype()));
    Tensor unbiased = variance * ConstantLike(count, variance) / ConstantLike(count - 1, variance);
    UpdateRunning(op, running_var, unbiased, momentum);
  }
  return {results[0], results[1], results[2]};
}

// ---- Groups

/// (samples, groups, the rest of a group).
Tensor AsGroups(const Tensor& x, int64_t groups) {
  int64_t samples = x.size(0);
  int64_t rest = x.size(1) / groups;
  for (int i = 2; i < x.dim(); ++i) rest *= x.size(i);
  return Reshaped(x, {samples, groups, rest});
}

void CheckDivides(const char* op, const Shape& input, int64_t groups) {
  if (groups > 0 && input.size(1) % groups == 0) return;
  Throw(ErrorCode::kShapeMismatch, "{}: {} channels of {} do not divide into {} groups", op,
        input.size(1), input.to_string(), groups);
}

void InferGroupNorm(const InferCall& c) {
  CheckNorm(c, {1, 2});
  CheckDivides(c.op.name(), *c.in[0], c.attrs[0].integer());
  c.out.push_back(*c.in[0]);
  if (c.op.num_outputs == 1) return;
  c.out.insert(c.out.end(), 2, c.in[0]->With(Dims{c.in[0]->size(0), c.attrs[0].integer()}));
}

std::vector<Tensor> ExpandGroupNorm(const ExpandCall& c) {
  DType dtype = c.out[0].dtype();
  Tensor x = Casted(c.in[0], WideFloat(dtype));
  Tensor grouped = AsGroups(x, c.attrs[0].integer());
  auto [mean, variance] = MomentsOf(grouped, {2});
  Tensor scale = InverseDeviation(variance, c.attrs[1].real());
  Tensor result = Reshaped((grouped - mean) * scale, x.sizes());
  result = Casted(ScaledAndShifted(result, c.in[1], c.in[2]), dtype);
  if (c.op.num_outputs == 1) return {result};
  auto flat = [&](const Tensor& y) { return Casted(Reshaped(y, c.out[1].sizes()), dtype); };
  return {result, flat(mean), flat(scale)};
}

void CheckGroups(const char* op, const Tensor& input, int64_t num_groups, const Maybe& weight,
                 const Maybe& bias) {
  NeedFloat(op, input);
  NeedRank(op, input, 2);
  CheckDivides(op, input.shape(), num_groups);
  CheckChannels(op, input, "weight", weight);
  CheckChannels(op, input, "bias", bias);
}

int64_t CountFrom(const Tensor& x, int first) {
  int64_t count = 1;
  for (int i = first; i < x.dim(); ++i) count *= x.size(i);
  return count;
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> native_batch_norm(const Tensor& input, const Maybe& weight,
                                                     const Maybe& bias, const Maybe& running_mean,
                                                     const Maybe& running_var, bool training,
                                                     double momentum, double eps, Location at) {
  LocationScope scope(at);
  constexpr const char* kOp = "native_batch_norm";
  CheckBatchNorm(kOp, input, weight, bias, running_mean, running_var, training);
  if (training) {
    return BatchNormTrain(kOp, input, weight, bias, running_mean, running_var, momentum, eps, at);
  }
  Tensor result =
      Apply(kBatchNormEval, at,
            {input, *running_mean, *running_var, OrUndefined(weight), OrUndefined(bias)}, {eps});
  Tensor none = Filled({0}, int64_t{0}, input.dtype(), input);
  return {result, none, none};
}

Tensor batch_norm(const Tensor& input, const Maybe& running_mean, const Maybe& running_var,
                  const Maybe& weight, const Maybe& bias, bool training, double momentum,
                  double eps, Location at) {
  LocationScope scope(at);
  // PyTorch returns an empty input as it is, of whatever shape.
  if (input.numel() == 0 && input.dim() < 2) return clone(input);
  CheckBatchNorm("batch_norm", input, weight, bias, running_mean, running_var, training);
  if (training && input.size(0) * CountFrom(input, 2) == 1) {
    Throw(ErrorCode::kShapeMismatch,
          "batch_norm: training needs more than one value per channel, got {}",
          input.shape().to_string());
  }
  if (input.numel() == 0) return clone(input);
  return std::get<0>(native_batch_norm(input, weight, bias, running_mean, running_var, training,
                                       momentum, eps, at));
}

Tensor instance_norm(const Tensor& input, const Maybe& running_mean, const Maybe& running_var,
                     const Maybe& weight, const Maybe& bias, bool use_input_stats, double momentum,
                     double eps, Location at) {
  LocationScope scope(at);
  constexpr const char* kOp = "instance_norm";
  CheckBatchNorm(kOp, input, weight, bias, running_mean, running_var, use_input_stats);
  if (use_input_stats && CountFrom(input, 2) == 1) {
    Throw(ErrorCode::kShapeMismatch, "{}: needs more than one position per channel, got {}", kOp,
          input.shape().to_string());
  }
  if (input.numel() == 0) return clone(input);
  int64_t batch = input.size(0), channels = input.size(1);
  // All channels of all samples as channels of one sample.
  Dims sizes = input.sizes();
  sizes[0] = 1;
  sizes[1] = batch * channels;
  Tensor x = Reshaped(input, sizes);
  auto repeated = [&](const Maybe& v) { return v ? Maybe(repeat(*v, {batch})) : Maybe(); };
  Maybe means = repeated(running_mean), variances = repeated(running_var);
  auto results = native_batch_norm(x, repeated(weight), repeated(bias), means, variances,
                                   use_input_stats, momentum, eps, at);
  auto write = [&](const Maybe& running, const Maybe& all) {
    if (!running || !use_input_stats) return;
    NoGradGuard no_grad;
    Tensor target = *running;
    WriteInPlace(kOp, target, mean(Reshaped(*all, {batch, channels}), {0}));
  };
  write(running_mean, means);
  write(running_var, variances);
  return Reshaped(std::get<0>(results), input.sizes());
}

Tensor group_norm(const Tensor& input, int64_t num_groups, const Maybe& weight, const Maybe& bias,
                  double eps, Location at) {
  if (Autocasted cast(kGroupNorm, at); cast)
    return group_norm(cast(input), num_groups, cast(weight), cast(bias), eps, at);
  LocationScope scope(at);
  CheckGroups("group_norm", input, num_groups, weight, bias);
  if (input.size(0) * input.size(1) / num_groups * CountFrom(input, 2) == 1) {
    Throw(ErrorCode::kShapeMismatch, "group_norm: needs more than one value per group, got {}",
          input.shape().to_string());
  }
  return Apply(kGroupNorm, at, {input, OrUndefined(weight), OrUndefined(bias)}, {num_groups, eps});
}

std::tuple<Tensor, Tensor, Tensor> native_group_norm(const Tensor& input, const Maybe& weight,
                                                     const Maybe& bias, int64_t N, int64_t C,
                                                     int64_t HxW, int64_t group, double eps,
                                                     Location at) {
  LocationScope scope(at);
  CheckGroups("native_group_norm", input, group, weight, bias);
  if (input.size(0) != N || input.size(1) != C || input.numel() != N * C * HxW) {
    Throw(ErrorCode::kShapeMismatch, "native_group_norm: {} is not of {} x {} x {} elements",
          input.shape().to_string(), N, C, HxW);
  }
  const Tensor operands[] = {input, OrUndefined(weight), OrUndefined(bias)};
  const Attr attrs[] = {group, eps};
  std::vector<Tensor> results = ApplyMulti(kGroupNormMoments, at, operands, attrs);
  return {results[0], results[1], results[2]};
}

Tensor local_response_norm(const Tensor& input, int64_t size, double alpha, double beta, double k,
                           Location at) {
  LocationScope scope(at);
  NeedRank("local_response_norm", input, 3);
  if (size < 1) {
    Throw(ErrorCode::kValue, "local_response_norm: size must be at least 1, got {}", size);
  }
  if (input.numel() == 0) return input;
  Tensor x = Casted(input, WideFloat(input.dtype()));
  Tensor squares = Padded(x * x, 1, size / 2, (size - 1) / 2, int64_t{0});
  squares = Reshaped(squares, {x.size(0), squares.size(1), CountFrom(x, 2)});
  // The mean of integers is an integer, as in PyTorch.
  Tensor means = avg_pool2d(squares, {size, 1}, {1});
  Tensor scale = pow(Reshaped(means, x.sizes()) * alpha + k, beta);
  return Casted(x / scale, FloatOf(input.dtype()));
}

Tensor renorm(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& maxnorm,
              Location at) {
  if (Autocasted cast(kRenorm, at); cast) return renorm(cast(self), p, dim, maxnorm, at);
  LocationScope scope(at);
  NeedFloat("renorm", self);
  NeedRank("renorm", self, 2);
  if (!(p.ToDouble() > 0) || !(maxnorm.ToDouble() >= 0)) {
    Throw(ErrorCode::kValue, "renorm: p {} must be positive and maxnorm {} at least 0",
          p.to_string(), maxnorm.to_string());
  }
  int kept = WrapDim("renorm", dim, self.dim());
  Dims dims;
  for (int i = 0; i < self.dim(); ++i) {
    if (i != kept) dims.push_back(i);
  }
  Tensor x = Casted(self, WideFloat(self.dtype()));
  Tensor too_long = gt(norm(x, p, dims, true), maxnorm);
  // Slices that stay as they are have no length to be differentiated, which may be NaN.
  Tensor length = norm(where(too_long, x, ConstantLike(1, x)), p, dims, true);
  Tensor factor = Lift(maxnorm, x.dtype()) / (length + ConstantLike(1e-7, x));
  factor = where(too_long, factor, ConstantLike(1, x));
  return Casted(x * factor, self.dtype());
}

namespace {

constinit const OpDef kBatchNormTrain = {
    .schema =
        "_batch_norm_train(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor, "
        "Tensor, Tensor, Tensor)",
    .doc = "Batch norm by the batch's own moments: result, mean, inverse deviation, variance.",
    .infer = InferBatchNormTrain,
    .expand = ExpandBatchNormTrain,
    .vjp = BatchNormTrainVjp,
    .num_outputs = 4,
    .samples = {{"f32[2,3,4] f32[3] f32[3]", "{eps=1e-05}"}},
};
constinit const OpDef kBatchNormEval = {
    .schema =
        "_batch_norm_eval(Tensor input, Tensor mean, Tensor var, Tensor? weight, Tensor? bias, "
        "float eps) -> Tensor",
    .doc = "Batch norm by given moments.",
    .infer = InferBatchNormEval,
    .expand = ExpandBatchNormEval,
    .domain = {0.1, 3.0},
    .samples = {{"f32[2,3,4] f32[3] f32[3] f32[3] f32[3]", "{eps=1e-05}"}},
};
constinit const OpDef kGroupNorm = {
    .schema =
        "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
        "eps=1e-05) -> Tensor",
    .doc = "Normalises groups of channels, then scales and shifts each channel.",
    .call = Box<group_norm>,
    .autocast = AutocastRule::kF32,
    .infer = InferGroupNorm,
    .expand = ExpandGroupNorm,
    .samples = {{"f32[2,4,3] f32[4] f32[4]", "{num_groups=2, eps=1e-05}"}},
};
constinit const OpDef kGroupNormMoments = {
    .schema =
        "_group_norm_moments(Tensor input, Tensor? weight, Tensor? bias, int group, float eps) -> "
        "(Tensor, Tensor, Tensor)",
    .doc = "As group_norm, with the mean and the reciprocal standard deviation.",
    .infer = InferGroupNorm,
    .expand = ExpandGroupNorm,
    .num_outputs = 3,
    .samples = {{"f32[2,4,3] f32[4] f32[4]", "{group=2, eps=1e-05}"}},
};
HAMMOCK_FUNCTION(kBatchNorm,
                 "batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? "
                 "weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float "
                 "eps=1e-05) -> Tensor",
                 "Normalises channels over the batch; training writes the running moments.",
                 batch_norm)
HAMMOCK_FUNCTION(kNativeBatchNorm,
                 "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? "
                 "running_mean, Tensor? running_var, bool training, float momentum, float eps) -> "
                 "(Tensor, Tensor, Tensor)",
                 "As batch_norm, with the mean and the reciprocal standard deviation.",
                 native_batch_norm)
HAMMOCK_FUNCTION(kInstanceNorm,
                 "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? "
                 "running_var=None, Tensor? weight=None, Tensor? bias=None, bool "
                 "use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
                 "Normalises each channel of each sample.", instance_norm)
HAMMOCK_FUNCTION(kNativeGroupNorm,
                 "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int "
                 "HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
                 "As group_norm, with the mean and the reciprocal standard deviation.",
                 native_group_norm)
HAMMOCK_FUNCTION(kLocalResponseNorm,
                 "local_response_norm(Tensor input, int size, float alpha=0.0001, float "
                 "beta=0.75, float k=1.0) -> Tensor",
                 "Divides by a power of the mean square of neighbouring channels.",
                 local_response_norm)
HAMMOCK_FUNCTION(kRenorm, "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
                 "Scales slices along `dim` down to a norm of `maxnorm`.", renorm,
                 AutocastRule::kF32)

}  // namespace

std::span<const OpDef* const> ops::NormOps() {
  static constexpr const OpDef* kOps[] = {
      &kBatchNormTrain,  &kBatchNormEval, &kGroupNorm,       &kGroupNormMoments,  &kBatchNorm,
      &kNativeBatchNorm, &kInstanceNorm,  &kNativeGroupNorm, &kLocalResponseNorm, &kRenorm,
  };
  return kOps;
}

}  // namespace hammock
