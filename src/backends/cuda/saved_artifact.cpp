#include "backends/cuda/saved_artifact.h"

#include <fmt/format.h>

#include "backends/cuda/driver/libraries.h"
#include "backends/cuda/target.h"
#include "base/build_id.h"

namespace hammock::cuda {

std::string ProgramFingerprint(const Machine& machine) {
  return fmt::format("cuda {} on {}, {}, {}", BuildId(), machine.name(), machine.code_key(),
                     LibraryVersions());
}

std::string SaveArtifact(const Program& program, Machine& machine) {
  SavedArtifact artifact = SaveProgram(program);
  artifact.code = machine.SaveCode(program.Sources());
  artifact.algorithms = machine.SaveAlgorithms();
  return artifact.ToBytes();
}

std::shared_ptr<Program> LoadArtifact(const lazy::Computation& computation, std::string_view bytes,
                                      const std::shared_ptr<Machine>& machine) {
  SavedArtifact artifact = SavedArtifact::Parse(bytes);
  machine->AddCode(std::move(artifact.code));
  machine->AddAlgorithms(artifact.algorithms);
  return LoadProgram(computation, std::move(artifact), Target{machine});
}

}  // namespace hammock::cuda
