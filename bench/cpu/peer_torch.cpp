/// libtorch as Debian ships it: eager, and its lazy tensors on the TorchScript backend.

#include "peer.h"

#include <torch/csrc/lazy/backend/backend_device.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/csrc/lazy/ts_backend/ts_backend_impl.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>

namespace peer {

using bench::Array;
using bench::Row;
using bench::Side;
using bench::Work;
using torch::Tensor;

namespace {

const at::Device kLazy(c10::kLazy, 0);

void Sync() {
  auto device = torch::lazy::atenDeviceToBackendDevice(kLazy);
  auto* executor = torch::lazy::LazyGraphExecutor::Get();
  executor->SyncLiveTensorsGraph(&device, {}, /*wait=*/true);
  executor->MarkStep(device);
  executor->WaitDeviceOps({});
}

struct State {
  std::vector<Tensor> in;
  Tensor out;
  bool lazy = false;
};

Tensor Chain(const std::vector<Tensor>& in, int64_t ops) {
  Tensor y = in[0];
  for (int64_t i = 0; i < ops; ++i) y = i % 2 ? y * in[1] : y + in[1];
  return y;
}

Tensor LeNet(const std::vector<Tensor>& in) {
  Tensor h = at::max_pool2d(at::relu(at::conv2d(in[0], in[1], in[2])), 2);
  h = at::max_pool2d(at::relu(at::conv2d(h, in[3], in[4])), 2);
  h = at::relu(at::linear(h.view({8, 1024}), in[5], in[6]));
  return at::linear(h, in[7], in[8]);
}

Tensor ResNetBlock(const std::vector<Tensor>& in) {
  auto norm = [&](const Tensor& x, int i) {
    return at::batch_norm(x, in[i + 2], in[i + 3], in[i], in[i + 1], false, 0.1, 1e-5, true);
  };
  Tensor h = at::relu(norm(at::conv2d(in[0], in[1], {}, 1, 1), 3));
  return at::relu(norm(at::conv2d(h, in[2], {}, 1, 1), 7) + in[0]);
}

Tensor Encoder(const std::vector<Tensor>& in) {
  using namespace bench;
  constexpr int64_t head = kWidth / kHeads;
  const Tensor& x = in[0];
  const Tensor* p = &in[2];
  Tensor qkv = at::addmm(p[1], at::layer_norm(x, {kWidth}, p[8], p[9]), p[0])
                   .view({kBatch, kTokens, 3, kHeads, head})
                   .permute({2, 0, 3, 1, 4})
                   .contiguous();
  auto part = [&](int64_t i) { return qkv.select(0, i).reshape({kBatch * kHeads, kTokens, head}); };
  Tensor scores = at::bmm(part(0), part(1).transpose(1, 2)) * (1.0 / std::sqrt(double(head)));
  Tensor mixed = at::bmm(at::softmax(scores, -1), part(2))
                     .view({kBatch, kHeads, kTokens, head})
                     .permute({0, 2, 1, 3})
                     .reshape({kBatch * kTokens, kWidth});
  Tensor y = x + at::addmm(p[3], mixed, p[2]);
  Tensor m = at::gelu(at::addmm(p[5], at::layer_norm(y, {kWidth}, p[10], p[11]), p[4]));
  return y + at::addmm(p[7], m, p[6]);
}

Tensor Infer(const Row& row, const std::vector<Tensor>& in) {
  auto affine = [&] { return in[0] * in[2] + in[3]; };
  switch (row.work) {
    case Work::kChain:
      return Chain(in, row.dims[0]);
    case Work::kRelu:
      return at::relu(affine()) + in[1];
    case Work::kGeluErf:
      return at::gelu(affine()) + in[1];
    case Work::kGeluTanh:
      return at::gelu(affine(), "tanh") + in[1];
    case Work::kSoftmax:
      return at::softmax(in[0], -1);
    case Work::kLayerNorm:
      return at::layer_norm(in[0], {bench::kColumns}, in[2], in[3]);
    case Work::kScaledSoftmax:
      return at::softmax(in[0] / 8, -1) * in[1];
    case Work::kExp:
      return at::exp(in[0]);
    case Work::kTanh:
      return at::tanh(in[0]);
    case Work::kErf:
      return at::erf(in[0]);
    case Work::kSumRows:
      return in[0].sum(-1);
    case Work::kSumColumns:
      return in[0].sum(0);
    case Work::kTranspose:
      return in[0].t().contiguous();
    case Work::kMatmul:
    case Work::kMatmulBf16:
      return at::mm(in[0], in[1]);
    case Work::kLeNet:
      return LeNet(in);
    case Work::kResNetBlock:
      return ResNetBlock(in);
    case Work::kEncoder:
      return Encoder(in);
    default:
      throw std::runtime_error("not a workload of the peer");
  }
}

Tensor Loss(const Row& row, const std::vector<Tensor>& in) {
  if (row.work == Work::kEncoderTrain) {
    Tensor error = Encoder(in) - in[1];
    return (error * error).mean();
  }
  Tensor h = at::relu(at::linear(in[0], in[2], in[3]));
  h = at::relu(at::linear(h, in[4], in[5]));
  return at::nll_loss(at::log_softmax(at::linear(h, in[6], in[7]), 1), in[1]);
}

void TrainStep(const Row& row, State& state) {
  Tensor loss = Loss(row, state.in);
  loss.backward();
  torch::NoGradGuard no_grad;
  for (size_t i = 2; i < state.in.size(); ++i) {
    state.in[i].add_(state.in[i].grad(), -bench::kLearningRate);
    state.in[i].mutable_grad() = Tensor();
  }
  state.out = loss.detach();
}

Tensor Upload(const Array& array, const Row& row, bool lazy) {
  Tensor tensor = torch::tensor(array.values).view(array.sizes);
  if (array.integers) tensor = tensor.to(torch::kLong);
  if (row.work == Work::kMatmulBf16) tensor = tensor.to(torch::kBFloat16);
  return lazy ? tensor.to(kLazy) : tensor.clone();
}

void Append(std::vector<float>& values, Tensor tensor) {
  torch::NoGradGuard no_grad;
  tensor = tensor.detach().to(torch::kCPU).to(torch::kFloat).contiguous();
  const float* data = tensor.data_ptr<float>();
  values.insert(values.end(), data, data + tensor.numel());
}

}  // namespace

const char* Name() { return "libtorch " TORCH_VERSION; }

void Start(int threads) {
  (void)threads;  // OMP_NUM_THREADS says it, and what the setting differs in
  torch::lazy::InitTorchScriptBackend();
}

Side Make(const Row& row, const std::vector<Array>& inputs, bool lazy) {
  auto state = std::make_shared<State>();
  state->lazy = lazy;
  bool training = bench::IsTraining(row.work);
  {
    c10::InferenceMode fast(!lazy && !training);
    for (const Array& array : inputs) state->in.push_back(Upload(array, row, lazy));
  }
  if (training) {
    for (size_t i = 2; i < state->in.size(); ++i) state->in[i].requires_grad_(true);
  }
  if (lazy) Sync();
  Side side;
  side.run = [state, &row, training] {
    if (training) {
      TrainStep(row, *state);
    } else {
      c10::InferenceMode fast(!state->lazy);
      torch::NoGradGuard no_grad;
      state->out = Infer(row, state->in);
    }
    if (state->lazy) Sync();
  };
  side.result = [state, training] {
    std::vector<float> values;
    Append(values, state->out);
    if (training) Append(values, state->in[2]);
    return values;
  };
  return side;
}

}  // namespace peer
