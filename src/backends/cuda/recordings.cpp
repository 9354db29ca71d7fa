#include "backends/cuda/recordings.h"

#include <algorithm>

#include "hammock/metrics.h"

namespace hammock::cuda {

Recordings::Entry& Recordings::EntryOf(std::vector<Address> addresses) {
  auto known = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& entry) { return entry.addresses == addresses; });
  if (known != entries_.end()) return *known;
  if (entries_.size() < kKept) {
    entries_.emplace_back();
    known = std::prev(entries_.end());
  } else {
    known = std::min_element(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return a.last_use < b.last_use;
    });
  }
  *known = Entry{std::move(addresses), nullptr, 0};
  return *known;
}

void Recordings::Run(Machine& machine, std::vector<Address> addresses,
                     const std::function<void()>& work) {
  std::shared_ptr<Recording> recording;
  {
    std::lock_guard lock(mutex_);
    Entry& entry = EntryOf(std::move(addresses));
    bool again = entry.last_use != 0;
    entry.last_use = ++uses_;
    if (again && !entry.recording) {
      static metrics::Counter& made = metrics::GetCounter("cuda::Recordings");
      made.Add();
      entry.recording = machine.Record(work);
    }
    recording = entry.recording;
  }
  if (recording) {
    machine.Replay(*recording);
  } else {
    work();
  }
}

}  // namespace hammock::cuda
