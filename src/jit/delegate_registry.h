#pragma once
/// Delegates by name: their classes, preprocessing and capability functions.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hammock/ir/function.h"
#include "hammock/jit/backend.h"

namespace hammock::jit {

/// The class of a delegate with its three methods.
ClassDef BackendClass(const std::string& name,
                      std::function<std::shared_ptr<BackendInterface>()> make);

/// A new object; ValueError that lists the backends there are for an unknown one.
std::shared_ptr<BackendInterface> NewBackend(const std::string& name);
bool IsDelegate(const std::string& name);
void CheckBackendExists(const std::string& name);

/// ValueError "Preprocessing function for backend X is not registered."
PreprocessFn PreprocessOf(const std::string& name);
/// ValueError where the backend has none.
CapabilityFn CapabilityOf(const std::string& name);

/// All that a name stands for.
struct Delegate {
  std::string name;
  std::function<std::shared_ptr<BackendInterface>()> make;
  PreprocessFn preprocess;
  CapabilityFn capability;
};

/// The delegates that come with the library; see table.cpp.
const std::vector<Delegate>& InTreeDelegates();
/// Registers another one. Thread-safe. ValueError for a name that is taken.
void RegisterDelegate(const Delegate& delegate);

}  // namespace hammock::jit
