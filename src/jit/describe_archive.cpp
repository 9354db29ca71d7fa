#include <fmt/format.h>

#include "base/bytes.h"
#include "hammock/jit/compile_ahead.h"
#include "jit/lowered_module.h"
#include "module/module_io.h"

namespace hammock::jit {
namespace {

/// A plain module that shows what was saved, so that no delegate is asked for anything.
ModulePtr ShowSaved(const SavedModule& saved) {
  auto module = std::make_shared<Module>(saved.class_name);
  module->set_attribute("__kind", saved.kind);
  module->set_attribute("__state", saved.state);
  for (Method method : saved.methods) {
    if (!method.body) method.code = [](Module&, const std::vector<Any>&) { return Any(); };
    module->define(std::move(method));
  }
  return module;
}

std::string DescribeMethod(const Method& method) {
  std::string text = method.schema.to_string();
  if (!method.forwards_to.empty()) return text + ", run by " + method.forwards_to;
  if (!method.body) return text;
  const Graph& graph = *method.body->graph;
  text += fmt::format(", a graph of {} nodes", graph.size());
  for (const DimParam& param : graph.dim_params) text += fmt::format(", {} free", param.name);
  return text;
}

void DescribeModule(std::string& out, const std::string& path, const Module& module) {
  out += fmt::format("{} ({})\n", path.empty() ? "top" : path, module.class_name());
  for (const auto& [name, tensor] : module.named_parameters(false, false)) {
    out += fmt::format("  parameter {}: {}\n", name, tensor.shape().to_string());
  }
  for (const auto& [name, tensor] : module.named_buffers(false, false)) {
    out += fmt::format("  buffer {}: {}\n", name, tensor.shape().to_string());
  }
  auto state = module.attributes().find("__state");
  if (state != module.attributes().end()) {
    out += fmt::format("  delegate {}, compile spec {}\n", state->second.ToList().at(0).to_string(),
                       state->second.ToList().at(2).ToList().at(0).to_string());
  }
  for (const Method& method : module.methods()) {
    bool hidden = method.schema.name().starts_with("__");
    if (!hidden) out += fmt::format("  method {}\n", DescribeMethod(method));
  }
  auto placement = module.attributes().find("__placement");
  if (placement == module.attributes().end()) return;
  for (const auto& [method, report] : placement->second.ToDict()) {
    out += fmt::format("  placement of {}\n", report.ToStringRef());
  }
}

}  // namespace

std::string describe_archive(const std::string& path, Location at) {
  LocationScope scope(at);
  std::shared_ptr<const Archive> archive = Archive::Open(path);
  ModulePtr module = ReadModule(archive, Device("reference"), ShowSaved);
  size_t weights = 0, native = 0;
  std::string made_for;
  for (const Archive::Section& section : archive->sections()) {
    if (section.name.starts_with("data/")) weights += section.bytes.size();
    if (!section.name.starts_with("native/")) continue;
    native += section.bytes.size();
    made_for = ByteReader(archive->what(), section.bytes).Text();
    made_for.resize(made_for.find_last_not_of(" \n") + 1);
  }
  std::string out = fmt::format("{}: version {}.{}, {} bytes of tensors\n", archive->what(),
                                archive->major(), archive->minor(), weights);
  if (native > 0) out += fmt::format("native code: {} bytes, made for {}\n", native, made_for);
  const Module& top = *module;
  for (const auto& [name, below] : top.named_modules()) DescribeModule(out, name, *below);
  return out;
}

}  // namespace hammock::jit
