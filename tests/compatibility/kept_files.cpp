// Files that a version has written load in all later ones and give the same values.
//   kept_files write FOLDER    once, by the version that the folder is named after
//   kept_files check FOLDER    a test of every version since
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>

#include "hammock/hammock.h"
#include "hammock/repro.h"

using namespace hammock;

namespace {

int failures = 0;

void Check(bool holds, const std::string& what) {
  std::printf("%s: %s\n", what.c_str(), holds ? "as it was" : "DIFFERS");
  failures += !holds;
}

void CheckNear(const Tensor& now, const HostTensor& then, const std::string& what) {
  bool same = now.shape() == then.shape();
  for (int64_t i = 0; same && i < then.numel(); ++i) {
    const double expected = then.at(i).ToDouble(), got = now.host().at(i).ToDouble();
    same = std::abs(got - expected) <= 1e-4 * (1 + std::abs(expected));
  }
  Check(same, what);
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Tensor Input(const Dims& sizes) {
  HostTensor host(Shape(f32, sizes));
  int i = 0;
  for (float& value : host.mutable_values<float>()) value = static_cast<float>(i++ % 17) / 8 - 1;
  return from_host(host);
}

/// A convolutional and a recurrent net with their input; made from a seed.
nn::Sequential Images() {
  return nn::Sequential(
      nn::Conv2d({.in_channels = 1, .out_channels = 3, .kernel_size = 3, .padding = 1}),
      nn::BatchNorm2d(3), nn::GELU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(3 * 4 * 4, 5));
}

/// A loop, a list argument and a tuple.
struct Sequences : Module {
  Sequences() : Module("Sequences") {
    lstm = register_module("lstm", nn::LSTM(4, 6));
    define("forward(Tensor[] parts) -> (Tensor, Tensor)", &Sequences::forward);
  }
  std::tuple<Tensor, Tensor> forward(const std::vector<Tensor>& parts) {
    auto [output, state] = lstm(cat({parts[0], parts[1]}, 0));
    return {output, std::get<0>(state)};
  }
  nn::LSTM lstm{nullptr};
};

struct Training {
  nn::Sequential net = Images();
  optim::AdamW optimizer{net->parameters(), {.lr = 0.01}};

  Tensor Step() {
    optimizer.zero_grad();
    Tensor loss = net(Input({2, 1, 8, 8})).square().mean();
    loss.backward();
    optimizer.step();
    return loss;
  }
  Checkpoint AsCheckpoint() { return Checkpoint({{"model", net}, {"optimizer", optimizer}}); }
};

std::vector<Any> Parts() { return {std::vector<Any>{Input({2, 3, 4}), Input({1, 3, 4})}}; }

void Keep(const std::string& path, const Tensor& value) { io::WriteNpy(path, value.host()); }

void WriteAll(const std::string& folder) {
  manual_seed(1);
  nn::Sequential images = Images();
  images->eval();
  images->trace("forward", {Input({2, 1, 8, 8})}, {.free_dims = {{"input", 0}}});
  save_module(*images, folder + "images.hmk");
  Keep(folder + "images.npy", images(Input({3, 1, 8, 8})));

  Sequences sequences;
  sequences.trace("forward", Parts());
  save_module(sequences, folder + "sequences.hmk");
  Keep(folder + "sequences.npy",
       std::get<0>(sequences.forward({Input({2, 3, 4}), Input({1, 3, 4})})));

  Training training;
  for (int i = 0; i < 3; ++i) training.Step();
  training.AsCheckpoint().save(folder + "training.safetensors");
  Keep(folder + "training.npy", training.Step());

  Tensor x = Input({4, 4});
  Tensor y = softmax(matmul(x, x.t()) * 0.5f, 1).sum();
  SaveRepro(folder + "graph.repro", {y});
  Keep(folder + "graph.npy", y);
  const Graph graph = ParseGraph(ReadText(folder + "graph.txt"));
  std::ofstream(folder + "graph.bytes", std::ios::binary) << Serialize(graph);
}

void CheckAll(const std::string& folder) {
  ModulePtr images = load_module(folder + "images.hmk");
  CheckNear((*images)(Input({3, 1, 8, 8})), io::ReadNpy(folder + "images.npy"), "a traced net");
  Any outputs = load_module(folder + "sequences.hmk")->run_method("forward", Parts());
  CheckNear(outputs.ToList()[0].ToTensor(), io::ReadNpy(folder + "sequences.npy"), "a loop");
  Training training;
  training.AsCheckpoint().load(folder + "training.safetensors");
  CheckNear(training.Step(), io::ReadNpy(folder + "training.npy"), "a checkpoint's next step");
  CheckNear(RunRepro(folder + "graph.repro")[0], io::ReadNpy(folder + "graph.npy"), "a repro file");
  const Graph graph = ParseGraph(ReadText(folder + "graph.txt"));
  Check(DeserializeGraph(ReadText(folder + "graph.bytes")) == graph, "a graph's text and bytes");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[1], folder = std::string(argv[2]) + "/";
  mode == "write" ? WriteAll(folder) : CheckAll(folder);
  return failures == 0 ? 0 : 1;
}
