// Resizing of signals, images and volumes, one dim after the other.

#include "hammock/ops/resize.h"

#include <cmath>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/pool.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/kit/record.h"
#include "ops/nn/cubic.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

std::vector<Tensor> ops::CubicWeights(const Tensor& t) {
  constexpr double kA = -0.75;
  auto number = [&](double value) { return ConstantLike(value, t); };
  auto near = [&](const Tensor& d) {  // distance up to 1
    return (d * number(kA + 2) - number(kA + 3)) * d * d + number(1);
  };
  auto far = [&](const Tensor& d) {  // distance from 1 to 2
    return ((d * number(kA) - number(5 * kA)) * d + number(8 * kA)) * d - number(4 * kA);
  };
  Tensor rest = number(1) - t;
  return {far(t + number(1)), near(t), near(rest), far(rest + number(1))};
}

namespace {

extern const OpDef kResize;

/// One dim: how many elements come from how many, and how far apart they are.
struct Axis {
  int dim;
  int64_t in, out;
  bool align_corners;
  double scale;   // given by the caller; 0 if not
  Tensor lifted;  // the step, where it is an operand
  /// Distance of neighbouring results, in elements of the input.
  double step() const {
    if (align_corners) {
      return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
    }
    return scale > 0 ? 1 / scale : static_cast<double>(in) / static_cast<double>(out);
  }
};

/// The step as a number of the dtype of `x`.
Tensor StepOf(const Axis& axis, const Tensor& x) {
  return axis.lifted.defined() ? Casted(axis.lifted, x.dtype()) : ConstantLike(axis.step(), x);
}

Tensor Positions(const Axis& axis, const Tensor& x) {
  return Casted(Counting(axis.out, x), x.dtype());
}

/// Where the results lie, in elements of the input; may be less than 0.
Tensor Sources(const Axis& axis, const Tensor& x) {
  Tensor i = Positions(axis, x), step = StepOf(axis, x);
  if (axis.align_corners) return i * step;
  Tensor half = ConstantLike(0.5, x);
  return (i + half) * step - half;
}

/// i64, kept inside the input.
Tensor AsIndex(const Tensor& position, int64_t size) {
  Tensor index = Casted(position, DType::kI64);
  index = maximum(index, ConstantLike(0, index));
  return minimum(index, ConstantLike(size - 1, index));
}

/// A vector along dim `dim` of the rank of `x`.
Tensor Along(const Tensor& vector, int dim, const Tensor& x) {
  Dims sizes = Dims::Filled(x.dim(), 1);
  sizes[dim] = vector.numel();
  return Reshaped(vector, sizes);
}

Tensor Nearest(const Tensor& x, const Axis& axis, bool exact) {
  // PyTorch computes positions in f32 whatever the values are, unless they are f64.
  DType dtype = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor i = Casted(Counting(axis.out, x), dtype);
  if (exact) i = i + ConstantLike(0.5, i);
  return Rows(x, AsIndex(floor(i * StepOf(axis, i)), axis.in), axis.dim);
}

Tensor Linear(const Tensor& x, const Axis& axis) {
  if (axis.in == axis.out) return x;
  Tensor source = Sources(axis, x), zero = ConstantLike(0, x);
  source = maximum(source, zero);
  Tensor low = AsIndex(floor(source), axis.in);
  Tensor high = minimum(low + ConstantLike(1, low), ConstantLike(axis.in - 1, low));
  Tensor share = source - Casted(low, x.dtype());
  share = minimum(maximum(share, zero), ConstantLike(1, x));
  share = Along(share, axis.dim, x);
  return Rows(x, low, axis.dim) * (ConstantLike(1, x) - share) + Rows(x, high, axis.dim) * share;
}

Tensor Cubic(const Tensor& x, const Axis& axis) {
  Tensor source = Sources(axis, x), base = floor(source);
  std::vector<Tensor> weights = CubicWeights(source - base);
  Tensor result;
  for (int k = 0; k < 4; ++k) {
    Tensor index = AsIndex(base + ConstantLike(k - 1, base), axis.in);
    Tensor term = Rows(x, index, axis.dim) * Along(weights[k], axis.dim, x);
    result = k == 0 ? term : result + term;
  }
  return result;
}

Tensor TriangleFilter(const Tensor& x) {
  return maximum(ConstantLike(1, x) - abs(x), ConstantLike(0, x));
}

Tensor CubicFilter(const Tensor& x) {
  constexpr double kA = -0.5;
  auto number = [&](double value) { return ConstantLike(value, x); };
  Tensor d = abs(x);
  Tensor near = (d * number(kA + 2) - number(kA + 3)) * d * d + number(1);
  Tensor far = ((d * number(kA) - number(5 * kA)) * d + number(8 * kA)) * d - number(4 * kA);
  return where(lt(d, number(1)), near, where(lt(d, number(2)), far, number(0)));
}

/// A filter as wide as the distance of the results, so that all elements count when shrinking.
Tensor Antialiased(const Tensor& x, const Axis& axis, bool cubic) {
  double step = axis.step(), wide = std::max(step, 1.0), reach = (cubic ? 2 : 1) * wide;
  auto number = [&](double value) { return ConstantLike(value, x); };
  Tensor j = Casted(CountingAlong(0, 2, axis.in, x), x.dtype());
  Tensor i = Casted(CountingAlong(1, 2, axis.out, x), x.dtype());
  Tensor center = (i + number(0.5)) * number(step);
  Tensor first = floor(maximum(center - number(reach) + number(0.5), number(0)));
  Tensor end = floor(minimum(center + number(reach) + number(0.5), number(axis.in)));
  Tensor distance = (j - center + number(0.5)) * number(1 / wide);
  Tensor weights = cubic ? CubicFilter(distance) : TriangleFilter(distance);
  weights = where(logical_and(ge(j, first), lt(j, end)), weights, number(0));
  weights = weights / sum(weights, {0}, true);
  int last = x.dim() - 1;
  return Moved(matmul(Moved(x, axis.dim, last), weights), last, axis.dim);
}

Tensor ResizeDim(const Tensor& x, const Axis& axis, const std::string& mode, bool antialias) {
  if (mode == "nearest" || mode == "nearest-exact") {
    return axis.in == axis.out && axis.scale == 0 ? x : Nearest(x, axis, mode != "nearest");
  }
  if (antialias) return Antialiased(x, axis, mode == "bicubic");
  return mode == "bicubic" ? Cubic(x, axis) : Linear(x, axis);
}

void InferResize(const InferCall& c) {
  Dims sizes = c.in[0]->sizes();
  const std::vector<int64_t>& out = c.attrs[0].ints();
  bool fits = static_cast<int>(out.size()) + 2 == sizes.size() &&
              c.attrs[3].floats().size() == out.size() &&
              (c.in.size() == 1 || c.in.size() == out.size() + 1);
  for (size_t i = 0; fits && i < out.size(); ++i) {
    fits = out[i] > 0 && sizes[static_cast<int>(i) + 2] > 0;
  }
  if (!fits) {
    Refuse(c, ErrorCode::kShapeMismatch,
           "needs sizes above 0 and a scale for each dim behind the first two, got {}",
           c.in[0]->to_string());
  }
  for (size_t i = 0; i < out.size(); ++i) sizes[static_cast<int>(i) + 2] = out[i];
  CheckSizes(c.op.name(), sizes);
  c.out.push_back(c.in[0]->With(sizes));
}

std::vector<Tensor> ExpandResize(const ExpandCall& c) {
  const std::string& mode = c.attrs[1].str();
  Tensor x = c.in[0];
  if (!mode.starts_with("nearest")) x = Casted(x, WideFloat(x.dtype()));
  for (int dim = x.dim() - 1; dim >= 2; --dim) {
    Axis axis{dim,
              x.size(dim),
              c.out[0].size(dim),
              c.attrs[2].boolean(),
              c.attrs[3].floats()[static_cast<size_t>(dim) - 2],
              Tensor()};
    if (c.in.size() > 1) axis.lifted = c.in[static_cast<size_t>(dim) - 1];
    x = ResizeDim(x, axis, mode, c.attrs[4].boolean());
  }
  return {Casted(x, c.out[0].dtype())};
}

Tensor Resize(const char* op, const Tensor& self, const Dims& sizes, const std::string& mode,
              bool align_corners, const std::vector<double>& scales, bool antialias,
              const Location& at) {
  int rank = sizes.size();
  bool good = self.dim() == rank + 2;
  for (int i = 0; good && i < rank; ++i) good = self.size(i + 2) > 0 && sizes[i] > 0;
  if (!good || (self.numel() == 0 && self.size(1) == 0)) {
    Throw(ErrorCode::kShapeMismatch,
          "{}: needs (batch, channels, {} sizes above 0) and output sizes above 0, got {} to {}",
          op, rank, self.shape().to_string(), ToString(sizes));
  }
  if (!mode.starts_with("nearest")) NeedFloat(op, self);
  Tensors operands{self};
  // Ratios of sizes are operands, so that they make no graph of their own.
  bool is_ratio = std::ranges::count(scales, 0.0) == rank && !antialias;
  DType dtype = self.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  for (int i = 0; i < rank && is_ratio; ++i) {
    Axis axis{i + 2, self.size(i + 2), sizes[i], align_corners, 0, Tensor()};
    operands.push_back(Lift(axis.step(), dtype));
  }
  const Attr attrs[] = {sizes, mode, align_corners, scales, antialias};
  return ApplyMulti(kResize, at, operands, attrs)[0];
}

Tensor ResizeScaled(const char* op, const Tensor& self, const Dims& sizes, int rank,
                    const char* mode, bool align_corners,
                    std::initializer_list<std::optional<double>> scales, const Location& at) {
  if (sizes.size() != rank) {
    Throw(ErrorCode::kValue, "{}: output_size needs {} sizes, got {}", op, rank, ToString(sizes));
  }
  std::vector<double> given;
  for (const std::optional<double>& scale : scales) given.push_back(scale.value_or(0));
  return Resize(op, self, sizes, mode, align_corners, given, false, at);
}

/// The rank that a mode is for; 0 for any from 1 to 3.
int RankOf(const std::string& mode) {
  if (mode == "nearest" || mode == "nearest-exact" || mode == "area") return 0;
  if (mode == "linear") return 1;
  if (mode == "bilinear" || mode == "bicubic") return 2;
  if (mode == "trilinear") return 3;
  Throw(ErrorCode::kValue,
        "interpolate: mode must be nearest, nearest-exact, linear, bilinear, bicubic, trilinear or "
        "area, got '{}'",
        mode);
}

void CheckMode(const Tensor& input, const std::string& mode, std::optional<bool> align_corners,
               bool antialias) {
  int wanted = RankOf(mode), rank = input.dim() - 2;
  if (rank < 1 || rank > 3 || (wanted != 0 && wanted != rank)) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "interpolate: mode {} needs {} dims behind batch and channels, got {}",
                        mode, wanted == 0 ? "1 to 3" : std::to_string(wanted),
                        input.shape().to_string());
  }
  if (wanted == 0 && align_corners) {
    Throw(ErrorCode::kValue,
          "interpolate: align_corners goes with linear, bilinear, bicubic and trilinear, not {}",
          mode);
  }
  if (antialias && wanted != 2) {
    Throw(ErrorCode::kValue, "interpolate: antialias goes with bilinear and bicubic, not {}", mode);
  }
}

template <class List>
void CheckCount(const char* what, const List& list, int rank) {
  auto count = static_cast<int>(list.size());
  if (count == rank || count == 1) return;
  Throw(ErrorCode::kShapeMismatch, "interpolate: {} needs one number or {}, got {}", what, rank,
        count);
}

}  // namespace

Tensor interpolate(const Tensor& input, const std::optional<Dims>& size,
                   const std::optional<std::vector<double>>& scale_factor, const std::string& mode,
                   std::optional<bool> align_corners, std::optional<bool> recompute_scale_factor,
                   bool antialias, Location at) {
  LocationScope scope(at);
  CheckMode(input, mode, align_corners, antialias);
  int rank = input.dim() - 2;
  if (size.has_value() == scale_factor.has_value()) {
    Throw(ErrorCode::kValue, "interpolate: needs either size or scale_factor, got {}",
          size ? "both" : "none");
  }
  bool recompute = recompute_scale_factor.value_or(false);
  if (recompute && size) {
    Throw(ErrorCode::kValue, "interpolate: recompute_scale_factor needs scale_factor, not size");
  }
  Dims sizes;
  std::vector<double> scales(static_cast<size_t>(rank), 0.0);
  if (size) {
    CheckCount("size", *size, rank);
    for (int i = 0; i < rank; ++i) sizes.push_back((*size)[size->size() == 1 ? 0 : i]);
  } else {
    CheckCount("scale_factor", *scale_factor, rank);
    for (int i = 0; i < rank; ++i) {
      double factor = (*scale_factor)[scale_factor->size() == 1 ? 0 : static_cast<size_t>(i)];
      if (!(factor > 0) || !(factor < 1e9)) {
        Throw(ErrorCode::kValue, "interpolate: scale_factor must be positive, got {}", factor);
      }
      sizes.push_back(
          static_cast<int64_t>(std::floor(static_cast<double>(input.size(i + 2)) * factor)));
      if (!recompute) scales[i] = factor;
    }
  }
  if (mode == "area") {
    if (rank == 1) return adaptive_avg_pool1d(input, sizes, at);
    return rank == 2 ? adaptive_avg_pool2d(input, sizes, at)
                     : adaptive_avg_pool3d(input, sizes, at);
  }
  return Resize("interpolate", input, sizes, mode, align_corners.value_or(false), scales, antialias,
                at);
}

Tensor upsample(const Tensor& input, const std::optional<Dims>& size,
                const std::optional<std::vector<double>>& scale_factor, const std::string& mode,
                std::optional<bool> align_corners, Location at) {
  return interpolate(input, size, scale_factor, mode, align_corners, std::nullopt, false, at);
}

Tensor upsample_nearest(const Tensor& input, const std::optional<Dims>& size,
                        const std::optional<std::vector<double>>& scale_factor, Location at) {
  return interpolate(input, size, scale_factor, "nearest", std::nullopt, std::nullopt, false, at);
}

Tensor upsample_bilinear(const Tensor& input, const std::optional<Dims>& size,
                         const std::optional<std::vector<double>>& scale_factor, Location at) {
  return interpolate(input, size, scale_factor, "bilinear", true, std::nullopt, false, at);
}

Tensor upsample_nearest1d(const Tensor& self, const Dims& output_size, std::optional<double> scales,
                          Location at) {
  LocationScope scope(at);
  return ResizeScaled("upsample_nearest1d", self, output_size, 1, "nearest", false, {scales}, at);
}
Tensor upsample_nearest2d(const Tensor& self, const Dims& output_size,
                          std::optional<double> scales_h, std::optional<double> scales_w,
                          Location at) {
  LocationScope scope(at);
  return ResizeScaled("upsample_nearest2d", self, output_size, 2, "nearest", false,
                      {scales_h, scales_w}, at);
}
Tensor upsample_nearest3d(const Tensor& self, const Dims& output_size,
                          std::optional<double> scales_d, std::optional<double> scales_h,
                          std::optional<double> scales_w, Location at) {
  LocationScope scope(at);
  return ResizeScaled("upsample_nearest3d", self, output_size, 3, "nearest", false,
                      {scales_d, scales_h, scales_w}, at);
}
Tensor upsample_linear1d(const Tensor& self, const Dims& output_size, bool align_corners,
                         std::optional<double> scales, Location at) {
  LocationScope scope(at);
  return ResizeScaled("upsample_linear1d", self, output_size, 1, "linear", align_corners, {scales},
                      at);
}
Tensor upsample_bilinear2d(const Tensor& self, const Dims& output_size, bool align_corners,
                           std::optional<double> scales_h, std::optional<double> scales_w,
                           Location at) {
  LocationScope scope(at);
  return ResizeScaled("upsample_bilinear2d", self, output_size, 2, "bilinear", align_corners,
                      {scales_h, scales_w}, at);
}
Tensor upsample_bicubic2d(const Tensor& self, const Dims& output_size, bool align_corners,
                          std::optional<double> scales_h, std::optional<double> scales_w,
                          Location at) {
  LocationScope scope(at);
  return ResizeScaled("upsample_bicubic2d", self, output_size, 2, "bicubic", align_corners,
                      {scales_h, scales_w}, at);
}
Tensor upsample_trilinear3d(const Tensor& self, const Dims& output_size, bool align_corners,
                            std::optional<double> scales_d, std::optional<double> scales_h,
                            std::optional<double> scales_w, Location at) {
  LocationScope scope(at);
  return ResizeScaled("upsample_trilinear3d", self, output_size, 3, "trilinear", align_corners,
                      {scales_d, scales_h, scales_w}, at);
}

namespace {

constinit const OpDef kResize = {
    .schema =
        "_resize(Tensor self, Tensor[] steps, SymInt[] output_size, str mode, bool align_corners, "
        "float[] scales, bool antialias) -> Tensor",
    .doc =
        "Resizes the dims behind the first two; a scale of 0 is the ratio of the sizes. `steps` "
        "are the distances of neighbouring results, or none where they follow from these.",
    .infer = InferResize,
    .expand = ExpandResize,
    .samples = {{"f32[1,2,3,4]",
                 "{output_size=[5,3], mode=\"bilinear\", align_corners=false, scales=floats[0, 0], "
                 "antialias=false}"}},
};
HAMMOCK_FUNCTION(kInterpolate,
                 "interpolate(Tensor input, int[1]? size=None, float[1]? scale_factor=None, str "
                 "mode=\"nearest\", bool? align_corners=None, bool? recompute_scale_factor=None, "
                 "bool antialias=False) -> Tensor",
                 "Resizes to `size` or by `scale_factor`.", interpolate)
HAMMOCK_FUNCTION(kUpsample,
                 "upsample(Tensor input, int[1]? size=None, float[1]? scale_factor=None, str "
                 "mode=\"nearest\", bool? align_corners=None) -> Tensor",
                 "Same as interpolate.", upsample)
HAMMOCK_FUNCTION(kUpsampleNearest,
                 "upsample_nearest(Tensor input, int[1]? size=None, float[1]? scale_factor=None) "
                 "-> Tensor",
                 "interpolate by the nearest element.", upsample_nearest)
HAMMOCK_FUNCTION(kUpsampleBilinear,
                 "upsample_bilinear(Tensor input, int[1]? size=None, float[1]? "
                 "scale_factor=None) -> Tensor",
                 "interpolate by bilinear means, with corners aligned.", upsample_bilinear)
HAMMOCK_FUNCTION(
    kUpsampleNearest1d,
    "upsample_nearest1d(Tensor self, int[1] output_size, float? scales=None) -> Tensor",
    "Resizes a signal by the nearest element.", upsample_nearest1d)
HAMMOCK_FUNCTION(kUpsampleNearest2d,
                 "upsample_nearest2d(Tensor self, int[2] output_size, float? scales_h=None, "
                 "float? scales_w=None) -> Tensor",
                 "Resizes an image by the nearest element.", upsample_nearest2d)
HAMMOCK_FUNCTION(kUpsampleNearest3d,
                 "upsample_nearest3d(Tensor self, int[3] output_size, float? scales_d=None, "
                 "float? scales_h=None, float? scales_w=None) -> Tensor",
                 "Resizes a volume by the nearest element.", upsample_nearest3d)
HAMMOCK_FUNCTION(kUpsampleLinear1d,
                 "upsample_linear1d(Tensor self, int[1] output_size, bool align_corners, float? "
                 "scales=None) -> Tensor",
                 "Resizes a signal by linear means.", upsample_linear1d)
HAMMOCK_FUNCTION(kUpsampleBilinear2d,
                 "upsample_bilinear2d(Tensor self, int[2] output_size, bool align_corners, "
                 "float? scales_h=None, float? scales_w=None) -> Tensor",
                 "Resizes an image by bilinear means.", upsample_bilinear2d)
HAMMOCK_FUNCTION(kUpsampleBicubic2d,
                 "upsample_bicubic2d(Tensor self, int[2] output_size, bool align_corners, float? "
                 "scales_h=None, float? scales_w=None) -> Tensor",
                 "Resizes an image by bicubic means.", upsample_bicubic2d)
HAMMOCK_FUNCTION(kUpsampleTrilinear3d,
                 "upsample_trilinear3d(Tensor self, int[3] output_size, bool align_corners, "
                 "float? scales_d=None, float? scales_h=None, float? scales_w=None) -> Tensor",
                 "Resizes a volume by trilinear means.", upsample_trilinear3d)

}  // namespace

std::span<const OpDef* const> ops::ResizeOps() {
  static constexpr const OpDef* kOps[] = {
      &kResize,           &kInterpolate,        &kUpsample,          &kUpsampleNearest,
      &kUpsampleBilinear, &kUpsampleNearest1d,  &kUpsampleNearest2d, &kUpsampleNearest3d,
      &kUpsampleLinear1d, &kUpsampleBilinear2d, &kUpsampleBicubic2d, &kUpsampleTrilinear3d,
  };
  return kOps;
}

}  // namespace hammock
