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

/// `x` with `length` elements along a dim.
Tensor Fitted(const Tensor& x, int64_t dim, int64_t length) {
  int64_t size = x.size(dim);
  if (size == length) return x;
  if (size > length) return narrow(x, dim, 0, length);
  Dims sizes = x.sizes();
  sizes[static_cast<int>(dim)] = length - size;
  return cat({x, zeros(sizes, x.dtype(), x.device())}, dim);
}

/// Numbers whose parts are in the last dim, of size 1 or 2, as tensors that have transforms.
Tensor Joined(const Tensor& x) {
  DType wide = x.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Tensor re = select(x, -1, 0).to(wide);
  return x.size(-1) == 1 ? re : complex(re, select(x, -1, 1).to(wide));
}

Values Dft(Call& c) {
  Tensor x = c[0];
  int64_t axis = c.opset() < 20 ? c.Int("axis", 1) : c.Has(2) ? c.Number(2).ToInt() : -2;
  axis = Wrapped(c, axis, x.dim());
  if (axis == x.dim() - 1) c.Fail("axis {} holds the parts of complex numbers", axis);
  bool inverse = c.Int("inverse", 0), onesided = c.Int("onesided", 0);
  int64_t size = x.size(axis);
  int64_t length = c.Has(1) ? c.Number(1).ToInt() : inverse && onesided ? 2 * (size - 1) : size;
  if (length < 1) c.Fail("a length of {}", length);
  if (inverse && onesided) {  // the other half mirrors the first
    Tensor half = Joined(Fitted(x, axis, length / 2 + 1));
    return {fft_irfft(half, length, axis).unsqueeze(-1).to(x.dtype())};
  }
  Tensor z = Joined(Fitted(x, axis, length));
  if (onesided && !IsComplex(z.dtype())) {
    return {view_as_real(fft_rfft(z, length, axis)).to(x.dtype())};
  }
  Tensor y = view_as_real(inverse ? fft_ifft(z, length, axis) : fft_fft(z, length, axis));
  return {(onesided ? narrow(y, axis, 0, length / 2 + 1) : y).to(x.dtype())};
}

Values Stft(Call& c) {
  Tensor x = c[0];
  int64_t step = c.Number(1).ToInt();
  int64_t length = c.Has(3) ? c.Number(3).ToInt() : c.Has(2) ? c[2].numel() : x.size(1);
  if (step < 1 || length < 1 || length > x.size(1)) c.Fail("frames of {} by {}", length, step);
  // (batch, frames, parts, length) to (batch, frames, length, parts)
  Tensor frames = x.unfold(1, length, step).transpose(-2, -1);
  if (c.Has(2)) frames = frames * c[2].unsqueeze(-1);
  Tensor z = Joined(frames);
  bool onesided = c.Int("onesided", 1);
  if (onesided && !IsComplex(z.dtype())) return {view_as_real(fft_rfft(z)).to(x.dtype())};
  Tensor y = view_as_real(fft_fft(z));
  return {(onesided ? narrow(y, 2, 0, length / 2 + 1) : y).to(x.dtype())};
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
