// Running sums, products and extremes along a dim.
#include <fmt/format.h>

#include <bit>

#include "backends/cuda/call_kit.h"
#include "backends/cuda/cuda_text.h"
#include "backends/cuda/scalar_text.h"
#include "ops/primitives.h"

namespace hammock::cuda {
namespace {

using compiler::ReduceFn;

constexpr int64_t kThreads = 256;
constexpr int64_t kEach = 8;  // elements of a thread
constexpr int64_t kTile = kThreads * kEach;
constexpr int64_t kEnoughBlocks = 1024;
constexpr int64_t kEnoughLines = 1 << 13;  // for eight threads each
constexpr int64_t kNeighbours = 32;        // lines side by side

ReduceFn FnOf(const std::string& kind) {
  if (kind == "sum") return ReduceFn::kSum;
  if (kind == "prod") return ReduceFn::kProd;
  return kind == "max" ? ReduceFn::kMax : ReduceFn::kMin;
}

/// What running values are kept in.
DType WideOf(DType dtype) {
  if (IsFloat(dtype)) return DType::kF64;
  return InfoOf(dtype).kind == DTypeKind::kSigned ? DType::kI64 : DType::kU64;
}

/// A tile of 2,048 elements is scanned by a block: eight by each thread, then the threads' totals,
/// in an order that depends on the shape alone. Short lines lie in a tile side by side; a block
/// goes along a long one tile by tile. Many lines that lie side by side have eight threads each.
/// Note [Scans of few lines]. Each tile of a line has a block, which posts its total, and then
/// waits for the totals of the tiles before it in its group of 256, and for those of the groups
/// before: a thread for each, and always the same tree of sums. The last tile of a group posts the
/// group's. Tiles are numbered by a ticket, so they only ever wait for those that have begun.
class ScanCall : public Call {
 public:
  ScanCall(const Graph& graph, const GraphNode& node)
      : fn_(FnOf(node.attrs[0].str())),
        dtype_(node.type().dtype()),
        from_(graph.TypeOf(node.inputs[0]).dtype()),
        axis_(node.type().sizes(), node.attrs[1].integer()),
        reverse_(node.attrs[2].boolean()),
        lines_(axis_.outer * axis_.inner) {
    eighths_ = axis_.inner >= kNeighbours && lines_ >= kEnoughLines;
    if (eighths_ || lines_ == 0 || axis_.extent == 0) return;
    width_ = static_cast<int64_t>(
        std::bit_ceil(static_cast<uint64_t>(std::min(std::max<int64_t>(axis_.extent, 2), kTile))));
    if (axis_.extent <= kTile || lines_ > kEnoughBlocks / 2) return;
    each_ = InfoOf(from_).bits == InfoOf(dtype_).bits ? 16 : 8;
    tiles_ = CeilDiv(axis_.extent, kThreads * each_);
  }

  std::vector<KernelSource> Sources() const override {
    if (eighths_) return {EighthsSource()};
    return {tiles_ > 0 ? LongSource() : TileSource()};
  }
  int64_t scratch_bytes() const override {
    return tiles_ > 0 ? kTicketBytes + lines_ * (tiles_ + CeilDiv(tiles_, kThreads)) * 16 : 0;
  }

  void Run(Machine& machine, const Operands& operands) const override {
    if (lines_ == 0 || axis_.extent == 0) return;
    if (tiles_ > 0) return RunLong(machine, operands);
    int64_t blocks = CeilDiv(lines_, eighths_ ? kNeighbours : kTile / width_);
    machine.Launch(
        function(0), BlockGrid(blocks),
        std::vector<uint64_t>{WordOf(blocks), operands.in[0], operands.out[0], WordOf(axis_.extent),
                              WordOf(axis_.inner), WordOf(lines_)});
  }

 private:
  static constexpr int kWords = 6;
  static constexpr int64_t kTicketBytes = 256;

  void RunLong(Machine& machine, const Operands& operands) const {
    machine.Clear(operands.scratch, scratch_bytes());
    Address totals = operands.scratch + static_cast<Address>(kTicketBytes);
    int64_t blocks = lines_ * tiles_;
    machine.Launch(
        function(0), BlockGrid(blocks),
        std::vector<uint64_t>{WordOf(blocks), operands.in[0], operands.out[0], WordOf(axis_.extent),
                              WordOf(axis_.inner), operands.scratch, WordOf(tiles_), totals,
                              totals + static_cast<Address>(blocks * 16)});
  }

  std::string Value(ScalarText& scalars, const char* element) const {
    return scalars.Cast(scalars.FromMemory(element, from_), from_, WideOf(dtype_));
  }
  std::string Result(ScalarText& scalars, const char* value) const {
    return scalars.ToMemory(scalars.Cast(value, WideOf(dtype_), dtype_), dtype_);
  }
  std::string Combined(ScalarText& scalars, const char* sum, const std::string& x) const {
    return scalars.Combine(fn_, WideOf(dtype_), sum, x);
  }

  /// Eight threads for each line: each goes over an eighth of it, and when the totals are known
  /// goes over it again. Neighbouring threads have neighbouring lines.
  KernelSource EighthsSource() const {
    ScalarText scalars;
    DType wide = WideOf(dtype_);
    std::string body =
        fmt::format("  typedef {} Wide;\n  const {}* from = (const {}*)w1;\n  {}* to = ({}*)w2;\n",
                    ValueType(wide), MemoryType(from_), MemoryType(from_), MemoryType(dtype_),
                    MemoryType(dtype_));
    body += R"(
  const int lane = threadIdx.x % 32, eighth = threadIdx.x / 32;
  const long long extent = (long long)w3, inner = (long long)w4, lines = (long long)w5;
  const long long line = block * 32 + lane, each = (extent + 7) / 8;
  const long long first = line / inner * extent * inner + line % inner;
  const long long begin = eighth * each, end = begin + each < extent ? begin + each : extent;
  __shared__ Wide totals[8][32];
)";
    std::string at = fmt::format("first + {} * inner", reverse_ ? "(extent - 1 - k)" : "k");
    std::string step =
        fmt::format("running = {};", Combined(scalars, "running", Value(scalars, "from[at]")));
    std::string loop =
        "  for (long long k = begin; line < lines && k < end; ++k) {\n"
        "    const long long at = " +
        at + ";\n    " + step + "\n";
    body += fmt::format("  Wide running = {};\n", scalars.Identity(fn_, wide)) + loop + "  }\n";
    body += fmt::format(
        "  totals[eighth][lane] = running;\n  __syncthreads();\n  running = {};\n"
        "  for (int k = 0; k < eighth; ++k) running = {};\n",
        scalars.Identity(fn_, wide), Combined(scalars, "running", "totals[k][lane]"));
    body += loop + fmt::format("    to[at] = {};\n  }}\n", Result(scalars, "running"));
    return BlockKernel(kWords, scalars.Functions(), body);
  }

  /// Totals that other blocks wait for: the halves of a word, each with a mark, so that nobody
  /// sees one half alone.
  std::string PostText() const {
    bool real = WideOf(dtype_) == DType::kF64;
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
                       ValueType(WideOf(dtype_)), real ? "__double_as_longlong" : "",
                       real ? "__longlong_as_double" : "(Wide)");
  }

  /// Lines that set `name` to what all threads have as `sum`; `shared` is room for 8.
  std::string SumOfAll(ScalarText& scalars, const char* shared, const char* name) const {
    return fmt::format(
        "  for (int lanes = 1; lanes < 32; lanes *= 2) {{\n"
        "    const Wide other = shuffle_xor(sum, lanes);\n    sum = {2};\n  }}\n"
        "  if (t % 32 == 0) {0}[t / 32] = sum;\n  __syncthreads();\n  Wide {1} = {0}[0];\n"
        "  for (int k = 1; k < 8; ++k) {1} = {3};\n",
        shared, name, Combined(scalars, "sum", "other"),
        Combined(scalars, name, fmt::format("{}[k]", shared)));
  }

  /// See Note [Scans of few lines]. Words: blocks, elements, results, elements of a line, stride,
  /// ticket, tiles of a line, totals of tiles, totals of groups.
  KernelSource LongSource() const {
    ScalarText scalars;
    bool same_size = InfoOf(from_).bits == InfoOf(dtype_).bits;
    // Vectors of four lie side by side in memory, and begin at multiples of their size.
    bool vectors =
        same_size && axis_.inner == 1 && !reverse_ && (lines_ == 1 || axis_.extent % 4 == 0);
    std::string body = fmt::format(
        "  typedef {} From;\n  typedef {} To;\n  const Wide none = {};\n"
        "  constexpr int kEach = {}, kApart = kEach + {};\n"
        "  alignas(16) __shared__ From values[256 * kApart];\n",
        MemoryType(from_), MemoryType(dtype_), scalars.Identity(fn_, WideOf(dtype_)), each_,
        vectors ? 4 : 1);
    body +=
        same_size ? "  To* results = (To*)values;\n" : "  __shared__ To results[256 * kApart];\n";
    body += R"(
  const int t = threadIdx.x;
  __shared__ Wide totals[8], groups[8], whole;
  __shared__ unsigned ticket;
  if (t == 0) ticket = atomicAdd((unsigned*)w5, 1u);
  __syncthreads();
  const long long extent = (long long)w3, tiles = (long long)w6;
  const long long line = ticket / tiles, tile = ticket % tiles, first = tile * (256 * kEach);
  const int count = extent - first < 256 * kEach ? (int)(extent - first) : 256 * kEach;
)";
    body += fmt::format("  const long long inner = {};\n", axis_.inner > 1 ? "(long long)w4" : "1");
    body += fmt::format(
        "  const long long begin = (line / inner * extent + {}) * inner + line % inner;\n"
        "  const long long step = {}inner;\n"
        "  const From* from = (const From*)w1 + begin;\n  To* to = (To*)w2 + begin;\n",
        reverse_ ? "(extent - 1 - first)" : "first", reverse_ ? "-" : "");
    // A thread's elements lie apart from those of the next one, to use all banks. What is behind
    // the end of the line is scanned too: nothing comes after it.
    body += vectors ? R"(
  const int mine = 4 * t + t / (kEach / 4) * 4;
#pragma unroll
  for (int k = 0; k < kEach / 4; ++k) {
    From x[4];
    load_some<4>(from + 4 * t + k * 1024, count - 4 * t - k * 1024, x);
    store_wide<4>(values + mine + k * 1024 / kEach * kApart, x);
  }
  __syncthreads();
  From x[kEach];
  load_wide<kEach>(values + t * kApart, x);
)"
                    : R"(
  const int mine = t + t / kEach;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    values[mine + k * 256 / kEach * kApart] =
        t + k * 256 < count ? from[(t + k * 256) * step] : From();
  }
  __syncthreads();
  From x[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) x[k] = values[t * kApart + k];
)";
    std::string value = Value(scalars, "x[k]");
    body += fmt::format(
        "  Wide total = none;\n#pragma unroll\n  for (int k = 0; k < kEach; ++k) total = {};\n",
        Combined(scalars, "total", value));
    body += fmt::format(
        "  for (int lanes = 1; lanes < 32; lanes *= 2) {{\n"
        "    const Wide other = shuffle_up(total, lanes);\n"
        "    if (t % 32 >= lanes) total = {};\n  }}\n"
        "  Wide before = shuffle_up(total, 1);\n  if (t % 32 == 0) before = none;\n"
        "  if (t % 32 == 31) totals[t / 32] = total;\n  __syncthreads();\n  Wide offset = none;\n"
        "  for (int k = 0; k < t / 32; ++k) offset = {};\n  before = {};\n",
        Combined(scalars, "other", "total"), Combined(scalars, "offset", "totals[k]"),
        Combined(scalars, "offset", "before"));
    // The last thread's offset and its warp's total are what the tile has.
    body += fmt::format(
        "  const long long group = tile / 256, place = tile % 256;\n"
        "  if (t == 255) {{\n    whole = {};\n    post(w7, line * tiles + tile, whole);\n  }}\n"
        "  __syncthreads();\n",
        Combined(scalars, "offset", "total"));
    // A group's total is posted before anything of other groups is waited for.
    body +=
        "  const long long all_groups = (tiles + 255) / 256;\n"
        "  Wide sum = t < place ? posted(w7, line * tiles + group * 256 + t) : none;\n";
    body += SumOfAll(scalars, "totals", "tiles_before");
    body += fmt::format(
        "  if (t == 0 && place == 255) post(w8, line * all_groups + group, {});\n  sum = none;\n"
        "  for (long long k = t; k < group; k += 256) sum = {};\n",
        Combined(scalars, "tiles_before", "whole"),
        Combined(scalars, "sum", "posted(w8, line * all_groups + k)"));
    body += SumOfAll(scalars, "groups", "groups_before");
    body += fmt::format("  Wide running = {};\n  running = {};\n",
                        Combined(scalars, "groups_before", "tiles_before"),
                        Combined(scalars, "running", "before"));
    // Registers are worth more than reading again.
    if (vectors) body += "  load_wide<kEach>(values + t * kApart, x);\n";
    body += fmt::format(
        "  To y[kEach];\n#pragma unroll\n  for (int k = 0; k < kEach; ++k) {{\n"
        "    running = {};\n    y[k] = {};\n  }}\n",
        Combined(scalars, "running", value), Result(scalars, "running"));
    body += vectors ? R"(  store_wide<kEach>(results + t * kApart, y);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kEach / 4; ++k) {
    To z[4];
    load_wide<4>(results + mine + k * 1024 / kEach * kApart, z);
    store_some<4>(to + 4 * t + k * 1024, count - 4 * t - k * 1024, z);
  }
)"
                    : R"(
#pragma unroll
  for (int k = 0; k < kEach; ++k) results[t * kApart + k] = y[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    if (t + k * 256 < count) to[(t + k * 256) * step] = results[mine + k * 256 / kEach * kApart];
  }
)";
    return BlockKernel(9, PostText() + scalars.Functions(), body);
  }

  /// Sets `offset` to what is before this thread's elements in the `group` of threads that have a
  /// line, and `whole` to what all threads have.
  std::string OffsetText(ScalarText& scalars, int64_t group) const {
    int64_t lanes = std::min<int64_t>(group, 32);
    std::string text = fmt::format(
        "    Wide total = running;\n    for (int step = 1; step < {0}; step *= 2) {{\n"
        "      const Wide other = shuffle_up(total, step);\n"
        "      if (t % {0} >= step) total = {1};\n    }}\n"
        "    Wide left = shuffle_up(total, 1);\n    if (t % {0} == 0) left = none;\n"
        "    if (t % 32 == 31) totals[t / 32] = total;\n    __syncthreads();\n"
        "    Wide offset = before;\n",
        lanes, Combined(scalars, "other", "total"));
    if (group > 32) {
      text += fmt::format("    for (int k = t / {0} * {0} / 32; k < t / 32; ++k) offset = {1};\n",
                          group, Combined(scalars, "offset", "totals[k]"));
    }
    text += fmt::format("    offset = {};\n", Combined(scalars, "offset", "left"));
    if (width_ != kTile) return text;
    return text +
           fmt::format("    Wide whole = none;\n    for (int k = 0; k < 8; ++k) whole = {};\n",
                       Combined(scalars, "whole", "totals[k]"));
  }

  KernelSource TileSource() const {
    ScalarText scalars;
    DType wide = WideOf(dtype_);
    int64_t lines = kTile / width_, group = std::max<int64_t>(width_ / kEach, 1);
    std::string body = fmt::format(
        "  typedef {0} From;\n  typedef {1} To;\n  typedef {2} Wide;\n  const Wide none = {3};\n",
        MemoryType(from_), MemoryType(dtype_), ValueType(wide), scalars.Identity(fn_, wide));
    body += fmt::format(
        "  const int t = threadIdx.x;\n  __shared__ Wide values[{}];\n  __shared__ Wide "
        "totals[8];\n",
        kTile + kTile / kEach);
    body += R"(
  const long long extent = (long long)w3;
  Wide before = none;
)";
    body += fmt::format("  const long long inner = {};\n", axis_.inner > 1 ? "(long long)w4" : "1");
    body += fmt::format("  const long long first_line = block * {};\n", lines);
    std::string where = axis_.inner > 1
                            ? fmt::format("      const int r = i % {0}, k = i / {0};\n", lines)
                            : fmt::format("      const int r = i / {0}, k = i % {0};\n", width_);
    where += fmt::format(
        "      const long long line = first_line + r, along = tile + k;\n"
        "      const bool inside = line < (long long)w5 && along < extent;\n"
        "      const long long at = (line / inner * extent + {}) * inner + line % inner;\n"
        "      const int place = r * {} + k;\n",
        reverse_ ? "(extent - 1 - along)" : "along", width_);
    body += fmt::format("  for (long long tile = 0; tile < extent; tile += {}) {{\n", kTile);
    body += fmt::format(
        "    for (int i = t; i < {}; i += 256) {{\n{}"
        "      values[place + place / 8] = inside ? ({}) : none;\n    }}\n    __syncthreads();\n",
        kTile, where, Value(scalars, "((const From*)w1)[at]"));
    body += fmt::format(
        "    Wide mine[8];\n    Wide running = none;\n#pragma unroll\n"
        "    for (int k = 0; k < 8; ++k) {{\n{}      const Wide x = values[9 * t + k];\n"
        "      running = {};\n      mine[k] = running;\n    }}\n",
        width_ < kEach ? fmt::format("      if (k % {} == 0) running = none;\n", width_) : "",
        Combined(scalars, "running", "x"));
    if (width_ > kEach) {
      body += OffsetText(scalars, group);
    }
    body += "#pragma unroll\n    for (int k = 0; k < 8; ++k) ";
    body += width_ > kEach
                ? fmt::format("values[9 * t + k] = {};\n", Combined(scalars, "offset", "mine[k]"))
                : "values[9 * t + k] = mine[k];\n";
    body += fmt::format(
        "    __syncthreads();\n    for (int i = t; i < {}; i += 256) {{\n{}"
        "      const Wide x = values[place + place / 8];\n"
        "      if (inside) ((To*)w2)[at] = {};\n    }}\n",
        kTile, where, Result(scalars, "x"));
    if (width_ == kTile)
      body += fmt::format("    before = {};\n", Combined(scalars, "before", "whole"));
    body += "    __syncthreads();\n  }\n";
    return BlockKernel(kWords, scalars.Functions(), body);
  }

  ReduceFn fn_;
  DType dtype_, from_;
  CallAxis axis_;
  bool reverse_;
  int64_t lines_;
  bool eighths_ = false;
  int64_t width_ = 1;     // of a line in a tile, a power of two
  int64_t tiles_ = 0;     // of a line, for a block each; 0 where a block has whole lines
  int64_t each_ = kEach;  // elements of a thread in such a tile
};

std::string NoTruth(const Graph& graph, const GraphNode& node) {
  return graph.TypeOf(node.inputs[0]).dtype() == DType::kBool ? "its operand is of bool" : "";
}

constexpr CallEntry kCalls[] = {{&ops::kScan, MakeNode<ScanCall>, NoTruth}};

}  // namespace

std::span<const CallEntry> ScanCalls() { return kCalls; }

}  // namespace hammock::cuda
