/// Records ops of one kind on the null backend, whose results are dropped: what recording costs.
///   record_program OPS REPEATS grad|sum|slice|select|counted|uncounted|training|awaited|queued|
///     without_step
/// In mode "training" a repeat is one whole training step of a small transformer, sync included,
/// which records about 1000 ops; OPS is not looked at. Modes "awaited" and "queued" do so on the
/// CUDA backend without a GPU, whose steps end later, and wait for each step or for none;
/// "without_step" has no `step` around the loop's body. Modes "counted" and "uncounted" record the
/// same ops, in a `step` whose memory is counted, and outside of steps without any budget.

#include <hammock/hammock.h>

#include <cstdio>
#include <cstdlib>
#include <string>

using namespace hammock;

namespace {

constexpr int64_t kWidth = 32, kHeads = 4, kLayers = 5, kVocab = 64, kBatch = 2, kLength = 16;

struct Block : nn::Module {
  Block() : Module("Block") {}
  Tensor forward(const Tensor& x) {
    Tensor qkv = attend(norm_1(x)).reshape({kBatch, kLength, 3, kHeads, kWidth / kHeads});
    auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
    Tensor y = scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, true);
    Tensor r = x + project(y.transpose(1, 2).reshape({kBatch, kLength, kWidth}));
    return r + down(gelu(up(norm_2(r))));
  }
  nn::LayerNorm norm_1 = register_module("norm_1", nn::LayerNorm(kWidth));
  nn::LayerNorm norm_2 = register_module("norm_2", nn::LayerNorm(kWidth));
  nn::Linear attend = register_module("attend", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear project = register_module("project", nn::Linear(kWidth, kWidth));
  nn::Linear up = register_module("up", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear down = register_module("down", nn::Linear(4 * kWidth, kWidth));
};

struct Net : nn::Module {
  Net() : Module("Net") {
    for (int64_t i = 0; i < kLayers; ++i) {
      blocks.push_back(register_module("h" + std::to_string(i), std::make_shared<Block>()));
    }
  }
  Tensor forward(const Tensor& tokens) {
    Tensor x = embed(tokens);
    for (auto& block : blocks) x = block->forward(x);
    return head(norm(x));
  }
  nn::Embedding embed = register_module("embed", nn::Embedding(kVocab, kWidth));
  std::vector<std::shared_ptr<Block>> blocks;
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(kWidth));
  nn::Linear head = register_module("head", nn::Linear(kWidth, kVocab));
};

void Train(int repeats, const std::string& mode) {
  Net net;
  optim::AdamW optimizer(net.parameters());
  Tensor x = randint(0, kVocab, {kBatch, kLength}), y = randint(0, kVocab, {kBatch, kLength});
  auto body = [&] {
    optimizer.zero_grad();
    AutocastGuard autocast(bf16);
    cross_entropy(net.forward(x).flatten(0, 1), y.flatten()).backward();
    optimizer.step();
  };
  for (int i = 0; i < repeats; ++i) {
    if (mode == "without_step") {
      body();
      continue;
    }
    step(body);
    if (mode == "awaited") wait_device_ops();
  }
  mark_step(true);
}

void Record(const std::string& mode, int ops) {
  Tensor x = zeros({16, 16}), one = ones({16, 16});
  if (mode == "grad") {
    Tensor end = x.requires_grad_();
    for (int i = 0; i < ops; ++i) end = end + one;
  } else if (mode == "sum") {
    for (int i = 0; i < ops; ++i) sum(x);
  } else if (mode == "slice") {
    for (int i = 0; i < ops; ++i) x.slice(0, 1, 9);
  } else if (mode == "select") {
    for (int i = 0; i < ops; ++i) x.select(0, 3);
  } else {
    auto record = [&] {
      std::vector<Tensor> held;
      for (int i = 0; i < ops; ++i) held.push_back(x + one);
    };
    mode == "counted" ? step(record) : record();
  }
}

}  // namespace

int main(int, char** argv) {
  int ops = std::atoi(argv[1]), repeats = std::atoi(argv[2]);
  std::string mode = argv[3];
  const bool on_cuda = mode == "awaited" || mode == "queued" || mode == "without_step";
  const bool trains = on_cuda || mode == "training";
  config::Set("cuda.emulate", "none");
  config::Set("device", on_cuda ? "cuda" : "null");
  // A training step is that of a program, which computes its initial state before the first one.
  if (!trains) config::Set("trim_graph_size", "0");
  if (mode == "uncounted") config::Set("trim_graph_bytes", "0");
  if (trains) Train(repeats, mode);
  for (int i = 0; i < repeats && !trains; ++i) Record(mode, ops);
  std::printf("%ld ops recorded\n",
              static_cast<long>(metrics::CounterValue("TracedOps").value_or(0)));
}
