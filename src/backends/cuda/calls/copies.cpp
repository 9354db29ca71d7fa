#include "backends/cuda/calls/copies.h"

namespace hammock::cuda {

using compiler::Access;
using compiler::AccessMap;
using compiler::BufferId;
using compiler::Instr;
using compiler::Kernel;
using compiler::Launch;
using compiler::Level;
using compiler::Stride;

namespace {

struct Loop {
  int64_t extent;
  int64_t from;
  int64_t to;
};

/// Dims as loops, without dims of one element; dims with a common stride are merged.
std::vector<Loop> LoopsOf(const Dims& sizes, const Layout& from, const Layout& to) {
  std::vector<Loop> loops;
  for (int d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    Loop loop = {sizes[d], from.strides[d], to.strides[d]};
    if (!loops.empty() && loops.back().from == loop.from * loop.extent &&
        loops.back().to == loop.to * loop.extent) {
      loop.extent *= loops.back().extent;
      loops.back() = loop;
    } else {
      loops.push_back(loop);
    }
  }
  return loops;
}

Stride KindOf(int64_t stride) {
  return stride == 0 ? Stride::kZero : stride == 1 ? Stride::kOne : Stride::kAny;
}

void AddAccess(Launch& launch, Kernel& kernel, DType dtype, const AccessMap& map) {
  Access access;
  access.dtype = dtype;
  access.row = map.row == 0 ? Stride::kZero : Stride::kAny;
  access.column = KindOf(map.column);
  kernel.accesses.push_back(access);
  launch.maps.push_back(map);
}

}  // namespace

Layout ContiguousLayout(const Dims& sizes) { return {0, ContiguousStrides(sizes)}; }

Launch CopyLaunch(DType dtype, const Dims& sizes, const Layout& from, const Layout& to) {
  return CastLaunch(dtype, dtype, sizes, from, to);
}

Launch CastLaunch(DType from_dtype, DType to_dtype, const Dims& sizes, const Layout& from,
                  const Layout& to) {
  std::vector<Loop> loops = LoopsOf(sizes, from, to);
  Launch launch;
  AccessMap load{.buffer = BufferId(0), .offset = from.offset, .outer = {}, .row = 0, .column = 0};
  AccessMap store{.buffer = BufferId(1), .offset = to.offset, .outer = {}, .row = 0, .column = 0};
  if (!loops.empty()) {
    launch.columns = loops.back().extent;
    load.column = loops.back().from;
    store.column = loops.back().to;
    loops.pop_back();
  }
  if (!loops.empty()) {
    launch.rows = loops.back().extent;
    load.row = loops.back().from;
    store.row = loops.back().to;
    loops.pop_back();
  }
  for (const Loop& loop : loops) {
    launch.outer.push_back(loop.extent);
    load.outer.push_back(loop.from);
    store.outer.push_back(loop.to);
  }
  auto kernel = std::make_shared<Kernel>();
  AddAccess(launch, *kernel, from_dtype, load);
  AddAccess(launch, *kernel, to_dtype, store);
  auto level = [](int64_t column) { return column == 0 ? Level::kRow : Level::kElement; };
  Instr first;
  first.kind = Instr::Kind::kLoad;
  first.dtype = from_dtype;
  first.level = level(load.column);
  first.access = 0;
  kernel->instrs.push_back(first);
  if (from_dtype != to_dtype) {
    Instr cast;
    cast.kind = Instr::Kind::kCast;
    cast.dtype = to_dtype;
    cast.level = first.level;
    cast.operands[0] = 0;
    kernel->instrs.push_back(cast);
  }
  Instr last;
  last.kind = Instr::Kind::kStore;
  last.dtype = to_dtype;
  last.level = level(store.column);
  last.operands[0] = static_cast<int>(kernel->instrs.size()) - 1;
  last.access = 1;
  kernel->instrs.push_back(last);
  launch.kernel = std::move(kernel);
  return launch;
}

PreparedLaunch::PreparedLaunch(Launch launch)
    : launch_(std::move(launch)),
      config_(ConfigureLaunch(launch_)),
      grid_(GridOf(launch_, config_)) {}

KernelSource PreparedLaunch::Source() const { return EmitCuda(*launch_.kernel, config_); }

void PreparedLaunch::Run(Machine& machine, const Function& function, Address from,
                         Address to) const {
  if (grid_.empty()) return;
  machine.Launch(function, grid_, KernelArguments(launch_, config_, {from, to}, 0, 0));
}

}  // namespace hammock::cuda
