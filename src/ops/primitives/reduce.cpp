#include "hammock/op_builder.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/operators.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/cost.h"
#include "ops/kit/record.h"
#include "ops/primitives/complex_parts.h"

namespace hammock::ops {
namespace {

/// The type without the reduced dims, or with size 1 there. No dims means that nothing is reduced.
Shape Reduced(const InferCall& call, const Shape& self, std::span<const int64_t> dims,
              bool keepdim) {
  bool reduced[kMaxRank] = {};
  for (int64_t dim : dims) {
    int d = CheckedDim(call, dim, self);
    if (reduced[d]) {
      Refuse(call, ErrorCode::kValue, "dim {} appears multiple times in the list of dims", d);
    }
    reduced[d] = true;
  }
  Dims sizes;
  for (int d = 0; d < self.rank(); ++d) {
    if (!reduced[d]) sizes.push_back(self.size(d));
    if (reduced[d] && keepdim) sizes.push_back(1);
  }
  return self.With(sizes);
}

void RequireNonEmpty(const InferCall& call, const Shape& self, int64_t dim) {
  if (ExtentOf(self, static_cast<int>(dim)) > 0) return;
  Refuse(call, ErrorCode::kEmptyTensor,
         "expected reduction dim {} of {} to have non-zero size: there is no identity", dim,
         self.to_string());
}

void InferArithmetic(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, self.dtype() != DType::kBool, self, "a number dtype; cast first");
  call.out = {Reduced(call, self, call.attrs[0].ints(), call.attrs[1].boolean())};
}

void InferExtremum(const InferCall& call) {
  const Shape& self = *call.in[0];
  Shape result = Reduced(call, self, call.attrs[0].ints(), call.attrs[1].boolean());
  for (int64_t dim : call.attrs[0].ints()) RequireNonEmpty(call, self, dim);
  call.out = {result};
}

void InferTruth(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, self.dtype() == DType::kBool, self, "bool; cast first");
  call.out = {Reduced(call, self, call.attrs[0].ints(), call.attrs[1].boolean())};
}

void InferArg(const InferCall& call) {
  const Shape& self = *call.in[0];
  int64_t dim = call.attrs[0].integer();
  Shape result = Reduced(call, self, {&dim, 1}, call.attrs[1].boolean());
  RequireNonEmpty(call, self, dim);
  call.out = {result.With(DType::kI64)};
}

void InferScan(const InferCall& call) {
  const Shape& self = *call.in[0];
  const std::string& kind = call.attrs[0].str();
  bool arithmetic = kind == "sum" || kind == "prod";
  if (!arithmetic && kind != "max" && kind != "min") {
    Refuse(call, ErrorCode::kValue, "unknown kind '{}', needs sum, prod, max or min", kind);
  }
  RequireDType(call, !arithmetic || self.dtype() != DType::kBool, self,
               "a number dtype; cast first");
  RequireDType(call, arithmetic || !IsComplex(self.dtype()), self, "numbers with an order");
  CheckedDim(call, call.attrs[1].integer(), self);
  call.out = {self};
}

/// Window sizes over the last dims. `first` is the attribute index of `window`.
Dims WindowedSizes(const InferCall& call, const Shape& self, int first) {
  size_t count = call.attrs[first].ints().size();
  if (count > static_cast<size_t>(self.rank())) {
    Refuse(call, ErrorCode::kShapeMismatch, "window has {} dims, more than {}", count,
           self.to_string());
  }
  const std::vector<int64_t>& window = CheckedList(call, first, count);
  const std::vector<int64_t>& stride = CheckedList(call, first + 1, count);
  const std::vector<int64_t>& low = CheckedList(call, first + 2, count);
  const std::vector<int64_t>& high = CheckedList(call, first + 3, count);
  const std::vector<int64_t>& dilation = CheckedList(call, first + 4, count);
  Dims sizes = self.sizes();
  for (size_t i = 0; i < count; ++i) {
    if (window[i] < 1 || stride[i] < 1 || dilation[i] < 1 || low[i] < 0 || high[i] < 0) {
      Refuse(call, ErrorCode::kValue,
             "window {}, stride {}, dilation {} must be at least 1 and padding {}, {} at least 0",
             window[i], stride[i], dilation[i], low[i], high[i]);
    }
    int d = self.rank() - static_cast<int>(count - i);
    int64_t padded = self.size(d) + low[i] + high[i];
    int64_t span = (window[i] - 1) * dilation[i] + 1;
    if (padded < span) {
      Refuse(call, ErrorCode::kShapeMismatch, "a window of {} does not fit dimension {} of {}{}",
             span, d, self.to_string(),
             padded == self.size(d) ? "" : fmt::format(", padded to {}", padded));
    }
    sizes[d] = (padded - span) / stride[i] + 1;
  }
  return sizes;
}

void InferReduceWindow(const InferCall& call) {
  const Shape& self = *call.in[0];
  const std::string& kind = call.attrs[0].str();
  if (kind != "sum" && kind != "max") {
    Refuse(call, ErrorCode::kValue, "unknown kind '{}', needs sum or max", kind);
  }
  RequireDType(call, self.dtype() != DType::kBool, self, "a number dtype; cast first");
  RequireDType(call, kind == "sum" || !IsComplex(self.dtype()), self, "numbers with an order");
  call.out = {self.With(WindowedSizes(call, self, 1))};
}

void InferReduceWindowArg(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, self.dtype() != DType::kBool, self, "a number dtype; cast first");
  call.out = {Shape(DType::kI64, WindowedSizes(call, self, 0))};
}

// ---- gradients

/// The reduced dims of `x` as ones, so that it broadcasts against the operand.
Tensor Kept(const VjpCall& c, const Tensor& x) {
  return Reshaped(x, ReducedSizes(c.in[0].sizes(), Dims(c.attrs[0].ints()), true));
}

Tensors SumVjp(const VjpCall& c) { return {Broadcasted(Kept(c, c.grad()), c.in[0].sizes())}; }

/// x with `value` before its first element along the last dim, and without its last.
Tensor Shifted(const Tensor& x, const Scalar& value) {
  int dim = x.dim() - 1;
  return Padded(x, dim, 1, -1, value);
}

/// g times the product of all other elements, which is right where some are zero.
Tensors ProdVjp(const VjpCall& c) {
  Dims dims(c.attrs[0].ints());
  const Tensor& x = c.in[0];
  Tensor g = Broadcasted(Kept(c, c.grad()), x.sizes());
  if (x.numel() == 0 || x.dim() == 0 || dims.empty()) return {g};
  // The reduced dims become one, the last.
  Dims order, outer;
  for (int d = 0; d < x.dim(); ++d) {
    if (!Contains(dims, d)) {
      order.push_back(d);
      outer.push_back(x.shape().size(d));
    }
  }
  Dims back = Dims::Filled(x.dim(), 0);
  for (int64_t d : dims) order.push_back(d);
  for (int i = 0; i < order.size(); ++i) back[static_cast<int>(order[i])] = i;
  Tensor moved = Permuted(x, order);
  outer.push_back(CountOf(x.sizes(), dims));
  Tensor flat = Reshaped(moved, outer);
  int last = flat.dim() - 1;
  auto running = [&](const Tensor& y) {
    return Apply(kScan, Location(), {y}, {"prod", last, false});
  };
  Tensor before = Shifted(running(flat), 1);
  Tensor after = Flipped(Shifted(running(Flipped(flat, last)), 1), last);
  return {g * conj(Permuted(Reshaped(before * after, moved.sizes()), back))};
}

/// Equal extremes share the gradient.
Tensors ExtremumVjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  Tensor y = Kept(c, c.out[0]);
  Tensor chosen = Casted(where(isnan(y), isnan(x), eq(x, y)), x.dtype());
  Tensor count = Apply(kReduceSum, Location(), {chosen}, {c.attrs[0], true});
  return {chosen * (Kept(c, c.grad()) / count)};
}

Tensors ScanSumVjp(const VjpCall& c) {
  return {Apply(kScan, Location(), {c.grad()}, {"sum", c.attrs[1], !c.attrs[2].boolean()})};
}

/// Along a line the products up to the first zero divide by x; at the first zero the product of the
/// others counts; behind it nothing does.
Tensors ScanProdVjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  const Attr &dim = c.attrs[1], &reverse = c.attrs[2];
  auto scan = [&](const char* kind, const Tensor& y, bool backward) {
    return Apply(kScan, Location(), {y}, {kind, dim, backward});
  };
  bool down = reverse.boolean();
  Tensor is_zero = eq(x, 0);
  Tensor zeros = scan("sum", Casted(is_zero, DType::kI64), down);
  Tensor first = logical_and(is_zero, eq(zeros, 1));
  Tensor without = scan("prod", where(first, 1.0, x), down);
  Tensor through_all = scan("sum", c.grad() * conj(c.out[0]), !down);
  Tensor through_first = scan("sum", c.grad() * conj(without), !down);
  Tensor before = through_all / conj(where(is_zero, 1.0, x));
  return {where(eq(zeros, 0), before, where(first, through_first, 0.0))};
}

/// To the latest element that is the extreme so far.
Tensors ScanExtremeVjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  int dim = static_cast<int>(c.attrs[1].integer());
  bool reverse = c.attrs[2].boolean();
  Tensor is_new = logical_or(eq(x, c.out[0]), isnan(x));
  int64_t size = x.shape().size(dim);
  Tensor position = CountingAlong(dim, x.dim(), size, x);
  Tensor marked = where(is_new, position, Constant(reverse ? size - 1 : 0, DType::kI64));
  Tensor indices = Apply(kScan, Location(), {marked}, {reverse ? "min" : "max", dim, reverse});
  return {Apply(kScatter, Location(), {ZerosLike(x.shape(), c.grad()), indices, c.grad()},
                {dim, "sum"})};
}

Tensors ScanVjp(const VjpCall& c) {
  if (c.in[0].dim() == 0) return {c.grad()};
  const std::string& kind = c.attrs[0].str();
  if (kind == "sum") return ScanSumVjp(c);
  return kind == "prod" ? ScanProdVjp(c) : ScanExtremeVjp(c);
}

/// Windows over one dim: each result goes to the elements that its window covers.
Tensor SpreadAlong(const Tensor& g, int dim, int64_t size, int64_t window, int64_t stride,
                   int64_t low, int64_t high, int64_t dilation) {
  int64_t count = g.shape().size(dim);
  Dims each = g.sizes();
  each.insert(dim + 1, window);
  Dims kept = g.sizes();
  kept.insert(dim + 1, 1);
  Dims merged = g.sizes();
  merged[dim] = count * window;
  Tensor repeated = Reshaped(Broadcasted(Reshaped(g, kept), each), merged);
  Tensor indices =
      CountingAlong(0, 2, count, g) * stride + CountingAlong(1, 2, window, g) * dilation;
  Dims padded = g.sizes();
  padded[dim] = size + low + high;
  Tensor zeros = Filled(padded, 0, g.dtype(), g);
  Tensor spread = AddedAlong(zeros, dim, Reshaped(indices, {count * window}), repeated);
  return Sliced(spread, dim, low, size);
}

Tensors ReduceWindowVjp(const VjpCall& c) {
  const Tensor& x = c.in[0];
  const auto& window = c.attrs[1].ints();
  int dims = static_cast<int>(window.size());
  if (x.numel() == 0 || c.grad().numel() == 0) return {ZerosLike(x.shape(), c.grad())};
  if (c.attrs[0].str() == "sum") {
    Tensor g = c.grad();
    for (int i = 0; i < dims; ++i) {
      int d = x.dim() - dims + i;
      g = SpreadAlong(g, d, x.shape().size(d), window[i], c.attrs[2].ints()[i],
                      c.attrs[3].ints()[i], c.attrs[4].ints()[i], c.attrs[5].ints()[i]);
    }
    return {g};
  }
  return {Apply(kMaxWindowBackward, Location(), {c.grad(), x},
                {c.attrs[1], c.attrs[2], c.attrs[3], c.attrs[4], c.attrs[5]})};
}

void InferMaxWindowBackward(const InferCall& call) {
  const Shape &grad = *call.in[0], &self = *call.in[1];
  RequireDType(call, IsFloat(self.dtype()), self, "a float dtype");
  RequireSameDType(call, grad, self);
  Dims windows = WindowedSizes(call, self, 0);
  if (grad.sizes() != windows) {
    Refuse(call, ErrorCode::kShapeMismatch, "grad is {}, the windows of {} need {}",
           grad.to_string(), self.to_string(), self.With(windows).to_string());
  }
  call.out = {self};
}

/// To each window's first maximum; a window of padding only has none.
std::vector<Tensor> ExpandMaxWindowBackward(const ExpandCall& c) {
  const Tensor &grad = c.in[0], &x = c.in[1];
  if (x.numel() == 0 || grad.numel() == 0) return {ZerosLike(x.shape(), grad)};
  const Tensor operands[] = {x};
  Tensor indices = Apply(kReduceWindowArg, Location(), operands, c.attrs);
  Dims outer;
  for (int d = 0; d < x.dim() - static_cast<int>(c.attrs[0].ints().size()); ++d) {
    outer.push_back(x.shape().size(d));
  }
  Dims flat_x = outer, flat_y = outer;
  int64_t rows = Shape(DType::kBool, outer).numel();
  flat_x.push_back(x.numel() / rows);
  flat_y.push_back(grad.numel() / rows);
  Tensor is_there = ge(indices, 0);
  Tensor g = Reshaped(where(is_there, grad, 0.0), flat_y);
  indices = Reshaped(where(is_there, indices, Constant(0, DType::kI64)), flat_y);
  Tensor spread = Apply(kScatter, Location(), {ZerosLike(x.shape().With(flat_x), g), indices, g},
                        {flat_x.size() - 1, "sum"});
  return {Reshaped(spread, x.sizes())};
}

/// The window is the attribute `kWindow`.
template <int kWindow>
int64_t FlopsOfWindows(const CostCall& call) {
  int64_t flops = call.out[0].numel();
  for (int64_t size : call.attrs[kWindow].ints()) flops *= size;
  return flops;
}

constexpr OpDef Reduction(const char* schema, const char* doc, InferFn infer, VjpFn vjp, Sample a,
                          Sample b, ExpandFn complex = nullptr) {
  return {.schema = schema,
          .doc = doc,
          .infer = infer,
          .complex = complex,
          .vjp = vjp,
          .flops = OnePerElement,
          .samples = {a, b}};
}

constexpr Sample kRows = {"f32[3,4]", "{dims=[1], keepdim=false}"};
constexpr Sample kAllKept = {"f32[2,3,4]", "{dims=[0,1,2], keepdim=true}"};
constexpr Sample kTruthRows = {"bool[3,4]", "{dims=[1], keepdim=false}"};
constexpr Sample kTruthAll = {"bool[3,4]", "{dims=[0,1], keepdim=false}"};

}  // namespace

constinit const OpDef kReduceSum =
    Reduction("reduce_sum(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Sum over `dims`; 0 for none.", InferArithmetic, SumVjp, kRows, kAllKept, EachPart);
constinit const OpDef kReduceProd = Reduction(
    "reduce_prod(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
    "Product over `dims`; 1 for none.", InferArithmetic, ProdVjp, kRows, kAllKept, ReduceProdParts);
constinit const OpDef kReduceMax =
    Reduction("reduce_max(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Maximum over `dims`; NaN if one is.", InferExtremum, ExtremumVjp, kRows, kAllKept);
constinit const OpDef kReduceMin =
    Reduction("reduce_min(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Minimum over `dims`; NaN if one is.", InferExtremum, ExtremumVjp, kRows, kAllKept);
constinit const OpDef kReduceAny =
    Reduction("reduce_any(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Whether one over `dims` is true.", InferTruth, nullptr, kTruthRows, kTruthAll);
constinit const OpDef kReduceAll =
    Reduction("reduce_all(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Whether all over `dims` are true.", InferTruth, nullptr, kTruthRows, kTruthAll);
constinit const OpDef kArgMax = Reduction(
    "arg_max(Tensor self, int dim, bool keepdim=False) -> Tensor",
    "Index of the maximum along `dim`: the first of equals; the first NaN wins.", InferArg, nullptr,
    {"f32[3,4]", "{dim=1, keepdim=false}"}, {"i64[5]", "{dim=0, keepdim=true}"});
constinit const OpDef kArgMin = Reduction(
    "arg_min(Tensor self, int dim, bool keepdim=False) -> Tensor",
    "Index of the minimum along `dim`: the first of equals; the first NaN wins.", InferArg, nullptr,
    {"f32[3,4]", "{dim=1, keepdim=false}"}, {"i64[5]", "{dim=0, keepdim=true}"});
constinit const OpDef kScan = {
    .schema = "scan(Tensor self, str kind, int dim, bool reverse=False) -> Tensor",
    .doc = "Inclusive running sum, prod, max or min along `dim`.",
    .infer = InferScan,
    .complex = ScanParts,
    .vjp = ScanVjp,
    .flops = OnePerElement,
    .samples = {{"f32[3,4]", "{kind=\"sum\", dim=1, reverse=false}"},
                {"f32[3,4]", "{kind=\"prod\", dim=0, reverse=true}"},
                {"i64[5]", "{kind=\"max\", dim=0, reverse=false}"}},
};
constinit const OpDef kReduceWindow = {
    .schema =
        "reduce_window(Tensor self, str kind, int[] window, int[] stride, SymInt[] low, "
        "SymInt[] high, int[] dilation) -> Tensor",
    .doc = "Sum or maximum over windows of the last dims; padding does not count.",
    .infer = InferReduceWindow,
    .complex = EachPart,
    .vjp = ReduceWindowVjp,
    .flops = FlopsOfWindows<1>,
    .samples = {{"f32[2,6,5]",
                 "{kind=\"max\", window=[3,2], stride=[2,1], low=[1,0], high=[1,0], "
                 "dilation=[1,1]}"},
                {"f32[2,7]",
                 "{kind=\"sum\", window=[3], stride=[2], low=[0], high=[0], "
                 "dilation=[2]}"}},
};
constinit const OpDef kReduceWindowArg = {
    .schema =
        "reduce_window_arg(Tensor self, int[] window, int[] stride, SymInt[] low, SymInt[] high, "
        "int[] dilation) -> Tensor",
    .doc =
        "Where each window's maximum lies: a flat index into the last dims. The first of "
        "equals, but the last NaN; -1 for a window of padding only.",
    .infer = InferReduceWindowArg,
    .flops = FlopsOfWindows<0>,
    .samples = {{"f32[2,6,5]",
                 "{window=[3,2], stride=[2,1], low=[1,0], high=[1,0], "
                 "dilation=[1,1]}"}},
};

constinit const OpDef kMaxWindowBackward = {
    .schema =
        "_max_window_backward(Tensor grad, Tensor self, int[] window, int[] stride, SymInt[] low, "
        "SymInt[] high, int[] dilation) -> Tensor",
    .doc = "The gradient of reduce_window's maximum: each window's goes to its first maximum.",
    .infer = InferMaxWindowBackward,
    .expand = ExpandMaxWindowBackward,
    .samples = {{"f32[2,3,2] f32[2,6,4]",
                 "{window=[2,2], stride=[2,2], low=[0,0], high=[0,0], dilation=[1,1]}"},
                {"f32[2,3,4] f32[2,6,5]",
                 "{window=[3,2], stride=[2,1], low=[1,0], high=[1,0], dilation=[1,1]}"}},
};

}  // namespace hammock::ops
