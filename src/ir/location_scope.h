#pragma once
/// The private side of locations: in which module methods a line was traced, and its text.

#include <string>
#include <vector>

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

/// While one lives, what this thread traces belongs to a frame inside those that are open.
class ModuleFrameScope {
 public:
  ModuleFrameScope(const std::string& label, LocationId called_at);
  ~ModuleFrameScope();
  ModuleFrameScope(const ModuleFrameScope&) = delete;
  ModuleFrameScope& operator=(const ModuleFrameScope&) = delete;

 private:
  const std::string* outer_;
};

/// The frames that are open on this thread, outermost first.
std::vector<ModuleFrame> OpenFrames();
/// The methods in which a node with this location was traced, outermost first.
std::vector<ModuleFrame> FramesOf(LocationId id);
/// The same place, its own frames inside those that are open on this thread.
LocationId InsideOpenFrames(LocationId id);

/// Place and frames as one text, for saved graphs; for a location without frames it is the place.
std::string LocationRecord(LocationId id);
LocationId InternLocationRecord(const std::string& record);

/// The line of source at a place ("model.cpp:7") that this process traced, without indentation;
/// empty where the file cannot be read.
std::string SourceLine(const std::string& place);

}  // namespace hammock
