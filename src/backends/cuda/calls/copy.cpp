// Copies: permute, concat, pad, slices that are written, as_strided.
#include <algorithm>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/copies.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

/// Several copies one after another, each from one operand into the result.
class CopiesCall : public Call {
 public:
  std::vector<KernelSource> Sources() const override {
    std::vector<KernelSource> sources;
    for (size_t first : firsts_) sources.push_back(parts_[first].launch.Source());
    return sources;
  }
  void Run(Machine& machine, const Operands& operands) const override {
    if (whole_bytes_ > 0 && operands.in[0] != operands.out[0]) {
      machine.Copy(operands.out[0], operands.in[0], whole_bytes_);
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      const Part& part = parts_[i];
      part.launch.Run(machine, function(part.kernel), operands.in[part.operand], operands.out[0]);
    }
  }

 protected:
  void Add(size_t operand, compiler::Launch launch) {
    PreparedLaunch prepared(std::move(launch));
    auto same = std::ranges::find_if(
        firsts_, [&](size_t first) { return parts_[first].launch.HasSameKernel(prepared); });
    const size_t kernel = static_cast<size_t>(same - firsts_.begin());
    if (same == firsts_.end()) firsts_.push_back(parts_.size());
    parts_.push_back({operand, kernel, std::move(prepared)});
  }
  /// The result begins as a copy of operand 0, which may have its memory.
  void BeginAsFirst(int64_t bytes) { whole_bytes_ = bytes; }

 private:
  struct Part {
    size_t operand;
    size_t kernel;  // which of the sources
    PreparedLaunch launch;
  };
  std::vector<Part> parts_;
  std::vector<size_t> firsts_;  // the first part of each kernel; there are few kernels
  int64_t whole_bytes_ = 0;
};

Layout SliceLayout(const Dims& sizes, int64_t dim, int64_t start, int64_t step) {
  Layout layout = ContiguousLayout(sizes);
  int64_t& stride = layout.strides[static_cast<int>(dim)];
  layout.offset = start * stride;
  stride *= step;
  return layout;
}

class PermuteCall : public CopiesCall {
 public:
  PermuteCall(const Graph& graph, const GraphNode& node) {
    Dims strides = ContiguousStrides(graph.TypeOf(node.inputs[0]).sizes());
    Layout from;
    for (int64_t dim : node.attrs[0].ints()) from.strides.push_back(strides[static_cast<int>(dim)]);
    Add(0, CopyLaunch(node.type().dtype(), node.type().sizes(), from,
                      ContiguousLayout(node.type().sizes())));
  }
};

std::unique_ptr<Call> MakePermute(const Graph& graph, const GraphNode& node, const CallContext&) {
  if (std::unique_ptr<Call> call = MakeTranspose(graph, node)) return call;
  return std::make_unique<PermuteCall>(graph, node);
}

class ConcatCall : public CopiesCall {
 public:
  ConcatCall(const Graph& graph, const GraphNode& node) {
    int dim = static_cast<int>(node.attrs[0].integer());
    int64_t start = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Dims& sizes = graph.TypeOf(node.inputs[i]).sizes();
      Add(i, CopyLaunch(node.type().dtype(), sizes, ContiguousLayout(sizes),
                        SliceLayout(node.type().sizes(), dim, start, 1)));
      start += sizes[dim];
    }
  }
};

class PadCall : public CopiesCall {
 public:
  PadCall(const Graph& graph, const GraphNode& node) {
    const Dims& out = node.type().sizes();
    DType dtype = node.type().dtype();
    Layout same = {0, Dims::Filled(out.size(), 0)};
    Add(1,
        CastLaunch(graph.TypeOf(node.inputs[1]).dtype(), dtype, out, same, ContiguousLayout(out)));
    Dims kept = graph.TypeOf(node.inputs[0]).sizes();
    Layout from = ContiguousLayout(kept);
    Layout to = ContiguousLayout(out);
    for (int d = 0; d < kept.size(); ++d) {
      int64_t low = node.attrs[0].ints()[d];
      int64_t high = node.attrs[1].ints()[d];
      from.offset += std::max<int64_t>(-low, 0) * from.strides[d];
      to.offset += std::max<int64_t>(low, 0) * to.strides[d];
      kept[d] += std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0);
      if (kept[d] <= 0) return;
    }
    Add(0, CopyLaunch(dtype, kept, from, to));
  }
};

class UpdateSliceCall : public CopiesCall {
 public:
  UpdateSliceCall(const Graph& graph, const GraphNode& node) {
    BeginAsFirst(node.type().bytes());
    const Dims& sizes = graph.TypeOf(node.inputs[1]).sizes();
    Add(1, CopyLaunch(node.type().dtype(), sizes, ContiguousLayout(sizes),
                      SliceLayout(node.type().sizes(), node.attrs[0].integer(),
                                  node.attrs[1].integer(), node.attrs[2].integer())));
  }
};

class AsStridedCall : public CopiesCall {
 public:
  AsStridedCall(const Graph&, const GraphNode& node) {
    Layout from = {node.attrs[2].integer(), Dims(node.attrs[1].ints())};
    Add(0, CopyLaunch(node.type().dtype(), node.type().sizes(), from,
                      ContiguousLayout(node.type().sizes())));
  }
};

class AsStridedScatterCall : public CopiesCall {
 public:
  AsStridedScatterCall(const Graph& graph, const GraphNode& node) {
    BeginAsFirst(node.type().bytes());
    const Dims& sizes = graph.TypeOf(node.inputs[1]).sizes();
    Layout to = {node.attrs[1].integer(), Dims(node.attrs[0].ints())};
    Add(1, CopyLaunch(node.type().dtype(), sizes, ContiguousLayout(sizes), to));
  }
};

/// Bits as another dtype.
class SameBitsCall : public Call {
 public:
  SameBitsCall(const Graph&, const GraphNode& node) : bytes_(node.type().bytes()) {}
  void Run(Machine& machine, const Operands& operands) const override {
    if (operands.in[0] != operands.out[0] && bytes_ > 0) {
      machine.Copy(operands.out[0], operands.in[0], bytes_);
    }
  }

 private:
  int64_t bytes_;
};

constexpr CallEntry kCalls[] = {
    {&ops::kPermute, MakePermute},
    {&ops::kConcat, MakeNode<ConcatCall>},
    {&ops::kPad, MakeNode<PadCall>},
    {&ops::kUpdateSlice, MakeNode<UpdateSliceCall>},
    {&ops::kAsStrided, MakeNode<AsStridedCall>},
    {&ops::kAsStridedScatter, MakeNode<AsStridedScatterCall>},
    {&ops::kBitcast, MakeNode<SameBitsCall>},
    {&ops::kBarrier, MakeNode<SameBitsCall>},
};

}  // namespace

std::span<const CallEntry> CopyCalls() { return kCalls; }

}  // namespace hammock::cuda
