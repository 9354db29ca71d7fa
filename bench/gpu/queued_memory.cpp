/// Peak memory of queued training steps against that of awaited ones: GPT-2 in bf16 autocast with
/// AdamW. A step looks up embeddings and classes, so it can fail, and queued steps begin before it
/// is known whether those before them have; both must need one copy of weights and moments.
///
///   queued_memory awaited|queued|both|check [BATCH SEQ STEPS LAYERS]     by default 8 1024 20 12
///
/// "check" fails where queued steps need more than a hundredth of a second copy, where the byte
/// budget cuts a step, and where more than three graphs are compiled. Less than that are the
/// moments of some biases, which no step with embeddings updates in place (docs/design/cuda.md):
/// each step in flight has its own.
///
/// The peak of a process never falls, and the first step, which makes the state, may need more than
/// later ones. So before its steps each kind fills up what is in use to the peak: then the peak
/// rises by what its own steps take.

#include <hammock/hammock.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace hammock;

namespace {

constexpr int64_t kWidth = 768, kHeads = 12, kVocab = 50304;

struct Block : nn::Module {
  Block() : Module("Block") {}
  Tensor forward(const Tensor& x) {
    int64_t b = x.size(0), t = x.size(1);
    Tensor qkv = c_attn(ln_1(x)).reshape({b, t, 3, kHeads, kWidth / kHeads});
    auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
    Tensor y = scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, true);
    Tensor r = x + c_proj(y.transpose(1, 2).reshape({b, t, kWidth}));
    return r + mlp_proj(gelu(mlp_fc(ln_2(r))));
  }
  nn::LayerNorm ln_1 = register_module("ln_1", nn::LayerNorm(kWidth));
  nn::LayerNorm ln_2 = register_module("ln_2", nn::LayerNorm(kWidth));
  nn::Linear c_attn = register_module("c_attn", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear c_proj = register_module("c_proj", nn::Linear(kWidth, kWidth));
  nn::Linear mlp_fc = register_module("mlp_fc", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear mlp_proj = register_module("mlp_proj", nn::Linear(4 * kWidth, kWidth));
};

struct Gpt : nn::Module {
  Gpt(int64_t context, int64_t layers) : Module("Gpt") {
    wte = register_module("wte", nn::Embedding(kVocab, kWidth));
    wpe = register_module("wpe", nn::Embedding(context, kWidth));
    nn::init::normal_(wte->weight, 0, 0.02);
    nn::init::normal_(wpe->weight, 0, 0.02);
    for (int64_t i = 0; i < layers; ++i) {
      blocks.push_back(register_module("h" + std::to_string(i), std::make_shared<Block>()));
    }
    ln_f = register_module("ln_f", nn::LayerNorm(kWidth));
    head = register_module("head", nn::Linear(kWidth, kVocab));
  }
  Tensor forward(const Tensor& codes) {
    Tensor x = wte(codes) + wpe(arange(codes.size(1)));
    for (auto& block : blocks) x = block->forward(x);
    return head(ln_f(x));
  }
  nn::Embedding wte = nullptr, wpe = nullptr;
  std::vector<std::shared_ptr<Block>> blocks;
  nn::LayerNorm ln_f = nullptr;
  nn::Linear head = nullptr;
};

/// A tensor that takes all that lies between what is in use and the peak; none where nothing does.
Tensor FillToPeak(const Device& device) {
  const lazy::MemoryInfo memory = GetMemoryInfo(device);
  if (memory.peak == memory.in_use) return {};
  Tensor ballast = empty({memory.peak - memory.in_use}, u8, device);
  sync_multi({ballast});
  wait_device_ops();
  return ballast;
}

int64_t Compiles() { return metrics::CounterValue("UncachedCompile").value_or(0); }

double Gigabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

int main(int argc, char** argv) {
  auto number = [&](int i, int64_t otherwise) {
    return argc > i ? std::strtoll(argv[i], nullptr, 10) : otherwise;
  };
  const std::string mode = argc > 1 ? argv[1] : "both";
  const int64_t batch = number(2, 8), seq = number(3, 1024), steps = number(4, 20);
  const Device device;
  manual_seed(1);
  Gpt model(seq, number(5, 12));
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-4});
  Tensor x = randint(0, kVocab, {batch, seq}), y = randint(0, kVocab, {batch, seq});
  mark_step(true);
  auto train = [&] {
    step([&] {
      optimizer.zero_grad();
      Tensor loss;
      {
        AutocastGuard autocast(bf16);
        loss = cross_entropy(model.forward(x).flatten(0, 1), y.flatten());
      }
      loss.backward();
      optimizer.step();
    });
  };
  int64_t parameters = 0;
  for (const Tensor& parameter : model.parameters()) parameters += parameter.numel();
  const int64_t one_copy = parameters * 12;  // of weights and moments
  std::printf("%s, %lld parameters, weights and moments %.3f GB\n", device.to_string().c_str(),
              static_cast<long long>(parameters), Gigabytes(one_copy));
  const bool checks = mode == "check";
  std::map<std::string, int64_t> rises;
  int64_t compiled_for_ballast = 0;
  for (const char* kind : {"awaited", "queued"}) {
    if (mode != "both" && !checks && mode != kind) continue;
    const bool awaited = kind[0] == 'a';
    for (int i = 0; i < 3; ++i) {  // kernels are compiled, and the state is made
      train();
      wait_device_ops();
    }
    const int64_t compiled = Compiles();
    const Tensor ballast = FillToPeak(device);
    compiled_for_ballast += Compiles() - compiled;
    const int64_t before = GetMemoryInfo(device).in_use;
    auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < steps; ++i) {
      train();
      if (awaited) wait_device_ops();
    }
    wait_device_ops();
    std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - begin;
    lazy::MemoryInfo memory = GetMemoryInfo(device);
    rises[kind] = memory.peak - before;
    std::printf(
        "%s: rises by %.6f GB, peak %.6f GB, reserved %.6f GB, in use at the end %.6f GB, %.2f ms "
        "a step\n",
        kind, Gigabytes(rises[kind]), Gigabytes(memory.peak), Gigabytes(memory.reserved),
        Gigabytes(memory.in_use), time.count() / static_cast<double>(steps));
  }
  if (!checks) return 0;
  const int64_t cuts = metrics::CounterValue("TrimIrGraph").value_or(0);
  const int64_t compiles = Compiles() - compiled_for_ballast;
  std::printf("%lld cuts, %lld compiles\n", static_cast<long long>(cuts),
              static_cast<long long>(compiles));
  const bool in_place = rises["queued"] - rises["awaited"] <= one_copy / 100;
  return cuts == 0 && compiles <= 3 && in_place ? 0 : 1;
}
