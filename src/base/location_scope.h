#pragma once
/// The private side of locations: in which module methods a line was traced, and its text.

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hammock/error.h"
#include "hammock/location.h"

namespace hammock {

/// The location of the outermost public call in progress on this thread, or 0.
extern constinit thread_local LocationId tls_location;

/// A module's method that was being traced.
struct ModuleFrame {
  std::string label;      ///< "encoder(Encoder)::forward"
  std::string called_at;  ///< "model.cpp:7", or empty
  bool operator==(const ModuleFrame&) const = default;
};

/// Grows when a module gets another name or place in a tree, is destroyed, or begins or ends to be
/// traced: labels of frames may be others then.
extern constinit std::atomic<uint64_t> module_names_generation;

/// Whether a line is one of Hammock's own code, or unknown.
bool IsOwnLine(const Location& at);
/// Whether a method of any module is being called on this thread.
bool IsInModule();
/// The same for this one.
bool IsRunning(const Module& module);
/// Whether the innermost of them is one of this module.
bool IsInnermost(const Module& module);
/// The frames that are open on this thread, outermost first.
std::vector<ModuleFrame> OpenFrames();
/// The methods in which a node with this location was traced, outermost first.
std::vector<ModuleFrame> FramesOf(LocationId id);
/// The same place, its own frames inside those that are open on this thread.
LocationId InsideOpenFrames(LocationId id);
/// The same place, its own frames inside this one.
LocationId InsideFrame(LocationId id, const ModuleFrame& frame);
/// The same place and frames, recorded as a part of `op`, unless it is a part of one already.
LocationId AsPartOf(LocationId id, const char* op);

/// The location that an error raised now reports: that of the public call in progress, else of the
/// innermost module call; empty if there is neither.
std::string CurrentWhere();

/// While one lives, this is the location of what the thread records and raises.
class LocationOverride {
 public:
  explicit LocationOverride(LocationId id) : before_(std::exchange(tls_location, id)) {}
  ~LocationOverride() { tls_location = before_; }
  LocationOverride(const LocationOverride&) = delete;
  LocationOverride& operator=(const LocationOverride&) = delete;

 private:
  const LocationId before_;
};

/// A LocationScope for a line of the user's. The place of an error on a line of Hammock's own is
/// left to whoever knows it.
class UserLineScope {
 public:
  explicit UserLineScope(const Location& at) {
    if (!IsOwnLine(at)) scope_.emplace(at);
  }

 private:
  std::optional<LocationScope> scope_;
};

/// Calls a function of the user in the course of a public call. What it records and raises has its
/// own lines; an error without one gets that of the public call.
template <class Fn>
decltype(auto) CallUser(Fn&& fn) {
  const LocationId line = tls_location;
  LocationOverride own(0);
  try {
    return fn();
  } catch (Error& error) {
    if (error.where().empty()) error.SetWhere(WhereText(line));
    throw;
  }
}

/// While one lives, this thread is in no public call and no module: it runs what was recorded.
class OutsideOfCalls {
 public:
  OutsideOfCalls();
  ~OutsideOfCalls();
  OutsideOfCalls(const OutsideOfCalls&) = delete;
  OutsideOfCalls& operator=(const OutsideOfCalls&) = delete;

 private:
  const LocationId location_;
  ModuleFrameScope* const frame_;
};

/// Place, frames and op as one text, for saved graphs; for a location without the others it is the
/// place.
std::string LocationRecord(LocationId id);
LocationId InternLocationRecord(const std::string& record);

/// The line of source at a place ("model.cpp:7") that this process traced, without indentation;
/// empty where the file cannot be read.
std::string SourceLine(const std::string& place);

}  // namespace hammock
