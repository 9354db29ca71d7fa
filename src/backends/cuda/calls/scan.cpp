// Running sums, products and extremes along a dim.
#include <fmt/format.h>

#include <bit>

#include "backends/cuda/calls/scan_kit.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kEach = 8;  // elements of a thread
constexpr int64_t kTile = kThreads * kEach;
constexpr int64_t kEnoughLines = 1 << 13;  // for eight threads each
constexpr int64_t kNeighbours = 32;        // adjacent lines

/// A tile of 2,048 elements is scanned by a block: eight by each thread, then the threads' totals,
/// in an order that depends on the shape alone. Several short lines share a tile; a block goes
/// along a long line tile by tile. Adjacent lines have eight threads each if they are many.
class ScanCall : public Call {
 public:
  explicit ScanCall(const ScanPlan& plan) : plan_(plan) {
    eighths_ = plan_.axis.inner >= kNeighbours && plan_.lines >= kEnoughLines;
    if (eighths_ || plan_.lines == 0 || plan_.axis.extent == 0) return;
    width_ = static_cast<int64_t>(std::bit_ceil(
        static_cast<uint64_t>(std::min(std::max<int64_t>(plan_.axis.extent, 2), kTile))));
  }

  std::vector<KernelSource> Sources() const override {
    return {eighths_ ? EighthsSource() : TileSource()};
  }

  void Run(Machine& machine, const Operands& operands) const override {
    if (plan_.lines == 0 || plan_.axis.extent == 0) return;
    int64_t blocks = CeilDiv(plan_.lines, eighths_ ? kNeighbours : kTile / width_);
    machine.Launch(function(0), BlockGrid(blocks),
                   std::vector<uint64_t>{Argument(blocks), operands.in[0], operands.out[0],
                                         Argument(plan_.axis.extent), Argument(plan_.axis.inner),
                                         Argument(plan_.lines)});
  }

 private:
  static constexpr int kArguments = 6;

  /// Eight threads for each line: each goes over an eighth of it, and when the totals are known
  /// goes over it again. Neighbouring threads have neighbouring lines.
  KernelSource EighthsSource() const {
    ScalarText scalars;
    std::string body =
        fmt::format("  typedef {} Wide;\n  const {}* from = (const {}*)w1;\n  {}* to = ({}*)w2;\n",
                    ValueType(plan_.wide), MemoryType(plan_.from), MemoryType(plan_.from),
                    MemoryType(plan_.dtype), MemoryType(plan_.dtype));
    body += R"(
  const int lane = threadIdx.x % 32, eighth = threadIdx.x / 32;
  const long long extent = (long long)w3, inner = (long long)w4, lines = (long long)w5;
  const long long line = block * 32 + lane, each = (extent + 7) / 8;
  const long long first = line / inner * extent * inner + line % inner;
  const long long begin = eighth * each, end = begin + each < extent ? begin + each : extent;
  __shared__ Wide totals[8][32];
)";
    std::string at = fmt::format("first + {} * inner", plan_.reverse ? "(extent - 1 - k)" : "k");
    std::string step = fmt::format(
        "running = {};", plan_.Combined(scalars, "running", plan_.Value(scalars, "from[at]")));
    std::string loop =
        "  for (long long k = begin; line < lines && k < end; ++k) {\n"
        "    const long long at = " +
        at + ";\n    " + step + "\n";
    body += fmt::format("  Wide running = {};\n", scalars.Identity(plan_.fn, plan_.wide)) + loop +
            "  }\n";
    body += fmt::format(
        "  totals[eighth][lane] = running;\n  __syncthreads();\n  running = {};\n"
        "  for (int k = 0; k < eighth; ++k) running = {};\n",
        scalars.Identity(plan_.fn, plan_.wide),
        plan_.Combined(scalars, "running", "totals[k][lane]"));
    body += loop + fmt::format("    to[at] = {};\n  }}\n", plan_.Result(scalars, "running"));
    return BlockKernel(kArguments, scalars.Functions(), body);
  }

  /// Sets `offset` to the value of the elements before this thread's in the `group` of threads that
  /// share a line, and `whole` to the value of all their elements.
  std::string OffsetText(ScalarText& scalars, int64_t group) const {
    int64_t lanes = std::min<int64_t>(group, 32);
    std::string text = fmt::format(
        "    Wide total = running;\n    for (int step = 1; step < {0}; step *= 2) {{\n"
        "      const Wide other = shuffle_up(total, step);\n"
        "      if (t % {0} >= step) total = {1};\n    }}\n"
        "    Wide left = shuffle_up(total, 1);\n    if (t % {0} == 0) left = none;\n"
        "    if (t % 32 == 31) totals[t / 32] = total;\n    __syncthreads();\n"
        "    Wide offset = before;\n",
        lanes, plan_.Combined(scalars, "other", "total"));
    if (group > 32) {
      text += fmt::format("    for (int k = t / {0} * {0} / 32; k < t / 32; ++k) offset = {1};\n",
                          group, plan_.Combined(scalars, "offset", "totals[k]"));
    }
    text += fmt::format("    offset = {};\n", plan_.Combined(scalars, "offset", "left"));
    if (width_ != kTile) return text;
    return text +
           fmt::format("    Wide whole = none;\n    for (int k = 0; k < 8; ++k) whole = {};\n",
                       plan_.Combined(scalars, "whole", "totals[k]"));
  }

  KernelSource TileSource() const {
    ScalarText scalars;
    int64_t lines = kTile / width_, group = std::max<int64_t>(width_ / kEach, 1);
    std::string body = fmt::format(
        "  typedef {0} From;\n  typedef {1} To;\n  typedef {2} Wide;\n  const Wide none = {3};\n",
        MemoryType(plan_.from), MemoryType(plan_.dtype), ValueType(plan_.wide),
        scalars.Identity(plan_.fn, plan_.wide));
    body += fmt::format(
        "  const int t = threadIdx.x;\n  __shared__ Wide values[{}];\n  __shared__ Wide "
        "totals[8];\n",
        kTile + kTile / kEach);
    body += R"(
  const long long extent = (long long)w3;
  Wide before = none;
)";
    body += fmt::format("  const long long inner = {};\n",
                        plan_.axis.inner > 1 ? "(long long)w4" : "1");
    body += fmt::format("  const long long first_line = block * {};\n", lines);
    std::string where = plan_.axis.inner > 1
                            ? fmt::format("      const int r = i % {0}, k = i / {0};\n", lines)
                            : fmt::format("      const int r = i / {0}, k = i % {0};\n", width_);
    where += fmt::format(
        "      const long long line = first_line + r, along = tile + k;\n"
        "      const bool inside = line < (long long)w5 && along < extent;\n"
        "      const long long at = (line / inner * extent + {}) * inner + line % inner;\n"
        "      const int place = r * {} + k;\n",
        plan_.reverse ? "(extent - 1 - along)" : "along", width_);
    body += fmt::format("  for (long long tile = 0; tile < extent; tile += {}) {{\n", kTile);
    body += fmt::format(
        "    for (int i = t; i < {}; i += 256) {{\n{}"
        "      values[place + place / 8] = inside ? ({}) : none;\n    }}\n    __syncthreads();\n",
        kTile, where, plan_.Value(scalars, "((const From*)w1)[at]"));
    body += fmt::format(
        "    Wide mine[8];\n    Wide running = none;\n#pragma unroll\n"
        "    for (int k = 0; k < 8; ++k) {{\n{}      const Wide x = values[9 * t + k];\n"
        "      running = {};\n      mine[k] = running;\n    }}\n",
        width_ < kEach ? fmt::format("      if (k % {} == 0) running = none;\n", width_) : "",
        plan_.Combined(scalars, "running", "x"));
    if (width_ > kEach) {
      body += OffsetText(scalars, group);
    }
    body += "#pragma unroll\n    for (int k = 0; k < 8; ++k) ";
    body += width_ > kEach ? fmt::format("values[9 * t + k] = {};\n",
                                         plan_.Combined(scalars, "offset", "mine[k]"))
                           : "values[9 * t + k] = mine[k];\n";
    body += fmt::format(
        "    __syncthreads();\n    for (int i = t; i < {}; i += 256) {{\n{}"
        "      const Wide x = values[place + place / 8];\n"
        "      if (inside) ((To*)w2)[at] = {};\n    }}\n",
        kTile, where, plan_.Result(scalars, "x"));
    if (width_ == kTile)
      body += fmt::format("    before = {};\n", plan_.Combined(scalars, "before", "whole"));
    body += "    __syncthreads();\n  }\n";
    return BlockKernel(kArguments, scalars.Functions(), body);
  }

  ScanPlan plan_;
  bool eighths_ = false;
  int64_t width_ = 1;  // of a line in a tile, a power of two
};

std::string NoTruth(const Graph& graph, const GraphNode& node) {
  return graph.TypeOf(node.inputs[0]).dtype() == DType::kBool ? "its operand is of bool" : "";
}

std::unique_ptr<Call> MakeScan(const Graph& graph, const GraphNode& node, const CallContext&) {
  ScanPlan plan(graph, node);
  std::unique_ptr<Call> scan = MakeLongScan(plan);
  return scan ? std::move(scan) : std::make_unique<ScanCall>(plan);
}

constexpr CallEntry kCalls[] = {{&ops::kScan, MakeScan, NoTruth}};

}  // namespace

std::span<const CallEntry> ScanCalls() { return kCalls; }

}  // namespace hammock::cuda
