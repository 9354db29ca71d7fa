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

class Module;

/// While one lives, what this thread traces belongs to a frame inside those that are open. It costs
/// little until someone asks for it: texts are made then.
class ModuleFrameScope {
 public:
  /// What a frame is called; `caller` is the module of the frame around it, or null.
  using LabelFn = std::string (*)(const Module& module, const Module* caller,
                                  const std::string& method);

  ModuleFrameScope(LabelFn label, const Module& module, const std::string& method,
                   const Location& called_at);
  ~ModuleFrameScope();
  ModuleFrameScope(const ModuleFrameScope&) = delete;
  ModuleFrameScope& operator=(const ModuleFrameScope&) = delete;

  /// This frame and those around it, as they stand in records.
  const std::string& Text();

 private:
  ModuleFrameScope* const outer_;
  const LabelFn label_;
  const Module& module_;
  const std::string& method_;
  const Location called_at_;
  const LocationId called_inside_;  // of a public call in progress; 0: none
  const std::string* text_ = nullptr;
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
