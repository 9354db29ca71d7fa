#pragma once
/// Lowering: methods of a module are handed to a named delegate.
///
///   ModulePtr lowered = jit::to_backend("hammock", net, {{"forward", AnyDict()}});
///   Tensor y = (*lowered)(x);
///   save_module(*lowered, "net.hmk");                       // compiled anew when it is loaded
///
/// The result has the module's parameters, buffers and other methods, and a child
/// `__loweredModule__` with what the delegate needs; the module itself is left alone.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hammock/error.h"
#include "hammock/export.h"
#include "hammock/module.h"

namespace hammock::jit {

/// An error that a delegate raised, with its line in the original program:
///
///   toy: overflow
///   Module hierarchy: top(Net)::forward.__loweredModule__(Net)::forward.a0(A)::forward.add
///   Traceback (most recent call last):
///     model.cpp:31, in top(Net)::forward
///       return a0->run_method("forward", {x});
///     model.cpp:12, in a0(A)::forward
///       return x + y;
///       ~~~~~~~~~~~~~ <--- HERE
class HAMMOCK_API DelegateError : public ErrorKind<DelegateError, DeviceError> {
 public:
  using ErrorKind::ErrorKind;
};

/// Example arguments for methods that are C++ code: they are traced on them first. Of methods that
/// are not lowered too, so that the result, which has no object of a C++ class, can run them.
struct ExampleArguments {
  std::vector<Any> args;
  TraceOptions trace = {};
};

struct LowerOptions {
  std::map<std::string, ExampleArguments> examples = {};
};

/// `method_compile_spec` has the methods to lower, each with whatever its delegate understands,
/// which may be empty. Errors, before anything of the delegate runs: an unknown backend, one
/// without a preprocessing function, a method that is not defined. Where the delegate is not
/// available this warns; the result can be saved, and run where the delegate is.
HAMMOCK_API ModulePtr to_backend(const std::string& name, Module& module,
                                 const AnyDict& method_compile_spec,
                                 const LowerOptions& options = {},
                                 Location at = Location::current());

/// A copy of the module in which the submodules at dotted paths are what `lower` makes of them;
/// everything else is run by Hammock. Methods that are member functions of a C++ class need an
/// object of that class: those with `examples` become graphs, which call the lowered submodules,
/// and others run if the copy has the class. Code that takes any module calls whatever is there.
/// Methods that are graphs already must have been traced with the submodules lowered. ValueError
/// "Attribute named a.b is not a Module" for a wrong path. To lower submodules of the module
/// itself, see Module::replace_submodule.
HAMMOCK_API ModulePtr to_backend_selective(Module& module,
                                           const std::function<ModulePtr(Module&)>& lower,
                                           const std::vector<std::string>& paths,
                                           const LowerOptions& options = {},
                                           Location at = Location::current());

/// Where a node went when a module was partitioned.
struct HAMMOCK_API NodePlacement {
  std::string op;
  std::string where;      ///< "model.cpp:12", or empty
  std::string placed_on;  ///< the backend, or "hammock"
  std::string reason;     ///< why not on the backend
};

/// A value that goes from one side to the other at each call.
struct HAMMOCK_API BoundaryCopy {
  std::string type;  ///< "f32[2,3]"
  std::string from, to;
  int64_t bytes = 0;
};

struct HAMMOCK_API PlacementReport {
  std::string method;
  std::vector<NodePlacement> nodes;
  std::vector<BoundaryCopy> copies;
  int regions = 0;  ///< that the backend runs

  std::string ToText() const;
};

struct HAMMOCK_API Partitioned {
  ModulePtr module;
  std::vector<PlacementReport> placements;  ///< one per method
};

/// Op by op: the backend says of each node of the methods' graphs whether it runs it; maximal
/// regions of what it runs are lowered, each a submodule, and Hammock runs the rest.
HAMMOCK_API Partitioned partition_to_backend(const std::string& name, Module& module,
                                             const AnyDict& method_compile_spec,
                                             const LowerOptions& options = {},
                                             Location at = Location::current());

/// For tools: a lowered module's backend ("toy"), or "" for any other module.
HAMMOCK_API std::string BackendOf(const Module& module);

}  // namespace hammock::jit
