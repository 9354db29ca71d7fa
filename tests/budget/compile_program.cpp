/// Records one graph of a kind and runs it once: what that costs is mostly its compilation, without
/// LLVM and NVRTC.
///   compile_program DEVICE KIND N [BYTES]
/// Kinds are functions below. N is about the number of nodes, parameters or outputs. Fails where
/// more than BYTES a node are allocated at a time, besides what recording had taken.

#include <hammock/hammock.h>

#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <new>
#include <string>

using namespace hammock;

namespace {

std::atomic<int64_t> live_bytes{0}, most_bytes{0};

void* Counted(void* memory) {
  if (!memory) throw std::bad_alloc();
  int64_t live = live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  int64_t most = most_bytes.load();
  while (most < live && !most_bytes.compare_exchange_weak(most, live)) {
  }
  return memory;
}

void Release(void* memory) {
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// Of the whole program, the library included.
void* operator new(size_t bytes) { return Counted(std::malloc(bytes)); }
void* operator new(size_t bytes, std::align_val_t alignment) {
  size_t unit = static_cast<size_t>(alignment);
  return Counted(std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit));
}
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t) noexcept { Release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Release(memory); }

namespace {

using Recorded = std::vector<Tensor>;

std::vector<Tensor> Leaves(int n, const Dims& sizes) {
  std::vector<float> values(static_cast<size_t>(Shape(f32, sizes).numel()), 0.5f);
  std::vector<Tensor> leaves;
  for (int i = 0; i < n; ++i) leaves.push_back(tensor(values).view(sizes));
  LazyGraphExecutor::Get()->SyncTensorsGraph(leaves);
  return leaves;
}

/// Equal parameters, each with an update of its own.
Recorded Wide(int n) {
  std::vector<Tensor> parameters = Leaves(n, {4, 4});
  for (Tensor& p : parameters) p = p * 0.5 + 1;
  return parameters;
}

/// A recurrence and its gradient.
Recorded Deep(int n) {
  Tensor x = Leaves(1, {4})[0].requires_grad_();
  Tensor y = x;
  for (int i = 0; i < n; ++i) y = (y * 1.0001).tanh() + x * 1e-3;
  y.sum().backward();
  return {x.grad()};
}

/// A value of which many others are made.
Recorded Outputs(int n) {
  Tensor x = Leaves(1, {8})[0];
  Recorded outputs;
  for (int i = 0; i < n; ++i) outputs.push_back((x * (i + 1)).sin().sum());
  return outputs;
}

Recorded Stacked(int n) {
  std::vector<Tensor> parts;
  Tensor x = Leaves(1, {2})[0];
  for (int i = 0; i < n; ++i) parts.push_back(x + i);
  return {stack(parts).sum()};
}

/// One training step of as many small layers as have so many parameters.
Recorded Parameters(int n) {
  std::vector<Tensor> parameters = Leaves(n, {8, 8});
  for (Tensor& p : parameters) p.requires_grad_();
  optim::AdamW optimizer(parameters, {.lr = 1e-3});
  Tensor x = Leaves(1, {8, 8})[0];
  for (const Tensor& p : parameters) x = relu(matmul(x, p));
  x.sum().backward();
  optimizer.step();
  return parameters;
}

/// Layers that draw random numbers and look rows up, which can fail.
Recorded Layers(int n) {
  Tensor table = Leaves(1, {16, 8})[0];
  Tensor rows = argmax(table, 1).slice(0, 0, 4);
  Tensor y = zeros({4, 8});
  for (int i = 0; i < n; ++i) y = dropout(y + embedding(rows, table), 0.5, true).exp();
  return {y};
}

/// A training step that computes activations again.
Recorded Budget(int n) {
  config::Set("memory_budget", "0.5");
  std::vector<Tensor> weights = Leaves(n, {8, 8});
  for (Tensor& w : weights) w.requires_grad_();
  Tensor x = Leaves(1, {64, 8})[0];
  for (const Tensor& w : weights) x = gelu(matmul(x, w));
  x.sum().backward();
  Recorded gradients;
  for (const Tensor& w : weights) gradients.push_back(w.grad());
  return gradients;
}

}  // namespace

int main(int argc, char** argv) {
  config::Set("device", argv[1]);
  config::Set("cuda.emulate", "none");
  config::Set("cpu.llvm_plugin", "none");
  config::Set("log_level", "error");
  config::Set("trim_graph_bytes", "0");
  config::Set("trim_graph_size", "0");
  const std::map<std::string, Recorded (*)(int)> kinds = {
      {"wide", Wide},
      {"deep", Deep},
      {"outputs", Outputs},
      {"stack", Stacked},
      {"parameters", Parameters},
      {"layers", Layers},
      {"budget", Budget},
  };
  Recorded recorded = kinds.at(argv[2])(std::atoi(argv[3]));
  const int64_t before = most_bytes = live_bytes.load();
  const std::clock_t start = std::clock();
  LazyGraphExecutor::Get()->SyncTensorsGraph(recorded);
  LazyGraphExecutor::Get()->WaitDeviceOps();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const double nodes = metrics::MetricValue("TensorsGraphSize")->total;
  const double bytes = static_cast<double>(most_bytes - before) / nodes;
  std::printf("%.0f traced nodes: %.3f s, %.1f us and %.0f bytes a node\n", nodes, seconds,
              seconds * 1e6 / nodes, bytes);
  return argc > 4 && bytes > std::atof(argv[4]) ? 1 : 0;
}
