// Sampling of images and volumes at given points.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/resize.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/record.h"
#include "ops/nn/cubic.h"
#include "ops/primitives/families.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kGridSample;

/// One sampled dim: its size and the wanted positions, [batch, 1, points].
struct SampledDim {
  int64_t size;
  Tensor position;
};

struct Sampler {
  std::string mode, padding;
  bool align_corners;
  Tensor image;                  // [batch, channels, elements]
  std::vector<SampledDim> dims;  // first the slowest
};

Tensor Number(double value, const Tensor& like) { return ConstantLike(value, like); }

/// From [-1, 1] to elements.
Tensor Unnormalized(const Tensor& x, int64_t size, bool align_corners) {
  auto count = static_cast<double>(size);
  if (align_corners) return (x + Number(1, x)) * Number((count - 1) / 2, x);
  return ((x + Number(1, x)) * Number(count, x) - Number(1, x)) * Number(0.5, x);
}

/// Kept in [0, size - 1]; as in PyTorch there is no gradient at the ends either.
Tensor Clipped(const Tensor& x, int64_t size) {
  Tensor low = Number(0, x), high = Number(static_cast<double>(size - 1), x);
  return where(le(x, low), low, where(ge(x, high), high, x));
}

/// Reflected at the ends of [low, low + span] until inside.
Tensor Reflected(const Tensor& x, double low, double span) {
  if (span == 0) return x * Number(0, x);
  Tensor shifted = x - Number(low, x);
  Tensor distance = where(lt(shifted, Number(0, x)), -shifted, shifted);
  Tensor extra = fmod(distance, Number(span, x));
  Tensor flips = floor(distance / Number(span, x));
  Tensor even = eq(fmod(flips, Number(2, x)), Number(0, x));
  return where(even, extra, Number(span, x) - extra) + Number(low, x);
}

/// A position as `padding` wants it.
Tensor Settled(const Sampler& s, const Tensor& x, int64_t size) {
  if (s.padding == "zeros") return x;
  if (s.padding == "border") return Clipped(x, size);
  auto count = static_cast<double>(size);
  Tensor inside = s.align_corners ? Reflected(x, 0, count - 1) : Reflected(x, -0.5, count);
  return Clipped(inside, size);
}

struct Corner {
  Tensor index;   // i64, inside the dim
  Tensor inside;  // whether it was so before
};

Corner CornerAt(const Tensor& position, int64_t size) {
  Tensor last = Number(static_cast<double>(size - 1), position), zero = Number(0, position);
  Tensor inside = logical_and(ge(position, zero), le(position, last));
  Tensor index = Casted(where(inside, position, zero), DType::kI64);
  return {index, inside};
}

/// Elements at one index for each dim, zero where any is outside.
Tensor Fetched(const Sampler& s, const std::vector<Corner>& corners) {
  Tensor index = corners[0].index, inside = corners[0].inside;
  for (size_t i = 1; i < corners.size(); ++i) {
    index = index * ConstantLike(s.dims[i].size, index) + corners[i].index;
    inside = logical_and(inside, corners[i].inside);
  }
  Dims sizes{s.image.size(0), s.image.size(1), index.size(2)};
  Tensor values = Apply(kGather, Location(), {s.image, Broadcasted(index, sizes)}, {2});
  return where(inside, values, ConstantLike(0, values));
}

/// Sums over all combinations of neighbours, one a dim, of the element times its weight.
struct Neighbour {
  Corner corner;
  Tensor weight;
};

Tensor Combined(const Sampler& s, const std::vector<std::vector<Neighbour>>& neighbours) {
  std::vector<size_t> chosen(neighbours.size(), 0);
  Tensor total;
  for (;;) {
    std::vector<Corner> corners;
    Tensor weight;
    for (size_t i = 0; i < neighbours.size(); ++i) {
      const Neighbour& n = neighbours[i][chosen[i]];
      corners.push_back(n.corner);
      weight = i == 0 ? n.weight : weight * n.weight;
    }
    Tensor term = Fetched(s, corners) * weight;
    total = total.defined() ? total + term : term;
    size_t i = neighbours.size();
    while (i > 0 && ++chosen[i - 1] == neighbours[i - 1].size()) chosen[--i] = 0;
    if (i == 0) return total;
  }
}

Tensor SampleNearest(const Sampler& s) {
  std::vector<Corner> corners;
  for (const SampledDim& d : s.dims) {
    corners.push_back(CornerAt(round(Settled(s, d.position, d.size)), d.size));
  }
  return Fetched(s, corners);
}

Tensor SampleLinear(const Sampler& s) {
  std::vector<std::vector<Neighbour>> neighbours;
  for (const SampledDim& d : s.dims) {
    Tensor x = Settled(s, d.position, d.size), low = floor(x), share = x - low;
    Tensor high = low + Number(1, x);
    neighbours.push_back(
        {{CornerAt(low, d.size), Number(1, x) - share}, {CornerAt(high, d.size), share}});
  }
  return Combined(s, neighbours);
}

Tensor SampleCubic(const Sampler& s) {
  std::vector<std::vector<Neighbour>> neighbours;
  for (const SampledDim& d : s.dims) {
    Tensor base = floor(d.position);
    std::vector<Tensor> shares = CubicWeights(d.position - base);
    auto& list = neighbours.emplace_back();
    for (int k = 0; k < 4; ++k) {
      Tensor x = Settled(s, base + Number(k - 1, base), d.size);
      list.push_back({CornerAt(trunc(x), d.size), shares[k]});
    }
  }
  return Combined(s, neighbours);
}

Dims SampledSizes(const Shape& input, const Shape& grid) {
  Dims sizes{input.size(0), input.size(1)};
  for (int i = 1; i < grid.rank() - 1; ++i) sizes.push_back(grid.size(i));
  return sizes;
}

void CheckGridSample(const InferCall& c) {
  const Shape &input = *c.in[0], &grid = *c.in[1];
  const std::string &mode = c.attrs[0].str(), &padding_mode = c.attrs[1].str();
  if (mode != "bilinear" && mode != "nearest" && mode != "bicubic") {
    Refuse(c, ErrorCode::kValue, "mode must be bilinear, nearest or bicubic, got '{}'", mode);
  }
  if (padding_mode != "zeros" && padding_mode != "border" && padding_mode != "reflection") {
    Refuse(c, ErrorCode::kValue, "padding_mode must be zeros, border or reflection, got '{}'",
           padding_mode);
  }
  int rank = input.rank() - 2;
  bool fits = (rank == 2 || rank == 3) && IsFloat(input.dtype()) && grid.rank() == input.rank() &&
              grid.size(0) == input.size(0) && grid.size(rank + 1) == rank &&
              grid.dtype() == input.dtype();
  for (int i = 0; fits && i < rank; ++i) fits = input.size(i + 2) > 0;
  if (!fits) {
    Refuse(c, ErrorCode::kShapeMismatch,
           "needs floats (N, C, H, W) and a grid (N, h, w, 2), or (N, C, D, H, W) and (N, d, h, w, "
           "3), of one dtype, got {} and {}",
           input.to_string(), grid.to_string());
  }
  if (mode == "bicubic" && rank == 3) {
    Refuse(c, ErrorCode::kValue, "bicubic needs input of 4 dims, got {}", input.to_string());
  }
}

void InferGridSample(const InferCall& c) {
  CheckGridSample(c);
  c.out.push_back(c.in[0]->With(SampledSizes(*c.in[0], *c.in[1])));
}

std::vector<Tensor> ExpandGridSample(const ExpandCall& c) {
  DType wide = WideFloat(c.out[0].dtype());
  Tensor input = Casted(c.in[0], wide), grid = Casted(c.in[1], wide);
  int64_t batch = input.size(0), channels = input.size(1), elements = 1, points = 1;
  int rank = input.dim() - 2;
  for (int i = 0; i < rank; ++i) {
    elements *= input.size(i + 2);
    points *= grid.size(i + 1);
  }
  Sampler s{c.attrs[0].str(),
            c.attrs[1].str(),
            !c.attrs[2].IsNone() && c.attrs[2].boolean(),
            Reshaped(input, {batch, channels, elements}),
            {}};
  Tensor list = Reshaped(grid, {batch, points, rank});
  for (int i = 0; i < rank; ++i) {
    // The grid has x first, the image has it last.
    Tensor position = Reshaped(Sliced(list, 2, rank - 1 - i, 1), {batch, 1, points});
    int64_t size = input.size(i + 2);
    s.dims.push_back({size, Unnormalized(position, size, s.align_corners)});
  }
  Tensor result = s.mode == "nearest"    ? SampleNearest(s)
                  : s.mode == "bilinear" ? SampleLinear(s)
                                         : SampleCubic(s);
  return {Casted(Reshaped(result, c.out[0].sizes()), c.out[0].dtype())};
}

/// `count` points from -1 to 1: the corners, or the middles of as many equal parts.
Tensor BasePoints(int64_t count, bool align_corners, const Tensor& like, int dim, int rank) {
  Tensor i = Casted(CountingAlong(dim, rank, count, like), like.dtype());
  if (count == 1) return i;
  auto last = static_cast<double>(count - 1);
  double reach = align_corners ? 1 : last / static_cast<double>(count);
  return (i * Number(2 / last, i) - Number(1, i)) * Number(reach, i);
}

}  // namespace

Tensor grid_sample(const Tensor& input, const Tensor& grid, const std::string& mode,
                   const std::string& padding_mode, std::optional<bool> align_corners,
                   Location at) {
  LocationScope scope(at);
  return Apply(kGridSample, at, {input, grid}, {mode, padding_mode, align_corners.value_or(false)});
}

Tensor affine_grid(const Tensor& theta, const Dims& size, std::optional<bool> align_corners,
                   Location at) {
  LocationScope scope(at);
  NeedFloat("affine_grid", theta);
  int rank = size.size() - 2;
  bool fits = (rank == 2 || rank == 3) && theta.dim() == 3 && theta.size(0) == size[0] &&
              theta.size(1) == rank && theta.size(2) == rank + 1;
  for (int64_t one : size) fits = fits && one > 0;
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch,
          "affine_grid: needs theta (N, 2, 3) and size (N, C, H, W), or (N, 3, 4) and (N, C, D, H, "
          "W), got {} and {}",
          theta.shape().to_string(), ToString(size));
  }
  // Column j of theta, for all points: [N, 1, ..., 1, rank].
  Tensor wide = Casted(theta, WideFloat(theta.dtype()));
  auto column = [&](int j) {
    Dims sizes = Dims::Filled(rank + 2, 1);
    sizes[0] = size[0];
    sizes[rank + 1] = rank;
    return Reshaped(Sliced(wide, 2, j, 1), sizes);
  };
  Tensor result = column(rank);
  for (int j = 0; j < rank; ++j) {
    int dim = rank - j;  // x is the last dim
    result = result + column(j) * BasePoints(size[dim + 1], align_corners.value_or(false), wide,
                                             dim, rank + 2);
  }
  return Casted(result, theta.dtype());
}

namespace {

constinit const OpDef kGridSample = {
    .schema =
        "grid_sample(Tensor input, Tensor grid, str mode=\"bilinear\", str "
        "padding_mode=\"zeros\", bool? align_corners=None) -> Tensor",
    .doc = "Values at the points of `grid`.",
    .call = Box<grid_sample>,
    .autocast = AutocastRule::kWidest,
    .infer = InferGridSample,
    .expand = ExpandGridSample,
    .samples = {{"f32[1,2,3,4] f32[1,2,2,2]",
                 "{mode=\"bilinear\", padding_mode=\"zeros\", align_corners=false}"}},
};
HAMMOCK_FUNCTION(kAffineGrid,
                 "affine_grid(Tensor theta, int[] size, bool? align_corners=None) -> Tensor",
                 "The grid of an affine map.", affine_grid)

}  // namespace

std::span<const OpDef* const> ops::GridOps() {
  static constexpr const OpDef* kOps[] = {&kGridSample, &kAffineGrid};
  return kOps;
}

}  // namespace hammock
