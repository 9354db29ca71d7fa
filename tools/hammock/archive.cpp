// hammock compile, hammock inspect: archives with machine code.

#include <iostream>

#include "commands.h"
#include "hammock/error.h"
#include "hammock/jit/compile_ahead.h"
#include "hammock/onnx.h"
#include "hammock/ops.h"
#include "model_file.h"

namespace hammock::tool {

namespace {

/// An ONNX file whose `forward` is a graph of the sizes of these inputs and made-up ones.
ModulePtr TracedOnInputs(const CompileOptions& options) {
  if (!IsOnnx(options.model)) {
    throw ValueError(ErrorCode::kValue, "--input: the sizes of " + options.model + " are fixed");
  }
  Model model = LoadModel(options.model, Needs::kForward, options.onnx);
  std::vector<Any> examples;
  for (const HostTensor& host : LoadInputs(model, {.files = options.inputs, .random = true})) {
    examples.emplace_back(from_host(host));
  }
  onnx::trace(*model.module, examples, {.free = false});
  return model.module;
}

}  // namespace

int Compile(const CompileOptions& options) {
  ModulePtr module = options.inputs.empty() ? LoadModule(options.model, options.onnx.fixed)
                                            : TracedOnInputs(options);
  if (options.inputs.empty()) TraceFree(options.model, *module, ParseDims(options.onnx.dims));
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
