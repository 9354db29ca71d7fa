#include <cstring>

#include "backends/reference/elements.h"
#include "backends/reference/kernel.h"
#include "ir/primitives.h"

namespace hammock::reference {
namespace {

/// A result that reads `self` by a layout.
void ReadStrided(KernelCall& call, const Strided& layout) {
  HostTensor& out = call.NewResult();
  const Dims& sizes = out.shape().sizes();
  CopyStrided(sizes, *call.in[0], layout, out, Contiguous(sizes));
}

/// A copy of `self` whose elements at a layout are those of `source`.
void WriteStrided(KernelCall& call, const Strided& layout) {
  HostTensor& out = call.NewResult();
  const HostTensor& source = *call.in[1];
  std::memcpy(out.mutable_data(), call.in[0]->data(), out.bytes());
  const Dims& sizes = source.shape().sizes();
  CopyStrided(sizes, source, Contiguous(sizes), out, layout);
}

void RunReshape(KernelCall& call) {
  call.out[0] = HostTensor(call.node.type(), call.in[0]->storage());
}

void RunBroadcast(KernelCall& call) {
  ReadStrided(call, BroadcastLayout(call.in[0]->shape().sizes(), call.node.type().sizes()));
}

void RunPermute(KernelCall& call) {
  Dims strides = ContiguousStrides(call.in[0]->shape().sizes());
  Strided layout;
  for (int64_t dim : call.node.attrs[0].ints()) {
    layout.strides.push_back(strides[static_cast<int>(dim)]);
  }
  ReadStrided(call, layout);
}

/// The layout of elements start, start + step, ... of `dim`.
Strided SliceLayout(const Dims& sizes, int64_t dim, int64_t start, int64_t step) {
  Strided layout = Contiguous(sizes);
  int64_t& stride = layout.strides[static_cast<int>(dim)];
  layout.offset = start * stride;
  stride *= step;
  return layout;
}

/// A start that is known only now; PyTorch's words for one that is out of range.
int64_t CheckedStart(const KernelCall& call, const HostTensor& start, int64_t dim, int64_t size,
                     int64_t step) {
  int64_t value = start.at(0).ToInt();
  int64_t extent = call.in[0]->shape().size(static_cast<int>(dim));
  int64_t span = size == 0 ? 0 : (size - 1) * step + 1;
  if (value < 0 || value > extent - span) {
    Fail(call, ErrorCode::kIndexOutOfRange,
         "start ({}) + length ({}) exceeds dimension size ({}) of dimension {}", value, span,
         extent, dim);
  }
  return value;
}

void RunSlice(KernelCall& call) {
  const SharedList<Attr>& attrs = call.node.attrs;
  ReadStrided(call, SliceLayout(call.in[0]->shape().sizes(), attrs[0].integer(), attrs[1].integer(),
                                attrs[3].integer()));
}

void RunDynamicSlice(KernelCall& call) {
  int64_t dim = call.node.attrs[0].integer();
  int64_t step = call.node.attrs[2].integer();
  int64_t start = CheckedStart(call, *call.in[1], dim, call.node.attrs[1].integer(), step);
  ReadStrided(call, SliceLayout(call.in[0]->shape().sizes(), dim, start, step));
}

void RunUpdateSlice(KernelCall& call) {
  const SharedList<Attr>& attrs = call.node.attrs;
  WriteStrided(call, SliceLayout(call.in[0]->shape().sizes(), attrs[0].integer(),
                                 attrs[1].integer(), attrs[2].integer()));
}

void RunDynamicUpdateSlice(KernelCall& call) {
  int64_t dim = call.node.attrs[0].integer();
  int64_t step = call.node.attrs[1].integer();
  int64_t size = call.in[1]->shape().size(static_cast<int>(dim));
  int64_t start = CheckedStart(call, *call.in[2], dim, size, step);
  WriteStrided(call, SliceLayout(call.in[0]->shape().sizes(), dim, start, step));
}

/// A tensor of one element, repeated over a result.
void Fill(const HostTensor& value, HostTensor& out) {
  const Dims& sizes = out.shape().sizes();
  CopyStrided(sizes, value, {0, Dims::Filled(sizes.size(), 0)}, out, Contiguous(sizes));
}

void RunPad(KernelCall& call) {
  const HostTensor& self = *call.in[0];
  const std::vector<int64_t>& low = call.node.attrs[0].ints();
  const std::vector<int64_t>& high = call.node.attrs[1].ints();
  HostTensor& out = call.NewResult();
  Fill(call.in[1]->To(self.dtype()), out);
  Dims kept = self.shape().sizes();
  Strided from = Contiguous(kept);
  Strided to = Contiguous(out.shape().sizes());
  for (int d = 0; d < kept.size(); ++d) {
    from.offset += std::max<int64_t>(-low[d], 0) * from.strides[d];
    to.offset += std::max<int64_t>(low[d], 0) * to.strides[d];
    kept[d] += std::min<int64_t>(low[d], 0) + std::min<int64_t>(high[d], 0);
    if (kept[d] <= 0) return;
  }
  CopyStrided(kept, self, from, out, to);
}

void RunConcat(KernelCall& call) {
  int dim = static_cast<int>(call.node.attrs[0].integer());
  HostTensor& out = call.NewResult();
  int64_t start = 0;
  for (const HostTensor* part : call.in) {
    const Dims& sizes = part->shape().sizes();
    CopyStrided(sizes, *part, Contiguous(sizes), out,
                SliceLayout(out.shape().sizes(), dim, start, 1));
    start += sizes[dim];
  }
}

void RunFlip(KernelCall& call) {
  const Dims& sizes = call.in[0]->shape().sizes();
  Strided layout = Contiguous(sizes);
  for (int64_t dim : call.node.attrs[0].ints()) {
    if (sizes.empty()) break;  // the dim 0 of a 0-d tensor
    int d = static_cast<int>(dim);
    layout.offset += (sizes[d] - 1) * layout.strides[d];
    layout.strides[d] = -layout.strides[d];
  }
  ReadStrided(call, layout);
}

void RunAsStrided(KernelCall& call) {
  ReadStrided(call, {call.node.attrs[2].integer(), call.node.attrs[1].ints()});
}

void RunAsStridedScatter(KernelCall& call) {
  WriteStrided(call, {call.node.attrs[1].integer(), call.node.attrs[0].ints()});
}

constexpr KernelEntry kKernels[] = {
    {&ops::kReshape, RunReshape},
    {&ops::kBroadcast, RunBroadcast},
    {&ops::kPermute, RunPermute},
    {&ops::kSlice, RunSlice},
    {&ops::kDynamicSlice, RunDynamicSlice},
    {&ops::kUpdateSlice, RunUpdateSlice},
    {&ops::kDynamicUpdateSlice, RunDynamicUpdateSlice},
    {&ops::kPad, RunPad},
    {&ops::kConcat, RunConcat},
    {&ops::kFlip, RunFlip},
    {&ops::kAsStrided, RunAsStrided},
    {&ops::kAsStridedScatter, RunAsStridedScatter},
};

}  // namespace

std::span<const KernelEntry> ShapeKernels() { return kKernels; }

}  // namespace hammock::reference
