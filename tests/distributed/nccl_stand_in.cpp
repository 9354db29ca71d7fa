// A library with NCCL's symbols whose "devices" are the memory of the host, so that ranks with
// emulated GPUs go all the way. Messages go through shared memory, a ring buffer for each pair of
// ranks. Work happens while ncclCommGetAsyncError is polled, as with NCCL's communicators that do
// not block, so a call that is under way can be aborted.
//
// NCCL_STAND_IN=refuse: ranks cannot be connected, as several on one card. =kill: the process dies
// in the middle of the next exchange.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace {

enum Status { kSuccess = 0, kSystemError = 2, kInvalidUsage = 5, kInProgress = 7 };

constexpr size_t kMostRanks = 4;
constexpr uint64_t kRing = 1 << 16;

struct Channel {
  std::atomic<uint64_t> written, read;
  char bytes[kRing];
};
struct Shared {
  std::atomic<int> joined;
  Channel channels[kMostRanks][kMostRanks];  // from, to
};

bool IsAsked(const char* what) {
  const char* asked = std::getenv("NCCL_STAND_IN");
  return asked && std::string(asked) == what;
}

struct Transfer {
  Channel* channel;
  char* at;
  uint64_t bytes;
  bool sends;

  /// Moves what can be moved now; whether anything is left.
  bool Progress() {
    const uint64_t written = channel->written, read = channel->read;
    const uint64_t at_ring = (sends ? written : read) % kRing;
    const uint64_t possible = sends ? kRing - (written - read) : written - read;
    const uint64_t count = std::min({bytes, possible, kRing - at_ring});
    if (sends) {
      std::memcpy(channel->bytes + at_ring, at, count);
      channel->written += count;
    } else {
      std::memcpy(at, channel->bytes + at_ring, count);
      channel->read += count;
    }
    at += count;
    bytes -= count;
    return bytes > 0;
  }
};

}  // namespace

struct ncclComm {
  Shared* shared = nullptr;
  int rank = 0, size = 0;
  std::string name;
  bool connected = false;
  std::vector<Transfer> transfers;  // under way, in the order of the calls

  void Add(const void* at, size_t bytes, int other, bool sends) {
    Channel& channel = sends ? shared->channels[rank][other] : shared->channels[other][rank];
    transfers.push_back({&channel, static_cast<char*>(const_cast<void*>(at)), bytes, sends});
  }
  int Progress() {
    if (!connected) {
      connected = shared->joined == size;
      if (connected && rank == 0) shm_unlink(name.c_str());
      return connected ? kSuccess : kInProgress;
    }
    std::vector<Channel*> busy;  // transfers of a channel come one after another
    std::erase_if(transfers, [&](Transfer& transfer) {
      if (std::ranges::count(busy, transfer.channel)) return false;
      if (!transfer.Progress()) return true;
      busy.push_back(transfer.channel);
      return false;
    });
    return transfers.empty() ? kSuccess : kInProgress;
  }
};

namespace {

thread_local int groups = 0;

int End() {
  if (IsAsked("kill")) raise(SIGKILL);
  return groups > 0 ? kSuccess : kInProgress;
}

}  // namespace

extern "C" {

struct ncclUniqueId {
  char internal[128];
};

int ncclGetVersion(int* version) {
  *version = 21400;
  return kSuccess;
}
const char* ncclGetErrorString(int status) {
  return status == kInvalidUsage ? "invalid usage" : "unhandled system error";
}
const char* ncclGetLastError(ncclComm*) { return "Duplicate GPU detected"; }

int ncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> count = 0;
  std::snprintf(id->internal, sizeof(id->internal), "/hammock-nccl-%d-%d", getpid(), count++);
  const int file = shm_open(id->internal, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) return kSystemError;
  const int status = ftruncate(file, sizeof(Shared)) == 0 ? kSuccess : kSystemError;
  close(file);
  return status;
}

int ncclCommInitRankConfig(ncclComm** comm, int size, ncclUniqueId id, int rank, void*) {
  const int file = shm_open(id.internal, O_RDWR, 0600);
  if (file < 0 || size > static_cast<int>(kMostRanks)) return kSystemError;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  *comm = new ncclComm{static_cast<Shared*>(memory), rank, size, id.internal, false, {}};
  (*comm)->shared->joined++;
  return IsAsked("refuse") ? kInvalidUsage : kInProgress;
}

int ncclCommGetAsyncError(ncclComm* comm, int* status) {
  *status = comm->Progress();
  if (*status == kInProgress) usleep(20);
  return kSuccess;
}

int ncclCommAbort(ncclComm* comm) {
  if (!comm->connected) shm_unlink(comm->name.c_str());
  munmap(comm->shared, sizeof(Shared));
  delete comm;
  return kSuccess;
}

int ncclGroupStart() {
  ++groups;
  return kSuccess;
}
int ncclGroupEnd() {
  --groups;
  return End();
}

int ncclSend(const void* data, size_t count, int, int rank, ncclComm* comm, void*) {
  comm->Add(data, count, rank, true);
  return End();
}
int ncclRecv(void* data, size_t count, int, int rank, ncclComm* comm, void*) {
  comm->Add(data, count, rank, false);
  return End();
}
int ncclAllGather(const void* in, void* out, size_t count, int, ncclComm* comm, void*) {
  for (int rank = 0; rank < comm->size; ++rank) {
    char* to = static_cast<char*>(out) + static_cast<size_t>(rank) * count;
    if (rank == comm->rank) {
      if (to != in) std::memcpy(to, in, count);
    } else {
      comm->Add(in, count, rank, true);
      comm->Add(to, count, rank, false);
    }
  }
  return End();
}
int ncclBroadcast(const void* in, void* out, size_t count, int, int root, ncclComm* comm, void*) {
  if (comm->rank != root) {
    comm->Add(out, count, root, false);
    return End();
  }
  if (in != out) std::memcpy(out, in, count);
  for (int rank = 0; rank < comm->size; ++rank) {
    if (rank != root) comm->Add(in, count, rank, true);
  }
  return End();
}

}  // extern "C"
