#include "engine/program.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <hammock/autograd.h>
#include <hammock/direct_call.h>
#include <hammock/error.h>
#include <hammock/ops.h>

#include <algorithm>
#include <atomic>

#include "engine/cuda_tensors.h"
#include "engine/kept_inputs.h"

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;
using hammock::Tensor;

namespace {

constexpr size_t kMaxPlans = 64;

/// The number in a value that a graph uses as one.
Any NumberOf(const Any& value) {
  if (!value.IsTensor()) return value;
  return Any(value.ToTensor().item());
}

std::string Reason(const Instruction& instruction, const std::string& what) {
  return instruction.source.empty() ? what : what + " [" + instruction.source + "]";
}

bool OnNumbersAlone(const c10::FunctionSchema& schema, const std::vector<Any>& values) {
  if (std::any_of(values.begin(), values.end(), HoldsTensor)) return false;
  return std::none_of(schema.returns().begin(), schema.returns().end(), [](const auto& result) {
    return result.type()->kind() == c10::TypeKind::TensorType;
  });
}

void Flatten(const Any& value, std::vector<Tensor>& tensors) {
  if (value.IsTensor()) tensors.push_back(value.ToTensor());
  if (!value.IsSequence()) return;
  for (const Any& item : value.ToList()) Flatten(item, tensors);
}

/// `value` with its tensors replaced by `tensors`, from `next` on.
Any Filled(const Any& value, const std::vector<Tensor>& tensors, size_t& next) {
  if (value.IsTensor()) return tensors.at(next++);
  if (!value.IsSequence()) return value;
  AnyList items;
  for (const Any& item : value.ToList()) items.push_back(Filled(item, tensors, next));
  return value.IsList() ? Any(items) : Any::Tuple(items);
}

/// `value` with tensors of no elements in place of its tensors, which would keep memory.
Any Skeleton(const Any& value) {
  if (value.IsTensor()) return Any(Tensor());
  if (value.kind() == Any::Kind::kObject) return std::shared_ptr<hammock::Object>();
  if (!value.IsSequence()) return value;
  AnyList items;
  for (const Any& item : value.ToList()) items.push_back(Skeleton(item));
  return value.IsList() ? Any(items) : Any::Tuple(items);
}

bool SameSignature(const Any& a, const Any& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Any::Kind::kNone:
      return true;
    case Any::Kind::kTensor:
      return true;  // compared by shape
    case Any::Kind::kString:
      return a.ToStringRef() == b.ToStringRef();
    case Any::Kind::kList:
    case Any::Kind::kTuple:
      return std::equal(a.ToList().begin(), a.ToList().end(), b.ToList().begin(), b.ToList().end(),
                        SameSignature);
    default:
      return a.IsNumber() && a.ToScalar() == b.ToScalar();
  }
}

}  // namespace

/// A compiled signature: shapes, inputs and results.
struct Program::Plan {
  std::vector<hammock::Shape> shapes;  ///< of the tensors in the inputs
  std::vector<Any> inputs;             ///< as given, without tensors
  std::vector<Any> results;            ///< likewise
  std::vector<DrawnInput> draws;
  std::optional<hammock::CompiledGraph> graph;
  std::optional<hammock::DirectCall> direct;  ///< of the graph, where it can be called so
  std::atomic<bool> is_direct = false;        ///< once `direct` may be read
  KeptInputs kept;                            ///< of direct calls
  bool replayable = false;
  std::mutex mutex;  ///< while the graph is captured
};

struct Program::Plans {
  std::mutex mutex;
  std::vector<std::shared_ptr<Plan>> list;  ///< most recently used first
  std::atomic<int64_t> replays = 0;
};

Program::Program(const hammock::Device& device)
    : device_(device), torch_device_(TorchDeviceOf(device)) {}

int Program::AddInput() {
  inputs_.push_back(NewRegister());
  return inputs_.back();
}

int Program::AddConstant(Any value) {
  int result = NewRegister();
  Add({.kind = Instruction::Kind::kConstant, .outputs = {result}, .value = std::move(value)});
  return result;
}

std::vector<int> Program::AddCall(const std::string& overload, std::vector<int> inputs) {
  size_t dot = overload.find('.');
  c10::OperatorName name(overload.substr(0, dot),
                         dot == std::string::npos ? "" : overload.substr(dot + 1));
  auto handle = c10::Dispatcher::singleton().findSchema(name);
  if (!handle) throw Unsupported("PyTorch has no operator " + overload);
  const c10::FunctionSchema& schema = handle->schema();
  TORCH_CHECK(inputs.size() == schema.arguments().size(), overload, " takes ",
              schema.arguments().size(), " arguments, got ", inputs.size());
  std::vector<int> outputs;
  for (size_t i = 0; i < schema.returns().size(); ++i) outputs.push_back(NewRegister());
  Add({.kind = Instruction::Kind::kOp,
       .name = overload,
       .inputs = std::move(inputs),
       .outputs = outputs,
       .op = &AtenOp::Of(schema),
       .eager = [op = *handle](torch::jit::Stack& stack) { op.callBoxed(&stack); }});
  return outputs;
}

int Program::AddForeignCall(const std::string& name, EagerFn eager, std::vector<int> inputs) {
  int output = NewRegister();
  c10::FunctionSchema schema(name, "", {}, {}, /*is_vararg=*/true, /*is_varret=*/true);
  Add({.kind = Instruction::Kind::kOp,
       .name = name,
       .inputs = std::move(inputs),
       .outputs = {output},
       .op = &AtenOp::Of(schema),
       .eager = std::move(eager)});
  return output;
}

void Program::SetOutputs(std::vector<int> registers) {
  outputs_ = std::move(registers);
  passed_on_.clear();
  for (int output : outputs_) {
    auto input = std::find(inputs_.begin(), inputs_.end(), output);
    passed_on_.push_back(input == inputs_.end() ? -1 : static_cast<int>(input - inputs_.begin()));
  }
  plans_ = std::make_shared<Plans>();
  FindLastUses();
}

/// Registers of blocks inside of other instructions live until their block has run.
void Program::FindLastUses() {
  std::vector<bool> seen(static_cast<size_t>(num_registers_));
  for (int output : outputs_) seen[static_cast<size_t>(output)] = true;
  std::function<void(const Block&)> see_inner = [&](const Block& block) {
    for (const Instruction& instruction : block) {
      for (const auto* list : {&instruction.inputs, &instruction.results}) {
        for (int input : *list) seen[static_cast<size_t>(input)] = true;
      }
      for (const Block& inner : instruction.blocks) see_inner(inner);
    }
  };
  for (auto it = block_.rbegin(); it != block_.rend(); ++it) {
    for (const auto* list : {&it->inputs, &it->outputs}) {
      for (int input : *list) {
        if (seen[static_cast<size_t>(input)]) continue;
        seen[static_cast<size_t>(input)] = true;
        it->dead.push_back(input);
      }
    }
    for (int result : it->results) seen[static_cast<size_t>(result)] = true;
    for (const Block& inner : it->blocks) see_inner(inner);
  }
}

void Program::RunLoop(const Instruction& instruction, Registers& registers) const {
  auto at = [&](int index) -> Any& { return registers[static_cast<size_t>(index)]; };
  int64_t count = NumberOf(at(instruction.inputs[0])).ToInt();
  bool go = NumberOf(at(instruction.inputs[1])).ToBool();
  std::vector<Any> values;
  for (size_t i = 2; i < instruction.inputs.size(); ++i)
    values.push_back(at(instruction.inputs[i]));
  for (int64_t i = 0; i < count && go; ++i) {
    at(instruction.carried[0]) = i;
    for (size_t j = 0; j < values.size(); ++j) at(instruction.carried[j + 1]) = values[j];
    RunBlock(instruction.blocks[0], registers, false);
    go = NumberOf(at(instruction.results[0])).ToBool();
    for (size_t j = 0; j < values.size(); ++j) values[j] = at(instruction.results[j + 1]);
  }
  for (size_t j = 0; j < values.size(); ++j) at(instruction.outputs[j]) = values[j];
}

void Program::RunInstruction(const Instruction& instruction, Registers& registers) const {
  using Kind = Instruction::Kind;
  auto at = [&](int index) -> Any& { return registers[static_cast<size_t>(index)]; };
  auto values = [&] {
    std::vector<Any> result;
    result.reserve(instruction.inputs.size());
    for (int input : instruction.inputs) result.push_back(at(input));
    return result;
  };
  switch (instruction.kind) {
    case Kind::kConstant:
      at(instruction.outputs[0]) = instruction.value;
      return;
    case Kind::kList:
      at(instruction.outputs[0]) = Any(AnyList(values()));
      return;
    case Kind::kTuple:
      at(instruction.outputs[0]) = Any::Tuple(values());
      return;
    case Kind::kDict: {
      hammock::AnyDict items;
      for (size_t i = 0; i + 1 < instruction.inputs.size(); i += 2) {
        const Any& key = at(instruction.inputs[i]);
        if (key.kind() != Any::Kind::kString)
          throw Unsupported("a dict whose keys are not strings");
        items[key.ToStringRef()] = at(instruction.inputs[i + 1]);
      }
      at(instruction.outputs[0]) = std::move(items);
      return;
    }
    case Kind::kUnpack: {
      AnyList items = at(instruction.inputs[0]).ToList();
      for (size_t i = 0; i < instruction.outputs.size(); ++i) {
        at(instruction.outputs[i]) = items.at(i);
      }
      return;
    }
    case Kind::kCopy: {
      std::vector<Any> copied = values();
      for (size_t i = 0; i < copied.size(); ++i) at(instruction.outputs[i]) = copied[i];
      return;
    }
    case Kind::kNumber:
      at(instruction.outputs[0]) = NumberOf(at(instruction.inputs[0]));
      return;
    case Kind::kIf: {
      bool chosen = NumberOf(at(instruction.inputs[0])).ToBool();
      RunBlock(instruction.blocks[chosen ? 0 : 1], registers, false);
      return;
    }
    case Kind::kLoop:
      RunLoop(instruction, registers);
      return;
    case Kind::kOp:
      break;
  }
  std::vector<Any> given = values();
  Any result;
  std::string why;
  try {
    if (instruction.op && instruction.op->known()) {
      result = instruction.op->Call(given);
    } else {
      why = "Hammock has no such op";
    }
  } catch (const Unsupported& refused) {
    why = refused.what();
  } catch (const hammock::Error& error) {
    // PyTorch decides whether the arguments are wrong, in its own words.
    why = error.what();
  }
  if (!why.empty()) {
    const c10::FunctionSchema& schema = instruction.op->schema();
    result = OnNumbersAlone(schema, given)
                 ? RunOnHost(schema, instruction.eager, given)
                 : RunEagerly(schema, instruction.eager, given, Reason(instruction, why));
  }
  if (instruction.outputs.size() == 1) {
    at(instruction.outputs[0]) = std::move(result);
    return;
  }
  if (instruction.outputs.empty()) return;
  const AnyList& items = result.ToList();
  for (size_t i = 0; i < instruction.outputs.size(); ++i) at(instruction.outputs[i]) = items.at(i);
}

void Program::RunBlock(const Block& block, Registers& registers, bool free) const {
  for (const Instruction& instruction : block) {
    RunInstruction(instruction, registers);
    if (!free) continue;
    for (int dead : instruction.dead) registers[static_cast<size_t>(dead)] = Any();
  }
}

std::vector<Any> Program::Record(const std::vector<Any>& inputs) const {
  hammock::NoGradGuard no_grad;
  Registers registers(static_cast<size_t>(num_registers_));
  for (size_t i = 0; i < inputs.size(); ++i) registers[static_cast<size_t>(inputs_[i])] = inputs[i];
  RunBlock(block_, registers, true);
  std::vector<Any> results;
  for (int output : outputs_) results.push_back(registers[static_cast<size_t>(output)]);
  return results;
}

template <class Fits>
std::shared_ptr<Program::Plan> Program::FindPlan(const Fits& fits) const {
  std::lock_guard lock(plans_->mutex);
  auto& list = plans_->list;
  auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& plan) { return fits(*plan); });
  if (found == list.end()) return nullptr;
  std::rotate(list.begin(), found, found + 1);
  return list.front();
}

std::shared_ptr<Program::Plan> Program::PlanOf(const std::vector<Any>& inputs) const {
  std::vector<Tensor> tensors;
  for (const Any& input : inputs) Flatten(input, tensors);
  return FindPlan([&](const Plan& plan) {
    if (plan.shapes.size() != tensors.size()) return false;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (plan.shapes[i] != tensors[i].shape()) return false;
    }
    return std::equal(inputs.begin(), inputs.end(), plan.inputs.begin(), SameSignature);
  });
}

std::vector<Any> Program::Run(const std::vector<Any>& inputs) const {
  TORCH_CHECK(inputs.size() == inputs_.size(), "the program takes ", inputs_.size(),
              " inputs, got ", inputs.size());
  std::shared_ptr<Plan> plan = PlanOf(inputs);
  if (plan && plan->replayable) return Replay(*plan, inputs);
  auto made = std::make_shared<Plan>();
  int64_t before = 0;
  for (const auto& [name, count] : FallbackCounts()) before += count;
  std::vector<Any> results;
  {
    RecordScope scope(device_, &made->draws, nullptr);
    results = Record(inputs);
  }
  if (plan) return results;
  int64_t after = 0;
  for (const auto& [name, count] : FallbackCounts()) after += count;
  std::vector<Tensor> tensors;
  for (const Any& input : inputs) Flatten(input, tensors);
  for (const Tensor& tensor : tensors) made->shapes.push_back(tensor.shape());
  for (const Any& input : inputs) made->inputs.push_back(Skeleton(input));
  for (const Any& result : results) made->results.push_back(Skeleton(result));
  made->replayable = before == after && std::none_of(results.begin(), results.end(), HoldsForeign);
  std::lock_guard lock(plans_->mutex);
  plans_->list.insert(plans_->list.begin(), std::move(made));
  if (plans_->list.size() > kMaxPlans) plans_->list.pop_back();
  return results;
}

void Program::Capture(Plan& plan, const std::vector<Any>& inputs) const {
  std::vector<Tensor> examples;
  for (const Any& input : inputs) Flatten(input, examples);
  size_t arguments = examples.size();
  // Zeros stand for random numbers, so that PyTorch's generator is left alone.
  for (const DrawnInput& draw : plan.draws) {
    examples.push_back(hammock::zeros(draw.shape.sizes(), draw.shape.dtype(), device_));
  }
  auto traced = [&](const std::vector<Tensor>& given) {
    std::vector<Tensor> drawn(given.begin() + static_cast<int64_t>(arguments), given.end());
    RecordScope scope(device_, nullptr, &drawn);
    std::vector<Any> filled;
    size_t next = 0;
    for (const Any& input : inputs) filled.push_back(Filled(input, given, next));
    std::vector<Tensor> results;
    for (const Any& result : Record(filled)) Flatten(result, results);
    return results;
  };
  plan.graph = hammock::extract_compiled_graph(traced, examples);
  try {
    plan.direct.emplace(*plan.graph);
    plan.is_direct = IsCallable(*plan.direct) &&
                     std::none_of(plan.results.begin(), plan.results.end(),
                                  [](const Any& result) { return result.IsSequence(); });
  } catch (const hammock::NotSupported&) {
    // It is replayed through tensors.
  }
}

std::vector<Any> Program::Replay(Plan& plan, const std::vector<Any>& inputs) const {
  {
    std::lock_guard lock(plan.mutex);
    try {
      if (plan.replayable && !plan.graph) Capture(plan, inputs);
    } catch (const hammock::Error&) {
      // A value is read inside, or an op runs on the fallback device: recorded every time.
      plan.replayable = false;
    }
  }
  if (!plan.replayable) {
    RecordScope scope(device_, nullptr, nullptr);
    return Record(inputs);
  }
  std::vector<Tensor> arguments;
  for (const Any& input : inputs) Flatten(input, arguments);
  for (const DrawnInput& draw : plan.draws) {
    arguments.push_back(ImportTensor(draw.draw(), device_));
  }
  std::vector<Tensor> computed = (*plan.graph)(arguments);
  ++plans_->replays;
  std::vector<Any> results;
  size_t next = 0;
  for (const Any& result : plan.results) results.push_back(Filled(result, computed, next));
  return results;
}

namespace {

bool SameType(const hammock::Shape& shape, const at::Tensor& tensor) {
  c10::IntArrayRef sizes = tensor.sizes();
  return tensor.layout() == c10::kStrided && FromDType(shape.dtype()) == tensor.scalar_type() &&
         std::equal(sizes.begin(), sizes.end(), shape.sizes().begin(), shape.sizes().end());
}

bool SameNumber(const Any& known, const c10::IValue& value) {
  switch (known.kind()) {
    case Any::Kind::kNone:
      return value.isNone() || value.isTensor();  // an undefined one
    case Any::Kind::kBool:
      return value.isBool() && value.toBool() == known.ToBool();
    case Any::Kind::kInt:
      return value.isInt() && value.toInt() == known.ToInt();
    case Any::Kind::kFloat:  // by bits: -0.0 is not 0.0, a NaN is itself
      return value.isDouble() && hammock::Scalar(value.toDouble()) == known.ToScalar();
    default:
      return false;
  }
}

/// Whether inputs have the types and numbers of a plan, and lie on the CPU or on `device`.
bool Fits(const std::vector<Any>& known, const std::vector<hammock::Shape>& shapes,
          c10::ArrayRef<c10::IValue> inputs, c10::Device device) {
  size_t next = 0;
  auto same = [&](const Any& as, const c10::IValue& input) {
    if (!input.isTensor() || !input.toTensor().defined()) return SameNumber(as, input);
    const at::Tensor& tensor = input.toTensor();
    return as.IsTensor() && SameType(shapes[next++], tensor) &&
           (tensor.is_cpu() || tensor.device() == device);
  };
  return std::equal(known.begin(), known.end(), inputs.begin(), inputs.end(), same);
}

/// The result of a direct call as a tensor that nobody else writes to or reads.
at::Tensor Owned(const hammock::DirectCall& direct, hammock::BackendDataPtr data) {
  hammock::HostTensor host = direct.Export(data);
  data.reset();
  if (!host.unique()) host = hammock::HostTensor::Copy(host.shape(), host.data());
  return OverHost(std::move(host));
}

}  // namespace

std::vector<c10::IValue> Program::RunDirectly(Plan& plan, c10::ArrayRef<c10::IValue> inputs) const {
  const hammock::DirectCall& direct = *plan.direct;
  std::vector<hammock::BackendDataPtr> arguments;  // outlive the call on the card
  CudaCall cuda(direct);
  arguments.reserve(plan.shapes.size() + plan.draws.size());
  plan.kept.Import(direct, cuda, plan.shapes, inputs, arguments);
  for (const DrawnInput& draw : plan.draws) {
    at::Tensor numbers = Dense(draw.draw());
    arguments.push_back(direct.Import(Borrowed(numbers, draw.shape, numbers.storage())));
  }
  std::vector<hammock::BackendDataPtr> computed = direct(arguments);
  plans_->replays.fetch_add(1, std::memory_order_relaxed);
  std::vector<c10::IValue> results;
  results.reserve(outputs_.size());
  size_t next = 0;
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (plan.results[i].IsTensor()) {
      hammock::BackendDataPtr data = std::move(computed[next++]);
      if (passed_on_[i] >= 0) {
        results.push_back(inputs[static_cast<size_t>(passed_on_[i])]);
      } else if (torch_device_.is_cuda()) {
        results.push_back(cuda.Lend(std::move(data)));
      } else {
        results.push_back(Owned(direct, std::move(data)));
      }
    } else {
      results.push_back(ToIValue(plan.results[i], c10::AnyType::get()));
    }
  }
  cuda.Finish();
  return results;
}

std::vector<c10::IValue> Program::RunNow(c10::ArrayRef<c10::IValue> inputs) const {
  auto direct = [&](const Plan& plan) {
    return plan.is_direct && Fits(plan.inputs, plan.shapes, inputs, torch_device_);
  };
  if (std::shared_ptr<Plan> plan = FindPlan(direct)) return RunDirectly(*plan, inputs);
  std::vector<Any> given;
  for (const c10::IValue& input : inputs) given.push_back(FromIValue(input, device_));
  std::vector<Any> computed = Run(given);
  given.clear();
  // PyTorch may write to its tensors as soon as this returns.
  std::vector<Tensor> tensors;
  for (const Any& value : computed) Flatten(value, tensors);
  hammock::LazyGraphExecutor::Get()->SyncTensorsGraph(tensors, true);
  tensors.clear();
  std::vector<c10::IValue> results;
  for (size_t i = 0; i < computed.size(); ++i) {
    Any value = std::exchange(computed[i], Any());
    if (passed_on_[i] >= 0) {
      results.push_back(inputs[static_cast<size_t>(passed_on_[i])]);
    } else if (value.IsTensor()) {
      Tensor tensor = value.ToTensor();
      value = Any();
      results.push_back(ExportTensor(std::move(tensor)).to(torch_device_));
    } else {
      results.push_back(ToIValue(value, c10::AnyType::get()));
    }
  }
  return results;
}

int64_t Program::replays() const { return plans_ ? plans_->replays.load() : 0; }

}  // namespace hammock_torch
