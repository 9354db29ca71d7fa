// Scatter of sums that round: the sources are sorted by their destinations.
#include <algorithm>
#include <bit>

#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/calls/item_sort.h"
#include "backends/cuda/calls/radix_sort.h"
#include "backends/cuda/calls/scatter_kit.h"
#include "backends/cuda/device/scatter_args.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kRun = kScatterRun;

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// Indices are sorted with the elements that they move, or with positions. All items with one
/// destination are a run, which has a thread, or several if an index names a whole row. Runs of
/// more than kRun are divided at multiples of kRun; the parts have threads of their own and are
/// combined after that.
class SortedScatter : public ScatterCall {
 public:
  SortedScatter(const Graph& graph, const GraphNode& node)
      : ScatterCall(graph, node),
        count_(plan_.rows ? plan_.indices : plan_.indices * plan_.lines),
        columns_(plan_.rows ? plan_.lines : 1),
        destinations_(plan_.rows ? extent_ : node.type().numel()),
        in_self_(plan_.rows ? Offsets({}, {}) : plan_.SelfOffsets()),
        in_source_(plan_.rows ? Offsets({}, {}) : Offsets(plan_.index, plan_.source_strides)),
        fresh_(!node.inputs[0].node) {
    int bytes = InfoOf(plan_.dtype).bits / 8;
    if (plan_.rows) {
      while (vector_ * bytes < 16 && plan_.inner % (2 * vector_) == 0) vector_ *= 2;
    }
    threads_ = ThreadsFor(columns_ / vector_);
    part_threads_ = static_cast<int64_t>(
        std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(columns_ / vector_, 1))));
    if (count_ < kManyItems) {
      merges_.emplace(count_);
    } else {
      carried_ = !plan_.rows && plan_.index == plan_.source;
      RadixItems items = {.extent = count_, .load_bytes = carried_ ? bytes : 4};
      items.key_bits = static_cast<int>(
          std::bit_width(static_cast<uint64_t>(std::max<int64_t>(destinations_, 2) - 1)));
      load_bytes_ = items.load_bytes;
      items.file = "scatter_targets.cuh";
      items.type =
          fmt::format("RadixTargets<{}, {}, {}, {}, {}, {}>", IndexType(), BytesType(load_bytes_),
                      carried_, plan_.rows, in_self_.few(), in_self_.dims());
      items.argument_bytes = sizeof(RadixTargetArgs<void, void>) + in_self_.argument_bytes();
      radix_.emplace(std::move(items));
    }
  }

  std::vector<KernelSource> Sources() const override {
    std::vector<KernelSource> sources = {
        Source(fmt::format("scatter_parts<Kind, {}>", part_threads_)),
        Source(fmt::format("scatter_long_runs<Kind, {}>", part_threads_)),
        Source(plan_.rows ? "list_runs<Kind>" : "scatter_elements<Kind>")};
    if (plan_.rows) sources.push_back(Source(fmt::format("scatter_rows<Kind, {}>", threads_)));
    if (merges_) sources.push_back(ItemsSource());
    for (KernelSource& source : radix_ ? radix_->Sources() : merges_->Sources()) {
      sources.push_back(std::move(source));
    }
    return sources;
  }
  int64_t scratch_bytes() const override {
    return SorterBytes() + SortedBytes() + LoadsBytes() + ListsBytes() + PartialBytes();
  }

 protected:
  bool writes_all() const override { return fresh_ && plan_.rows; }
  void RunAll(Machine& machine, const Operands& operands) const override {
    Address sorted = operands.scratch + static_cast<Address>(SorterBytes());
    Address loads = sorted + static_cast<Address>(SortedBytes());
    Address lists = loads + static_cast<Address>(LoadsBytes());
    SortedScatterArgs<void, void, void, void> args = {
        .threads = 0,
        .from = At(operands.in[2]),
        .to = At(operands.out[0]),
        .sorted = At(Sort(machine, operands, sorted, loads)),
        .loads = At(loads),
        .lists = At(lists),
        .partial = At(lists + static_cast<Address>(ListsBytes())),
        .count = count_,
        .most_runs = MostRuns(),
        .columns = columns_,
        .inner = plan_.inner,
        .extent = extent_};
    auto words = [&] {
      std::vector<uint64_t> arguments = WordsOf(args);
      in_source_.AppendTo(arguments);
      return arguments;
    };
    machine.Clear(lists, writes_all() ? 8 + MostRuns() * 4 : 8);
    machine.Launch(function(2), BlockGrid(CeilDiv(count_, 8 * 256)), words());
    auto launch = [&](size_t which, int64_t threads) {
      args.threads = threads;
      machine.Launch(function(which), ElementGrid(threads), words());
    };
    if (plan_.rows) launch(3, MostRuns() * threads_);
    if (plan_.reduce == "none" || count_ <= kRun) return;
    launch(0, CeilDiv(count_, kRun) * part_threads_);
    launch(1, CeilDiv(count_, kRun) * part_threads_);
  }

 private:
  /// A power of two that leaves few without work.
  static int64_t ThreadsFor(int64_t columns) {
    if (columns <= 32) return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(columns)));
    int64_t best = 256;
    for (int64_t threads : {128, 64, 32}) {
      if (CeilDiv(columns, threads) * threads < CeilDiv(columns, best) * best) best = threads;
    }
    return best;
  }

  int64_t SorterBytes() const {
    return Aligned(radix_ ? radix_->scratch_bytes() : merges_->scratch_bytes());
  }
  int64_t SortedBytes() const { return radix_ ? Aligned(count_ * 4) : 0; }
  int64_t LoadsBytes() const { return radix_ ? Aligned(count_ * load_bytes_) : 0; }
  int64_t MostRuns() const {
    return writes_all() ? destinations_ : std::min(count_, destinations_);
  }
  int64_t ListsBytes() const { return Aligned((2 + MostRuns() + count_ / kRun + 1) * 4); }
  int64_t PartialBytes() const { return 2 * CeilDiv(count_, kRun) * columns_ * 8; }

  /// Returns the address of the sorted items: `sorted`, or one in the scratch memory.
  Address Sort(Machine& machine, const Operands& operands, Address sorted, Address loads) const {
    std::vector<const Function*> functions;
    size_t items = plan_.rows ? 4 : 3, first = radix_ ? items : items + 1;
    size_t kernels = radix_ ? radix_->kernels() : merges_->kernels();
    for (size_t i = 0; i < kernels; ++i) functions.push_back(&function(first + i));
    const TargetArgs<void> targets = TargetsOf(operands, plan_.inner);
    if (radix_) {
      std::vector<uint64_t> own = WordsOf(RadixTargetArgs<void, void>{.source = At(operands.in[2]),
                                                                      .sorted = At(sorted),
                                                                      .loads = At(loads),
                                                                      .targets = targets});
      in_self_.AppendTo(own);
      radix_->Run(machine, functions, operands.scratch, own);
      return sorted;
    }
    std::vector<uint64_t> own = WordsOf(
        TargetItemArgs<void>{.count = count_, .items = At(operands.scratch), .targets = targets});
    in_self_.AppendTo(own);
    machine.Launch(function(items), ElementGrid(count_), own);
    return merges_->Run(machine, functions, operands.scratch);
  }

  KernelSource ItemsSource() const {
    return SourceOf({.file = "scatter_targets.cuh",
                     .function = fmt::format("target_items<{}, {}, {}, {}>", IndexType(),
                                             plan_.rows, in_self_.few(), in_self_.dims()),
                     .argument_bytes = sizeof(TargetItemArgs<void>) + in_self_.argument_bytes()});
  }

  /// A kernel of sorted_scatter.cuh.
  KernelSource Source(const std::string& function) const {
    const DType dtype = plan_.dtype, wide = WideOf(dtype);
    ScalarText scalars;
    TypeText kind("Kind");
    kind.Type("Element", MemoryType(dtype))
        .Type("Wide", ValueType(wide))
        .Type("Sorted", BytesType(radix_ ? 4 : 8))
        .Type("Load", BytesType(load_bytes_))
        .Constant("kCarried", carried_)
        .Constant("kRows", plan_.rows)
        .Constant("kWholeRows", plan_.rows && plan_.inner == columns_)
        .Constant("kFresh", fresh_)
        .Constant("kLastWins", plan_.reduce == "none")
        .Constant("kVector", vector_)
        .Constant("kDims", static_cast<int64_t>(in_source_.dims()))
        .Constant("kFew", in_source_.few())
        .Function("Wide value(Element x)",
                  scalars.Cast(scalars.FromMemory("x", dtype), dtype, wide))
        .Function("Wide combine(Wide sum, Wide x)", Combined(scalars, plan_, wide, "sum", "x"))
        .Function("Element result(Wide x)",
                  scalars.ToMemory(scalars.Cast("x", wide, dtype), dtype));
    return SourceOf({.file = "sorted_scatter.cuh",
                     .function = function,
                     .argument_bytes = sizeof(SortedScatterArgs<void, void, void, void>) +
                                       in_source_.argument_bytes(),
                     .definitions = scalars.Functions() + kind.Text()});
  }

  int64_t count_;         // indices
  int64_t columns_;       // elements that an index moves
  int64_t destinations_;  // rows or elements that an index may name
  Offsets in_self_;       // of the destination, with index 0
  Offsets in_source_;     // of the source
  bool fresh_;            // whether it scatters into zeros
  bool carried_ = false;  // whether elements are sorted with their indices, else positions
  int load_bytes_ = 4;
  int64_t vector_ = 1;        // elements that a thread has at once
  int64_t threads_ = 1;       // for each destination
  int64_t part_threads_ = 1;  // for each part of a long run
  std::optional<ItemSorter> merges_;
  std::optional<RadixSorter> radix_;
};

}  // namespace

std::unique_ptr<Call> MakeSortedScatter(const Graph& graph, const GraphNode& node) {
  return std::make_unique<SortedScatter>(graph, node);
}

}  // namespace hammock::cuda
