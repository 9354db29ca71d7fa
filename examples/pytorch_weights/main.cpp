// Reads weights that PyTorch saved (make.py), by name, and computes what PyTorch computed.
//
//   pytorch_weights FOLDER
#include <hammock/hammock.h>

#include <cstdio>
#include <string>

using namespace hammock;

/// The module of make.py: same names, same layers.
struct Net : nn::Module {
  Net() : Module("Net") {}

  Tensor forward(const Tensor& images) {
    Tensor x = std::get<0>(encoder(features(images).flatten(2)));
    x = std::get<0>(attention(x, x, x));
    return classifier(x.mean({1}));
  }

  nn::Sequential features = register_module(
      "features",
      nn::Sequential(
          nn::Conv2d({.in_channels = 1, .out_channels = 4, .kernel_size = 3, .padding = 1}),
          nn::BatchNorm2d(4), nn::ReLU(), nn::MaxPool2d(2)));
  nn::LSTM encoder = register_module(
      "encoder", nn::LSTM({.input_size = 16, .hidden_size = 12, .batch_first = true}));
  nn::MultiheadAttention attention = register_module(
      "attention", nn::MultiheadAttention({.embed_dim = 12, .num_heads = 3, .batch_first = true}));
  nn::Linear classifier = register_module("classifier", nn::Linear(12, 10));
};

int main(int, char** argv) {
  const std::string folder = argv[1];
  Net net;
  load_weights(net, folder + "/weights.safetensors");
  net.eval();
  for (const auto& [name, tensor] : net.state_dict()) {
    std::printf("%-32s %s\n", name.c_str(), tensor.shape().to_string().c_str());
  }

  auto expected = io::SafetensorsFile::Open(folder + "/expected.safetensors");
  NoGradGuard no_grad;
  Tensor y = net.forward(from_host(expected.Read("x")));
  Tensor difference = (y - from_host(expected.Read("y"))).abs().max();
  std::printf("largest difference from PyTorch's result: %.1e\n", difference.item<double>());
  return difference.item<double>() < 1e-5 ? 0 : 1;
}
