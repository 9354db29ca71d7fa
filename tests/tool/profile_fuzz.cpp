// A fuzz target for the reader of profiles.

#include <cstdint>
#include <string>

#include "hammock/error.h"
#include "profile_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hammock;
  try {
    tool::Profile profile =
        tool::ParseProfile(std::string(reinterpret_cast<const char*>(data), size), "input");
    tool::TimesOfKernels(profile);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kParse) __builtin_trap();
  }
  return 0;
}
