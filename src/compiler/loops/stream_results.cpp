#include "compiler/loops/stream_results.h"

#include <algorithm>

namespace hammock::compiler {
namespace {

// Results are written past the caches if they are large and a command touches more than caches
// hold: measured, a copy of 16 MB is half as fast past them, a sum of two of 16 MB up to twice as
// fast.
constexpr int64_t kStreamBytes = 12 << 20;
constexpr int64_t kCacheBytes = 40 << 20;

int64_t TouchedBytes(const Command& command, const BufferMap<int64_t>& bytes) {
  int64_t touched = 0;
  for (BufferId buffer : command.reads) touched += bytes[buffer];
  for (BufferId buffer : command.writes) touched += bytes[buffer];
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

BufferMap<bool> BuffersRead(const Schedule& schedule) {
  BufferMap<bool> read(schedule.buffers.size());
  for (const Command& command : schedule.commands) {
    for (BufferId buffer : command.reads) read[buffer] = true;
  }
  return read;
}

void StreamResults(Launch& launch, const Command& command, const Schedule& schedule,
                   const BufferMap<int64_t>& bytes, const BufferMap<bool>& read) {
  if (command.is_call() || launch.kernel->lanes_along_rows) return;
  if (TouchedBytes(command, bytes) <= kCacheBytes) return;
  std::shared_ptr<Kernel> streaming;
  for (BufferId buffer : command.writes) {
    if (read[buffer] || bytes[buffer] < kStreamBytes) continue;
    DType dtype = schedule.buffers[buffer].dtype();
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
