#pragma once
/// What steps must wait for, by the memory that they touch.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace hammock::cuda {

struct Bytes {
  uint64_t at = 0;
  int64_t count = 0;
};

struct TouchedMemory {
  std::vector<Bytes> reads;
  std::vector<Bytes> writes;
};

/// For each step the earlier ones that it comes after: those that wrote what it touches, and those
/// that read what it writes; without those that another one of them comes after, as far as the last
/// few thousand steps tell.
using StepOrder = std::vector<std::vector<int>>;
StepOrder OrderByMemory(const std::vector<TouchedMemory>& steps);

/// Orders of one program's steps by which of its addresses are the same: nothing else of them
/// matters, since blocks of memory are the same or have nothing in common. `kind` tells orders of
/// other steps apart. Thread-safe.
class KnownOrders {
 public:
  std::shared_ptr<const StepOrder> Get(const std::vector<uint64_t>& addresses, int kind,
                                       const std::function<StepOrder()>& make);

 private:
  std::mutex mutex_;
  std::map<std::vector<int>, std::shared_ptr<const StepOrder>> orders_;
};

}  // namespace hammock::cuda
