#include "support/source_path.h"

namespace hammock::testing {

std::string SourcePath(const std::string& path) {
  return path.empty() ? HAMMOCK_SOURCE_DIR : HAMMOCK_SOURCE_DIR "/" + path;
}

}  // namespace hammock::testing
