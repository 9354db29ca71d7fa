#include "hammock/jit/to_backend.h"

#include "base/log.h"
#include "base/throw.h"
#include "hammock/caller_scope.h"
#include "jit/delegate_registry.h"
#include "jit/lower.h"
#include "jit/lowered_module.h"
#include "module/module_access.h"

namespace hammock::jit {
namespace {

constexpr char kChild[] = "__loweredModule__";

/// The body with the module's own tensors instead of their names, so that it can be run without it.
std::shared_ptr<const GraphBody> WithTensors(const GraphBody& body, const Module& module) {
  auto bound = std::make_shared<GraphBody>(body);
  for (Capture& capture : bound->captures) {
    if (capture.name.empty()) continue;
    capture.constant = module.get_tensor(capture.name);
    capture.name.clear();
  }
  return bound;
}

/// Its methods are calls of a delegate, which no other delegate could take over.
void CheckNotLowered(const Module& module) {
  for (const auto& [name, child] : module.named_children()) {
    if (name != kChild) continue;
    Throw(ErrorCode::kValue,
          "to_backend: {} has methods that backend {} runs; lower the module that it was made from",
          module.class_name(), BackendOf(*child));
  }
}

std::shared_ptr<const GraphBody> GraphOrNone(const Module& module, const std::string& method) {
  const Method* found = &module.method(method);
  bool is_graph = found->body || !found->forwards_to.empty();
  return is_graph ? WithTensors(module.graph_body(method), module) : nullptr;
}

}  // namespace

namespace {

/// The methods that are code and have examples, as graphs.
std::vector<Method> TraceExamples(Module& module, const LowerOptions& options, Location at) {
  std::vector<Method> traced;
  for (const auto& [name, example] : options.examples) {
    const Method& method = module.method(name);
    if (!method.code) continue;
    Method graph{.schema = method.schema};
    graph.body = std::make_shared<const GraphBody>(
        TraceMethod(module, method, example.args, example.trace, at));
    traced.push_back(std::move(graph));
  }
  return traced;
}

}  // namespace

ModulePtr CloneTraced(Module& module, const LowerOptions& options, Location at) {
  std::vector<Method> traced = TraceExamples(module, options, at);
  ModulePtr copy = ModuleAccess::PlainClone(module);
  for (Method& method : traced) copy->define(std::move(method));
  return copy;
}

void LowerMethods(const std::string& name, Module& module, const AnyDict& spec) {
  auto lowered = std::make_shared<LoweredModule>(name, module.class_name());
  DebugInfo info;
  auto handles = [&](const Graph& graph) { return info.Record(graph); };
  std::vector<ModuleFrame> frames = {
      {fmt::format("{}({})::<unknown>", module.name(), module.class_name()), ""}};
  Any processed =
      WithTraceback(name, info, frames, [&] { return PreprocessOf(name)(module, spec, handles); });
  lowered->SetDebugInfo(std::move(info));
  for (const auto& [method, unused] : spec) {
    lowered->AddMethod(module.method(method).schema, GraphOrNone(module, method));
  }
  lowered->set_attribute("__method_compile_spec", spec);
  lowered->set_attribute("__processed_module", processed);
  if (lowered->CreateBackend()) {
    lowered->SetState(Any::Tuple({spec, processed, false}));
  } else {
    Log(LogLevel::kWarn,
        "Backend [{}] is not available. Execution of this Module is still possible by saving and "
        "loading on a device where the backend is available.",
        name);
  }
  module.register_module(kChild, lowered);
  for (const auto& [method, unused] : spec) {
    module.define(Method{.schema = module.method(method).schema, .forwards_to = kChild});
  }
}

ModulePtr to_backend(const std::string& name, Module& module, const AnyDict& method_compile_spec,
                     const LowerOptions& options, Location at) {
  CallerScope caller(at);
  PreprocessOf(name);
  CheckBackendExists(name);
  for (const auto& [method, unused] : method_compile_spec) module.method(method);
  for (const auto& [method, unused] : options.examples) module.method(method);
  CheckNotLowered(module);
  ModulePtr wrapper = CloneTraced(module, options, at);
  LowerMethods(name, *wrapper, method_compile_spec);
  return wrapper;
}

namespace {

/// Lowered submodules in the place of the original ones, for as long as it lives.
class Exchange {
 public:
  Exchange(Module& module, const std::vector<std::string>& paths,
           const std::vector<ModulePtr>& lowered)
      : module_(module) {
    for (size_t i = 0; i < paths.size(); ++i) {
      originals_.emplace_back(paths[i], module.get_submodule(paths[i]));
      module.replace_submodule(paths[i], lowered[i]);
    }
  }
  ~Exchange() {
    for (auto original = originals_.rbegin(); original != originals_.rend(); ++original) {
      ModuleAccess::PutBack(module_, original->first, original->second);
    }
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

 private:
  Module& module_;
  std::vector<std::pair<std::string, ModulePtr>> originals_;
};

}  // namespace

ModulePtr to_backend_selective(Module& module, const std::function<ModulePtr(Module&)>& lower,
                               const std::vector<std::string>& paths, const LowerOptions& options,
                               Location at) {
  CallerScope caller(at);
  std::vector<ModulePtr> lowered;
  for (const std::string& path : paths) module.get_submodule(path);
  for (const std::string& path : paths) CheckNotInlined(module, path);
  for (const auto& [method, unused] : options.examples) module.method(method);
  for (const std::string& path : paths) lowered.push_back(lower(*module.get_submodule(path)));
  std::vector<Method> traced;
  if (!options.examples.empty()) {
    Exchange exchange(module, paths, lowered);
    traced = TraceExamples(module, options, at);
  }
  ModulePtr copy = module.clone();
  for (size_t i = 0; i < paths.size(); ++i) copy->replace_submodule(paths[i], lowered[i], at);
  for (Method& method : traced) copy->define(std::move(method));
  return copy;
}

std::string BackendOf(const Module& module) {
  const auto* lowered = dynamic_cast<const LoweredModule*>(&module);
  return lowered ? lowered->backend() : "";
}

}  // namespace hammock::jit
