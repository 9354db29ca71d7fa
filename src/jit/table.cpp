/// The delegates that come with the library, and how saved modules become modules again.

#include "base/never_destroyed.h"
#include "base/throw.h"
#include "ir/class_table.h"
#include "jit/delegate_registry.h"
#include "jit/device_delegate.h"
#include "jit/lowered_module.h"

namespace hammock {

const std::vector<jit::Delegate>& jit::InTreeDelegates() {
  static const auto& delegates = NeverDestroyed<std::vector<Delegate>>(
      std::vector{DeviceDelegateOf("hammock", "cpu"), DeviceDelegateOf("reference", "reference")});
  return delegates;
}

std::vector<ClassDef> InTreeClasses() {
  std::vector<ClassDef> classes;
  for (const jit::Delegate& delegate : jit::InTreeDelegates()) {
    classes.push_back(jit::BackendClass(delegate.name, delegate.make));
  }
  return classes;
}

ModulePtr RestoreModule(const SavedModule& saved) {
  if (saved.kind == jit::LoweredModule::kKind) return jit::LoweredModule::Restore(saved);
  Throw(ErrorCode::kParse, "{}: this library knows no modules of the kind '{}'", saved.class_name,
        saved.kind);
}

}  // namespace hammock
