// A variational autoencoder: images become points near zero, and points near zero become images.
#include <cstdio>

#include "common/images.h"

using namespace hammock;

constexpr int64_t kPixels = 28 * 28, kHidden = 128, kCode = 8;

struct Vae : nn::Module {
  Vae() : Module("Vae") {}

  struct Result {
    Tensor image, mean, log_variance;
  };
  Result forward(const Tensor& x) {
    Tensor hidden = relu(encode(x)), mean = to_mean(hidden);
    Tensor log_variance = to_log_variance(hidden);
    Tensor code = mean + exp(0.5 * log_variance) * randn_like(mean);
    return {decode(code), mean, log_variance};
  }
  /// Scores, whose sigmoids are pixels.
  Tensor decode(const Tensor& code) { return to_pixels(relu(expand(code))); }

  nn::Linear encode = register_module("encode", nn::Linear(kPixels, kHidden));
  nn::Linear to_mean = register_module("to_mean", nn::Linear(kHidden, kCode));
  nn::Linear to_log_variance = register_module("to_log_variance", nn::Linear(kHidden, kCode));
  nn::Linear expand = register_module("expand", nn::Linear(kCode, kHidden));
  nn::Linear to_pixels = register_module("to_pixels", nn::Linear(kHidden, kPixels));
};

/// The reconstruction loss and the divergence of the code from a normal distribution; per image.
Tensor Loss(const Vae::Result& result, const Tensor& x) {
  Tensor lost = binary_cross_entropy_with_logits(result.image, x, {}, "sum");
  Tensor far = -0.5 * (1.0 + result.log_variance - square(result.mean) - exp(result.log_variance));
  return (lost + far.sum()) / static_cast<double>(x.size(0));
}

int main() {
  manual_seed(1);
  examples::Images images = examples::LoadImages(4000);
  Vae model;
  optim::Adam optimizer(model.parameters(), {.lr = 2e-3});
  data::DataLoader loader(data::ArrayDataset({images.pixels}),
                          {.batch_size = 100, .shuffle = true, .workers = 1});
  for (int epoch = 1; epoch <= 5; ++epoch) {
    Tensor sum = zeros({});
    for (const data::Batch& batch : loader) {
      step([&] {
        Tensor x = batch[0].flatten(1);
        optimizer.zero_grad();
        Tensor loss = Loss(model.forward(x), x);
        loss.backward();
        optimizer.step();
        sum += loss.detach();
      });
    }
    std::printf("epoch %d, loss %.1f\n", epoch,
                sum.item<double>() / static_cast<double>(loader.size()));
  }
  NoGradGuard no_grad;
  std::printf("an image that never was:\n%s",
              examples::Drawn(sigmoid(model.decode(randn({1, kCode}))).host()).c_str());
}
