#include "backends/reference/elements.h"
#include "backends/reference/kernel.h"
#include "ir/primitives.h"
#include "ops/random/philox.h"

namespace hammock::reference {
namespace {

void RunConstant(KernelCall& call) {
  HostTensor& out = call.NewResult();
  out.set(0, call.node.attrs[0].scalar());
}

void RunIota(KernelCall& call) {
  HostTensor& out = call.NewResult();
  for (int64_t i = 0; i < out.numel(); ++i) Store(&i, 1, out, i);
}

void RunRngBits(KernelCall& call) {
  std::span<const uint64_t> state = call.in[0]->values<uint64_t>();
  std::span<uint32_t> out = call.NewResult().mutable_values<uint32_t>();
  for (size_t i = 0; i < out.size(); i += 4) {
    philox::Block block = philox::StreamBlock(state[0], state[1], i / 4);
    for (size_t lane = 0; lane < 4 && i + lane < out.size(); ++lane) out[i + lane] = block[lane];
  }
}

constexpr KernelEntry kKernels[] = {
    {&ops::kConstant, RunConstant}, {&ops::kIota, RunIota}, {&ops::kRngBits, RunRngBits}};

}  // namespace

std::span<const KernelEntry> GenerateKernels() { return kKernels; }

}  // namespace hammock::reference
