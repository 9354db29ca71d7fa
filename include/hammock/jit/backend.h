#pragma once
/// The header for writers of delegates: the interface, its registration, and errors that name the
/// op of the original program.
///
///   static auto cls = hammock::jit::backend<ToyBackend>("toy");
///   static const bool preprocess = hammock::jit::backend_preprocess_register("toy", Preprocess);

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "hammock/error.h"
#include "hammock/export.h"
#include "hammock/ir/graph.h"
#include "hammock/jit/backend_interface.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/module.h"

namespace hammock::jit {

/// The namespace of the classes of all delegates.
inline constexpr char kBackendsNamespace[] = "__backends__";

/// Registers the class "__backends__.<name>" with the methods
///   is_available(Any self) -> bool
///   compile(Any self, Any processed, Dict(str, Any) method_compile_spec) -> Dict(str, Any)
///   execute(Any self, Any handle, Any[] input) -> Any[]
/// Thread-safe. ValueError for a name that is taken.
HAMMOCK_API void RegisterBackendClass(const std::string& name,
                                      std::function<std::shared_ptr<BackendInterface>()> make);

/// Registers T under a name, at namespace scope or as a plain call; T may have several names.
template <class T>
class backend {
  static_assert(std::is_base_of_v<BackendInterface, T>,
                "a delegate must derive from hammock::jit::BackendInterface");

 public:
  explicit backend(const std::string& name) {
    RegisterBackendClass(name, [] { return std::make_shared<T>(); });
  }
};

/// Names one node of a module that is being lowered, unique in the process and, with the module, in
/// its archive. -1 stands for "not known".
using DebugHandle = int64_t;

/// A new handle for each node of a graph. The lowered module remembers what op, line and submodules
/// they stand for.
using DebugHandleGenerator = std::function<NodeMap<DebugHandle>(const Graph&)>;

/// Converts a module to the value that is given to `compile`: any that can be saved. The module is
/// a copy, in which the methods of the spec are graphs where that was possible
/// (Module::graph_body).
using PreprocessFn = std::function<Any(const Module& module, const AnyDict& method_compile_spec,
                                       const DebugHandleGenerator& handles)>;

/// Thread-safe. ValueError if the backend has one. Returns true, for static registration.
HAMMOCK_API bool backend_preprocess_register(const std::string& name, PreprocessFn preprocess);

/// The treatment of a node when a module is partitioned: run, expand, or refuse with a reason.
using CapabilityFn = std::function<lazy::Capability(const Graph& graph, NodeId node)>;

/// For `partition_to_backend`. Thread-safe. ValueError if the backend has one.
HAMMOCK_API bool backend_capability_register(const std::string& name, CapabilityFn capability);

/// An error at a node of the program that a delegate compiles or runs. It comes to the caller as a
/// DelegateError with the module hierarchy, the op and its line.
class HAMMOCK_API BackendRuntimeException : public ErrorKind<BackendRuntimeException, DeviceError> {
 public:
  BackendRuntimeException(std::string message, DebugHandle handle)
      : ErrorKind(ErrorCode::kExecute, std::move(message)), handles_{handle} {}
  /// For a delegate that runs parts of others: where the failing part was called from.
  void PushDebugHandle(DebugHandle handle) { handles_.push_back(handle); }
  /// Innermost first.
  const std::vector<DebugHandle>& debug_handles() const { return handles_; }

 private:
  std::vector<DebugHandle> handles_;
};

}  // namespace hammock::jit
