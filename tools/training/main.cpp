// Repeats training runs that PyTorch has made and compares every step's loss.
//
//   hammock-training FOLDER [--device NAME] [--steps N] [--close N] [--data FOLDER]
//                    [--precision f32|wide|f64]
//
// FOLDER has <run>_cpu.json (batch, steps, the loss of each step, test accuracy) and <run>_init.npz
// (initial parameters). The data is Fashion-MNIST. Which side of a ReLU a value near zero falls on
// decides how a run goes on: with f32 that happens after some 40 steps, with f32 and the option
// wide_sums (wide, the default) later or not at all, with f64 not in these runs. Exits with 1 if
// one of the first losses (100, or --close) differs by more than 1e-4 of itself, if the accuracy
// differs by more than half a point, or if anything is compiled after the first steps.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "hammock/hammock.h"
#include "hammock/io.h"
#include "hammock/nn.h"
#include "hammock/optim.h"

using namespace hammock;  // NOLINT
using Json = nlohmann::json;

namespace {

struct Settings {
  std::string folder, device;
  std::string data = "/usr/share/datasets/fashion-mnist";
  int64_t steps = std::numeric_limits<int64_t>::max();
  int64_t close = 100;
  std::string precision = "wide";
  DType dtype() const { return precision == "f64" ? DType::kF64 : DType::kF32; }
};

bool IsPrecision(std::string_view word) { return word == "f32" || word == "wide" || word == "f64"; }

/// Images as [n, 784] from 0 to 1, rounded to f32; labels as i64[n].
struct Images {
  Tensor images, labels;
  Images(const std::string& prefix, DType dtype) {
    HostTensor pixels = io::ReadIdx(prefix + "-images-idx3-ubyte.gz");
    Tensor shades = from_host(pixels).to(DType::kF32) / 255.0;
    images = reshape(shades, {pixels.shape().size(0), -1}).to(dtype);
    labels = from_host(io::ReadIdx(prefix + "-labels-idx1-ubyte.gz")).to(DType::kI64);
    mark_step(true);
  }
};

struct ConvNet : nn::UnaryModule {
  ConvNet() : UnaryModule("ConvNet") {}
  nn::Conv2d c1 = register_module(
      "c1", nn::Conv2d({.in_channels = 1, .out_channels = 8, .kernel_size = 3, .padding = 1}));
  nn::BatchNorm2d b1 = register_module("b1", nn::BatchNorm2d(8));
  nn::Conv2d c2 = register_module(
      "c2", nn::Conv2d({.in_channels = 8, .out_channels = 16, .kernel_size = 3, .padding = 1}));
  nn::Linear f = register_module("f", nn::Linear(784, 10));

  Tensor forward(const Tensor& pixels) override {
    Tensor x = reshape(pixels, {-1, 1, 28, 28});
    x = max_pool2d(relu(b1(c1(x))), {2});
    x = max_pool2d(relu(c2(x)), {2});
    return f(flatten(x, 1));
  }
};

/// The runs by name: model and learning rate of plain SGD.
struct Run {
  std::function<std::shared_ptr<nn::UnaryModule>()> model;
  double lr;
};
const std::map<std::string, Run> kRuns = {
    {"mlp_sgd",
     {[] { return nn::Sequential(nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10)); }, 0.1}},
    {"cnn_sgd", {[] { return std::make_shared<ConvNet>(); }, 0.05}},
};

void LoadInitial(Module& model, const std::string& path) {
  io::NpzFile file = io::NpzFile::Open(path);
  NamedTensors values;
  for (const std::string& name : file.names())
    values.emplace_back(name, from_host(file.Read(name)));
  model.load_state_dict(values);
}

double Accuracy(nn::UnaryModule& model, const Images& test) {
  NoGradGuard no_grad;
  model.eval();
  double right = 0;
  constexpr int64_t kPart = 1000;
  for (int64_t start = 0; start < test.images.size(0); start += kPart) {
    Tensor scores = model.forward(narrow(test.images, 0, start, kPart));
    right += eq(argmax(scores, 1), narrow(test.labels, 0, start, kPart)).sum().item<double>();
  }
  return right / static_cast<double>(test.images.size(0));
}

int64_t Compiles() { return metrics::CounterValue("UncachedCompile").value_or(0); }

/// Whether the run went PyTorch's way.
bool Repeat(const std::string& name, const Settings& settings, const Images& train,
            const Images& test) {
  std::ifstream file(settings.folder + "/" + name + "_cpu.json");
  Json expected = Json::parse(file);
  const Run& run = kRuns.at(name);
  auto model = run.model();
  LoadInitial(*model, settings.folder + "/" + name + "_init.npz");
  model->to(settings.dtype());
  optim::SGD optimizer(model->parameters(), {.lr = run.lr});
  int64_t batch = expected["batch"];
  int64_t steps = std::min<int64_t>(settings.steps, expected["steps"]);
  std::vector<Tensor> losses;
  constexpr int64_t kWarmUp = 3;
  int64_t compiles = 0;
  for (int64_t i = 0; i < steps; ++i) {
    int64_t start = i * batch % 59000;
    if (i == kWarmUp) compiles = Compiles();
    optimizer.zero_grad();
    Tensor scores = model->forward(narrow(train.images, 0, start, batch));
    Tensor loss = cross_entropy(scores, narrow(train.labels, 0, start, batch));
    loss.backward();
    optimizer.step();
    losses.push_back(loss.detach());
    mark_step();
  }
  wait_device_ops();
  compiles = Compiles() - compiles;

  double worst_early = 0, worst = 0;
  int64_t same = 0;  // steps before the first loss that differs by more than rounding
  for (int64_t i = 0; i < steps; ++i) {
    double theirs = expected["loss"][i];
    double difference = std::abs(losses[i].item<double>() - theirs) / theirs;
    worst = std::max(worst, difference);
    if (worst <= 1e-6) ++same;
    if (i < settings.close) worst_early = std::max(worst_early, difference);
  }
  bool whole = steps == expected["steps"].get<int64_t>();
  double accuracy = whole ? Accuracy(*model, test) : 0;
  double off = whole ? std::abs(accuracy - expected["test_acc"].get<double>()) : 0;
  bool good = worst_early <= 1e-4 && off <= 0.005 && compiles == 0;
  fmt::print(
      "{:<10} {:>5} steps: loss within {:.1e} in the first {}, {:.1e} in all, 1e-06 for {}; {}{} "
      "compiles after step {}{}\n",
      name, steps, worst_early, settings.close, worst, same,
      whole ? fmt::format("accuracy {:.4f}, PyTorch {:.4f}; ", accuracy,
                          expected["test_acc"].get<double>())
            : "",
      compiles, kWarmUp, good ? "" : "  <-- differs");
  return good;
}

int Main(const Settings& settings) {
  config::Set<config::kWideSums>(settings.precision == "wide");
  if (!settings.device.empty()) SetDefaultDevice(Device(settings.device));
  Images train(settings.data + "/train", settings.dtype());
  Images test(settings.data + "/t10k", settings.dtype());
  bool good = true;
  int runs = 0;
  for (const auto& [name, run] : kRuns) {
    if (!std::filesystem::exists(settings.folder + "/" + name + "_cpu.json")) continue;
    good &= Repeat(name, settings, train, test);
    ++runs;
  }
  if (runs == 0) fmt::print("no run is in {}\n", settings.folder);
  return good && runs > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    bool has_value = i + 1 < argc;
    if (word == "--device" && has_value) {
      settings.device = argv[++i];
    } else if (word == "--data" && has_value) {
      settings.data = argv[++i];
    } else if (word == "--steps" && has_value) {
      settings.steps = std::atoll(argv[++i]);
    } else if (word == "--close" && has_value) {
      settings.close = std::atoll(argv[++i]);
    } else if (word == "--precision" && has_value && IsPrecision(argv[i + 1])) {
      settings.precision = argv[++i];
    } else if (settings.folder.empty() && word[0] != '-') {
      settings.folder = word;
    } else {
      fmt::print(
          "usage: {} FOLDER [--device NAME] [--steps N] [--close N] [--data FOLDER] [--precision "
          "f32|wide|f64]\n",
          argv[0]);
      return 2;
    }
  }
  constexpr int kSkipped = 77;
  if (!std::filesystem::exists(settings.data + "/train-images-idx3-ubyte.gz")) {
    fmt::print("skipped: {} has no Fashion-MNIST (Debian package dataset-fashion-mnist)\n",
               settings.data);
    return kSkipped;
  }
  try {
    return Main(settings);
  } catch (const NotSupported& error) {
    fmt::print("skipped: {}\n", error.what());
    return kSkipped;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
