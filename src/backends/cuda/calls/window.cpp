// Windows: sums and maxima of them, where the maxima lie, and their gradient.
#include <fmt/format.h>

#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/emit/cuda_text.h"
#include "backends/cuda/emit/scalar_text.h"
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
  int argument_count() const { return 4 * dims(); }
  void AppendTo(std::vector<uint64_t>& arguments) const {
    const int skipped = in_.rank() - dims();
    for (int d = 0; d < dims(); ++d) arguments.push_back(Argument(out_.size(skipped + d)));
    for (int d = 0; d < dims(); ++d) arguments.push_back(Argument(in_.size(skipped + d)));
    Append(arguments, low_);
    Append(arguments, window_);
  }

  /// Lines that run `body` for each element of window `i` that is no padding: its `place` in the
  /// plane, which begins at `plane`. The arguments begin at `first`.
  std::string ForEachElement(int first, const std::string& body) const {
    std::string text = Coordinates(out_, first, "o");
    for (int d = 0; d < dims(); ++d) {
      text += fmt::format(
          "  for (I t{0} = 0; t{0} < {1}; ++t{0}) {{\n"
          "  const I p{0} = o{0} * {2} - {3} + t{0} * {4};\n"
          "  if (p{0} < 0 || p{0} >= {5}) continue;\n",
          d, WindowText(first, d), stride_[d], Low(first, d), dilation_[d], In(first, d));
    }
    return text + "  const I place = " + Flat(first, "p", &Windows::In) + ";\n" + body +
           Close(dims());
  }
  /// Lines that run `body` for each window that element `i` of the operand is in: its number
  /// `window`; `mine` is the place of the element in its plane. In the order of their numbers.
  std::string ForEachWindow(int first, const std::string& body) const {
    std::string text = Coordinates(in_, first, "p");
    text += "  const I mine = " + Flat(first, "p", &Windows::In) + ";\n";
    for (int d = 0; d < dims(); ++d) {
      // From the window whose last element it is to the one whose first.
      text += fmt::format(
          "  const I end{0} = p{0} + {1}, span{0} = ({2} - 1) * {3};\n"
          "  for (I o{0} = end{0} > span{0} ? (end{0} - span{0} + {4}) / {5} : 0;\n"
          "       o{0} < {6} && o{0} * {5} <= end{0}; ++o{0}) {{\n",
          d, Low(first, d), WindowText(first, d), dilation_[d], stride_[d] - 1, stride_[d],
          Out(first, d));
      if (dilation_[d] > 1) {
        text += fmt::format("  if ((end{0} - o{0} * {1}) % {2} != 0) continue;\n", d, stride_[d],
                            dilation_[d]);
      }
    }
    return text + "  const long long window = (long long)rest * " + Product(first, &Windows::Out) +
           " + " + Flat(first, "o", &Windows::Out) + ";\n" + body + Close(dims());
  }
  /// The elements of a plane of the operand.
  std::string PlaneSize(int first) const { return Product(first, &Windows::In); }

 private:
  static constexpr int64_t kUnrolled = 16;  // a longer window may be all that there is

  /// Whether numbers and places, also those in the padding, fit into 32 bits.
  bool few() const {
    bool fits = in_.numel() <= kMost32 && out_.numel() <= kMost32;
    for (int d = 0; d < dims(); ++d) {
      auto number = [](int64_t x) { return static_cast<double>(x); };
      double last = number(out_.size(in_.rank() - dims() + d)) * number(stride_[d]);
      fits &= last + number(low_[d]) + number(window_[d]) * number(dilation_[d]) < kMost32;
    }
    return fits;
  }

  using Number = std::string (Windows::*)(int first, int d) const;
  std::string Out(int first, int d) const { return ArgumentText(first + d); }
  std::string In(int first, int d) const { return ArgumentText(first + dims() + d); }
  std::string Low(int first, int d) const { return ArgumentText(first + 2 * dims() + d); }
  std::string WindowText(int first, int d) const {
    if (window_[d] <= kUnrolled) return fmt::format("{}", window_[d]);
    return ArgumentText(first + 3 * dims() + d);
  }
  static std::string ArgumentText(int index) { return fmt::format("(I)w{}", index); }

  /// Lines that set `name`0, `name`1, ... to the coordinates of `i` in planes of `type`, and `rest`
  /// to the number of the plane.
  std::string Coordinates(const Shape& type, int first, const char* name) const {
    std::string text =
        fmt::format("  typedef {} I;\n  I rest = (I)i;\n", few() ? "int" : "long long");
    const int sizes = first + (&type == &out_ ? 0 : dims());
    for (int d = dims(); d-- > 0;) {
      text +=
          fmt::format("  const I {0}{1} = rest % (I)w{2}; rest /= (I)w{2};\n", name, d, sizes + d);
    }
    return text;
  }
  std::string Flat(int first, const char* name, Number size) const {
    std::string place = fmt::format("{}0", name);
    for (int d = 1; d < dims(); ++d) {
      place = fmt::format("({}) * {} + {}{}", place, (this->*size)(first, d), name, d);
    }
    return place;
  }
  std::string Product(int first, Number size) const {
    std::string product = "(I)1";
    for (int d = 0; d < dims(); ++d) product += " * " + (this->*size)(first, d);
    return product;
  }
  static std::string Close(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += "  }\n";
    return text;
  }

  Shape in_, out_;
  Dims window_, stride_, low_, dilation_;
};

/// Lines that keep the maximum in `value` and where it is in `at`: the first one, but the last NaN.
constexpr const char* kKeepMaximum =
    "  if (at < 0 || x != x || x > value) { value = x; at = place; }\n";

/// A thread for each window.
class WindowCall : public Call {
 public:
  WindowCall(const Graph& graph, const GraphNode& node)
      : arg_(node.op == &ops::kReduceWindowArg),
        fn_(arg_ ? ReduceFn::kMax : FnOf(node.attrs[0].str())),
        windows_(graph.TypeOf(node.inputs[0]), node.type(), node, arg_ ? 0 : 1) {}

  std::vector<KernelSource> Sources() const override {
    ScalarText scalars;
    const DType dtype = windows_.in().dtype(), out = windows_.out().dtype();
    const DType wide = fn_ == ReduceFn::kSum ? WideOf(dtype) : dtype;
    std::string x =
        scalars.FromMemory(fmt::format("((const {}*)w1)[(long long)rest * {} + place]",
                                       MemoryType(dtype), windows_.PlaneSize(kArguments)),
                           dtype);
    std::string body = fmt::format("  {} value = {};\n  long long at = -1;\n", ValueType(wide),
                                   scalars.Identity(fn_, wide));
    body += windows_.ForEachElement(
        kArguments,
        arg_ ? fmt::format("  const {} x = {};\n", ValueType(dtype), x) + kKeepMaximum
             : fmt::format("  value = {};\n",
                           scalars.Combine(fn_, wide, "value", scalars.Cast(x, dtype, wide))));
    body += arg_ ? "  ((long long*)w2)[i] = at;\n"
                 : fmt::format("  (({}*)w2)[i] = {};\n", MemoryType(out),
                               scalars.ToMemory(scalars.Cast("value", wide, out), out));
    return {ElementKernel(kArguments + windows_.argument_count(), scalars.Functions(), body)};
  }
  void Run(Machine& machine, const Operands& operands) const override {
    const int64_t count = windows_.out().numel();
    if (count == 0) return;
    std::vector<uint64_t> arguments = {Argument(count), operands.in[0], operands.out[0]};
    windows_.AppendTo(arguments);
    machine.Launch(function(0), ElementGrid(count), arguments);
  }

 private:
  static constexpr int kArguments = 3;

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

  std::vector<KernelSource> Sources() const override { return {FindSource(), SumSource()}; }
  int64_t scratch_bytes() const override { return windows_.out().numel() * (few() ? 4 : 8); }
  void Run(Machine& machine, const Operands& operands) const override {
    if (windows_.in().numel() == 0) return;
    std::vector<uint64_t> arguments = {Argument(windows_.out().numel()), operands.in[0],
                                       operands.in[1], operands.out[0], operands.scratch};
    windows_.AppendTo(arguments);
    if (windows_.out().numel() > 0) {
      machine.Launch(function(0), ElementGrid(windows_.out().numel()), arguments);
    }
    arguments[0] = Argument(windows_.in().numel());
    machine.Launch(function(1), ElementGrid(windows_.in().numel()), arguments);
  }

 private:
  static constexpr int kArguments = 5;

  bool few() const { return windows_.in().numel() < kMost32; }
  DType dtype() const { return windows_.in().dtype(); }
  /// The type of places; a window of padding only has the largest one.
  const char* IndexType() const { return few() ? "unsigned" : "unsigned long long"; }

  KernelSource FindSource() const {
    ScalarText scalars;
    std::string x =
        scalars.FromMemory(fmt::format("((const {}*)w2)[(long long)rest * {} + place]",
                                       MemoryType(dtype()), windows_.PlaneSize(kArguments)),
                           dtype());
    std::string body = fmt::format("  {} value = 0;\n  long long at = -1;\n", ValueType(dtype()));
    body += windows_.ForEachElement(
        kArguments, fmt::format("  const {} x = {};\n", ValueType(dtype()), x) + kKeepMaximum);
    body += fmt::format("  (({0}*)w4)[i] = ({0})at;\n", IndexType());
    return ElementKernel(kArguments + windows_.argument_count(), scalars.Functions(), body);
  }
  KernelSource SumSource() const {
    ScalarText scalars;
    const DType wide = WideOf(dtype());
    std::string x = scalars.Cast(
        scalars.FromMemory(fmt::format("((const {}*)w1)[window]", MemoryType(dtype())), dtype()),
        dtype(), wide);
    std::string body = fmt::format("  {} sum = 0;\n", ValueType(wide));
    body += windows_.ForEachWindow(
        kArguments, fmt::format("  if (((const {0}*)w4)[window] == ({0})mine) sum = {1};\n",
                                IndexType(), scalars.Combine(ReduceFn::kSum, wide, "sum", x)));
    body += fmt::format("  (({}*)w3)[i] = {};\n", MemoryType(dtype()),
                        scalars.ToMemory(scalars.Cast("sum", wide, dtype()), dtype()));
    return ElementKernel(kArguments + windows_.argument_count(), scalars.Functions(), body);
  }

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
