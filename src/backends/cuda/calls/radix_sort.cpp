#include "backends/cuda/calls/radix_sort.h"

#include <fmt/format.h>

#include <algorithm>

namespace hammock::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBits = 8;  // of a digit: a thread for each value
constexpr int64_t kEnoughBlocks = 1056;
constexpr int kResident = 4;             // blocks that move tiles, by registers and shared memory
constexpr int64_t kStep = 8 * kThreads;  // that a block counts at once
constexpr int64_t kFewItems = 1 << 18;   // for blocks with whole tiles
constexpr int64_t kShortRow = int64_t{1} << 30;  // whose counts leave two bits of a word

/// Arguments: blocks; items of a row, tiles of a row; keys and loads of two buffers; counts, plan
/// and range of each row; states of two passes; tickets of all passes, and 8 words on whether any
/// row needs them; pass, passes, bits of a digit. Where the blocks count: parts of a row and items
/// of a part instead of states.
constexpr const char* kNames = R"(
  const int t = threadIdx.x;
  const long long extent = (long long)w1;
  const int passes = (int)w14, width = (int)w15;
  const unsigned most = (1u << width) - 1;
)";

/// The range of a row's keys: the complement of the smallest one, and the largest one. Both were 0.
constexpr const char* kRange = R"(
  unsigned long long lowest = 0, highest = 0;
  for (long long at = begin + t; at < end; at += 256) {
    Key key;
    @READ_KEY
    const unsigned long long x = order_key(key);
    if (~x > lowest) lowest = ~x;
    if (x > highest) highest = x;
  }
  __shared__ unsigned long long lows[8], highs[8];
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const unsigned long long low = shuffle_xor(lowest, lanes), high = shuffle_xor(highest, lanes);
    if (low > lowest) lowest = low;
    if (high > highest) highest = high;
  }
  if (t % 32 == 0) {
    lows[t / 32] = lowest;
    highs[t / 32] = highest;
  }
  __syncthreads();
  if (t < 8) {
    atomicMax((unsigned long long*)w9 + 2 * row, lows[t]);
    atomicMax((unsigned long long*)w9 + 2 * row + 1, highs[t]);
  }
)";

constexpr const char* kPart = R"(
  const long long row = block / (long long)w10, begin = block % (long long)w10 * (long long)w11;
  const long long end = begin + (long long)w11 < extent ? begin + (long long)w11 : extent;
)";

/// Passes that a range needs, at least one.
constexpr const char* kNeeded = R"(
__device__ inline int passes_needed(const unsigned long long* range, int passes, int width) {
  const unsigned long long size = range[1] - ~range[0];
  int needed = 1;
  while (needed < passes && size >> needed * width != 0) ++needed;
  return needed;
}
)";

constexpr const char* kCount = R"(
  __shared__ unsigned found[8 * 256];
  for (int pass = 0; pass < passes; ++pass) found[pass * 256 + t] = 0;
  __syncthreads();
  for (long long first = begin + t; first < end; first += 8 * 256) {
    Digits digits[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const long long at = first + k * 256;
      Key key = 0;
      if (at < end) {
        @READ_KEY
      }
      digits[k] = order_key(key) - low;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const long long at = first + k * 256;
      if (at >= end) continue;
      @CHECK
      for (int pass = 0; pass < needed; ++pass) {
        atomicAdd(&found[pass * 256 + (unsigned)(digits[k] >> pass * width & most)], 1u);
      }
    }
  }
  __syncthreads();
  for (int pass = 0; pass < needed; ++pass) {
    const unsigned mine = found[pass * 256 + t];
    if (mine != 0) atomicAdd((unsigned*)w7 + (row * passes + pass) * 256 + t, mine);
  }
)";

/// A block for each row: counts become where each value begins, and it is planned which passes run:
/// 1, 2 if it is the last one, and 4 for each that ran before.
constexpr const char* kPlan = R"(
  __shared__ unsigned sums[8];
  __shared__ int last;
  unsigned* plan = (unsigned*)w8 + block * passes;
  if (t == 0) last = 0;
  for (int pass = 0; pass < passes; ++pass) {
    if (t == 0) plan[pass] = pass < needed;
    unsigned* counts = (unsigned*)w7 + (block * passes + pass) * 256;
    const unsigned mine = counts[t];
    counts[t] = sum_to_here(mine, sums, t) - mine;
    if (mine == (unsigned)extent) plan[pass] = 0;
    __syncthreads();
    if (t == 0 && plan[pass]) last = pass;
  }
  if (t != 0) return;
  plan[last] = 1;
  unsigned before = 0;
  for (int pass = 0; pass < passes; ++pass) {
    if (!plan[pass]) continue;
    plan[pass] = 1 + (pass == last ? 2 : 0) + 4 * before++;
    atomicMax((unsigned*)w12 + 8 + pass, 1u);
  }
)";

constexpr const char* kSameDigit = R"(
// The lanes of the warp that have the same digit.
__device__ inline unsigned same_digit(unsigned digit) {
#if HAMMOCK_PTX
  unsigned same = 0xffffffffu;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    unsigned votes;
    asm volatile(
        "{ .reg .pred set;\n"
        "and.b32 %0, %1, %2; setp.ne.u32 set, %0, 0; vote.sync.ballot.b32 %0, set, 0xffffffff;\n"
        "@!set not.b32 %0, %0; }"
        : "=r"(votes)
        : "r"(digit), "r"(1u << bit));
    same &= votes;
  }
  return same;
#else
  return __match_any_sync(0xffffffffu, digit);
#endif
}
// The number of items of earlier tiles with the digit of these states: each tile posts first its own
// count, and then the count up to its end.
__device__ inline State look_back(const volatile State* states, long long part) {
  const int known = sizeof(State) * 8 - 2;
  State before = 0;
  while (true) {
    State seen[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) seen[k] = part > k ? states[(part - 1 - k) * 256] : (State)2 << known;
    bool waits = false;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (waits) continue;
      waits = seen[k] >> known == 0;
      if (waits) continue;
      before += seen[k] & (((State)1 << known) - 1);
      if (seen[k] >> known == 2) return before;
      --part;
    }
  }
}
)";

constexpr const char* kMove = R"(
  __shared__ unsigned found[8 * 256 + 1];  // the last one is for absent items
  __shared__ unsigned places[256];
  __shared__ unsigned sums[8];
  __shared__ unsigned ticket;
  __shared__ Key tile_keys[256 * kEach];
  __shared__ Load tile_loads[256 * kEach];
  const int lane = t % 32, warp = t / 32, pass = (int)w13, known = sizeof(State) * 8 - 2;
  const long long tiles = (long long)w2;
  if (((const unsigned*)w12)[8 + pass] == 0) return;
  if (t == 0) ticket = atomicAdd((unsigned*)w12 + pass, 1u);
  for (int k = 0; k < 8; ++k) found[k * 256 + t] = 0;
  __syncthreads();
  const long long row = ticket / tiles, part = ticket % tiles;
  const unsigned plan = ((const unsigned*)w8)[row * passes + pass];
  if (!plan) return;
  const unsigned before = plan / 4;
  @LOW  const int shift = pass * width;
  const long long tile = part * (256 * kEach);
  const int count = extent - tile < 256 * kEach ? (int)(extent - tile) : 256 * kEach;
  const int mine = warp * (32 * kEach) + lane;
  const Key* keys_from = (const Key*)(before % 2 ? w3 : w5) + row * extent;
  const Load* loads_from = (const Load*)(before % 2 ? w4 : w6) + row * extent;

  Key keys[kEach];
  unsigned spots[kEach];
  if (before == 0) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const long long at = tile + mine + k * 32;
      Key key = 0;
      if (at < extent) {
        @READ_KEY
      }
      keys[k] = key;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      keys[k] = mine + k * 32 < count ? keys_from[tile + mine + k * 32] : (Key)0;
    }
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const unsigned outside = mine + k * 32 < count ? 0u : ~0u;
    spots[k] = ((unsigned)((order_key(keys[k]) - low) >> shift) | outside) & most;
    atomicAdd(&found[outside ? 8 * 256 : warp * 256 + (int)spots[k]], 1u);
  }
  __syncthreads();

  // From here on a thread also has a value of the digit.
  unsigned all = 0;
  for (int k = 0; k < 8; ++k) all += found[k * 256 + t];
  volatile State* states = (volatile State*)(before % 2 ? w11 : w10) + row * tiles * 256 + t;
  const unsigned begins =
      part == 0 ? ((const unsigned*)w7)[(row * passes + pass) * 256 + t] : 0;
  states[part * 256] = part == 0 ? ((State)2 << known) + begins + all : ((State)1 << known) + all;
  ((State*)(before % 2 ? w10 : w11))[(row * tiles + part) * 256 + t] = 0;
  const unsigned start = sum_to_here(all, sums, t) - all;
  unsigned next = start;
  for (int k = 0; k < 8; ++k) {
    const unsigned x = found[k * 256 + t];
    found[k * 256 + t] = next;
    next += x;
  }
  __syncthreads();

#pragma unroll
  for (int first = 0; first < kEach; first += 4) {
    unsigned same[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) same[k] = same_digit(spots[first + k]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      unsigned* place = &found[warp * 256 + spots[first + k]];
      const unsigned old = *place;
      __syncwarp();
      *place = old + __popc(same[k]);  // the same for all lanes that write there
      __syncwarp();
      spots[first + k] = old + __popc(same[k] & ((1u << lane) - 1));
    }
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) tile_keys[spots[k]] = keys[k];
  Load loads[kEach];
  if (before == 0) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const long long at = tile + mine + k * 32;
      Load load = 0;
      if (at < extent) {
        @READ_LOAD
      }
      loads[k] = load;
    }
  } else {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      loads[k] = mine + k * 32 < count ? loads_from[tile + mine + k * 32] : (Load)0;
    }
  }
  if (part == 0) {
    places[t] = begins - start;
  } else {
    const State earlier = look_back(states, part);
    states[part * 256] = ((State)2 << known) + earlier + all;
    places[t] = (unsigned)earlier - start;
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) tile_loads[spots[k]] = loads[k];
  __syncthreads();

  Key* keys_to = (Key*)(before % 2 ? w5 : w3) + row * extent;
  Load* loads_to = (Load*)(before % 2 ? w6 : w4) + row * extent;
#pragma unroll 1
  for (int first = 0; first < kEach; first += 4) {
    Key key_of[4];
    Load load_of[4];
    unsigned at_of[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = t + (first + k) * 256;
      key_of[k] = tile_keys[i];
      load_of[k] = tile_loads[i];
      at_of[k] = places[(unsigned)((order_key(key_of[k]) - low) >> shift) & most] + i;
    }
    if (plan & 2) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const Key key = key_of[k];
        const Load load = load_of[k];
        const long long at = at_of[k];
        if (t + (first + k) * 256 < count) {
          @WRITE
        }
      }
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        if (t + (first + k) * 256 >= count) continue;
        keys_to[at_of[k]] = key_of[k];
        loads_to[at_of[k]] = load_of[k];
      }
    }
  }
)";

std::string Replaced(std::string text, std::string_view name, std::string_view by) {
  for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += by.size()) {
    text.replace(at, name.size(), by);
  }
  return text;
}

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

std::string RadixSorter::Types() const {
  return fmt::format(
      "typedef {} Key;\ntypedef {} Load;\ntypedef unsigned {} Digits;\ntypedef unsigned {} State;\n"
      "constexpr int kEach = {};\n{}",
      BytesType(items_.key_bytes), BytesType(items_.load_bytes),
      items_.key_bytes == 8 ? "long long" : "int", items_.extent < kShortRow ? "int" : "long long",
      each_, items_.functions);
}

std::vector<KernelSource> RadixSorter::Sources() const {
  int arguments = kFirstArgument + items_.arguments;
  std::string low = items_.narrows
                        ? "const Digits low = (Digits)~((const unsigned long long*)w9)[2 * row];\n"
                        : "const Digits low = 0;\n";
  auto needed = [&](const char* row) {
    return items_.narrows ? fmt::format(
                                "  const int needed = passes_needed((const unsigned long "
                                "long*)w9 + 2 * {}, passes, width);\n",
                                row)
                          : std::string("  const int needed = passes;\n");
  };
  auto kernel = [&](const std::string& functions, const std::string& body) {
    std::string text = Replaced(body, "@READ_KEY", items_.read_key);
    text = Replaced(Replaced(text, "@READ_LOAD", items_.read_load), "@WRITE", items_.write);
    text = Replaced(text, "@CHECK", items_.check);
    return BlockKernel(arguments, Types() + functions, kNames + Replaced(text, "@LOW", low));
  };
  std::vector<KernelSource> sources = {kernel(kNeeded, kPart + needed("row") + low + kCount),
                                       kernel(BlockSumsText() + kNeeded, needed("block") + kPlan),
                                       kernel(BlockSumsText() + kSameDigit, kMove)};
  if (items_.narrows) sources.push_back(kernel("", std::string(kPart) + kRange));
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

  std::vector<uint64_t> arguments = {Argument(rows * parts_),
                                     Argument(items_.extent),
                                     Argument(tiles_),
                                     keys[0],
                                     loads[0],
                                     keys[1],
                                     loads[1],
                                     counts,
                                     plan,
                                     range,
                                     Argument(parts_),
                                     Argument(part_),
                                     tickets,
                                     0,
                                     Argument(passes_),
                                     Argument(width_)};
  arguments.insert(arguments.end(), own.begin(), own.end());
  if (items_.narrows) machine.Launch(*functions[3], BlockGrid(rows * parts_), arguments);
  machine.Launch(*functions[0], BlockGrid(rows * parts_), arguments);
  machine.Launch(*functions[1], BlockGrid(rows), arguments);
  arguments[10] = states;
  arguments[11] = other;
  for (int pass = 0; pass < passes_; ++pass) {
    arguments[13] = Argument(pass);
    machine.Launch(*functions[2], BlockGrid(rows * tiles_), arguments);
  }
}

}  // namespace hammock::cuda
