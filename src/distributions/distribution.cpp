#include "hammock/distributions/distribution.h"

#include "base/throw.h"
#include "distributions/parameters.h"
#include "hammock/autograd.h"
#include "ops/primitives/require.h"

namespace hammock::distributions {

// ---- Parameters

std::vector<Tensor> Broadcast(std::initializer_list<TensorArg> args) {
  LocationScope scope(args.begin()->at());
  DType dtype = kDefaultFloat;
  Device device;
  bool found = false;
  for (const TensorArg& arg : args) {
    if (!arg.is_tensor()) continue;
    if (!found || (arg.tensor().is_floating_point() && !IsFloat(dtype))) {
      dtype = arg.tensor().dtype();
      device = arg.tensor().device();
    }
    found = true;
  }
  if (!IsFloat(dtype)) dtype = kDefaultFloat;
  std::vector<Tensor> tensors;
  for (const TensorArg& arg : args) {
    tensors.push_back(arg.is_tensor() ? arg.tensor().to(dtype)
                                      : full({}, arg.scalar(), dtype, device));
  }
  return broadcast_tensors(tensors);
}

const Tensor& WithClasses(const char* name, const Tensor& parameter, const Location& at) {
  LocationScope scope(at);
  if (parameter.dim() > 0) return parameter;
  Throw(ErrorCode::kShapeMismatch, "{}: the parameter has no dim of classes", name);
}

Dims Joined(const Dims& first, const Dims& second) {
  Dims all = first;
  for (int64_t size : second) all.push_back(size);
  return all;
}

Dims WithoutLast(const Dims& sizes, int count) {
  Dims rest;
  for (int i = 0; i < sizes.size() - count; ++i) rest.push_back(sizes[i]);
  return rest;
}

Tensor SumLast(const Tensor& values, int dims) {
  if (dims == 0) return values;
  Dims last;
  for (int dim = 1; dim <= dims; ++dim) last.push_back(-dim);
  return sum(values, last);
}

void NeedNumber(const char* name, const char* message, const TensorArg& given,
                bool (*holds)(double)) {
  if (given.is_tensor() || holds(given.scalar().ToDouble())) return;
  LocationScope scope(given.at());
  Throw(ErrorCode::kValue, "{}: {}, not {}", name, message, given.scalar().ToDouble());
}

Tensor Supported(const char* name, const char* message, const Tensor& value, double low,
                 double high) {
  return ops::Required(value, ops::InRange(value, low, high), name, message);
}

// ---- Distribution

void Distribution::NeedPositive(const char* name, const char* message, const TensorArg& given,
                                Tensor& parameter) {
  NeedNumber(name, message, given, [](double number) { return number > 0; });
  if (!given.is_tensor()) return;
  LocationScope scope(given.at());
  parameter = ops::Required(parameter, parameter.gt(0.0), name, message);
}

Distribution::~Distribution() = default;

void Distribution::Refuse(const char* what) const {
  Throw<NotSupported>(ErrorCode::kNotSupported, "{} has no {}", name(), what);
}

Tensor Distribution::sample(const Dims& sample_shape, Location at) const {
  LocationScope scope(at);
  NoGradGuard no_grad;
  return Draw(Joined(sample_shape, Joined(batch_shape_, event_shape_)));
}

Tensor Distribution::rsample(const Dims& sample_shape, Location at) const {
  LocationScope scope(at);
  if (!has_rsample()) Refuse("rsample: its draws have no gradients");
  return Draw(Joined(sample_shape, Joined(batch_shape_, event_shape_)));
}

Tensor Distribution::log_prob(const Tensor& value, Location at) const {
  LocationScope scope(at);
  return LogProb(value);
}

Tensor Distribution::cdf(const Tensor& value, Location at) const {
  LocationScope scope(at);
  return Cdf(value);
}

Tensor Distribution::icdf(const Tensor& value, Location at) const {
  LocationScope scope(at);
  return Icdf(value);
}

Tensor Distribution::entropy(Location at) const {
  LocationScope scope(at);
  return Entropy();
}

Tensor Distribution::mean(Location at) const {
  LocationScope scope(at);
  return Mean();
}

Tensor Distribution::variance(Location at) const {
  LocationScope scope(at);
  return Variance();
}

Tensor Distribution::stddev(Location at) const {
  LocationScope scope(at);
  return sqrt(Variance());
}

Tensor Distribution::Cdf(const Tensor&) const { Refuse("cdf"); }
Tensor Distribution::Icdf(const Tensor&) const { Refuse("icdf"); }
Tensor Distribution::Entropy() const { Refuse("entropy"); }
Tensor Distribution::Mean() const { Refuse("mean"); }
Tensor Distribution::Variance() const { Refuse("variance"); }

}  // namespace hammock::distributions
