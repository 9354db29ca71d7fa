#pragma once
/// hammock plan: how long a training step would take, and how much memory each rank would need, for
/// a transformer on many GPUs, under each way to share it out. docs/design/scale.md explains the
/// model.

#include <cstdint>
#include <string>
#include <vector>

namespace hammock::tool {

/// A decoder of transformer blocks.
struct ModelSize {
  std::string name;
  int64_t layers, width, heads, vocabulary, context;
  double mlp = 4;  ///< width of the perceptron over `width`, as if it had two matrices

  double parameters() const;
  /// Of one token, forward and backward.
  double flops() const;
};

/// The speeds and sizes of machines, as measured.
struct Hardware {
  double flops = 348e12;          ///< a GPU's, in whole training steps
  double memory = 80e9;           ///< a GPU's bytes
  int per_host = 8;               ///< GPUs
  double host_bandwidth = 300e9;  ///< bytes a second between GPUs of a host, one way
  double bandwidth = 25e9;        ///< a GPU's share of the network between hosts, one way
  double host_latency = 10e-6, latency = 20e-6;  ///< of a message
  double overlap = 0.8;  ///< of the compute time, what collectives can hide behind
};

/// How a model is trained.
struct Training {
  double batch = 1024;       ///< sequences of a step
  double at_once = 1;        ///< of these, sequences that a rank computes together
  double element_bytes = 2;  ///< of activations, and of gradients on their way: bf16; 4: all is f32
  bool recompute = true;     ///< blocks keep their inputs alone and are computed again backward
};

/// How a model is shared out. Their product is the number of GPUs.
struct Layout {
  int data = 1, tensor = 1, pipeline = 1;
  int stage = 0;  ///< ZeRO among the data parallel ranks
  std::string to_string() const;
};

struct Prediction {
  Layout layout;
  double compute = 0, exposed = 0, bubble = 0;  ///< seconds of a step
  double memory = 0;                            ///< bytes of a rank
  double seconds() const { return compute + exposed + bubble; }
};

/// Of a step.
Prediction Predict(const ModelSize& model, const Hardware& hardware, const Layout& layout,
                   const Training& training);
/// Seconds of an all-reduce of `bytes` among `ranks`, `per_host` of which are neighbours.
double AllReduceSeconds(const Hardware& hardware, double bytes, int ranks, int per_host);

struct PlanOptions {
  std::string model = "7b";
  /// A model by its sizes, in place of one by name; 0 layers: by name.
  ModelSize sizes = {"of these sizes", 0, 1024, 16, 50257, 1024};
  std::vector<int> gpus = {8, 64, 256, 1024};
  Training training;
  Hardware hardware;
  bool json = false;
};
int Plan(const PlanOptions& options);

}  // namespace hammock::tool
