#pragma once
/// BackendInterface: what a delegate implements, PyTorch's PyTorchBackendInterface. A delegate
/// takes over methods of a module: they are preprocessed when the module is lowered, compiled then
/// and when it is loaded, and executed at each call. docs/delegate-guide.md walks through one.

#include <string>

#include "hammock/export.h"
#include "hammock/ir/any.h"

namespace hammock::jit {

/// One object serves one lowered module. `execute` is called from any thread, several at once;
/// `is_available` and `compile` before the first of these calls. Errors are exceptions; those that
/// know the failing op are BackendRuntimeExceptions.
class HAMMOCK_API BackendInterface : public Object {
 public:
  /// Whether it can process calls here. Asked when a module is lowered or loaded, never per call.
  virtual bool is_available() = 0;

  /// Compiles what preprocessing made of the module. `method_compile_spec` has one entry per method
  /// that is lowered; the result has a handle of any type for each of them.
  virtual AnyDict compile(Any processed, AnyDict method_compile_spec) = 0;

  /// Runs the method of a handle on its arguments, all of them and in order; returns its results,
  /// one value each (the items of a tuple).
  virtual AnyList execute(Any handle, AnyList inputs) = 0;

  /// "__backends__.<name>": the name that this object was made under.
  std::string type_name() const final { return class_name_; }
  void SetClassName(std::string name) { class_name_ = std::move(name); }

 private:
  std::string class_name_;
};

}  // namespace hammock::jit
