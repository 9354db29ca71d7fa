#pragma once
/// A module whose methods a delegate runs: the child `__loweredModule__` of what to_backend
/// returns.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hammock/jit/backend_interface.h"
#include "hammock/module.h"
#include "jit/debug_info.h"
#include "module/module_io.h"

namespace hammock::jit {

/// Its attributes and hidden methods have upstream's names: `__processed_module`,
/// `__method_compile_spec`, `__backend`, `__handles`, `__backend_debug_info`; `__create_backend`,
/// `__is_available`, `__create_backend_debug_info`, `__getstate__`, `__setstate__`.
class LoweredModule : public Module {
 public:
  LoweredModule(std::string backend, const std::string& original_class);

  const std::string& backend() const { return backend_name_; }
  const DebugInfo& debug_info() const { return debug_info_; }

  /// A method that the delegate runs; `original` is what it replaces, where that is a graph.
  void AddMethod(const FunctionSchema& schema, std::shared_ptr<const GraphBody> original);
  void SetDebugInfo(DebugInfo info);
  /// (method_compile_spec, processed, whether to create the backend). Compiles; NotSupported
  /// "Backend is not available." where it is not.
  void SetState(const Any& state);
  Any GetState() const;
  bool CreateBackend();  ///< whether it is available
  bool IsAvailable() const;

  static constexpr char kKind[] = "LoweredModule";
  static ModulePtr Restore(const SavedModule& saved);

 protected:
  std::pair<std::string, Any> SavedState() const override;
  bool IsDelegated() const override { return true; }

 private:
  /// For the traceback of what is called outside of its methods.
  std::vector<ModuleFrame> OwnFrame() const;
  void DefineHiddenMethods();
  void Compile();
  Any Execute(const FunctionSchema& schema, const std::vector<Any>& args) const;

  const std::string backend_name_;
  std::shared_ptr<BackendInterface> backend_;
  AnyDict handles_;
  bool compiled_ = false;
  DebugInfo debug_info_;
};

/// Runs a call into a delegate; what it throws comes back as a DelegateError with a traceback.
/// `frames` are the methods that are running.
Any WithTraceback(const std::string& backend, const DebugInfo& info,
                  const std::vector<ModuleFrame>& frames, const std::function<Any()>& call);

}  // namespace hammock::jit
