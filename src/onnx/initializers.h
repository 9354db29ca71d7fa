#pragma once
/// The tensors of a model file in a module.

#include "hammock/module.h"
#include "hammock/onnx.h"
#include "onnx/program.h"

namespace hammock::onnx {

/// Puts initialisers and the tensors of Constant nodes into the module, by their names, and fixes
/// the inputs that `options` names. The program loses their bytes, and the Constant nodes.
void AddInitializers(Program& program, Module& module, const LoadOptions& options);

}  // namespace hammock::onnx
