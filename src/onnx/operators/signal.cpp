#include <cmath>
#include <numbers>

#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

/// a - b * cos(t) + d * cos(2 t), one period or up to both ends.
Values Window(Call& c, double a, double b, double d) {
  int64_t size = c.Number(0).ToInt();
  DType dtype = DTypeOfElement(static_cast<int32_t>(c.Int("output_datatype", 1)));
  auto steps = static_cast<double>(c.Int("periodic", 1) ? size : size - 1);
  Tensor t = arange(size, DType::kF64, c.device()) * (2 * std::numbers::pi / steps);
  Tensor y = a - b * cos(t);
  if (d != 0) y = y + d * cos(t * 2.0);
  return {y.to(dtype)};
}

Values HannWindow(Call& c) { return Window(c, 0.5, 0.5, 0); }
Values HammingWindow(Call& c) { return Window(c, 25.0 / 46, 21.0 / 46, 0); }
Values BlackmanWindow(Call& c) { return Window(c, 0.42, 0.5, 0.08); }

/// Weights of triangular bands that are equally wide on the mel scale.
Values MelWeightMatrix(Call& c) {
  int64_t bands = c.Number(0).ToInt(), length = c.Number(1).ToInt();
  double rate = c.Number(2).ToDouble(), low = c.Number(3).ToDouble(), high = c.Number(4).ToDouble();
  int64_t bins = length / 2 + 1;
  if (bands < 1 || length < 1 || bins > (int64_t{1} << 28) / bands) {
    c.Fail("{} bands of {} bins", bands, bins);
  }
  auto mel = [](double hz) { return 2595 * std::log10(1 + hz / 700); };
  double first = mel(low), step = (mel(high) - first) / static_cast<double>(bands + 2);
  std::vector<int64_t> edges;
  for (int64_t i = 0; i < bands + 2; ++i) {
    double hz = 700 * (std::pow(10.0, (first + step * static_cast<double>(i)) / 2595) - 1);
    edges.push_back(static_cast<int64_t>(static_cast<double>(length + 1) * hz / rate));
  }
  std::vector<float> weights(static_cast<size_t>(bins * bands), 0.0f);
  auto at = [&](int64_t bin, int64_t band) -> float& {
    return weights[static_cast<size_t>(bin * bands + band)];
  };
  for (int64_t band = 0; band < bands; ++band) {
    auto k = static_cast<size_t>(band);
    int64_t left = edges[k], centre = edges[k + 1], right = edges[k + 2];
    if (centre == left && centre >= 0 && centre < bins) at(centre, band) = 1;
    for (int64_t bin = std::max<int64_t>(left, 0); bin <= centre && bin < bins && centre > left;
         ++bin) {
      at(bin, band) = static_cast<float>(bin - left) / static_cast<float>(centre - left);
    }
    for (int64_t bin = std::max<int64_t>(centre, 0); bin < right && bin < bins; ++bin) {
      at(bin, band) = static_cast<float>(right - bin) / static_cast<float>(right - centre);
    }
  }
  DType dtype = DTypeOfElement(static_cast<int32_t>(c.Int("output_datatype", 1)));
  return {VectorOf(c, weights, {bins, bands}).to(dtype)};
}

/// Cosines and sines of all products of positions and frequencies, (length, bins).
std::pair<Tensor, Tensor> Waves(const Call& c, int64_t length, int64_t bins, DType dtype) {
  Tensor product = arange(length, DType::kI64, c.device()).unsqueeze(1) *
                   arange(bins, DType::kI64, c.device()).unsqueeze(0);
  Tensor angle = remainder(product, length).to(DType::kF64) *
                 (2 * std::numbers::pi / static_cast<double>(length));
  return {cos(angle).to(dtype), sin(angle).to(dtype)};
}

/// The transform along the last dim of real and imaginary parts, as matmuls.
Tensor Transformed(const Call& c, const Tensor& real, const Tensor& imaginary, int64_t bins,
                   bool inverse) {
  int64_t length = real.size(-1);
  auto [cosine, sine] = Waves(c, length, bins, real.dtype());
  if (!inverse) sine = -sine;
  Tensor re = matmul(real, cosine), im = matmul(real, sine);
  if (imaginary.defined()) {
    re = re - matmul(imaginary, sine);
    im = im + matmul(imaginary, cosine);
  }
  Tensor y = stack({re, im}, -1);
  return inverse ? y / static_cast<double>(length) : y;
}

/// `x` has `length` elements in its last dim.
Tensor Fitted(const Tensor& x, int64_t length) {
  return x.size(-1) == length ? x : constant_pad_nd(x, {0, length - x.size(-1)});
}

Values Dft(Call& c) {
  Tensor x = c[0];
  int64_t axis = c.opset() < 20 ? c.Int("axis", 1) : c.Has(2) ? c.Number(2).ToInt() : -2;
  axis = Wrapped(c, axis, x.dim());
  if (axis == x.dim() - 1) c.Fail("axis {} holds the parts of complex numbers", axis);
  bool inverse = c.Int("inverse", 0), onesided = c.Int("onesided", 0);
  Tensor real = movedim(select(x, -1, 0), {axis}, {-1});
  Tensor imaginary = x.size(-1) == 2 ? movedim(select(x, -1, 1), {axis}, {-1}) : Tensor();
  int64_t size = x.size(axis);
  int64_t length = c.Has(1) ? c.Number(1).ToInt() : inverse && onesided ? 2 * (size - 1) : size;
  if (length < 1) c.Fail("a length of {}", length);
  if (inverse && onesided) {  // the other half mirrors the first
    int64_t half = length / 2 + 1;
    real = Fitted(real, half);
    imaginary = imaginary.defined() ? Fitted(imaginary, half) : zeros_like(real);
    int64_t rest = length - half;
    real = cat({real, flip(narrow(real, -1, 1, rest), {-1})}, -1);
    imaginary = cat({imaginary, -flip(narrow(imaginary, -1, 1, rest), {-1})}, -1);
    Tensor y = select(Transformed(c, real, imaginary, length, true), -1, 0);
    return {movedim(y, {-1}, {axis}).unsqueeze(-1)};
  }
  real = Fitted(real, length);
  if (imaginary.defined()) imaginary = Fitted(imaginary, length);
  Tensor y = Transformed(c, real, imaginary, onesided ? length / 2 + 1 : length, inverse);
  return {movedim(y, {-2}, {axis})};
}

Values Stft(Call& c) {
  Tensor x = c[0];
  int64_t step = c.Number(1).ToInt();
  int64_t length = c.Has(3) ? c.Number(3).ToInt() : c.Has(2) ? c[2].numel() : x.size(1);
  if (step < 1 || length < 1 || length > x.size(1)) c.Fail("frames of {} by {}", length, step);
  auto frames = [&](int64_t part) {
    Tensor cut = select(x, -1, part).unfold(1, length, step);
    return c.Has(2) ? cut * c[2] : cut;
  };
  Tensor imaginary = x.dim() == 3 && x.size(-1) == 2 ? frames(1) : Tensor();
  int64_t bins = c.Int("onesided", 1) ? length / 2 + 1 : length;
  return {Transformed(c, frames(0), imaginary, bins, false)};
}

constexpr Operator kRows[] = {
    {"BlackmanWindow", 17, kNewestOpset, BlackmanWindow},
    {"DFT", 17, kNewestOpset, Dft},
    {"HammingWindow", 17, kNewestOpset, HammingWindow},
    {"HannWindow", 17, kNewestOpset, HannWindow},
    {"MelWeightMatrix", 17, kNewestOpset, MelWeightMatrix},
    {"STFT", 17, kNewestOpset, Stft},
};

}  // namespace

std::span<const Operator> SignalOperators() { return kRows; }

}  // namespace hammock::onnx
