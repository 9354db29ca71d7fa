// Saves networks as users do, with gradients on and layers in training mode, for the tool to run.

#include "hammock/hammock.h"

using namespace hammock;

namespace {

/// Takes a list and gives a tuple.
struct Mixer : Module {
  Mixer() : Module("Mixer") {
    linear = register_module("linear", nn::Linear(4, 3));
    define("forward(Tensor[] parts, bool twice) -> (Tensor, Tensor)", &Mixer::forward);
  }
  std::tuple<Tensor, Tensor> forward(const std::vector<Tensor>& parts, bool twice) {
    Tensor mixed = linear(parts[0] + parts[1]);
    return {twice ? mixed * 2 : mixed, mixed.t()};
  }
  nn::Linear linear{nullptr};
};

}  // namespace

int main(int, char** argv) {
  std::string folder = std::string(argv[1]) + "/";
  nn::Sequential net(
      nn::Conv2d({.in_channels = 1, .out_channels = 4, .kernel_size = 3, .padding = 1}),
      nn::BatchNorm2d(4), nn::ReLU(), nn::Dropout(0.5), nn::MaxPool2d(2), nn::Flatten(),
      nn::Linear(4 * 4 * 4, 10));
  net->trace("forward", {randn({2, 1, 8, 8})});
  save_module(*net, folder + "training.hmk");
  Mixer mixer;
  mixer.trace("forward", {std::vector<Any>{randn({2, 4}), randn({2, 4})}, true});
  save_module(mixer, folder + "mixer.hmk");
  return 0;
}
