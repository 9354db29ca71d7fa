// ResNet-18 on small images: train, evaluate, save and load; two graphs for the whole of it.
#include "check.h"

using namespace hammock;
using namespace trial;

namespace {

nn::Conv2d Convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding) {
  return nn::Conv2d({.in_channels = in,
                     .out_channels = out,
                     .kernel_size = kernel,
                     .stride = stride,
                     .padding = padding,
                     .bias = false});
}

struct BasicBlock : nn::UnaryModule {
  BasicBlock(int64_t in, int64_t out, int64_t stride) : UnaryModule("BasicBlock") {
    conv1 = register_module("conv1", Convolution(in, out, 3, stride, 1));
    bn1 = register_module("bn1", nn::BatchNorm2d(out));
    conv2 = register_module("conv2", Convolution(out, out, 3, 1, 1));
    bn2 = register_module("bn2", nn::BatchNorm2d(out));
    if (stride == 1 && in == out) return;
    downsample = register_module(
        "downsample", nn::Sequential(Convolution(in, out, 1, stride, 0), nn::BatchNorm2d(out)));
  }
  Tensor forward(const Tensor& x) override {
    Tensor identity = downsample ? downsample(x) : x;
    return relu(bn2(conv2(relu(bn1(conv1(x))))) + identity);
  }
  nn::Conv2d conv1 = nullptr, conv2 = nullptr;
  nn::BatchNorm2d bn1 = nullptr, bn2 = nullptr;
  nn::Sequential downsample = nullptr;
};

struct ResNet18 : nn::UnaryModule {
  ResNet18() : UnaryModule("ResNet18") {
    conv1 = register_module("conv1", Convolution(3, 64, 7, 2, 3));
    bn1 = register_module("bn1", nn::BatchNorm2d(64));
    int64_t in = 64;
    for (int i = 0; i < 4; ++i) {
      int64_t out = 64 << i;
      layers[i] = register_module("layer" + std::to_string(i + 1),
                                  nn::Sequential(std::make_shared<BasicBlock>(in, out, i ? 2 : 1),
                                                 std::make_shared<BasicBlock>(out, out, 1)));
      in = out;
    }
    fc = register_module("fc", nn::Linear(512, 10));
  }
  Tensor forward(const Tensor& images) override {
    Tensor x = max_pool2d(relu(bn1(conv1(images))), {3}, {2}, {1});
    for (nn::Sequential& layer : layers) x = layer(x);
    return fc(flatten(adaptive_avg_pool2d(x, {1, 1}), 1));
  }
  nn::Conv2d conv1 = nullptr;
  nn::BatchNorm2d bn1 = nullptr;
  nn::Sequential layers[4] = {nullptr, nullptr, nullptr, nullptr};
  nn::Linear fc = nullptr;
};

Tensor Predict(ResNet18& net, const Tensor& images) {
  NoGradGuard no_grad;
  net.eval();
  return net.forward(images);
}

}  // namespace

int main() {
  manual_seed(2);
  ResNet18 net;
  optim::SGD optimizer(net.parameters(), {.lr = 0.02, .momentum = 0.9});
  // Colours say the class, so that a few steps suffice.
  Tensor labels = arange(16) % 10;
  Tensor images = randn({16, 3, 64, 64}) * 0.1 + labels.to(f32).reshape({16, 1, 1, 1}) * 0.3;
  mark_step(true);
  int64_t before = Compiles();
  double first = 0, last = 0;
  for (int i = 0; i < 8; ++i) {
    Tensor loss;
    step([&] {
      net.train();
      optimizer.zero_grad();
      Tensor value = cross_entropy(net.forward(images), labels);
      value.backward();
      optimizer.step();
      loss = value.detach();
    });
    (i == 0 ? first : last) = loss.item<double>();
  }
  CheckAtMost(static_cast<double>(Compiles() - before), 3, "compiles of training");
  CheckAtMost(last, 0.6 * first, "loss after 8 steps");
  Tensor predicted = Predict(net, images);
  save_weights(net, "resnet_trial.safetensors");
  ResNet18 loaded;
  load_weights(loaded, "resnet_trial.safetensors");
  std::remove("resnet_trial.safetensors");
  Check(Predict(loaded, images).host().SameBits(predicted.host()), "the same bits after loading");
  CheckNear(predicted.softmax(-1).sum().item<double>(), 16, 1e-5, "probabilities");
  return Result();
}
