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
/// goes along a long one tile by tile, and where lines are few several blocks share one, which then
/// need the totals of those before them. Many lines that lie side by side have eight threads each.
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
    int64_t tiles = CeilDiv(axis_.extent, kTile);
    int64_t wanted = std::clamp<int64_t>(kEnoughBlocks / lines_, 1, tiles);
    part_ = CeilDiv(tiles, wanted) * kTile;
    parts_ = CeilDiv(axis_.extent, part_);
  }

  std::vector<KernelSource> Sources() const override {
    if (eighths_) return {EighthsSource()};
    if (parts_ == 1) return {TileSource(/*totals=*/false)};
    return {TileSource(/*totals=*/true), TotalsSource(), TileSource(/*totals=*/false)};
  }
  int64_t scratch_bytes() const override { return parts_ > 1 ? lines_ * parts_ * 8 : 0; }

  void Run(Machine& machine, const Operands& operands) const override {
    if (lines_ == 0 || axis_.extent == 0) return;
    int64_t blocks = CeilDiv(lines_, eighths_ ? kNeighbours : kTile / width_) * parts_;
    std::vector<uint64_t> words = {WordOf(blocks),       operands.in[0],      operands.out[0],
                                   WordOf(axis_.extent), WordOf(axis_.inner), WordOf(lines_),
                                   WordOf(parts_),       WordOf(part_),       operands.scratch};
    if (parts_ == 1) return machine.Launch(function(0), BlockGrid(blocks), words);
    machine.Launch(function(0), BlockGrid(blocks), words);
    machine.Launch(function(1), ElementGrid(lines_),
                   std::vector<uint64_t>{WordOf(lines_), operands.scratch, WordOf(parts_)});
    machine.Launch(function(2), BlockGrid(blocks), words);
  }

 private:
  static constexpr int kWords = 9;

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

  /// A thread for each line goes over the totals of its parts: each becomes what is before it.
  KernelSource TotalsSource() const {
    ScalarText scalars;
    DType wide = WideOf(dtype_);
    std::string body = fmt::format(
        "  {0}* totals = ({0}*)w1 + i * (long long)w2;\n  {0} running = {1};\n"
        "  for (long long k = 0; k < (long long)w2; ++k) {{\n"
        "    const {0} x = totals[k];\n    totals[k] = running;\n    running = {2};\n  }}\n",
        ValueType(wide), scalars.Identity(fn_, wide), Combined(scalars, "running", "x"));
    return ElementKernel(3, scalars.Functions(), body);
  }

  /// With `totals` only the total of each part is written.
  KernelSource TileSource(bool totals) const {
    ScalarText scalars;
    DType wide = WideOf(dtype_);
    int64_t lines = kTile / width_, group = std::max<int64_t>(width_ / kEach, 1);
    std::string body = fmt::format(
        "  typedef {0} From;\n  typedef {1} To;\n  typedef {2} Wide;\n  const Wide none = {3};\n",
        MemoryType(from_), MemoryType(dtype_), ValueType(wide), scalars.Identity(fn_, wide));
    body += fmt::format(
        "  const int t = threadIdx.x;\n  __shared__ Wide values[{}];\n  __shared__ Wide "
        "totals[256];\n",
        kTile + kTile / kEach);
    body += R"(
  const long long extent = (long long)w3;
  const long long part = block % (long long)w6, begin = part * (long long)w7;
  const long long end = begin + (long long)w7 < extent ? begin + (long long)w7 : extent;
)";
    body += fmt::format("  const long long inner = {};\n", axis_.inner > 1 ? "(long long)w4" : "1");
    body += fmt::format("  const long long first_line = block / (long long)w6 * {};\n", lines);
    body += fmt::format("  Wide before = {};\n",
                        parts_ > 1 && !totals ? "((const Wide*)w8)[block]" : "none");
    std::string where = axis_.inner > 1
                            ? fmt::format("      const int r = i % {0}, k = i / {0};\n", lines)
                            : fmt::format("      const int r = i / {0}, k = i % {0};\n", width_);
    where += fmt::format(
        "      const long long line = first_line + r, along = tile + k;\n"
        "      const bool inside = line < (long long)w5 && along < end;\n"
        "      const long long at = (line / inner * extent + {}) * inner + line % inner;\n"
        "      const int place = r * {} + k;\n",
        reverse_ ? "(extent - 1 - along)" : "along", width_);
    body += fmt::format("  for (long long tile = begin; tile < end; tile += {}) {{\n", kTile);
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
      body += fmt::format(
          "    totals[t] = running;\n    __syncthreads();\n"
          "    for (int step = 1; step < {0}; step *= 2) {{\n"
          "      const Wide other = t % {0} >= step ? totals[t - step] : none, x = totals[t];\n"
          "      __syncthreads();\n      totals[t] = {1};\n      __syncthreads();\n    }}\n"
          "    const Wide left = t % {0} > 0 ? totals[t - 1] : none;\n"
          "    const Wide offset = {2}, whole = totals[255];\n",
          group, Combined(scalars, "other", "x"), Combined(scalars, "before", "left"));
    }
    if (!totals) {
      body += "#pragma unroll\n    for (int k = 0; k < 8; ++k) ";
      body += width_ > kEach
                  ? fmt::format("values[9 * t + k] = {};\n", Combined(scalars, "offset", "mine[k]"))
                  : "values[9 * t + k] = mine[k];\n";
      body += fmt::format(
          "    __syncthreads();\n    for (int i = t; i < {}; i += 256) {{\n{}"
          "      const Wide x = values[place + place / 8];\n"
          "      if (inside) ((To*)w2)[at] = {};\n    }}\n",
          kTile, where, Result(scalars, "x"));
    }
    if (width_ == kTile)
      body += fmt::format("    before = {};\n", Combined(scalars, "before", "whole"));
    body += "    __syncthreads();\n  }\n";
    if (totals) body += "  if (t == 0) ((Wide*)w8)[block] = before;\n";
    return BlockKernel(kWords, scalars.Functions(), body);
  }

  ReduceFn fn_;
  DType dtype_, from_;
  CallAxis axis_;
  bool reverse_;
  int64_t lines_;
  bool eighths_ = false;
  int64_t width_ = 1;             // of a line in a tile, a power of two
  int64_t part_ = 0, parts_ = 1;  // of a line, for a block each
};

std::string NoTruth(const Graph& graph, const GraphNode& node) {
  return graph.TypeOf(node.inputs[0]).dtype() == DType::kBool ? "its operand is of bool" : "";
}

constexpr CallEntry kCalls[] = {{&ops::kScan, MakeNode<ScanCall>, NoTruth}};

}  // namespace

std::span<const CallEntry> ScanCalls() { return kCalls; }

}  // namespace hammock::cuda
