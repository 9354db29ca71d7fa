#include "backends/cuda/emit/launch_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/ceil_div.h"
#include "hammock/compiler/launch_size.h"

namespace hammock::cuda {

using compiler::Access;
using compiler::AccessMap;
using compiler::Instr;
using compiler::Kernel;
using compiler::Launch;
using compiler::Level;
using compiler::LinesOf;
using compiler::NeedsWideIndex;
using compiler::Stride;

namespace {

constexpr int kBlock = 256;
constexpr int64_t kManyThreads = 1 << 16;  // enough to keep a GPU busy
constexpr int kMostVector = 8;
constexpr int kMostKept = 96;    // 32-bit registers that a thread may keep over stages
constexpr int kMostMapped = 40;  // the same for elements of a map
constexpr unsigned kMostGridY = 65535;

int PowerAtLeast(int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
}

int64_t BytesOf(DType dtype) { return InfoOf(dtype).bits / 8; }

/// By access: whether elements are loaded from it or stored into it.
std::vector<bool> ElementAccesses(const Kernel& kernel) {
  std::vector<bool> result(kernel.accesses.size());
  for (const Instr& instr : kernel.instrs) {
    if (instr.access >= 0 && instr.level == Level::kElement) {
      result[instr.access] = true;
    }
  }
  return result;
}

/// Whether a thread has elements of an access in an array.
bool HasElements(const Access& access) {
  return access.kind == Access::Kind::kBuffer || access.kind == Access::Kind::kScratch ||
         access.kind == Access::Kind::kRandom;
}

/// The stride between the elements of a vector.
Stride StrideOf(const Kernel& kernel, const Access& access) {
  return kernel.lanes_along_rows ? access.row : access.column;
}

/// Bytes of the narrowest contiguous elements; 0 where there are none.
int64_t NarrowestBytes(const Kernel& kernel) {
  int64_t narrowest = 0;
  std::vector<bool> used = ElementAccesses(kernel);
  for (size_t i = 0; i < kernel.accesses.size(); ++i) {
    const Access& access = kernel.accesses[i];
    if (!used[i] || access.kind != Access::Kind::kBuffer) continue;
    if (StrideOf(kernel, access) != Stride::kOne) continue;
    int64_t bytes = BytesOf(access.dtype);
    narrowest = narrowest == 0 ? bytes : std::min(narrowest, bytes);
  }
  return narrowest;
}

/// The longest vector that pays: 16 bytes of the narrowest elements.
int LongestVector(const Kernel& kernel) {
  int64_t narrowest = NarrowestBytes(kernel);
  return narrowest == 0 ? 1 : static_cast<int>(std::min<int64_t>(16 / narrowest, kMostVector));
}

/// Whether vectors of an access are aligned for wide loads.
bool IsAligned(const Launch& launch, size_t i, int vector) {
  const Access& access = launch.kernel->accesses[i];
  const bool across = launch.kernel->lanes_along_rows;
  if (access.kind == Access::Kind::kScratch) {
    return (across ? LinesOf(launch) : launch.columns) % vector == 0;
  }
  const bool random = access.kind == Access::Kind::kRandom;
  if (access.kind != Access::Kind::kBuffer && !random) return false;
  if (StrideOf(*launch.kernel, access) != Stride::kOne) return false;
  if (random && vector < 4) return false;  // arguments come in blocks of four
  int64_t elements = std::min<int64_t>(16 / BytesOf(access.dtype), vector);
  auto even = [&](int64_t offset) { return offset % elements == 0; };
  const AccessMap& map = launch.maps[i];
  return even(map.offset) && even(across ? map.column : map.row) &&
         std::all_of(map.outer.begin(), map.outer.end(), even);
}

/// 32-bit registers for one element, with all values that stages share.
int KeptRegisters(const Kernel& kernel) {
  int registers = 0;
  std::vector<bool> used = ElementAccesses(kernel);
  for (size_t i = 0; i < kernel.accesses.size(); ++i) {
    if (used[i] && HasElements(kernel.accesses[i])) {
      registers += BytesOf(kernel.accesses[i].dtype) > 4 ? 2 : 1;
    }
  }
  return std::max(registers, 1);
}

/// 32-bit registers for one element of each load that is the same for all lines; 0 where there are
/// none, or where lines have more than elements.
int SharedRegisters(const Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  if (!launch.outer.empty()) return 0;
  for (const Instr& instr : kernel.instrs) {
    const bool constant = instr.kind == Instr::Kind::kConstant;
    if (instr.kind == Instr::Kind::kIndex || (instr.level == Level::kRow && !constant)) return 0;
    const bool stores = instr.kind == Instr::Kind::kStore;
    if (stores && kernel.accesses[instr.access].row == Stride::kZero) return 0;
  }
  std::vector<bool> used = ElementAccesses(kernel);
  int registers = 0;
  for (size_t i = 0; i < kernel.accesses.size(); ++i) {
    const Access& access = kernel.accesses[i];
    if (!used[i]) continue;
    if (access.kind != Access::Kind::kBuffer || access.column != Stride::kOne) return 0;
    if (access.row == Stride::kZero) registers += BytesOf(access.dtype) > 4 ? 2 : 1;
  }
  return registers;
}

/// Lines that share values along their columns, as channels of images do: a thread has several
/// lines, and keeps what they share in registers.
void ShareColumns(const Launch& launch, LaunchConfig& config) {
  constexpr int kLines = 2;            // at a time
  constexpr int kMostShared = 80;      // 32-bit registers
  constexpr int64_t kFewBlocks = 512;  // enough to keep a GPU busy
  constexpr int64_t kMostIterations = 8;
  const int shared = SharedRegisters(launch);
  const int64_t lines = LinesOf(launch);
  if (shared == 0 || lines < 2 * config.lines * kLines) return;
  if (launch.columns % (int64_t{config.threads} * config.vector) != 0) return;
  if (shared * config.vector > kMostShared) return;
  const int64_t blocks = launch.columns / (int64_t{config.threads} * config.vector) *
                         CeilDiv(lines, int64_t{config.lines} * kLines);
  if (blocks < 2 * kFewBlocks) return;
  config.line_slots = true;
  config.slots = kLines;
  config.line_iterations = static_cast<int>(std::min(blocks / kFewBlocks, kMostIterations));
}

void ConfigureMap(const Launch& launch, LaunchConfig& config) {
  int64_t lines = LinesOf(launch);
  config.vector = LongestVector(*launch.kernel);
  // Many wide elements of a thread would leave registers for few threads.
  auto is_crowded = [&] { return KeptRegisters(*launch.kernel) * config.vector > kMostMapped; };
  while (config.vector > 1 &&
         (lines * launch.columns / config.vector < kManyThreads || launch.columns < config.vector ||
          (config.vector > 4 && is_crowded()))) {
    config.vector /= 2;
  }
  int64_t vectors = CeilDiv(launch.columns, config.vector);
  config.threads = std::min(PowerAtLeast(vectors), kBlock);
  config.lines = lines == 1 ? 1 : std::min(kBlock / config.threads, PowerAtLeast(lines));
  // Two vectors of wider elements are no faster than one.
  bool many = lines * vectors >= 8 * kManyThreads && vectors >= 2 * kBlock && config.vector == 8;
  config.slots = many && KeptRegisters(*launch.kernel) * config.vector <= 16 ? 2 : 1;
}

/// By access: whether it is a load that is contiguous along the rows and strided along the columns.
std::vector<bool> TransposedAccesses(const Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  std::vector<bool> transposed = ElementAccesses(kernel);
  for (size_t i = 0; i < transposed.size(); ++i) {
    const AccessMap& map = launch.maps[i];
    transposed[i] = transposed[i] && kernel.accesses[i].kind == Access::Kind::kBuffer &&
                    map.row == 1 && map.column > 1;
  }
  for (const Instr& instr : kernel.instrs) {
    if (instr.kind == Instr::Kind::kStore) transposed[instr.access] = false;
  }
  return transposed;
}

bool ConfigureTile(const Launch& launch, LaunchConfig& config) {
  constexpr int kMostTransposed = 4;  // as many as fit into shared memory
  std::vector<bool> transposed = TransposedAccesses(launch);
  auto count = std::count(transposed.begin(), transposed.end(), true);
  if (count == 0 || count > kMostTransposed) return false;
  if (launch.rows < kTileSide / 2 || launch.columns < kTileSide / 2) return false;
  config.way = LaunchConfig::Way::kTile;
  config.is_transposed = std::move(transposed);
  config.threads = kTileSide;
  config.lines = kBlock / kTileSide;
  return true;
}

void ConfigureRow(const Launch& launch, LaunchConfig& config) {
  const int64_t n = launch.columns;
  const int64_t lines = LinesOf(launch);
  const int accumulators = config.accumulators;
  int vector = std::min(LongestVector(*launch.kernel), std::min(accumulators, kMostVector));
  while (vector > 1 && n % vector != 0) vector /= 2;
  int span = PowerAtLeast(n);
  int threads = n <= 512 ? std::clamp(span / 8, 1, 32) : std::clamp(span / 16, 64, 1024);
  if (lines * threads < kManyThreads / 2) threads = std::min(span / 2, 1024);
  threads = std::clamp(threads, 1, accumulators / vector);
  auto kept = [&] { return span / threads * KeptRegisters(*launch.kernel); };
  while (kept() > kMostKept && threads < accumulators / vector) threads *= 2;
  config.whole = kept() <= kMostKept;
  if (!config.whole) threads = std::min(accumulators / vector, 1024);
  config.vector = vector;
  config.threads = threads;
  config.lines = std::clamp(kBlock / threads, 1, PowerAtLeast(lines));
  config.slots = config.whole
                     ? std::max(span / (threads * vector), accumulators / (threads * vector))
                     : accumulators / (threads * vector);
}

/// 32-bit registers for one element and its accumulators while it is reduced.
double RegistersAcross(const Kernel& kernel) {
  double registers = 0;
  std::vector<bool> used = ElementAccesses(kernel);
  for (size_t i = 0; i < kernel.accesses.size(); ++i) {
    if (used[i] && HasElements(kernel.accesses[i])) {
      registers += static_cast<double>(BytesOf(kernel.accesses[i].dtype)) / 4;
    }
  }
  for (const Instr& instr : kernel.instrs) {
    if (instr.kind == Instr::Kind::kReduce) registers += BytesOf(instr.dtype) > 4 ? 2 : 1;
  }
  return registers;
}

/// Whether all elements belong to one stage, rows are written after it, and nothing that is written
/// is read.
bool CanSplit(const Kernel& kernel) {
  int stage = -1;
  for (const Instr& instr : kernel.instrs) {
    if (instr.level != Level::kElement && instr.kind != Instr::Kind::kReduce) continue;
    if (stage >= 0 && instr.stage != stage) return false;
    stage = instr.stage;
  }
  std::vector<bool> written(kernel.accesses.size());
  for (const Instr& instr : kernel.instrs) {
    if (instr.kind != Instr::Kind::kStore) continue;
    if (instr.level == Level::kRow && instr.stage <= stage) return false;
    written[instr.access] = true;
  }
  return std::none_of(kernel.instrs.begin(), kernel.instrs.end(), [&](const Instr& instr) {
    return instr.kind == Instr::Kind::kLoad && written[instr.access];
  });
}

bool ReducesInF64(const Kernel& kernel) {
  return std::any_of(kernel.instrs.begin(), kernel.instrs.end(), [](const Instr& instr) {
    return instr.kind == Instr::Kind::kReduce && BytesOf(instr.dtype) > 4;
  });
}

void ConfigureColumn(const Launch& launch, LaunchConfig& config) {
  constexpr int kLongPart = 128, kShortPart = 32;  // bytes of a row that a block reads
  const double kMostRegisters = ReducesInF64(*launch.kernel) ? 80 : 48;
  constexpr int64_t kManyBlocks = 256;
  const Kernel& kernel = *launch.kernel;
  const int64_t lines = LinesOf(launch);
  config.vector = LongestVector(kernel);
  while (launch.rows % config.vector != 0) config.vector /= 2;
  config.slots = std::min(config.accumulators, 8);
  // With shorter vectors there is room for more slots, and threads exchange fewer accumulators.
  auto too_many = [&] {
    return RegistersAcross(kernel) * config.vector * config.slots > kMostRegisters;
  };
  while (ReducesInF64(kernel) && config.vector > 1 && config.vector * NarrowestBytes(kernel) > 4 &&
         too_many()) {
    config.vector /= 2;
  }
  const double registers = RegistersAcross(kernel) * config.vector;
  while (config.slots > 1 && registers * config.slots > kMostRegisters) config.slots /= 2;
  config.threads = config.accumulators / config.slots;

  const int bytes = static_cast<int>(std::max<int64_t>(NarrowestBytes(kernel), 1)) * config.vector;
  config.lines = std::clamp(kLongPart / bytes, 1, PowerAtLeast(lines / config.vector));
  auto blocks = [&] {
    return CeilDiv(lines, int64_t{config.lines} * config.vector) * config.passes;
  };
  config.split = CanSplit(kernel) && blocks() <= kMostSplitBlocks;
  while (!config.split && config.lines * bytes > kShortPart && blocks() < kManyBlocks / 2)
    config.lines /= 2;
  // No pass has a part of the lowest three bits.
  auto can_share = [&] { return config.threads * config.slots > std::min(config.accumulators, 8); };
  auto share = [&](int& among) {
    among /= 2;
    config.passes *= 2;
  };
  // If threads have many loads in flight, fewer of them are needed.
  const int most = config.split && config.slots >= 4 ? kBlock : 2 * kBlock;
  while (config.threads * config.lines > most) {
    if (can_share()) {
      share(config.threads);
    } else {
      config.lines /= 2;
    }
  }
  auto wants_blocks = [&] { return config.split && can_share() && blocks() < kManyBlocks; };
  if (wants_blocks() && config.threads * config.lines > kBlock) share(config.threads);
  while (wants_blocks() && config.slots > 2 && config.passes > 1) share(config.slots);
  config.split = config.split && config.passes > 1;
  while (config.threads * config.lines < kBlock && config.lines < lines / config.vector)
    config.lines *= 2;
}

/// Whether iterations end with the line.
bool IsEven(const Launch& launch, const LaunchConfig& config) {
  if (config.way == LaunchConfig::Way::kTile) return false;
  int64_t width = config.way == LaunchConfig::Way::kColumn
                      ? int64_t{config.accumulators}
                      : int64_t{config.threads} * config.column_slots() * config.vector;
  return launch.columns > 0 && launch.columns % width == 0;
}

}  // namespace

int64_t AccumulatorsOf(int64_t extent) {
  return std::min<int64_t>(PowerAtLeast(extent), kMostAccumulators);
}

namespace {

LaunchConfig Configure(const Launch& launch, bool joint) {
  const Kernel& kernel = *launch.kernel;
  LaunchConfig config;
  config.outer_dims = static_cast<int>(launch.outer.size());
  config.wide_index = NeedsWideIndex(launch);
  if (kernel.stages == 1 && !kernel.HasReduction()) {
    if (!ConfigureTile(launch, config)) {
      ConfigureMap(launch, config);
      if (!joint) ShareColumns(launch, config);
    }
  } else {
    config.accumulators = static_cast<int>(AccumulatorsOf(launch.columns));
    config.way = kernel.lanes_along_rows ? LaunchConfig::Way::kColumn : LaunchConfig::Way::kRow;
    if (kernel.lanes_along_rows) {
      ConfigureColumn(launch, config);
    } else {
      ConfigureRow(launch, config);
    }
  }
  config.even = IsEven(launch, config);
  for (size_t i = 0; i < kernel.accesses.size(); ++i) {
    config.is_wide.push_back(config.vector > 1 && IsAligned(launch, i, config.vector));
  }
  return config;
}

}  // namespace

LaunchConfig ConfigureLaunch(const Launch& launch) { return Configure(launch, /*joint=*/false); }

LaunchConfig ConfigureJointLaunch(const Launch& launch, int block_threads) {
  LaunchConfig config = Configure(launch, /*joint=*/true);
  if (config.way == LaunchConfig::Way::kMap && LinesOf(launch) == 1) {
    config.vector = LongestVector(*launch.kernel);
    config.threads = block_threads;
    config.slots = 1;
    for (size_t i = 0; i < config.is_wide.size(); ++i) {
      config.is_wide[i] = config.vector > 1 && IsAligned(launch, i, config.vector);
    }
  }
  config.lines = block_threads / config.threads;
  config.even = false;
  return config;
}

Grid GridOf(const Launch& launch, const LaunchConfig& config) {
  int64_t lines = LinesOf(launch);
  Grid grid;
  switch (config.way) {
    case LaunchConfig::Way::kMap:
      grid.x = static_cast<unsigned>(
          CeilDiv(launch.columns, int64_t{config.threads} * config.column_slots() * config.vector));
      grid.y = static_cast<unsigned>(std::min<int64_t>(
          CeilDiv(lines, int64_t{config.lines} * config.lines_of_thread()), kMostGridY));
      break;
    case LaunchConfig::Way::kTile:
      grid.x = static_cast<unsigned>(CeilDiv(launch.columns, kTileSide));
      grid.y = static_cast<unsigned>(std::min<int64_t>(
          CeilDiv(launch.rows, kTileSide) * (lines / std::max<int64_t>(launch.rows, 1)),
          kMostGridY));
      break;
    case LaunchConfig::Way::kRow:
      grid.x = static_cast<unsigned>(CeilDiv(lines, config.lines));
      break;
    case LaunchConfig::Way::kColumn:
      grid.x = static_cast<unsigned>(CeilDiv(lines, int64_t{config.lines} * config.vector));
      grid.y = static_cast<unsigned>(config.split ? config.passes : 1);
      break;
  }
  bool across = config.way == LaunchConfig::Way::kColumn;
  grid.block_x = static_cast<unsigned>(across ? config.lines : config.threads);
  grid.block_y = static_cast<unsigned>(across ? config.threads : config.lines);
  return grid;
}

int64_t ScratchBytes(const Launch& launch, const LaunchConfig& config) {
  int64_t bytes = 0;
  for (const Access& access : launch.kernel->accesses) {
    if (config.whole || access.kind != Access::Kind::kScratch) continue;
    bytes += (LinesOf(launch) * launch.columns * BytesOf(access.dtype) + 255) / 256 * 256;
  }
  if (!config.split) return bytes;
  auto reductions =
      std::count_if(launch.kernel->instrs.begin(), launch.kernel->instrs.end(),
                    [](const Instr& instr) { return instr.kind == Instr::Kind::kReduce; });
  return bytes + reductions * config.passes * LinesOf(launch) * 8;
}

std::vector<uint64_t> KernelArguments(const Launch& launch, const LaunchConfig& config,
                                      const compiler::BufferMap<uint64_t>& buffers,
                                      uint64_t scratch, uint64_t counters) {
  const Kernel& kernel = *launch.kernel;
  int accesses = static_cast<int>(kernel.accesses.size());
  ArgumentIndices indices{.outer_dims = config.outer_dims};
  std::vector<uint64_t> arguments(indices.Count(accesses, config.split));
  auto set = [&](int index, int64_t value) { arguments[index] = static_cast<uint64_t>(value); };
  auto address = [&](compiler::BufferId buffer) {
    return buffers.empty() ? uint64_t{0} : buffers[buffer];
  };
  int64_t lines = LinesOf(launch);
  set(indices.columns, launch.columns);
  set(indices.rows, launch.rows);
  set(indices.lines, lines);
  for (int d = 0; d < config.outer_dims; ++d) {
    set(indices.Extent(d), launch.outer[d]);
  }
  for (int i = 0; i < accesses; ++i) {
    const Access& access = kernel.accesses[i];
    const AccessMap& map = launch.maps[i];
    uint64_t offset = static_cast<uint64_t>(map.offset);
    uint64_t bytes = static_cast<uint64_t>(BytesOf(access.dtype));
    const bool random = access.kind == Access::Kind::kRandom;
    arguments[indices.Access(i)] = random ? address(map.buffer)
                                   : access.kind == Access::Kind::kBuffer
                                       ? address(map.buffer) + offset * bytes
                                   : access.kind == Access::Kind::kScratch ? scratch
                                                                           : offset;
    if (access.kind == Access::Kind::kScratch) {
      scratch += (static_cast<uint64_t>(lines * launch.columns) * bytes + 255) / 256 * 256;
    }
    set(indices.Row(i), map.row);
    set(indices.Column(i), random ? map.offset : map.column);
    for (int d = 0; d < config.outer_dims; ++d) {
      set(indices.Outer(i, d), map.outer[d]);
    }
  }
  if (config.split) {
    arguments[indices.Parts(accesses)] = scratch;
    arguments[indices.Counters(accesses)] = counters;
  }
  return arguments;
}

std::string ToText(const LaunchConfig& config) {
  const char* ways[] = {"map", "row", "column", "tile"};
  std::string wide;
  for (size_t i = 0; i < config.is_wide.size(); ++i) {
    bool transposed = !config.is_transposed.empty() && config.is_transposed[i];
    wide += transposed ? 't' : config.is_wide[i] ? 'w' : '-';
  }
  return fmt::format(
      "{} outer {} {} vector {} threads {} lines {} {}slots {}{}{}{} accumulators {} {}\n",
      ways[static_cast<int>(config.way)], config.outer_dims, config.wide_index ? "i64" : "i32",
      config.vector, config.threads, config.lines, config.line_slots ? "line " : "", config.slots,
      config.passes > 1 ? fmt::format(" {} {}", config.split ? "split" : "passes", config.passes)
                        : "",
      config.whole ? " whole" : "", config.even ? " even" : "", config.accumulators, wide);
}

}  // namespace hammock::cuda
