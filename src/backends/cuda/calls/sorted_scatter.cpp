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

constexpr int64_t kRun = 128;  // that are combined one after another
constexpr int64_t kWrong = 0xffffffff;

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// The number of sorted items, from `low` to `high`, with a smaller target.
constexpr const char* kIndexAmong = R"(
__device__ inline long long place_among(const Sorted* sorted, long long low, long long high,
                                        unsigned long long target) {
  while (low < high) {
    const long long middle = (low + high) / 2;
    if (target_at(sorted, middle) < target) low = middle + 1;
    else high = middle;
  }
  return low;
}
)";

/// Threads read neighbouring items, so every ninth element is padding, to use all banks.
constexpr const char* kPaddedIndex =
    "__device__ inline int place_of(int i) { return i + i / 8; }\n";

/// Indices are sorted with the elements that they move, or with positions. All items with one
/// destination are a run, which has a thread, or several if an index names a whole row. Runs of
/// more than kRun are divided at multiples of kRun; the parts have threads of their own and are
/// combined after that.
class SortedScatter : public ScatterCall {
 public:
  SortedScatter(const Graph& graph, const GraphNode& node)
      : ScatterCall(graph, node),
        count_(plan_.rows ? plan_.rounds : plan_.rounds * plan_.lines),
        columns_(plan_.rows ? plan_.lines : 1),
        destinations_(plan_.rows ? extent_ : node.type().numel()),
        in_self_(plan_.rows ? Offsets({}, {}) : plan_.SelfOffsets()),
        in_source_(plan_.index, plan_.source_strides),
        fresh_(node.inputs[0].node < 0) {
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
      items.type = fmt::format("RadixTargets<{}, {}, {}, {}, {}, {}>",
                               MemoryType(plan_.index_dtype), BytesType(load_bytes_), carried_,
                               plan_.rows, in_self_.few(), in_self_.dims());
      items.argument_bytes =
          sizeof(RadixTargetArgs<void, void>) + in_self_.dims() * sizeof(Strided<1>);
      radix_.emplace(std::move(items));
    }
  }

  std::vector<KernelSource> Sources() const override {
    std::vector<KernelSource> sources = {PartsSource(), WholeSource(),
                                         plan_.rows ? RunsSource() : ElementsSource()};
    if (plan_.rows) sources.push_back(RowsSource());
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
    std::vector<uint64_t> arguments = ArgumentsOf(count_, operands);
    arguments.insert(
        arguments.end(),
        {sorted, loads, lists, lists + static_cast<Address>(ListsBytes()), Argument(count_),
         Argument(MostRuns()), Argument(columns_), Argument(plan_.inner)});
    in_source_.AppendTo(arguments);
    Sort(machine, operands, arguments);
    machine.Clear(lists, writes_all() ? 8 + MostRuns() * 4 : 8);
    machine.Launch(function(2), BlockGrid(CeilDiv(count_, 8 * 256)), arguments);
    auto launch = [&](size_t which, int64_t threads) {
      arguments[0] = Argument(threads);
      machine.Launch(function(which), ElementGrid(threads), arguments);
    };
    if (plan_.rows) launch(3, MostRuns() * threads_);
    if (plan_.reduce == "none" || count_ <= kRun) return;
    launch(0, CeilDiv(count_, kRun) * part_threads_);
    launch(1, CeilDiv(count_, kRun) * part_threads_);
  }

 private:
  // The first argument of the offsets: those in the source for all kernels, then those of targets.
  static constexpr int kArguments = 14;
  int AllArguments() const { return kArguments + in_source_.argument_count(); }

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

  void Sort(Machine& machine, const Operands& operands, std::vector<uint64_t>& arguments) const {
    std::vector<const Function*> functions;
    size_t items = plan_.rows ? 4 : 3, first = radix_ ? items : items + 1;
    size_t kernels = radix_ ? radix_->kernels() : merges_->kernels();
    for (size_t i = 0; i < kernels; ++i) functions.push_back(&function(first + i));
    if (radix_) {
      std::vector<uint64_t> own =
          WordsOf(RadixTargetArgs<void, void>{.source = At(operands.in[2]),
                                              .sorted = At(arguments[6]),
                                              .loads = At(arguments[7]),
                                              .targets = {.index = At(operands.in[1]),
                                                          .fault = operands.fault,
                                                          .extent = extent_,
                                                          .inner = plan_.inner}});
      in_self_.AppendTo(own);
      return radix_->Run(machine, functions, operands.scratch, own);
    }
    arguments[6] = operands.scratch;
    std::vector<uint64_t> own = arguments;
    AppendTargetArguments(own);
    machine.Launch(function(items), ElementGrid(count_), own);
    arguments[6] = merges_->Run(machine, functions, operands.scratch);
  }

  std::string IndexText(const std::string& i, const char* index) const {
    return fmt::format("((const {}*){})[{}]", MemoryType(plan_.index_dtype), index, i);
  }
  std::string NoteFault(const std::string& i, const char* index, const char* fault) const {
    return fmt::format("note_fault({}, {}, {});\n", fault, i, IndexText(i, index));
  }
  /// Lines that set `target` to the destination of index `i`; a wrong one comes last. The
  /// arguments of the offset begin at `first`.
  std::string ReadTarget(const std::string& i, const char* index, const char* extent,
                         int first) const {
    std::string text = fmt::format("const long long index = {};\n", IndexText(i, index));
    std::string target = "index";
    if (!plan_.rows) {
      text += in_self_.Text(first + 1, i, "at_self");
      target = fmt::format("at_self + index * (long long)w{}", first);
    }
    return text + fmt::format(
                      "const unsigned target = index >= 0 && index < (long long){} ? "
                      "(unsigned)({}) : {}u;\n",
                      extent, target, kWrong);
  }
  int TargetArguments() const { return plan_.rows ? 0 : 1 + in_self_.argument_count(); }
  void AppendTargetArguments(std::vector<uint64_t>& arguments) const {
    if (plan_.rows) return;
    arguments.push_back(Argument(plan_.inner));
    in_self_.AppendTo(arguments);
  }

  KernelSource ItemsSource() const {
    return ElementKernel(
        AllArguments() + TargetArguments(), "",
        ReadTarget("i", "w1", "w5", AllArguments()) +
            fmt::format("  if (target == {}u) {}", kWrong, NoteFault("i", "w1", "w4")) +
            "((unsigned long long*)w6)[i] = (unsigned long long)target << 32 | "
            "(unsigned long long)i;\n");
  }

  /// The functions `target_at` and `position_at` of the sorted items.
  std::string SortedText() const {
    std::string text = radix_
                           ? "typedef unsigned Sorted;\n"
                             "__device__ inline unsigned target_at(const Sorted* x, long long i) "
                             "{ return x[i]; }\n"
                           : "typedef unsigned long long Sorted;\n"
                             "__device__ inline unsigned target_at(const Sorted* x, long long i) "
                             "{ return (unsigned)(x[i] >> 32); }\n";
    return text + fmt::format("typedef {} Load;\n", BytesType(load_bytes_));
  }
  std::string Names() const {
    return Pointers() + fmt::format(
                            "  const Sorted* sorted = (const Sorted*)w6;\n"
                            "  const long long all = (long long)w10, columns = (long long)w12;\n"
                            "  unsigned* lists = (unsigned*)w8;\n"
                            "  typedef {} Wide;\n  Wide* partial = (Wide*)w9;\n",
                            ValueType(WideOf(plan_.dtype)));
  }

  const char* IsLong() const {
    return plan_.reduce == "none" ? "false"
                                  : "i + 128 < all && target_at(sorted, i + 128) == target";
  }
  /// Lists a long run.
  static constexpr const char* kListLong = R"(
      const unsigned place = atomicAdd(&lists[1], 1u);
      if (place <= (unsigned)(all / 128)) lists[2 + (long long)w11 + place] = (unsigned)i;
)";

  /// Lists the first items of runs, the long ones after the others; if the last item wins, the last
  /// items. The lists have no order. For fresh rows there is a word for each row instead, one more
  /// than the first item of its run. Wrong targets may divide a run, so the list may overflow; the
  /// results are not used then.
  KernelSource RunsSource() const {
    const char* is_mine = plan_.reduce == "none"
                              ? "i + 1 == all || target_at(sorted, i + 1) != target"
                              : "i == 0 || target_at(sorted, i - 1) != target";
    std::string body =
        Names() + fmt::format(R"(
  const int t = threadIdx.x;
  __shared__ unsigned sums[8];
  __shared__ unsigned first;
  unsigned mine = 0, count = 0;
  for (int k = 0; k < 8; ++k) {{
    const long long i = block * 2048 + 8 * t + k;
    if (i >= all) continue;
    const unsigned target = target_at(sorted, i);
    if (target == {}u || !({})) continue;
    if ({}) {{{}    }} else {{
      mine |= 1u << k;
      ++count;
      {}
    }}
  }}
)",
                              kWrong, is_mine, IsLong(), kListLong,
                              writes_all() ? "lists[2 + target] = (unsigned)i + 1;" : "");
    if (writes_all()) return BlockKernel(AllArguments(), SortedText(), body);
    body += R"(
  const unsigned here = sum_to_here(count, sums, t);
  if (t == 255) first = atomicAdd(&lists[0], here);
  __syncthreads();
  unsigned place = first + here - count;
  for (int k = 0; k < 8; ++k) {
    if (!(mine >> k & 1)) continue;
    if (place < (unsigned)w11) lists[2 + place] = (unsigned)(block * 2048 + 8 * t + k);
    ++place;
  }
)";
    return BlockKernel(AllArguments(), SortedText() + BlockSumsText(), body);
  }

  /// Lines that take what the block looks at to shared memory: the targets of its 2,048, of one
  /// before and of 128 after them, and the elements.
  std::string ElementsText() const {
    return fmt::format(R"(
  typedef {0} E;
  __shared__ unsigned targets[2177 + 2177 / 8 + 1];
  __shared__ E values[2048 + 128];
  unsigned some_targets[9];
  E some[9];
#pragma unroll
  for (int m = 0; m < 9; ++m) {{
    const long long k = begin - 1 + t + m * 256;
    some_targets[m] = k >= 0 && k < all ? target_at(sorted, k) : {1}u;
  }}
#pragma unroll
  for (int m = 0; m < 9; ++m) {{
    const long long k = begin + t + m * 256;
    if (k >= all || t + m * 256 >= 2048 + 128) continue;
)",
                       MemoryType(plan_.dtype), kWrong) +
           ReadText() + R"(    some[m] = x[0];
  }
#pragma unroll
  for (int m = 0; m < 9; ++m) {
    const int n = t + m * 256;
    if (n < 2177) targets[place_of(n)] = some_targets[m];
    if (n < 2048 + 128) values[n] = some[m];
  }
  __syncthreads();
)";
  }
  /// Lines that list in `heads` where `found` runs begin, or end where the last one wins.
  std::string HeadsText() const {
    bool last_wins = plan_.reduce == "none";
    return fmt::format(R"(
  __shared__ unsigned short heads[2048];
  __shared__ unsigned sums[8];
  __shared__ unsigned found;
  unsigned mine = 0, count = 0;
  for (int k = 0; k < 8; ++k) {{
    const int n = 8 * t + k + 1;
    const unsigned target = targets[place_of(n)];
    if (target == {}u || targets[place_of(n {} 1)] == target) continue;
    const long long i = begin + n - 1;
    if ({}) {{{}      continue;
    }}
    mine |= 1u << k;
    ++count;
  }}
  unsigned here = sum_to_here(count, sums, t);
  if (t == 255) found = here;
  here -= count;
  for (int k = 0; k < 8; ++k) {{
    if (mine >> k & 1) heads[here++] = (unsigned short)(8 * t + k);
  }}
  __syncthreads();
)",
                       kWrong, last_wins ? "+" : "-",
                       last_wins ? "false" : "targets[place_of(n + 128)] == target", kListLong);
  }

  /// Short runs of elements. A block lists the runs that begin in its 2,048 items in shared memory,
  /// where their targets and elements are; then each run has a thread.
  KernelSource ElementsSource() const {
    ScalarText scalars;
    std::string body = Names() +
                       "  const int t = threadIdx.x;\n  const long long begin = block * 2048;\n" +
                       ElementsText() + HeadsText();
    body +=
        "  for (int r = t; r < (int)found; r += 256) {\n    int n = heads[r];\n"
        "    const unsigned target = targets[place_of(n + 1)];\n"
        "    const long long at = (long long)target;\n";
    if (plan_.reduce == "none") {
      body += "    to[at] = values[n];\n  }\n";
    } else {
      body += OldText(scalars) + "    do {\n    E x[1] = {values[n]};\n" +
              AddText(scalars, Value(scalars)) +
              "    ++n;\n    } while (n < 2048 + 128 && targets[place_of(n + 1)] == target);\n" +
              StoreText(scalars) + "  }\n";
    }
    return BlockKernel(AllArguments(),
                       scalars.Functions() + SortedText() + BlockSumsText() + kPaddedIndex, body);
  }

  /// Lines in a loop over the vectors `c` of a row: `at` is where they go.
  std::string ColumnsText(int64_t threads) const {
    std::string text =
        fmt::format("  for (long long c = i % {0} * {1}; c < columns; c += {2}) {{\n", threads,
                    vector_, threads * vector_);
    if (!plan_.rows) return text + "    const long long at = (long long)target;\n";
    if (plan_.inner == columns_) {
      return text + "    const long long at = (long long)target * columns + c;\n";
    }
    return text +
           "    const long long inner = (long long)w13, outer = c / inner, column = c % inner;\n"
           "    const long long at = (outer * (long long)w5 + (long long)target) * inner + "
           "column;\n";
  }
  /// Lines that set `x` to the elements that the sorted item `k` moves.
  std::string ReadText() const {
    const ScatterPlan& p = plan_;
    std::string text = fmt::format("    {} x[{}];\n", MemoryType(p.dtype), vector_);
    if (carried_) return text + "    load_wide<1>((const Load*)w7 + k, (Load*)x);\n";
    text += radix_ ? "    const long long position = ((const Load*)w7)[k];\n"
                   : "    const long long position = (long long)(sorted[k] & 0xffffffffull);\n";
    if (p.rows) {
      text += p.inner == columns_
                  ? "    const long long s = position * columns + c;\n"
                  : "    const long long s = (outer * all + position) * inner + column;\n";
    } else {
      text += in_source_.Text(kArguments, "position", "s");
    }
    return text + fmt::format("    load_wide<{}>(from + s, x);\n", vector_);
  }
  std::string Value(ScalarText& scalars) const {
    return scalars.Cast(scalars.FromMemory("x[v]", plan_.dtype), plan_.dtype, WideOf(plan_.dtype));
  }
  std::string EachOf(const std::string& line) const {
    return fmt::format("#pragma unroll\n    for (int v = 0; v < {}; ++v) {}\n", vector_, line);
  }
  std::string AddText(ScalarText& scalars, const std::string& value) const {
    return EachOf("sum[v] = " + Combined(scalars, plan_, WideOf(plan_.dtype), "sum[v]", value) +
                  ";");
  }
  /// Lines that begin with the old value, which is 0 in fresh memory.
  std::string OldText(ScalarText& scalars) const {
    std::string text = fmt::format("    Wide sum[{0}];\n    {{\n    {1} x[{0}] = {{}};\n", vector_,
                                   MemoryType(plan_.dtype));
    if (!fresh_) text += fmt::format("    load_wide<{}>(to + at, x);\n", vector_);
    return text + EachOf("sum[v] = " + Value(scalars) + ";") + "    }\n";
  }
  std::string StoreText(ScalarText& scalars) const {
    DType wide = WideOf(plan_.dtype);
    std::string result = scalars.ToMemory(scalars.Cast("sum[v]", wide, plan_.dtype), plan_.dtype);
    return fmt::format("    {{\n    {} x[{}];\n", MemoryType(plan_.dtype), vector_) +
           EachOf("x[v] = " + result + ";") +
           fmt::format("    store_wide<{}>(to + at, x);\n    }}\n", vector_);
  }

  /// Combines short runs of rows, in order.
  KernelSource RowsSource() const {
    ScalarText scalars;
    std::string body = Names();
    if (writes_all()) {
      body += fmt::format(
          "  const unsigned target = (unsigned)(i / {});\n"
          "  const bool met = lists[2 + target] != 0;\n"
          "  const long long first = met ? (long long)lists[2 + target] - 1 : all;\n",
          threads_);
    } else {
      body += fmt::format(
          "  if (i / {0} >= lists[0]) return;\n  const bool met = true;\n"
          "  const long long first = lists[2 + i / {0}];\n"
          "  const unsigned target = target_at(sorted, first);\n",
          threads_);
    }
    body += ColumnsText(threads_) + OldText(scalars);
    if (plan_.reduce == "none") {
      body += "    if (met) {\n    const long long k = first;\n" + ReadText() +
              EachOf("sum[v] = " + Value(scalars) + ";") + "    }\n";
    } else {
      body += "    for (long long k = first; k < all && target_at(sorted, k) == target; ++k) {\n" +
              ReadText() + AddText(scalars, Value(scalars)) + "    }\n";
    }
    body += StoreText(scalars) + "  }\n";
    return ElementKernel(AllArguments(), scalars.Functions() + SortedText(), body);
  }

  std::string Slot(const char* slot) const {
    return fmt::format("partial[({}) * columns + c + v]", slot);
  }

  /// Of kRun items, the parts of up to two long runs: one that goes on here, one that begins here.
  KernelSource PartsSource() const {
    ScalarText scalars;
    std::string body = Names() + fmt::format(R"(
  const long long part = i / {0}, begin = part * {1};
  if (begin >= all) return;
  const long long end = begin + {1} < all ? begin + {1} : all;
  const bool goes_on = begin > 0 && target_at(sorted, begin - 1) == target_at(sorted, begin);
  for (int begins = 0; begins < 2; ++begins) {{
    const unsigned target = target_at(sorted, begins ? end - 1 : begin);
    if (target == {2}u || (goes_on && target_at(sorted, begin) == target) == (begins == 1)) continue;
    const long long low = begins ? begin : begin - {1} > 0 ? begin - {1} : 0;
    const long long head = place_among(sorted, low, begins ? end : begin, target);
    if (head + {1} >= all || target_at(sorted, head + {1}) != target) continue;
    const long long first = begins ? head : begin;
    const long long last = place_among(sorted, first, end, target + 1ull);
)",
                                             part_threads_, kRun, kWrong);
    body += ColumnsText(part_threads_);
    body += fmt::format("    Wide sum[{}];\n    {{\n    const long long k = first;\n{}", vector_,
                        ReadText()) +
            EachOf("sum[v] = " + Value(scalars) + ";") + "    }\n";
    body += "#pragma unroll 8\n    for (long long k = first + 1; k < last; ++k) {\n" + ReadText() +
            AddText(scalars, Value(scalars)) + "    }\n";
    body += EachOf(Slot("2 * part + begins") + " = sum[v];") + "  }\n  }\n";
    return ElementKernel(AllArguments(), scalars.Functions() + SortedText() + kIndexAmong, body);
  }

  /// All parts of a long run.
  KernelSource WholeSource() const {
    ScalarText scalars;
    std::string body =
        Names() + fmt::format(
                      "  if (i / {0} >= lists[1]) return;\n"
                      "  const long long first = lists[2 + (long long)w11 + i / {0}];\n"
                      "  const unsigned target = target_at(sorted, first);\n"
                      "  const long long last = place_among(sorted, first, all, target + 1ull);\n",
                      part_threads_);
    body += ColumnsText(part_threads_) + OldText(scalars);
    body += fmt::format(
        "#pragma unroll 16\n    for (long long k = first / {0}; k <= (last - 1) / {0}; ++k) {{\n",
        kRun);
    body += AddText(scalars, Slot(fmt::format("2 * k + (k == first / {} ? 1 : 0)", kRun).c_str()));
    body += "    }\n" + StoreText(scalars) + "  }\n";
    return ElementKernel(AllArguments(), scalars.Functions() + SortedText() + kIndexAmong, body);
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
