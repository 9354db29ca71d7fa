/// One new graph that several threads meet is compiled by one of them.

#include <algorithm>
#include <thread>

#include "runtime/step/executor.h"
#include "runtime/step/wait.h"

namespace hammock {

/// A graph that a thread compiles. Guarded by compiling_mutex_.
struct StepExecutor::Compiling {
  Hash128 hash;
  std::vector<uint64_t> key;
  const std::thread::id thread = std::this_thread::get_id();
  bool done = false;
  CompiledStepPtr step;                // null: it failed
  std::shared_ptr<const Error> error;  // for all who wait; null: they try for themselves
};

CompiledStepPtr StepExecutor::Compile(DeviceEntry& device, const Hash128& hash,
                                      std::vector<uint64_t> key, Graph traced, int64_t kept,
                                      const SyncOptions& options) {
  const WithoutHostLock no_lock;
  auto mine = std::make_shared<Compiling>();
  mine->hash = hash;
  mine->key = std::move(key);
  // Where a compilation is forbidden there is nothing to wait for.
  const bool forbidden = !Context().forbid_recompile.empty();
  for (std::unique_lock lock(compiling_mutex_); !forbidden;) {
    auto found = std::ranges::find_if(compiling_, [&](const std::shared_ptr<Compiling>& other) {
      // A backend that runs the same graph while it compiles it cannot wait for itself.
      return other->hash == hash && other->key == mine->key && other->thread != mine->thread;
    });
    if (found == compiling_.end()) {
      CompiledStepPtr ready = cache.FindByHash(hash);  // another thread may just have added it
      if (ready && ready->key == mine->key) return ready;
      compiling_.push_back(mine);
      break;
    }
    std::shared_ptr<Compiling> other = *found;
    compiled_.wait(lock, [&] { return other->done; });
    if (other->step) return other->step;
    if (other->error) other->error->Raise();
  }
  auto settle = [&](CompiledStepPtr step, std::shared_ptr<const Error> error) {
    std::lock_guard lock(compiling_mutex_);
    mine->done = true;
    mine->step = std::move(step);
    mine->error = std::move(error);
    std::erase(compiling_, mine);
    compiled_.notify_all();
  };
  try {
    CompiledStepPtr step = CompileNow(device, hash, mine->key, std::move(traced), kept, options);
    settle(step, nullptr);
    return step;
  } catch (const Error& error) {
    settle(nullptr, error.code() == ErrorCode::kRecompileForbidden ? nullptr : error.Clone());
    throw;
  } catch (...) {
    settle(nullptr, nullptr);
    throw;
  }
}

}  // namespace hammock
