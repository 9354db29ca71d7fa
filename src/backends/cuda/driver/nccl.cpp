#include "backends/cuda/driver/nccl.h"

#include <fmt/format.h>

#include <stdexcept>
#include <thread>

#include "base/library.h"
#include "base/never_destroyed.h"
#include "hammock/config.h"

namespace hammock::cuda {
namespace {

constinit config::Option<std::string> kFile({
    .name = "cuda.nccl",
    .default_value = "",
    .doc = "File of NCCL, by which the GPUs of several ranks exchange values; empty: "
           "`libnccl.so.2` where the system finds it. Read when it is first needed.",
});

using Handle = struct ncclComm*;
using Id = NcclCommunicator::Id;

// Numbers of the library's interface.
constexpr int kSuccess = 0, kInProgress = 7;
constexpr int kBytes = 1;  // ncclUint8

/// The part of ncclConfig_t that its version says is there.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int unused = 0;
};

struct Functions {
  int (*get_unique_id)(Id*);
  int (*init)(Handle*, int size, Id, int rank, Config*);
  int (*async_error)(Handle, int*);
  int (*abort)(Handle);
  const char* (*error_string)(int);
  const char* (*last_error)(Handle);
  int (*group_start)();
  int (*group_end)();
  int (*send)(const void*, size_t, int type, int rank, Handle, CUstream);
  int (*receive)(void*, size_t, int type, int rank, Handle, CUstream);
  int (*all_gather)(const void*, void*, size_t, int type, Handle, CUstream);
  int (*broadcast)(const void*, void*, size_t, int type, int root, Handle, CUstream);
  std::string why_absent;
};

Functions LoadFunctions() {
  Functions f;
  Library library(NcclFiles());
  library.Find("ncclGetUniqueId", f.get_unique_id);
  library.Find("ncclCommInitRankConfig", f.init);
  library.Find("ncclCommGetAsyncError", f.async_error);
  library.Find("ncclCommAbort", f.abort);
  library.Find("ncclGetErrorString", f.error_string);
  library.Find("ncclGetLastError", f.last_error);
  library.Find("ncclGroupStart", f.group_start);
  library.Find("ncclGroupEnd", f.group_end);
  library.Find("ncclSend", f.send);
  library.Find("ncclRecv", f.receive);
  library.Find("ncclAllGather", f.all_gather);
  library.Find("ncclBroadcast", f.broadcast);
  f.why_absent = library.why_absent();
  return f;
}

const Functions& TheFunctions() {
  static const auto& functions = NeverDestroyed<Functions>(LoadFunctions());
  return functions;
}

void Check(int status, const char* what) {
  if (status == kSuccess || status == kInProgress) return;
  const Functions& f = TheFunctions();
  const char* detail = f.last_error(nullptr);  // of any communicator; this one may be gone
  throw std::runtime_error(fmt::format("NCCL: {}: {}{}{}", what, f.error_string(status),
                                       detail && *detail ? ": " : "", detail ? detail : ""));
}

void* At(Address address) { return reinterpret_cast<void*>(address); }

}  // namespace

std::vector<std::string> NcclFiles() {
  const std::string& file = config::Get<kFile>();
  if (!file.empty()) return {file};
  return {"libnccl.so.2", "libnccl.so"};
}

bool NcclIsChosen() { return !config::Get<kFile>().empty(); }

const std::string& WhyNoNccl() { return TheFunctions().why_absent; }

Id NcclCommunicator::NewId() {
  Id id;
  Check(TheFunctions().get_unique_id(&id), "an id");
  return id;
}

NcclCommunicator::NcclCommunicator(const Id& id, int rank, int size,
                                   std::chrono::milliseconds timeout,
                                   std::function<void()> check_others)
    : check_others_(std::move(check_others)) {
  Config config;
  Handle handle = nullptr;
  const int status = TheFunctions().init(&handle, size, id, rank, &config);
  handle_ = handle;
  try {
    Settle(status, "connecting", std::chrono::steady_clock::now() + timeout);
  } catch (...) {
    Abort();
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() { Abort(); }

template <class Fn>
int NcclCommunicator::Call(const Fn& call) {
  std::lock_guard lock(calls_);
  if (aborted_) throw std::runtime_error("NCCL: aborted");
  return call(handle_.load());
}

int NcclCommunicator::Poll() {
  return Call([](Handle handle) {
    int status = kSuccess;
    TheFunctions().async_error(handle, &status);
    return status;
  });
}

// The communicator does not block, so that a rank which waits for others can be aborted.
void NcclCommunicator::Settle(int status, const char* what, TimePoint end) {
  constexpr auto kBetweenChecks = std::chrono::milliseconds(50);  // of others, which reads files
  TimePoint next_check = std::chrono::steady_clock::now() + kBetweenChecks;
  while (status == kInProgress) {
    const TimePoint now = std::chrono::steady_clock::now();
    if (now > next_check) {
      check_others_();
      next_check = now + kBetweenChecks;
    }
    if (now > end) {
      throw std::runtime_error(fmt::format("NCCL: {}: other ranks did not come", what));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    status = Poll();
  }
  if (aborted_) throw std::runtime_error("NCCL: aborted");
  Check(status, what);
}

void NcclCommunicator::Exchange(std::span<const Message> messages, CUstream stream) {
  const Functions& f = TheFunctions();
  int status = kSuccess;
  const int ended = Call([&](Handle handle) {
    Check(f.group_start(), "a group");
    for (const Message& message : messages) {
      if (message.bytes == 0 || (status != kSuccess && status != kInProgress)) continue;
      status = message.kind == Message::Kind::kSend
                   ? f.send(At(message.at), message.bytes, kBytes, message.rank, handle, stream)
                   : f.receive(At(message.at), message.bytes, kBytes, message.rank, handle, stream);
    }
    return f.group_end();  // also after an error: groups are those of the thread
  });
  Check(status, "a message");
  Settle(ended, "messages");
}

void NcclCommunicator::AllGather(Address in, Address out, size_t bytes, CUstream stream) {
  const int status = Call([&](Handle handle) {
    return TheFunctions().all_gather(At(in), At(out), bytes, kBytes, handle, stream);
  });
  Settle(status, "an all-gather");
}

void NcclCommunicator::Broadcast(Address in, Address out, size_t bytes, int root, CUstream stream) {
  const int status = Call([&](Handle handle) {
    return TheFunctions().broadcast(At(in), At(out), bytes, kBytes, root, handle, stream);
  });
  Settle(status, "a broadcast");
}

void NcclCommunicator::CheckHealth() { Check(Poll(), "work on the device"); }

void NcclCommunicator::Abort() {
  if (aborted_.exchange(true)) return;
  std::lock_guard lock(calls_);
  if (handle_) TheFunctions().abort(handle_);
}

}  // namespace hammock::cuda
