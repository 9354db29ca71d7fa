#include "backends/cuda/command_order.h"

#include <algorithm>
#include <bitset>
#include <map>
#include <set>
#include <unordered_map>

namespace hammock::cuda {
namespace {

constexpr size_t kRemembered = 4096;  // how many commands back indirect dependencies are known

/// The last writer of each byte and its readers since.
class Memory {
 public:
  void Read(Bytes bytes, int command, std::set<int>& after) {
    ForEachPart(bytes, [&](Part& part) {
      if (part.writer >= 0) after.insert(part.writer);
      part.readers.push_back(command);
    });
  }
  void Write(Bytes bytes, int command, std::set<int>& after) {
    ForEachPart(bytes, [&](Part& part) {
      if (part.writer >= 0) after.insert(part.writer);
      after.insert(part.readers.begin(), part.readers.end());
    });
    // Merges the parts again: otherwise memory once written in small parts would stay divided.
    const uint64_t end = bytes.at + static_cast<uint64_t>(bytes.count);
    parts_.erase(parts_.lower_bound(bytes.at), parts_.lower_bound(end));
    parts_.emplace(bytes.at, Part{end, command});
  }

 private:
  struct Part {
    uint64_t end;
    int writer = -1;
    std::vector<int> readers = {};  // since
  };
  using Iterator = std::map<uint64_t, Part>::iterator;

  /// Splits the part that contains `at`, so that one begins there.
  void SplitAt(uint64_t at) {
    Iterator next = parts_.upper_bound(at);
    if (next == parts_.begin()) return;
    Iterator part = std::prev(next);
    if (part->first == at || part->second.end <= at) return;
    Part rest = part->second;
    part->second.end = at;
    parts_.emplace(at, std::move(rest));
  }

  template <class F>
  void ForEachPart(Bytes bytes, F f) {
    const uint64_t end = bytes.at + static_cast<uint64_t>(bytes.count);
    SplitAt(bytes.at);
    SplitAt(end);
    for (uint64_t at = bytes.at; at < end;) {
      Iterator part = parts_.lower_bound(at);
      if (part == parts_.end() || part->first > at) {
        uint64_t gap_end = part == parts_.end() ? end : std::min(end, part->first);
        part = parts_.emplace(at, Part{gap_end}).first;
      }
      f(part->second);
      at = part->second.end;
    }
  }

  std::map<uint64_t, Part> parts_;  // by their first byte
};

/// For each address, the index of the first equal one.
std::vector<int> FirstSame(const std::vector<uint64_t>& addresses) {
  std::unordered_map<uint64_t, int> indices;
  std::vector<int> first;
  first.reserve(addresses.size());
  for (uint64_t address : addresses) {
    int index = static_cast<int>(first.size());
    first.push_back(indices.emplace(address, index).first->second);
  }
  return first;
}

}  // namespace

CommandOrder OrderByMemory(const std::vector<TouchedMemory>& commands) {
  Memory memory;
  CommandOrder result;
  // Of the last kRemembered commands: bit k says that the command comes after the k-th before it.
  std::vector<std::bitset<kRemembered>> earlier(std::min(commands.size(), kRemembered));
  for (size_t i = 0; i < commands.size(); ++i) {
    std::set<int> after;
    for (Bytes bytes : commands[i].reads) memory.Read(bytes, static_cast<int>(i), after);
    for (Bytes bytes : commands[i].writes) memory.Write(bytes, static_cast<int>(i), after);
    after.erase(static_cast<int>(i));
    std::bitset<kRemembered> all;
    std::vector<int> needed;
    for (auto command = after.rbegin(); command != after.rend(); ++command) {
      const size_t back = i - static_cast<size_t>(*command) - 1;
      if (back < kRemembered && all[back]) continue;
      needed.push_back(*command);
      if (back >= kRemembered) continue;
      all[back] = true;
      all |= earlier[static_cast<size_t>(*command) % kRemembered] << (back + 1);
    }
    result.emplace_back(needed.rbegin(), needed.rend());
    earlier[i % kRemembered] = all;
  }
  return result;
}

std::shared_ptr<const CommandOrder> KnownOrders::Get(const std::vector<uint64_t>& addresses,
                                                     int kind,
                                                     const std::function<CommandOrder()>& make) {
  std::vector<int> same = FirstSame(addresses);
  same.push_back(kind);
  std::lock_guard lock(mutex_);
  std::shared_ptr<const CommandOrder>& order = orders_[std::move(same)];
  if (!order) order = std::make_shared<const CommandOrder>(make());
  return order;
}

}  // namespace hammock::cuda
