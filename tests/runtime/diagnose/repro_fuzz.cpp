// A fuzz target for repro files. An input is what follows the header; the header with a checksum
// that fits is added, so that mutations reach the readers behind it. Inputs that begin as a file
// does are read as they are.

#include <cstdint>
#include <string>

#include "hammock/error.h"
#include "hammock/ir/hash.h"
#include "runtime/diagnose/repro_file.h"

namespace hammock {
namespace {

constexpr std::string_view kMagic = "HAMMOCK-REPRO\n";

void Append(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

/// The checksum of the graph in it is made to fit too.
std::string Wrapped(std::string_view input) {
  std::string payload(input);
  uint64_t size = 0;
  for (size_t i = 0; i < 8 && i < payload.size(); ++i) {
    size |= static_cast<uint64_t>(static_cast<unsigned char>(payload[i])) << (8 * i);
  }
  if (size >= 8 && payload.size() >= 8 && size <= payload.size() - 8) {
    std::string checksum;
    Append(checksum, HashString(std::string_view(payload).substr(8, size - 8)).lo, 8);
    payload.replace(size, 8, checksum);
  }
  std::string file(kMagic);
  Append(file, 1, 4);
  Append(file, payload.size(), 8);
  const Hash128 hash = HashString(payload);
  Append(file, hash.lo, 8);
  Append(file, hash.hi, 8);
  return file + payload;
}

}  // namespace
}  // namespace hammock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hammock;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  try {
    Repro repro = DecodeRepro("input", input.starts_with(kMagic) ? input : Wrapped(input));
    Verify(repro.graph);
    EncodeRepro(repro);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kParse) __builtin_trap();
  }
  return 0;
}
