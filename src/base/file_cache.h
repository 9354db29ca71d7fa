#pragma once
/// A cache in files that several processes share: bytes by key. Nothing here throws or waits for
/// another process. What cannot be read, is damaged or belongs to another key is as good as none
/// and is logged; a process that dies at any point leaves nothing that harms others.

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "hammock/metric.h"

namespace hammock {

inline constinit const metrics::DeclaredCounter kDiskCacheRefused({
    .name = "DiskCacheRefused",
    .doc = "Files of `cache_dir` that could not be used: damaged, of another build or device, or "
           "for other numbers.",
});

/// Thread-safe.
///
/// A directory is used only if it belongs to this user and nobody else can write to it, since code
/// that is read from it is run; one that is missing is made, private. An entry is one file, named
/// by its kind and the hash of its key; it holds the whole key, which is compared, and a checksum.
/// It is written beside its place and renamed. The time of a file is that of its last use.
class FileCache {
 public:
  explicit FileCache(std::string directory) : directory_(std::move(directory)) {}

  /// That of the option `cache_dir`; null where it is empty. Lives as long as the process.
  static FileCache* OfConfig() noexcept;

  /// `kind` is a short word of letters, digits, '-' and '_'.
  std::optional<std::string> Load(std::string_view kind, std::string_view key) noexcept;
  /// Whether it was written. Least recently used files go where all of them take more than
  /// `max_bytes`.
  bool Save(std::string_view kind, std::string_view key, std::string_view value,
            int64_t max_bytes) noexcept;

  const std::string& directory() const { return directory_; }
  static std::string FileName(std::string_view kind, std::string_view key);

 private:
  bool Write(int directory, std::string_view kind, std::string_view key, std::string_view value);
  void MakeRoom(int directory, int64_t max_bytes, int64_t added);

  const std::string directory_;
  std::mutex mutex_;
  int64_t known_bytes_ = -1;  // of all files, as far as this process knows
  int writes_since_count_ = 0;
};

}  // namespace hammock
