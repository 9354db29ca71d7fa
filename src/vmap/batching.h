#pragma once
/// Batching: what an op on one sample is for all samples at once. The samples of a batched value
/// lie along its dim 0; a value that is not batched is the same for all of them.
///
/// A rule is written in Tensor ops, so that it also runs on symbolic tensors (bodies of loops) and
/// has gradients. Rules stand in one table (rules.cpp); elementwise ops share one, composites
/// without a rule are expanded, and any other op without one runs once per sample in a `loop`.

#include <span>
#include <vector>

#include "hammock/ir/graph.h"
#include "hammock/tensor.h"

namespace hammock::vmap_rules {

/// A value of a mapped function.
struct Mapped {
  Tensor tensor;  // undefined for an absent optional operand
  bool batched = false;
  /// Of a random state that this trace drew: the blocks from one sample's draw to the next one's.
  /// `tensor` is the state of the first sample then.
  uint64_t stride = 0;
};

struct BatchCall {
  const OpDef& op;
  std::span<const Mapped> in;
  std::span<const Attr> attrs;
  std::span<const Shape> out;  // of one sample
  int64_t size;                // of the batch

  bool batched(size_t operand) const { return in[operand].batched; }
  /// The operand as it is, batched or not.
  const Tensor& operator[](size_t operand) const { return in[operand].tensor; }
  /// The operand with the batch as dim 0, repeated if it is the same for all samples.
  Tensor All(size_t operand) const;
  /// Its type in one sample.
  Shape TypeOf(size_t operand) const;
  /// The sizes of one sample behind that of the batch.
  Dims Sizes(const Dims& sample) const;
};

/// Results with the batch as dim 0. At least one operand is batched.
using BatchFn = std::vector<Tensor> (*)(const BatchCall&);

/// The rule of an op; null where it is expanded or looped over.
BatchFn RuleOf(const OpDef& op);
/// Whether an op runs once per sample.
bool IsLooped(const OpDef& op);

/// The tensor with the batch as dim 0.
Tensor WithBatch(const Mapped& value, int64_t size);
/// The type of a value in one sample.
Shape SampleType(const Mapped& value);

/// One op on mapped values.
std::vector<Mapped> BatchOp(const OpDef& op, std::span<const Mapped> in,
                            std::span<const Attr> attrs, std::span<const Shape> out, int64_t size);

/// The outputs of a graph of one sample.
std::vector<Mapped> BatchGraph(const Graph& graph, std::span<const Mapped> inputs, int64_t size);

/// The graph that computes `graph` for all samples, where `batched` says which of its inputs are
/// batched: outputs are those of `graph`, with the batch as dim 0 where `out_batched` says so. What
/// must be batched anyway is marked there.
Graph BatchedBody(const Graph& graph, const std::vector<bool>& batched, int64_t size,
                  std::vector<bool>& out_batched);

}  // namespace hammock::vmap_rules
