#include "backends/cpu/kernel_code.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "backends/cpu/code_cache.h"
#include "backends/cpu/emit_llvm.h"
#include "base/fork.h"
#include "base/log.h"
#include "hammock/config.h"
#include "hammock/error.h"
#include "hammock/metrics.h"

namespace hammock::cpu {
namespace {

/// What waits to be compiled, and the thread that does it. Threads do not survive a fork, so the
/// child gets a queue of its own.
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
    if (!started_) {
      started_ = true;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
      LlvmCompiler::WhyAbsent();  // LLVM is torn down in such builds: loaded first, it goes last
#endif
      std::atexit([] { Get().Stop(); });
      thread_ = std::thread([this] { Work(); });
    }
    waiting_.push_back(std::move(kernel));
    changed_.notify_all();
  }

  bool stopped() {
    std::lock_guard lock(mutex_);
    return stopped_;
  }

  void WaitUntilEmpty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_.empty() && !busy_; });
  }

 private:
  void Work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopped_ || !waiting_.empty(); });
      if (stopped_) return;
      std::shared_ptr<KernelCode> kernel = std::move(waiting_.front());
      waiting_.pop_front();
      busy_ = true;
      lock.unlock();
      // Nobody else holds it: the graph was dropped meanwhile.
      if (kernel.use_count() > 1) kernel->Compile();
      kernel.reset();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  /// Drops what waits and ends the thread, which may compile one more kernel.
  void Stop() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      waiting_.clear();
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  explicit CompileQueue(CompileQueue* parent) : parent_(parent) {}

  CompileQueue* const parent_;  // of the process that forked this one: kept, never used
  const uint64_t forks_ = ForkCount();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<KernelCode>> waiting_;
  std::thread thread_;
  bool started_ = false;
  bool stopped_ = false;
  bool busy_ = false;
};

}  // namespace

namespace {

constinit thread_local KernelRecorder* recorder = nullptr;

/// All kernels there are, equal ones once; the second says whether it is new.
std::pair<std::shared_ptr<KernelCode>, bool> Share(
    const std::string& key, const std::shared_ptr<const compiler::Kernel>& kernel) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::unordered_map<std::string, std::weak_ptr<KernelCode>>;
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

KernelRecorder::KernelRecorder() : outer_(std::exchange(recorder, this)) {}
KernelRecorder::~KernelRecorder() { recorder = outer_; }

std::shared_ptr<KernelCode> KernelCode::Get(const std::shared_ptr<const compiler::Kernel>& kernel) {
  static metrics::Counter& shared = metrics::GetCounter("cpu::KernelsShared");
  static metrics::Counter& made = metrics::GetCounter("cpu::Kernels");
  std::string key = ToText(*kernel);
  auto [code, is_new] = Share(key, kernel);
  if (recorder) {
    auto& noted = recorder->kernels_;
    if (std::find(noted.begin(), noted.end(), code) == noted.end()) noted.push_back(code);
  }
  (is_new ? made : shared).Add();
  if (!is_new) return code;
  if (config::Get<config::kCpuWaitForCode>() || IsLive(key)) {
    code->Compile();
  } else {
    CompileQueue::Get().Push(code);
  }
  return code;
}

void KernelCode::Compile() {
  static metrics::Metric& time = metrics::GetMetric("cpu::CompileKernel", metrics::Kind::kTime);
  metrics::ScopedTimer timer(time);
  const std::string source = ToText(*kernel_);
  try {
    // Code that someone holds, as an archive does, needs no LLVM.
    std::string reason = IsLive(source) ? "" : LlvmCompiler::WhyAbsent();
    if (!reason.empty()) {
      if (CompileQueue::Get().stopped()) return;  // the process is ending
      LogOnce("cpu.llvm", LogLevel::kWarn, "cpu: kernels stay interpreted: {}", reason);
      return;
    }
    std::shared_ptr<const LoadedCode> code = GetCode(source, [&] { return EmitLlvm(*kernel_); });
    NativeKernel native = code->Function<void(const KernelArgs*)>("kernel");
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
