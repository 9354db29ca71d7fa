#pragma once
// Small grey images in ten classes: Fashion-MNIST where it is installed (Debian package
// dataset-fashion-mnist), drawn stripes elsewhere.
#include <hammock/hammock.h>

#include <cmath>
#include <filesystem>
#include <string>

namespace examples {

struct Images {
  hammock::HostTensor pixels;  // f32[n, 1, 28, 28], from 0 to 1
  hammock::HostTensor labels;  // i64[n]
};

inline const std::string kFashion = "/usr/share/datasets/fashion-mnist/";

/// Stripes; the class is their direction.
inline Images DrawnImages(int64_t count, uint64_t seed) {
  using namespace hammock;
  Tensor label = randint(10, {count}, i64, {}, Generator(seed));
  Tensor shift = rand({count, 1, 1, 1}, f32, {}, Generator(seed + 1)) * 6.28;
  Tensor angle = label.to(f32).reshape({count, 1, 1, 1}) * (3.14159 / 10);
  Tensor at = arange(28).to(f32) * 0.6;
  Tensor along = at.reshape({1, 1, 1, 28}) * cos(angle) + at.reshape({1, 1, 28, 1}) * sin(angle);
  return {(sin(along + shift) * 0.5 + 0.5).host(), label.host()};
}

/// The first `count` images for training or, with `test`, of others.
inline Images LoadImages(int64_t count, bool test = false) {
  using namespace hammock;
  if (!std::filesystem::exists(kFashion)) return DrawnImages(count, test ? 100 : 0);
  std::string part = kFashion + (test ? "t10k" : "train");
  Tensor pixels = from_host(io::ReadIdx(part + "-images-idx3-ubyte.gz")).slice(0, 0, count);
  Tensor labels = from_host(io::ReadIdx(part + "-labels-idx1-ubyte.gz")).slice(0, 0, count);
  return {(pixels.to(f32) / 255.0).unsqueeze(1).host(), labels.to(i64).host()};
}

/// The share of images that a model, in its present mode, puts into the right class.
template <class Model>
double Accuracy(Model& model, const Images& images) {
  using namespace hammock;
  NoGradGuard no_grad;
  Tensor guess = argmax(model(from_host(images.pixels)), 1);
  return (guess == from_host(images.labels)).to(f32).mean().template item<double>();
}

/// An image as text, two columns for a pixel.
inline std::string Drawn(const hammock::HostTensor& pixels) {
  const std::string shades = " .:-=+*#%@";
  std::string text;
  for (int64_t row = 0; row < 28; row += 2) {
    for (int64_t column = 0; column < 28; ++column) {
      double value = pixels.at(row * 28 + column).ToDouble();
      text += shades[static_cast<size_t>(std::lround(std::fmin(std::fmax(value, 0), 1) * 9))];
    }
    text += "\n";
  }
  return text;
}

}  // namespace examples
