// exit_child WORK WAY MICROSECONDS: works in several threads, and ends in the given way in the
// midst of it. WORK is one of the functions below, "on:DEVICE" for queued steps on a device that
// has run some already, or "new:DEVICE" for those on a device that is as yet unused. Prints what
// exit_run.h expects, and ends with code 3.

#include <dlfcn.h>
#include <hammock/custom_call.h>
#include <hammock/hammock.h>
#include <hammock/lazy/backend_interface.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#ifdef HAMMOCK_EXIT_BACKENDS  // linked with hidden parts of the library
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/driver/held_machine.h"
#include "backends/cuda/emulated.h"
#include "support/host_backend.h"
#endif

using namespace hammock;

namespace {

constexpr int kCode = 3;
constexpr int kLines = 2000;

Tensor computed, recorded, written;

/// Uses tensors when the process ends: one that is there, and one that is yet to be computed.
struct ReadsAtTheEnd {
  const char* name;
  ~ReadsAtTheEnd() {
    if (!computed.defined()) return;
    bool right = computed[3].item<float>() == 42 && recorded[5][7].item<float>() == 96;
    Tensor updated = computed.clone();
    step([&] { updated.add_(1.0f); });
    right &= updated[3].item<float>() == 43;
    // A thread_local object goes before the library's handler runs, and would wait for the step.
    const bool is_last = std::string_view(name) == "static";
    if (is_last && written.defined()) right &= written[3][5].item<float>() == 1;
    std::printf("%s %s\n", name, right ? "right" : "wrong");
  }
};
ReadsAtTheEnd of_process{"static"};

/// Made after `of_process`, so destroyed before it, behind the library's handler. What that waits
/// for, it has waited for then.
struct SaysHowLong {
  std::chrono::steady_clock::time_point exit_began;
  ~SaysHowLong() {
    if (exit_began == std::chrono::steady_clock::time_point()) return;  // of another end
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - exit_began;
    std::printf("waited %.2f s\n", waited.count());
  }
};
SaysHowLong wait_of_exit;

thread_local ReadsAtTheEnd of_thread{"thread_local"};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Tensor Recorded(int64_t n) { return matmul(full({n, 96}, 0.5f), full({96, n}, 2.0f)); }

/// A network with what libraries compute: matrix products and convolutions.
Tensor Loss(const Tensor& images, const Tensor& filter, const Tensor& weight) {
  Tensor features = conv2d(images, filter).relu().flatten(1);
  return matmul(features, weight).tanh().sum();
}

/// Steps that nobody waits for; weights are updated in place.
void Train() {
  Tensor images = randn({8, 3, 16, 16});
  Tensor filter = (randn({8, 3, 3, 3}) * 0.1f).detach().requires_grad_();
  Tensor weight = (randn({8 * 14 * 14, 256}) * 0.01f).detach().requires_grad_();
  optim::AdamW optimizer({filter, weight}, {.lr = 1e-3});
  for (;;) {
    step([&] {
      optimizer.zero_grad();
      Loss(images, filter, weight).backward();
      optimizer.step();
    });
  }
}

void Serve() {
  NoGradGuard no_grad;
  Tensor weight = randn({256, 256});
  for (;;) {
    Tensor x = randn({32, 256});
    for (int i = 0; i < 8; ++i) x = gelu(matmul(x, weight));
    x.sum().item();
  }
}

/// Every graph is new: products and kernels are made, and kernels compiled in the background.
void Compile() {
  static std::atomic<int64_t> size{3};
  for (;;) {
    int64_t n = size.fetch_add(1);
    Tensor x = randn({n, 40 + n % 7});
    for (int64_t i = 0; i < n % 5; ++i) x = (x * 2.0f + static_cast<float>(i)).sin();
    matmul(x.transpose(0, 1), x).softmax(0).sum().item();
  }
}

void Closures() {
  for (;;) {
    Tensor x = matmul(randn({128, 128}), randn({128, 128}));
    add_step_closure([x] { x.host(); }, true);
    mark_step();
  }
}

void OnReference() {
  for (;;) {
    Tensor x = randn({64, 64}, f32, "reference");
    for (int i = 0; i < 20; ++i) x = x * 1.5f;
    mark_step();
    if (x.id() % 4 == 0) x.host();
  }
}

/// A custom call that does not return.
void Stuck() {
  static std::once_flag once;
  std::call_once(once, [] {
    RegisterCustomCall("exit_child.stuck", [](std::span<const HostTensor> in, std::string_view) {
      std::this_thread::sleep_for(std::chrono::hours(1));
      return std::vector<HostTensor>{in[0]};
    });
  });
  Any results = CallOp("custom_call", {Any(AnyList{Any(ones({256, 256}))}), Any("exit_child.stuck"),
                                       Any(""), Any(AnyList{Any("f32[256,256]")})});
  Tensor behind = results.ToList().at(0).ToTensor() + 1.0f;
  mark_step();
  std::this_thread::sleep_for(std::chrono::hours(1));
}

/// Would take minutes.
Tensor LongProduct() {
  Tensor x = randn({1500, 1500}), y = x;
  for (int i = 0; i < 20000; ++i) y = matmul(y, x) * 1e-3f;
  return y;
}
void Long() { sync_multi({LongProduct()}); }
void LongRead() { LongProduct().host(); }

std::atomic<bool> has_begun{false};

/// A step that updates a tensor first and then multiplies matrices for some four seconds.
void LongInPlace() {
  Tensor x = randn({2048, 2048});
  auto multiply = [&x](Tensor y, int times) {
    for (int i = 0; i < times; ++i) y = matmul(y, x) * 1e-2f;
    return y;
  };
  double took = 1;
  for (int i = 0; i < 4; ++i) {
    const double start = Now();
    multiply(x, 2).host();
    took = std::min(took, Now() - start);
  }
  written = zeros({2048, 2048});
  sync_multi({written});
  const int times = static_cast<int>(2 * 4 / took);
  Tensor last;
  step([&] { last = multiply(written.add_(1.0f), times).sum(); });
  has_begun = true;
  has_begun.notify_all();
  std::this_thread::sleep_for(std::chrono::hours(1));
}

struct Block : nn::Module {
  Block() : Module("Block") {}
  Tensor forward(const Tensor& x) {
    Tensor qkv = attend(norm_1(x)).reshape({x.size(0), x.size(1), 3, 4, kWidth / 4});
    auto part = [&](int64_t i) { return qkv.select(2, i).transpose(1, 2); };
    Tensor y = scaled_dot_product_attention(part(0), part(1), part(2), {}, 0, true);
    Tensor r = x + project(y.transpose(1, 2).reshape(x.sizes()));
    return r + down(gelu(up(norm_2(r))));
  }
  static constexpr int64_t kWidth = 128;
  nn::LayerNorm norm_1 = register_module("norm_1", nn::LayerNorm(kWidth));
  nn::LayerNorm norm_2 = register_module("norm_2", nn::LayerNorm(kWidth));
  nn::Linear attend = register_module("attend", nn::Linear(kWidth, 3 * kWidth));
  nn::Linear project = register_module("project", nn::Linear(kWidth, kWidth));
  nn::Linear up = register_module("up", nn::Linear(kWidth, 4 * kWidth));
  nn::Linear down = register_module("down", nn::Linear(4 * kWidth, kWidth));
};

/// Training steps of a small GPT-2 by the thread that ends the process, which waits for none: they
/// are queued and run then.
void Gpt2() {
  constexpr int64_t kBatch = 8, kLength = 128, kVocab = 1000;
  nn::Embedding words(kVocab, Block::kWidth), positions(kLength, Block::kWidth);
  Block first, second;
  nn::Linear head(Block::kWidth, kVocab);
  std::vector<Tensor> parameters;
  for (const auto& some : {words->parameters(), positions->parameters(), first.parameters(),
                           second.parameters(), head->parameters()}) {
    parameters.insert(parameters.end(), some.begin(), some.end());
  }
  optim::AdamW optimizer(parameters, {.lr = 3e-4});
  Tensor x = randint(0, kVocab, {kBatch, kLength}), y = randint(0, kVocab, {kBatch, kLength});
  for (int i = 0; i < 8; ++i) {
    step([&] {
      AutocastGuard autocast(bf16);
      optimizer.zero_grad();
      Tensor hidden = second.forward(first.forward(words(x) + positions(arange(kLength))));
      cross_entropy(head(hidden).flatten(0, 1), y.flatten()).backward();
      optimizer.step();
    });
  }
}

std::string device_name;  // that "on:" and "new:" name

/// Steps that nobody waits for, which may fail as far as the device knows, and write in place.
class Queued {
 public:
  void Step() {
    step([&] {
      Tensor row = index_select(weight_, 0, index_);
      weight_.sub_(matmul(tanh(matmul(x_, weight_)), weight_) * 1e-3f + row * 1e-3f);
    });
  }
  void Await() { weight_.sum().item(); }

 private:
  Tensor x_ = full({24, 24}, 0.25f, f32, device_name);
  Tensor weight_ = full({24, 24}, 0.5f, f32, device_name);
  Tensor index_ = full({1}, 3, i64, device_name);
};

void OnDevice() {
  Queued queued;
  for (int i = 1;; ++i) {
    queued.Step();
    if (i % 1000 == 0) queued.Await();
  }
}

/// What a step needs is compiled.
void UseDevice() {
  Queued queued;
  for (int i = 0; i < 4; ++i) queued.Step();
  queued.Await();
}

#ifdef HAMMOCK_EXIT_BACKENDS
std::shared_ptr<cuda::HeldMachine> held;

/// async: computes on a thread of its own. held: a GPU that is busy for ever once it is held.
void RegisterBackends() {
  lazy::RegisterBackend(&testing::MakeBackend("async", 1, /*asynchronous=*/true));
  held = std::make_shared<cuda::HeldMachine>(cuda::EmulatedForTests());
  lazy::RegisterBackend(cuda::MakeBackend({held}, "held", 103).release());
}
void Hold() { held->Hold(); }
#else
void RegisterBackends() {}
void Hold() {}
#endif

class FailsToEnd : public lazy::BackendImplInterface {
 public:
  FailsToEnd(std::string name, int8_t number, std::function<void()> fail)
      : fail_(std::move(fail)), type_(std::make_shared<Type>(std::move(name), number)) {}
  void PrepareToExit() const override { fail_(); }
  void SetRngSeed(size_t) const override {}
  BackendDataPtr MakeComputationDataFromTensor(const HostTensor&, const Shape&,
                                               const lazy::BackendDevice&) const override {
    return nullptr;
  }
  BackendDataPtr MakeComputationDataFromScalar(const Scalar&,
                                               const lazy::BackendDevice&) const override {
    return nullptr;
  }
  BackendDataPtr CreateDataPlaceholder(const lazy::BackendDevice&, const Shape&) const override {
    return nullptr;
  }
  HostTensor MakeTensorFromComputationData(const BackendDataPtr,
                                           std::optional<DType>) const override {
    return {};
  }
  std::vector<lazy::ComputationPtr> Compile(std::vector<lazy::ComputationPtr> all) const override {
    return all;
  }
  std::vector<BackendDataPtr> ExecuteComputation(lazy::ComputationPtr,
                                                 std::span<const BackendDataPtr>,
                                                 const lazy::BackendDevice&,
                                                 const lazy::RunContext&) const override {
    return {};
  }
  std::shared_ptr<lazy::BackendDeviceType> GetDefaultDeviceType() const override { return type_; }
  void SetDefaultDeviceType(int8_t) override {}
  int64_t GetDefaultDeviceOrdinal() const override { return 0; }
  void SetDefaultDeviceOrdinal(int64_t) override {}
  std::vector<lazy::BackendDevice> GetBackendDevices() const override { return {{type_, 0}}; }
  lazy::MemoryInfo GetMemoryInfo(const lazy::BackendDevice&) const override { return {}; }

 private:
  struct Type : lazy::BackendDeviceType {
    Type(std::string given, int8_t number) : BackendDeviceType(number), name(std::move(given)) {}
    std::string toString() const override { return name; }
    std::string name;
  };
  std::function<void()> fail_;
  std::shared_ptr<Type> type_;
};

void ThrowingBackend() {
  static std::once_flag once;
  std::call_once(once, [] {
    lazy::RegisterBackend(new FailsToEnd("fails_to_end", 77, [] { throw 42; }));
    lazy::RegisterBackend(new FailsToEnd(
        "raises_to_end", 78, [] { throw DeviceError(ErrorCode::kDevice, "the device is gone"); }));
  });
  Serve();
}

void PrintLines() {
  for (int i = 0; i < kLines; ++i) std::printf("line %d\n", i);
}

/// The process is about to end in a way that destroys nothing: the parent measures how fast.
void PrintLinesAndTheTime() {
  PrintLines();
  std::printf("left at %.6f\n", Now());
  std::fflush(stdout);
}

/// The process is about to end in a way that destroys static objects.
void PrintLinesAndLookAtTheClock() {
  PrintLines();
  wait_of_exit.exit_began = std::chrono::steady_clock::now();
}

[[noreturn]] void Exit() {
  PrintLinesAndLookAtTheClock();
  std::exit(kCode);
}

[[noreturn]] void Wait() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

int Return() {
  PrintLinesAndLookAtTheClock();
  return kCode;
}
int QuickExit() {
  PrintLinesAndTheTime();
  std::quick_exit(kCode);
}
int ImmediateExit() {
  PrintLinesAndTheTime();
  _exit(kCode);
}
int ExitInNewThread() {
  std::thread(Exit).detach();
  Wait();
}
int ExitInUsingThread() {
  std::thread([] {
    matmul(ones({8, 8}), ones({8, 8})).sum().item();
    Exit();
  }).detach();
  Wait();
}
int ExitInClosure() {
  add_step_closure([] { Exit(); }, true);
  mark_step();
  Wait();
}
int ExitInCustomCall() {
  RegisterCustomCall(
      "exit_child.exit",
      [](std::span<const HostTensor>, std::string_view) -> std::vector<HostTensor> { Exit(); });
  Any results = CallOp("custom_call", {Any(AnyList{Any(ones({2}))}), Any("exit_child.exit"),
                                       Any(""), Any(AnyList{Any("f32[2]")})});
  results.ToList().at(0).ToTensor().host();
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> works = {{"train", Train},
                                                   {"serve", Serve},
                                                   {"compile", Compile},
                                                   {"closures", Closures},
                                                   {"reference", OnReference},
                                                   {"stuck", Stuck},
                                                   {"long", Long},
                                                   {"long_read", LongRead},
                                                   {"long_in_place", LongInPlace},
                                                   {"gpt2", Gpt2},
                                                   {"throwing_backend", ThrowingBackend}};
  const std::map<std::string, int (*)()> ways = {{"return", Return},
                                                 {"exit",
                                                  [] {
                                                    Exit();
                                                    return 0;
                                                  }},
                                                 {"quick_exit", QuickExit},
                                                 {"immediate_exit", ImmediateExit},
                                                 {"exit_in_new_thread", ExitInNewThread},
                                                 {"exit_in_using_thread", ExitInUsingThread},
                                                 {"exit_in_closure", ExitInClosure},
                                                 {"exit_in_custom_call", ExitInCustomCall}};
  if (argc != 4 || !ways.contains(argv[2])) return 2;
  const std::string work_name = argv[1];
  const bool used = work_name.starts_with("on:"), fresh = work_name.starts_with("new:");
  if (!used && !fresh && !works.contains(work_name)) return 2;
  if (used || fresh) device_name = work_name.substr(work_name.find(':') + 1);
  auto work = used || fresh ? OnDevice : works.at(work_name);
  if (device_name == "cuda") config::Set("cuda.emulate", "g++");
  RegisterBackends();
  if (used) UseDevice();
  if (device_name == "held") Hold();
  auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(std::atoi(argv[3]));
  of_thread.name = "thread_local";  // made for this thread
  computed = full({8}, 21.0f) * 2.0f;
  sync_multi({computed});
  for (int64_t n : {40, 56}) {  // then 72 is a new size of a graph that serves all sizes
    recorded = Recorded(n);
    recorded[5][7].item();
  }
  recorded = Recorded(72);
  if (work == Gpt2) {
    work();
    return ways.at(argv[2])();
  }
  if (work == LongInPlace) {
    std::thread(work).detach();
    has_begun.wait(false);
    std::this_thread::sleep_for(std::chrono::microseconds(std::atoi(argv[3])));
    return ways.at(argv[2])();
  }
  for (int i = 0; i < 2; ++i) std::thread(work).detach();
  std::this_thread::sleep_until(end);
  return ways.at(argv[2])();
}
