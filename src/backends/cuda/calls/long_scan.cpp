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
    return {SourceOf({.file = "long_scan.cuh",
                      .function = fmt::format("long_scan<Fn, {}, {}, {}, {}, {}>", each_, vectors_,
                                              same_size_, plan_.axis.inner > 1, plan_.reverse),
                      .argument_bytes = sizeof(LongScanArgs<void, void>),
                      .definitions = plan_.Definitions()})};
  }
  int64_t scratch_bytes() const override {
    return kTicketBytes + plan_.lines * (tiles_ + CeilDiv(tiles_, kThreads)) * 16;
  }
  void Run(Machine& machine, const Operands& operands) const override {
    machine.Clear(operands.scratch, scratch_bytes());
    Address totals = operands.scratch + static_cast<Address>(kTicketBytes);
    int64_t blocks = plan_.lines * tiles_;
    machine.Launch(function(0), BlockGrid(blocks),
                   WordsOf(LongScanArgs<void, void>{
                       .from = At(operands.in[0]),
                       .to = At(operands.out[0]),
                       .extent = plan_.axis.extent,
                       .inner = plan_.axis.inner,
                       .tiles = tiles_,
                       .ticket = At(operands.scratch),
                       .tile_totals = At(totals),
                       .group_totals = At(totals + static_cast<Address>(blocks * 16))}));
  }

 private:
  ScanPlan plan_;
  bool same_size_;  // of elements and results, which then have the same index in shared memory
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
