#include "ops/primitives.h"
#include "ops/record.h"

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
  call.out = {self.With(WindowedSizes(call, self, 1))};
}

void InferReduceWindowArg(const InferCall& call) {
  const Shape& self = *call.in[0];
  RequireDType(call, self.dtype() != DType::kBool, self, "a number dtype; cast first");
  call.out = {Shape(DType::kI64, WindowedSizes(call, self, 0))};
}

constexpr OpDef Reduction(const char* schema, const char* doc, InferFn infer, Sample a, Sample b) {
  return {.schema = schema, .doc = doc, .infer = infer, .samples = {a, b}};
}

constexpr Sample kRows = {"f32[3,4]", "{dims=[1], keepdim=false}"};
constexpr Sample kAllKept = {"f32[2,3,4]", "{dims=[0,1,2], keepdim=true}"};
constexpr Sample kTruthRows = {"bool[3,4]", "{dims=[1], keepdim=false}"};
constexpr Sample kTruthAll = {"bool[3,4]", "{dims=[0,1], keepdim=false}"};

}  // namespace

constinit const OpDef kReduceSum =
    Reduction("reduce_sum(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Sum over `dims`; 0 for none.", InferArithmetic, kRows, kAllKept);
constinit const OpDef kReduceProd =
    Reduction("reduce_prod(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Product over `dims`; 1 for none.", InferArithmetic, kRows, kAllKept);
constinit const OpDef kReduceMax =
    Reduction("reduce_max(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Maximum over `dims`; NaN if one is.", InferExtremum, kRows, kAllKept);
constinit const OpDef kReduceMin =
    Reduction("reduce_min(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Minimum over `dims`; NaN if one is.", InferExtremum, kRows, kAllKept);
constinit const OpDef kReduceAny =
    Reduction("reduce_any(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Whether one over `dims` is true.", InferTruth, kTruthRows, kTruthAll);
constinit const OpDef kReduceAll =
    Reduction("reduce_all(Tensor self, int[] dims, bool keepdim=False) -> Tensor",
              "Whether all over `dims` are true.", InferTruth, kTruthRows, kTruthAll);
constinit const OpDef kArgMax = Reduction(
    "arg_max(Tensor self, int dim, bool keepdim=False) -> Tensor",
    "Index of the maximum along `dim`: the first of equals; the first NaN wins.", InferArg,
    {"f32[3,4]", "{dim=1, keepdim=false}"}, {"i64[5]", "{dim=0, keepdim=true}"});
constinit const OpDef kArgMin = Reduction(
    "arg_min(Tensor self, int dim, bool keepdim=False) -> Tensor",
    "Index of the minimum along `dim`: the first of equals; the first NaN wins.", InferArg,
    {"f32[3,4]", "{dim=1, keepdim=false}"}, {"i64[5]", "{dim=0, keepdim=true}"});
constinit const OpDef kScan = {
    .schema = "scan(Tensor self, str kind, int dim, bool reverse=False) -> Tensor",
    .doc = "Inclusive running sum, prod, max or min along `dim`.",
    .infer = InferScan,
    .samples = {{"f32[3,4]", "{kind=\"sum\", dim=1, reverse=false}"},
                {"f32[3,4]", "{kind=\"prod\", dim=0, reverse=true}"},
                {"i64[5]", "{kind=\"max\", dim=0, reverse=false}"}},
};
constinit const OpDef kReduceWindow = {
    .schema =
        "reduce_window(Tensor self, str kind, int[] window, int[] stride, int[] low, "
        "int[] high, int[] dilation) -> Tensor",
    .doc = "Sum or maximum over windows of the last dims; padding does not count.",
    .infer = InferReduceWindow,
    .samples = {{"f32[2,6,5]",
                 "{kind=\"max\", window=[3,2], stride=[2,1], low=[1,0], high=[1,0], "
                 "dilation=[1,1]}"},
                {"f32[2,7]",
                 "{kind=\"sum\", window=[3], stride=[2], low=[0], high=[0], "
                 "dilation=[2]}"}},
};
constinit const OpDef kReduceWindowArg = {
    .schema =
        "reduce_window_arg(Tensor self, int[] window, int[] stride, int[] low, int[] high, "
        "int[] dilation) -> Tensor",
    .doc =
        "Where each window's maximum lies: a flat index into the last dims. The first of "
        "equals, but the last NaN; -1 for a window of padding only.",
    .infer = InferReduceWindowArg,
    .samples = {{"f32[2,6,5]",
                 "{window=[3,2], stride=[2,1], low=[1,0], high=[1,0], "
                 "dilation=[1,1]}"}},
};

}  // namespace hammock::ops
