#include "jit/saved_computations.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/record_bytes.h"
#include "hammock/lazy/saved_computation.h"
#include "hammock/metric.h"
#include "runtime/devices/backend_calls.h"

namespace hammock::jit {
namespace {

constinit const metrics::DeclaredCounter kNativeCodeLoaded({
    .name = "NativeCodeLoaded",
    .doc = "Computations taken from an archive, without a compiler.",
});

constinit const metrics::DeclaredCounter kNativeCodeRefused({
    .name = "NativeCodeRefused",
    .doc = "Sections of native code in archives that were made for another device or version, or "
           "are damaged; their graphs are compiled anew.",
});

constexpr std::string_view kSection = "native/";

constinit thread_local SavedComputations* current = nullptr;

void Refuse(const Archive& archive, const LoadOptions& options, const std::string& why) {
  metrics::Get<kNativeCodeRefused>().Add();
  if (options.require_native) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "{}: its native code cannot be used: {}",
                        archive.what(), why);
  }
  Log(LogLevel::kWarn, "{}: its native code is not used, graphs are compiled anew: {}",
      archive.what(), why);
}

std::string FingerprintOf(const DeviceEntry& device) {
  return CallBackend(device, "Fingerprint",
                     [&](auto& backend) { return backend.Fingerprint(device.device); });
}

}  // namespace

SavedComputations::SavedComputations() : outer_(std::exchange(current, this)) {}
SavedComputations::~SavedComputations() { current = outer_; }
SavedComputations* SavedComputations::Current() { return current; }

void SavedComputations::Note(DeviceEntry& device, lazy::ComputationPtr computation) {
  noted_[device.name()].push_back(std::move(computation));
}

lazy::ComputationPtr SavedComputations::Find(DeviceEntry& device, const Graph& graph) const {
  auto [first, last] = saved_.equal_range(graph.hash().lo);
  for (; first != last; ++first) {
    lazy::ComputationPtr found = Deserialize(device, first->second);
    if (!found || found->graph() != graph) continue;
    metrics::Get<kNativeCodeLoaded>().Add();
    return found;
  }
  if (required_by_.empty()) return nullptr;
  Throw<NotSupported>(ErrorCode::kNotSupported,
                      "{}: its native code cannot be used: it has none for a graph; options that "
                      "affect code must be as when it was compiled",
                      required_by_);
}

void SavedComputations::WriteTo(ArchiveWriter& archive) const {
  for (const auto& [name, computations] : noted_) {
    DeviceEntry& entry = EntryOf(Device(name).id());
    RecordWriter record;
    std::vector<std::string> saved;
    for (const lazy::ComputationPtr& computation : computations) {
      saved.push_back(CallBackend(
          entry, "SerializeComputation",
          [&](auto& backend) { return backend.SerializeComputation(computation); },
          ErrorCode::kCompile));
    }
    record(FingerprintOf(entry), saved);
    archive.Add(std::string(kSection) + entry.type, record.Take());
  }
}

void SavedComputations::ReadFrom(const Archive& archive, const LoadOptions& options) {
  if (!options.allow_native) return;
  bool any = false;
  for (const Archive::Section& section : archive.sections()) {
    if (!section.name.starts_with(kSection)) continue;
    any = true;
    try {
      ReadSection(archive, section);
    } catch (const Error& error) {
      Refuse(archive, options, error.what());
    }
  }
  if (!any) Refuse(archive, options, "it has none");
  if (options.require_native) required_by_ = archive.what();
}

void SavedComputations::ReadSection(const Archive& archive, const Archive::Section& section) {
  DeviceEntry& device = EntryOf(Device(section.name.substr(kSection.size())).id());
  RecordReader record(archive.what(), section.bytes);
  std::string made_for;
  record(made_for);
  const std::string here = FingerprintOf(device);
  if (made_for != here) {
    Throw(ErrorCode::kValue,
          "it was made for another device or version\n  made for: {}\n  this is:  {}", made_for,
          here);
  }
  std::vector<std::string> computations;
  record(computations);
  record.ExpectEnd();
  decltype(saved_) read;
  for (std::string& bytes : computations) {
    const uint64_t hash = lazy::SavedComputation::Parse(bytes).graph.hash().lo;
    read.emplace(hash, std::move(bytes));
  }
  saved_.merge(read);
}

}  // namespace hammock::jit
