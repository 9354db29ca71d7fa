/// MPI: bytes between ranks, for clusters whose fast network is MPI's.
///
/// Note [Faults under MPI]: MPI tells nobody that a rank has died, a call that is given up cannot
/// be taken back, and a process that calls MPI afterwards may crash. So calls are sends and
/// receives that are polled; when one is given up, of whatever group, this process never calls MPI
/// again: there are no survivors' groups, and MPI_Finalize is left out.

#include <mpi.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "distributed/engine_plugin.h"

namespace {

using hammock::distributed::Engine;
using hammock::distributed::EngineSpec;
using hammock::distributed::Store;
using Clock = std::chrono::steady_clock;

constexpr const char* kClosed = "mpi.closed";
constexpr size_t kMostBytes = size_t{1} << 30;  // of a message, whose count is an int
constexpr std::chrono::milliseconds kLook{20};  // at the store, whether the group has ended
// For messages of ranks that ended well, or are late in sending them. Less than those who ended
// first wait for reports (a second).
constexpr std::chrono::milliseconds kArriving{500};
constexpr int kMostTag = 0x0fffffff;
constexpr int kSpins = 2000;  // polls before the processor is left to others

std::atomic<bool> broken{false};

void Check(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw std::runtime_error(std::string("MPI: ") + what + ": " + text);
}

void Finish() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!broken && !finalized) MPI_Finalize();
}

void Initialize() {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (broken) {
    throw std::runtime_error(
        "MPI cannot be used after a rank has failed; write a checkpoint and start anew, or choose "
        "the engine gloo");
  }
  int initialized = 0, threads = MPI_THREAD_SINGLE;
  MPI_Initialized(&initialized);
  if (initialized) {
    Check(MPI_Query_thread(&threads), "threads");
  } else {
    Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads), "init");
    std::atexit(Finish);
  }
  if (threads != MPI_THREAD_MULTIPLE) {
    throw std::runtime_error("MPI: several threads must be allowed to call it at once");
  }
  int* most = nullptr;
  int known = 0;
  Check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &known), "tags");
  if (!known || *most < kMostTag) {
    throw std::runtime_error("MPI: it has no tags of 28 bits");
  }
}

/// The ranks that the members of a group have in MPI_COMM_WORLD.
std::vector<int> WorldRanks(const EngineSpec& spec) {
  int own = 0;
  Check(MPI_Comm_rank(MPI_COMM_WORLD, &own), "the rank");
  auto key = [](int rank) { return "mpi." + std::to_string(rank); };
  spec.store->Set(key(spec.rank), std::to_string(own));
  const auto end = Clock::now() + spec.timeout;
  std::vector<int> ranks;
  while (static_cast<int>(ranks.size()) < spec.size) {
    if (auto found = spec.store->Get(key(static_cast<int>(ranks.size())))) {
      ranks.push_back(std::stoi(*found));
      continue;
    }
    if (Clock::now() > end) {
      throw std::runtime_error("rank " + std::to_string(ranks.size()) + " did not come to MPI");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ranks;
}

class MpiEngine : public Engine {
 public:
  explicit MpiEngine(const EngineSpec& spec)
      : store_(*spec.store), rank_(spec.rank), size_(spec.size) {
    Initialize();
    const std::vector<int> ranks = WorldRanks(spec);
    MPI_Group world, group;
    Check(MPI_Comm_group(MPI_COMM_WORLD, &world), "the world");
    const int status = MPI_Group_incl(world, size_, ranks.data(), &group);
    MPI_Group_free(&world);
    Check(status, "a group; mpirun must have started all of its ranks");
    for (MPI_Comm& part : comms_) {
      Check(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &part), "a communicator");
      Check(MPI_Comm_set_errhandler(part, MPI_ERRORS_RETURN), "errors");
    }
    MPI_Group_free(&group);
  }

  void AllGather(const void* in, void* out, size_t bytes, uint32_t tag) override {
    if (char* own = Part(out, rank_, bytes); own != in) std::memcpy(own, in, bytes);
    Transfer transfer(*this, tag);
    for (int i = 1; i < size_; ++i) {
      const int to = (rank_ + i) % size_, from = (rank_ + size_ - i) % size_;
      transfer.Receive(Part(out, from, bytes), from, bytes);
      transfer.Send(in, to, bytes);
    }
    transfer.Wait();
  }

  void AllToAll(const void* in, void* out, size_t bytes, uint32_t tag) override {
    void* sent = const_cast<void*>(in);
    Transfer transfer(*this, tag);
    for (int i = 1; i < size_; ++i) {
      const int to = (rank_ + i) % size_, from = (rank_ + size_ - i) % size_;
      transfer.Receive(Part(out, from, bytes), from, bytes);
      transfer.Send(Part(sent, to, bytes), to, bytes);
    }
    transfer.Wait();
  }

  void Broadcast(void* data, size_t bytes, int root, uint32_t tag) override {
    const int own = (rank_ + size_ - root) % size_;  // counted from the root
    int reach = 1;
    while (reach < size_ && (own & reach) == 0) reach *= 2;
    if (own != 0) {
      Transfer transfer(*this, tag);
      transfer.Receive(data, (own - reach + root) % size_, bytes);
      transfer.Wait();
    }
    Transfer transfer(*this, tag);
    for (reach /= 2; reach > 0; reach /= 2) {
      if (own + reach < size_) transfer.Send(data, (own + reach + root) % size_, bytes);
    }
    transfer.Wait();
  }

  void Permute(const void* in, int to, void* out, int from, size_t bytes, uint32_t tag) override {
    Transfer transfer(*this, tag);
    if (from >= 0) transfer.Receive(out, from, bytes);
    if (to >= 0) transfer.Send(in, to, bytes);
    transfer.Wait();
  }

  /// MPI wakes nobody: the other ranks read in the store that the group has ended.
  void Close() override {
    if (closed_.exchange(true)) return;
    try {
      store_.Set(kClosed, "yes");
    } catch (const std::exception&) {  // then the others wait until their time limit
    }
  }

 private:
  static char* Part(void* bytes, int index, size_t size) {
    return static_cast<char*>(bytes) + static_cast<size_t>(index) * size;
  }

  /// Sends and receives that are waited for together.
  class Transfer {
   public:
    // Tags have 28 bits; the bit above chooses between two communicators.
    Transfer(MpiEngine& engine, uint32_t tag)
        : engine_(engine),
          comm_(engine.comms_[tag >> 28 & 1]),
          tag_(static_cast<int>(tag & kMostTag)) {
      engine_.RefuseIfClosed();
    }
    /// Messages that were not waited for to their end may still be written by MPI.
    ~Transfer() {
      if (!requests_.empty()) broken = true;
    }
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    void Send(const void* data, int to, size_t bytes) {
      for (size_t begin = 0; begin < bytes; begin += kMostBytes) {
        const char* at = static_cast<const char*>(data) + begin;
        Check(MPI_Isend(at, CountOf(bytes - begin), MPI_BYTE, to, tag_, comm_, New()), "a send");
      }
    }
    void Receive(void* data, int from, size_t bytes) {
      for (size_t begin = 0; begin < bytes; begin += kMostBytes) {
        char* at = static_cast<char*>(data) + begin;
        Check(MPI_Irecv(at, CountOf(bytes - begin), MPI_BYTE, from, tag_, comm_, New()),
              "a receive");
      }
    }
    void Wait() {
      auto look = Clock::now();
      auto end = Clock::time_point::max();
      for (int spins = 0;; ++spins) {
        int done = 0;
        Check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done,
                          MPI_STATUSES_IGNORE),
              "messages");
        if (done) return requests_.clear();
        engine_.RefuseIfClosed();
        if (spins < kSpins) continue;
        sched_yield();
        if (Clock::now() < look) continue;
        look = Clock::now() + kLook;
        if (Clock::now() > end) GiveUp();
        // Messages that a rank had sent before it left still arrive.
        if (end == Clock::time_point::max() && engine_.store_.Get(kClosed)) {
          end = Clock::now() + kArriving;
        }
      }
    }

   private:
    static int CountOf(size_t bytes) { return static_cast<int>(std::min(bytes, kMostBytes)); }
    MPI_Request* New() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

    MpiEngine& engine_;
    const MPI_Comm comm_;
    const int tag_;
    std::vector<MPI_Request> requests_;
  };

  void RefuseIfClosed() {
    if (closed_ || broken) GiveUp();
  }
  [[noreturn]] static void GiveUp() {
    broken = true;
    throw std::runtime_error("the connections are closed");
  }

  Store& store_;
  const int rank_, size_;
  MPI_Comm comms_[2];
  std::atomic<bool> closed_{false};
};

std::unique_ptr<Engine> Connect(const EngineSpec& spec) {
  return std::make_unique<MpiEngine>(spec);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] const HammockEngineTableV1* HammockEngineTable() {
  static constexpr HammockEngineTableV1 kTable = {HAMMOCK_ENGINE_ABI, Connect};
  return &kTable;
}
