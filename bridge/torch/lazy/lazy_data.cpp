#include "lazy/lazy_data.h"

#include <ATen/ATen.h>

#include "engine/jit_graph.h"
#include "engine/values.h"

namespace hammock_torch {

using hammock::Any;

void LazyData::Assign(const torch::lazy::BackendData& other) {
  const auto& given = static_cast<const LazyData&>(other);
  if (&given == this) return;
  std::scoped_lock lock(mutex_, given.mutex_);
  TSData::Assign(other);
  value_ = given.value_;
}

bool LazyData::HasValue() const {
  std::lock_guard lock(mutex_);
  return value_.defined() || TSData::HasValue() || scalar.has_value();
}

hammock::Tensor LazyData::value(const hammock::Device& device) {
  std::lock_guard lock(mutex_);
  if (!value_.defined()) {
    TORCH_CHECK(data().defined(), "a value of ", shape(), " is used before it was computed");
    value_ = ImportTensor(data(), device);
  }
  return value_;
}

at::Tensor LazyData::tensor() {
  std::lock_guard lock(mutex_);
  if (value_.defined()) return ShareTensor(value_);
  if (scalar.has_value()) return at::scalar_tensor(*scalar, at::TensorOptions(scalar->type()));
  return data();
}

Any LazyData::number() {
  at::Scalar number = scalar.has_value() ? *scalar : tensor().item();
  if (number.isBoolean()) return number.toBool();
  if (number.isIntegral(false)) return Any(static_cast<int64_t>(number.toLong()));
  if (!number.isComplex()) return number.toDouble();
  c10::complex<double> value = number.toComplexDouble();
  return std::complex<double>(value.real(), value.imag());
}

LazyComputation::LazyComputation(const std::shared_ptr<torch::jit::Graph>& graph,
                                 std::vector<torch::lazy::Shape> parameters,
                                 std::vector<torch::lazy::Shape> results)
    : TSComputation(graph),
      parameters_(std::move(parameters)),
      results_(std::move(results)),
      numbers_(NumberInputs(*graph)) {}

const torch::lazy::Shape& LazyComputation::result_shape() const {
  TORCH_CHECK(!results_.empty(), "the computation has no results");
  return results_[0];
}

const Program& LazyComputation::ProgramFor(const hammock::Device& device) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Program>& program = programs_[device.to_string()];
  if (!program) program = std::make_unique<Program>(ProgramOf(*graph(), device));
  return *program;
}

size_t LazyLowering::AddResult(const torch::lazy::Output& output) {
  results_.push_back(output.node->shape(output.index));
  return TSLoweringContext::AddResult(output);
}

torch::lazy::ComputationPtr LazyLowering::Build() {
  auto built = std::static_pointer_cast<torch::lazy::TSComputation>(TSLoweringContext::Build());
  std::vector<torch::lazy::Shape> parameters;
  for (const torch::lazy::BackendDataPtr& data : GetParametersData()) {
    parameters.push_back(data->shape());
  }
  return std::make_shared<LazyComputation>(built->graph(), std::move(parameters),
                                           std::move(results_));
}

}  // namespace hammock_torch
