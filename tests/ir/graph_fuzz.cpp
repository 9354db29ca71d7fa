// Fuzz targets for the readers of graphs. HAMMOCK_FUZZ is the function that this program calls:
// there is one program for each.

#include <cstdint>
#include <string>

#include "hammock/error.h"
#include "hammock/ir/graph.h"
#include "hammock/ir/hash.h"

namespace hammock {
namespace {

/// What was read is a graph, and prints as one.
[[maybe_unused]] void Expect(const Graph& graph) {
  Verify(graph);
  if (ParseGraph(ToText(graph)) != graph) __builtin_trap();
  if (DeserializeGraph(Serialize(graph)) != graph) __builtin_trap();
}

[[maybe_unused]] void Text(std::string_view text) { Expect(ParseGraph(text)); }

/// With a checksum that fits, as a hostile writer would make it.
[[maybe_unused]] void Bytes(std::string_view body) {
  std::string bytes = std::string("HAMMOCKG\1\0\0\0", 12) + std::string(body);
  const uint64_t checksum = HashString(bytes).lo;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(checksum >> (8 * i));
  Expect(DeserializeGraph(bytes));
}

}  // namespace
}  // namespace hammock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hammock;
  try {
    HAMMOCK_FUZZ(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kParse) __builtin_trap();
  }
  return 0;
}
