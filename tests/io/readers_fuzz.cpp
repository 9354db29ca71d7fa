// Fuzz targets for the readers of files. HAMMOCK_FUZZ is the function that this program calls:
// there is one program for each.

#include <cstdint>
#include <memory>
#include <string>

#include "hammock/error.h"
#include "hammock/io.h"

namespace hammock {
namespace {

using Bytes = std::span<const std::byte>;

io::SafetensorsFile Parsed(Bytes bytes) {
  // In memory of its own, so that a read behind the end is noticed.
  auto owner =
      std::make_shared<std::string>(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return io::SafetensorsFile::Parse(owner, *owner, "input");
}

[[maybe_unused]] void Safetensors(Bytes bytes) {
  io::SafetensorsFile file = Parsed(bytes);
  for (const std::string& name : file.names()) {
    HostTensor tensor = file.Read(name);
    if (tensor.numel() > 0) tensor.at(tensor.numel() - 1);
  }
}

[[maybe_unused]] void Npy(Bytes bytes) { io::ParseNpy(bytes, "input"); }

[[maybe_unused]] void Npz(Bytes bytes) {
  auto file = io::NpzFile::Parse(std::vector<std::byte>(bytes.begin(), bytes.end()), "input");
  for (const std::string& name : file.names()) file.Read(name);
}

[[maybe_unused]] void Idx(Bytes bytes) { io::ParseIdx(bytes, "input"); }

/// The first byte chooses the options.
[[maybe_unused]] void Csv(Bytes bytes) {
  if (bytes.empty()) return;
  int first = std::to_integer<int>(bytes[0]);
  io::CsvOptions options{.delimiter = first & 1 ? ';' : ',',
                         .header = (first & 2) != 0,
                         .dtype = first & 4 ? DType::kI32 : DType::kF64};
  io::ParseCsv(bytes.subspan(1), "input", options);
}

[[maybe_unused]] void Image(Bytes bytes) { io::ParseImage(bytes, "input"); }

}  // namespace
}  // namespace hammock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hammock;
  try {
    HAMMOCK_FUZZ(Bytes(reinterpret_cast<const std::byte*>(data), size));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
