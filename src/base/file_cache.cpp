#include "base/file_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/never_destroyed.h"
#include "hammock/config.h"
#include "hammock/ir/hash.h"

namespace hammock {

constinit config::Option<std::string> config::kCacheDir({
    .name = "cache_dir",
    .default_value = "",
    .doc = "Directory in which compiled graphs and code are kept for other processes; it must "
           "belong to this user alone; empty: none.",
});

constinit config::Option<int64_t> config::kCacheDirBytes({
    .name = "cache_dir_bytes",
    .default_value = 1073741824,
    .doc = "Bytes that the files in `cache_dir` may take; the least recently used ones go first.",
});

namespace {

// A file: magic, checksum of all that follows, length of the key, key, value.
constexpr std::string_view kMagic = "HMCACHE1";
constexpr size_t kHead = 32;
constexpr std::string_view kEnding = ".cache";
constexpr std::string_view kPartEnding = ".part";  // being written, or left by a process that died
constexpr int64_t kMaxFile = int64_t{1} << 31;
constexpr time_t kPartLives = 3600;  // seconds
constexpr int kWritesBetweenCounts = 64;

void Warn(const std::string& directory, std::string_view name, std::string_view what) {
  Log(LogLevel::kWarn, "cache_dir: {}/{}: {}", directory, name, what);
}

/// About the directory itself: said once, since it is asked for at every use.
Descriptor RefuseDirectory(const std::string& directory, std::string_view what) {
  LogOnce("cache_dir:" + directory, LogLevel::kWarn, "cache_dir: {} is not used: {}", directory,
          what);
  return Descriptor(-1);
}

Descriptor OpenDirectory(const std::string& path, bool make) {
  if (make) {
    std::error_code none;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), none);
    mkdir(path.c_str(), 0700);
  }
  Descriptor directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) {
    if (errno == ENOENT && !make) return directory;
    return RefuseDirectory(path, std::strerror(errno));
  }
  struct stat info;
  if (fstat(directory.number(), &info) != 0) return RefuseDirectory(path, std::strerror(errno));
  if (info.st_uid != geteuid()) return RefuseDirectory(path, "it belongs to another user");
  if (info.st_mode & 022) return RefuseDirectory(path, "other users can write to it");
  return directory;
}

std::string Head(Hash128 checksum, uint64_t key_size) {
  std::string head(kMagic);
  for (uint64_t number : {checksum.lo, checksum.hi, key_size}) {
    for (int i = 0; i < 8; ++i) head += static_cast<char>(number >> (8 * i));
  }
  return head;
}

Hash128 Checksum(uint64_t key_size, std::string_view key, std::string_view value) {
  return Combine(Combine(HashOf(key_size), HashString(key)), HashString(value));
}

/// The value in `file` if that is a whole entry of this key, else the reason why not.
std::optional<std::string> ValueIn(std::string_view file, std::string_view key, const char** why) {
  if (file.size() < kHead || file.substr(0, kMagic.size()) != kMagic) {
    *why = "not an entry of this version; ignored";
    return std::nullopt;
  }
  uint64_t key_size = 0;
  for (int i = 7; i >= 0; --i) {
    key_size = key_size << 8 | static_cast<unsigned char>(file[kHead - 8 + static_cast<size_t>(i)]);
  }
  if (key_size > file.size() - kHead) {
    *why = "damaged; ignored";
    return std::nullopt;
  }
  std::string_view found = file.substr(kHead, key_size);
  std::string_view value = file.substr(kHead + key_size);
  if (file.substr(0, kHead) != Head(Checksum(key_size, found, value), key_size)) {
    *why = "damaged; ignored";
    return std::nullopt;
  }
  if (found != key) {
    *why = "of another key; ignored";
    return std::nullopt;
  }
  return std::string(value);
}

/// The whole content of a file of this user; nothing where that is not to be had.
std::optional<std::string> ReadAll(int file, const char** why) {
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & 022)) {
    *why = "not a file of this user alone; ignored";
    return std::nullopt;
  }
  if (info.st_size > kMaxFile) {
    *why = "too large; ignored";
    return std::nullopt;
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t got = pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

struct Entry {
  std::string name;
  int64_t bytes;
  timespec used;
};

/// All files of caches; parts that nobody writes any more are removed.
std::vector<Entry> ListEntries(int directory) {
  std::vector<Entry> entries;
  Descriptor copy(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy) return entries;
  std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(dup(copy.number())), closedir);
  if (!listing) return entries;
  time_t now = time(nullptr);
  while (const dirent* found = readdir(listing.get())) {
    std::string_view name = found->d_name;
    bool part = name.ends_with(kPartEnding);
    struct stat info;
    if (!part && !name.ends_with(kEnding)) continue;
    if (fstatat(directory, found->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(info.st_mode)) continue;
    if (part && now - info.st_mtim.tv_sec > kPartLives) {
      unlinkat(directory, found->d_name, 0);
      continue;
    }
    entries.push_back({std::string(name), info.st_size, info.st_mtim});
  }
  return entries;
}

bool UsedBefore(const Entry& a, const Entry& b) {
  auto key = [](const Entry& e) { return std::tuple(e.used.tv_sec, e.used.tv_nsec, e.name); };
  return key(a) < key(b);
}

}  // namespace

FileCache* FileCache::OfConfig() noexcept {
  try {
    const std::string& directory = config::Get<config::kCacheDir>();
    if (directory.empty()) return nullptr;
    static auto& mutex = NeverDestroyed<std::mutex>();
    static auto& caches = NeverDestroyed<std::map<std::string, FileCache, std::less<>>>();
    std::lock_guard lock(mutex);
    return &caches.try_emplace(directory, directory).first->second;
  } catch (const std::exception&) {
    return nullptr;  // no memory
  }
}

std::string FileCache::FileName(std::string_view kind, std::string_view key) {
  return std::string(kind) + "-" + ToString(HashString(key)) + std::string(kEnding);
}

std::optional<std::string> FileCache::Load(std::string_view kind, std::string_view key) noexcept {
  try {
    Descriptor directory = OpenDirectory(directory_, false);
    if (!directory) return std::nullopt;
    std::string name = FileName(kind, key);
    // Without O_NONBLOCK a pipe of that name would make the process wait.
    Descriptor file(
        openat(directory.number(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file) {
      if (errno != ENOENT) Warn(directory_, name, std::strerror(errno));
      return std::nullopt;
    }
    const char* why = nullptr;
    std::optional<std::string> bytes = ReadAll(file.number(), &why);
    std::optional<std::string> value = bytes ? ValueIn(*bytes, key, &why) : std::nullopt;
    if (!value) {
      Warn(directory_, name, why);
      metrics::Get<kDiskCacheRefused>().Add();
      return std::nullopt;
    }
    futimens(file.number(), nullptr);
    return value;
  } catch (const std::exception& error) {
    Warn(directory_, kind, error.what());
    return std::nullopt;
  }
}

bool FileCache::Save(std::string_view kind, std::string_view key, std::string_view value,
                     int64_t max_bytes) noexcept {
  try {
    auto bytes = static_cast<int64_t>(kHead + key.size() + value.size());
    if (bytes > std::min(max_bytes, kMaxFile)) return false;
    Descriptor directory = OpenDirectory(directory_, true);
    if (!directory || !Write(directory.number(), kind, key, value)) return false;
    MakeRoom(directory.number(), max_bytes, bytes);
    return true;
  } catch (const std::exception& error) {
    Warn(directory_, kind, error.what());
    return false;
  }
}

bool FileCache::Write(int directory, std::string_view kind, std::string_view key,
                      std::string_view value) {
  static std::atomic<uint64_t> number{0};
  std::string name = FileName(kind, key);
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  // The time too: another machine or container may have a process of the same number.
  std::string part = fmt::format("{}.{}.{}.{}{}{}", name, getpid(), number.fetch_add(1), now.tv_sec,
                                 now.tv_nsec, kPartEnding);
  Descriptor file(
      openat(directory, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) {
    Warn(directory_, name, std::strerror(errno));
    return false;
  }
  if (WriteAll(file.number(), Head(Checksum(key.size(), key, value), key.size())) &&
      WriteAll(file.number(), key) && WriteAll(file.number(), value) &&
      renameat(directory, part.c_str(), directory, name.c_str()) == 0) {
    return true;
  }
  Warn(directory_, name, std::strerror(errno));
  unlinkat(directory, part.c_str(), 0);
  return false;
}

// Other processes write too, so the sum is taken anew now and then; counting takes longer than
// writing.
void FileCache::MakeRoom(int directory, int64_t max_bytes, int64_t added) {
  std::lock_guard lock(mutex_);
  if (known_bytes_ >= 0) known_bytes_ += added;
  bool count = known_bytes_ < 0 || ++writes_since_count_ >= kWritesBetweenCounts;
  if (!count && known_bytes_ <= max_bytes) return;
  std::vector<Entry> entries = ListEntries(directory);
  std::sort(entries.begin(), entries.end(), UsedBefore);
  known_bytes_ = 0;
  writes_since_count_ = 0;
  for (const Entry& entry : entries) known_bytes_ += entry.bytes;
  if (known_bytes_ <= max_bytes) return;
  int64_t target = max_bytes - max_bytes / 8;  // so that not every write has to make room
  entries.pop_back();                          // the one that was just written, or used since
  for (const Entry& entry : entries) {
    if (known_bytes_ <= target) return;
    if (unlinkat(directory, entry.name.c_str(), 0) == 0) known_bytes_ -= entry.bytes;
  }
}

}  // namespace hammock
