#pragma once
/// CallerScope: the user's line of a call that runs Hammock's own code.

#include "hammock/export.h"
#include "hammock/location.h"

namespace hammock {

/// While one lives, what this thread records or raises on lines of Hammock's own code belongs to
/// `at`, where a layer was made or a method traced; lines of user code stay what they are. Inside
/// of another one, a line of Hammock's own changes nothing.
class HAMMOCK_API CallerScope {
 public:
  explicit CallerScope(const Location& at);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;
  CallerScope& operator=(const CallerScope&) = delete;

 private:
  friend struct OpenModules;

  CallerScope* const outer_;
  ModuleFrameScope* const frame_;  // in which it was opened, or null
  const Location at_;
};

}  // namespace hammock
