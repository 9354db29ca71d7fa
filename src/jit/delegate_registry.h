#pragma once
/// Delegates by name: their classes, preprocessing and capability functions.

#include <memory>
#include <string>

#include "hammock/ir/function.h"
#include "hammock/jit/backend.h"

namespace hammock::jit {

/// The class of a delegate with its three methods.
ClassDef BackendClass(const std::string& name,
                      std::function<std::shared_ptr<BackendInterface>()> make);

/// A new object; ValueError that lists the backends there are for an unknown one.
std::shared_ptr<BackendInterface> NewBackend(const std::string& name);
void CheckBackendExists(const std::string& name);

/// ValueError "Preprocessing function for backend X is not registered."
PreprocessFn PreprocessOf(const std::string& name);
/// ValueError where the backend has none.
CapabilityFn CapabilityOf(const std::string& name);

/// What comes with the library; see table.cpp.
struct InTreeDelegate {
  const char* name;
  std::shared_ptr<BackendInterface> (*make)();
  Any (*preprocess)(const Module& module, const AnyDict& spec, const DebugHandleGenerator& handles);
  lazy::Capability (*capability)(const Graph& graph, NodeId node);
};
const std::vector<InTreeDelegate>& InTreeDelegates();

}  // namespace hammock::jit
