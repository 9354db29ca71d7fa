#include "backends/cuda/driver/recordings.h"

#include <algorithm>
#include <utility>

#include "hammock/metrics.h"

namespace hammock::cuda {

Recordings::Entry* Recordings::OfStream::Find(const std::vector<Address>& addresses) {
  auto known = std::find_if(entries.begin(), entries.end(),
                            [&](const Entry& entry) { return entry.addresses == addresses; });
  return known == entries.end() ? nullptr : &*known;
}

std::shared_ptr<Recording> Recordings::OfStream::TakeOld(Entry& oldest) {
  if (oldest.recording) return std::move(oldest.recording);
  // Addresses that came once and were recorded at once, since others had not come again either.
  Entry* once = nullptr;
  for (Entry& entry : entries) {
    if (!entry.recording || entry.uses > 1) continue;
    if (!once || entry.last_use < once->last_use) once = &entry;
  }
  return once ? std::move(once->recording) : nullptr;
}

bool Recordings::Replay(Machine& machine, Entry& entry, const Work& work,
                        std::shared_ptr<Recording> old) {
  if (!entry.recording) {
    static metrics::Counter& made = metrics::GetCounter("cuda::Recordings");
    static metrics::Counter& changed = metrics::GetCounter("cuda::RecordingsChanged");
    std::vector<Piece> pieces = work.pieces();
    if (old && machine.Update(*old, pieces)) {
      changed.Add();
      entry.recording = std::move(old);
    } else {
      made.Add();
      entry.recording = machine.Record(pieces);
    }
  }
  if (!entry.recording) return false;
  machine.Replay(*entry.recording);
  return true;
}

void Recordings::Run(Machine& machine, std::vector<Address> addresses, const Work& work) {
  {
    OfStream& stream = streams_[static_cast<size_t>(machine.Stream())];
    // Until it was asked for: another thread may change a recording.
    std::lock_guard lock(stream.mutex);
    std::vector<Entry>& entries = stream.entries;
    std::shared_ptr<Recording> old;
    Entry* entry = stream.Find(addresses);
    bool records = entry != nullptr;
    if (!entry && entries.size() < kKept) {
      entry = &entries.emplace_back();
      entry->addresses = std::move(addresses);
    } else if (!entry) {
      entry = &*std::min_element(
          entries.begin(), entries.end(),
          [](const Entry& a, const Entry& b) { return a.last_use < b.last_use; });
      old = stream.TakeOld(*entry);
      *entry = {std::move(addresses), nullptr, 0, 0};
      records = true;
    }
    ++entry->uses;
    entry->last_use = ++stream.uses;
    if (records && Replay(machine, *entry, work, std::move(old))) return;
  }
  work.run();
}

}  // namespace hammock::cuda
