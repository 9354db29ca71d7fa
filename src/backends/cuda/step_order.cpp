#include "backends/cuda/step_order.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace hammock::cuda {
namespace {

/// Who touched which bytes last.
class Memory {
 public:
  void Read(Bytes bytes, int step, std::set<int>& after) {
    ForEachPart(bytes, [&](Part& part) {
      if (part.writer >= 0) after.insert(part.writer);
      part.readers.push_back(step);
    });
  }
  void Write(Bytes bytes, int step, std::set<int>& after) {
    ForEachPart(bytes, [&](Part& part) {
      if (part.writer >= 0) after.insert(part.writer);
      after.insert(part.readers.begin(), part.readers.end());
      part = {part.end, step, {}};
    });
  }

 private:
  struct Part {
    uint64_t end;
    int writer = -1;
    std::vector<int> readers = {};  // since
  };
  using Place = std::map<uint64_t, Part>::iterator;

  /// A part begins at `at`, if one has it.
  void Cut(uint64_t at) {
    Place next = parts_.upper_bound(at);
    if (next == parts_.begin()) return;
    Place part = std::prev(next);
    if (part->first == at || part->second.end <= at) return;
    Part rest = part->second;
    part->second.end = at;
    parts_.emplace(at, std::move(rest));
  }

  template <class F>
  void ForEachPart(Bytes bytes, F f) {
    const uint64_t end = bytes.at + static_cast<uint64_t>(bytes.count);
    Cut(bytes.at);
    Cut(end);
    for (uint64_t at = bytes.at; at < end;) {
      Place part = parts_.lower_bound(at);
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

/// For each address the place of the first that is the same.
std::vector<int> FirstSame(const std::vector<uint64_t>& addresses) {
  std::unordered_map<uint64_t, int> places;
  std::vector<int> first;
  first.reserve(addresses.size());
  for (uint64_t address : addresses) {
    int place = static_cast<int>(first.size());
    first.push_back(places.emplace(address, place).first->second);
  }
  return first;
}

}  // namespace

StepOrder OrderByMemory(const std::vector<TouchedMemory>& steps) {
  Memory memory;
  StepOrder result;
  std::vector<std::vector<bool>> earlier;  // by step: all that it comes after
  for (size_t i = 0; i < steps.size(); ++i) {
    std::set<int> after;
    for (Bytes bytes : steps[i].reads) memory.Read(bytes, static_cast<int>(i), after);
    for (Bytes bytes : steps[i].writes) memory.Write(bytes, static_cast<int>(i), after);
    after.erase(static_cast<int>(i));
    std::vector<bool> all(i);
    std::vector<int> needed;
    for (auto step = after.rbegin(); step != after.rend(); ++step) {
      const size_t s = static_cast<size_t>(*step);
      if (all[s]) continue;
      needed.push_back(*step);
      all[s] = true;
      for (size_t k = 0; k < s; ++k) all[k] = all[k] || earlier[s][k];
    }
    result.emplace_back(needed.rbegin(), needed.rend());
    earlier.push_back(std::move(all));
  }
  return result;
}

std::shared_ptr<const StepOrder> KnownOrders::Get(const std::vector<uint64_t>& addresses,
                                                  const std::function<StepOrder()>& make) {
  std::vector<int> same = FirstSame(addresses);
  std::lock_guard lock(mutex_);
  std::shared_ptr<const StepOrder>& order = orders_[std::move(same)];
  if (!order) order = std::make_shared<const StepOrder>(make());
  return order;
}

}  // namespace hammock::cuda
