#include "plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "table.h"

namespace hammock::tool {
namespace {

const std::vector<ModelSize>& Models() {
  static const std::vector<ModelSize> models = {
      {"gpt2", 12, 768, 12, 50257, 1024},
      {"gpt2-1.5b", 48, 1600, 25, 50257, 1024},
      {"7b", 32, 4096, 32, 32000, 4096, 4.03},
  };
  return models;
}

const ModelSize& ModelNamed(const std::string& name) {
  std::string known;
  for (const ModelSize& model : Models()) {
    if (model.name == name) return model;
    known += " " + model.name;
  }
  throw std::runtime_error(fmt::format("plan: no model '{}'; there are{}", name, known));
}

constexpr double kStateBytes = 12;  // f32 parameter and two moments of Adam
constexpr double kGradientBytes = 4;
constexpr double kBlockValues = 17;  // all values of a block, for each element of its input

/// Of the copy of a parameter that layers read.
double CopyBytes(const Training& training) {
  return training.element_bytes < 4 ? training.element_bytes : 0;
}

/// Seconds of a ring of `ranks` in which each sends (ranks - 1) / ranks of `bytes`.
double RingSeconds(const Hardware& hardware, double bytes, int ranks, int per_host) {
  if (ranks == 1) return 0;
  // A ring is as slow as its slowest link; between hosts the neighbours of a host share the load.
  const bool inside = ranks <= per_host;
  const double bandwidth = inside ? hardware.host_bandwidth : hardware.bandwidth * per_host;
  const double latency = inside ? hardware.host_latency : hardware.latency;
  const int hops = inside ? ranks - 1 : (ranks / per_host - 1) + (per_host - 1);
  return bytes * (ranks - 1) / ranks / bandwidth + hops * latency;
}

std::string Short(double value) {
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}
std::string Milliseconds(double seconds) { return Short(seconds * 1e3); }
std::string Gigabytes(double bytes) { return Short(bytes / 1e9); }

/// All ways to share out the model on so many GPUs that make sense: tensor parallel ranks are on
/// one host, heads and layers are cut evenly.
std::vector<Layout> LayoutsOf(const ModelSize& model, const Hardware& hardware, int gpus,
                              double batch) {
  std::vector<Layout> layouts;
  for (int tensor = 1; tensor <= hardware.per_host; tensor *= 2) {
    if (gpus % tensor != 0 || model.heads % tensor != 0) continue;
    for (int pipeline = 1; pipeline <= model.layers; pipeline *= 2) {
      if ((gpus / tensor) % pipeline != 0 || model.layers % pipeline != 0) continue;
      const int data = gpus / tensor / pipeline;
      if (data > batch || std::fmod(batch, data) != 0) continue;
      for (int stage : {0, 1, 2, 3}) {
        if (stage > 0 && data == 1) continue;
        if (stage >= 2 && pipeline > 1) continue;  // gradients are kept over microbatches
        layouts.push_back({data, tensor, pipeline, stage});
      }
    }
  }
  return layouts;
}

}  // namespace

double ModelSize::parameters() const {
  const double block = (4 + 2 * mlp) * static_cast<double>(width * width);
  return static_cast<double>(layers) * block + static_cast<double>(vocabulary * width);
}

double ModelSize::flops() const {
  const double attention = 12.0 * static_cast<double>(layers * width * context) / 2;  // causal
  return 6 * parameters() + attention;
}

std::string Layout::to_string() const {
  std::string text = fmt::format("data {}", data);
  if (stage > 0) text += fmt::format(" (ZeRO {})", stage);
  if (tensor > 1) text += fmt::format(" x tensor {}", tensor);
  if (pipeline > 1) text += fmt::format(" x pipeline {}", pipeline);
  return text;
}

double AllReduceSeconds(const Hardware& hardware, double bytes, int ranks, int per_host) {
  return 2 * RingSeconds(hardware, bytes, ranks, per_host);
}

Prediction Predict(const ModelSize& model, const Hardware& hardware, const Layout& layout,
                   const Training& training) {
  Prediction made{layout};
  const double gpus = static_cast<double>(layout.data) * layout.tensor * layout.pipeline;
  const double tokens = training.batch * static_cast<double>(model.context);
  const double again = training.recompute ? 4.0 / 3 : 1;  // forward is a third of it
  made.compute = tokens * model.flops() * again / gpus / hardware.flops;

  const double own = model.parameters() / layout.tensor / layout.pipeline;
  const double sequences = training.batch / layout.data;  // of a data parallel rank
  const int neighbours = std::max(1, hardware.per_host / layout.tensor);

  // Gradients and parameters among data parallel ranks, behind the computation.
  double behind = 0;
  const double whole = own * training.element_bytes;
  if (layout.stage <= 1) behind = AllReduceSeconds(hardware, whole, layout.data, neighbours);
  if (layout.stage == 2) behind = 2 * RingSeconds(hardware, whole, layout.data, neighbours);
  if (layout.stage == 3) behind = 3 * RingSeconds(hardware, whole, layout.data, neighbours);
  made.exposed = std::max(0.0, behind - hardware.overlap * made.compute);

  // Activations among tensor parallel ranks: two all-reduces a block each way, and two more when a
  // block is computed again. Nothing hides them.
  const double layers = static_cast<double>(model.layers) / layout.pipeline;
  const double activations =
      training.element_bytes * static_cast<double>(model.context * model.width);
  made.exposed += (training.recompute ? 6 : 4) * layers * sequences *
                  AllReduceSeconds(hardware, activations, layout.tensor, hardware.per_host);

  // A microbatch is one sequence.
  if (layout.pipeline > 1) {
    made.bubble = (made.compute + made.exposed) * (layout.pipeline - 1) / sequences;
    made.exposed += 2 * sequences * (activations / hardware.bandwidth + hardware.latency);
  }

  const double shares = layout.data;
  made.memory = own * kStateBytes / (layout.stage >= 1 ? shares : 1) +
                own * kGradientBytes / (layout.stage >= 2 ? shares : 1) +
                own * CopyBytes(training) / (layout.stage >= 3 ? shares : 1);
  // Two whole blocks.
  if (layout.stage == 3) made.memory += 2 * own / layers * training.element_bytes;
  // Inputs of all blocks and all values of one, or all values of all; scores of the vocabulary in
  // f32.
  // A pipeline runs all microbatches forward before it runs one backward.
  const double in_flight = layout.pipeline > 1 ? sequences / training.at_once : 1;
  const double kept =
      training.recompute ? in_flight * layers + kBlockValues : in_flight * layers * kBlockValues;
  const double scores = 4 * static_cast<double>(model.context * model.vocabulary);
  made.memory += training.at_once * (kept * activations + scores) / layout.tensor;
  return made;
}

int Plan(const PlanOptions& options) {
  const ModelSize& model = options.sizes.layers > 0 ? options.sizes : ModelNamed(options.model);
  nlohmann::json json = nlohmann::json::array();
  for (int gpus : options.gpus) {
    std::vector<Prediction> all;
    for (const Layout& layout : LayoutsOf(model, options.hardware, gpus, options.training.batch)) {
      all.push_back(Predict(model, options.hardware, layout, options.training));
    }
    if (all.empty()) {
      throw std::runtime_error(fmt::format("plan: {} sequences cannot be shared out among {} GPUs",
                                           options.training.batch, gpus));
    }
    // Of those that are equally fast, to a thousandth, the smallest first.
    std::ranges::sort(all, {}, [](const Prediction& made) {
      return std::pair(std::lround(1000 * std::log(made.seconds())), made.memory);
    });
    const auto best = std::ranges::find_if(
        all, [&](const Prediction& made) { return made.memory <= options.hardware.memory; });
    Table table({"shared out", "step ms", "compute", "exposed", "bubble", "GB a rank", ""},
                {1, 2, 3, 4, 5});
    for (auto made = all.begin(); made != all.end(); ++made) {
      const bool fits = made->memory <= options.hardware.memory;
      json.push_back({{"gpus", gpus},
                      {"layout", made->layout.to_string()},
                      {"step_s", made->seconds()},
                      {"memory_bytes", made->memory},
                      {"fits", fits},
                      {"recommended", made == best}});
      table.Add({made->layout.to_string(), Milliseconds(made->seconds()),
                 Milliseconds(made->compute), Milliseconds(made->exposed),
                 Milliseconds(made->bubble), Gigabytes(made->memory),
                 made == best ? "<- recommended"
                 : fits       ? ""
                              : "does not fit"});
    }
    if (options.json) continue;
    std::cout << fmt::format("{} ({:.3g}e9 parameters), {} sequences of {} tokens, {} GPUs\n",
                             model.name, model.parameters() / 1e9, options.training.batch,
                             model.context, gpus)
              << table.ToText();
    if (best == all.end()) std::cout << "none fits into a GPU's memory\n";
    std::cout << "\n";
  }
  if (options.json) std::cout << json.dump(1) << "\n";
  return 0;
}

}  // namespace hammock::tool
