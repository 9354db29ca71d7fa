/// Archives with compiled computations: compile_ahead writes them, load_module reads them.

#include "hammock/jit/compile_ahead.h"

#include "base/throw.h"
#include "hammock/caller_scope.h"
#include "hammock/jit/to_backend.h"
#include "jit/saved_computations.h"
#include "module/module_io.h"

namespace hammock {

void jit::compile_ahead(Module& module, const std::string& path, const LowerOptions& options,
                        Location at) {
  CallerScope caller(at);
  AnyDict spec;
  for (const Method& method : module.methods()) {
    bool has_graph = method.body || options.examples.contains(method.schema.name());
    if (has_graph) spec[method.schema.name()] = AnyDict();
  }
  if (spec.empty()) {
    Throw(ErrorCode::kValue, "compile: {} has no method that is a graph", module.class_name());
  }
  SavedComputations computations;
  computations.writes = true;
  ModulePtr lowered = to_backend("hammock", module, spec, options);
  ArchiveWriter archive = WriteModule(*lowered);
  computations.WriteTo(archive);
  archive.Save(path);
}

ModulePtr load_module(const std::string& path, const LoadOptions& options, Location at) {
  LocationScope scope(at);
  std::shared_ptr<const Archive> archive = Archive::Open(path);
  jit::SavedComputations computations;
  computations.ReadFrom(*archive, options);
  return ReadModule(archive, options.device);
}

}  // namespace hammock
