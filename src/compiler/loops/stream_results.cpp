#include "compiler/loops/stream_results.h"

#include <algorithm>

namespace hammock::compiler {
namespace {

// Results are written past the caches if they are large and a command touches more than caches
// hold: measured, a copy of 16 MB is half as fast past them, a sum of two of 16 MB up to twice as
// fast.
constexpr int64_t kStreamBytes = 12 << 20;
constexpr int64_t kCacheBytes = 40 << 20;

size_t Index(int i) { return static_cast<size_t>(i); }

int64_t TouchedBytes(const Command& command, const std::vector<int64_t>& bytes) {
  int64_t touched = 0;
  for (int buffer : command.reads) touched += bytes[Index(buffer)];
  for (int buffer : command.writes) touched += bytes[Index(buffer)];
  return touched;
}

/// Whether every row begins at a multiple of 64 bytes.
bool BeginsLines(const AccessMap& map, DType dtype) {
  int64_t elements = 512 / InfoOf(dtype).bits;
  return map.offset % elements == 0 && map.row % elements == 0 &&
         std::all_of(map.outer.begin(), map.outer.end(),
                     [&](int64_t stride) { return stride % elements == 0; });
}

}  // namespace

std::vector<bool> BuffersRead(const Schedule& schedule) {
  std::vector<bool> read(schedule.buffers.size());
  for (const Command& command : schedule.commands) {
    for (int buffer : command.reads) read[Index(buffer)] = true;
  }
  return read;
}

void StreamResults(Launch& launch, const Command& command, const Schedule& schedule,
                   const std::vector<int64_t>& bytes, const std::vector<bool>& read) {
  if (command.is_call() || launch.kernel->lanes_along_rows) return;
  if (TouchedBytes(command, bytes) <= kCacheBytes) return;
  std::shared_ptr<Kernel> streaming;
  for (int buffer : command.writes) {
    if (read[Index(buffer)] || bytes[Index(buffer)] < kStreamBytes) continue;
    DType dtype = schedule.buffers[Index(buffer)].dtype();
    for (size_t i = 0; i < launch.maps.size(); ++i) {
      const AccessMap& map = launch.maps[i];
      if (map.buffer != buffer || map.column != 1 || !BeginsLines(map, dtype)) continue;
      if (!streaming) streaming = std::make_shared<Kernel>(*launch.kernel);
      streaming->accesses[i].streams = true;
    }
  }
  if (streaming) launch.kernel = std::move(streaming);
}

}  // namespace hammock::compiler
