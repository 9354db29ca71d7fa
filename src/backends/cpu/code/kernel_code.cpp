#include "backends/cpu/code/kernel_code.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backends/cpu/code/code_cache.h"
#include "backends/cpu/code/host_cpu.h"
#include "backends/cpu/emit/emit_llvm.h"
#include "base/fork.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "base/process_exit.h"
#include "hammock/config.h"
#include "hammock/error.h"
#include "hammock/metric.h"
#include "hammock/profile.h"

namespace hammock::cpu {
namespace {

constinit const metrics::DeclaredCounter kKernelsShared({
    .name = "cpu::KernelsShared",
    .doc = "Kernels that equal one of another graph.",
});

constinit const metrics::DeclaredCounter kKernelsCompiled({
    .name = "cpu::KernelsCompiled",
    .doc = "Kernels of new graphs; their code may come from a cache.",
    .old_name = "cpu::Kernels",
});

constinit const metrics::DeclaredCounter kKernelRunsCompiled({
    .name = "cpu::KernelRunsCompiled",
    .doc = "Runs of kernels as machine code.",
});

constinit const metrics::DeclaredCounter kKernelRunsInterpreted({
    .name = "cpu::KernelRunsInterpreted",
    .doc = "Runs of kernels whose code was not compiled yet.",
});

constinit const metrics::DeclaredMetric kKernelCompileTime({
    .name = "cpu::KernelCompileTime",
    .kind = metrics::Kind::kTime,
    .doc = "Compilations of kernels, from loops to machine code.",
    .old_name = "cpu::CompileKernel",
});

/// At least two: a program has several kernels, and a thread that waits for them has nothing else
/// to do.
size_t MostThreads() { return std::clamp<size_t>(std::thread::hardware_concurrency() / 2, 2, 4); }

/// Note [The first compilation]: the compiler is opened by the first kernel that no cache has. The
/// dynamic linker is locked meanwhile, for 10 to 20 ms, and a thread that begins to use a
/// thread-local object, or starts another thread, waits for it: the one that computes the first
/// results does both. So threads of the queue let it go first for a while. Who waits for code is
/// not delayed, and a short program never opens the compiler.
constexpr std::chrono::milliseconds kHeadStart{20};

/// The kernels that wait to be compiled, and the threads that compile them, started as needed.
/// Threads do not survive a fork, so the child gets a queue of its own.
class CompileQueue {
 public:
  static CompileQueue& Get() {
    static constinit std::atomic<CompileQueue*> current{nullptr};
    CompileQueue* queue = current.load(std::memory_order_acquire);
    while (!queue || queue->forks_ != ForkCount()) {
      auto* fresh = new CompileQueue(queue);
      if (current.compare_exchange_strong(queue, fresh, std::memory_order_acq_rel)) return *fresh;
      delete fresh;
    }
    return *queue;
  }

  void Push(std::shared_ptr<KernelCode> kernel) {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    if (threads_.empty()) {
      process_exit::Register(process_exit::Stage::kKernelCompiles, [] { Get().Stop(); });
      opens_ = std::chrono::steady_clock::now() + kHeadStart;
    }
    waiting_.push_back(std::move(kernel));
    if (waiting_.size() > threads_.size() - busy_ && threads_.size() < MostThreads()) {
      threads_.emplace_back([this] { Work(); });
    }
    changed_.notify_all();
  }

  bool stopped() {
    std::lock_guard lock(mutex_);
    return stopped_;
  }

  /// Returns when the compiler may be opened. Note [The first compilation]
  void WaitToOpen() {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, opens_, [&] { return stopped_ || is_urgent_; });
  }

  /// Somebody waits for code.
  void Hurry() {
    std::lock_guard lock(mutex_);
    is_urgent_ = true;
    changed_.notify_all();
  }

  void WaitUntilEmpty() {
    Hurry();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty() && busy_ == 0; });
  }

 private:
  void Work() {
    pthread_setname_np(pthread_self(), "compile kernels");
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      std::shared_ptr<KernelCode> kernel = std::move(waiting_.front());
      waiting_.pop_front();
      ++busy_;
      lock.unlock();
      // Nobody else holds it: the graph was dropped meanwhile.
      if (kernel.use_count() > 1) kernel->Compile([this] { WaitToOpen(); });
      kernel.reset();
      lock.lock();
      --busy_;
      changed_.notify_all();
    }
  }

  /// Drops what waits. Threads may go on with one kernel each, since LLVM is never torn down.
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      waiting_.clear();
      changed_.notify_all();
    }
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    for (std::thread& thread : threads_) thread.join();  // in such builds it is
    threads_.clear();
#endif
  }

  explicit CompileQueue(CompileQueue* parent) : parent_(parent) {}

  CompileQueue* const parent_;  // of the process that forked this one: kept, never used
  const uint64_t forks_ = ForkCount();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<KernelCode>> waiting_;
  std::vector<std::thread> threads_;
  std::chrono::steady_clock::time_point opens_;
  bool stopped_ = false, is_urgent_ = false;
  size_t busy_ = 0;  // threads
};

/// All kernels there are, equal ones once; the second says whether it is new.
std::pair<std::shared_ptr<KernelCode>, bool> Share(
    const std::string& key, const std::shared_ptr<const compiler::Kernel>& kernel) {
  static auto& mutex = NeverDestroyed<std::mutex>();
  static auto& all = NeverDestroyed<std::unordered_map<std::string, std::weak_ptr<KernelCode>>>();
  std::lock_guard lock(mutex);
  std::weak_ptr<KernelCode>& known = all[key];
  if (std::shared_ptr<KernelCode> code = known.lock()) return {code, false};
  auto code = std::make_shared<KernelCode>(kernel);
  known = code;
  if (all.size() > 1024 && all.size() % 1024 == 0) {
    std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  }
  return {code, true};
}

}  // namespace

std::shared_ptr<KernelCode> KernelCode::Get(const std::shared_ptr<const compiler::Kernel>& kernel) {
  std::string key = ToText(*kernel);
  auto [code, is_new] = Share(key, kernel);
  (is_new ? metrics::Get<kKernelsCompiled>() : metrics::Get<kKernelsShared>()).Add();
  if (!is_new) return code;
  if (IsLive(key)) {
    code->Compile();
  } else if (!config::Get<kWaitForCode>()) {
    CompileQueue::Get().Push(code);
  }
  return code;
}

void KernelCode::WaitFor(const std::vector<std::shared_ptr<KernelCode>>& kernels) {
  bool can_compile = LlvmCompiler::WhyAbsent().empty();
  CompileQueue::Get().Hurry();
  for (size_t i = 1; can_compile && i < kernels.size(); ++i) {
    if (kernels[i]->state_.load() == kNew) CompileQueue::Get().Push(kernels[i]);
  }
  for (const std::shared_ptr<KernelCode>& kernel : kernels) {
    kernel->Compile();
    kernel->Wait();
  }
}

void KernelCode::CountRun() const {
  (compiled() ? metrics::Get<kKernelRunsCompiled>() : metrics::Get<kKernelRunsInterpreted>()).Add();
}

void KernelCode::Wait() const {
  for (int state = state_.load(); state != kDone; state = state_.load()) state_.wait(state);
}

void KernelCode::Compile(const std::function<void()>& before_opening) {
  int state = kNew;
  if (!state_.compare_exchange_strong(state, kTaken)) return;
  CompileNow(before_opening);
  state_.store(kDone);
  state_.notify_all();
}

void KernelCode::CompileNow(const std::function<void()>& before_opening) {
  metrics::ScopedTimer timer(metrics::Get<kKernelCompileTime>());
  profile::Span span("compile kernel", "kernel compile");
  span.Set("instructions", static_cast<int64_t>(kernel_->instrs.size()));
  const std::string source = ToText(*kernel_);
  try {
    std::shared_ptr<const LoadedCode> code = FindCode(source);  // which needs no LLVM
    if (!code && before_opening) before_opening();
    if (std::string reason; !code && !(reason = LlvmCompiler::WhyAbsent()).empty()) {
      if (CompileQueue::Get().stopped()) return;  // the process is ending
      LogOnce("cpu.llvm", LogLevel::kWarn, "cpu: kernels stay interpreted: {}", reason);
      return;
    }
    if (!code) code = GetCode(source, [&] { return EmitLlvm(*kernel_, HostTarget()); });
    NativeKernel native = code->Function<void(const KernelArgs*)>(FunctionName(*kernel_));
    code_ = std::move(code);
    native_.store(native, std::memory_order_release);
  } catch (const std::exception& error) {
    if (CompileQueue::Get().stopped()) return;  // the process is ending
    LogOnce("cpu.compile", LogLevel::kWarn,
            "cpu: a kernel cannot be compiled and stays interpreted: {}\n{}", error.what(),
            ToText(*kernel_));
  }
}

void WaitForCode() { CompileQueue::Get().WaitUntilEmpty(); }

}  // namespace hammock::cpu
