#include <algorithm>

#include "onnx/operators/window.h"

namespace hammock::onnx {

Windows WindowsOf(const Call& c, const Dims& sizes, std::vector<int64_t> kernel) {
  Windows w;
  w.kernel = std::move(kernel);
  auto rank = w.kernel.size();
  w.strides = c.IntList("strides");
  w.dilations = c.IntList("dilations");
  if (w.strides.empty()) w.strides.assign(rank, 1);
  if (w.dilations.empty()) w.dilations.assign(rank, 1);
  std::vector<int64_t> pads = c.IntList("pads");
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (static_cast<size_t>(sizes.size()) != rank + 2 || w.strides.size() != rank ||
      w.dilations.size() != rank || pads.size() != 2 * rank) {
    c.Fail("a window of rank {} with {} strides, {} dilations and {} pads for an input of rank {}",
           rank, w.strides.size(), w.dilations.size(), pads.size(), sizes.size());
  }
  bool positive = std::ranges::all_of(w.strides, [](int64_t s) { return s > 0; }) &&
                  std::ranges::all_of(w.dilations, [](int64_t d) { return d > 0; }) &&
                  std::ranges::all_of(w.kernel, [](int64_t k) { return k > 0; });
  if (!positive) c.Fail("kernel, strides and dilations must be positive");
  w.before.assign(pads.begin(), pads.begin() + static_cast<long>(rank));
  w.after.assign(pads.begin() + static_cast<long>(rank), pads.end());
  std::string mode = c.Text("auto_pad", "NOTSET");
  if (mode == "VALID") {
    w.before.assign(rank, 0);
    w.after.assign(rank, 0);
  } else if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
    for (size_t i = 0; i < rank; ++i) {
      int64_t size = sizes[static_cast<int>(i) + 2];
      int64_t count = (size + w.strides[i] - 1) / w.strides[i];
      int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
      int64_t all = std::max<int64_t>((count - 1) * w.strides[i] + reach - size, 0);
      w.before[i] = mode == "SAME_UPPER" ? all / 2 : all - all / 2;
      w.after[i] = all - w.before[i];
    }
  } else if (mode != "NOTSET" && !mode.empty()) {
    c.Fail("auto_pad '{}'", mode);
  }
  return w;
}

int64_t CountOf(const Windows& w, int dim, int64_t size, bool ceil) {
  auto i = static_cast<size_t>(dim);
  int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
  int64_t room = size + w.before[i] + w.after[i] - reach;
  if (room < 0) return 0;
  int64_t count = (ceil ? (room + w.strides[i] - 1) / w.strides[i] : room / w.strides[i]) + 1;
  // The last window begins in the input or in the pads before it.
  if (ceil && (count - 1) * w.strides[i] >= size + w.before[i]) --count;
  return count;
}

Tensor Convolved(const Call& c, Tensor x, const Tensor& weight, const std::optional<Tensor>& bias) {
  std::vector<int64_t> kernel;
  for (int i = 2; i < weight.dim(); ++i) kernel.push_back(weight.size(i));
  Windows w = WindowsOf(c, x.sizes(), kernel);
  Dims padding;
  for (size_t i = 0; i < kernel.size(); ++i) padding.push_back(std::min(w.before[i], w.after[i]));
  std::vector<int64_t> rest;
  bool uneven = false;
  for (size_t i = kernel.size(); i-- > 0;) {
    rest.push_back(w.before[i] - padding[static_cast<int>(i)]);
    rest.push_back(w.after[i] - padding[static_cast<int>(i)]);
    uneven |= w.before[i] != w.after[i];
  }
  if (uneven) x = constant_pad_nd(x, rest);
  int64_t groups = c.Int("group", 1);
  Dims strides(w.strides), dilations(w.dilations);
  switch (kernel.size()) {
    case 1:
      return conv1d(x, weight, bias, strides, padding, dilations, groups);
    case 2:
      return conv2d(x, weight, bias, strides, padding, dilations, groups);
    case 3:
      return conv3d(x, weight, bias, strides, padding, dilations, groups);
    default:
      c.Unsupported("convolutions over {} dims are not supported", kernel.size());
  }
}

namespace {

Values Conv(Call& c) { return {Convolved(c, c[0], c[1], c.Optional(2))}; }

/// Results that depend on no input: the bias, or zeros.
Tensor BiasOrZeros(const Call& c, const std::optional<Tensor>& bias, const Tensor& y,
                   const Dims& sizes) {
  if (!bias) return zeros(sizes, y.dtype(), c.device());
  Dims channel = Dims::Filled(y.dim(), 1);
  channel[1] = y.size(1);
  return broadcast_to(bias->reshape(channel), sizes);
}

Values ConvTranspose(Call& c) {
  Tensor x = c[0], weight = c[1];
  std::vector<int64_t> kernel;
  for (int i = 2; i < weight.dim(); ++i) kernel.push_back(weight.size(i));
  size_t rank = kernel.size();
  std::vector<int64_t> strides = c.IntList("strides"), dilations = c.IntList("dilations");
  std::vector<int64_t> pads = c.IntList("pads"), more = c.IntList("output_padding");
  std::vector<int64_t> shape = c.IntList("output_shape");
  if (strides.empty()) strides.assign(rank, 1);
  if (dilations.empty()) dilations.assign(rank, 1);
  if (more.empty()) more.assign(rank, 0);
  if (pads.empty()) pads.assign(2 * rank, 0);
  if (static_cast<size_t>(x.dim()) != rank + 2 || strides.size() != rank ||
      dilations.size() != rank || more.size() != rank || pads.size() != 2 * rank) {
    c.Fail("strides, dilations or pads do not fit {} and {}", x.shape().to_string(),
           weight.shape().to_string());
  }
  std::string mode = c.Text("auto_pad", "NOTSET");
  bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  std::vector<int64_t> low(rank), high(rank);  // cropped from the whole result
  for (size_t i = 0; i < rank; ++i) {
    int64_t size = x.size(static_cast<int64_t>(i) + 2);
    int64_t whole = (size - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 + more[i];
    low[i] = pads[i];
    high[i] = pads[i + rank];
    if (mode == "VALID") low[i] = high[i] = 0;
    if (!shape.empty() || same) {
      int64_t wanted = shape.empty() ? size * strides[i] : shape[shape.size() - rank + i];
      int64_t all = whole - wanted;
      int64_t half = (all - (all < 0 ? 1 : 0)) / 2;  // rounded down
      low[i] = mode == "SAME_UPPER" ? half : all - half;
      high[i] = all - low[i];
    }
  }
  Dims zero = Dims::Filled(static_cast<int>(rank), 0);
  int64_t groups = c.Int("group", 1);
  std::optional<Tensor> bias = c.Optional(2);
  Tensor y;
  Dims by(strides), dilated(dilations);
  switch (rank) {
    case 1:
      y = conv_transpose1d(x, weight, bias, by, zero, zero, groups, dilated);
      break;
    case 2:
      y = conv_transpose2d(x, weight, bias, by, zero, zero, groups, dilated);
      break;
    case 3:
      y = conv_transpose3d(x, weight, bias, by, zero, zero, groups, dilated);
      break;
    default:
      c.Unsupported("convolutions over {} dims are not supported", rank);
  }
  // Elements added at the end have the bias alone.
  for (size_t i = 0; i < rank; ++i) {
    int64_t dim = static_cast<int64_t>(i) + 2, add = more[i] - high[i];
    if (add > 0) {
      Dims sizes = y.sizes();
      sizes[static_cast<int>(dim)] = add;
      Dims channel = Dims::Filled(y.dim(), 1);
      channel[1] = y.size(1);
      Tensor end =
          bias ? broadcast_to(bias->reshape(channel), sizes) : zeros(sizes, y.dtype(), c.device());
      y = cat({y, end}, dim);
    }
    if (low[i] < 0) {
      Dims sizes = y.sizes();
      sizes[static_cast<int>(dim)] = -low[i];
      y = cat({BiasOrZeros(c, bias, y, sizes), y}, dim);
    }
    int64_t start = std::max<int64_t>(low[i], 0);
    y = narrow(y, dim, start, y.size(dim) - std::max<int64_t>(-add, 0) - start);
  }
  return {y};
}

/// Columns of windows summed into an image, for any number of dims.
Values Col2Im(Call& c) {
  Tensor x = c[0];
  std::vector<int64_t> image = c.Ints(1), block = c.Ints(2);
  size_t rank = image.size();
  Dims fake{x.size(0), 1};
  for (int64_t size : image) fake.push_back(size);
  Windows w = WindowsOf(c, fake, block);
  int64_t n = x.size(0), area = 1;
  for (int64_t size : block) {
    CheckListed(c, size);
    CheckListed(c, area *= size);
  }
  int64_t channels = x.size(1) / area;
  if (channels < 1) c.Fail("blocks of {} in {}", area, x.shape().to_string());
  CheckListed(c, x.size(2));
  CheckListed(c, area * x.size(2));
  // The position of each element of a column in the padded image.
  std::vector<int64_t> padded, counts, index;
  int64_t all = 1;
  for (size_t i = 0; i < rank; ++i) {
    padded.push_back(image[i] + w.before[i] + w.after[i]);
    counts.push_back(CountOf(w, static_cast<int>(i), image[i], false));
    all *= padded.back();
  }
  int64_t windows = 1;
  for (int64_t count : counts) {
    CheckListed(c, count);
    CheckListed(c, windows *= count);
  }
  if (windows != x.size(2)) c.Fail("{} columns for {} windows", x.size(2), windows);
  std::vector<int64_t> at(2 * rank, 0);  // in the block, then in the windows
  for (;;) {
    int64_t flat = 0;
    for (size_t i = 0; i < rank; ++i) {
      flat = flat * padded[i] + at[rank + i] * w.strides[i] + at[i] * w.dilations[i];
    }
    index.push_back(flat);
    size_t i = 2 * rank;
    while (i-- > 0) {
      if (++at[i] < (i < rank ? block[i] : counts[i - rank])) break;
      at[i] = 0;
      if (i == 0) break;
    }
    if (std::ranges::all_of(at, [](int64_t v) { return v == 0; })) break;
  }
  Tensor rows = x.reshape({n * channels, -1});
  Tensor positions = broadcast_to(VectorOf(c, index).unsqueeze(0), rows.sizes());
  Tensor sums = scatter_add(zeros({n * channels, all}, x.dtype(), c.device()), 1, positions, rows);
  Dims sizes{n, channels};
  for (int64_t size : padded) sizes.push_back(size);
  Tensor y = sums.reshape(sizes);
  for (size_t i = 0; i < rank; ++i) {
    y = narrow(y, static_cast<int64_t>(i) + 2, w.before[i], image[i]);
  }
  return {y};
}

/// Sums of bilinear samples at offset positions: gathered for all taps, then one matmul a group.
Values DeformConv(Call& c) {
  Tensor x = c[0], weight = c[1], offset = c[2];
  if (weight.dim() != 4) c.Unsupported("only images are supported");
  int64_t kh = weight.size(2), kw = weight.size(3), taps = kh * kw;
  Windows w = WindowsOf(c, x.sizes(), {kh, kw});
  int64_t n = x.size(0), channels = x.size(1), h = x.size(2), wide = x.size(3);
  int64_t oh = CountOf(w, 0, h, false), ow = CountOf(w, 1, wide, false);
  int64_t groups = c.Int("group", 1), offset_groups = c.Int("offset_group", 1);
  if (groups < 1 || offset_groups < 1) c.Fail("{} groups, {} of offsets", groups, offset_groups);
  Tensor moved = offset.reshape({n, offset_groups, taps, 2, oh, ow});
  auto base = [&](size_t dim, int64_t count, int64_t kernel, const Dims& out, const Dims& tap) {
    Tensor steps =
        arange(count, DType::kF32, c.device()).reshape(out) * static_cast<double>(w.strides[dim]);
    Tensor inner = arange(kernel, DType::kF32, c.device()).reshape(tap) *
                   static_cast<double>(w.dilations[dim]);
    return (steps + inner - static_cast<double>(w.before[dim])).to(x.dtype());
  };
  Tensor by = base(0, oh, kh, {1, 1, oh, 1}, {kh, 1, 1, 1});
  Tensor bx = base(1, ow, kw, {1, 1, 1, ow}, {1, kw, 1, 1});
  Tensor y = select(moved, 3, 0) + broadcast_to(by, {kh, kw, oh, ow}).reshape({taps, oh, ow});
  Tensor xx = select(moved, 3, 1) + broadcast_to(bx, {kh, kw, oh, ow}).reshape({taps, oh, ow});
  int64_t per = channels / offset_groups, points = taps * oh * ow;
  Tensor rows = x.reshape({n, offset_groups, per, h * wide});
  Tensor y0 = floor(y), x0 = floor(xx);
  Tensor samples;
  for (int dy = 0; dy < 2; ++dy) {
    for (int dx = 0; dx < 2; ++dx) {
      Tensor yi = y0 + dy, xi = x0 + dx;
      Tensor share = (1 - abs(y - yi)) * (1 - abs(xx - xi));
      Tensor inside = logical_and(logical_and(yi >= 0, yi < h), logical_and(xi >= 0, xi < wide));
      Tensor at =
          clamp(yi, 0, h - 1).to(DType::kI64) * wide + clamp(xi, 0, wide - 1).to(DType::kI64);
      at = broadcast_to(at.reshape({n, offset_groups, 1, points}), {n, offset_groups, per, points});
      Tensor value = gather(rows, 3, at) *
                     where(inside, share, zeros_like(share)).reshape({n, offset_groups, 1, points});
      samples = samples.defined() ? samples + value : value;
    }
  }
  if (c.Has(4)) samples = samples * c[4].reshape({n, offset_groups, 1, points});
  Tensor columns = samples.reshape({n, groups, channels / groups * taps, oh * ow});
  Tensor kernels = weight.reshape({groups, weight.size(0) / groups, -1});
  Tensor result = matmul(kernels, columns).reshape({n, weight.size(0), oh, ow});
  if (c.Has(3)) result = result + c[3].reshape({1, -1, 1, 1});
  return {result};
}

/// Convolution over the past: the state holds what comes before the first step.
Values CausalConvWithState(Call& c) {
  Tensor x = c[0], weight = c[1];
  int64_t reach = weight.size(-1) - 1;
  Dims sizes = x.sizes();
  sizes[sizes.size() - 1] = reach;
  Tensor past = c.Has(3) ? c[3] : zeros(sizes, x.dtype(), c.device());
  Tensor all = cat({past, x}, -1);
  Tensor y = conv1d(all, weight, c.Optional(2), {1}, {0}, {1}, x.size(1));
  std::string activation = c.Text("activation", "none");
  if (activation == "silu" || activation == "swish") y = silu(y);
  Tensor state = narrow(all, -1, all.size(-1) - reach, reach);
  return {y, state};
}

constexpr Operator kRows[] = {
    {"CausalConvWithState", 27, kNewestOpset, CausalConvWithState},
    {"Col2Im", 18, kNewestOpset, Col2Im},
    {"Conv", 1, kNewestOpset, Conv},
    {"ConvTranspose", 1, kNewestOpset, ConvTranspose},
    {"DeformConv", 19, kNewestOpset, DeformConv},
};

}  // namespace

std::span<const Operator> ConvOperators() { return kRows; }

}  // namespace hammock::onnx
