#include "hammock/jit/to_backend.h"

#include "base/log.h"
#include "base/throw.h"
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

std::shared_ptr<const GraphBody> GraphOrNone(const Module& module, const std::string& method) {
  const Method* found = &module.method(method);
  bool is_graph = found->body || !found->forwards_to.empty();
  return is_graph ? WithTensors(module.graph_body(method), module) : nullptr;
}

}  // namespace

ModulePtr CloneTraced(Module& module, const AnyDict& spec, const LowerOptions& options,
                      Location at) {
  for (const auto& [method, example] : options.examples) {
    if (!spec.contains(method)) {
      Throw(ErrorCode::kUnknownName,
            "to_backend: example arguments are given for '{}', which is not in the compile spec",
            method);
    }
  }
  std::vector<Method> traced;
  for (const auto& [name, unused] : spec) {
    const Method& method = module.method(name);
    auto example = options.examples.find(name);
    if (!method.code || example == options.examples.end()) continue;
    Method graph{.schema = method.schema};
    graph.body = std::make_shared<const GraphBody>(
        TraceMethod(module, method, example->second.args, example->second.trace, at));
    traced.push_back(std::move(graph));
  }
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
  PreprocessOf(name);
  CheckBackendExists(name);
  for (const auto& [method, unused] : method_compile_spec) module.method(method);
  ModulePtr wrapper = CloneTraced(module, method_compile_spec, options, at);
  LowerMethods(name, *wrapper, method_compile_spec);
  return wrapper;
}

ModulePtr to_backend_selective(Module& module, const std::function<ModulePtr(Module&)>& lower,
                               const std::vector<std::string>& paths) {
  for (const std::string& path : paths) module.get_submodule(path);
  ModulePtr copy = ModuleAccess::PlainClone(module);
  for (const std::string& path : paths) {
    CheckNotInlined(*copy, path);
    copy->replace_submodule(path, lower(*copy->get_submodule(path)));
  }
  return copy;
}

std::string BackendOf(const Module& module) {
  const auto* lowered = dynamic_cast<const LoweredModule*>(&module);
  return lowered ? lowered->backend() : "";
}

}  // namespace hammock::jit
