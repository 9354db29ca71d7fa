#include "backends/cuda/saved_artifact.h"

#include <fmt/format.h>

#include "backends/cuda/driver/libraries.h"
#include "backends/cuda/sized_programs.h"
#include "base/build_id.h"

namespace hammock::cuda {

std::string ProgramFingerprint(const Machine& machine) {
  return fmt::format("cuda {} on {}, {}, {}", BuildId(), machine.name(), machine.code_key(),
                     LibraryVersions());
}

std::string SaveArtifact(const Program& program, Machine& machine) {
  SavedArtifact artifact;
  artifact.code = machine.SaveCode(program.Sources());
  artifact.algorithms = machine.SaveAlgorithms();
  if (!program.is_sized()) artifact.program = program.Save();
  if (program.by_size) artifact.sizes = program.by_size->Save();
  return artifact.ToBytes();
}

std::shared_ptr<Program> LoadArtifact(const lazy::Computation& computation, std::string_view bytes,
                                      const std::shared_ptr<Machine>& machine) {
  SavedArtifact artifact = SavedArtifact::Parse(bytes);
  machine->AddCode(std::move(artifact.code));
  machine->AddAlgorithms(artifact.algorithms);
  std::shared_ptr<ProgramsBySize> by_size;
  if (!computation.graph().dim_params.empty()) {
    by_size =
        std::make_shared<ProgramsBySize>(computation.graph(), computation.derived_sizes, machine);
    for (const SavedSizes& sizes : artifact.sizes) by_size->Add(sizes);
  }
  std::shared_ptr<Program> program = artifact.program
                                         ? std::make_shared<Program>(*artifact.program, machine)
                                         : by_size->At(computation.sizes());
  program->by_size = by_size;
  return program;
}

}  // namespace hammock::cuda
