#include "compiler/facts/fusion_facts.h"

#include <cstring>

#include "hammock/host_tensor.h"
#include "hammock/ir/storage_types.h"
#include "ir/primitives.h"

namespace hammock::compiler {

uint64_t BitsOf(const Scalar& value, DType dtype) {
  HostTensor tensor = HostTensor::From(value).To(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, tensor.data(), static_cast<size_t>(tensor.bytes()));
  return bits;
}

namespace {

/// Whether a value is known to be a constant other than 0, whatever its sizes.
bool IsNonzeroConstant(const Graph& graph, GraphValue value) {
  while (IsView(graph[value.node])) value = graph[value.node].inputs[0];
  const GraphNode& node = graph[value.node];
  return node.op == &ops::kConstant && BitsOf(node.attrs[0].scalar(), node.type().dtype()) != 0;
}

std::optional<ReduceFn> ReduceFnOf(const OpDef& op) {
  static const std::pair<const OpDef*, ReduceFn> kReductions[] = {
      {&ops::kReduceSum, ReduceFn::kSum}, {&ops::kReduceProd, ReduceFn::kProd},
      {&ops::kReduceMax, ReduceFn::kMax}, {&ops::kReduceMin, ReduceFn::kMin},
      {&ops::kReduceAny, ReduceFn::kAny}, {&ops::kReduceAll, ReduceFn::kAll}};
  for (const auto& [reduction, fn] : kReductions) {
    if (reduction == &op) return fn;
  }
  return std::nullopt;
}

}  // namespace

bool IsReduction(const OpDef& op) { return ReduceFnOf(op).has_value(); }

std::optional<ReduceFn> ReductionOf(const GraphNode& node) {
  std::optional<ReduceFn> fn = ReduceFnOf(*node.op);
  return fn && node.attrs[0].ints().size() == 1 ? fn : std::nullopt;
}

bool IsPointwise(const Graph& graph, const GraphNode& node) {
  if (node.op == &ops::kCast) return true;
  if (node.op == &ops::kBitcast) {
    const DType from = graph.TypeOf(node.inputs[0]).dtype(), to = node.type().dtype();
    return InfoOf(from).bits == InfoOf(to).bits && !IsComplex(from) && !IsComplex(to) &&
           !IsStorage(from) && !IsStorage(to);
  }
  if (node.op->scalar == ScalarFn::kNone || !node.op->IsPrimitive()) return false;
  return !DividesIntegers(node.op->scalar, node.type().dtype()) ||
         IsNonzeroConstant(graph, node.inputs[1]);
}

bool IsView(const GraphNode& node) {
  return node.op == &ops::kReshape || node.op == &ops::kBroadcast || node.op == &ops::kPermute ||
         node.op == &ops::kSlice || node.op == &ops::kFlip;
}

bool IsPair(const GraphNode& node) { return node.op == &ops::kComplex; }

bool IsGenerated(const GraphNode& node) {
  return node.op == &ops::kConstant || node.op == &ops::kIota;
}

GraphValue StorageOf(const Graph& graph, GraphValue value) {
  while (graph[value.node].op == &ops::kReshape) value = graph[value.node].inputs[0];
  return value;
}

FusionFacts::FusionFacts(const Graph& graph) : graph(graph), is_root(graph.size()) {
  BufferId next(0);
  for (const GraphNode& node : graph.nodes()) {
    first.push_back(next);
    next = next + static_cast<int>(node.types.size());
  }
  first.push_back(next);
}

}  // namespace hammock::compiler
