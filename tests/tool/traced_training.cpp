// traced_training [mlp|transformer]: trains for a few steps, for the tests of the command line
// tool. The last batch is smaller, so that something is compiled anew.

#include <hammock/hammock.h>
#include <hammock/nn.h>
#include <hammock/optim.h>

#include <string>
#include <vector>

using namespace hammock;

namespace {

struct Mlp : nn::UnaryModule {
  Mlp() : UnaryModule("Mlp") {}
  nn::Linear first = register_module("first", nn::Linear(64, 128));
  nn::Linear second = register_module("second", nn::Linear(128, 10));

  Tensor forward(const Tensor& x) override { return second(gelu(first(x))); }
};

struct Transformer : nn::UnaryModule {
  Transformer() : UnaryModule("Transformer") {}
  nn::TransformerEncoder encoder = register_module(
      "encoder",
      nn::TransformerEncoder(
          nn::TransformerLayerOptions{
              .d_model = 64, .nhead = 4, .dim_feedforward = 128, .dropout = 0, .batch_first = true},
          6));
  nn::Linear head = register_module("head", nn::Linear(64, 10));

  Tensor forward(const Tensor& x) override {
    return head(mean(encoder->forward(reshape(x, {-1, 1, 64})), {1}));
  }
};

Tensor Ramp(const Dims& sizes, float step) {
  HostTensor host(Shape(DType::kF32, sizes));
  auto values = host.mutable_values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) * step;
  return from_host(host);
}

void Train(nn::UnaryModule& net) {
  mark_step(true);  // the initial weights
  optim::Adam optimizer(net.parameters(), {.lr = 1e-3});
  for (int64_t batch : {32, 32, 32, 32, 20}) {
    profile::Span span("</script><b id=\"planted\">step");
    Tensor x = Ramp({batch, 64}, 0.01f);
    Tensor labels = from_host(HostTensor::From(std::vector<int64_t>(batch, 3), {batch}));
    optimizer.zero_grad();
    cross_entropy(net.forward(x), labels).backward();
    optimizer.step();
    mark_step(true);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "transformer") {
    Transformer net;
    Train(net);
  } else {
    Mlp net;
    Train(net);
  }
  return 0;
}
