// KernelBuilder::Finish: loops are merged, and instructions get their levels and stages.
#include <algorithm>

#include "base/throw.h"
#include "compiler/loops/kernel_builder.h"

namespace hammock::compiler {
namespace {

Stride KindOf(int64_t stride) {
  return stride == 0 ? Stride::kZero : stride == 1 ? Stride::kOne : Stride::kAny;
}

}  // namespace

/// Loops that run as one, outermost first; the last of each carries the stride.
struct KernelBuilder::Groups {
  struct Group {
    int last;
    int64_t extent;
    bool column;
  };
  std::vector<Group> all;
};

KernelBuilder::Groups KernelBuilder::GroupLoops(const std::vector<BuildAccess>& accesses) const {
  std::vector<int> order = RowOrder();
  for (int loop : order_) {
    if (loops_[loop].column) order.push_back(loop);
  }
  Groups groups;
  for (int loop : order) {
    const Loop& next = loops_[loop];
    if (next.extent == 1) continue;
    auto even = [&](const BuildAccess& access) {
      return access.address.of(groups.all.back().last) == access.address.of(loop) * next.extent;
    };
    if (!groups.all.empty() && groups.all.back().column == next.column &&
        std::all_of(accesses.begin(), accesses.end(), even)) {
      groups.all.back().last = loop;
      groups.all.back().extent *= next.extent;
    } else {
      groups.all.push_back({loop, next.extent, next.column});
    }
  }
  return groups;
}

namespace {

/// Finds levels, moves row values to the first stage that knows them, and merges what became equal.
void Normalise(Kernel& kernel) {
  std::vector<bool> written(kernel.accesses.size());
  for (const Instr& instr : kernel.instrs) {
    if (instr.kind == Instr::Kind::kStore) written[instr.access] = true;
  }
  std::vector<Instr> instrs;
  std::vector<int> number(kernel.instrs.size());
  for (size_t i = 0; i < kernel.instrs.size(); ++i) {
    Instr instr = kernel.instrs[i];
    bool element = false;
    int known = 0;
    for (int& operand : instr.operands) {
      if (operand < 0) continue;
      operand = number[operand];
      const Instr& from = instrs[operand];
      element |= from.level == Level::kElement;
      known = std::max(known, from.stage + (from.kind == Instr::Kind::kReduce));
    }
    if (instr.access >= 0) {
      element |= kernel.accesses[instr.access].column != Stride::kZero;
    }
    if (instr.kind == Instr::Kind::kReduce) element = false;
    instr.level = element ? Level::kElement : Level::kRow;
    bool after_store = instr.kind == Instr::Kind::kLoad && written[instr.access];
    if (!element && !after_store && instr.kind != Instr::Kind::kReduce) instr.stage = known;
    auto equal = instr.kind == Instr::Kind::kStore ? instrs.end()
                                                   : std::find(instrs.begin(), instrs.end(), instr);
    number[i] = static_cast<int>(equal - instrs.begin());
    if (equal == instrs.end()) instrs.push_back(instr);
  }
  kernel.instrs = std::move(instrs);
  kernel.stages = 1;
  for (const Instr& instr : kernel.instrs) kernel.stages = std::max(kernel.stages, instr.stage + 1);
}

/// Drops instructions and accesses that nothing needs.
void RemoveUnused(Kernel& kernel, std::vector<AccessMap>& maps) {
  std::vector<int> new_number(kernel.instrs.size(), -1);
  std::vector<bool> used(kernel.instrs.size());
  for (size_t i = kernel.instrs.size(); i-- > 0;) {
    const Instr& instr = kernel.instrs[i];
    if (instr.kind == Instr::Kind::kStore) used[i] = true;
    if (!used[i]) continue;
    for (int operand : instr.operands) {
      if (operand >= 0) used[operand] = true;
    }
  }
  std::vector<int> new_access(kernel.accesses.size(), -1);
  Kernel kept;
  std::vector<AccessMap> kept_maps;
  for (size_t i = 0; i < kernel.instrs.size(); ++i) {
    if (!used[i]) continue;
    Instr instr = kernel.instrs[i];
    for (int& operand : instr.operands) {
      if (operand >= 0) operand = new_number[operand];
    }
    if (instr.access >= 0) {
      int& access = new_access[instr.access];
      if (access < 0) {
        access = static_cast<int>(kept.accesses.size());
        kept.accesses.push_back(kernel.accesses[instr.access]);
        kept_maps.push_back(maps[instr.access]);
      }
      instr.access = access;
    }
    new_number[i] = static_cast<int>(kept.instrs.size());
    kept.instrs.push_back(instr);
  }
  kernel.accesses = std::move(kept.accesses);
  kernel.instrs = std::move(kept.instrs);
  maps = std::move(kept_maps);
  // Large graphs have many kernels, each as long as the graph is kept.
  kernel.accesses.shrink_to_fit();
  kernel.instrs.shrink_to_fit();
  maps.shrink_to_fit();
}

}  // namespace

Launch KernelBuilder::Finish(const std::function<bool(NodeId)>& stored) const {
  std::vector<BuildAccess> accesses = accesses_;
  auto kernel = std::make_shared<Kernel>();
  kernel->instrs = instrs_;
  for (BuildAccess& access : accesses) {
    if (access.scratch_of && stored(access.scratch_of)) {
      access.buffer = facts_->BufferOf({access.scratch_of, 0});
      access.kind = Access::Kind::kBuffer;
    }
  }
  for (const Nest& nest : nests_) {
    bool in_buffer = stored(nest.node);
    if (!in_buffer && !nest.kept) continue;
    DType dtype = RealOf(facts_->graph[nest.node].type().dtype());
    Instr store;
    store.kind = Instr::Kind::kStore;
    store.dtype = dtype;
    store.stage = nest.stage;
    store.operands[0] = nest.instr;
    auto known = std::find_if(accesses.begin(), accesses.end(), [&](const BuildAccess& access) {
      return access.scratch_of == nest.node;
    });
    store.access = static_cast<int>(known - accesses.begin());
    if (known == accesses.end()) {
      accesses.push_back(
          {facts_->BufferOf({nest.node, 0}), dtype, nest.address, {}, Access::Kind::kBuffer});
    }
    kernel->instrs.push_back(store);
    if (nest.second < 0) continue;
    Affine beside = nest.address;
    beside.offset += 1;
    store.operands[0] = nest.second;
    store.access = static_cast<int>(accesses.size());
    accesses.push_back(
        {facts_->BufferOf({nest.node, 0}), dtype, beside, {}, Access::Kind::kBuffer});
    kernel->instrs.push_back(store);
  }

  Launch launch;
  Groups groups = GroupLoops(accesses);
  int column = -1;
  int row = -1;
  bool takes_columns =
      reduces_ ? !groups.all.empty() && groups.all.back().column : !groups.all.empty();
  if (takes_columns) {
    column = groups.all.back().last;
    launch.columns = groups.all.back().extent;
    groups.all.pop_back();
  }
  if (!groups.all.empty()) {
    row = groups.all.back().last;
    launch.rows = groups.all.back().extent;
    groups.all.pop_back();
  }
  for (const Groups::Group& group : groups.all) {
    HAMMOCK_CHECK(!group.column, "the reduced dim is not one loop");
    launch.outer.push_back(group.extent);
  }
  int along_columns = 0;
  int along_rows = 0;
  for (const BuildAccess& access : accesses) {
    AccessMap map;
    map.buffer = access.buffer;
    map.offset = access.address.offset;
    map.row = row < 0 ? 0 : access.address.of(row);
    map.column = column < 0 ? 0 : access.address.of(column);
    for (const Groups::Group& group : groups.all)
      map.outer.push_back(access.address.of(group.last));
    // One that is the same for all rows suits both.
    if (access.buffer && map.column == 1 && map.row != 0) ++along_columns;
    if (access.buffer && map.column != 0 && map.column != 1 && map.row == 1) ++along_rows;
    launch.maps.push_back(std::move(map));
  }
  kernel->lanes_along_rows = reduces_ && along_rows > along_columns;
  for (size_t i = 0; i < accesses.size(); ++i) {
    AccessMap& map = launch.maps[i];
    Access access;
    access.dtype = accesses[i].dtype;
    access.kind = accesses[i].kind;
    if (access.kind == Access::Kind::kScratch) {
      std::fill(map.outer.begin(), map.outer.end(), 0);
      map.offset = 0;
      map.row = 0;
      map.column = column < 0 ? 0 : 1;
    }
    access.row = KindOf(map.row);
    access.column = KindOf(map.column);
    Stride& plain = kernel->lanes_along_rows ? access.column : access.row;
    if (plain == Stride::kOne && access.kind != Access::Kind::kScratch) plain = Stride::kAny;
    kernel->accesses.push_back(access);
  }
  Normalise(*kernel);
  RemoveUnused(*kernel, launch.maps);
  kernel->stages = 1;
  for (const Instr& instr : kernel->instrs) {
    kernel->stages =
        std::max(kernel->stages, instr.stage + 1 + (instr.kind == Instr::Kind::kReduce));
  }
  launch.kernel = std::move(kernel);
  return launch;
}

}  // namespace hammock::compiler
