/// Collectives: ops between the ranks of a group. The primitives work along the first dim;
/// functions bring other dims there.

#include "hammock/distributed.h"

#include <algorithm>
#include <map>
#include <set>

#include "distributed/exchange.h"
#include "hammock/config.h"
#include "hammock/lazy/collectives.h"
#include "hammock/ops.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/primitives/collectives.h"
#include "trace/noted_collectives.h"

namespace hammock::ops {
namespace {

using distributed::Reduction;

constexpr const char* kReductions[] = {"sum", "mean", "min", "max", "prod"};

const char* NameOf(Reduction reduction) { return kReductions[static_cast<int>(reduction)]; }

void CheckReduction(const InferCall& call, const std::string& name) {
  const auto found = std::ranges::find(kReductions, name);
  if (found == std::end(kReductions)) {
    Refuse(call, ErrorCode::kValue, "'{}' is no reduction, needs sum, mean, min, max or prod",
           name);
  }
  const DType dtype = call.in[0]->dtype();
  RequireDType(call, distributed::CanReduce(dtype, ReductionOf(name)), *call.in[0],
               name == "mean" ? "floats" : "real numbers");
}

/// The attribute behind the others: how many ranks the group has.
int64_t RanksOf(const InferCall& call) {
  const int64_t ranks = call.attrs.back().integer();
  if (ranks < 1) Refuse(call, ErrorCode::kValue, "a group has at least 1 rank, got {}", ranks);
  return ranks;
}

void RequireParts(const InferCall& call, int64_t ranks) {
  const Shape& type = *call.in[0];
  if (type.rank() > 0 && type.size(0) % ranks == 0) return;
  Refuse(call, ErrorCode::kShapeMismatch,
         "{} cannot be cut into {} equal parts along its first dim", type.to_string(), ranks);
}

void CheckRank(const InferCall& call, const char* what, int64_t rank, int64_t ranks) {
  if (rank >= 0 && rank < ranks) return;
  Refuse(call, ErrorCode::kValue, "{} is rank {}, but the group has {} rank(s)", what, rank, ranks);
}

Shape WithFirst(const Shape& type, int64_t size) {
  Dims sizes = type.sizes();
  sizes[0] = size;
  return type.With(sizes);
}

void InferAllReduce(const InferCall& call) {
  RanksOf(call);
  CheckReduction(call, call.attrs[0].str());
  call.out = {*call.in[0]};
}

void InferAllGather(const InferCall& call) {
  const Shape& type = *call.in[0];
  if (type.rank() == 0)
    Refuse(call, ErrorCode::kShapeMismatch, "needs at least 1 dim, got {}", type.to_string());
  const int64_t ranks = RanksOf(call);
  int64_t size = 0;
  if (__builtin_mul_overflow(type.size(0), ranks, &size)) {
    Refuse(call, ErrorCode::kSizeOverflow, "{} of {} ranks has too many elements", type.to_string(),
           ranks);
  }
  call.out = {WithFirst(type, size)};
  CheckSizes(call.op.name(), call.out[0].sizes());
}

void InferReduceScatter(const InferCall& call) {
  const int64_t ranks = RanksOf(call);
  CheckReduction(call, call.attrs[0].str());
  RequireParts(call, ranks);
  call.out = {WithFirst(*call.in[0], call.in[0]->size(0) / ranks)};
}

void InferBroadcastFrom(const InferCall& call) {
  CheckRank(call, "root", call.attrs[0].integer(), RanksOf(call));
  call.out = {*call.in[0]};
}

void InferAllToAll(const InferCall& call) {
  RequireParts(call, RanksOf(call));
  call.out = {*call.in[0]};
}

void InferPermute(const InferCall& call) {
  const int64_t ranks = RanksOf(call);
  const std::vector<int64_t>& pairs = call.attrs[0].ints();  // more than a shape has dims
  if (pairs.size() % 2 != 0)
    Refuse(call, ErrorCode::kValue, "pairs are (from, to), got {} numbers", pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) {
    CheckRank(call, i % 2 == 0 ? "a sender" : "a receiver", pairs[i], ranks);
    for (size_t k = i % 2; k < i; k += 2) {
      if (pairs[k] != pairs[i]) continue;
      Refuse(call, ErrorCode::kValue, "rank {} {} twice", pairs[i],
             i % 2 == 0 ? "sends" : "receives");
    }
  }
  call.out = {*call.in[0]};
}

// ---- gradients: those of the sum of all ranks' losses

/// One node of a collective, with the group of the op whose gradient it is a part of.
Tensor Node(const OpDef& op, const Tensor& x, const VjpCall& of,
            std::initializer_list<Attr> attrs = {}) {
  std::vector<Attr> all(attrs);
  all.push_back(of.attrs[of.attrs.size() - 2]);
  all.push_back(of.attrs.back());
  return NoteCollective(Apply(op, Location::current(), std::span(&x, 1), all));
}

bool IsLinear(const std::string& reduction) { return reduction == "sum" || reduction == "mean"; }

/// Gradients of `parts`, the elements of all ranks along a first dim, which the collective `c`
/// reduces: those of a reduction along that dim, which deals with ties and zeros.
Tensor GradOfParts(const VjpCall& c, const std::string& reduction, const Tensor& parts) {
  const OpDef& reduce = reduction == "prod"  ? kReduceProd
                        : reduction == "max" ? kReduceMax
                                             : kReduceMin;
  const std::vector<Attr> attrs = {Attr(Dims{0}), Attr(false)};
  Tensor operands[] = {parts}, results[] = {c.out[0]}, grads[] = {c.grad()};
  const uint8_t needed[] = {1};
  return reduce.vjp({reduce, operands, results, attrs, grads, needed})[0];
}

Tensors AllReduceVjp(const VjpCall& c) {
  const std::string& reduction = c.attrs[0].str();
  if (IsLinear(reduction)) return {Node(kAllReduce, c.grad(), c, {c.attrs[0]})};
  const Tensor& x = c.in[0];
  Dims stacked = x.sizes();
  stacked.insert(0, 1);
  Tensor all = GradOfParts(c, reduction, Node(kAllGather, Reshaped(x, stacked), c));
  return {Reshaped(Node(kReduceScatter, all, c, {Attr(std::string("sum"))}), x.sizes())};
}

Tensors AllGatherVjp(const VjpCall& c) {
  return {Node(kReduceScatter, c.grad(), c, {Attr(std::string("sum"))})};
}

Tensors ReduceScatterVjp(const VjpCall& c) {
  const std::string& reduction = c.attrs[0].str();
  const Tensor& x = c.in[0];
  const int64_t ranks = c.attrs.back().integer();
  if (IsLinear(reduction)) {
    Tensor grad = Node(kAllGather, c.grad(), c);
    if (reduction == "sum") return {grad};
    return {mul(grad, ConstantLike(1.0 / static_cast<double>(ranks), grad))};
  }
  // Each rank takes what all ranks have of its part, and sends their gradients back.
  Dims stacked = c.out[0].sizes();
  stacked.insert(0, ranks);
  Tensor parts = GradOfParts(c, reduction, Reshaped(Node(kAllToAll, x, c), stacked));
  return {Node(kAllToAll, Reshaped(parts, x.sizes()), c)};
}

// The permutation that leaves the root's tensor where it is makes all others zero.
Tensors BroadcastFromVjp(const VjpCall& c) {
  const int64_t root = c.attrs[0].integer();
  Tensor sum = Node(kAllReduce, c.grad(), c, {Attr(std::string("sum"))});
  return {Node(kCollectivePermute, sum, c, {Attr(Dims{root, root})})};
}

Tensors AllToAllVjp(const VjpCall& c) { return {Node(kAllToAll, c.grad(), c)}; }

Tensors PermuteVjp(const VjpCall& c) {
  std::vector<int64_t> back = c.attrs[0].ints();
  for (size_t i = 0; i + 1 < back.size(); i += 2) std::swap(back[i], back[i + 1]);
  return {Node(kCollectivePermute, c.grad(), c, {Attr(back)})};
}

// ---- merged collectives, see Note [Merged collectives]

void InferMerged(const InferCall& call) {
  const Shape& type = *call.in[0];
  const std::string& kind = call.attrs[0].str();
  const int64_t ranks = RanksOf(call);
  const bool pair = kind == "reduce_scatter_all_gather", gather = kind == "all_gather";
  const bool reduce = kind == "all_reduce", scatter = kind == "reduce_scatter";
  if (!pair && !gather && !reduce && !scatter) {
    Refuse(call, ErrorCode::kValue, "unknown kind '{}'", kind);
  }
  int64_t split = 0;
  for (int64_t count : call.attrs[1].ints()) {
    if (count < 0 || count > type.numel() - split) {
      Refuse(call, ErrorCode::kValue, "splits {} do not fit {}", call.attrs[1].to_string(),
             type.to_string());
    }
    split += count;
  }
  if (pair || scatter) RequireParts(call, ranks);
  if (!gather) CheckReduction(call, call.attrs[2].str());
  const int64_t rows = gather ? 1 : ranks;
  const bool fits =
      pair || (reduce ? type.numel() == split
                      : type.rank() == 2 && type.size(0) == rows && type.size(1) == split);
  if (!fits) {
    Refuse(call, ErrorCode::kShapeMismatch, "{} of {} elements a rank cannot have {}", kind, split,
           type.to_string());
  }
  call.out = {reduce || pair ? type : WithFirst(type, gather ? ranks : 1)};
}

Tensors ExpandMerged(const ExpandCall& c) {
  const std::string& kind = c.attrs[0].str();
  const std::span<const Attr> group = c.attrs.last(2), reduction = c.attrs.last(3);
  auto apply = [](const OpDef& op, const Tensor& x, std::span<const Attr> attrs) {
    return Apply(op, Location(), std::span(&x, 1), attrs);
  };
  if (kind == "all_reduce") return {apply(kAllReduce, c.in[0], reduction)};
  if (kind == "all_gather") return {apply(kAllGather, c.in[0], group)};
  Tensor own = apply(kReduceScatter, c.in[0], reduction);
  if (kind == "reduce_scatter") return {own};
  return {apply(kAllGather, own, group)};
}

// ---- calls by name: `size` 0 stands for that of the group

/// Refuses here what no step could run: a whole step runs all noted collectives.
int64_t SizeOf(const OpDef& op, const std::string& group, int64_t size) {
  const int64_t ranks = distributed::FindGroup(group)->size();
  if (size != 0 && size != ranks) {
    Throw(ErrorCode::kValue, "{}: size is {}, but group '{}' has {} rank(s)", op.name(), size,
          group, ranks);
  }
  return ranks;
}

Tensor CallAllReduce(const Tensor& self, const std::string& reduction, const std::string& group,
                     int64_t size, Location at) {
  LocationScope scope(at);
  return NoteCollective(
      Apply(kAllReduce, at, {self},
            {Attr(reduction), Attr(group), Attr(SizeOf(kAllReduce, group, size))}));
}
Tensor CallAllGather(const Tensor& self, const std::string& group, int64_t size, Location at) {
  LocationScope scope(at);
  return NoteCollective(
      Apply(kAllGather, at, {self}, {Attr(group), Attr(SizeOf(kAllGather, group, size))}));
}
Tensor CallReduceScatter(const Tensor& self, const std::string& reduction, const std::string& group,
                         int64_t size, Location at) {
  LocationScope scope(at);
  return NoteCollective(
      Apply(kReduceScatter, at, {self},
            {Attr(reduction), Attr(group), Attr(SizeOf(kReduceScatter, group, size))}));
}
Tensor CallBroadcast(const Tensor& self, int64_t root, const std::string& group, int64_t size,
                     Location at) {
  LocationScope scope(at);
  return NoteCollective(
      Apply(kCollectiveBroadcast, at, {self},
            {Attr(root), Attr(group), Attr(SizeOf(kCollectiveBroadcast, group, size))}));
}
Tensor CallAllToAll(const Tensor& self, const std::string& group, int64_t size, Location at) {
  LocationScope scope(at);
  return NoteCollective(
      Apply(kAllToAll, at, {self}, {Attr(group), Attr(SizeOf(kAllToAll, group, size))}));
}
Tensor CallPermute(const Tensor& self, const std::vector<int64_t>& pairs, const std::string& group,
                   int64_t size, Location at) {
  LocationScope scope(at);
  return NoteCollective(
      Apply(kCollectivePermute, at, {self},
            {Attr(pairs), Attr(group), Attr(SizeOf(kCollectivePermute, group, size))}));
}

}  // namespace

Reduction ReductionOf(const std::string& name) {
  const auto found = std::ranges::find(kReductions, name);
  HAMMOCK_CHECK(found != std::end(kReductions), "reduction '{}'", name);
  return static_cast<Reduction>(found - std::begin(kReductions));
}

void NoteCollectives(const OpDef& op, std::span<const Attr> attrs,
                     std::span<const Tensor> results) {
  const bool has_some = IsCollective(op) || std::ranges::any_of(attrs, [](const Attr& attr) {
                          return attr.kind() == Attr::Kind::kGraph && HasCollectives(attr.graph());
                        });
  if (has_some && !results.empty()) NoteCollective(results[0]);
}

constinit const OpDef kAllReduce = {
    .schema =
        "all_reduce(Tensor self, str reduction=\"sum\", str group=\"world\", int size=0) -> Tensor",
    .doc = "The reduction (sum, mean, min, max, prod) of the tensors of a group's ranks.",
    .effect = Effect::kOrdered,
    .call = Box<CallAllReduce>,
    .infer = InferAllReduce,
    .vjp = AllReduceVjp,
    .can_fail = true,
    .samples = {{"f32[2,3]", "{reduction=\"sum\", group=\"world\", size=1}"},
                {"f32[4]", "{reduction=\"mean\", group=\"world\", size=1}"},
                {"f32[2,2]", "{reduction=\"max\", group=\"world\", size=1}"}},
};
constinit const OpDef kAllGather = {
    .schema = "all_gather(Tensor self, str group=\"world\", int size=0) -> Tensor",
    .doc = "The tensors of a group's ranks, one behind the other along the first dim.",
    .effect = Effect::kOrdered,
    .call = Box<CallAllGather>,
    .infer = InferAllGather,
    .takes_complex = true,
    .vjp = AllGatherVjp,
    .can_fail = true,
    .samples = {{"f32[2,3]", "{group=\"world\", size=1}"}},
};
constinit const OpDef kReduceScatter = {
    .schema =
        "reduce_scatter(Tensor self, str reduction=\"sum\", str group=\"world\", int size=0) -> "
        "Tensor",
    .doc = "This rank's part, along the first dim, of the reduction of a group's tensors.",
    .effect = Effect::kOrdered,
    .call = Box<CallReduceScatter>,
    .infer = InferReduceScatter,
    .vjp = ReduceScatterVjp,
    .can_fail = true,
    .samples = {{"f32[2,3]", "{reduction=\"sum\", group=\"world\", size=1}"},
                {"f32[4]", "{reduction=\"mean\", group=\"world\", size=1}"}},
};
constinit const OpDef kCollectiveBroadcast = {
    .schema =
        "collective_broadcast(Tensor self, int root=0, str group=\"world\", int size=0) -> Tensor",
    .doc = "The tensor of a group's rank `root`.",
    .effect = Effect::kOrdered,
    .call = Box<CallBroadcast>,
    .infer = InferBroadcastFrom,
    .takes_complex = true,
    .vjp = BroadcastFromVjp,
    .can_fail = true,
    .samples = {{"f32[2,3]", "{root=0, group=\"world\", size=1}"}},
};
constinit const OpDef kAllToAll = {
    .schema = "all_to_all(Tensor self, str group=\"world\", int size=0) -> Tensor",
    .doc = "Part i along the first dim goes to rank i; parts from all ranks come, by rank.",
    .effect = Effect::kOrdered,
    .call = Box<CallAllToAll>,
    .infer = InferAllToAll,
    .takes_complex = true,
    .vjp = AllToAllVjp,
    .can_fail = true,
    .samples = {{"f32[2,3]", "{group=\"world\", size=1}"}},
};
constinit const OpDef kCollectivePermute = {
    .schema =
        "collective_permute(Tensor self, int[] pairs, str group=\"world\", int size=0) -> Tensor",
    .doc =
        "The tensor of the rank that `pairs` (from, to, from, to, ...) name for this one; zeros "
        "where none is.",
    .effect = Effect::kOrdered,
    .call = Box<CallPermute>,
    .infer = InferPermute,
    .takes_complex = true,
    .vjp = PermuteVjp,
    .can_fail = true,
    .samples = {{"f32[2,3]", "{pairs=[0, 0], group=\"world\", size=1}"}},
};

constinit const OpDef kMergedCollective = {
    .schema =
        "_merged_collective(Tensor self, str kind, int[] splits, str reduction, str group, int "
        "size) -> Tensor",
    .doc = "Collectives of one kind that follow each other, as one.",
    .effect = Effect::kOrdered,
    .infer = InferMerged,
    .expand = ExpandMerged,
    .can_fail = true,
    .samples = {{"f32[5]",
                 "{kind=\"all_reduce\", splits=[2,3], reduction=\"sum\", group=\"world\", size=1}"},
                {"f32[1,5]",
                 "{kind=\"all_gather\", splits=[2,3], reduction=\"\", group=\"world\", size=1}"},
                {"f32[4,2]",
                 "{kind=\"reduce_scatter_all_gather\", splits=[], reduction=\"sum\", "
                 "group=\"world\", size=1}"}},
};

}  // namespace hammock::ops

namespace hammock {

namespace {

/// `seen`: bodies that have none. Many nodes may share one.
const GraphNode* FindIn(const Graph& graph, std::set<const Graph*>& seen) {
  for (const GraphNode& node : graph.nodes()) {
    if (IsCollective(*node.op)) return &node;
    for (const Attr& attr : node.attrs) {
      if (attr.kind() != Attr::Kind::kGraph || !seen.insert(&attr.graph()).second) continue;
      if (const GraphNode* found = FindIn(attr.graph(), seen)) return found;
    }
  }
  return nullptr;
}

}  // namespace

const GraphNode* FindCollective(const Graph& graph) {
  std::set<const Graph*> seen;
  return FindIn(graph, seen);
}

}  // namespace hammock

namespace hammock::distributed {
namespace {

using namespace ops;  // NOLINT

int DimOf(const char* op, int64_t dim, const Tensor& x) {
  return static_cast<int>(WrapDim(op, dim, x.dim()));
}

}  // namespace

Tensor all_reduce(const Tensor& self, Reduction reduction, const Group& group, Location at) {
  return CallAllReduce(self, ops::NameOf(reduction), group.name(), group.size(), at);
}

namespace {

constinit config::Option<int64_t> kBucketBytes({
    .name = "distributed.bucket_bytes",
    .default_value = int64_t{25} << 20,
    .doc = "Tensors that are reduced together travel in messages of about so many bytes. The same "
           "on all ranks.",
    .affects_code = true,
    .min = 1,
});

}  // namespace

int64_t BucketBytes() { return config::Get<kBucketBytes>(); }

namespace {

/// The tensors of a bucket, which have one dtype, by one message.
void ReduceBucket(std::span<const Tensor> tensors, const std::vector<size_t>& bucket,
                  Reduction reduction, const Group& group, Location at, Tensors& results) {
  Tensors flat;
  for (size_t i : bucket) flat.push_back(Reshaped(tensors[i], Dims{tensors[i].numel()}));
  Tensor together = flat.size() == 1 ? flat[0] : Concatenated(flat, 0);
  Tensor reduced = all_reduce(together, reduction, group, at);
  int64_t begin = 0;
  for (size_t i : bucket) {
    const int64_t count = tensors[i].numel();
    Tensor part = bucket.size() == 1 ? reduced : Sliced(reduced, 0, begin, count);
    results[i] = Reshaped(part, tensors[i].sizes());
    begin += count;
  }
}

}  // namespace

std::vector<Tensor> all_reduce(const std::vector<Tensor>& tensors, Reduction reduction,
                               const Group& group, Location at) {
  LocationScope scope(at);
  Tensors results(tensors.size());
  struct Bucket {
    std::vector<size_t> members;
    int64_t bytes = 0;
  };
  std::map<DType, Bucket> open;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Shape& type = tensors[i].shape();
    Bucket& bucket = open[type.dtype()];
    bucket.members.push_back(i);
    bucket.bytes += type.bytes();
    if (bucket.bytes < BucketBytes()) continue;
    ReduceBucket(tensors, bucket.members, reduction, group, at, results);
    bucket = {};
  }
  for (auto& [dtype, bucket] : open) {
    if (!bucket.members.empty()) {
      ReduceBucket(tensors, bucket.members, reduction, group, at, results);
    }
  }
  return results;
}

Tensor all_gather(const Tensor& self, int64_t dim, const Group& group, Location at) {
  LocationScope scope(at);
  Tensor x = self.dim() == 0 ? Reshaped(self, Dims{1}) : self;
  const int at_dim = DimOf("all_gather", dim, x);
  return Moved(CallAllGather(Moved(x, at_dim, 0), group.name(), group.size(), at), 0, at_dim);
}

Tensor reduce_scatter(const Tensor& self, Reduction reduction, int64_t dim, const Group& group,
                      Location at) {
  LocationScope scope(at);
  const int at_dim = DimOf("reduce_scatter", dim, self);
  Tensor first = Moved(self, at_dim, 0);
  return Moved(CallReduceScatter(first, ops::NameOf(reduction), group.name(), group.size(), at), 0,
               at_dim);
}

Tensor broadcast(const Tensor& self, int root, const Group& group, Location at) {
  return CallBroadcast(self, root, group.name(), group.size(), at);
}

Tensor all_to_all(const Tensor& self, int64_t split_dim, int64_t concat_dim, const Group& group,
                  Location at) {
  LocationScope scope(at);
  const int split = DimOf("all_to_all", split_dim, self),
            concat = DimOf("all_to_all", concat_dim, self);
  Tensor parts = CallAllToAll(Moved(self, split, 0), group.name(), group.size(), at);
  if (split == concat) return Moved(parts, 0, split);
  const int64_t part = parts.size(0) / group.size();
  Tensors moved;
  for (int64_t i = 0; i < group.size(); ++i)
    moved.push_back(Moved(Sliced(parts, 0, i * part, part), 0, split));
  return Concatenated(moved, concat);
}

Tensor permute(const Tensor& self, const std::vector<std::pair<int, int>>& pairs,
               const Group& group, Location at) {
  std::vector<int64_t> flat;
  for (const auto& [from, to] : pairs) {
    flat.push_back(from);
    flat.push_back(to);
  }
  return CallPermute(self, flat, group.name(), group.size(), at);
}

}  // namespace hammock::distributed
