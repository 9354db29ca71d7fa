#pragma once
/// Places of programs in other languages, inside of calls of modules that are objects of those
/// languages: ops and errors then have the path of a module, as with hammock::Module.

#include <string>

#include "hammock/location.h"

namespace hammock {

/// Calls of modules, one inside of the other, as locations keep them. Never destroyed.
using ForeignFrames = const std::string*;

/// The calls `outer` (null: none), and inside of them one of the module "linear(Linear)::forward"
/// at "model.py:7". The name in front is relative to the module around it; "top" adds nothing to
/// paths.
HAMMOCK_API ForeignFrames InternFrames(ForeignFrames outer, const std::string& label,
                                       const std::string& called_at);

/// The same place, in one more call, "conv_3(Conv)::forward", inside of those that it has: a node
/// of a model that a file describes is a module of its own.
HAMMOCK_API LocationId InternInnerCall(LocationId outer, const std::string& label);

/// A place, the name of its function and the calls around it.
struct ForeignCall {
  ForeignPlace place;
  ForeignFrames frames = nullptr;
  const char* function = nullptr;  ///< lives as long as the process; null: not known
};
/// One id for each place and calls. Texts are made when someone asks for them.
HAMMOCK_API LocationId InternLocation(const ForeignCall& call);

/// The function of a line, "train_step", where it is of a ForeignCall; else empty.
HAMMOCK_API std::string FunctionName(LocationId id);

}  // namespace hammock
