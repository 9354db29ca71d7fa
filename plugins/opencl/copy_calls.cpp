// Calls that move elements: permutes, pads, concatenations, slices.
#include <algorithm>

#include "calls.h"

namespace opencl {

using hammock::ContiguousStrides;
using hammock::Dims;
using Layout = CallBuilder::Layout;

namespace {

int64_t ElementBytes(CallBuilder& call) { return BytesOf(call.out().dtype()); }

Layout Contiguous(const Dims& sizes) { return {0, ContiguousStrides(sizes)}; }

/// Elements start, start + step, ... of a dim.
Layout SliceLayout(const Dims& sizes, int64_t dim, int64_t start, int64_t step) {
  Layout layout = Contiguous(sizes);
  int64_t& stride = layout.strides[static_cast<int>(dim)];
  layout.offset = start * stride;
  stride *= step;
  return layout;
}

void ReadBy(CallBuilder& call, const Layout& layout) {
  const Dims& sizes = call.out().sizes();
  call.Copy(sizes, ElementBytes(call), call.In(0), layout, call.Out(), Contiguous(sizes));
}

/// A copy of operand 0 whose elements at a layout are those of operand 1.
void WriteBy(CallBuilder& call, const Layout& layout) {
  call.CopyWhole(call.In(0), call.Out(), call.out().bytes());
  const Dims& sizes = call.in(1).sizes();
  call.Copy(sizes, ElementBytes(call), call.In(1), Contiguous(sizes), call.Out(), layout);
}

void Permute(CallBuilder& call) {
  const Dims strides = ContiguousStrides(call.in(0).sizes());
  Layout layout;
  for (int64_t dim : call.node().attr("dims").ints()) {
    layout.strides.push_back(strides[static_cast<int>(dim)]);
  }
  ReadBy(call, layout);
}

void Concat(CallBuilder& call) {
  const int64_t dim = call.node().attr("dim").integer();
  int64_t start = 0;
  for (int i = 0; i < call.inputs(); ++i) {
    const Dims& sizes = call.in(i).sizes();
    call.Copy(sizes, ElementBytes(call), call.In(i), Contiguous(sizes), call.Out(),
              SliceLayout(call.out().sizes(), dim, start, 1));
    start += sizes[static_cast<int>(dim)];
  }
}

void Pad(CallBuilder& call) {
  const auto& low = call.node().attr("low").ints();
  const auto& high = call.node().attr("high").ints();
  const hammock::DType dtype = call.out().dtype();
  Dims kept = call.in(0).sizes();
  const Dims none = Dims::Filled(call.out().rank(), 0);
  call.Copy(call.out().sizes(), BytesOf(dtype), call.In(1), {0, none}, call.Out(),
            Contiguous(call.out().sizes()));
  Layout from = Contiguous(kept), to = Contiguous(call.out().sizes());
  for (int d = 0; d < kept.size(); ++d) {
    from.offset += std::max<int64_t>(-low[d], 0) * from.strides[d];
    to.offset += std::max<int64_t>(low[d], 0) * to.strides[d];
    kept[d] += std::min<int64_t>(low[d], 0) + std::min<int64_t>(high[d], 0);
    if (kept[d] <= 0) return;
  }
  call.Copy(kept, BytesOf(dtype), call.In(0), from, call.Out(), to);
}

std::string NeedsOneDType(const hammock::Graph& graph, const hammock::GraphNode& node) {
  const bool same = graph.TypeOf(node.inputs[0]).dtype() == graph.TypeOf(node.inputs[1]).dtype();
  return same ? "" : "the number has another dtype";
}

void UpdateSlice(CallBuilder& call) {
  const auto& node = call.node();
  WriteBy(call, SliceLayout(call.out().sizes(), node.attr("dim").integer(),
                            node.attr("start").integer(), node.attr("step").integer()));
}

void AsStrided(CallBuilder& call) {
  ReadBy(call, {call.node().attr("offset").integer(), Dims(call.node().attr("strides").ints())});
}

void AsStridedScatter(CallBuilder& call) {
  WriteBy(call, {call.node().attr("offset").integer(), Dims(call.node().attr("strides").ints())});
}

}  // namespace

std::vector<CallEntry> CopyCalls() {
  return {{"permute", Permute},
          {"concat", Concat},
          {"pad_constant", Pad, NeedsOneDType},
          {"update_slice", UpdateSlice},
          {"as_strided", AsStrided},
          {"as_strided_scatter", AsStridedScatter}};
}

}  // namespace opencl
