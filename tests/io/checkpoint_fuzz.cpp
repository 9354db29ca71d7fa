// A fuzz target for checkpoints. An input is a safetensors file, to which the harness gives the
// marks of a checkpoint, so that mutations reach what is behind them.

#include <unistd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "hammock/checkpoint.h"
#include "hammock/error.h"
#include "hammock/io/safetensors.h"
#include "hammock/ops.h"
#include "io/checkpoint_file.h"

namespace hammock {
namespace {

void WriteMarked(const std::string& path, const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  auto file = io::SafetensorsFile::Parse(owner, *owner, "input");
  std::map<std::string, HostTensor> tensors;
  for (const std::string& name : file.names()) tensors[name] = file.Read(name);
  std::map<std::string, std::string> metadata = file.metadata();
  metadata[kFormat] = kFormatName;
  metadata[kChecksum] = ChecksumOf(tensors, metadata);
  io::WriteSafetensors(path, {tensors.begin(), tensors.end()}, metadata);
}

/// Loads it, or changes nothing.
void Load(const std::string& path) {
  Tensor weight = zeros({2, 2}, f32, "reference");
  int64_t step = 3;
  std::string notes = "unchanged";
  Checkpoint checkpoint({{"w", weight}, {"step", step}, {"notes", notes}});
  try {
    checkpoint.load(path);
  } catch (const Error&) {
    if (step != 3 || notes != "unchanged") __builtin_trap();
    throw;
  }
}

}  // namespace
}  // namespace hammock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hammock;
  static const std::string path = "/dev/shm/hammock_fuzz_" + std::to_string(getpid());
  try {
    WriteMarked(path, std::string(reinterpret_cast<const char*>(data), size));
    Load(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  unlink(path.c_str());
  return 0;
}
