// Collectives between the ranks of a group: over NCCL, or through the host where that cannot
// connect the ranks' devices.
//
// Note [Reductions over NCCL]: an all-reduce of up to kSmallBytes gathers the elements of all ranks
// and reduces all of them; a larger one sends every rank its share of the elements, reduces that,
// and sends the results to all: the bytes of a ring in two exchanges. Every element is reduced on
// the device in the order of ranks, as on the host, so the bits are those of other devices, and
// what NCCL chooses for its messages changes none.
//
// Merged collectives (Note [Merged collectives]) are one of these where all ranks have merged
// alike, else one for each split: the calls of NCCL are then those of ranks that could not merge.

#include "backends/cuda/calls/collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/common/collectives.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/rank_sums_args.h"
#include "backends/cuda/driver/rank_connections.h"
#include "backends/cuda/emit/cuda_text.h"
#include "ops/primitives/collectives.h"

namespace hammock::cuda {
namespace {

using distributed::Reduction;
using Message = NcclCommunicator::Message;
using Kind = Message::Kind;

constexpr int64_t kSmallBytes = int64_t{8} << 10;

/// The elements of the ranks, reduced on the device.
class RankSums {
 public:
  RankSums(DType dtype, Reduction reduction) : dtype_(dtype), reduction_(reduction) {}

  /// Other dtypes are reduced on the host.
  static bool Takes(DType dtype) {
    return dtype == DType::kF16 || dtype == DType::kBF16 || dtype == DType::kF32 ||
           dtype == DType::kF64 || dtype == DType::kI32 || dtype == DType::kI64;
  }

  KernelSource Source() const {
    ScalarText scalars;
    const DType wide = dtype_ == DType::kF16 || dtype_ == DType::kBF16 ? DType::kF32 : dtype_;
    const char* mean = reduction_ == Reduction::kMean ? "x / ranks" : "x";
    TypeText fn("Fn");
    fn.Type("Element", MemoryType(dtype_)).Type("Wide", ValueType(wide));
    fn.Function("Wide value(Element x)",
                scalars.Cast(scalars.FromMemory("x", dtype_), dtype_, wide))
        .Function("Wide combine(Wide sum, Wide x)", scalars.Combine(Fn(), wide, "sum", "x"))
        .Function("Element result(Wide x, Wide ranks)",
                  scalars.ToMemory(scalars.Cast(mean, wide, dtype_), dtype_));
    return SourceOf({.file = "rank_sums.cuh",
                     .function = "rank_sums<Fn>",
                     .argument_bytes = sizeof(RankSumsArgs<void>),
                     .definitions = scalars.Functions() + fn.Text()});
  }

 private:
  compiler::ReduceFn Fn() const {
    switch (reduction_) {
      case Reduction::kSum:
      case Reduction::kMean:
        return compiler::ReduceFn::kSum;
      case Reduction::kMin:
        return compiler::ReduceFn::kMin;
      case Reduction::kMax:
        return compiler::ReduceFn::kMax;
      case Reduction::kProd:
        return compiler::ReduceFn::kProd;
    }
    return compiler::ReduceFn::kSum;
  }

  DType dtype_;
  Reduction reduction_;
};

class CollectiveCall : public Call {
 public:
  CollectiveCall(const Graph& graph, const GraphNode& node)
      : node_(node),
        type_(graph.TypeOf(node.inputs[0])),
        ranks_(node.attr("size").integer()),
        width_(BytesOf(type_.dtype(), 1)) {}

  int fault_count() const override { return 1; }
  std::optional<Fault> FindFault(const uint64_t* words) const override {
    if (words[0] == 0) return std::nullopt;
    distributed::FindGroup(node_.attr("group").str())->RaiseFailure();
    return Fault{ErrorCode::kDevice, DescribeCollective(node_) + " was given up", ""};
  }
  std::vector<KernelSource> Sources() const override {
    if (!Reduces() || !RankSums::Takes(type_.dtype())) return {};
    return {RankSums(type_.dtype(), ops::ReductionOf(node_.attr("reduction").str())).Source()};
  }
  /// For the elements that come from other ranks.
  int64_t scratch_bytes() const override {
    if (ranks_ == 1) return 0;
    int64_t most = 0;
    if (Reduces()) most = IsScatter() ? type_.numel() : ReceivedElements(type_.numel());
    for (int64_t count : Splits()) {
      most = std::max(most, IsScatter() || !Reduces() ? count * ranks_ : ReceivedElements(count));
    }
    return most * width_;
  }

  void Run(Machine& machine, const Operands& operands) const override {
    const distributed::CollectiveCall call(CollectiveScope::Current(), node_.attr("group").str());
    distributed::Group::State& group = *call.group;
    CheckRanks(node_, group);
    if (type_.bytes() == 0) return;
    if (ranks_ == 1) return RunAlone(machine, operands);
    const std::string what = DescribeCollective(node_);
    const bool may_connect =
        call.agreement->is_on_one_device_type() && (!Reduces() || RankSums::Takes(type_.dtype()));
    RankConnections* connections =
        may_connect ? RankConnections::Of(group, *call.agreement, machine, what) : nullptr;
    if (!connections) return RunOnHost(machine, operands);
    connections->Enqueue(
        machine, what, operands.fault, [&](NcclCommunicator& ranks, CUstream stream) {
          RunBy({ranks, stream, machine, operands, group.rank, call.agreement->is_merged_alike()});
        });
  }

 private:
  struct Exchange {
    NcclCommunicator& ranks;
    CUstream stream;
    Machine& machine;
    const Operands& operands;
    int rank;
    bool merged_alike;

    Address in() const { return operands.in[0]; }
    Address out() const { return operands.out[0]; }
    void Send(std::span<const Message> messages) const { ranks.Exchange(messages, stream); }
  };

  bool IsMerged() const { return node_.op == &ops::kMergedCollective; }
  bool IsOfKind(const OpDef& op) const {
    return node_.op == &op || (IsMerged() && node_.attrs[0].str() == op.name());
  }
  bool IsScatter() const { return IsOfKind(ops::kReduceScatter); }
  bool IsPair() const { return IsMerged() && node_.attrs[0].str() == "reduce_scatter_all_gather"; }
  bool Reduces() const { return IsOfKind(ops::kAllReduce) || IsScatter() || IsPair(); }
  std::span<const int64_t> Splits() const {
    if (!IsMerged()) return {};
    return node_.attr("splits").ints();
  }
  bool IsSmall(int64_t count) const { return count * width_ <= kSmallBytes; }
  /// Elements of all ranks that an all-reduce of `count` receives before it reduces.
  int64_t ReceivedElements(int64_t count) const {
    return (IsSmall(count) ? count : CeilDiv(count, ranks_)) * ranks_;
  }

  void RunAlone(Machine& machine, const Operands& operands) const {
    if (node_.op == &ops::kCollectivePermute && PartnersOf(node_, 0).from < 0) {
      return machine.Clear(operands.out[0], type_.bytes());
    }
    machine.Copy(operands.out[0], operands.in[0], type_.bytes());
  }

  void RunOnHost(Machine& machine, const Operands& operands) const {
    std::vector<char> in(static_cast<size_t>(type_.bytes()));
    std::vector<char> out(static_cast<size_t>(node_.type().bytes()));
    machine.Download(in.data(), operands.in[0], type_.bytes(), nullptr);
    std::vector<char> scratch(static_cast<size_t>(CollectiveScratch(node_, type_)));
    RunCollective(node_, type_, in.data(), out.data(), scratch.data());
    machine.Upload(operands.out[0], out.data(), node_.type().bytes());
  }

  void RunBy(const Exchange& e) const {
    const auto bytes = static_cast<size_t>(type_.bytes());
    if (IsMerged() && !e.merged_alike) return RunOneByOne(e);
    if (IsMerged()) CountMergedCollective();
    if (IsOfKind(ops::kAllReduce) || IsPair()) return AllReduce(e, e.in(), e.out(), type_.numel());
    if (IsScatter()) {
      const int64_t count = type_.numel() / ranks_;
      return ReduceScatter(e, e.in(), e.out(), {count, count, type_.numel()});
    }
    if (IsOfKind(ops::kAllGather)) return e.ranks.AllGather(e.in(), e.out(), bytes, e.stream);
    if (node_.op == &ops::kAllToAll) return AllToAll(e);
    if (node_.op == &ops::kCollectivePermute) return Permute(e);
    e.ranks.Broadcast(e.in(), e.out(), bytes, static_cast<int>(node_.attrs[0].integer()), e.stream);
  }

  /// A merged collective as its parts. Empty ones are left out, as by ranks that have not merged.
  void RunOneByOne(const Exchange& e) const {
    if (IsPair()) {
      const int64_t count = type_.numel() / ranks_;
      const Address own = At(e.out(), e.rank * count);
      ReduceScatter(e, e.in(), own, {count, count, type_.numel()});
      return e.ranks.AllGather(own, e.out(), static_cast<size_t>(count * width_), e.stream);
    }
    const int64_t row = IsScatter() ? type_.numel() / ranks_ : type_.numel();
    int64_t begin = 0;
    for (int64_t count : Splits()) {
      if (count == 0) continue;
      const Address in = At(e.in(), begin), out = At(e.out(), begin);
      if (IsScatter()) {
        ReduceScatter(e, in, out, {count, row, count * ranks_});
      } else if (IsOfKind(ops::kAllReduce)) {
        AllReduce(e, in, out, count);
      } else {
        Gather(e, in, out, count, row);
      }
      begin += count;
    }
  }

  void AllReduce(const Exchange& e, Address in, Address out, int64_t count) const {
    if (IsSmall(count)) {
      e.ranks.AllGather(in, e.operands.scratch, static_cast<size_t>(count * width_), e.stream);
      return Reduce(e, in, out, count, count);
    }
    const Shares shares = {CeilDiv(count, ranks_), CeilDiv(count, ranks_), count};
    const Address own = At(out, e.rank * shares.size);
    ReduceScatter(e, in, own, shares);
    std::vector<Message> messages;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == e.rank) continue;
      const Address from = At(out, rank * shares.size);
      messages.push_back({Kind::kSend, own, BytesIn(shares, e.rank), rank});
      messages.push_back({Kind::kReceive, from, BytesIn(shares, rank), rank});
    }
    e.Send(messages);
  }

  /// `count` elements of each rank, by rank, `row` elements apart in `out`.
  void Gather(const Exchange& e, Address in, Address out, int64_t count, int64_t row) const {
    const int64_t bytes = count * width_;
    e.ranks.AllGather(in, e.operands.scratch, static_cast<size_t>(bytes), e.stream);
    for (int64_t rank = 0; rank < ranks_; ++rank) {
      e.machine.Copy(At(out, rank * row), At(e.operands.scratch, rank * count), bytes);
    }
  }

  /// Elements that ranks reduce, each its share. The last ones may have fewer.
  struct Shares {
    int64_t size;
    int64_t stride;  // from the share of one rank to that of the next, in the operand
    int64_t count;   // of all elements
    int64_t Of(int64_t rank) const { return std::clamp<int64_t>(count - rank * size, 0, size); }
  };
  size_t BytesIn(const Shares& shares, int64_t rank) const {
    return static_cast<size_t>(shares.Of(rank) * width_);
  }

  /// The share of this rank, reduced, to `to`.
  void ReduceScatter(const Exchange& e, Address in, Address to, const Shares& shares) const {
    std::vector<Message> messages;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == e.rank) continue;
      const Address part = At(in, rank * shares.stride);
      const Address from = At(e.operands.scratch, rank * shares.size);
      messages.push_back({Kind::kSend, part, BytesIn(shares, rank), rank});
      messages.push_back({Kind::kReceive, from, BytesIn(shares, e.rank), rank});
    }
    e.Send(messages);
    Reduce(e, At(in, e.rank * shares.stride), to, shares.Of(e.rank), shares.size);
  }

  void Reduce(const Exchange& e, Address own, Address to, int64_t count, int64_t stride) const {
    if (count == 0) return;
    e.machine.Launch(function(0), ElementGrid(count),
                     WordsOf(RankSumsArgs<void>{.count = count,
                                                .own = cuda::At(own),
                                                .others = cuda::At(e.operands.scratch),
                                                .to = cuda::At(to),
                                                .stride = stride,
                                                .rank = e.rank,
                                                .ranks = ranks_}));
  }

  void AllToAll(const Exchange& e) const {
    const int64_t share = type_.numel() / ranks_;
    const auto bytes = static_cast<size_t>(share * width_);
    std::vector<Message> messages;
    for (int rank = 0; rank < ranks_; ++rank) {
      if (rank == e.rank) continue;
      messages.push_back({Kind::kSend, At(e.in(), rank * share), bytes, rank});
      messages.push_back({Kind::kReceive, At(e.out(), rank * share), bytes, rank});
    }
    e.Send(messages);
    e.machine.Copy(At(e.out(), e.rank * share), At(e.in(), e.rank * share), share * width_);
  }

  void Permute(const Exchange& e) const {
    const auto [to, from] = PartnersOf(node_, e.rank);
    const auto bytes = static_cast<size_t>(type_.bytes());
    if (from == e.rank) return e.machine.Copy(e.out(), e.in(), type_.bytes());
    if (from < 0) e.machine.Clear(e.out(), type_.bytes());
    std::vector<Message> messages;
    if (to >= 0) messages.push_back({Kind::kSend, e.in(), bytes, to});
    if (from >= 0) messages.push_back({Kind::kReceive, e.out(), bytes, from});
    e.Send(messages);
  }

  Address At(Address at, int64_t element) const {
    return at + static_cast<Address>(element * width_);
  }

  const GraphNode node_;
  const Shape type_;  // of the operand
  const int64_t ranks_;
  const int64_t width_;  // bytes of an element
};

/// The two halves of a pair would be run apart, by ranks that have not merged them: one on the
/// host, the other over NCCL.
std::string WhyNotMerged(const Graph& graph, const GraphNode& node) {
  const DType dtype = graph.TypeOf(node.inputs[0]).dtype();
  if (node.attrs[0].str() == ops::kAllGather.name() || RankSums::Takes(dtype)) return "";
  return fmt::format("{} is not reduced on the device", NameOf(dtype));
}

constexpr CallEntry kCalls[] = {
    {&ops::kAllReduce, MakeNode<CollectiveCall>},
    {&ops::kAllGather, MakeNode<CollectiveCall>},
    {&ops::kReduceScatter, MakeNode<CollectiveCall>},
    {&ops::kCollectiveBroadcast, MakeNode<CollectiveCall>},
    {&ops::kAllToAll, MakeNode<CollectiveCall>},
    {&ops::kCollectivePermute, MakeNode<CollectiveCall>},
    {&ops::kMergedCollective, MakeNode<CollectiveCall>, WhyNotMerged},
};

}  // namespace

std::span<const CallEntry> CollectiveCalls() { return kCalls; }

}  // namespace hammock::cuda
