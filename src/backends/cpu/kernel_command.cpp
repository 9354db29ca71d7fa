#include "backends/cpu/kernel_command.h"

#include <algorithm>

#include "base/ceil_div.h"

namespace hammock::cpu {

using compiler::Access;
using compiler::AccessMap;
using compiler::Kernel;
using compiler::Launch;

namespace {

// Element instructions that one tile should have: some microseconds, but not so many that threads
// would be left without one.
constexpr int64_t kLeastTileWork = 1 << 15;
constexpr int64_t kMostTileWork = 1 << 18;
constexpr int64_t kTiles = 64;
constexpr int64_t kColumnGrain = 256;

/// Makes non-temporal stores visible to other threads.
void Fence() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

}  // namespace

KernelCommand::KernelCommand(const Launch& launch, std::shared_ptr<KernelCode> code)
    : launch_(launch), code_(std::move(code)), numbers_(4 * launch.maps.size()) {
  const Kernel& kernel = *launch_.kernel;
  const size_t count = launch_.maps.size();
  for (size_t i = 0; i < count; ++i) {
    const Access& access = kernel.accesses[i];
    bool is_number = access.kind == Access::Kind::kIndex || access.kind == Access::Kind::kConstant;
    bool is_scratch = access.kind == Access::Kind::kScratch;
    numbers_[i] = launch_.maps[i].row;
    numbers_[count + i] = launch_.maps[i].column;
    numbers_[2 * count + i] = is_number ? 1 : InfoOf(access.dtype).bits / 8;
    numbers_[3 * count + i] = is_scratch ? worker_scratch_ : -1;
    streams_ |= access.streams;
    if (is_scratch) {
      int64_t elements = launch_.columns * (kernel.lanes_along_rows ? kMaxRowLanes : 1);
      worker_scratch_ += (elements * InfoOf(access.dtype).bits / 8 + 127) / 64 * 64;
    }
  }
  DivideIntoTiles();
}

int64_t KernelCommand::bytes() const {
  return static_cast<int64_t>(sizeof *this + numbers_.size() * sizeof(int64_t));
}

void KernelCommand::DivideIntoTiles() {
  const Kernel& kernel = *launch_.kernel;
  const int64_t rows = launch_.rows, columns = launch_.columns;
  for (int64_t extent : launch_.outer) outer_count_ *= extent;
  int64_t per_element = std::max<int64_t>(static_cast<int64_t>(kernel.instrs.size()), 1);
  int64_t total = outer_count_ * rows * columns * per_element;
  int64_t tile_work = std::clamp(total / kTiles, kLeastTileWork, kMostTileWork);
  bool whole_rows = kernel.stages > 1;
  column_tile_ = columns;
  if (!whole_rows && columns * per_element > tile_work) {
    int64_t wanted = std::max(tile_work / per_element, kColumnGrain);
    column_tile_ = CeilDiv(wanted, kColumnGrain) * kColumnGrain;
  }
  int64_t row_work = std::max<int64_t>(std::min(column_tile_, columns) * per_element, 1);
  row_tile_ = std::clamp<int64_t>(tile_work / row_work, 1, std::max<int64_t>(rows, 1));
  if (kernel.lanes_along_rows) {
    row_tile_ =
        std::min(CeilDiv(row_tile_, kMaxRowLanes) * kMaxRowLanes, std::max<int64_t>(rows, 1));
  }
  row_tiles_ = rows == 0 ? 0 : CeilDiv(rows, row_tile_);
  column_tiles_ = columns == 0 ? (whole_rows ? 1 : 0) : CeilDiv(columns, column_tile_);
  tile_work_ = row_tile_ * row_work;
}

void KernelCommand::Run(compiler::BufferSpan<char*> buffers, char* scratch, int64_t begin,
                        int64_t end, int worker) const {
  const size_t accesses = launch_.maps.size();
  constexpr size_t kInline = 32;
  char* inline_pointers[kInline];
  std::vector<char*> more;
  char** pointers = inline_pointers;
  if (accesses > kInline) {
    more.resize(accesses);
    pointers = more.data();
  }
  KernelArgs args;
  args.pointers = pointers;
  args.row_strides = row_strides();
  args.column_strides = column_strides();
  args.lane_functions = LaneFunctionTable();
  for (int64_t tile = begin; tile < end; ++tile) {
    int64_t column = tile % column_tiles_ * column_tile_;
    int64_t rest = tile / column_tiles_;
    int64_t row = rest % row_tiles_ * row_tile_;
    rest /= row_tiles_;
    args.rows = std::min(row_tile_, launch_.rows - row);
    args.columns = std::min(column_tile_, launch_.columns - column);
    for (size_t i = 0; i < accesses; ++i) {
      const AccessMap& map = launch_.maps[i];
      if (scratch_at()[i] >= 0) {
        pointers[i] = scratch + worker * worker_scratch_ + scratch_at()[i];
        continue;
      }
      int64_t element = map.offset + row * map.row + column * map.column;
      int64_t outer = rest;
      for (size_t d = launch_.outer.size(); d-- > 0;) {
        element += outer % launch_.outer[d] * map.outer[d];
        outer /= launch_.outer[d];
      }
      pointers[i] = map.buffer ? buffers[map.buffer] + element * element_bytes()[i]
                               : reinterpret_cast<char*>(element);
    }
    code_->Run(args);
  }
  if (streams_) Fence();
}

}  // namespace hammock::cpu
