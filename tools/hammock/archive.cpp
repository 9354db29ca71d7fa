// hammock compile, hammock inspect: archives with machine code.

#include <iostream>

#include "commands.h"
#include "hammock/jit/compile_ahead.h"
#include "hammock/onnx.h"
#include "model_file.h"

namespace hammock::tool {

int Compile(const CompileOptions& options) {
  ModulePtr module = LoadModule(options.model);
  TraceFree(options.model, *module, ParseDims(options.dims));
  jit::compile_ahead(*module, options.output);
  std::cout << jit::describe_archive(options.output);
  return 0;
}

int Inspect(const InspectOptions& options) {
  std::cout << (IsOnnx(options.archive) ? onnx::describe(options.archive)
                                        : jit::describe_archive(options.archive));
  return 0;
}

}  // namespace hammock::tool
