/// Gloo over TCP: bytes between ranks.

#include <gloo/rendezvous/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>
#include <sched.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "distributed/engine_plugin.h"

namespace {

using hammock::distributed::Engine;
using hammock::distributed::EngineSpec;
using std::chrono::milliseconds;

/// Hammock's store as one of Gloo's.
class GlooStore : public gloo::rendezvous::Store {
 public:
  GlooStore(hammock::distributed::Store& store, milliseconds timeout)
      : store_(store), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.Set("gloo/" + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    wait({key});
    std::string value = *store_.Get("gloo/" + key);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    const auto end = std::chrono::steady_clock::now() + std::min(timeout, timeout_);
    for (const std::string& key : keys) {
      while (!store_.Get("gloo/" + key)) {
        if (std::chrono::steady_clock::now() > end) {
          throw std::runtime_error("no address of the rank with key " + key);
        }
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
  }

 private:
  hammock::distributed::Store& store_;
  const milliseconds timeout_;
};

/// Gloo's thread skips connections that a caller holds and looks again at once: where it preempts
/// that caller on a core that both use, it spins until the caller's next turn. As a batch thread it
/// preempts nobody. Threads inherit the policy of those that start them.
std::shared_ptr<gloo::transport::Device> StartDevice(const gloo::transport::tcp::attr& attr) {
  auto start = [&] {
    const sched_param none = {};
    if (sched_getscheduler(0) == SCHED_OTHER) sched_setscheduler(0, SCHED_BATCH, &none);
    return gloo::transport::tcp::CreateDevice(attr);
  };
  return std::async(std::launch::async, start).get();
}

/// Collectives are made of sends and receives, since those can be given up: Gloo's own wait until
/// their time limit, which ends the context of all. Every pair of ranks has a connection, so one
/// message to each does for all but Broadcast.
class GlooEngine : public Engine {
 public:
  explicit GlooEngine(const EngineSpec& spec)
      : context_(std::make_shared<gloo::rendezvous::Context>(spec.rank, spec.size)),
        rank_(spec.rank),
        size_(spec.size) {
    gloo::transport::tcp::attr attr;
    if (!spec.interface.empty()) {
      attr.iface = spec.interface;
    } else if (spec.one_host) {
      attr.hostname = "127.0.0.1";
    }
    std::shared_ptr<gloo::transport::Device> device = StartDevice(attr);
    GlooStore store(*spec.store, spec.timeout);
    context_->setTimeout(spec.timeout);
    context_->connectFullMesh(store, device);
    context_->setTimeout(kNoLimit);
  }

  void AllGather(const void* in, void* out, size_t bytes, uint32_t tag) override {
    if (bytes == 0) return;
    if (void* own = Part(out, rank_, bytes); own != in) std::memcpy(own, in, bytes);
    Transfer transfer(*this, in, bytes, out, bytes * static_cast<size_t>(size_), tag);
    for (int i = 1; i < size_; ++i) {
      const int to = (rank_ + i) % size_, from = (rank_ + size_ - i) % size_;
      transfer.Receive(from, static_cast<size_t>(from) * bytes, bytes);
      transfer.Send(to, 0, bytes);
    }
    transfer.Wait();
  }

  void AllToAll(const void* in, void* out, size_t bytes, uint32_t tag) override {
    if (bytes == 0) return;
    const size_t all = bytes * static_cast<size_t>(size_);
    Transfer transfer(*this, in, all, out, all, tag);
    for (int i = 1; i < size_; ++i) {
      const int to = (rank_ + i) % size_, from = (rank_ + size_ - i) % size_;
      transfer.Receive(from, static_cast<size_t>(from) * bytes, bytes);
      transfer.Send(to, static_cast<size_t>(to) * bytes, bytes);
    }
    transfer.Wait();
  }

  /// A binomial tree: who has it sends it on, to half as many ranks as the one that it came from.
  void Broadcast(void* data, size_t bytes, int root, uint32_t tag) override {
    if (bytes == 0) return;
    const int own = (rank_ + size_ - root) % size_;  // counted from the root
    int reach = 1;
    while (reach < size_ && (own & reach) == 0) reach *= 2;
    if (own != 0) {
      Transfer transfer(*this, nullptr, 0, data, bytes, tag);
      transfer.Receive((own - reach + root) % size_, 0, bytes);
      transfer.Wait();
    }
    Transfer transfer(*this, data, bytes, nullptr, 0, tag);
    for (reach /= 2; reach > 0; reach /= 2) {
      if (own + reach < size_) transfer.Send((own + reach + root) % size_, 0, bytes);
    }
    transfer.Wait();
  }

  void Permute(const void* in, int to, void* out, int from, size_t bytes, uint32_t tag) override {
    if (bytes == 0) return;
    Transfer transfer(*this, in, bytes, out, bytes, tag);
    if (from >= 0) transfer.Receive(from, 0, bytes);
    if (to >= 0) transfer.Send(to, 0, bytes);
    transfer.Wait();
  }

  /// Gloo wakes the other ranks, but not those who wait here.
  void Close() override {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      for (Transfer* transfer : transfers_) transfer->Abort();
    }
    context_->closeConnections();
  }

 private:
  static constexpr milliseconds kNoLimit = std::chrono::hours(24 * 365);
  static constexpr uint8_t kSlots = 0x20;  // Gloo's own begin below

  static void* Part(void* bytes, int index, size_t size) {
    return static_cast<char*>(bytes) + static_cast<size_t>(index) * size;
  }

  /// Sends from one buffer and receives into another, all of which are waited for together.
  class Transfer {
   public:
    Transfer(GlooEngine& engine, const void* in, size_t in_bytes, void* out, size_t out_bytes,
             uint32_t tag)
        : engine_(engine),
          slot_(gloo::Slot::build(kSlots, tag)),
          in_(engine.context_->createUnboundBuffer(const_cast<void*>(in), in_bytes)),
          out_(engine.context_->createUnboundBuffer(out, out_bytes)) {
      std::lock_guard lock(engine_.mutex_);
      if (engine_.closed_) throw std::runtime_error("the connections are closed");
      engine_.transfers_.push_back(this);
    }
    ~Transfer() {
      std::lock_guard lock(engine_.mutex_);
      std::erase(engine_.transfers_, this);
    }
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    void Send(int to, size_t offset, size_t bytes) {
      in_->send(to, slot_, offset, bytes);
      ++sends_;
    }
    void Receive(int from, size_t offset, size_t bytes) {
      out_->recv(from, slot_, offset, bytes);
      ++receives_;
    }
    void Wait() {
      for (; receives_ > 0; --receives_) Require(out_->waitRecv(kNoLimit));
      for (; sends_ > 0; --sends_) Require(in_->waitSend(kNoLimit));
    }
    void Abort() {
      in_->abortWaitSend();
      out_->abortWaitRecv();
    }

   private:
    static void Require(bool done) {
      if (!done) throw std::runtime_error("given up");
    }

    GlooEngine& engine_;
    const uint64_t slot_;
    std::unique_ptr<gloo::transport::UnboundBuffer> in_, out_;
    int sends_ = 0, receives_ = 0;
  };

  std::shared_ptr<gloo::rendezvous::Context> context_;
  const int rank_, size_;
  std::mutex mutex_;
  std::vector<Transfer*> transfers_;  // under way
  bool closed_ = false;
};

/// Gloo writes to sockets that the other side may have closed: that is to be an error of the call.
void IgnoreBrokenPipes() {
  struct sigaction present;
  const bool is_default = sigaction(SIGPIPE, nullptr, &present) == 0 &&
                          (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == SIG_DFL;
  if (is_default) signal(SIGPIPE, SIG_IGN);
}

std::unique_ptr<Engine> Connect(const EngineSpec& spec) {
  IgnoreBrokenPipes();
  return std::make_unique<GlooEngine>(spec);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const HammockEngineTableV1* HammockEngineTable() {
  static constexpr HammockEngineTableV1 kTable = {HAMMOCK_ENGINE_ABI, Connect};
  return &kTable;
}
