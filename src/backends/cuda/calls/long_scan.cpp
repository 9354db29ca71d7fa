// Scans of few long lines.
// Note [Scans of few lines]. Each tile of a line has a block, which posts its total, and then waits
// for the totals of the tiles before it in its group of 256, and for those of the groups before: a
// thread for each, and always the same tree of sums. The last tile of a group posts the group's.
// Tiles are numbered by a ticket, so they only wait for tiles that have begun.
#include <fmt/format.h>

#include "backends/cuda/calls/scan_kit.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kShortLine = 2048;  // one block is enough
constexpr int64_t kManyLines = 512;   // for a block each
constexpr int64_t kTicketBytes = 256;

/// Arguments: blocks, elements, results, elements of a line, stride, ticket, tiles of a line,
/// totals of tiles, totals of groups.
constexpr const char* kTile = R"(
  const int t = threadIdx.x;
  __shared__ Wide totals[8], groups[8], whole;
  __shared__ unsigned ticket;
  if (t == 0) ticket = atomicAdd((unsigned*)w5, 1u);
  __syncthreads();
  const long long extent = (long long)w3, tiles = (long long)w6;
  const long long line = ticket / tiles, tile = ticket % tiles, first = tile * (256 * kEach);
  const long long group = tile / 256, place = tile % 256, all_groups = (tiles + 255) / 256;
  const int count = extent - first < 256 * kEach ? (int)(extent - first) : 256 * kEach;
)";

// A thread's elements lie apart from those of the next one, to use all banks. What is behind the
// end of the line is scanned too: nothing comes after it.
constexpr const char* kLoadVectors = R"(
  const int mine = 4 * t + t / (kEach / 4) * 4;
#pragma unroll
  for (int k = 0; k < kEach / 4; ++k) {
    From x[4];
    load_some<4>(from + 4 * t + k * 1024, count - 4 * t - k * 1024, x);
    store_wide<4>(values + mine + k * 1024 / kEach * kApart, x);
  }
  __syncthreads();
)";
constexpr const char* kLoadEach = R"(
  const int mine = t + t / kEach;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    values[mine + k * 256 / kEach * kApart] =
        t + k * 256 < count ? from[(t + k * 256) * step] : From();
  }
  __syncthreads();
)";
constexpr const char* kStoreVectors = R"(
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kEach / 4; ++k) {
    To z[4];
    load_wide<4>(results + mine + k * 1024 / kEach * kApart, z);
    store_some<4>(to + 4 * t + k * 1024, count - 4 * t - k * 1024, z);
  }
)";
constexpr const char* kStoreEach = R"(
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (t + k * 256 < count) to[(t + k * 256) * step] = results[mine + k * 256 / kEach * kApart];
  }
)";
// Eight at a time, and each twice: registers are worth more.
constexpr const char* kEightVectors = R"(
#pragma unroll
  for (int some = 0; some < kEach; some += 8) {
    From x[8];
    load_wide<8>(values + t * kApart + some, x);
)";
constexpr const char* kEightEach = R"(
#pragma unroll
  for (int some = 0; some < kEach; some += 8) {
    From x[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) x[k] = values[t * kApart + some + k];
)";

class LongScan : public Call {
 public:
  explicit LongScan(const ScanPlan& plan) : plan_(plan) {
    int bits = InfoOf(plan_.dtype).bits;
    same_size_ = InfoOf(plan_.from).bits == bits;
    vectors_ = same_size_ && plan_.axis.inner == 1 && !plan_.reverse &&
               (plan_.lines == 1 || plan_.axis.extent % 4 == 0);
    each_ = !same_size_ ? 8 : vectors_ && bits <= 32 ? 32 : 16;
    tiles_ = CeilDiv(plan_.axis.extent, kThreads * each_);
  }

  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    std::string body = NamesText(scalars) + (vectors_ ? kLoadVectors : kLoadEach) +
                       TotalText(scalars) + BeforeText(scalars) + RunningText(scalars) +
                       (vectors_ ? kStoreVectors : kStoreEach);
    return {BlockKernel(9, PostText() + scalars.Functions(), body)};
  }
  int64_t scratch_bytes() const override {
    return kTicketBytes + plan_.lines * (tiles_ + CeilDiv(tiles_, kThreads)) * 16;
  }
  void Run(Machine& machine, const Operands& operands) const override {
    machine.Clear(operands.scratch, scratch_bytes());
    Address totals = operands.scratch + static_cast<Address>(kTicketBytes);
    int64_t blocks = plan_.lines * tiles_;
    machine.Launch(function(0), BlockGrid(blocks),
                   std::vector<uint64_t>{Argument(blocks), operands.in[0], operands.out[0],
                                         Argument(plan_.axis.extent), Argument(plan_.axis.inner),
                                         operands.scratch, Argument(tiles_), totals,
                                         totals + static_cast<Address>(blocks * 16)});
  }

 private:
  /// Totals that other blocks wait for: the halves of a word, each with a mark, so that nobody
  /// sees one half alone.
  std::string PostText() const {
    bool real = plan_.wide == DType::kF64;
    return fmt::format(R"(
typedef {0} Wide;
__device__ inline void post(unsigned long long address, long long which, Wide x) {{
  volatile unsigned long long* at = (volatile unsigned long long*)address + 2 * which;
  const unsigned long long bits = (unsigned long long){1}(x);
  at[0] = bits << 32 | 1;
  at[1] = bits >> 32 << 32 | 1;
}}
__device__ inline Wide posted(unsigned long long address, long long which) {{
  const volatile unsigned long long* at = (const volatile unsigned long long*)address + 2 * which;
  unsigned long long low, high;
  do {{
    low = at[0];
    high = at[1];
  }} while (!(low & high & 1));
  return {2}((long long)(high >> 32 << 32 | low >> 32));
}}
)",
                       ValueType(plan_.wide), real ? "__double_as_longlong" : "",
                       real ? "__longlong_as_double" : "(Wide)");
  }

  /// Lines that set `name` to what all threads have as `sum`; `shared` is room for 8.
  std::string SumOfAll(ScalarText& scalars, const char* shared, const char* name) const {
    return fmt::format(
        "  for (int lanes = 1; lanes < 32; lanes *= 2) {{\n"
        "    const Wide other = shuffle_xor(sum, lanes);\n    sum = {2};\n  }}\n"
        "  if (t % 32 == 0) {0}[t / 32] = sum;\n  __syncthreads();\n  Wide {1} = {0}[0];\n"
        "  for (int k = 1; k < 8; ++k) {1} = {3};\n",
        shared, name, plan_.Combined(scalars, "sum", "other"),
        plan_.Combined(scalars, name, fmt::format("{}[k]", shared)));
  }

  std::string NamesText(ScalarText& scalars) const {
    std::string text = fmt::format(
        "  typedef {} From;\n  typedef {} To;\n  const Wide none = {};\n"
        "  constexpr int kEach = {}, kApart = kEach + {};\n"
        "  alignas(16) __shared__ From values[256 * kApart];\n",
        MemoryType(plan_.from), MemoryType(plan_.dtype), scalars.Identity(plan_.fn, plan_.wide),
        each_, vectors_ ? 4 : 1);
    text +=
        same_size_ ? "  To* results = (To*)values;\n" : "  __shared__ To results[256 * kApart];\n";
    text += kTile;
    return text +
           fmt::format(
               "  const long long inner = {0}, step = {1}inner;\n"
               "  const long long begin = (line / inner * extent + {2}) * inner + line % "
               "inner;\n"
               "  const From* from = (const From*)w1 + begin;\n  To* to = (To*)w2 + begin;\n",
               plan_.axis.inner > 1 ? "(long long)w4" : "1", plan_.reverse ? "-" : "",
               plan_.reverse ? "(extent - 1 - first)" : "first");
  }

  /// Sets `before` to the value of the elements before this thread's in the tile, and posts the
  /// tile's total: the last thread's offset and its warp's.
  std::string TotalText(ScalarText& scalars) const {
    std::string text = std::string("  Wide total = none;\n") +
                       (vectors_ ? kEightVectors : kEightEach) +
                       fmt::format(
                           "#pragma unroll\n    for (int k = 0; k < 8; ++k) total = {};\n"
                           "  }}\n",
                           plan_.Combined(scalars, "total", plan_.Value(scalars, "x[k]")));
    text += fmt::format(
        "  for (int lanes = 1; lanes < 32; lanes *= 2) {{\n"
        "    const Wide other = shuffle_up(total, lanes);\n"
        "    if (t % 32 >= lanes) total = {};\n  }}\n"
        "  Wide before = shuffle_up(total, 1);\n  if (t % 32 == 0) before = none;\n"
        "  if (t % 32 == 31) totals[t / 32] = total;\n  __syncthreads();\n  Wide offset = none;\n"
        "  for (int k = 0; k < t / 32; ++k) offset = {};\n  before = {};\n",
        plan_.Combined(scalars, "other", "total"), plan_.Combined(scalars, "offset", "totals[k]"),
        plan_.Combined(scalars, "offset", "before"));
    return text +
           fmt::format(
               "  if (t == 255) {{\n    whole = {};\n    post(w7, line * tiles + tile, whole);\n"
               "  }}\n  __syncthreads();\n",
               plan_.Combined(scalars, "offset", "total"));
  }

  /// Sets `running` to the value of all elements before this thread's. A group's total is posted
  /// before anything of other groups is waited for.
  std::string BeforeText(ScalarText& scalars) const {
    std::string text =
        "  Wide sum = t < place ? posted(w7, line * tiles + group * 256 + t) : none;\n" +
        SumOfAll(scalars, "totals", "tiles_before");
    text += fmt::format(
        "  if (t == 0 && place == 255) post(w8, line * all_groups + group, {});\n  sum = none;\n"
        "  for (long long k = t; k < group; k += 256) sum = {};\n",
        plan_.Combined(scalars, "tiles_before", "whole"),
        plan_.Combined(scalars, "sum", "posted(w8, line * all_groups + k)"));
    return text + SumOfAll(scalars, "groups", "groups_before") +
           fmt::format("  Wide running = {};\n  running = {};\n",
                       plan_.Combined(scalars, "groups_before", "tiles_before"),
                       plan_.Combined(scalars, "running", "before"));
  }

  std::string RunningText(ScalarText& scalars) const {
    return std::string(vectors_ ? kEightVectors : kEightEach) +
           fmt::format(
               "    To y[8];\n#pragma unroll\n    for (int k = 0; k < 8; ++k) {{\n"
               "      running = {};\n      y[k] = {};\n    }}\n{}  }}\n",
               plan_.Combined(scalars, "running", plan_.Value(scalars, "x[k]")),
               plan_.Result(scalars, "running"),
               vectors_ ? "    store_wide<8>(results + t * kApart + some, y);\n"
                        : "#pragma unroll\n    for (int k = 0; k < 8; ++k) results[t * kApart + "
                          "some + k] = y[k];\n");
  }

  ScanPlan plan_;
  bool same_size_;  // of elements and results, which then have the same place in shared memory
  bool vectors_;    // four elements are contiguous and aligned
  int64_t each_;    // elements of a thread
  int64_t tiles_;   // of a line
};

}  // namespace

std::unique_ptr<Call> MakeLongScan(const ScanPlan& plan) {
  if (plan.axis.extent <= kShortLine || plan.lines == 0 || plan.lines > kManyLines) return nullptr;
  return std::make_unique<LongScan>(plan);
}

}  // namespace hammock::cuda
