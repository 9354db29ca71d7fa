// An LSTM that learns to write like a licence, character by character.
#include <cstdio>

#include "common/text.h"

using namespace hammock;

struct CharModel : nn::Module {
  explicit CharModel(int64_t alphabet) : Module("CharModel") {
    embed = register_module("embed", nn::Embedding(alphabet, 32));
    lstm = register_module("lstm",
                           nn::LSTM({.input_size = 32, .hidden_size = 96, .batch_first = true}));
    out = register_module("out", nn::Linear(96, alphabet));
  }

  /// Scores of the next character at every place.
  Tensor forward(const Tensor& codes) { return out(std::get<0>(lstm(embed(codes)))); }

  nn::Embedding embed = nullptr;
  nn::LSTM lstm = nullptr;
  nn::Linear out = nullptr;
};

/// Goes on from `start`, one character at a time, with the state of the layer carried along.
std::string Write(CharModel& model, const examples::Text& text, const std::string& start,
                  int count) {
  NoGradGuard no_grad;
  std::string written = start;
  Tensor input = tensor(text.Encoded(start)).unsqueeze(0);
  std::optional<nn::LSTMState> state;
  for (int i = 0; i < count; ++i) {
    Tensor y;
    std::tie(y, state) = model.lstm(model.embed(input), state);
    int64_t next = examples::Draw(model.out(y)[0][-1], 0.5);
    written += text.Decoded(next);
    input = tensor({next}).unsqueeze(0);
  }
  return written;
}

int main() {
  manual_seed(1);
  examples::Text text(20000);
  CharModel model(text.alphabet());
  optim::Adam optimizer(model.parameters(), {.lr = 0.01});
  for (int i = 0; i <= 200; ++i) {
    Tensor loss;
    step([&] {
      auto [x, y] = text.Sample(16, 40);
      optimizer.zero_grad();
      loss = cross_entropy(model.forward(x).flatten(0, 1), y.flatten());
      loss.backward();
      optim::clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
    });
    if (i % 50 == 0) std::printf("step %3d, loss %.3f\n", i, loss.item<double>());
  }
  std::printf("\n%s\n", Write(model, text, "The ", 120).c_str());
}
