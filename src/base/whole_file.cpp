#include "base/whole_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/descriptor.h"
#include "base/throw.h"

namespace hammock {
namespace {

bool WriteParts(int file, std::span<const std::string_view> parts) {
  for (std::string_view part : parts) {
    if (!WriteAll(file, part)) return false;
  }
  return fsync(file) == 0;
}

/// So that the new name survives a crash of the system, too.
void SyncDirectoryOf(const std::string& path) {
  size_t slash = path.rfind('/');
  std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  Descriptor folder(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder) fsync(folder.number());
}

/// The file that a path means, behind symbolic links; renaming replaces a link itself. A link may
/// lead to a file that is yet to be made. ValueError for what renaming would destroy: pipes,
/// devices, sockets.
std::string TargetOf(std::string path) {
  const std::string given = path;
  constexpr int kMostLinks = 40;  // as many as the system follows
  for (int links = 0;; ++links) {
    struct stat info;
    if (lstat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return path;  // fails later
    if (!S_ISLNK(info.st_mode)) {
      if (S_ISREG(info.st_mode)) return path;
      Throw(ErrorCode::kValue, "cannot write '{}': it is no plain file", given);
    }
    char linked[PATH_MAX];
    ssize_t length = readlink(path.c_str(), linked, sizeof(linked));
    if (length < 0 || links == kMostLinks) {
      Throw(ErrorCode::kValue, "cannot write '{}': {}", given,
            std::strerror(length < 0 ? errno : ELOOP));
    }
    std::string next(linked, static_cast<size_t>(length));
    path = next.starts_with('/') ? next : path.substr(0, path.rfind('/') + 1) + next;
  }
}

}  // namespace

void WriteWholeFile(const std::string& path, std::span<const std::string_view> parts) {
  const std::string target = TargetOf(path);
  std::string part = target + ".part-XXXXXX";
  auto fail = [&] {
    int error = errno;
    unlink(part.c_str());
    Throw(ErrorCode::kValue, "cannot write '{}': {}", path, std::strerror(error));
  };
  Descriptor file(mkostemp(part.data(), O_CLOEXEC));
  if (!file) fail();
  fchmod(file.number(), 0644);
  if (!WriteParts(file.number(), parts)) fail();
  if (rename(part.c_str(), target.c_str()) != 0) fail();
  SyncDirectoryOf(target);
}

MappedFile MapFile(const std::string& path) {
  auto fail = [&](const char* why) { Throw(ErrorCode::kValue, "cannot read '{}': {}", path, why); };
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info;
  if (!file || fstat(file.number(), &info) != 0) fail(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("it is no plain file");
  auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return {};
  void* memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (memory == MAP_FAILED) fail(std::strerror(errno));
  std::shared_ptr<const void> owner(memory, [size](void* mapped) { munmap(mapped, size); });
  return {owner, {static_cast<const char*>(memory), size}};
}

}  // namespace hammock
