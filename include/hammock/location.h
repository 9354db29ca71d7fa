#pragma once
/// Source locations of user code, interned to a small id that every traced node carries.
///
/// Public ops end in a defaulted `Location at = std::source_location::current()`. The outermost
/// public call opens a `LocationScope`; whatever it calls (expansions, gradients, layers) inherits
/// that line.

#include <cstdint>
#include <source_location>
#include <string>

#include "hammock/export.h"

namespace hammock {

using Location = std::source_location;

/// 0 means "unknown".
using LocationId = uint32_t;

HAMMOCK_API LocationId InternLocation(const Location& at);
/// "file:line", or an empty string for 0.
HAMMOCK_API std::string LocationText(LocationId id);
/// For readers of saved graphs: the id of a "file:line" text.
HAMMOCK_API LocationId InternLocationText(const std::string& text);

/// Makes `at` the location of every op traced by this thread until the scope closes, unless an
/// outer scope is already open.
class HAMMOCK_API LocationScope {
 public:
  explicit LocationScope(const Location& at);
  explicit LocationScope(LocationId id);
  ~LocationScope();
  LocationScope(const LocationScope&) = delete;
  LocationScope& operator=(const LocationScope&) = delete;

 private:
  bool outermost_;
};

/// The location of the open scope, else that of `at`.
HAMMOCK_API LocationId CurrentLocation(const Location& at);
/// The location of the open scope, or 0.
HAMMOCK_API LocationId CurrentLocation();

}  // namespace hammock
