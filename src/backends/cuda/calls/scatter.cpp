// Scatter: elements of a source are combined with the destinations that their indices name. Floats
// are always combined in the order of the indices, so results are the same every time.
#include <bit>

#include "backends/cuda/calls/scatter_kit.h"
#include "hammock/config.h"
#include "ops/primitives/fused_forms.h"

namespace hammock::cuda {
namespace {

constinit config::Option<bool> kFastAtomics({
    .name = "cuda.fast_atomics",
    .default_value = false,
    .doc = "Sums of floats that meet in one place (scatter, gradients of embeddings) are added in "
           "whatever order they come: faster, but the last bits differ from run to run.",
    .affects_code = true,
});

constexpr int64_t kFewRounds = 16;      // indices that a thread takes one after another
constexpr int64_t kEnoughLines = 4096;  // for a thread each
constexpr int64_t kMostItems = (int64_t{1} << 32) - 1;

/// One thread for each line along `dim` takes its indices in order.
class LineScatter : public ScatterCall {
 public:
  LineScatter(const Graph& graph, const GraphNode& node)
      : ScatterCall(graph, node),
        in_self_(plan_.index, plan_.self_strides, plan_.dim),
        in_index_(plan_.index, plan_.index_strides, plan_.dim),
        in_source_(plan_.index, plan_.source_strides, plan_.dim) {}

  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    const DType dtype = plan_.dtype;
    std::string value = Combined(scalars, plan_, dtype, scalars.FromMemory("to[p]", dtype).c_str(),
                                 scalars.FromMemory("from[s]", dtype));
    const int each = in_self_.argument_count();
    std::string body = in_self_.Text(kArguments, "i", "at_self") +
                       in_index_.Text(kArguments + each, "i", "at_index") +
                       in_source_.Text(kArguments + 2 * each, "i", "at_source") + Pointers() +
                       "  for (long long k = 0; k < (long long)w6; ++k) {\n"
                       "    const long long place = at_index + k * (long long)w7;\n"
                       "    const long long index = " +
                       IndexAt("place") + ";\n" + CheckText("continue;") +
                       "    const long long p = at_self + index * (long long)w8;\n"
                       "    const long long s = at_source + k * (long long)w9;\n    to[p] = " +
                       scalars.ToMemory(value, dtype) + ";\n  }\n";
    return {ElementKernel(kArguments + 3 * each, scalars.Functions(), body)};
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    const ScatterPlan& p = plan_;
    std::vector<uint64_t> arguments = ArgumentsOf(p.lines, operands);
    for (int64_t number :
         {p.rounds, p.index_strides[p.dim], p.self_strides[p.dim], p.source_strides[p.dim]}) {
      arguments.push_back(Argument(number));
    }
    for (const Offsets* offsets : {&in_self_, &in_index_, &in_source_})
      offsets->AppendTo(arguments);
    machine.Launch(function(0), ElementGrid(p.lines), arguments);
  }

 private:
  static constexpr int kArguments = 10;
  Offsets in_self_, in_index_, in_source_;
};

/// One thread for each element of the index, with atomic operations. For sums of many integers into
/// few destinations, each block first sums into shared-memory accumulators, one per destination.
class AtomicScatter : public ScatterCall {
 public:
  AtomicScatter(const Graph& graph, const GraphNode& node)
      : ScatterCall(graph, node),
        in_self_(plan_.SelfOffsets()),
        in_index_(plan_.index, plan_.index_strides),
        in_source_(plan_.index, plan_.source_strides) {}

  std::vector<KernelSource> Sources() const override {
    if (IsHistogram()) return {HistogramSource()};
    const ScatterPlan& p = plan_;
    bool wide = InfoOf(p.dtype).bits == 64;
    bool sum = p.reduce == "sum";
    std::string_view type = sum && !IsFloat(p.dtype)
                                ? (wide ? "unsigned long long" : "unsigned int")
                                : MemoryType(p.dtype);
    const int each = in_self_.argument_count();
    std::string body =
        in_self_.Text(kArguments, "i", "at_self") +
        in_index_.Text(kArguments + each, "i", "place") +
        in_source_.Text(kArguments + 2 * each, "i", "at_source") +
        "  const long long index = " + IndexAt("place") + ";\n" + CheckText("return;") +
        fmt::format(
            "  {0}(({1}*)w3 + at_self + index * (long long)w6, ((const {1}*)w2)[at_source]);\n",
            sum                  ? "atomicAdd"
            : p.reduce == "amax" ? "atomicMax"
                                 : "atomicMin",
            type);
    return {ElementKernel(kArguments + 3 * each, "", body)};
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    int64_t count = plan_.lines * plan_.rounds;
    if (IsHistogram()) {
      machine.Launch(function(0), BlockGrid(std::min(CeilDiv(count, 4096), kBlocks)),
                     ArgumentsOf(count, operands));
    } else {
      std::vector<uint64_t> arguments = ArgumentsOf(count, operands);
      arguments.push_back(Argument(plan_.inner));
      for (const Offsets* offsets : {&in_self_, &in_index_, &in_source_})
        offsets->AppendTo(arguments);
      machine.Launch(function(0), ElementGrid(count), arguments);
    }
  }

 private:
  static constexpr int64_t kMostDestinations = 4096;  // as many as fit into shared memory
  static constexpr int64_t kBlocks = 1056;
  static constexpr int kArguments = 7;

  bool IsHistogram() const {
    return plan_.self.size() == 1 && plan_.self[0] <= kMostDestinations && plan_.reduce == "sum" &&
           !IsFloat(plan_.dtype) && plan_.rounds >= 16 * kMostDestinations;
  }
  KernelSource HistogramSource() const {
    return BlockKernel(
        6, "",
        fmt::format("  typedef {} T;\n  __shared__ T sums[{}];\n",
                    InfoOf(plan_.dtype).bits == 64 ? "unsigned long long" : "unsigned int",
                    std::bit_ceil(static_cast<uint64_t>(plan_.self[0]))) +
            "  for (int k = threadIdx.x; k < (int)w5; k += 256) sums[k] = 0;\n"
            "  __syncthreads();\n"
            "  for (long long i = block * 256 + threadIdx.x; i < (long long)w0; i += gridDim.x * "
            "256ll) {\n    const long long place = i, index = " +
            IndexAt("i") + ";\n" + CheckText("continue;") +
            "    atomicAdd(&sums[index], ((const T*)w2)[i]);\n  }\n  __syncthreads();\n"
            "  for (int k = threadIdx.x; k < (int)w5; k += 256) {\n"
            "    if (sums[k] != 0) atomicAdd((T*)w3 + k, sums[k]);\n  }\n");
  }

  Offsets in_self_, in_index_, in_source_;
};

/// The choice depends on sizes and dtype alone, and not on whether an index names rows.
std::unique_ptr<Call> MakeScatter(const Graph& graph, const GraphNode& node, const CallContext&) {
  ScatterPlan plan(graph, node);
  bool is_float = IsFloat(plan.dtype), is_sum = plan.reduce == "sum";
  bool has_atomics = InfoOf(plan.dtype).bits >= 32 && plan.reduce != "none" &&
                     plan.reduce != "prod" && (is_sum || !is_float);
  if (is_float && is_sum && has_atomics && config::Get<kFastAtomics>()) {
    return std::make_unique<AtomicScatter>(graph, node);
  }
  bool rounds = is_float && (is_sum || plan.reduce == "prod");
  bool few = plan.rounds <= kFewRounds || (!rounds && plan.lines >= kEnoughLines);
  bool fits = plan.rounds * plan.lines < kMostItems && node.type().numel() < kMostItems;
  if (few || !fits || plan.lines == 0) return std::make_unique<LineScatter>(graph, node);
  if (has_atomics && !is_float) return std::make_unique<AtomicScatter>(graph, node);
  return MakeSortedScatter(graph, node);
}

constexpr CallEntry kCalls[] = {{&ops::kScatter, MakeScatter}, {&ops::kScatterRows, MakeScatter}};

}  // namespace

std::span<const CallEntry> ScatterCalls() { return kCalls; }

}  // namespace hammock::cuda
