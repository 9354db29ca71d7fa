#include "backends/common/collectives.h"

#include "backends/reference/kernel.h"
#include "ops/primitives/collectives.h"

namespace hammock::reference {
namespace {

void Run(KernelCall& call) {
  HostTensor& out = call.NewResult();
  RunCollective(call.node, call.in[0]->shape(), call.in[0]->data(), out.mutable_data());
}

constexpr KernelEntry kKernels[] = {{&ops::kAllReduce, Run},     {&ops::kAllGather, Run},
                                    {&ops::kReduceScatter, Run}, {&ops::kCollectiveBroadcast, Run},
                                    {&ops::kAllToAll, Run},      {&ops::kCollectivePermute, Run}};

}  // namespace

std::span<const KernelEntry> CollectiveKernels() { return kKernels; }

}  // namespace hammock::reference
