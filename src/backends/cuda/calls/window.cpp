// Windows: sums and maxima of them, where the maxima lie, and their gradient.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/window_args.h"
#include "backends/cuda/emit/cuda_text.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

using compiler::ReduceFn;

constexpr int64_t kMost32 = (int64_t{1} << 30) - 1;  // with room for sums of two

/// The dtype of running values.
DType WideOf(DType dtype) {
  if (IsFloat(dtype)) return DType::kF64;
  return InfoOf(dtype).kind == DTypeKind::kSigned ? DType::kI64 : DType::kU64;
}

ReduceFn FnOf(const std::string& kind) {
  if (kind == "sum") return ReduceFn::kSum;
  if (kind == "prod") return ReduceFn::kProd;
  return kind == "max" ? ReduceFn::kMax : ReduceFn::kMin;
}

/// Windows over planes: the last dims of an operand. Sizes, and what may follow from them, are
/// arguments of a kernel, so that one serves many.
class Windows {
 public:
  /// `in` is the operand's type, `out` has an element for each window; `first` is the attribute
  /// with the size of a window, the others follow.
  Windows(const Shape& in, const Shape& out, const GraphNode& node, size_t first)
      : in_(in),
        out_(out),
        window_(node.attrs[first].ints()),
        stride_(node.attrs[first + 1].ints()),
        low_(node.attrs[first + 2].ints()),
        dilation_(node.attrs[first + 4].ints()) {}

  const Shape& in() const { return in_; }
  const Shape& out() const { return out_; }
  int dims() const { return window_.size(); }
  size_t argument_bytes() const {
    return sizeof(WindowArgs<void, void, void>) +
           static_cast<size_t>(dims()) * sizeof(WindowDims<1>);
  }
  void AppendTo(std::vector<uint64_t>& arguments) const {
    const int skipped = in_.rank() - dims();
    for (int d = 0; d < dims(); ++d) arguments.push_back(Argument(out_.size(skipped + d)));
    for (int d = 0; d < dims(); ++d) arguments.push_back(Argument(in_.size(skipped + d)));
    Append(arguments, low_);
    Append(arguments, window_);
  }

  /// Notes them in the text of a kind of window.cuh.
  void AppendTo(TypeText& kind) const {
    Dims constant;
    for (int64_t size : window_) constant.push_back(size <= kUnrolled ? size : 0);
    kind.Type("Index", few() ? "int" : "int64_t")
        .Constant("kDims", int64_t{dims()})
        .Constants("kWindow", constant)
        .Constants("kStride", stride_)
        .Constants("kDilation", dilation_);
  }

 private:
  static constexpr int64_t kUnrolled = 16;  // a longer window may be all that there is

  /// Whether counts and indices, also those in the padding, fit into 32 bits.
  bool few() const {
    bool fits = in_.numel() <= kMost32 && out_.numel() <= kMost32;
    for (int d = 0; d < dims(); ++d) {
      auto number = [](int64_t x) { return static_cast<double>(x); };
      double last = number(out_.size(in_.rank() - dims() + d)) * number(stride_[d]);
      fits &= last + number(low_[d]) + number(window_[d]) * number(dilation_[d]) < kMost32;
    }
    return fits;
  }

  Shape in_, out_;
  Dims window_, stride_, low_, dilation_;
};

/// The text of a kind of window.cuh, computed in `wide`.
std::string KindText(const Windows& windows, ReduceFn fn, DType from, DType to, DType wide) {
  ScalarText scalars;
  TypeText kind("Kind");
  kind.Type("From", MemoryType(from)).Type("To", MemoryType(to)).Type("Wide", ValueType(wide));
  windows.AppendTo(kind);
  kind.Function("Wide identity()", scalars.Identity(fn, wide))
      .Function("Wide value(From x)", scalars.Cast(scalars.FromMemory("x", from), from, wide))
      .Function("Wide combine(Wide sum, Wide x)", scalars.Combine(fn, wide, "sum", "x"))
      .Function("To result(Wide x)", scalars.ToMemory(scalars.Cast("x", wide, to), to));
  return scalars.Functions() + kind.Text();
}

/// A thread for each window.
class WindowCall : public Call {
 public:
  WindowCall(const Graph& graph, const GraphNode& node)
      : arg_(node.op == &ops::kReduceWindowArg),
        fn_(arg_ ? ReduceFn::kMax : FnOf(node.attrs[0].str())),
        windows_(graph.TypeOf(node.inputs[0]), node.type(), node, arg_ ? 0 : 1) {}

  std::vector<KernelSource> Sources() const override {
    const DType dtype = windows_.in().dtype(), out = windows_.out().dtype();
    const DType wide = fn_ == ReduceFn::kSum ? WideOf(dtype) : dtype;
    return {SourceOf({.file = "window.cuh",
                      .function = arg_ ? "find_maxima<Kind, int64_t>" : "reduce_windows<Kind>",
                      .argument_bytes = windows_.argument_bytes(),
                      .definitions = KindText(windows_, fn_, dtype, arg_ ? dtype : out, wide)})};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    const int64_t count = windows_.out().numel();
    if (count == 0) return;
    std::vector<uint64_t> arguments = WordsOf(WindowArgs<void, void, void>{
        .count = count, .from = At(operands.in[0]), .to = At(operands.out[0])});
    windows_.AppendTo(arguments);
    machine.Launch(function(0), ElementGrid(count), arguments);
  }

 private:
  bool arg_;
  ReduceFn fn_;
  Windows windows_;
};

/// A thread for each window finds its maximum; then one for each element sums up the windows whose
/// maximum it is, in their order.
class MaxWindowBackwardCall : public Call {
 public:
  MaxWindowBackwardCall(const Graph& graph, const GraphNode& node)
      : windows_(node.type(), graph.TypeOf(node.inputs[0]), node, 0) {}

  std::vector<KernelSource> Sources() const override {
    auto kernel = [this](const char* function, DType wide) {
      return SourceOf({.file = "window.cuh",
                       .function = fmt::format("{}<Kind, {}>", function, IndexType()),
                       .argument_bytes = windows_.argument_bytes(),
                       .definitions = KindText(windows_, ReduceFn::kSum, dtype(), dtype(), wide)});
    };
    return {kernel("find_maxima", dtype()), kernel("sum_windows_of_maxima", WideOf(dtype()))};
  }
  int64_t scratch_bytes() const override { return windows_.out().numel() * (few() ? 4 : 8); }
  void Run(Machine& machine, const Operands& operands) const override {
    if (windows_.in().numel() == 0) return;
    auto launch = [&](size_t which, const WindowArgs<void, void, void>& args) {
      std::vector<uint64_t> arguments = WordsOf(args);
      windows_.AppendTo(arguments);
      if (args.count > 0) machine.Launch(function(which), ElementGrid(args.count), arguments);
    };
    launch(
        0,
        {.count = windows_.out().numel(), .from = At(operands.in[1]), .to = At(operands.scratch)});
    launch(1, {.count = windows_.in().numel(),
               .from = At(operands.in[0]),
               .to = At(operands.out[0]),
               .positions = At(operands.scratch)});
  }

 private:
  bool few() const { return windows_.in().numel() < kMost32; }
  DType dtype() const { return windows_.in().dtype(); }
  /// The type of indices; a window of padding only has the largest one.
  const char* IndexType() const { return few() ? "unsigned" : "uint64_t"; }

  Windows windows_;
};

std::string NoTruth(const Graph& graph, const GraphNode& node) {
  return graph.TypeOf(node.inputs[0]).dtype() == DType::kBool ? "its operand is of bool" : "";
}

constexpr CallEntry kCalls[] = {
    {&ops::kReduceWindow, MakeNode<WindowCall>, NoTruth},
    {&ops::kReduceWindowArg, MakeNode<WindowCall>, NoTruth},
    {&ops::kMaxWindowBackward, MakeNode<MaxWindowBackwardCall>},
};

}  // namespace

std::span<const CallEntry> WindowCalls() { return kCalls; }

}  // namespace hammock::cuda
