#include "backends/common/collectives.h"

#include "backends/reference/kernel.h"
#include "ops/primitives/collectives.h"

namespace hammock::reference {
namespace {

void Run(KernelCall& call) {
  HostTensor& out = call.NewResult();
  const Shape& type = call.in[0]->shape();
  std::vector<char> scratch(static_cast<size_t>(CollectiveScratch(call.node, type)));
  RunCollective(call.node, type, call.in[0]->data(), out.mutable_data(), scratch.data());
}

constexpr KernelEntry kKernels[] = {{&ops::kAllReduce, Run},     {&ops::kAllGather, Run},
                                    {&ops::kReduceScatter, Run}, {&ops::kCollectiveBroadcast, Run},
                                    {&ops::kAllToAll, Run},      {&ops::kCollectivePermute, Run}};

}  // namespace

std::span<const KernelEntry> CollectiveKernels() { return kKernels; }

}  // namespace hammock::reference
