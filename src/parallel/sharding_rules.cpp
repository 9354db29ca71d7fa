#include "parallel/sharding_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/primitives.h"
#include "ops/kit/compose.h"

namespace hammock::distributed {
namespace {

using namespace ops;  // NOLINT: records
using Kind = Placement::Kind;

bool IsShard(const Placement& p) { return p.kind == Kind::kShard; }
bool IsPartial(const Placement& p) { return p.kind == Kind::kPartial; }
bool IsWhole(const Placement& p) { return p.kind == Kind::kReplicate; }

int PositionOf(const Dims& dims, int64_t dim) {
  for (int i = 0; i < dims.size(); ++i) {
    if (dims[i] == dim) return i;
  }
  return -1;
}

/// All operands whole.
AxisPlan Whole(const AxisCall& call, std::string reason) {
  AxisPlan plan;
  plan.in.assign(call.in.size(), replicate());
  plan.reason = std::move(reason);
  return plan;
}

/// All operands, which have equal sizes, lie in the same way; so does the result.
AxisPlan Alike(const AxisCall& call, Placement placement, std::string reason) {
  AxisPlan plan;
  plan.in.assign(call.in.size(), placement);
  plan.out = placement;
  plan.reason = std::move(reason);
  return plan;
}

/// The operand with most bytes that is cut; -1: none is.
int LargestShard(const AxisCall& call) {
  int best = -1;
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (!IsShard(call.in[i])) continue;
    if (best < 0 || call.type(i).bytes() > call.type(static_cast<size_t>(best)).bytes()) {
      best = static_cast<int>(i);
    }
  }
  return best;
}

// ---- elementwise

/// Whether summands of the operands give summands of the result.
bool IsLinear(const AxisCall& call) {
  const OpDef* op = call.node.op;
  const auto partials = std::ranges::count_if(call.in, IsPartial);
  if (op == &kNeg) return true;
  if (op == &kAdd || op == &kSub) return partials == 2;
  if (op == &kMul) return partials == 1;
  return op == &kDiv && partials == 1 && IsPartial(call.in[0]);
}

AxisPlan PlanElementwise(const AxisCall& call) {
  if (int largest = LargestShard(call); largest >= 0) {
    return Alike(call, call.in[static_cast<size_t>(largest)],
                 "its operands must be cut in the same way");
  }
  if (std::ranges::any_of(call.in, IsPartial)) {
    if (!IsLinear(call)) return Whole(call, "it is not linear in a sum of all ranks");
    AxisPlan plan;
    plan.in = call.in;
    plan.out = partial();
    return plan;
  }
  return Whole(call, "");
}

// ---- reductions

AxisPlan PlanReduce(const AxisCall& call) {
  const Dims& dims = call.node.attr("dims").ints();
  const bool keepdim = call.node.attr("keepdim").boolean();
  const Placement in = call.in[0];
  const bool is_sum = call.node.op == &kReduceSum;
  AxisPlan plan;
  plan.in = {in};
  if (IsPartial(in)) {
    if (!is_sum) return Whole(call, "it is not linear in a sum of all ranks");
    plan.out = partial();
  } else if (IsShard(in) && (Contains(dims, in.dim) || dims.empty())) {
    if (is_sum) {
      plan.out = partial();
    } else {
      const OpDef* op = call.node.op;
      plan.reduce = op == &kReduceMax || op == &kReduceAny   ? Reduction::kMax
                    : op == &kReduceMin || op == &kReduceAll ? Reduction::kMin
                                                             : Reduction::kProd;
      plan.reason = "it reduces a dim that is cut";
    }
  } else if (IsShard(in)) {
    int64_t gone = 0;
    for (int64_t dim : dims) gone += !keepdim && dim < in.dim;
    plan.out = shard(static_cast<int>(in.dim - gone));
  }
  return plan;
}

/// Ops along one dim, which may be cut along any other.
AxisPlan PlanAlongDim(const AxisCall& call) {
  const int64_t dim = call.node.attr("dim").integer();
  const int largest = LargestShard(call);
  if (largest < 0) return Whole(call, "it is not linear in a sum of all ranks");
  const Placement in = call.in[static_cast<size_t>(largest)];
  if (in.dim == dim) return Whole(call, "it runs along a dim that is cut");
  AxisPlan plan = Alike(call, in, "its operands must be cut in the same way");
  const int keepdim = call.node.op->info().AttributeIndex("keepdim");
  if (keepdim >= 0 && !call.node.attrs[static_cast<size_t>(keepdim)].boolean() && dim < in.dim) {
    plan.out = shard(in.dim - 1);
  }
  return plan;
}

// ---- shapes

/// Ops that move elements of their first operand: summands stay summands.
AxisPlan Moves(const AxisCall& call, Placement out) {
  AxisPlan plan;
  plan.in.assign(call.in.size(), replicate());
  plan.in[0] = call.in[0];
  plan.out = IsShard(call.in[0]) ? out : call.in[0];
  return plan;
}

AxisPlan PlanReshape(const AxisCall& call) {
  const Placement in = call.in[0];
  if (!IsShard(in)) return Moves(call, in);
  const Dims &from = call.type(0).sizes(), &to = call.node.type().sizes();
  int64_t before = 1;
  for (int d = 0; d < in.dim; ++d) before *= from[d];
  int64_t product = 1;
  for (int d = 0; d < to.size(); ++d) {
    if (product == before && to[d] % call.ranks == 0 && to[d] > 0) return Moves(call, shard(d));
    product *= to[d];
  }
  return Whole(call, fmt::format("its result {} has no dim that begins where the cut one does",
                                 call.node.type().to_string()));
}

AxisPlan PlanBroadcast(const AxisCall& call) {
  const int more = call.node.type().rank() - call.type(0).rank();
  return Moves(call, shard(call.in[0].dim + more));
}

AxisPlan PlanPermute(const AxisCall& call) {
  return Moves(call, shard(PositionOf(call.node.attr("dims").ints(), call.in[0].dim)));
}

AxisPlan PlanSlice(const AxisCall& call) {
  if (IsShard(call.in[0]) && call.in[0].dim == call.node.attr("dim").integer()) {
    return Whole(call, "it takes a part of a dim that is cut");
  }
  return Moves(call, call.in[0]);
}

AxisPlan PlanPad(const AxisCall& call) {
  const Placement in = call.in[0];
  if (IsPartial(in)) return Whole(call, "it is not linear in a sum of all ranks");
  if (IsShard(in) &&
      (call.node.attr("low").ints()[in.dim] != 0 || call.node.attr("high").ints()[in.dim] != 0)) {
    return Whole(call, "it pads a dim that is cut");
  }
  return Moves(call, in);
}

AxisPlan PlanFlip(const AxisCall& call) {
  if (IsShard(call.in[0]) && Contains(call.node.attr("dims").ints(), call.in[0].dim)) {
    return Whole(call, "it reverses a dim that is cut");
  }
  return Moves(call, call.in[0]);
}

AxisPlan PlanConcat(const AxisCall& call) {
  if (std::ranges::all_of(call.in, IsPartial)) return Alike(call, partial(), "");
  return PlanAlongDim(call);
}

// ---- matmuls

/// The role of a dim of an operand of dot_general.
struct DotDim {
  enum { kContract, kBatch, kFree } role;
  int other;   // of the other operand; -1 for a free dim
  int result;  // -1 for a contracted one
};

DotDim DotDimOf(const AxisCall& call, size_t operand, int dim) {
  const Dims& contract = call.node.attr(operand == 0 ? "a_contract" : "b_contract").ints();
  const Dims& batch = call.node.attr(operand == 0 ? "a_batch" : "b_batch").ints();
  const Dims& other_contract = call.node.attr(operand == 0 ? "b_contract" : "a_contract").ints();
  const Dims& other_batch = call.node.attr(operand == 0 ? "b_batch" : "a_batch").ints();
  if (int at = PositionOf(contract, dim); at >= 0) {
    return {DotDim::kContract, static_cast<int>(other_contract[at]), -1};
  }
  if (int at = PositionOf(batch, dim); at >= 0) {
    return {DotDim::kBatch, static_cast<int>(other_batch[at]), at};
  }
  int result = batch.size();
  if (operand == 1) {
    const Dims& a_contract = call.node.attr("a_contract").ints();
    result += call.type(0).rank() - batch.size() - a_contract.size();
  }
  for (int d = 0; d < dim; ++d) result += !Contains(contract, d) && !Contains(batch, d);
  return {DotDim::kFree, -1, result};
}

AxisPlan PlanDot(const AxisCall& call) {
  AxisPlan plan;
  plan.in = call.in;
  const auto partials = std::ranges::count_if(call.in, IsPartial);
  if (partials == 1 && LargestShard(call) < 0) {
    plan.out = partial();
    return plan;
  }
  for (Placement& in : plan.in) {
    if (IsPartial(in)) in = replicate();
  }
  plan.reason = "it is not linear in a sum of all ranks";
  const int largest = LargestShard(call);
  if (largest < 0) return plan;
  // The larger operand stays as it is; the other one follows.
  const size_t first = static_cast<size_t>(largest), second = 1 - first;
  const DotDim dim = DotDimOf(call, first, plan.in[first].dim);
  switch (dim.role) {
    case DotDim::kContract:
      plan.in[second] = shard(dim.other);
      plan.out = partial();
      plan.reason = "both operands must be cut along the dim that is summed over";
      return plan;
    case DotDim::kBatch:
      plan.in[second] = shard(dim.other);
      plan.out = shard(dim.result);
      plan.reason = "both operands must be cut along the batch";
      return plan;
    case DotDim::kFree:
      break;
  }
  plan.out = shard(dim.result);
  if (!IsWhole(plan.in[second])) {
    plan.in[second] = replicate();
    plan.reason = "the other operand is cut along the same axis";
  }
  return plan;
}

AxisPlan PlanConvolution(const AxisCall& call) {
  if (call.in[0] == shard(0) && IsWhole(call.in[1])) {
    return {call.in, shard(0), "", {}, false, false};
  }
  return Whole(call, "a convolution can be cut along its batch alone");
}

AxisPlan PlanWindow(const AxisCall& call) {
  const auto windowed = static_cast<int>(call.node.attr("window").ints().size());
  if (IsShard(call.in[0]) && call.in[0].dim < call.type(0).rank() - windowed) {
    return Moves(call, call.in[0]);
  }
  return Whole(call, "it slides along a dim that is cut");
}

// ---- indices

AxisPlan PlanGather(const AxisCall& call) {
  const int64_t dim = call.node.attr("dim").integer();
  const int largest = LargestShard(call);
  if (largest < 0) return Whole(call, "it is not linear in a sum of all ranks");
  const Placement cut = call.in[static_cast<size_t>(largest)];
  if (cut.dim == dim && largest == 1) {  // other elements of the same lines
    AxisPlan plan = Whole(call, "every index may name any element");
    plan.in[1] = plan.out = cut;
    return plan;
  }
  if (cut.dim == dim) return Whole(call, "every index may name any element");
  if (call.type(0).size(cut.dim) != call.type(1).size(cut.dim)) {
    return Whole(call, "it leaves out a part of a dim that is cut");
  }
  return Alike(call, cut, "its operands must be cut in the same way");
}

AxisPlan PlanIndexSelect(const AxisCall& call) {
  const int dim = static_cast<int>(call.node.attr("dim").integer());
  const Placement table = call.in[0], index = call.in[1];
  AxisPlan plan;
  plan.in = {replicate(), replicate()};
  if (IsShard(table) && table.dim != dim) {
    plan.in[0] = plan.out = table;
    plan.reason = "the table is cut along the same axis";
    return plan;
  }
  if (IsShard(table)) {
    plan.in[0] = table;
    plan.out = partial();
    plan.lookup_in_part = true;
    plan.reason = "the rows of the table are on other ranks";
    return plan;
  }
  if (IsShard(index)) {
    plan.in[1] = index;
    plan.out = shard(dim);
    plan.reason = "every index may name any row";
    return plan;
  }
  return Whole(call, "it is not linear in a sum of all ranks");
}

AxisPlan PlanScatter(const AxisCall& call) {
  const int64_t dim = call.node.attr("dim").integer();
  const int largest = LargestShard(call);
  if (largest < 0) return Whole(call, "it is not linear in a sum of all ranks");
  const Placement cut = call.in[static_cast<size_t>(largest)];
  if (cut.dim != dim) {
    const bool equal = call.type(0).size(cut.dim) == call.type(1).size(cut.dim) &&
                       call.type(1).size(cut.dim) == call.type(2).size(cut.dim);
    if (!equal) return Whole(call, "it leaves out a part of a dim that is cut");
    return Alike(call, cut, "its operands must be cut in the same way");
  }
  const bool can_add = largest != 0 && call.node.attr("reduce").str() == "sum" &&
                       call.type(1).size(cut.dim) == call.type(2).size(cut.dim);
  if (!can_add) return Whole(call, "every index may name any element");
  AxisPlan plan;
  plan.in = {replicate(), cut, cut};
  plan.out = partial();
  plan.scatter_of_parts = true;
  plan.reason = "every index may name any element";
  return plan;
}

// ---- others

AxisPlan PlanFirst(const AxisCall& call) {
  AxisPlan plan;
  plan.in = call.in;
  plan.out = call.in[0];
  for (size_t i = 1; i < plan.in.size(); ++i) {
    if (IsPartial(plan.in[i])) plan.in[i] = replicate();
  }
  plan.reason = "it reads a sum of all ranks";
  return plan;
}

using Rule = AxisPlan (*)(const AxisCall&);
struct Entry {
  const OpDef* op;
  Rule rule;
};
constexpr Entry kRules[] = {
    {&kReduceSum, PlanReduce},
    {&kReduceProd, PlanReduce},
    {&kReduceMax, PlanReduce},
    {&kReduceMin, PlanReduce},
    {&kReduceAny, PlanReduce},
    {&kReduceAll, PlanReduce},
    {&kArgMax, PlanAlongDim},
    {&kArgMin, PlanAlongDim},
    {&kScan, PlanAlongDim},
    {&kSort, PlanAlongDim},
    {&kTopK, PlanAlongDim},
    {&kReshape, PlanReshape},
    {&kBroadcast, PlanBroadcast},
    {&kPermute, PlanPermute},
    {&kSlice, PlanSlice},
    {&kDynamicSlice, PlanSlice},
    {&kPad, PlanPad},
    {&kFlip, PlanFlip},
    {&kConcat, PlanConcat},
    {&kUpdateSlice, PlanAlongDim},
    {&kDotGeneral, PlanDot},
    {&kConvolution, PlanConvolution},
    {&kReduceWindow, PlanWindow},
    {&kGather, PlanGather},
    {&kScatter, PlanScatter},
    {&kIndexSelect, PlanIndexSelect},
    {&kRequire, PlanFirst},
    {&kBarrier, PlanFirst},
    {&kCast, PlanElementwise},
    {&kWhere, PlanElementwise},
};

}  // namespace

AxisPlan PlanAxis(const AxisCall& call) {
  if (std::ranges::all_of(call.in, IsWhole)) return Whole(call, "");
  for (const Entry& entry : kRules) {
    if (entry.op == call.node.op) return entry.rule(call);
  }
  if (call.node.op->IsElementwise()) return PlanElementwise(call);
  return Whole(call, "there is no rule for it");
}

}  // namespace hammock::distributed
