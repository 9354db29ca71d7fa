#include "lazy/lazy_data.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include "engine/jit_graph.h"
#include "engine/values.h"
#include "lazy/lazy_backend.h"

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
  return value_.defined() || TSData::HasValue();
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

namespace {

/// The living computations by number, for calls of them in graphs.
struct Computations {
  std::mutex mutex;
  int64_t next = 0;
  std::map<int64_t, LazyComputation*> living;
};
Computations& TheComputations() {
  static auto& computations = *new Computations;
  return computations;
}

constexpr char kRun[] = "hammock::run_computation";

/// A graph of the same inputs and outputs that calls computation `number`.
std::shared_ptr<torch::jit::Graph> CallOf(const torch::jit::Graph& lowered, int64_t number) {
  auto graph = std::make_shared<torch::jit::Graph>();
  std::vector<torch::jit::Value*> inputs;
  for (const torch::jit::Value* input : lowered.inputs()) {
    inputs.push_back(graph->addInput(input->debugName())->setType(input->type()));
  }
  torch::jit::Value* list =
      graph->insertNode(graph->createList(c10::AnyType::get(), inputs))->output();
  torch::jit::Node* call = graph->insertNode(
      graph->create(c10::Symbol::fromQualString(kRun), {graph->insertConstant(number), list}));
  call->output()->setType(c10::ListType::ofTensors());
  torch::jit::Node* items =
      graph->insertNode(graph->createListUnpack(call->output(), lowered.outputs().size()));
  for (torch::jit::Value* item : items->outputs()) graph->registerOutput(item);
  return graph;
}

void RunComputation(torch::jit::Stack& stack) {
  std::vector<c10::IValue> inputs = torch::jit::pop(stack).toListRef().vec();
  int64_t number = torch::jit::pop(stack).toInt();
  LazyComputation* computation = nullptr;
  {
    Computations& computations = TheComputations();
    std::lock_guard lock(computations.mutex);
    auto found = computations.living.find(number);
    TORCH_CHECK(found != computations.living.end(), "the computation is no longer cached");
    computation = found->second;
  }
  const Program& program = computation->ProgramFor(LazyDevice());
  std::vector<Any> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool number = computation->IsNumber(i) && inputs[i].isTensor();
    c10::IValue value = number ? c10::IValue(inputs[i].toTensor().item()) : inputs[i];
    values.push_back(FromIValue(value, program.device()));
  }
  c10::List<at::Tensor> results;
  for (const Any& result : program.Run(values)) results.push_back(ExportTensor(result.ToTensor()));
  stack.emplace_back(std::move(results));
}

const torch::jit::RegisterOperators register_run(
    {torch::jit::Operator(std::string(kRun) + "(int computation, Any[] inputs) -> Tensor[]",
                          RunComputation, c10::AliasAnalysisKind::CONSERVATIVE)});

int64_t NextNumber() {
  Computations& computations = TheComputations();
  std::lock_guard lock(computations.mutex);
  return computations.next++;
}

}  // namespace

LazyComputation::LazyComputation(const std::shared_ptr<torch::jit::Graph>& graph,
                                 std::vector<torch::lazy::Shape> parameters,
                                 std::vector<torch::lazy::Shape> results)
    : LazyComputation(graph, NextNumber(), std::move(parameters), std::move(results)) {}

LazyComputation::LazyComputation(const std::shared_ptr<torch::jit::Graph>& graph, int64_t number,
                                 std::vector<torch::lazy::Shape> parameters,
                                 std::vector<torch::lazy::Shape> results)
    : TSComputation(CallOf(*graph, number)),
      number_(number),
      lowered_(graph),
      parameters_(std::move(parameters)),
      results_(std::move(results)),
      numbers_(NumberInputs(*graph)) {
  Computations& computations = TheComputations();
  std::lock_guard lock(computations.mutex);
  computations.living[number_] = this;
}

LazyComputation::~LazyComputation() {
  Computations& computations = TheComputations();
  std::lock_guard lock(computations.mutex);
  computations.living.erase(number_);
}

const torch::lazy::Shape& LazyComputation::result_shape() const {
  TORCH_CHECK(!results_.empty(), "the computation has no results");
  return results_[0];
}

const Program& LazyComputation::ProgramFor(const hammock::Device& device) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Program>& program = programs_[device.to_string()];
  if (!program) program = std::make_unique<Program>(ProgramOf(*lowered_, device));
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
