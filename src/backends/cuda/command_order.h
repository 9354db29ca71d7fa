#pragma once
/// The dependencies between commands that follow from the memory they read and write.

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

/// For each command the earlier ones that it must come after: writers of memory that it reads or
/// writes, and readers of memory that it writes. Commands that follow from another entry of the
/// list are left out, if they are among the last few thousand.
using CommandOrder = std::vector<std::vector<int>>;
CommandOrder OrderByMemory(const std::vector<TouchedMemory>& commands);

/// A cache of the orders of one program's commands. The key is which of the run's addresses are
/// equal to each other: the order depends on nothing else, since two blocks of memory are equal or
/// disjoint. `kind` distinguishes runs with different commands. Thread-safe.
class KnownOrders {
 public:
  std::shared_ptr<const CommandOrder> Get(const std::vector<uint64_t>& addresses, int kind,
                                          const std::function<CommandOrder()>& make);

 private:
  std::mutex mutex_;
  std::map<std::vector<int>, std::shared_ptr<const CommandOrder>> orders_;
};

}  // namespace hammock::cuda
