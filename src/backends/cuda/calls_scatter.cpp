// Scatter: elements of a source meet those that their indices name. What rounds is always combined
// in the order of the indices, so results are the same every time.
#include "backends/cuda/scatter_kit.h"
#include "hammock/config.h"

namespace hammock::cuda {
namespace {

constexpr int64_t kFewRounds = 16;      // indices that a thread takes one after another
constexpr int64_t kEnoughLines = 4096;  // for a thread each
constexpr int64_t kMostItems = (int64_t{1} << 32) - 1;

/// One thread for each line along `dim` takes its indices in order.
class LineScatter : public ScatterCall {
 public:
  using ScatterCall::ScatterCall;
  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    const ScatterPlan& p = plan_;
    std::string value = Combined(scalars, p, p.dtype, scalars.FromMemory("to[p]", p.dtype).c_str(),
                                 scalars.FromMemory("from[s]", p.dtype));
    std::string body =
        LineText(p.index, p.self_strides, p.dim, "i", "at_self") +
        LineText(p.index, p.index_strides, p.dim, "i", "at_index") +
        LineText(p.index, p.source_strides, p.dim, "i", "at_source") + Pointers() +
        fmt::format(
            "  for (long long k = 0; k < {}ll; ++k) {{\n"
            "    const long long place = at_index + k * {}ll;\n"
            "    const long long index = {};\n",
            p.rounds, p.index_strides[p.dim], IndexAt("place")) +
        CheckText("continue;") +
        fmt::format(
            "    const long long p = at_self + index * {}ll;\n"
            "    const long long s = at_source + k * {}ll;\n    to[p] = {};\n  }}\n",
            p.self_strides[p.dim], p.source_strides[p.dim], scalars.ToMemory(value, p.dtype));
    return {ElementKernel(6, scalars.Functions(), body)};
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    machine.Launch(function(0), ElementGrid(plan_.lines), WordsOf(plan_.lines, operands));
  }
};

/// One thread for each element of the index; the memory combines. Sums of many integers into few
/// places are made by each block for itself first.
class AtomicScatter : public ScatterCall {
 public:
  using ScatterCall::ScatterCall;
  std::vector<KernelSource> Sources() const override {
    if (IsHistogram()) return {HistogramSource()};
    const ScatterPlan& p = plan_;
    bool wide = InfoOf(p.dtype).bits == 64;
    bool sum = p.reduce == "sum";
    std::string_view type = sum && !IsFloat(p.dtype)
                                ? (wide ? "unsigned long long" : "unsigned int")
                                : MemoryType(p.dtype);
    std::string body =
        LineText(p.index, p.self_strides, -1, "i", "at_self") +
        LineText(p.index, p.source_strides, -1, "i", "at_source") +
        LineText(p.index, p.index_strides, -1, "i", "place") +
        fmt::format("  const long long along = i / {}ll % {}ll;\n  const long long index = {};\n",
                    ContiguousStrides(p.index)[p.dim], p.rounds, IndexAt("place")) +
        CheckText("return;") +
        fmt::format(
            "  {0}(({1}*)w3 + at_self + (index - along) * {2}ll, ((const "
            "{1}*)w2)[at_source]);\n",
            sum                  ? "atomicAdd"
            : p.reduce == "amax" ? "atomicMax"
                                 : "atomicMin",
            type, p.self_strides[p.dim]);
    return {ElementKernel(6, "", body)};
  }

 protected:
  void RunAll(Machine& machine, const Operands& operands) const override {
    int64_t count = plan_.lines * plan_.rounds;
    if (IsHistogram()) {
      machine.Launch(function(0), BlockGrid(std::min(CeilDiv(count, 4096), kBlocks)),
                     WordsOf(count, operands));
    } else {
      machine.Launch(function(0), ElementGrid(count), WordsOf(count, operands));
    }
  }

 private:
  static constexpr int64_t kMostPlaces = 4096;  // that shared memory has room for
  static constexpr int64_t kBlocks = 1056;

  bool IsHistogram() const {
    return plan_.self.size() == 1 && plan_.self[0] <= kMostPlaces && plan_.reduce == "sum" &&
           !IsFloat(plan_.dtype) && plan_.rounds >= 16 * kMostPlaces;
  }
  KernelSource HistogramSource() const {
    return BlockKernel(
        6, "",
        fmt::format("  typedef {} T;\n  __shared__ T sums[{}];\n",
                    InfoOf(plan_.dtype).bits == 64 ? "unsigned long long" : "unsigned int",
                    plan_.self[0]) +
            "  for (int k = threadIdx.x; k < (int)w5; k += 256) sums[k] = 0;\n"
            "  __syncthreads();\n"
            "  for (long long i = block * 256 + threadIdx.x; i < (long long)w0; i += gridDim.x * "
            "256ll) {\n    const long long place = i, index = " +
            IndexAt("i") + ";\n" + CheckText("continue;") +
            "    atomicAdd(&sums[index], ((const T*)w2)[i]);\n  }\n  __syncthreads();\n"
            "  for (int k = threadIdx.x; k < (int)w5; k += 256) {\n"
            "    if (sums[k] != 0) atomicAdd((T*)w3 + k, sums[k]);\n  }\n");
  }
};

/// Which way depends on sizes and dtype alone, and not on whether an index names rows.
std::unique_ptr<Call> MakeScatter(const Graph& graph, const GraphNode& node, Machine&) {
  ScatterPlan plan(graph, node);
  bool is_float = IsFloat(plan.dtype), is_sum = plan.reduce == "sum";
  bool has_atomics = InfoOf(plan.dtype).bits >= 32 && plan.reduce != "none" &&
                     plan.reduce != "prod" && (is_sum || !is_float);
  if (is_float && is_sum && has_atomics && config::Get<config::kCudaFastAtomics>()) {
    return std::make_unique<AtomicScatter>(graph, node);
  }
  bool rounds = is_float && (is_sum || plan.reduce == "prod");
  bool few = plan.rounds <= kFewRounds || (!rounds && plan.lines >= kEnoughLines);
  bool fits = plan.rounds * plan.lines < kMostItems && node.type().numel() < kMostItems;
  if (few || !fits || plan.lines == 0) return std::make_unique<LineScatter>(graph, node);
  if (has_atomics && !is_float) return std::make_unique<AtomicScatter>(graph, node);
  return MakeSortedScatter(graph, node);
}

constexpr CallEntry kCalls[] = {{&ops::kScatter, MakeScatter}};

}  // namespace

std::span<const CallEntry> ScatterCalls() { return kCalls; }

}  // namespace hammock::cuda
