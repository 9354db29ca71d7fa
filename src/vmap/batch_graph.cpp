// The interpreter of batching: graphs of one sample, op by op.

#include <algorithm>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/metric.h"
#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/primitives/loop.h"
#include "trace/after_op.h"
#include "trace/record.h"
#include "trace/symbolic.h"
#include "vmap/batched_history.h"
#include "vmap/batching.h"

namespace hammock::vmap_rules {

using namespace ops;  // NOLINT: primitives and the steps that expansions are made of

namespace {

constinit const metrics::DeclaredCounter kLoopedOps({
    .name = "VmapLoopedOps",
    .doc = "Ops of mapped functions that have no batching rule and run once per sample, in a loop.",
});

/// One iteration per sample.
std::vector<Tensor> LoopOver(const BatchCall& call) {
  metrics::Get<kLoopedOps>().Add();
  LoopOperands operands;
  for (const Mapped& value : call.in) {
    if (value.tensor.defined()) {
      (value.batched ? operands.stacked : operands.invariant).push_back(value.tensor);
    }
  }
  return Loop(call.size, operands, [&](const LoopStep& step) {
    std::vector<Tensor> in;
    size_t slice = 0, invariant = 0;
    for (const Mapped& value : call.in) {
      if (!value.tensor.defined()) {
        in.emplace_back();
      } else {
        in.push_back(value.batched ? step.slices[slice++] : step.invariant[invariant++]);
      }
    }
    return ApplyMulti(call.op, Location(), in, call.attrs);
  });
}

/// The words of each sample's own stream: those of one stream, of which each sample has a part.
Tensor DrawForAll(const Mapped& state, const Attr& sizes, int64_t size) {
  const Dims sample(sizes.ints());
  const int64_t part = static_cast<int64_t>(state.stride) * 4,
                count = Shape(DType::kU32, sample).numel();
  Tensor words = Apply(kRngBits, Location(), {state.tensor}, {Dims{size, part}});
  Dims all = sample;
  all.insert(0, size);
  return Reshaped(Sliced(words, 1, 0, count), all);
}

/// A random state as a batched tensor: of the same seed, with offsets `stride` apart.
Tensor StatesOf(const Mapped& state, int64_t size) {
  Tensor sample = Casted(Reshaped(Counting(size, state.tensor), {size, 1}), DType::kU64);
  Tensor moved =
      Apply(kMul, Location(), {sample, Constant(static_cast<int64_t>(state.stride), DType::kU64)});
  // (0, 1) times the move: the seed stays.
  Tensor which = Casted(Counting(2, state.tensor), DType::kU64);
  return Apply(kAdd, Location(), {state.tensor, Apply(kMul, Location(), {moved, which})});
}

Graph Expansion(const BatchCall& call) {
  std::vector<Shape> types;
  for (const Mapped& value : call.in) {
    if (value.tensor.defined()) types.push_back(SampleType(value));
  }
  return TraceSymbolically(types, [&](std::span<const Tensor> given) {
    std::vector<Tensor> in;
    size_t next = 0;
    for (const Mapped& value : call.in)
      in.push_back(value.tensor.defined() ? given[next++] : Tensor());
    return call.op.expand({call.op, in, call.attrs, call.out});
  });
}

std::vector<Mapped> Expanded(const BatchCall& call) {
  Graph body = Expansion(call);
  std::vector<Mapped> inputs;
  for (const Mapped& value : call.in) {
    if (value.tensor.defined()) inputs.push_back(value);
  }
  return BatchGraph(body, inputs, call.size);
}

bool HasHistory(std::span<const Mapped> in) {
  if (!Context().grad_mode) return false;
  return std::ranges::any_of(in, [](const Mapped& value) {
    return value.tensor.defined() && value.tensor.requires_grad();
  });
}

/// A node without operands.
Tensor Generated(const OpDef& op, std::span<const Attr> attrs) {
  if (&op == &kConstant) return Constant(attrs[0].scalar(), attrs[1].dtype());
  const ThreadContext& context = Context();
  return FinishOp(RecordNodeOn(op, attrs, context.home_device, tls_location), 0);
}

void CheckTypes(const BatchCall& call, std::span<const Tensor> results) {
  HAMMOCK_CHECK(results.size() == call.out.size(), "{}: its batching rule gave {} results, not {}",
                call.op.name(), results.size(), call.out.size());
  for (size_t i = 0; i < results.size(); ++i) {
    Shape wanted = call.out[i].With(call.Sizes(call.out[i].sizes()));
    HAMMOCK_CHECK(results[i].shape() == wanted, "{}: its batching rule gave {} instead of {}",
                  call.op.name(), results[i].shape().to_string(), wanted.to_string());
  }
}

std::vector<Mapped> AllBatched(std::vector<Tensor> results) {
  std::vector<Mapped> mapped;
  for (Tensor& result : results) mapped.push_back({std::move(result), true});
  return mapped;
}

std::vector<Mapped> Unbatched(const BatchCall& call) {
  if (call.in.empty()) return {{Generated(call.op, call.attrs)}};
  std::vector<Tensor> in;
  for (const Mapped& value : call.in) in.push_back(value.tensor);
  std::vector<Mapped> results;
  for (Tensor& result : ApplyMulti(call.op, Location(), in, call.attrs)) {
    results.push_back({std::move(result)});
  }
  return results;
}

}  // namespace

Shape SampleType(const Mapped& value) {
  if (!value.tensor.defined()) return {};
  const Shape& type = value.tensor.shape();
  if (!value.batched || value.stride > 0) return type;
  Dims sizes = type.sizes();
  sizes.erase(0);
  return type.With(sizes);
}

Tensor WithBatch(const Mapped& value, int64_t size) {
  if (value.stride > 0) return StatesOf(value, size);
  if (value.batched || !value.tensor.defined()) return value.tensor;
  Dims sizes = value.tensor.sizes();
  sizes.insert(0, size);
  return Broadcasted(value.tensor, sizes);
}

Tensor BatchCall::All(size_t operand) const { return WithBatch(in[operand], size); }
Shape BatchCall::TypeOf(size_t operand) const { return SampleType(in[operand]); }

Dims BatchCall::Sizes(const Dims& sample) const {
  Dims sizes = sample;
  sizes.insert(0, size);
  return sizes;
}

std::vector<Mapped> BatchOp(const OpDef& op, std::span<const Mapped> in,
                            std::span<const Attr> attrs, std::span<const Shape> out, int64_t size) {
  BatchCall call{op, in, attrs, out, size};
  if (std::ranges::none_of(in, &Mapped::batched)) return Unbatched(call);
  if (&op == &kRngBits && in[0].stride > 0) return {{DrawForAll(in[0], attrs[0], size), true}};
  BatchFn rule = RuleOf(op);
  if (!rule && op.IsComposite()) {
    if (op.vjp && HasHistory(in)) return WithOwnGradient(call, Expanded);
    return Expanded(call);
  }
  // From here on states are tensors like others.
  std::vector<Mapped> plain(in.begin(), in.end());
  for (Mapped& value : plain) {
    if (value.stride > 0) value = {StatesOf(value, size), true};
  }
  call.in = plain;
  std::vector<Tensor> results = rule ? rule(call) : LoopOver(call);
  CheckTypes(call, results);
  return AllBatched(std::move(results));
}

std::vector<Mapped> BatchGraph(const Graph& graph, std::span<const Mapped> inputs, int64_t size) {
  NodeMap<std::vector<Mapped>> values;
  values.reserve(static_cast<size_t>(graph.size()));
  size_t next_input = 0;
  for (const GraphNode& node : graph.nodes()) {
    if (node.op == &kInput) {
      values.push_back({inputs[next_input++]});
      continue;
    }
    std::vector<Mapped> in;
    for (GraphValue input : node.inputs) {
      in.push_back(input.node ? values[input.node].at(static_cast<size_t>(input.index)) : Mapped());
    }
    values.push_back(BatchOp(*node.op, in, node.attrs, node.types, size));
  }
  std::vector<Mapped> results;
  for (GraphValue output : graph.outputs()) {
    results.push_back(values[output.node].at(static_cast<size_t>(output.index)));
  }
  return results;
}

Graph BatchedBody(const Graph& graph, const std::vector<bool>& batched, int64_t size,
                  std::vector<bool>& out_batched) {
  std::vector<Shape> types;
  for (size_t i = 0; i < batched.size(); ++i) {
    const Shape& type = graph[graph.inputs()[i]].type();
    Dims sizes = type.sizes();
    if (batched[i]) sizes.insert(0, size);
    types.push_back(type.With(sizes));
  }
  return TraceSymbolically(types, [&](std::span<const Tensor> in) {
    std::vector<Mapped> inputs;
    for (size_t i = 0; i < in.size(); ++i) inputs.push_back({in[i], batched[i]});
    std::vector<Mapped> outputs = BatchGraph(graph, inputs, size);
    std::vector<Tensor> results;
    out_batched.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      out_batched[i] = out_batched[i] || outputs[i].batched;
      results.push_back(out_batched[i] ? WithBatch(outputs[i], size) : outputs[i].tensor);
    }
    return results;
  });
}

}  // namespace hammock::vmap_rules
