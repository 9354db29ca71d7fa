#include "runtime/diagnose/debug_print.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>

#include "base/fork.h"
#include "base/throw.h"
#include "hammock/print.h"
#include "ir/node_access.h"
#include "runtime/step/closures.h"
#include "runtime/step/executor.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

struct Print {
  Tensor tensor;  // live, so that the step computes it; shares no memory, so that it stays
  std::string label;
};

std::string Line(const Print& print) {
  UnheardErrors unheard;  // a print keeps no error from the program
  try {
    HostTensor values = print.tensor.host();
    return fmt::format("{}{} : {}\n", print.label, FormatElements(values, get_printoptions()),
                       values.shape().to_string());
  } catch (const std::exception& error) {
    return fmt::format("{}{}\n", print.label, error.what());
  }
}

/// Whether a step has claimed the value or failed to compute it.
bool IsClaimed(const Print& print) {
  Value value = ValueOf("debug_print", print.tensor);
  if (value.node->IsLeaf() || value.node->device() == kNoDevice) return true;
  std::lock_guard lock(Executor().graph_mutex);
  const LeafPayload* payload = NodeAccess::payload(value.node.get());
  if (payload && (payload->error || payload->failed_step)) return true;
  return value.node->slots()[value.index].data != nullptr;
}

void Start(Print print) {
  PushAsyncClosure([print = std::move(print)] {
    std::string line = Line(print);
    std::fwrite(line.data(), 1, line.size(), stderr);
  });
}

/// Prints that wait for a step.
class WaitingPrints {
 public:
  static WaitingPrints& Get() {
    static WaitingPrints* instance = [] {
      std::atexit([] { Get().Report(); });
      return new WaitingPrints;
    }();
    return *instance;
  }

  void Add(Print print) {
    std::lock_guard lock(mutex_);
    prints_.push_back(std::move(print));
    any.store(true, std::memory_order_release);
  }

  void StartClaimed() {
    std::list<Print> claimed;
    {
      std::lock_guard lock(mutex_);
      for (auto it = prints_.begin(); it != prints_.end();) {
        auto next = std::next(it);
        if (IsClaimed(*it)) claimed.splice(claimed.end(), prints_, it);
        it = next;
      }
      any.store(!prints_.empty(), std::memory_order_release);
    }
    for (Print& print : claimed) Start(std::move(print));
  }

  static inline std::atomic<bool> any{false};

 private:
  void Report() {
    if (forks_ != ForkCount()) return;  // the mutex may be held by a thread that is not here
    std::lock_guard lock(mutex_);
    for (const Print& print : prints_) {
      std::fprintf(stderr, "%sthe value was never computed\n", print.label.c_str());
    }
  }

  const uint64_t forks_ = ForkCount();
  std::mutex mutex_;
  std::list<Print> prints_;
};

}  // namespace

ClaimedPrints::~ClaimedPrints() {
  if (WaitingPrints::any.load(std::memory_order_acquire)) [[unlikely]]
    WaitingPrints::Get().StartClaimed();
}

void debug_print(const Tensor& tensor, const std::string& label, Location at) {
  LocationScope scope(at);
  if (Context().made_leaves) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "debug_print: a function that is being compiled or traced only records; "
                        "return the value and print what the compiled function returns");
  }
  Value value = ValueOf("debug_print", tensor);
  if (!value) ThrowUndefined("debug_print");
  value.tape = {};
  std::string name = label.empty() ? LocationText(CurrentLocation(at)) : label;
  Print print{NewTensor(std::move(value), false), name + " = "};
  if (IsClaimed(print)) {
    Start(std::move(print));
  } else {
    WaitingPrints::Get().Add(std::move(print));
  }
}

}  // namespace hammock
