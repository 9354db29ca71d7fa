#include "runtime/disk_cache.h"

#include <fmt/format.h>

#include "base/file_cache.h"
#include "base/log.h"
#include "hammock/config.h"
#include "hammock/metrics.h"
#include "runtime/code_settings.h"
#include "runtime/executor.h"

namespace hammock {

namespace {

std::string KindOf(const DeviceEntry& device) { return device.type + "-computation"; }

/// The graph by its hash only: it is in the value, and compared there. Options by name and value.
std::string KeyOf(const DeviceEntry& device, const lazy::Computation& computation) {
  std::string key = device.backend->Fingerprint(device.device);
  key += "\n" + ToString(computation.graph().hash()) + "\n" + CodeOptionLines();
  for (const std::string& name : computation.devices) key += name + "\n";
  return key;
}

/// Whatever a backend throws here costs no more than a compilation.
void WarnOfCurrent(const DeviceEntry& device) {
  LogOnce("disk cache:" + device.type, LogLevel::kWarn, "cache_dir: {}",
          CurrentError(ErrorCode::kCompile, "a computation of " + device.type)->what());
}

}  // namespace

lazy::ComputationPtr LoadComputation(DeviceEntry& device, const lazy::Computation& wanted) {
  FileCache* cache = FileCache::OfConfig();
  if (!cache) return nullptr;
  static metrics::Counter& hits = metrics::GetCounter("DiskCacheHits");
  try {
    auto bytes = cache->Load(KindOf(device), KeyOf(device, wanted));
    if (!bytes) return nullptr;
    if (device.backend->CheckCompatibility(*bytes, device.device) !=
        lazy::Compatibility::kOptimal) {
      return nullptr;
    }
    lazy::ComputationPtr loaded = device.backend->DeserializeComputation(*bytes, device.device);
    if (!loaded || loaded->graph() != wanted.graph()) return nullptr;
    loaded->aliases = wanted.aliases;
    loaded->devices = wanted.devices;
    loaded->in_mark_step = wanted.in_mark_step;
    hits.Add();
    return loaded;
  } catch (...) {
    WarnOfCurrent(device);
    return nullptr;
  }
}

void SaveComputation(DeviceEntry& device, const lazy::ComputationPtr& computation) {
  FileCache* cache = FileCache::OfConfig();
  if (!cache) return;
  static metrics::Counter& writes = metrics::GetCounter("DiskCacheWrites");
  try {
    std::string bytes = device.backend->SerializeComputation(computation);
    if (cache->Save(KindOf(device), KeyOf(device, *computation), bytes,
                    config::Get<config::kCacheDirBytes>())) {
      writes.Add();
    }
  } catch (...) {
    WarnOfCurrent(device);
  }
}

}  // namespace hammock
