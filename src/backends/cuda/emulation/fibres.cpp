#include "backends/cuda/emulation/fibres.h"

#include <sanitizer/asan_interface.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#include "base/never_destroyed.h"
#include "base/throw.h"

namespace hammock::cuda {
namespace {

constexpr size_t kStack = 256 << 10;

// ucontext makes a stack, and long jumps go between them: swapcontext would call the kernel.
class Fibres {
 public:
  void Run(int count, const std::function<void()>& body) {
    body_ = &body;
    count_ = count;
    finished_ = 0;
    while (static_cast<int>(fibres_.size()) < count) fibres_.push_back(std::make_unique<Fibre>());
    if (_setjmp(home_) == 0) Resume(0);
  }

  /// Returns after all other fibres had their turn.
  void Yield() {
    HAMMOCK_CHECK(finished_ == 0, "a thread waits for one that has ended");
    int me = current_;
    if (_setjmp(fibres_[me]->where) == 0) Next(me);
    Enter(me);
  }

  uint64_t Exchange(uint64_t value, int source) {
    if (values_.size() < fibres_.size()) values_.resize(fibres_.size());
    values_[current_] = value;
    Yield();
    uint64_t other = values_[source];
    Yield();
    return other;
  }

  int current() const { return current_; }

 private:
  struct Fibre {
    bool started = false;
    char* stack = nullptr;
    ucontext_t context;
    jmp_buf where;
  };

  void Enter(int me) {
    current_ = me;
    EmulatedThread& state = CurrentEmulatedThread();
    unsigned number = static_cast<unsigned>(me);
    state.thread = {number % state.block_dim.x, number / state.block_dim.x, 0};
  }

  [[noreturn]] void Next(int me) {
    if (me + 1 < count_) Resume(me + 1);
    if (finished_ == count_) _longjmp(home_, 1);
    Resume(0);
  }

  [[noreturn]] void Resume(int next) {
    Fibre& fibre = *fibres_[next];
    if (fibre.started) {
      // Frames that it jumped out of would be red zones to the address sanitizer, if there is one.
      ASAN_UNPOISON_MEMORY_REGION(fibre.stack, kStack);
      _longjmp(fibre.where, 1);
    }
    fibre.started = true;
    fibre.stack = static_cast<char*>(mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    HAMMOCK_CHECK(fibre.stack != MAP_FAILED, "no stack for a fibre");
    getcontext(&fibre.context);
    fibre.context.uc_stack.ss_sp = fibre.stack;
    fibre.context.uc_stack.ss_size = kStack;
    fibre.context.uc_link = nullptr;
    started_ = next;
    makecontext(&fibre.context, &Fibres::Main, 0);
    setcontext(&fibre.context);
    std::abort();
  }

  /// A fibre runs one thread of a block after the other.
  static void Main();
  [[noreturn]] void Loop(int me) {
    while (true) {
      Enter(me);
      (*body_)();
      ++finished_;
      if (_setjmp(fibres_[me]->where) == 0) Next(me);
    }
  }

  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<uint64_t> values_;
  const std::function<void()>* body_ = nullptr;
  jmp_buf home_;
  int count_ = 0;
  int finished_ = 0;
  int current_ = 0;
  int started_ = 0;
};

Fibres& TheFibres() {
  static auto& fibres = NeverDestroyed<Fibres>();
  return fibres;
}

void Fibres::Main() { TheFibres().Loop(TheFibres().started_); }

}  // namespace

EmulatedThread& CurrentEmulatedThread() {
  static EmulatedThread state = {
      {},
      {},
      {},
      {},
      [] { TheFibres().Yield(); },
      [](uint64_t value, int source) { return TheFibres().Exchange(value, source); }};
  return state;
}

void RunBlocks(unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_y, bool waits,
               const std::function<void()>& body) {
  EmulatedThread& state = CurrentEmulatedThread();
  state.block_dim = {block_x, block_y, 1};
  state.grid_dim = {grid_x, grid_y, 1};
  for (unsigned y = 0; y < grid_y; ++y) {
    for (unsigned x = 0; x < grid_x; ++x) {
      state.block = {x, y, 0};
      if (waits) {
        TheFibres().Run(static_cast<int>(block_x * block_y), body);
        continue;
      }
      for (unsigned i = 0; i < block_x * block_y; ++i) {
        state.thread = {i % block_x, i / block_x, 0};
        body();
      }
    }
  }
}

}  // namespace hammock::cuda
