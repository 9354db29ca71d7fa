/// libtorch's lazy tensors on the TorchScript backend, as Debian ships them.

#include <torch/csrc/lazy/backend/backend_device.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/csrc/lazy/ts_backend/ts_backend_impl.h>
#include <torch/torch.h>

#include "peer.h"

namespace peer {

namespace {

struct State {
  at::Device device{c10::kLazy, 0};
  torch::Tensor start = torch::ones({16});
  torch::Tensor lazy_start, lazy_one, end;
};
State* state = nullptr;

}  // namespace

const char* Name() { return "libtorch " TORCH_VERSION " lazy (TorchScript)"; }

void Start() {
  at::set_num_threads(1);
  torch::lazy::InitTorchScriptBackend();
  state = new State;
  state->lazy_start = state->start.to(state->device);
  state->lazy_one = torch::ones({16}).to(state->device);
  Sync();
}

void Trace(int ops) {
  torch::NoGradGuard no_grad;
  state->end = state->lazy_start;
  for (int i = 0; i < ops; ++i) state->end = state->end + state->lazy_one;
}

void Sync() {
  auto device = torch::lazy::atenDeviceToBackendDevice(state->device);
  auto* executor = torch::lazy::LazyGraphExecutor::Get();
  executor->SyncLiveTensorsGraph(&device, {}, /*wait=*/true);
  executor->MarkStep(device);
  executor->WaitDeviceOps({});
  state->end = torch::Tensor();
}

void Eager(int ops) {
  torch::NoGradGuard no_grad;
  torch::Tensor x = state->start;
  for (int i = 0; i < ops; ++i) x = x + state->start;
}

}  // namespace peer
