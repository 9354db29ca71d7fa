#include "lazy/disk_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/log.h"
#include "hammock/config.h"
#include "hammock/metrics.h"

namespace hammock {

namespace {

namespace fs = std::filesystem;

/// A file is the checksum of what follows, as text, and the backend's bytes.
constexpr size_t kChecksum = 32;

fs::path PathOf(const DeviceEntry& device, const lazy::Computation& computation) {
  Hash128 hash = HashString(device.backend->Fingerprint(device.device));
  hash = Combine(hash, computation.graph().hash());
  for (const std::string& name : computation.devices) hash = Combine(hash, HashString(name));
  return fs::path(config::Get<config::kCacheDir>()) /
         fmt::format("{}-{}.computation", device.type, ToString(hash));
}

void Warn(const fs::path& path, const char* what) {
  LogOnce("disk cache:" + path.parent_path().string(), LogLevel::kWarn, "cache_dir: {}: {}",
          path.string(), what);
}

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

lazy::ComputationPtr LoadComputation(DeviceEntry& device, const lazy::Computation& wanted) {
  if (config::Get<config::kCacheDir>().empty()) return nullptr;
  static metrics::Counter& hits = metrics::GetCounter("DiskCacheHits");
  fs::path path = PathOf(device, wanted);
  std::error_code none;
  if (!fs::exists(path, none)) return nullptr;
  try {
    std::string file = ReadAll(path);
    std::string_view bytes = std::string_view(file).substr(std::min(kChecksum, file.size()));
    if (file.size() < kChecksum || ToString(HashString(bytes)) != file.substr(0, kChecksum)) {
      Warn(path, "damaged, compiled again");
      return nullptr;
    }
    if (device.backend->CheckCompatibility(bytes, device.device) != lazy::Compatibility::kOptimal) {
      return nullptr;
    }
    lazy::ComputationPtr loaded = device.backend->DeserializeComputation(bytes, device.device);
    if (!loaded || loaded->graph() != wanted.graph()) return nullptr;
    loaded->aliases = wanted.aliases;
    loaded->devices = wanted.devices;
    loaded->in_mark_step = wanted.in_mark_step;
    hits.Add();
    return loaded;
  } catch (const std::exception& error) {
    Warn(path, error.what());
    return nullptr;
  }
}

// Written beside its place and then renamed, so that no process ever reads a part of it.
void SaveComputation(DeviceEntry& device, const lazy::ComputationPtr& computation) {
  if (config::Get<config::kCacheDir>().empty()) return;
  static metrics::Counter& writes = metrics::GetCounter("DiskCacheWrites");
  static std::atomic<uint64_t> number{0};
  fs::path path = PathOf(device, *computation);
  try {
    std::string bytes = device.backend->SerializeComputation(computation);
    fs::create_directories(path.parent_path());
    fs::path part = path;
    part += fmt::format(".{}.{}", getpid(), number.fetch_add(1));
    {
      std::ofstream file(part, std::ios::binary);
      file << ToString(HashString(bytes)) << bytes;
      if (!file.flush()) {
        Warn(path, "cannot be written");
        return;
      }
    }
    fs::rename(part, path);
    writes.Add();
  } catch (const std::exception& error) {
    Warn(path, error.what());
  }
}

}  // namespace hammock
