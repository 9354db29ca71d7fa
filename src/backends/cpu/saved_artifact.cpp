#include "backends/cpu/saved_artifact.h"

#include <fmt/format.h>

#include "backends/cpu/code/code_cache.h"
#include "backends/cpu/code/kernel_code.h"
#include "backends/cpu/matmul/matmul_kernel.h"
#include "backends/cpu/sized_program.h"
#include "base/throw.h"

namespace hammock::cpu {
namespace {

void AddCodeOf(const std::vector<std::shared_ptr<KernelCode>>& kernels, SavedArtifact& artifact) {
  KernelCode::WaitFor(kernels);
  for (const std::shared_ptr<KernelCode>& kernel : kernels) {
    std::shared_ptr<const LoadedCode> code = kernel->code();
    if (!code) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "cpu: there is no code of a kernel to save: {}",
                          LlvmCompiler::WhyAbsent());
    }
    std::string& saved = artifact.code[CodeKey(ToText(kernel->kernel()), {})];
    if (saved.empty()) saved = SerializeCode(code->blob());
  }
}

}  // namespace

std::string ProgramFingerprint() {
  return fmt::format("{}onednn {}", CodeKey("", {}), OneDnnVersion());
}

std::string SaveArtifact(const Program& program) {
  SavedArtifact artifact = SaveProgram(program);
  std::vector<std::shared_ptr<KernelCode>> kernels;
  program.AddKernels(kernels);
  if (program.by_size) {
    for (const auto& sized : program.by_size->all()) sized->AddKernels(kernels);
  }
  AddCodeOf(kernels, artifact);
  return artifact.ToBytes();
}

std::shared_ptr<Program> LoadArtifact(const lazy::Computation& computation,
                                      std::string_view bytes) {
  SavedArtifact artifact = SavedArtifact::Parse(bytes);
  std::vector<std::shared_ptr<const LoadedCode>> held;  // until kernels hold it
  for (const auto& [key, code] : artifact.code) held.push_back(AddCode(key, DeserializeCode(code)));
  return LoadProgram(computation, std::move(artifact), Target());
}

}  // namespace hammock::cpu
