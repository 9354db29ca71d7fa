#pragma once
/// Bytes between the GPUs of several processes by NCCL, which is opened at run time. NCCL moves
/// them and never adds: sums are made by our own kernels, in the order of ranks, so that neither
/// its algorithms nor its protocols change a bit.

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/cuda/driver/driver.h"
#include "backends/cuda/driver/machine.h"

namespace hammock::cuda {

/// The library; option `cuda.nccl`.
std::vector<std::string> NcclFiles();
/// Empty if NCCL can be opened.
const std::string& WhyNoNccl();
/// Whether the option names a library.
bool NcclIsChosen();

/// One rank's connections to all ranks of a group. Calls enqueue work on a stream, as NCCL's do,
/// and are made by one thread at a time. Abort may be called by any thread. What goes wrong is
/// thrown as std::runtime_error.
class NcclCommunicator {
 public:
  /// Made by one rank and given to all.
  struct Id {
    char bytes[128];
  };
  static Id NewId();

  /// Connects; all ranks call it at the same time, with their device's context current. While NCCL
  /// waits for other ranks, here and later, `check_others` is called, and throws when one has
  /// ended.
  NcclCommunicator(const Id& id, int rank, int size, std::chrono::milliseconds timeout,
                   std::function<void()> check_others);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// A send to a rank or a receive from it.
  struct Message {
    enum class Kind { kSend, kReceive };
    Kind kind;
    Address at;
    size_t bytes;
    int rank;
  };
  /// Messages that are under way together.
  void Exchange(std::span<const Message> messages, CUstream stream);
  void AllGather(Address in, Address out, size_t bytes, CUstream stream);
  void Broadcast(Address in, Address out, size_t bytes, int root, CUstream stream);

  /// Throws if NCCL has noticed an error.
  void CheckHealth();
  /// Ends enqueued work, here at once.
  void Abort();

 private:
  using Handle = struct ncclComm*;
  /// Waits for a call that goes on in the background.
  using TimePoint = std::chrono::steady_clock::time_point;
  void Settle(int status, const char* what, TimePoint end = TimePoint::max());
  int Poll();
  /// Calls NCCL with the handle, unless it is aborted.
  template <class Fn>
  int Call(const Fn& call);

  const std::function<void()> check_others_;
  std::atomic<Handle> handle_{nullptr};
  std::atomic<bool> aborted_{false};
  std::mutex calls_;  // with the handle, which must not be gone meanwhile; they do not block
};

}  // namespace hammock::cuda
