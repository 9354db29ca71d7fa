#include "hammock/compiler/launch_size.h"

#include <cstdlib>

namespace hammock::compiler {

int64_t LinesOf(const Launch& launch) {
  int64_t lines = launch.rows;
  for (int64_t extent : launch.outer) lines *= extent;
  return lines;
}

bool NeedsWideIndex(const Launch& launch) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (LinesOf(launch) > kMost || launch.columns > kMost) return true;
  if (LinesOf(launch) * launch.columns > kMost) return true;
  for (const AccessMap& map : launch.maps) {
    int64_t reach = std::abs(map.row) * launch.rows + std::abs(map.column) * launch.columns;
    for (size_t d = 0; d < map.outer.size(); ++d) {
      reach += std::abs(map.outer[d]) * launch.outer[d];
    }
    if (reach > kMost) return true;
  }
  return false;
}

}  // namespace hammock::compiler
