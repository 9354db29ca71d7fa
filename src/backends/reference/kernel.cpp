#include "backends/reference/kernel.h"

#include <unordered_map>

#include "base/never_destroyed.h"

namespace hammock::reference {
namespace {

std::unordered_map<const OpDef*, Kernel> MakeTable() {
  std::unordered_map<const OpDef*, Kernel> table;
  for (auto family :
       {ElementwiseKernels(), GenerateKernels(), ShapeKernels(), ReduceKernels(), IndexKernels(),
        ContractKernels(), LinalgKernels(), FftKernels(), ControlKernels(), CollectiveKernels()}) {
    for (const KernelEntry& entry : family) table[entry.op] = entry.run;
  }
  return table;
}

}  // namespace

Kernel FindKernel(const OpDef& op) {
  if (op.scalar != ScalarFn::kNone) return RunElementwise;
  static const auto& table = NeverDestroyed<std::unordered_map<const OpDef*, Kernel>>(MakeTable());
  auto found = table.find(&op);
  return found == table.end() ? nullptr : found->second;
}

bool HasKernel(const OpDef& op) { return FindKernel(op) != nullptr; }

}  // namespace hammock::reference
