#pragma once
/// Source locations of user code, interned to a small id that every traced node carries.
///
/// Public ops end in a defaulted `Location at = std::source_location::current()`. The outermost
/// public call opens a `LocationScope`; whatever it calls (expansions, gradients) inherits that
/// line, and so do errors that it raises. A call of a module opens a `ModuleFrameScope`: nodes and
/// errors know the path of the innermost module, and lines inside Hammock's own layers become the
/// line where the layer was called.

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

#include "hammock/export.h"

namespace hammock {

using Location = std::source_location;

/// 0 means "unknown".
using LocationId = uint32_t;

HAMMOCK_API LocationId InternLocation(const Location& at);

/// A place in a program of another language, such as an instruction of a Python function.
struct ForeignPlace {
  struct Line {
    const char* path;
    uint32_t number;
  };
  /// Called when someone first asks for the text, on any thread. `code` and the path stay valid.
  Line (*lookup)(const void* code, uint32_t instruction);
  const void* code;
  uint32_t instruction;
};
/// One id for each place.
HAMMOCK_API LocationId InternLocation(const ForeignPlace& place);
/// "file:line", or an empty string for 0.
HAMMOCK_API std::string LocationText(LocationId id);
/// The dotted path of the innermost module in which it was recorded ("encoder.2.linear"), or empty.
HAMMOCK_API std::string ModulePath(LocationId id);
/// The text in errors: "file:line in encoder.2.linear"; without the path where there is none.
HAMMOCK_API std::string WhereText(LocationId id);
/// The public function that recorded it as a part of its work ("cross_entropy"), or empty.
HAMMOCK_API std::string CalledOp(LocationId id);
/// For readers of saved graphs: the id of a "file:line" text.
HAMMOCK_API LocationId InternLocationText(const std::string& text);

/// Makes `at` the location of every op traced and every error raised by this thread until the scope
/// closes, unless an outer scope is already open. `op` is the function that opens it.
class HAMMOCK_API LocationScope {
 public:
  explicit LocationScope(const Location& at, const char* op = __builtin_FUNCTION());
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

class Module;

/// While one lives, what this thread records and raises belongs to a call of a module's method,
/// inside of those that are open. Texts are made when someone asks for them.
class HAMMOCK_API ModuleFrameScope {
 public:
  /// The name of a frame, "encoder(Encoder)::forward"; `caller` is the module of the frame around
  /// it, or null.
  using LabelFn = std::string (*)(const Module& module, const Module* caller,
                                  std::string_view method);

  /// `method` outlives the scope.
  ModuleFrameScope(LabelFn label, const Module& module, std::string_view method,
                   const Location& called_at);
  ~ModuleFrameScope();
  ModuleFrameScope(const ModuleFrameScope&) = delete;
  ModuleFrameScope& operator=(const ModuleFrameScope&) = delete;

 private:
  friend struct OpenModules;

  ModuleFrameScope* const outer_;
  const LabelFn label_;
  const Module& module_;
  const std::string_view method_;
  const Location called_at_;
  const LocationId called_inside_;     // of a public call in progress; 0: none
  const std::string* text_ = nullptr;  // this frame and those around it, as they stand in records
};

}  // namespace hammock
