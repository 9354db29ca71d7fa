// vmap: a function of one sample is traced, and its graph is batched.

#include "hammock/vmap.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "autograd/tape.h"
#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/executor.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "ir/graph_node_of.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "runtime/cache/walk.h"
#include "runtime/functions/traced_inputs.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"
#include "vmap/batched_history.h"
#include "vmap/batching.h"
#include "vmap/map_trace.h"

namespace hammock {

using vmap_rules::BatchOp;
using vmap_rules::Mapped;
using vmap_rules::WithBatch;

namespace {

constexpr char kOp[] = "vmap";

// ---- arguments

SampleDims CheckedInDims(const std::vector<Tensor>& inputs, const SampleDims& given) {
  if (inputs.empty()) Throw(ErrorCode::kValue, "{}: the function has no tensor arguments", kOp);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      Throw(ErrorCode::kUninitializedTensor, "{}: argument {} is undefined", kOp, i);
    }
  }
  SampleDims dims = given.empty() ? SampleDims(inputs.size(), 0) : given;
  if (dims.size() != inputs.size()) {
    Throw(ErrorCode::kValue, "{}: in_dims has {} entries for {} arguments", kOp, dims.size(),
          inputs.size());
  }
  if (std::ranges::none_of(dims, [](const auto& dim) { return dim.has_value(); })) {
    Throw(ErrorCode::kValue,
          "{}: in_dims names no dim, so there are no samples; give at least one argument a dim",
          kOp);
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (!dims[i]) continue;
    const int64_t rank = inputs[i].dim();
    if (*dims[i] < -rank || *dims[i] >= rank) {
      Throw(ErrorCode::kDimOutOfRange, "{}: in_dims has dim {} for argument {}, which is {}{}", kOp,
            *dims[i], i, inputs[i].shape().to_string(),
            rank == 0 ? "; an argument without dims is shared by all samples (none)" : "");
    }
    if (*dims[i] < 0) *dims[i] += rank;
  }
  return dims;
}

int64_t BatchSize(const std::vector<Tensor>& inputs, const SampleDims& dims) {
  std::optional<size_t> first;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!dims[i]) continue;
    if (!first) first = i;
    if (inputs[i].size(*dims[i]) == inputs[*first].size(*dims[*first])) continue;
    Throw(
        ErrorCode::kShapeMismatch,
        "{}: the numbers of samples differ: {} in argument {} ({}, dim {}), {} in argument {} ({}, "
        "dim {})",
        kOp, inputs[*first].size(*dims[*first]), *first, inputs[*first].shape().to_string(),
        *dims[*first], inputs[i].size(*dims[i]), i, inputs[i].shape().to_string(), *dims[i]);
  }
  return inputs[*first].size(*dims[*first]);
}

// ---- the traced function

/// An argument of one sample. It has a history if the batch has one.
Tensor SampleOf(const Tensor& batch, const NodePtr& node) {
  Value value{node, 0};
  if (batch.requires_grad() && Context().grad_mode) {
    Tensor leaf = Tensor::FromValue(value).requires_grad_();
    value = leaf.value();
    value.tape = PassOn(value);
  }
  return Tensor::FromValue(std::move(value));
}

struct Trace {
  std::vector<NodePtr> nodes;  // of arguments that are batched; null for the others
  std::vector<Value> outputs;
  std::vector<Value> arguments;  // after the function
};

/// Values of samples must not outlive the function.
void RefuseKept(const LiveTensors& outside, const std::vector<NodePtr>& samples,
                const std::vector<Tensor>& results) {
  NodePtr kept = outside.FindKept(samples, results, true);
  if (!kept) return;
  Throw(ErrorCode::kValue,
        "{}: the result of {} [at {}], which differs from sample to sample, is kept in a tensor "
        "outside of the function (a variable, or the grad of a tensor); return it instead",
        kOp, kept->op().name(), LocationText(kept->location()));
}

void CheckOutputs(const std::vector<Tensor>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].defined()) continue;
    Throw(ErrorCode::kUninitializedTensor, "{}: result {} of the function is undefined", kOp, i);
  }
}

std::vector<Value> ValuesOf(const std::vector<Tensor>& tensors) {
  std::vector<Value> values;
  for (const Tensor& tensor : tensors) values.push_back(ValueOf(kOp, tensor));
  return values;
}

Trace TraceSample(const TensorsFn& fn, const std::vector<Tensor>& inputs, const SampleDims& dims,
                  const LiveTensors& outside) {
  Trace trace;
  std::vector<Tensor> arguments, outputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    trace.nodes.emplace_back();
    arguments.push_back(inputs[i]);
    if (!dims[i]) continue;
    Dims sizes = inputs[i].sizes();
    sizes.erase(static_cast<int>(*dims[i]));
    trace.nodes[i] = MakeTracedInput(kOp, i, inputs[i].shape().With(sizes),
                                     ValueOf(kOp, inputs[i]).node->device(), tls_location);
    arguments[i] = SampleOf(inputs[i], trace.nodes[i]);
  }
  try {
    NoExecution guard("vmap traces the function for one sample; compute what it needs before");
    outputs = CallUser([&] { return fn(arguments); });
  } catch (...) {
    outside.UndoWrites();
    throw;
  }
  if (Value written = outside.UndoWrites()) {
    Throw(ErrorCode::kValue,
          "{}: {} [at {}] writes to a tensor that is no mapped argument; return the new value "
          "instead",
          kOp, written.node->op().name(), LocationText(written.node->location()));
  }
  CheckOutputs(outputs);
  trace.outputs = ValuesOf(outputs);
  trace.arguments = ValuesOf(arguments);
  return trace;
}

// ---- from nodes to a graph of one sample

/// The nodes that differ from sample to sample, operands first.
class SampleNodes {
 public:
  SampleNodes(const MapTrace& trace, const std::vector<NodePtr>& inputs) : trace_(trace) {
    for (const NodePtr& input : inputs) {
      if (input) differs_[input.get()] = true;
    }
  }
  /// With the graph mutex held: the executor lets go of operands.
  void Visit(const Value& root) {
    std::vector<std::pair<Node*, bool>> stack{{root.node.get(), false}};
    while (!stack.empty()) {
      auto [node, done] = stack.back();
      stack.pop_back();
      if (done) {
        Finish(node);
      } else if (!differs_.contains(node)) {
        if (trace_.StrideOf(*node) > 0 || IsAvailable(*node)) {
          differs_[node] = trace_.StrideOf(*node) > 0;
          continue;
        }
        stack.emplace_back(node, true);
        for (const Node::Operand& operand : node->operands()) {
          if (operand.node) stack.emplace_back(operand.node, false);
        }
      }
    }
  }
  bool Differs(const Node* node) const { return differs_.at(node); }
  const std::vector<NodePtr>& order() const { return order_; }

 private:
  void Finish(Node* node) {
    if (differs_.contains(node)) return;
    bool differs = std::ranges::any_of(node->operands(), [&](const Node::Operand& operand) {
      return operand.node && differs_.at(operand.node);
    });
    differs_[node] = differs;
    if (differs) order_.emplace_back(node);
  }

  const MapTrace& trace_;
  std::unordered_map<const Node*, bool> differs_;
  std::vector<NodePtr> order_;
};

/// A traced node with what its operands are: nodes that differ by number, others as they are.
struct SampleNode {
  GraphNode node;
  struct Operand {
    const Node* differs = nullptr;  // or
    Value shared;
    uint32_t index = 0;
  };
  std::vector<Operand> operands;
  const NodeHistory* history = nullptr;
};

/// Makes the nodes of one sample anew for all of them.
class Batcher {
 public:
  Batcher(const MapTrace& trace, int64_t size) : trace_(trace), size_(size) {}

  void Bind(const NodePtr& node, Tensor batch) {
    bound_.push_back(node);
    values_[node.get()] = {{std::move(batch), true}};
  }

  void Run(const std::vector<NodePtr>& inputs, std::span<const Value> roots) {
    SampleNodes nodes(trace_, inputs);
    std::vector<SampleNode> list;
    {
      std::lock_guard lock(Executor().graph_mutex);
      for (const Value& root : roots) nodes.Visit(root);
      for (const NodePtr& node : nodes.order()) list.push_back(SampleNodeOf(*node, nodes));
    }
    for (size_t i = 0; i < list.size(); ++i) {
      values_[nodes.order()[i].get()] = Batched(list[i]);
    }
    order_ = nodes.order();
  }

  /// The batched value of a value of the sample, with a history only if that has one.
  Mapped At(const Value& value) const {
    if (auto found = values_.find(value.node.get()); found != values_.end()) {
      Mapped mapped = found->second.at(value.index);
      if (!value.tape) return Detached(std::move(mapped));
      return WithCustomHistory(std::move(mapped), value);
    }
    return Leaf(value);
  }

 private:
  Mapped Leaf(const Value& value) const {
    uint64_t stride = trace_.StrideOf(*value.node);
    return {Tensor::FromValue(value), stride > 0, stride};
  }
  /// A result of a function with a gradient of its own has that, batched, as its history.
  Mapped WithCustomHistory(Mapped mapped, const Value& value) const {
    for (const auto& call : trace_.customs()) {
      auto output = std::ranges::find(call->outputs, value);
      if (output == call->outputs.end()) continue;
      TapePtr tape = HistoryOf(*call);
      if (!tape) return mapped;
      const auto index = static_cast<uint32_t>(output - call->outputs.begin());
      Value result = WithBatch(mapped, size_).value();
      result.tape = OneResult("output", {tape, index}, result.shape(), result.node->device(),
                              [](const Tensor& grad) { return grad; });
      return {Tensor::FromValue(std::move(result)), true};
    }
    return mapped;
  }
  /// Null where no input has a history.
  TapePtr HistoryOf(const CustomCall& call) const {
    auto known = customs_.find(&call);
    if (known != customs_.end()) return known->second;
    vmap_rules::MappedCustomCall mapped{call.backward, {}, {}, {}, {}, size_};
    for (const Value& input : call.inputs) mapped.inputs.push_back(input ? At(input) : Mapped());
    for (const Value& saved : call.saved) {
      auto own = std::ranges::find(call.outputs, saved);
      mapped.saved_outputs.push_back(
          own == call.outputs.end() ? -1 : static_cast<int>(own - call.outputs.begin()));
      mapped.saved.push_back(saved ? At(own == call.outputs.end() ? saved : WithoutTape(saved))
                                   : Mapped());
    }
    for (const Value& output : call.outputs) {
      mapped.outputs.push_back({WithBatch(At(output), size_), true});
    }
    return customs_[&call] = vmap_rules::HistoryOfCustomCall(std::move(mapped));
  }
  static Value WithoutTape(const Value& value) { return {value.node, value.index}; }
  static Mapped Detached(Mapped mapped) {
    Value value = mapped.tensor.value();
    if (value.tape) mapped.tensor = Tensor::FromValue({value.node, value.index});
    return mapped;
  }

  SampleNode SampleNodeOf(const Node& node, const SampleNodes& nodes) const {
    SampleNode sample{GraphNodeOf(node, [](const Node::Operand&) { return GraphValue(); }),
                      {},
                      trace_.HistoryOf(&node)};
    for (const Node::Operand& operand : node.operands()) {
      SampleNode::Operand& made = sample.operands.emplace_back();
      made.index = operand.index;
      if (!operand.node) continue;
      made.shared = {NodePtr(operand.node), operand.index};
      if (nodes.Differs(operand.node)) made.differs = operand.node;
    }
    return sample;
  }

  /// Recorded as the node was: with a history where it had one, by those operands that had one.
  std::vector<Mapped> Batched(const SampleNode& sample) const {
    LocationOverride line(sample.node.location);
    GradModeScope mode(sample.history != nullptr);
    std::vector<Mapped> in;
    for (size_t i = 0; i < sample.operands.size(); ++i) {
      const SampleNode::Operand& operand = sample.operands[i];
      Value value = operand.shared;
      if (sample.history && value) value.tape = sample.history->tapes[i];
      in.push_back(value ? At(value) : Mapped());
    }
    return BatchOp(*sample.node.op, in, sample.node.attrs, sample.node.types, size_);
  }

  const MapTrace& trace_;
  const int64_t size_;
  std::unordered_map<const Node*, std::vector<Mapped>> values_;
  std::vector<NodePtr> bound_, order_;  // keep the keys of `values_` alive
  mutable std::unordered_map<const CustomCall*, TapePtr> customs_;
};

// ---- results

std::optional<int64_t> OutDim(const SampleDims& dims, size_t result, size_t results) {
  if (dims.empty()) return 0;
  if (dims.size() == 1) return dims[0];
  if (dims.size() != results) {
    Throw(ErrorCode::kValue, "{}: out_dims has {} entries for {} results", kOp, dims.size(),
          results);
  }
  return dims[result];
}

Tensor Placed(const Mapped& value, std::optional<int64_t> dim, size_t result, int64_t size) {
  if (!dim) {
    if (!value.batched) return value.tensor;
    Throw(ErrorCode::kValue,
          "{}: out_dims has none for result {}, which differs from sample to sample", kOp, result);
  }
  Tensor batch = WithBatch(value, size);
  const int64_t rank = batch.dim();
  if (*dim < -rank || *dim >= rank) {
    Throw(ErrorCode::kDimOutOfRange, "{}: out_dims has dim {} for result {}, which is {}", kOp,
          *dim, result, batch.shape().to_string());
  }
  return ops::Moved(batch, 0, static_cast<int>(*dim < 0 ? *dim + rank : *dim));
}

DeviceId DeviceOf(const std::vector<Tensor>& inputs, const SampleDims& dims) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (dims[i]) return ValueOf(kOp, inputs[i]).node->device();
  }
  return kNoDevice;
}

/// `samples` receives the arguments of this function and of mapped ones inside of it.
std::vector<Tensor> TraceAndBatch(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                                  const SampleDims& dims, int64_t size, const VmapOptions& options,
                                  const LiveTensors& outside, std::vector<NodePtr>& samples) {
  MapTrace trace(size, options.randomness, samples);
  Trace traced = TraceSample(fn, inputs, dims, outside);
  trace.Leave(traced.nodes);
  std::vector<Value> roots = traced.outputs;
  roots.insert(roots.end(), traced.arguments.begin(), traced.arguments.end());
  for (const auto& custom : trace.customs()) {
    std::ranges::copy_if(custom->saved, std::back_inserter(roots),
                         [](const Value& value) { return static_cast<bool>(value); });
    roots.insert(roots.end(), custom->outputs.begin(), custom->outputs.end());
  }

  std::vector<Tensor> results;
  std::vector<std::pair<size_t, Tensor>> written;
  {
    BakingScope baking(DeviceOf(inputs, dims));
    Batcher batcher(trace, size);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (dims[i]) {
        batcher.Bind(traced.nodes[i], ops::Moved(inputs[i], static_cast<int>(*dims[i]), 0));
      }
    }
    batcher.Run(traced.nodes, roots);
    for (size_t i = 0; i < traced.outputs.size(); ++i) {
      results.push_back(Placed(batcher.At(traced.outputs[i]),
                               OutDim(options.out_dims, i, traced.outputs.size()), i, size));
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!dims[i] || traced.arguments[i].node == traced.nodes[i]) continue;
      written.emplace_back(i, Placed(batcher.At(traced.arguments[i]), dims[i], i, size));
    }
  }
  RunBaked(results);
  for (auto& [argument, value] : written) {
    Tensor target = inputs[argument];
    WriteInPlace(kOp, target, value);
  }
  return results;
}

std::vector<Tensor> MapAtOnce(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                              const SampleDims& dims, int64_t size, const VmapOptions& options) {
  LiveTensors outside;
  std::vector<NodePtr> samples;
  std::vector<Tensor> results = TraceAndBatch(fn, inputs, dims, size, options, outside, samples);
  // A function around this one still holds what was noted of both.
  if (!Context().mapping) RefuseKept(outside, samples, results);
  return results;
}

/// Some samples at a time; results are joined along their dims.
std::vector<Tensor> MapInChunks(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                                const SampleDims& dims, int64_t size, const VmapOptions& options) {
  const int64_t chunk = *options.chunk_size;
  if (chunk < 1) Throw(ErrorCode::kValue, "{}: chunk_size is {}, needs at least 1", kOp, chunk);
  if (options.randomness == Randomness::kSame) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "{}: chunks would draw different random numbers; use no chunk_size where "
                        "samples draw the same",
                        kOp);
  }
  std::vector<std::vector<Tensor>> parts;
  for (int64_t start = 0; start < size; start += chunk) {
    const int64_t count = std::min(chunk, size - start);
    std::vector<Tensor> some = inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (dims[i]) some[i] = inputs[i].narrow(*dims[i], start, count);
    }
    std::vector<Tensor> results = MapAtOnce(fn, some, dims, count, options);
    parts.resize(results.size());
    for (size_t i = 0; i < results.size(); ++i) parts[i].push_back(std::move(results[i]));
  }
  std::vector<Tensor> joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    std::optional<int64_t> dim = OutDim(options.out_dims, i, parts.size());
    joined.push_back(dim ? cat(parts[i], *dim) : parts[i][0]);
  }
  return joined;
}

}  // namespace

std::vector<Tensor> MapOver(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                            const VmapOptions& options, Location at) {
  LocationScope scope(at);
  if (!fn) Throw(ErrorCode::kValue, "{}: the function is empty", kOp);
  const SampleDims dims = CheckedInDims(inputs, options.in_dims);
  const int64_t size = BatchSize(inputs, dims);
  bool chunks = options.chunk_size && (*options.chunk_size < size || *options.chunk_size < 1);
  return chunks ? MapInChunks(fn, inputs, dims, size, options)
                : MapAtOnce(fn, inputs, dims, size, options);
}

}  // namespace hammock
