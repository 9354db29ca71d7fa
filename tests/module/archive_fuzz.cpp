// A fuzz target for archives: libFuzzer's with clang, else driven by fuzz_driver.cpp.
//
// An input is the section `module` of an archive; the harness adds the other sections and right
// checksums, so that mutations reach the readers behind them. Inputs that begin as an archive does
// are read as they are.

#include <cstdint>
#include <string>

#include "hammock/error.h"
#include "module/module_io.h"

namespace hammock {
namespace {

std::string Wrapped(std::string_view module) {
  ArchiveWriter writer;
  writer.Add("module", std::string(module));
  // Two tensors: f32[2,2] and i64[1].
  writer.Add("tensors", std::string("\x02\x0b\x02\x04\x04\x08\x01\x02", 8));
  writer.Add("data/0", std::string(16, '\1'));
  writer.Add("data/1", std::string(8, '\2'));
  return writer.Bytes();
}

}  // namespace
}  // namespace hammock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hammock;
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string bytes = input.starts_with("HAMMOCKA") ? std::string(input) : Wrapped(input);
  try {
    ReadModule(std::make_shared<const Archive>("input", bytes, nullptr), Device("reference"));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}
