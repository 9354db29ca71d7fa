#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

/// How one axis is resized.
struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1, start = 0, end = 1;
};

struct Rule {
  std::string mode, coordinates, nearest;
  double cubic = -0.75;
  bool exclude_outside = false, antialias = false;
};

/// Where element `i` of the result lies in the input.
double Original(const Rule& rule, const Axis& axis, int64_t i) {
  auto x = static_cast<double>(i);
  auto in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  double length = axis.scale * in;  // before it was rounded
  const std::string& mode = rule.coordinates;
  if (mode == "asymmetric") return x / axis.scale;
  if (mode == "align_corners") return length <= 1 ? 0 : x * (in - 1) / (length - 1);
  if (mode == "pytorch_half_pixel") return out > 1 ? (x + 0.5) / axis.scale - 0.5 : 0;
  if (mode == "half_pixel_symmetric") {
    double adjusted = out / length;
    return (x + 0.5) / axis.scale - 0.5 + in / 2 * (1 - adjusted);
  }
  if (mode == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (mode == "tf_crop_and_resize") {
    if (out <= 1) return (axis.start + axis.end) / 2 * (in - 1);
    return axis.start * (in - 1) + x * (axis.end - axis.start) * (in - 1) / (out - 1);
  }
  return (x + 0.5) / axis.scale - 0.5;
}

int64_t Nearest(const Rule& rule, double x) {
  if (rule.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (rule.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  bool half = x - std::floor(x) == 0.5;
  if (half)
    return static_cast<int64_t>(rule.nearest == "round_prefer_ceil" ? std::ceil(x) : std::floor(x));
  return static_cast<int64_t>(std::round(x));
}

double Cubic(double distance, double a) {
  double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((d - 5) * d + 8) * d * a - 4 * a;
  return 0;
}

/// A row of weights for each element of the result.
std::vector<float> Weights(const Rule& rule, const Axis& axis) {
  std::vector<float> weights(static_cast<size_t>(axis.in * axis.out), 0.0f);
  bool cubic = rule.mode == "cubic";
  double stretch = rule.antialias ? std::max(1.0, 1 / axis.scale) : 1.0;
  double reach = (cubic ? 2 : 1) * stretch;
  for (int64_t i = 0; i < axis.out; ++i) {
    double x = Original(rule, axis, i);
    auto first = static_cast<int64_t>(std::floor(x - reach)) + 1;
    auto last = static_cast<int64_t>(std::ceil(x + reach)) - 1;
    std::vector<std::pair<int64_t, double>> taps;
    double sum = 0;
    for (int64_t k = first; k <= last; ++k) {
      double distance = (x - static_cast<double>(k)) / stretch;
      double weight = cubic ? Cubic(distance, rule.cubic) : std::max(0.0, 1 - std::abs(distance));
      bool outside = k < 0 || k >= axis.in;
      if (outside && rule.exclude_outside) continue;
      taps.emplace_back(std::clamp<int64_t>(k, 0, axis.in - 1), weight);
      sum += weight;
    }
    bool scaled = (rule.exclude_outside || rule.antialias) && sum != 0;
    for (auto [k, weight] : taps) {
      weights[static_cast<size_t>(i * axis.in + k)] +=
          static_cast<float>(scaled ? weight / sum : weight);
    }
  }
  return weights;
}

/// Elements whose origin lies outside of the input.
Tensor Outside(const Call& c, const Rule& rule, const Axis& axis) {
  HostTensor outside(Shape(DType::kBool, {axis.out}));
  for (int64_t i = 0; i < axis.out; ++i) {
    double x = Original(rule, axis, i);
    outside.mutable_values<bool>()[static_cast<size_t>(i)] =
        x < 0 || x > static_cast<double>(axis.in - 1);
  }
  return Recorded(outside, c.device());
}

Tensor ResizedAxis(const Call& c, const Rule& rule, const Axis& axis, const Tensor& x,
                   int64_t dim) {
  CheckListed(c, axis.out);
  if (rule.mode == "nearest") {
    std::vector<int64_t> index;
    for (int64_t i = 0; i < axis.out; ++i) {
      index.push_back(std::clamp<int64_t>(Nearest(rule, Original(rule, axis, i)), 0, axis.in - 1));
    }
    bool repeats = axis.in > 0 && axis.out % axis.in == 0;
    for (int64_t i = 0; repeats && i < axis.out; ++i) {
      repeats = index[static_cast<size_t>(i)] == i / (axis.out / axis.in);
    }
    if (repeats) return repeat_interleave(x, axis.out / axis.in, dim);
    return index_select(x, dim, VectorOf(c, index));
  }
  CheckListed(c, axis.in);
  CheckListed(c, axis.out * axis.in);
  for (int64_t i = 0; i < axis.out; ++i) {  // a region may lie anywhere, and be of any size
    double x = Original(rule, axis, i);
    bool wide = rule.antialias && 1 / axis.scale > 2 * static_cast<double>(axis.in);
    if (wide || !(std::abs(x) < 1 << 24)) c.Fail("element {} comes from {} of {}", i, x, axis.in);
  }
  Tensor weights = VectorOf(c, Weights(rule, axis), {axis.out, axis.in});
  Tensor last = movedim(x, {dim}, {-1});
  DType wide = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor y = matmul(last.to(wide), weights.to(wide).t());
  return movedim(y, {-1}, {dim});
}

/// Sizes, scales and regions of the axes that are resized, by dim.
std::vector<Axis> AxesToResize(const Call& c, const Tensor& x) {
  std::vector<Axis> all;
  for (int i = 0; i < x.dim(); ++i) all.push_back({x.size(i), x.size(i), 1, 0, 1});
  std::vector<int64_t> axes = c.IntList("axes");
  if (axes.empty()) {
    axes.resize(all.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  size_t scales_at = c.opset() < 11 ? 1 : 2;
  std::vector<double> scales = c.Has(scales_at) ? c.Numbers(scales_at) : std::vector<double>();
  std::vector<int64_t> sizes = c.Has(3) ? c.Ints(3) : std::vector<int64_t>();
  std::vector<double> region = c.opset() >= 11 && c.Has(1) ? c.Numbers(1) : std::vector<double>();
  if (c.HasAttribute("scales")) {  // Upsample 7
    for (float scale : c.FloatList("scales")) scales.push_back(static_cast<double>(scale));
  }
  if (c.HasAttribute("height_scale")) {  // Upsample 1, of images
    scales = {1, 1, c.Float("height_scale", 1), c.Float("width_scale", 1)};
  }
  if ((scales.empty() ? sizes.size() : scales.size()) != axes.size()) {
    c.Fail("{} scales and {} sizes for {} axes", scales.size(), sizes.size(), axes.size());
  }
  std::string policy = c.Text("keep_aspect_ratio_policy", "stretch");
  double common = 0;
  for (size_t i = 0; i < axes.size() && scales.empty() && policy != "stretch"; ++i) {
    Axis& axis = all[static_cast<size_t>(Wrapped(c, axes[i], x.dim()))];
    double scale = static_cast<double>(sizes[i]) / static_cast<double>(axis.in);
    common = i == 0                   ? scale
             : policy == "not_larger" ? std::min(common, scale)
                                      : std::max(common, scale);
  }
  bool crops = c.Text("coordinate_transformation_mode") == "tf_crop_and_resize";
  for (size_t i = 0; i < axes.size(); ++i) {
    Axis& axis = all[static_cast<size_t>(Wrapped(c, axes[i], x.dim()))];
    if (crops && region.size() == 2 * axes.size()) {
      axis.start = region[i];
      axis.end = region[i + axes.size()];
    }
    auto in = static_cast<double>(axis.in);
    if (!scales.empty()) {
      if (!(scales[i] > 0)) c.Fail("scale {}", scales[i]);
      axis.scale = scales[i];
      double span = crops ? axis.end - axis.start : 1;
      axis.out = static_cast<int64_t>(std::floor(in * span * axis.scale));
    } else if (common > 0) {
      axis.scale = common;
      axis.out = static_cast<int64_t>(std::round(in * common));
    } else {
      axis.out = sizes[i];
      axis.scale = static_cast<double>(axis.out) / in;
    }
  }
  return all;
}

/// The op for images by half a pixel, where it does the same.
bool IsBilinear(const Rule& rule, const std::vector<Axis>& axes) {
  if (rule.mode != "linear" || rule.antialias || rule.exclude_outside || axes.size() != 4)
    return false;
  if (rule.coordinates != "half_pixel" || axes[0].out != axes[0].in || axes[1].out != axes[1].in)
    return false;
  return std::ranges::all_of(axes, [](const Axis& axis) {
    return static_cast<double>(axis.out) == axis.scale * static_cast<double>(axis.in);
  });
}

Values Resize(Call& c) {
  Tensor x = c[0];
  Rule rule;
  rule.mode = c.Text("mode", "nearest");
  if (rule.mode == "bilinear") rule.mode = "linear";
  rule.coordinates =
      c.opset() < 11 ? "asymmetric" : c.Text("coordinate_transformation_mode", "half_pixel");
  rule.nearest = c.opset() < 11 ? "floor" : c.Text("nearest_mode", "round_prefer_floor");
  rule.cubic = c.Float("cubic_coeff_a", -0.75);
  rule.exclude_outside = c.Int("exclude_outside", 0);
  rule.antialias = c.Int("antialias", 0);
  std::vector<Axis> axes = AxesToResize(c, x);
  if (IsBilinear(rule, axes) && IsFloat(x.dtype())) {
    return {upsample_bilinear2d(x, {axes[2].out, axes[3].out}, false)};
  }
  Tensor y = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& axis = axes[i];
    bool whole = axis.in == axis.out && axis.scale == 1 && axis.start == 0 && axis.end == 1;
    if (whole) continue;
    if (axis.in == 0 || axis.out < 0) c.Fail("size {} to {}", axis.in, axis.out);
    y = ResizedAxis(c, rule, axis, y, static_cast<int64_t>(i));
  }
  if (rule.coordinates == "tf_crop_and_resize") {
    for (size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].in == axes[i].out && axes[i].start == 0 && axes[i].end == 1) continue;
      Dims sizes = Dims::Filled(y.dim(), 1);
      sizes[static_cast<int>(i)] = axes[i].out;
      y = where(Outside(c, rule, axes[i]).reshape(sizes),
                full({}, c.Float("extrapolation_value", 0), y.dtype(), c.device()), y);
    }
  }
  if (!IsFloat(x.dtype()) && y.dtype() != x.dtype()) {
    y = clamp(round(y), InfoOf(x.dtype()).lowest, InfoOf(x.dtype()).highest);
  }
  return {y.to(x.dtype())};
}

Values GridSample(Call& c) {
  Tensor x = c[0], grid = c[1];
  std::string mode = c.Text("mode", "linear");
  if (mode == "linear") mode = "bilinear";
  if (mode == "cubic") mode = "bicubic";
  bool align = c.Int("align_corners", 0);
  if (x.dim() == 4 || (x.dim() == 5 && mode != "bicubic")) {
    return {grid_sample(x, grid, mode, c.Text("padding_mode", "zeros"), align)};
  }
  c.Unsupported("mode {} for {} is not supported", mode, x.shape().to_string());
}

Values AffineGrid(Call& c) {
  return {affine_grid(c[0], Dims(c.Ints(1)), c.Int("align_corners", 0) != 0)};
}

/// Bilinear samples in each bin of a region, averaged or the largest. The regions are read: how
/// many samples a bin has may depend on its size.
Values RoiAlign(Call& c) {
  Tensor x = c[0];
  int64_t height = x.size(2), width = x.size(3), channels = x.size(1);
  std::vector<double> rois = c.Numbers(1);
  std::vector<int64_t> batch = c.Ints(2);
  int64_t oh = c.Int("output_height", 1), ow = c.Int("output_width", 1);
  int64_t ratio = c.Int("sampling_ratio", 0);
  double scale = c.Float("spatial_scale", 1);
  bool half =
      c.opset() >= 16 && c.Text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  double offset = half ? 0.5 : 0;
  bool average = c.Text("mode", "avg") == "avg";
  std::vector<Tensor> results;
  for (size_t r = 0; r < batch.size(); ++r) {
    double x1 = rois.at(4 * r) * scale - offset, y1 = rois.at(4 * r + 1) * scale - offset;
    double x2 = rois.at(4 * r + 2) * scale - offset, y2 = rois.at(4 * r + 3) * scale - offset;
    double w = x2 - x1, h = y2 - y1;
    if (!half) {
      w = std::max(w, 1.0);
      h = std::max(h, 1.0);
    }
    auto count = [&](double size, int64_t bins) {
      return ratio > 0 ? ratio
                       : std::max<int64_t>(
                             static_cast<int64_t>(std::ceil(size / static_cast<double>(bins))), 1);
    };
    int64_t ny = count(h, oh), nx = count(w, ow);
    for (int64_t part : {oh, ow, ny, nx}) {
      if (part > (1 << 12)) c.Fail("{} samples of a region", part);
    }
    CheckListed(c, oh * ow * ny * nx * 4);
    std::vector<int64_t> index;
    std::vector<float> weight;
    for (int64_t py = 0; py < oh; ++py) {
      for (int64_t px = 0; px < ow; ++px) {
        for (int64_t iy = 0; iy < ny; ++iy) {
          for (int64_t ix = 0; ix < nx; ++ix) {
            double y = y1 + (static_cast<double>(py) +
                             (static_cast<double>(iy) + 0.5) / static_cast<double>(ny)) *
                                h / static_cast<double>(oh);
            double xx = x1 + (static_cast<double>(px) +
                              (static_cast<double>(ix) + 0.5) / static_cast<double>(nx)) *
                                 w / static_cast<double>(ow);
            bool outside = y < -1 || y > static_cast<double>(height) || xx < -1 ||
                           xx > static_cast<double>(width);
            y = std::clamp(y, 0.0, static_cast<double>(height - 1));
            xx = std::clamp(xx, 0.0, static_cast<double>(width - 1));
            auto top = static_cast<int64_t>(y), left = static_cast<int64_t>(xx);
            int64_t bottom = std::min(top + 1, height - 1), right = std::min(left + 1, width - 1);
            double fy = y - static_cast<double>(top), fx = xx - static_cast<double>(left);
            int64_t corners[] = {top * width + left, top * width + right, bottom * width + left,
                                 bottom * width + right};
            double shares[] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
            for (int k = 0; k < 4; ++k) {
              index.push_back(corners[k]);
              weight.push_back(outside ? 0.0f : static_cast<float>(shares[k]));
            }
          }
        }
      }
    }
    int64_t samples = ny * nx;
    Tensor image = select(x, 0, batch[r]).reshape({channels, height * width});
    Tensor taps =
        index_select(image, 1, VectorOf(c, index)).reshape({channels, oh, ow, samples, 4}) *
        VectorOf(c, weight, {oh, ow, samples, 4}).to(x.dtype());
    results.push_back(average ? mean(sum(taps, {-1}), {-1}) : amax(amax(taps, {-1}), {-1}));
  }
  if (results.empty()) return {zeros({0, channels, oh, ow}, x.dtype(), c.device())};
  return {stack(results)};
}

/// How many boxes are kept depends on their values: it runs on the host.
Values NonMaxSuppression(Call& c) {
  Dims sizes = c.At(0).known() ? c.Host(0).shape().sizes() : c[0].sizes();
  if (sizes.size() != 3 || sizes[2] != 4) {
    c.Fail("boxes of {}", Shape(DType::kF32, sizes).to_string());
  }
  std::vector<double> boxes = c.Numbers(0), scores = c.Numbers(1);
  int64_t batches = sizes[0], count = sizes[1];
  int64_t classes =
      batches * count == 0 ? 0 : static_cast<int64_t>(scores.size()) / (batches * count);
  int64_t most = c.Has(2) ? c.Number(2).ToInt() : 0;
  double overlap = c.Has(3) ? c.Number(3).ToDouble() : 0;
  bool limited = c.Has(4);
  double least = limited ? c.Number(4).ToDouble() : 0;
  bool centred = c.Int("center_point_box", 0);
  struct Box {
    double y1, x1, y2, x2;
    double Area() const { return (y2 - y1) * (x2 - x1); }
  };
  auto box_at = [&](int64_t b, int64_t i) {
    const double* p = &boxes[static_cast<size_t>((b * count + i) * 4)];
    if (centred) return Box{p[1] - p[3] / 2, p[0] - p[2] / 2, p[1] + p[3] / 2, p[0] + p[2] / 2};
    return Box{std::min(p[0], p[2]), std::min(p[1], p[3]), std::max(p[0], p[2]),
               std::max(p[1], p[3])};
  };
  std::vector<int64_t> selected;
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t k = 0; k < classes; ++k) {
      const double* score = &scores[static_cast<size_t>((b * classes + k) * count)];
      std::vector<int64_t> order;
      for (int64_t i = 0; i < count; ++i) {
        if (!limited || score[i] > least) order.push_back(i);
      }
      std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return score[i] > score[j]; });
      std::vector<Box> kept;
      for (int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        Box box = box_at(b, i);
        bool free = std::ranges::none_of(kept, [&](const Box& other) {
          double h = std::min(box.y2, other.y2) - std::max(box.y1, other.y1);
          double w = std::min(box.x2, other.x2) - std::max(box.x1, other.x1);
          if (h <= 0 || w <= 0) return false;
          double shared = h * w;
          return shared / (box.Area() + other.Area() - shared) > overlap;
        });
        if (!free) continue;
        kept.push_back(box);
        selected.insert(selected.end(), {b, k, i});
      }
    }
  }
  auto rows = static_cast<int64_t>(selected.size() / 3);
  return {Value::Known(HostTensor::From(selected, {rows, 3}))};
}

constexpr Operator kRows[] = {
    {"AffineGrid", 20, kNewestOpset, AffineGrid},
    {"GridSample", 16, kNewestOpset, GridSample},
    {"NonMaxSuppression", 10, kNewestOpset, NonMaxSuppression},
    {"Resize", 10, kNewestOpset, Resize},
    {"RoiAlign", 10, kNewestOpset, RoiAlign},
    {"Upsample", 1, 10, Resize},
};

}  // namespace

std::span<const Operator> ImageOperators() { return kRows; }

}  // namespace hammock::onnx
