#pragma once
/// Private functions of Module that archives and delegates need.

#include <string>
#include <utility>

#include "hammock/module.h"

namespace hammock {

class ModuleAccess {
 public:
  static std::pair<std::string, Any> SavedState(const Module& module) {
    return module.SavedState();
  }
  static Any RunBound(Module& module, const Method& method, const std::vector<Any>& args,
                      Location at) {
    return module.RunBound(method, args, at);
  }
  static bool IsDelegated(const Module& module) { return module.IsDelegated(); }
  /// A clone in which all modules are Modules and no more; it has the name of the module, whose
  /// place it is to take.
  static ModulePtr PlainClone(const Module& module);
  /// Parameters and buffers, each once, by the first of their names.
  static NamedTensors DistinctTensors(const Module& module);
  /// Whether a buffer of its own is a part of the state_dict.
  static bool IsPersistent(const Module& module, const std::string& name);
  /// Undoes `replace_submodule`.
  static void PutBack(Module& module, const std::string& path, const ModulePtr& original) {
    ModulePtr other = module.get_submodule(path);
    module.replace_submodule(path, original);
    other->replaced_by_.reset();
    original->replaced_.pop_back();  // it is the last that was replaced
  }
  /// Of this module alone.
  static void SetTraining(Module& module, bool on) { module.training_ = on; }
};

/// While one lives, the computed tensors of a module have their values.
class ComputedScope {
 public:
  explicit ComputedScope(std::shared_ptr<ModuleHooks> hooks);
  ~ComputedScope();
  ComputedScope(const ComputedScope&) = delete;
  ComputedScope& operator=(const ComputedScope&) = delete;

 private:
  std::shared_ptr<ModuleHooks> hooks_;
};

/// RunHooked without computed tensors: for graphs, which compute theirs.
std::vector<Tensor> RunBetweenHooks(
    std::shared_ptr<ModuleHooks> hooks, std::vector<Tensor> inputs,
    const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& forward);

/// The module whose method this thread is tracing; null: none.
Module* TracingRoot();

/// Runs a method's graph on bound arguments. Called by Module::run_method.
Any RunGraphBody(Module& self, const Method& method, const std::vector<Any>& args, Location at);

/// Records a call of a delegated module's method in the trace in progress, to be run by it again.
Any RecordModuleCall(Module& self, const Method& method, const std::vector<Any>& args, Location at);

/// Numbers that are given for tensors, as tensors.
std::vector<Any> NumbersAsTensors(const FunctionSchema& schema, std::vector<Any> args);

/// The graph of what a method does to the examples.
GraphBody TraceMethod(Module& self, const Method& method, const std::vector<Any>& examples,
                      const TraceOptions& options, Location at);

/// The inputs of a method's graph for these arguments; errors name the method and what differs.
/// Random state is made on `runs_on`, by default the device of the first argument.
std::vector<Tensor> GraphInputs(const FunctionSchema& schema, const GraphBody& body,
                                const std::vector<Any>& args,
                                const std::function<Tensor(const std::string&)>& captured,
                                const std::optional<Device>& runs_on = std::nullopt);
/// The graph at the sizes of these inputs; the body's own graph where it has no free dims.
std::shared_ptr<const Graph> GraphAtSizes(const FunctionSchema& schema,
                                          const std::shared_ptr<const Graph>& graph,
                                          const std::vector<Tensor>& inputs);
/// Gives the inputs that are written their new values, and puts the results together.
Any FinishResults(const GraphBody& body, const std::vector<Tensor>& inputs,
                  std::vector<Tensor> outputs);

}  // namespace hammock
