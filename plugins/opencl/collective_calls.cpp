// Collectives between the ranks of a group, by the host.
#include <hammock/lazy/collectives.h>

#include "calls.h"

namespace opencl {
namespace {

void Collective(CallBuilder& call) {
  const hammock::GraphNode& node = call.node();
  const hammock::Shape& type = call.in(0);
  call.RunOnHost(call.In(0), call.Out(),
                 {type.bytes(), call.out().bytes(),
                  [&node, type](const hammock::lazy::RunContext& run, const void* in, void* out) {
                    hammock::RunCollective(run, node, type, in, out);
                  }});
}

}  // namespace

std::vector<CallEntry> CollectiveCalls() {
  return {{"all_reduce", Collective},     {"all_gather", Collective},
          {"reduce_scatter", Collective}, {"collective_broadcast", Collective},
          {"all_to_all", Collective},     {"collective_permute", Collective}};
}

}  // namespace opencl
