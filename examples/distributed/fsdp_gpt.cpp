// A small GPT whose parameters, gradients and optimiser state are shared out among the ranks:
//   hammock launch -n 2 ./fsdp_gpt [folder for a checkpoint]
#include <hammock/distributed/checkpoint.h>
#include <hammock/distributed/random_part.h>
#include <hammock/distributed/sharded_parameters.h>
#include <hammock/hammock.h>

#include <filesystem>
#include <iostream>

using namespace hammock;

constexpr int64_t kWidth = 32, kHeads = 4, kLayers = 2, kContext = 16, kAlphabet = 12, kBatch = 16;

struct Block : nn::Module {
  Tensor forward(const Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1);
    Tensor qkv = attention(norm1(x)).reshape({batch, length, 3, kHeads, kWidth / kHeads});
    auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
    Tensor heads = scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, true);
    Tensor y = x + project(heads.transpose(1, 2).reshape({batch, length, kWidth}));
    return y + dropout(shrink(gelu(widen(norm2(y)))), 0.1, is_training());
  }
  nn::LayerNorm norm1 = register_module("norm1", nn::LayerNorm(kWidth));
  nn::LayerNorm norm2 = register_module("norm2", nn::LayerNorm(kWidth));
  nn::Linear attention = register_module("attention", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear project = register_module("project", nn::Linear(kWidth, kWidth));
  nn::Linear widen = register_module("widen", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear shrink = register_module("shrink", nn::Linear(4 * kWidth, kWidth));
};

struct Gpt : nn::Module {
  Gpt() {
    for (int64_t i = 0; i < kLayers; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>()));
    }
  }
  Tensor forward(const Tensor& codes) {
    Tensor x = tokens(codes) + places(arange(codes.size(1)));
    for (auto& block : blocks) {
      // Backward, the block gathers its parameters once more instead of keeping them.
      auto run = [&block](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        return {block->forward(in[0])};
      };
      x = checkpoint(run, {x})[0];
    }
    return out(norm(x));
  }
  nn::Embedding tokens = register_module("tokens", nn::Embedding(kAlphabet, kWidth));
  nn::Embedding places = register_module("places", nn::Embedding(kContext, kWidth));
  std::vector<std::shared_ptr<Block>> blocks;
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(kWidth));
  nn::Linear out = register_module("out", nn::Linear(kWidth, kAlphabet));
};

int main(int count, char** arguments) {
  distributed::Group world = distributed::init();
  manual_seed(1);  // the same everywhere; each rank has its part of a batch
  Gpt model;
  distributed::fully_shard(model);
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  int64_t step_number = 0;
  distributed::Checkpoint run(world);
  run.add("model", model);
  run.add("optimizer", optimizer);
  run.add("step", step_number);
  const std::string folder = count > 1 ? arguments[1] : "";
  if (!folder.empty() && std::filesystem::exists(folder)) run.load(folder);
  const int64_t part = kBatch / world.size();
  for (; step_number <= 120; ++step_number) {
    Tensor mean;
    step([&] {
      // Each character is the sum of the two before it.
      Tensor codes = randint(kAlphabet, {kBatch, 2});
      for (int64_t i = 2; i <= kContext; ++i) {
        Tensor next = codes.narrow(1, i - 2, 1) + codes.narrow(1, i - 1, 1);
        codes = cat({codes, remainder(next, kAlphabet)}, 1);
      }
      codes = codes.narrow(0, world.rank() * part, part);
      distributed::RandomPart random(world);
      optimizer.zero_grad();
      Tensor scores = model.forward(codes.narrow(1, 0, kContext));
      Tensor loss = cross_entropy(scores.flatten(0, 1), codes.narrow(1, 1, kContext).flatten());
      loss.backward();
      optimizer.step();
      mean = distributed::all_reduce(loss.detach(), distributed::Reduction::kMean);
    });
    if (step_number % 40 == 0 && world.rank() == 0) {
      std::cout << "step " << step_number << ", loss " << mean.item<double>() << std::endl;
    }
  }
  if (!folder.empty()) run.save(folder);
  distributed::shutdown();
}
