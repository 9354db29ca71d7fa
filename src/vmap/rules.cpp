// The table of batching rules, and the rules that families of ops share.

#include "vmap/rules.h"

#include <algorithm>
#include <unordered_map>

#include "base/never_destroyed.h"
#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/primitives/attention_node.h"
#include "ops/primitives/collectives.h"

namespace hammock::vmap_rules {

using namespace ops;  // NOLINT: primitives and the steps that expansions are made of

Attr BehindBatch(const Attr& dims) {
  if (dims.kind() != Attr::Kind::kInts) return dims.integer() + 1;
  std::vector<int64_t> moved = dims.ints();
  for (int64_t& dim : moved) ++dim;
  return Dims(moved);
}

Tensors WithLines(const BatchCall& call) {
  Tensors in;
  for (size_t i = 0; i < call.in.size(); ++i) {
    in.push_back(call.All(i));
    if (in.back().defined() && in.back().dim() == 1)
      in.back() = Reshaped(in.back(), {call.size, 1});
  }
  return in;
}

namespace {

Tensors ApplyAs(const BatchCall& call, const Tensors& in, std::span<const Attr> attrs) {
  Tensors results = ApplyMulti(call.op, Location(), in, attrs);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = Reshaped(results[i], call.Sizes(call.out[i].sizes()));
  }
  return results;
}

/// Ops on corresponding elements: operands of fewer dims are aligned behind the batch. Casts are
/// written out, for the dims of an operand take part in promotion.
Tensors BatchElementwise(const BatchCall& call) {
  std::vector<Shape> types;
  std::vector<const Shape*> pointers;
  for (size_t i = 0; i < call.in.size(); ++i) types.push_back(call.TypeOf(i));
  for (size_t i = 0; i < types.size(); ++i) {
    pointers.push_back(call[i].defined() ? &types[i] : nullptr);
  }
  const DType compute = ComputeDType(call.op, pointers);
  const bool casts = call.op.rule != DTypeRule::kLogical && call.op.rule != DTypeRule::kFloatTest;
  const size_t first = call.op.rule == DTypeRule::kSelect ? 1 : 0;
  Tensors in;
  for (size_t i = 0; i < call.in.size(); ++i) {
    Tensor x = call[i];
    if (call.batched(i)) {
      Dims sizes = types[i].sizes();
      while (sizes.size() < call.out[0].rank()) sizes.insert(0, 1);
      x = Reshaped(x, call.Sizes(sizes));
    }
    in.push_back(casts && i >= first && x.defined() ? Casted(x, compute) : x);
  }
  return ApplyMulti(call.op, Location(), in, call.attrs);
}

/// Ops that leave the first dims alone: all operands batched, the attributes as they are.
Tensors BatchLeading(const BatchCall& call) {
  Tensors in;
  for (size_t i = 0; i < call.in.size(); ++i) in.push_back(call.All(i));
  return ApplyMulti(call.op, Location(), in, call.attrs);
}

/// Ops along dims that attribute `kDims` names.
template <size_t kDims>
Tensors BatchAlong(const BatchCall& call) {
  std::vector<Attr> attrs(call.attrs.begin(), call.attrs.end());
  attrs[kDims] = BehindBatch(attrs[kDims]);
  return ApplyAs(call, WithLines(call), attrs);
}

template <size_t kMask>
Tensors BatchMasked(const BatchCall& call) {
  return BatchAttention(call, kMask);
}

/// The first operand decides; the others are read as they are.
Tensors BatchFirst(const BatchCall& call) {
  Tensors in{call.All(0)};
  for (size_t i = 1; i < call.in.size(); ++i) in.push_back(call[i]);
  return ApplyMulti(call.op, Location(), in, call.attrs);
}

/// Ops on parts along dim 0: the samples go behind it meanwhile.
Tensors BatchBehindFirst(const BatchCall& call) {
  auto exchanged = [](const Tensor& x) {
    Dims dims = {1, 0};
    for (int d = 2; d < x.dim(); ++d) dims.push_back(d);
    return Permuted(x, dims);
  };
  return {exchanged(ApplyMulti(call.op, Location(), Tensors{exchanged(call[0])}, call.attrs)[0])};
}

struct Row {
  const OpDef& op;
  BatchFn rule;
};

// clang-format off
const Row kRules[] = {
    {kCast, BatchLeading}, {kBitcast, BatchLeading},
    {kComplex, BatchLeading}, {kReal, BatchLeading}, {kImag, BatchLeading},

    {kReshape, BatchReshape}, {kBroadcast, BatchBroadcast}, {kPermute, BatchPermute},
    {kSlice, BatchAlong<0>}, {kDynamicSlice, BatchDynamicSlice}, {kUpdateSlice, BatchAlong<0>},
    {kDynamicUpdateSlice, BatchDynamicUpdateSlice}, {kPad, BatchPad}, {kConcat, BatchAlong<0>},
    {kFlip, BatchAlong<0>}, {kAsStrided, BatchAsStrided},
    {kAsStridedScatter, BatchAsStridedScatter},

    {kReduceSum, BatchAlong<0>}, {kReduceProd, BatchAlong<0>}, {kReduceMax, BatchAlong<0>},
    {kReduceMin, BatchAlong<0>}, {kReduceAny, BatchAlong<0>}, {kReduceAll, BatchAlong<0>},
    {kArgMax, BatchAlong<0>}, {kArgMin, BatchAlong<0>}, {kScan, BatchAlong<1>},
    {kReduceWindow, BatchLeading}, {kReduceWindowArg, BatchLeading},
    {kMaxWindowBackward, BatchLeading},

    {kGather, BatchAlong<0>}, {kScatter, BatchAlong<0>}, {kIndexSelect, BatchIndexSelect},
    {kSort, BatchAlong<0>}, {kTopK, BatchAlong<1>},

    {kDotGeneral, BatchDotGeneral}, {kConvolution, BatchConvolution},

    {kAttention, BatchMasked<3>}, {kAttentionWeights, BatchMasked<3>},
    {kAttentionBackward, BatchMasked<4>},

    {kCholesky, BatchLeading}, {kLu, BatchLeading}, {kQr, BatchLeading}, {kEigh, BatchLeading},
    {kEig, BatchLeading}, {kSvd, BatchLeading}, {kSolveTriangular, BatchLeading},

    {kFftC2C, BatchAlong<0>}, {kFftR2C, BatchAlong<0>}, {kFftC2R, BatchAlong<0>},

    {kAllReduce, BatchLeading}, {kCollectiveBroadcast, BatchLeading},
    {kCollectivePermute, BatchLeading}, {kAllGather, BatchBehindFirst},
    {kReduceScatter, BatchBehindFirst}, {kAllToAll, BatchBehindFirst},

    {kCond, BatchCond}, {kWhile, BatchWhile}, {kLoop, BatchLoop},
    {kRequire, BatchFirst}, {kBarrier, BatchFirst},
};

/// Primitives that run once per sample: calls of code that knows one sample, and counts that differ
/// between samples. Random words do where the state was computed, not drawn.
constexpr const OpDef* kLooped[] = {&kCustomCall, &kNonzeroBounded, &kRngBits};
// clang-format on

}  // namespace

BatchFn RuleOf(const OpDef& op) {
  static const auto& rules = NeverDestroyed<std::unordered_map<const OpDef*, BatchFn>>([] {
    std::unordered_map<const OpDef*, BatchFn> rules;
    for (const Row& row : kRules) rules[&row.op] = row.rule;
    return rules;
  }());
  if (auto found = rules.find(&op); found != rules.end()) return found->second;
  return op.IsElementwise() ? BatchElementwise : nullptr;
}

bool IsLooped(const OpDef& op) { return std::ranges::count(kLooped, &op) > 0; }

}  // namespace hammock::vmap_rules
