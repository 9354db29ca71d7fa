// A fuzz target for the reader of traces.

#include <cstdint>
#include <string>

#include "hammock/error.h"
#include "trace_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hammock;
  try {
    tool::Trace trace =
        tool::ParseTrace(std::string(reinterpret_cast<const char*>(data), size), "input");
    tool::TimesOfKernels(trace);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kParse) __builtin_trap();
  }
  return 0;
}
