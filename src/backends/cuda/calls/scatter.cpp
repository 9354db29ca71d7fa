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
    .doc = "Sums of floats that meet at one index (scatter, gradients of embeddings) are added in "
           "whatever order they come: faster, but the last bits differ from run to run.",
    .affects_code = true,
});

constexpr int64_t kFewIndices = 16;     // indices that a thread takes one after another
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
    std::string value = Combined(scalars, plan_, dtype, scalars.FromMemory("old", dtype).c_str(),
                                 scalars.FromMemory("x", dtype));
    TypeText fn("Fn");
    fn.Type("Element", MemoryType(dtype))
        .Function("Element combine(Element old, Element x)", scalars.ToMemory(value, dtype));
    return {
        SourceOf({.file = "scatter.cuh",
                  .function = fmt::format("line_scatter<Fn, {}, {}, {}>", IndexType(),
                                          in_self_.dims(), in_self_.few()),
                  .argument_bytes = sizeof(ScatterArgs<void, void>) + 3 * in_self_.argument_bytes(),
                  .definitions = scalars.Functions() + fn.Text()})};
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    const ScatterPlan& p = plan_;
    std::vector<uint64_t> arguments =
        WordsOf(ScatterArgs<void, void>{.count = p.lines,
                                        .from = At(operands.in[2]),
                                        .to = At(operands.out[0]),
                                        .targets = TargetsOf(operands, p.self_strides[p.dim]),
                                        .indices = p.indices,
                                        .index_stride = p.index_strides[p.dim],
                                        .from_stride = p.source_strides[p.dim]});
    for (const Offsets* offsets : {&in_self_, &in_index_, &in_source_})
      offsets->AppendTo(arguments);
    machine.Launch(function(0), ElementGrid(p.lines), arguments);
  }

 private:
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
    const bool sum = plan_.reduce == "sum", wide = InfoOf(plan_.dtype).bits == 64;
    const std::string_view type =
        sum && !IsFloat(plan_.dtype) ? BytesType(wide ? 8 : 4) : MemoryType(plan_.dtype);
    if (IsHistogram()) {
      return {
          SourceOf({.file = "scatter.cuh",
                    .function = fmt::format("histogram<{}, {}, {}>", type, IndexType(),
                                            std::bit_ceil(static_cast<uint64_t>(plan_.self[0]))),
                    .argument_bytes = sizeof(ScatterArgs<void, void>)})};
    }
    const char* fn = sum ? "AtomicSum" : plan_.reduce == "amax" ? "AtomicMax" : "AtomicMin";
    return {SourceOf(
        {.file = "scatter.cuh",
         .function = fmt::format("atomic_scatter<{}, {}, {}, {}, {}>", fn, type, IndexType(),
                                 in_self_.dims(), in_self_.few()),
         .argument_bytes = sizeof(ScatterArgs<void, void>) + 3 * in_self_.argument_bytes()})};
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    int64_t count = plan_.lines * plan_.indices;
    std::vector<uint64_t> arguments =
        WordsOf(ScatterArgs<void, void>{.count = count,
                                        .from = At(operands.in[2]),
                                        .to = At(operands.out[0]),
                                        .targets = TargetsOf(operands, plan_.inner)});
    if (IsHistogram()) {
      machine.Launch(function(0), BlockGrid(std::min(CeilDiv(count, 4096), kBlocks)), arguments);
    } else {
      for (const Offsets* offsets : {&in_self_, &in_index_, &in_source_})
        offsets->AppendTo(arguments);
      machine.Launch(function(0), ElementGrid(count), arguments);
    }
  }

 private:
  static constexpr int64_t kMostDestinations = 4096;  // as many as fit into shared memory
  static constexpr int64_t kBlocks = 1056;

  bool IsHistogram() const {
    return plan_.self.size() == 1 && plan_.self[0] <= kMostDestinations && plan_.reduce == "sum" &&
           !IsFloat(plan_.dtype) && plan_.indices >= 16 * kMostDestinations;
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
  bool few = plan.indices <= kFewIndices || (!rounds && plan.lines >= kEnoughLines);
  bool fits = plan.indices * plan.lines < kMostItems && node.type().numel() < kMostItems;
  if (few || !fits || plan.lines == 0) return std::make_unique<LineScatter>(graph, node);
  if (has_atomics && !is_float) return std::make_unique<AtomicScatter>(graph, node);
  return MakeSortedScatter(graph, node);
}

constexpr CallEntry kCalls[] = {{&ops::kScatter, MakeScatter}, {&ops::kScatterRows, MakeScatter}};

}  // namespace

std::span<const CallEntry> ScatterCalls() { return kCalls; }

}  // namespace hammock::cuda
