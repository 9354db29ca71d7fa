#pragma once
/// Modules in archives. Note [Modules in archives]
///
/// Section `tensors` has the type of each tensor; its elements are section `data/<number>`, which a
/// reader maps. Section `module` is the tree: of each module its class, flags, tensors by number,
/// attributes, methods and children. A module that is not plain has a kind and a state instead of
/// attributes, and is restored by whoever made it. Sections `native/...` hold machine code.

#include <memory>
#include <string>

#include "hammock/module.h"
#include "module/archive.h"

namespace hammock {

/// The sections of a module. Reads its tensors, which live as long as the result.
ArchiveWriter WriteModule(const Module& module);

// ---- Defined in src/jit, which this folder does not know.

/// A saved module that is not plain: the methods' schemas and the state that it saved.
struct SavedModule {
  std::string kind;
  std::string class_name;
  Any state;
  std::vector<Method> methods;
};
/// A module of a kind that delegates make; ValueError (kParse) for an unknown one.
ModulePtr RestoreModule(const SavedModule& saved);

using RestoreFn = ModulePtr (*)(const SavedModule&);
ModulePtr ReadModule(const std::shared_ptr<const Archive>& archive, const Device& device,
                     RestoreFn restore = RestoreModule);

}  // namespace hammock
