// Collectives between the ranks of a group.

#include "backends/common/collectives.h"

#include "backends/cpu/calls/call_kit.h"
#include "ops/primitives/collectives.h"

namespace hammock::cpu {
namespace {

class CollectiveCall : public Call {
 public:
  CollectiveCall(const Graph& graph, const GraphNode& node)
      : node_(node), type_(graph.TypeOf(node.inputs[0])) {}

  int64_t scratch_bytes() const override { return CollectiveScratch(node_, type_); }
  void Run(std::span<const char* const> in, std::span<char* const> out,
           char* scratch) const override {
    RunCollective(node_, type_, in[0], out[0], scratch);
  }
  const char* kernel() const override { return "collective"; }

 private:
  const GraphNode& node_;
  Shape type_;
};

constexpr CallEntry kEntries[] = {
    {&ops::kAllReduce, MakeNode<CollectiveCall>},
    {&ops::kAllGather, MakeNode<CollectiveCall>},
    {&ops::kReduceScatter, MakeNode<CollectiveCall>},
    {&ops::kCollectiveBroadcast, MakeNode<CollectiveCall>},
    {&ops::kAllToAll, MakeNode<CollectiveCall>},
    {&ops::kCollectivePermute, MakeNode<CollectiveCall>},
    {&ops::kMergedCollective, MakeNode<CollectiveCall>},
};

}  // namespace

std::span<const CallEntry> CollectiveCalls() { return kEntries; }

}  // namespace hammock::cpu
