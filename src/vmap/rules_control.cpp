// Batching rules of branches and loops.

#include <algorithm>

#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "trace/symbolic.h"
#include "vmap/rules.h"

namespace hammock::vmap_rules {

using namespace ops;  // NOLINT: primitives and the steps that expansions are made of

namespace {

Attr Shared(Graph graph) { return std::make_shared<const Graph>(std::move(graph)); }

std::vector<bool> Flags(std::span<const Mapped> values) {
  std::vector<bool> flags;
  for (const Mapped& value : values) flags.push_back(value.batched);
  return flags;
}

/// Of each sample `yes` or `no`, by its element of `which`.
Tensor Chosen(const Tensor& which, const Tensor& yes, const Tensor& no) {
  Dims sizes = Dims::Filled(yes.dim(), 1);
  sizes[0] = which.size(0);
  return Apply(kWhere, Location(), {Reshaped(which, sizes), yes, no});
}

/// Operands as the flags want them.
Tensor As(const Mapped& value, bool batched, int64_t size) {
  return batched ? WithBatch(value, size) : value.tensor;
}

Tensors AllWithBatch(Tensors values, const std::vector<bool>& batched, int64_t size) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = WithBatch({values[i], batched[i]}, size);
  }
  return values;
}

}  // namespace

// Samples that disagree run both branches, and each takes its own results.
Tensors BatchCond(const BatchCall& call) {
  std::span<const Mapped> operands = call.in.subspan(1);
  const Graph &then = call.attrs[0].graph(), &otherwise = call.attrs[1].graph();
  if (call.batched(0)) {
    std::vector<Mapped> yes = BatchGraph(then, operands, call.size);
    std::vector<Mapped> no = BatchGraph(otherwise, operands, call.size);
    Tensors results;
    for (size_t i = 0; i < yes.size(); ++i) {
      results.push_back(Chosen(call[0], WithBatch(yes[i], call.size), WithBatch(no[i], call.size)));
    }
    return results;
  }
  Tensors in;
  for (const Mapped& value : call.in) in.push_back(value.tensor);
  std::vector<bool> flags = Flags(operands), out(call.out.size(), true);
  const Attr attrs[] = {Shared(BatchedBody(then, flags, call.size, out)),
                        Shared(BatchedBody(otherwise, flags, call.size, out))};
  return ApplyMulti(kCond, Location(), in, attrs);
}

namespace {

struct WhileBodies {
  Graph condition, body;
  std::vector<bool> carried;  // which of the values are batched
  bool disagree = false;      // the condition is batched
};

/// A value that becomes batched in the body is so from the start.
WhileBodies BodiesOf(const BatchCall& call) {
  WhileBodies bodies{{}, {}, Flags(call.in)};
  while (true) {
    std::vector<bool> condition, next = bodies.carried;
    bodies.condition = BatchedBody(call.attrs[0].graph(), bodies.carried, call.size, condition);
    bodies.body = BatchedBody(call.attrs[1].graph(), bodies.carried, call.size, next);
    bodies.disagree = condition[0];
    if (bodies.disagree) next.assign(next.size(), true);
    if (next == bodies.carried) return bodies;
    bodies.carried = next;
  }
}

std::vector<Shape> InputTypes(const Graph& graph) {
  std::vector<Shape> types;
  for (NodeId id : graph.inputs()) types.push_back(graph[id].type());
  return types;
}

Tensors Called(const Graph& graph, std::span<const Tensor> in) {
  const Attr attrs[] = {Shared(graph)};
  return ApplyMulti(kCall, Location(), in, attrs);
}

}  // namespace

// Samples that disagree go on until the last one ends; those that have ended keep their values.
Tensors BatchWhile(const BatchCall& call) {
  WhileBodies bodies = BodiesOf(call);
  Graph condition = bodies.condition, body = bodies.body;
  if (bodies.disagree) {
    std::vector<Shape> types = InputTypes(body);
    condition = TraceSymbolically(types, [&](std::span<const Tensor> in) -> Tensors {
      Tensor goes_on = Called(bodies.condition, in)[0];
      return {Apply(kReduceAny, Location(), {goes_on}, {Dims{0}, false})};
    });
    body = TraceSymbolically(types, [&](std::span<const Tensor> in) {
      Tensor goes_on = Called(bodies.condition, in)[0];
      Tensors next = Called(bodies.body, in);
      for (size_t i = 0; i < next.size(); ++i) next[i] = Chosen(goes_on, next[i], in[i]);
      return next;
    });
  }
  Tensors in;
  for (size_t i = 0; i < call.in.size(); ++i) {
    in.push_back(As(call.in[i], bodies.carried[i], call.size));
  }
  const Attr attrs[] = {Shared(std::move(condition)), Shared(std::move(body))};
  return AllWithBatch(ApplyMulti(kWhile, Location(), in, attrs), bodies.carried, call.size);
}

// Stacked values have the iterations as dim 0 and the samples behind.
Tensors BatchLoop(const BatchCall& call) {
  const Graph& body = call.attrs[0].graph();
  const auto carried = static_cast<size_t>(call.attrs[2].integer());
  const auto stacked = static_cast<size_t>(call.attrs[3].integer());
  std::vector<bool> flags{false};  // the number of the iteration
  for (const Mapped& value : call.in) flags.push_back(value.batched);
  Graph batched;
  std::vector<bool> out;
  for (bool changed = true; changed;) {
    out.assign(call.out.size(), false);
    for (size_t i = 0; i < carried; ++i) out[i] = flags[1 + i];
    batched = BatchedBody(body, flags, call.size, out);
    changed = false;
    for (size_t i = 0; i < carried; ++i) {
      changed = changed || out[i] != flags[1 + i];
      flags[1 + i] = out[i];
    }
  }
  Tensors in;
  for (size_t i = 0; i < call.in.size(); ++i) {
    in.push_back(As(call.in[i], flags[1 + i], call.size));
    bool is_stack = i >= carried && i < carried + stacked;
    if (is_stack && flags[1 + i]) in.back() = Moved(in.back(), 0, 1);
  }
  const Attr attrs[] = {Shared(std::move(batched)), call.attrs[1], call.attrs[2], call.attrs[3]};
  Tensors results = ApplyMulti(kLoop, Location(), in, attrs);
  for (size_t i = carried; i < results.size(); ++i) {
    if (out[i]) results[i] = Moved(results[i], 1, 0);
  }
  return AllWithBatch(std::move(results), out, call.size);
}

}  // namespace hammock::vmap_rules
