#pragma once
/// The ops and lines behind debug handles, and the traceback in errors of delegates.

#include <map>
#include <string>
#include <vector>

#include "base/location_scope.h"
#include "hammock/jit/backend.h"

namespace hammock::jit {

/// A line of a program as it is shown: the text is kept, since files may be gone where an archive
/// is used.
struct SourceLocation {
  std::string where;  ///< "model.cpp:12", or empty
  std::string text;
};

struct DebugEntry {
  std::string op;
  SourceLocation location;
  std::vector<std::string> labels = {};        ///< of the methods inside the lowered one
  std::vector<SourceLocation> called_at = {};  ///< of each of them, outermost first
};

/// The handles of one lowered module.
class DebugInfo {
 public:
  /// New handles, unique in the process, for the nodes of a graph. Not thread-safe; the numbers
  /// are.
  NodeMap<DebugHandle> Record(const Graph& graph);
  const DebugEntry* Find(DebugHandle handle) const;
  size_t size() const { return entries_.size(); }

  /// For archives.
  Any ToAny() const;
  static DebugInfo FromAny(const Any& value);

 private:
  std::map<DebugHandle, DebugEntry> entries_;
};

/// The message with module hierarchy and traceback. `frames` are the methods that were running,
/// down to the lowered one; `handles` are innermost first.
std::string Symbolicate(const std::string& message, const std::vector<ModuleFrame>& frames,
                        const DebugInfo& info, const std::vector<DebugHandle>& handles);

}  // namespace hammock::jit
