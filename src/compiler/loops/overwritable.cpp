#include "compiler/loops/overwritable.h"

#include <algorithm>

namespace hammock::compiler {

namespace {

/// Buffers of which a kernel reads an element elsewhere than where `store` writes, or later.
std::vector<BufferId> ReadElsewhere(const Launch& launch, const Instr& store) {
  const AccessMap& to = launch.maps[store.access];
  std::vector<BufferId> elsewhere;
  for (const Instr& instr : launch.kernel->instrs) {
    if (instr.kind != Instr::Kind::kLoad) continue;
    const AccessMap& from = launch.maps[instr.access];
    bool random = launch.kernel->accesses[instr.access].kind == Access::Kind::kRandom;
    bool same = !random && from.offset == to.offset && from.outer == to.outer &&
                from.row == to.row && from.column == to.column;
    const bool later = instr.stage > store.stage || (instr.stage == store.stage && &instr > &store);
    if (!same || later) elsewhere.push_back(from.buffer);
  }
  return elsewhere;
}

}  // namespace

const Instr* StoreOf(const Launch& launch, BufferId buffer) {
  const Instr* store = nullptr;
  for (const Instr& instr : launch.kernel->instrs) {
    if (instr.kind != Instr::Kind::kStore || launch.maps[instr.access].buffer != buffer) {
      continue;
    }
    if (store || launch.kernel->accesses[instr.access].streams) return nullptr;
    store = &instr;
  }
  return store;
}

std::vector<BufferId> OverwrittenBy(const Command& command, BufferId result) {
  const Instr* store = command.launch.kernel ? StoreOf(command.launch, result) : nullptr;
  if (!store) return {};
  const std::vector<BufferId> kept = ReadElsewhere(command.launch, *store);
  std::vector<BufferId> overwritten;
  for (BufferId read : command.reads) {
    if (std::find(kept.begin(), kept.end(), read) == kept.end()) overwritten.push_back(read);
  }
  return overwritten;
}

}  // namespace hammock::compiler
