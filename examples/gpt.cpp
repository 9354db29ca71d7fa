// A small GPT: causal attention over characters, trained in bf16, then sampled.
#include <cstdio>

#include "common/text.h"

using namespace hammock;

constexpr int64_t kWidth = 64, kHeads = 4, kLayers = 2, kContext = 48;

/// Attention to what came before, and a perceptron, each added to what goes in.
struct Block : nn::Module {
  Block() : Module("Block") {}

  Tensor forward(const Tensor& x) {
    int64_t batch = x.size(0), length = x.size(1);
    Tensor qkv = attention(norm1(x)).reshape({batch, length, 3, kHeads, kWidth / kHeads});
    auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
    Tensor heads = scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, true);
    Tensor y = x + project(heads.transpose(1, 2).reshape({batch, length, kWidth}));
    return y + shrink(gelu(widen(norm2(y))));
  }

  nn::LayerNorm norm1 = register_module("norm1", nn::LayerNorm(kWidth));
  nn::LayerNorm norm2 = register_module("norm2", nn::LayerNorm(kWidth));
  nn::Linear attention = register_module("attention", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear project = register_module("project", nn::Linear(kWidth, kWidth));
  nn::Linear widen = register_module("widen", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear shrink = register_module("shrink", nn::Linear(4 * kWidth, kWidth));
};

struct Gpt : nn::Module {
  explicit Gpt(int64_t alphabet) : Module("Gpt") {
    tokens = register_module("tokens", nn::Embedding(alphabet, kWidth));
    places = register_module("places", nn::Embedding(kContext, kWidth));
    for (nn::Embedding& table : {std::ref(tokens), std::ref(places)}) {
      nn::init::normal_(table->weight, 0, 0.02);
    }
    for (int64_t i = 0; i < kLayers; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>()));
    }
    norm = register_module("norm", nn::LayerNorm(kWidth));
    out = register_module("out", nn::Linear(kWidth, alphabet));
  }

  Tensor forward(const Tensor& codes) {
    Tensor x = tokens(codes) + places(arange(codes.size(1)));
    for (auto& block : blocks) x = block->forward(x);
    return out(norm(x));
  }

  nn::Embedding tokens = nullptr, places = nullptr;
  std::vector<std::shared_ptr<Block>> blocks;
  nn::LayerNorm norm = nullptr;
  nn::Linear out = nullptr;
};

/// A window of fixed size moves along, so that every character is the same compiled graph.
std::string Write(Gpt& model, const examples::Text& text, std::string written, int count) {
  NoGradGuard no_grad;
  written.insert(0, kContext, '\n');
  for (int i = 0; i < count; ++i) {
    Tensor window = tensor(text.Encoded(written.substr(written.size() - kContext)));
    Tensor scores = model.forward(window.unsqueeze(0))[0][-1];
    written += text.Decoded(examples::Draw(scores, 0.6));
  }
  return written.substr(kContext);
}

/// Products in bf16, the loss in f32; parameters and their gradients stay f32.
Tensor Loss(Gpt& model, const Tensor& x, const Tensor& y) {
  AutocastGuard autocast(bf16);
  return cross_entropy(model.forward(x).flatten(0, 1), y.flatten());
}

int main() {
  manual_seed(1);
  examples::Text text(20000);
  Gpt model(text.alphabet());
  optim::AdamW optimizer(model.parameters(), {.lr = 5e-3});
  optim::CosineAnnealingLR schedule(optimizer, {.t_max = 300, .eta_min = 3e-4});
  for (int i = 0; i <= 300; ++i) {
    Tensor loss;
    step([&] {
      auto [x, y] = text.Sample(16, kContext);
      optimizer.zero_grad();
      loss = Loss(model, x, y);
      loss.backward();
      optim::clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
    });
    schedule.step();
    if (i % 50 == 0) std::printf("step %3d, loss %.3f\n", i, loss.item<double>());
  }
  std::printf("\n%s\n", Write(model, text, "The ", 120).c_str());
}
