#include <algorithm>
#include <numeric>

#include "onnx/file.h"
#include "onnx/narrow.h"
#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

HostTensor IntsOf(const std::vector<int64_t>& values) {
  return HostTensor::From(values, Dims(static_cast<int64_t>(values.size())));
}

Dims SizesOf(const Call& c, size_t i) {
  const Value& value = c.At(i);
  if (value.kind == Value::Kind::kStrings) return value.strings->sizes;
  return c[i].sizes();
}

Values ShapeOf(Call& c) {
  Dims sizes = SizesOf(c, 0);
  int64_t rank = sizes.size();
  auto bound = [&](int64_t at) { return std::clamp(at < 0 ? at + rank : at, int64_t{0}, rank); };
  int64_t start = bound(c.Int("start", 0)), end = bound(c.Int("end", rank));
  std::vector<int64_t> part;
  for (int64_t i = start; i < end; ++i) part.push_back(sizes[static_cast<int>(i)]);
  return {Value::Known(IntsOf(part))};
}

Values Size(Call& c) {
  return {Value::Known(HostTensor::From(Scalar(Product(SizesOf(c, 0), 0, SizesOf(c, 0).size()))))};
}

Values Reshape(Call& c) {
  std::vector<int64_t> shape = c.opset() < 5 ? c.IntList("shape") : c.Ints(1);
  Tensor x = c[0];
  bool zero_is_zero = c.Int("allowzero", 0);
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !zero_is_zero) {
      if (i >= static_cast<size_t>(x.dim()))
        c.Fail("size 0 at {} copies a dim that {} has not", i, x.shape().to_string());
      shape[i] = x.size(static_cast<int64_t>(i));
    }
  }
  return {reshape(x, Dims(shape))};
}

Values Flatten(Call& c) {
  Tensor x = c[0];
  int64_t axis = c.Int("axis", 1);
  if (axis < 0) axis += x.dim();
  if (axis < 0 || axis > x.dim()) c.Fail("axis {} of {}", axis, x.shape().to_string());
  int split = static_cast<int>(axis);
  return {reshape(x, {Product(x.sizes(), 0, split), Product(x.sizes(), split, x.dim())})};
}

Values Squeeze(Call& c) {
  Tensor x = c[0];
  bool given = c.HasAttribute("axes") || c.Has(1);
  Dims axes = AxesOf(c, "axes", 1, x.dim()), sizes;
  for (int i = 0; i < x.dim(); ++i) {
    bool squeezed = given ? std::ranges::find(axes, int64_t{i}) != axes.end() : x.size(i) == 1;
    if (squeezed && x.size(i) != 1) c.Fail("dim {} of {} is not 1", i, x.shape().to_string());
    if (!squeezed) sizes.push_back(x.size(i));
  }
  return {reshape(x, sizes)};
}

Values Unsqueeze(Call& c) {
  Tensor x = c[0];
  std::vector<int64_t> given = c.HasAttribute("axes") ? c.IntList("axes") : c.Ints(1);
  Dims axes = AxesOf(c, "axes", 1, x.dim() + static_cast<int64_t>(given.size()));
  Dims sizes = x.sizes();
  for (int64_t axis : axes) sizes.insert(static_cast<int>(axis), 1);
  return {reshape(x, sizes)};
}

Values Transpose(Call& c) {
  Tensor x = c[0];
  std::vector<int64_t> dims = c.IntList("perm");
  if (dims.empty()) {
    for (int64_t i = x.dim(); i-- > 0;) dims.push_back(i);
  }
  return {permute(x, Dims(dims))};
}

Values Concat(Call& c) {
  std::vector<Tensor> tensors = c.Tensors();
  int64_t axis = Wrapped(c, c.Int("axis", c.opset() < 4 ? 1 : 0), tensors.at(0).dim());
  // PyTorch skips empty vectors; here their other sizes count as well, which is the same.
  return {cat(tensors, axis)};
}

Values Split(Call& c) {
  Tensor x = c[0];
  int64_t axis = Wrapped(c, c.Int("axis", 0), x.dim()), size = x.size(axis);
  std::vector<int64_t> parts = c.HasAttribute("split") ? c.IntList("split")
                               : c.Has(1)              ? c.Ints(1)
                                                       : std::vector<int64_t>();
  if (parts.empty()) {
    int64_t count = c.Int("num_outputs", static_cast<int64_t>(c.results()));
    if (count < 1 || count > static_cast<int64_t>(c.results())) c.Fail("{} parts", count);
    int64_t each = (size + count - 1) / count;
    for (int64_t left = size; count-- > 0; left -= parts.back()) {
      parts.push_back(std::min(each, left));
    }
  }
  Values results;
  for (Tensor& part : split_with_sizes(x, parts, axis)) results.push_back(part);
  return results;
}

struct Cut {
  int64_t axis, start, end, step;
};

Tensor Cutted(Tensor x, const Cut& cut) {
  int64_t size = x.size(cut.axis), step = cut.step;
  if (step > 0) {
    int64_t start = std::clamp(cut.start < 0 ? cut.start + size : cut.start, int64_t{0}, size);
    int64_t end = std::clamp(cut.end < 0 ? cut.end + size : cut.end, int64_t{0}, size);
    return slice(x, cut.axis, start, std::max(start, end),
                 std::min(step, std::max<int64_t>(size, 1)));
  }
  int64_t start = std::clamp(cut.start < 0 ? cut.start + size : cut.start, int64_t{-1}, size - 1);
  int64_t end = cut.end < -size ? -1 : cut.end < 0 ? cut.end + size : std::min(cut.end, size - 1);
  int64_t by = step < -size ? std::max<int64_t>(size, 1) : -step;
  x = flip(x, {cut.axis});
  return slice(x, cut.axis, size - 1 - start, std::max(size - 1 - start, size - 1 - end), by);
}

Values Slice(Call& c) {
  Tensor x = c[0];
  bool inputs = c.opset() >= 10;
  std::vector<int64_t> starts = inputs ? c.Ints(1) : c.IntList("starts");
  std::vector<int64_t> ends = inputs ? c.Ints(2) : c.IntList("ends");
  std::vector<int64_t> axes =
      inputs ? (c.Has(3) ? c.Ints(3) : std::vector<int64_t>()) : c.IntList("axes");
  std::vector<int64_t> steps = inputs && c.Has(4) ? c.Ints(4) : std::vector<int64_t>();
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  steps.resize(starts.size(), 1);
  if (starts.size() != ends.size() || starts.size() != axes.size()) {
    c.Fail("{} starts, {} ends and {} axes", starts.size(), ends.size(), axes.size());
  }
  for (size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) c.Fail("step 0");
    x = Cutted(x, {Wrapped(c, axes[i], x.dim()), starts[i], ends[i], steps[i]});
  }
  return {x};
}

/// (before, after) of each dim, from the first.
Tensor PaddedWith(const Call& c, Tensor x, const std::vector<int64_t>& before,
                  const std::vector<int64_t>& after, const std::string& mode, const Tensor& fill) {
  constexpr int64_t kMost = int64_t{1} << 48;  // so that no sum of sizes overflows
  std::vector<int64_t> low = before, high = after;
  for (int64_t i = 0; i < x.dim(); ++i) {  // negative amounts crop
    auto at = static_cast<size_t>(i);
    for (int64_t amount : {low[at], high[at]}) {
      if (amount < -kMost || amount > kMost)
        c.Fail("a pad of {}, at most {} can be", amount, kMost);
    }
    int64_t cut = std::max<int64_t>(-low[at], 0), cut_end = std::max<int64_t>(-high[at], 0);
    if (cut + cut_end > x.size(i))
      c.Fail("pads {} and {} of {}", low[at], high[at], x.shape().to_string());
    if (cut + cut_end > 0) x = narrow(x, i, cut, x.size(i) - cut - cut_end);
    low[at] = std::max<int64_t>(low[at], 0);
    high[at] = std::max<int64_t>(high[at], 0);
  }
  for (int64_t i = 0; i < x.dim(); ++i) {
    auto at = static_cast<size_t>(i);
    if (low[at] + high[at] == 0) continue;
    Dims sizes = x.sizes();
    if (mode == "constant") {
      auto part = [&](int64_t size) {
        sizes[static_cast<int>(i)] = size;
        return broadcast_to(fill, sizes);
      };
      x = cat({part(low[at]), x, part(high[at])}, i);
      continue;
    }
    int64_t size = x.size(i);
    if (size == 0) c.Fail("{} pads of an empty dim", mode);
    Tensor from = arange(low[at] + size + high[at], DType::kI64, c.device()) - low[at];
    if (mode == "edge" || (mode == "reflect" && size == 1)) {
      from = clamp(from, 0, size - 1);
    } else if (mode == "wrap") {
      from = remainder(from, size);
    } else {
      int64_t period = 2 * (size - 1);
      from = remainder(from, period);
      from = minimum(from, period - from);
    }
    x = index_select(x, i, from);
  }
  return x;
}

Values Pad(Call& c) {
  Tensor x = c[0];
  auto rank = static_cast<size_t>(x.dim());
  std::string mode = c.Text("mode", "constant");
  std::vector<int64_t> pads = c.opset() >= 11          ? c.Ints(1)
                              : c.HasAttribute("pads") ? c.IntList("pads")
                                                       : c.IntList("paddings");
  std::vector<int64_t> before(rank), after(rank), axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.Has(3)) axes = c.Ints(3);
  if (pads.size() != 2 * axes.size()) c.Fail("{} pads for {} dims", pads.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = static_cast<size_t>(Wrapped(c, axes[i], x.dim()));
    before[axis] = pads[i];
    after[axis] = pads[i + axes.size()];
  }
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap") {
    c.Fail("mode '{}'", mode);
  }
  // A known number pads in one op.
  Tensor fill;
  bool number = !(c.opset() >= 11 && c.Has(2)) || c.At(2).known();
  if (mode == "constant" && number) {
    Scalar value =
        c.opset() >= 11 ? (c.Has(2) ? c.Number(2) : Scalar(0)) : Scalar(c.Float("value", 0));
    std::vector<int64_t> reversed;
    for (size_t i = rank; i-- > 0;) {
      reversed.push_back(before[i]);
      reversed.push_back(after[i]);
    }
    return {constant_pad_nd(x, reversed, value)};
  }
  if (mode == "constant") fill = c[2].reshape({});
  return {PaddedWith(c, x, before, after, mode, fill)};
}

Values Expand(Call& c) {
  Tensor x = c[0];
  return {broadcast_to(x, broadcast_shapes({x.sizes(), Dims(c.Ints(1))}))};
}

Values Tile(Call& c) {
  if (c.opset() < 6) {
    Tensor x = c[0];
    Dims repeats = Dims::Filled(x.dim(), 1);
    repeats[static_cast<int>(Wrapped(c, c.Number(2).ToInt(), x.dim()))] = c.Number(1).ToInt();
    return {repeat(x, repeats)};
  }
  return {repeat(c[0], Dims(c.Ints(1)))};
}

HostTensor ElementsOf(const format::Tensor& tensor) {
  format::Tensor copy = tensor;
  return TakeElements(copy, "");
}

Value WithElement(Value value, int32_t element) {
  if (IsNarrow(element)) value.element = element;
  return value;
}

Values ConstantOf(Call& c) {
  for (const format::Attribute& a : c.node().attributes) {
    if (a.name == "value" && !a.tensors.empty()) {
      const format::Tensor& tensor = a.tensors[0];
      if (tensor.element == format::kString) {
        return {Value::Text(Dims(tensor.dims), tensor.strings)};
      }
      return {WithElement(Value::Known(ElementsOf(tensor)), tensor.element)};
    }
    if (a.name == "value_float")
      return {Value::Known(HostTensor::From(Scalar(a.f).To(DType::kF32)))};
    if (a.name == "value_int") return {Value::Known(HostTensor::From(Scalar(a.i)))};
    if (a.name == "value_ints") return {Value::Known(IntsOf(a.ints))};
    if (a.name == "value_floats") {
      return {
          Value::Known(HostTensor::From(a.floats, Dims(static_cast<int64_t>(a.floats.size()))))};
    }
    if (a.name == "value_string") return {Value::Text({}, {a.s})};
    if (a.name == "value_strings") {
      return {Value::Text(Dims(static_cast<int64_t>(a.strings.size())), a.strings)};
    }
  }
  c.Fail("it has no value");
}

Values ConstantOfShape(Call& c) {
  const format::Attribute* value = c.Find("value");
  Dims sizes(c.Ints(0));
  if (!value || value->tensors.empty()) return {zeros(sizes, DType::kF32, c.device())};
  HostTensor element = ElementsOf(value->tensors[0]);
  if (element.numel() != 1) c.Fail("the value has {} elements", element.numel());
  return {WithElement(full(sizes, element.at(0), element.dtype(), c.device()),
                      value->tensors[0].element)};
}

Values Range(Call& c) {
  DType dtype = c.At(0).known() ? c.Host(0).dtype() : c[0].dtype();
  Scalar start = c.Number(0), limit = c.Number(1), delta = c.Number(2);
  double span = limit.ToDouble() - start.ToDouble(), step = delta.ToDouble();
  if (step == 0) c.Fail("step 0");
  if (span / step <= 0) return {zeros({0}, dtype, c.device())};
  return {arange(start, limit, delta, dtype, c.device())};
}

Values EyeLike(Call& c) {
  Tensor x = c[0];
  if (x.dim() != 2) c.Fail("{} is no matrix", x.shape().to_string());
  DType dtype =
      c.HasAttribute("dtype") ? DTypeOfElement(static_cast<int32_t>(c.Int("dtype", 1))) : x.dtype();
  Tensor rows = arange(x.size(0), DType::kI64, c.device()).unsqueeze(1);
  Tensor columns = arange(x.size(1), DType::kI64, c.device()).unsqueeze(0);
  return {eq(rows + c.Int("k", 0), columns).to(dtype)};
}

Values Trilu(Call& c) {
  int64_t k = c.Has(1) ? c.Number(1).ToInt() : 0;
  Tensor x = c[0];
  k = std::clamp<int64_t>(k, -1 - x.size(-2), 1 + x.size(-1));
  return {c.Int("upper", 1) ? triu(x, k) : tril(x, k)};
}

Values DepthToSpace(Call& c) {
  Tensor x = c[0];
  int64_t b = c.Int("blocksize", 1), n = x.size(0), d = x.size(1), h = x.size(2), w = x.size(3);
  if (b < 1 || d % b != 0 || d / b % b != 0) {
    c.Fail("blocksize {} of {}", b, x.shape().to_string());
  }
  int64_t out = d / b / b;
  bool crd = c.Text("mode", "DCR") == "CRD";
  Tensor parts = crd ? x.reshape({n, out, b, b, h, w}).permute({0, 1, 4, 2, 5, 3})
                     : x.reshape({n, b, b, out, h, w}).permute({0, 3, 4, 1, 5, 2});
  return {reshape(parts, {n, out, h * b, w * b})};
}

Values SpaceToDepth(Call& c) {
  Tensor x = c[0];
  int64_t b = c.Int("blocksize", 1), n = x.size(0), d = x.size(1), h = x.size(2), w = x.size(3);
  if (b < 1 || h % b != 0 || w % b != 0) c.Fail("blocksize {} of {}", b, x.shape().to_string());
  bool crd = c.Text("mode", "DCR") == "CRD";
  Tensor parts = x.reshape({n, d, h / b, b, w / b, b});
  parts = crd ? parts.permute({0, 1, 3, 5, 2, 4}) : parts.permute({0, 3, 5, 1, 2, 4});
  return {reshape(parts, {n, d * b * b, h / b, w / b})};
}

Values CenterCropPad(Call& c) {
  Tensor x = c[0];
  std::vector<int64_t> shape = c.Ints(1), axes = c.IntList("axes");
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(x.dim()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = Wrapped(c, axes[i], x.dim()), size = x.size(axis), wanted = shape.at(i);
    if (size > wanted) {
      x = narrow(x, axis, (size - wanted) / 2, wanted);
    } else if (size < wanted) {
      std::vector<int64_t> pads(static_cast<size_t>(2 * (x.dim() - axis)));
      pads[pads.size() - 2] = (wanted - size) / 2;
      pads[pads.size() - 1] = wanted - size - (wanted - size) / 2;
      x = constant_pad_nd(x, pads);
    }
  }
  return {x};
}

Values ReverseSequence(Call& c) {
  Tensor x = c[0], lengths = c[1].to(DType::kI64);
  int64_t batch = c.Int("batch_axis", 1), time = c.Int("time_axis", 0);
  Dims along = Dims::Filled(x.dim(), 1), across = along;
  along[static_cast<int>(time)] = x.size(time);
  across[static_cast<int>(batch)] = x.size(batch);
  Tensor steps = arange(x.size(time), DType::kI64, c.device()).reshape(along);
  Tensor length = lengths.reshape(across);
  Tensor index = where(steps < length, length - 1 - steps, steps);
  return {gather(x, time, broadcast_to(index, x.sizes()))};
}

constexpr Operator kRows[] = {
    {"CenterCropPad", 18, kNewestOpset, CenterCropPad},
    {"Concat", 1, kNewestOpset, Concat},
    {"Constant", 1, kNewestOpset, ConstantOf},
    {"ConstantOfShape", 9, kNewestOpset, ConstantOfShape},
    {"DepthToSpace", 1, kNewestOpset, DepthToSpace},
    {"Expand", 8, kNewestOpset, Expand},
    {"EyeLike", 9, kNewestOpset, EyeLike},
    {"Flatten", 1, kNewestOpset, Flatten},
    {"Pad", 1, kNewestOpset, Pad},
    {"Range", 11, kNewestOpset, Range},
    {"Reshape", 1, kNewestOpset, Reshape},
    {"ReverseSequence", 10, kNewestOpset, ReverseSequence},
    {"Shape", 1, kNewestOpset, ShapeOf},
    {"Size", 1, kNewestOpset, Size},
    {"Slice", 1, kNewestOpset, Slice},
    {"SpaceToDepth", 1, kNewestOpset, SpaceToDepth},
    {"Split", 1, kNewestOpset, Split},
    {"Squeeze", 1, kNewestOpset, Squeeze},
    {"Tile", 1, kNewestOpset, Tile},
    {"Transpose", 1, kNewestOpset, Transpose},
    {"Trilu", 14, kNewestOpset, Trilu},
    {"Unsqueeze", 1, kNewestOpset, Unsqueeze},
};

}  // namespace

std::span<const Operator> ShapeOperators() { return kRows; }

}  // namespace hammock::onnx
