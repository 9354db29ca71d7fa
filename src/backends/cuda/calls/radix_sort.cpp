#include "backends/cuda/calls/radix_sort.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/radix_sort_args.h"

namespace hammock::cuda {
namespace {

constexpr int kThreads = kRadixThreads;
constexpr int kMostBits = kMostDigitBits;
constexpr int64_t kEnoughBlocks = 1056;
constexpr int64_t kStep = 8 * kThreads;          // that a block counts at once
constexpr int64_t kFewItems = 1 << 18;           // for blocks with whole tiles
constexpr int64_t kShortRow = int64_t{1} << 30;  // whose counts leave two bits of a word

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

RadixSorter::RadixSorter(RadixItems items)
    : items_(std::move(items)), each_(items_.key_bytes + items_.load_bytes <= 8 ? 16 : 12) {
  if (items_.rows * items_.extent <= kFewItems) each_ = 4;
  tiles_ = CeilDiv(items_.extent, kThreads * each_);
  passes_ = std::max((items_.key_bits + kMostBits - 1) / kMostBits, 1);
  width_ = (items_.key_bits + passes_ - 1) / passes_;
  int64_t steps = CeilDiv(items_.extent, kStep);
  int64_t wanted = std::clamp<int64_t>(CeilDiv(kEnoughBlocks, items_.rows), 1, steps);
  part_ = CeilDiv(steps, wanted) * kStep;
  parts_ = CeilDiv(items_.extent, part_);
}

std::string RadixSorter::StateType() const {
  return items_.extent < kShortRow ? "unsigned" : "uint64_t";
}

std::vector<KernelSource> RadixSorter::Sources() const {
  auto kernel = [&](const char* name, const std::string& more = "") {
    return SourceOf(
        {.file = items_.file,
         .function = fmt::format("{}<{}, {}{}>", name, items_.type, StateType(), more),
         .argument_bytes = sizeof(RadixArgs<void, void, void>) + items_.argument_bytes});
  };
  std::vector<KernelSource> sources = {kernel("radix_count"), kernel("radix_plan"),
                                       kernel("radix_move", fmt::format(", {}", each_))};
  if (items_.narrows) sources.push_back(kernel("radix_range"));
  return sources;
}

int64_t RadixSorter::StateBytes() const {
  return items_.rows * tiles_ * 256 * (items_.extent < kShortRow ? 4 : 8);
}

int64_t RadixSorter::scratch_bytes() const {
  int64_t count = items_.rows * items_.extent;
  int buffers = std::min(passes_ - 1, 2);
  return buffers * (Aligned(count * items_.key_bytes) + Aligned(count * items_.load_bytes)) +
         Aligned(items_.rows * (passes_ * 257 * 4 + 16)) + 256 + 2 * StateBytes();
}

void RadixSorter::Run(Machine& machine, std::span<const Function* const> functions, Address scratch,
                      const std::vector<uint64_t>& own) const {
  Address next = scratch;
  auto take = [&next](int64_t bytes) {
    Address taken = next;
    next += static_cast<Address>(bytes);
    return taken;
  };
  int64_t count = items_.rows * items_.extent, rows = items_.rows;
  Address keys[2] = {}, loads[2] = {};
  for (int i = 0; i < std::min(passes_ - 1, 2); ++i) {
    keys[i] = take(Aligned(count * items_.key_bytes));
    loads[i] = take(Aligned(count * items_.load_bytes));
  }
  // Memory that begins as 0 is contiguous.
  Address zeros = next;
  Address range = take(rows * 16), tickets = take(256), counts = take(rows * passes_ * 256 * 4);
  Address states = take(StateBytes());
  machine.Clear(zeros, static_cast<int64_t>(next - zeros));
  Address other = take(StateBytes()), plan = take(rows * passes_ * 4);

  RadixArgs<void, void, void> args = {.extent = items_.extent,
                                      .tiles = tiles_,
                                      .parts = parts_,
                                      .part_size = part_,
                                      .keys = {At(keys[0]), At(keys[1])},
                                      .loads = {At(loads[0]), At(loads[1])},
                                      .counts = At(counts),
                                      .plan = At(plan),
                                      .range = At(range),
                                      .tickets = At(tickets),
                                      .states = {At(states), At(other)},
                                      .pass = 0,
                                      .passes = passes_,
                                      .digit_bits = width_};
  auto launch = [&](size_t which, int64_t blocks) {
    std::vector<uint64_t> arguments = WordsOf(args);
    arguments.insert(arguments.end(), own.begin(), own.end());
    machine.Launch(*functions[which], BlockGrid(blocks), arguments);
  };
  if (items_.narrows) launch(3, rows * parts_);
  launch(0, rows * parts_);
  launch(1, rows);
  for (; args.pass < passes_; ++args.pass) launch(2, rows * tiles_);
}

}  // namespace hammock::cuda
