#include "compiler/loops/share_kernels.h"

#include <unordered_set>

#include "hammock/ir/hash.h"

namespace hammock::compiler {
namespace {

using KernelPtr = std::shared_ptr<const Kernel>;

template <class Enum>
uint64_t Word(Enum value, int byte) {
  return static_cast<uint64_t>(value) << 8 * byte;
}

struct ByValue {
  size_t operator()(const KernelPtr& kernel) const {
    Hash128 hash = HashOf(Word(kernel->lanes_along_rows, 0) | Word(kernel->stages, 1));
    for (const Access& access : kernel->accesses) {
      hash = Combine(hash, Word(access.kind, 0) | Word(access.dtype, 1) | Word(access.row, 2) |
                               Word(access.column, 3) | Word(access.streams, 4));
    }
    for (const Instr& instr : kernel->instrs) {
      hash =
          Combine(hash, Word(instr.kind, 0) | Word(instr.dtype, 1) | Word(instr.fn, 2) |
                            Word(instr.reduce, 4) | Word(static_cast<uint16_t>(instr.access), 5));
      hash = Combine(hash, Word(static_cast<uint16_t>(instr.operands[0]), 0) |
                               Word(static_cast<uint16_t>(instr.operands[1]), 2));
    }
    return hash.lo;
  }
  bool operator()(const KernelPtr& a, const KernelPtr& b) const { return *a == *b; }
};

}  // namespace

void ShareKernels(Schedule& schedule) {
  std::unordered_set<KernelPtr, ByValue, ByValue> kernels;
  for (Command& command : schedule.commands) {
    KernelPtr& kernel = command.launch.kernel;
    if (kernel) kernel = *kernels.insert(kernel).first;
  }
}

}  // namespace hammock::compiler
