// Running sums, products and extremes along a dim.
#include <fmt/format.h>

#include <bit>

#include "backends/cuda/calls/scan_kit.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kTile = kScanTile;
constexpr int64_t kEnoughLines = 1 << 13;  // for eight threads each
constexpr int64_t kNeighbours = kScanNeighbours;

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
    const bool strided = plan_.axis.inner > 1, reverse = plan_.reverse;
    return {SourceOf(
        {.file = "scan.cuh",
         .function = eighths_ ? fmt::format("scan_eighths<Fn, {}>", reverse)
                              : fmt::format("scan_tiles<Fn, {}, {}, {}>", width_, strided, reverse),
         .argument_bytes = sizeof(ScanArgs<void, void>),
         .definitions = plan_.Definitions()})};
  }

  void Run(Machine& machine, const Operands& operands) const override {
    if (plan_.lines == 0 || plan_.axis.extent == 0) return;
    int64_t blocks = CeilDiv(plan_.lines, eighths_ ? kNeighbours : kTile / width_);
    machine.Launch(function(0), BlockGrid(blocks),
                   WordsOf(ScanArgs<void, void>{.from = At(operands.in[0]),
                                                .to = At(operands.out[0]),
                                                .extent = plan_.axis.extent,
                                                .inner = plan_.axis.inner,
                                                .lines = plan_.lines}));
  }

 private:
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
