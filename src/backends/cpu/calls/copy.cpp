// Calls that move elements to positions that are known when they are compiled, up to a start.

#include <cstring>

#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/host/strided_copy.h"
#include "hammock/host_tensor.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

using Operands = std::span<const char* const>;
using Results = std::span<char* const>;

/// The value of a tensor of one element.
HostTensor OneElement(const Shape& type, const char* bytes) {
  return HostTensor::Copy(type, bytes);
}

class PermuteCall : public Call {
 public:
  PermuteCall(const Graph& graph, const GraphNode& node) {
    Dims from = ContiguousStrides(graph.TypeOf(node.inputs[0]).sizes());
    Dims strides;
    for (int64_t dim : node.attrs[0].ints()) strides.push_back(from[static_cast<int>(dim)]);
    const Dims& sizes = node.type().sizes();
    copy_ =
        StridedCopy(ElementBytes(node.type().dtype()), sizes, strides, ContiguousStrides(sizes));
  }
  void Run(Operands in, Results out, char*) const override { copy_.Run(in[0], out[0]); }
  const char* kernel() const override { return "transposing copy"; }

 private:
  StridedCopy copy_;
};

class ConcatCall : public Call {
 public:
  ConcatCall(const Graph& graph, const GraphNode& node) {
    int64_t dim = node.attrs[0].integer();
    int64_t bytes = ElementBytes(node.type().dtype());
    CallAxis axis(node.type().sizes(), dim);
    outer_ = axis.outer;
    step_ = axis.extent * axis.inner * bytes;
    for (GraphValue part : node.inputs) {
      CallAxis part_axis(graph.TypeOf(part).sizes(), dim);
      parts_.push_back(part_axis.extent * axis.inner * bytes);
    }
  }
  void Run(Operands in, Results out, char*) const override {
    char* to = out[0];
    for (size_t i = 0; i < parts_.size(); ++i) {
      CopyRows(outer_, parts_[i], in[i], parts_[i], to, step_);
      to += parts_[i];
    }
  }
  const char* kernel() const override { return "row copies"; }

 private:
  int64_t outer_;
  int64_t step_;
  std::vector<int64_t> parts_;
};

/// Slices along one dim, read or written.
class SliceCall : public Call {
 protected:
  /// `sliced` is the tensor with the slice, which has `size` elements.
  SliceCall(const GraphNode& node, const Shape& sliced, int64_t dim, int64_t size, int64_t step)
      : node_(node),
        dim_(dim),
        size_(size),
        step_(step),
        bytes_(ElementBytes(sliced.dtype())),
        axis_(sliced.sizes(), dim) {
    Dims sizes = {axis_.outer, size, axis_.inner};
    Dims whole = {axis_.extent * axis_.inner, step * axis_.inner, 1};
    Dims slice = {size * axis_.inner, axis_.inner, 1};
    read_ = StridedCopy(bytes_, sizes, whole, slice);
    write_ = StridedCopy(bytes_, sizes, slice, whole);
  }

  int64_t CheckedStart(const Shape& type, const char* start) const {
    int64_t value = OneElement(type, start).at(0).ToInt();
    int64_t span = size_ == 0 ? 0 : (size_ - 1) * step_ + 1;
    if (value < 0 || value > axis_.extent - span) {
      FailNode(node_, ErrorCode::kIndexOutOfRange,
               "start ({}) + length ({}) exceeds dimension size ({}) of dimension {}", value, span,
               axis_.extent, dim_);
    }
    return value;
  }

  void Read(const char* whole, int64_t start, char* slice) const {
    read_.Run(whole + start * axis_.inner * bytes_, slice);
  }

  void Write(const char* whole, const char* slice, int64_t start, char* out) const {
    int64_t inner = axis_.inner * bytes_;
    int64_t row = axis_.extent * inner;
    if (whole == out) {
      // The result has taken the memory of the operand.
    } else if (step_ == 1) {
      int64_t end = start + size_;
      CopyRows(axis_.outer, start * inner, whole, row, out, row);
      CopyRows(axis_.outer, row - end * inner, whole + end * inner, row, out + end * inner, row);
    } else {
      CopyBytes(whole, out, axis_.outer * row);
    }
    write_.Run(slice, out + start * inner);
  }

 private:
  const GraphNode& node_;
  int64_t dim_;
  int64_t size_;
  int64_t step_;
  int64_t bytes_;
  CallAxis axis_;
  StridedCopy read_;
  StridedCopy write_;
};

class DynamicSliceCall : public SliceCall {
 public:
  DynamicSliceCall(const Graph& graph, const GraphNode& node)
      : SliceCall(node, graph.TypeOf(node.inputs[0]), node.attrs[0].integer(),
                  node.attrs[1].integer(), node.attrs[2].integer()),
        start_(graph.TypeOf(node.inputs[1])) {}
  void Run(Operands in, Results out, char*) const override {
    Read(in[0], CheckedStart(start_, in[1]), out[0]);
  }
  void Check(Operands in) const override { CheckedStart(start_, in[1]); }
  const char* kernel() const override { return "strided copy"; }

 private:
  Shape start_;
};

class UpdateSliceCall : public SliceCall {
 public:
  UpdateSliceCall(const Graph& graph, const GraphNode& node)
      : SliceCall(node, node.type(), node.attrs[0].integer(),
                  graph.TypeOf(node.inputs[1]).size(static_cast<int>(node.attrs[0].integer())),
                  node.attrs[2].integer()),
        start_(node.attrs[1].integer()) {}
  void Run(Operands in, Results out, char*) const override { Write(in[0], in[1], start_, out[0]); }
  const char* kernel() const override { return "strided copy"; }

 private:
  int64_t start_;
};

class DynamicUpdateSliceCall : public SliceCall {
 public:
  DynamicUpdateSliceCall(const Graph& graph, const GraphNode& node)
      : SliceCall(node, node.type(), node.attrs[0].integer(),
                  graph.TypeOf(node.inputs[1]).size(static_cast<int>(node.attrs[0].integer())),
                  node.attrs[1].integer()),
        start_(graph.TypeOf(node.inputs[2])) {}
  void Run(Operands in, Results out, char*) const override {
    Write(in[0], in[1], CheckedStart(start_, in[2]), out[0]);
  }
  void Check(Operands in) const override { CheckedStart(start_, in[2]); }
  const char* kernel() const override { return "strided copy"; }

 private:
  Shape start_;
};

class AsStridedCall : public Call {
 public:
  AsStridedCall(const Graph&, const GraphNode& node)
      : offset_(node.attrs[2].integer() * ElementBytes(node.type().dtype())),
        copy_(ElementBytes(node.type().dtype()), node.type().sizes(), node.attrs[1].ints(),
              ContiguousStrides(node.type().sizes())) {}
  void Run(Operands in, Results out, char*) const override { copy_.Run(in[0] + offset_, out[0]); }
  const char* kernel() const override { return "strided copy"; }

 private:
  int64_t offset_;
  StridedCopy copy_;
};

class AsStridedScatterCall : public Call {
 public:
  AsStridedScatterCall(const Graph& graph, const GraphNode& node)
      : bytes_(node.type().bytes()),
        offset_(node.attrs[1].integer() * ElementBytes(node.type().dtype())) {
    const Dims& sizes = graph.TypeOf(node.inputs[1]).sizes();
    copy_ = StridedCopy(ElementBytes(node.type().dtype()), sizes, ContiguousStrides(sizes),
                        node.attrs[0].ints());
  }
  void Run(Operands in, Results out, char*) const override {
    CopyBytes(in[0], out[0], bytes_);
    copy_.Run(in[1], out[0] + offset_);
  }
  const char* kernel() const override { return "strided copy"; }

 private:
  int64_t bytes_;
  int64_t offset_;
  StridedCopy copy_;
};

/// Results are written row by row: what lies before, the elements, what lies behind.
class PadCall : public Call {
 public:
  PadCall(const Graph& graph, const GraphNode& node)
      : dtype_(node.type().dtype()),
        bytes_(ElementBytes(dtype_)),
        value_(graph.TypeOf(node.inputs[1])) {
    const Dims& in = graph.TypeOf(node.inputs[0]).sizes();
    const Dims& out = node.type().sizes();
    const std::vector<int64_t>& low = node.attrs[0].ints();
    int64_t inner = 1;
    for (int d = out.size(); d-- > 0;) {
      int64_t before = low[d];
      if (rank_ == 0 && before == 0 && in[d] == out[d]) {
        inner *= out[d];
        continue;
      }
      int64_t scale = rank_ == 0 ? inner : 1;  // the first that is padded takes those behind it
      dims_[rank_++] = {out[d] * scale, in[d] * scale, before * scale};
    }
    if (rank_ == 0) dims_[rank_++] = {inner, inner, 0};
    rows_ = 1;
    for (int d = 1; d < rank_; ++d) rows_ *= dims_[d].out;
  }

  void Run(Operands in, Results out, char*) const override {
    HostTensor value = OneElement(value_, in[1]).To(dtype_);
    VisitBytes(bytes_, [&]<int kBytes>(std::integral_constant<int, kBytes>) {
      using T = Word<kBytes>;
      T fill;
      std::memcpy(&fill, value.data(), kBytes);
      const T* source = reinterpret_cast<const T*>(in[0]);
      T* target = reinterpret_cast<T*>(out[0]);
      Spread(rows_, dims_[0].out * kBytes, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) FillRow(row, fill, source, target);
      });
    });
  }
  const char* kernel() const override { return "row copies"; }

 private:
  struct PaddedDim {
    int64_t out;
    int64_t in;
    int64_t low;
  };

  template <class T>
  void FillRow(int64_t row, T fill, const T* in, T* out) const {
    out += row * dims_[0].out;
    int64_t from = 0;
    int64_t stride = dims_[0].in;
    bool inside = true;
    for (int d = 1; d < rank_; ++d) {
      int64_t at = row % dims_[d].out - dims_[d].low;
      row /= dims_[d].out;
      inside &= at >= 0 && at < dims_[d].in;
      from += at * stride;
      stride *= dims_[d].in;
    }
    int64_t width = dims_[0].out;
    int64_t first = inside ? std::clamp<int64_t>(dims_[0].low, 0, width) : width;
    int64_t last = inside ? std::clamp<int64_t>(dims_[0].low + dims_[0].in, first, width) : width;
    std::fill(out, out + first, fill);
    if (last > first) {
      std::memcpy(out + first, in + from + (first - dims_[0].low),
                  static_cast<size_t>(last - first) * sizeof(T));
    }
    std::fill(out + last, out + width, fill);
  }

  DType dtype_;
  int64_t bytes_;
  Shape value_;
  int rank_ = 0;
  PaddedDim dims_[kMaxRank];  // the innermost first
  int64_t rows_;
};

/// A result with the bits of the first operand. The schedule lets both have one buffer.
class SameBitsCall : public Call {
 public:
  SameBitsCall(const Graph&, const GraphNode& node) : bytes_(node.type().bytes()) {}
  void Run(Operands in, Results out, char*) const override { CopyBytes(in[0], out[0], bytes_); }
  const char* kernel() const override { return "copy"; }

 private:
  int64_t bytes_;
};

class RequireCall : public Call {
 public:
  RequireCall(const Graph& graph, const GraphNode& node)
      : node_(node),
        bytes_(node.type().bytes()),
        conditions_(graph.TypeOf(node.inputs[1]).numel()) {}
  void Run(Operands in, Results out, char*) const override {
    if (conditions_ > 0 && std::memchr(in[1], 0, static_cast<size_t>(conditions_))) {
      throw ValueError(ErrorCode::kValue, node_.attrs[0].str());
    }
    if (out[0] != in[0]) CopyBytes(in[0], out[0], bytes_);
  }
  const char* kernel() const override { return "check"; }

 private:
  const GraphNode& node_;
  int64_t bytes_;
  int64_t conditions_;
};

std::unique_ptr<Call> MakeRequire(const Graph& graph, const GraphNode& node) {
  if (graph.TypeOf(node.inputs[1]).dtype() != DType::kBool) return nullptr;
  return std::make_unique<RequireCall>(graph, node);
}

constexpr CallEntry kCalls[] = {
    {&ops::kPermute, MakeNode<PermuteCall>},
    {&ops::kConcat, MakeNode<ConcatCall>},
    {&ops::kPad, MakeNode<PadCall>},
    {&ops::kDynamicSlice, MakeNode<DynamicSliceCall>},
    {&ops::kUpdateSlice, MakeNode<UpdateSliceCall>},
    {&ops::kDynamicUpdateSlice, MakeNode<DynamicUpdateSliceCall>},
    {&ops::kAsStrided, MakeNode<AsStridedCall>},
    {&ops::kAsStridedScatter, MakeNode<AsStridedScatterCall>},
    {&ops::kBitcast, MakeNode<SameBitsCall>},
    {&ops::kRequire, MakeRequire},
    {&ops::kBarrier, MakeNode<SameBitsCall>},
};

}  // namespace

std::span<const CallEntry> CopyCalls() { return kCalls; }

}  // namespace hammock::cpu
