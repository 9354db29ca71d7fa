// hammock compile, hammock inspect: archives with machine code.

#include <iostream>

#include "commands.h"
#include "hammock/jit/compile_ahead.h"
#include "model_file.h"

namespace hammock::tool {

int Compile(const CompileOptions& options) {
  jit::compile_ahead(*LoadModule(options.model), options.output);
  std::cout << jit::describe_archive(options.output);
  return 0;
}

int Inspect(const InspectOptions& options) {
  std::cout << jit::describe_archive(options.archive);
  return 0;
}

}  // namespace hammock::tool
