#include "distributed/environment.h"

#include <charconv>
#include <cstdlib>

#include "base/throw.h"

namespace hammock::distributed {
namespace {

/// The variables of one launcher. Those of `job` that are set name the job together.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* job[4];
};

// Slurm comes last: mpirun inside of an allocation sets its own variables besides Slurm's.
constexpr Launcher kLaunchers[] = {
    {"torchrun",
     "RANK",
     "WORLD_SIZE",
     "LOCAL_RANK",
     {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"}},
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", {"PMI_JOBID", "HYDRA_JOBID"}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_NTASKS",
     "SLURM_LOCALID",
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
};

int Number(const char* name, const std::string& text) {
  int value = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0) return value;
  Throw(ErrorCode::kValue, "distributed: {} is '{}', needs a number from 0 on", name, text);
}

}  // namespace

Environment ReadEnvironment(const Lookup& lookup) {
  for (const Launcher& launcher : kLaunchers) {
    auto rank = lookup(launcher.rank), size = lookup(launcher.size);
    if (!rank || !size) continue;
    Environment found;
    found.launcher = launcher.name;
    found.rank = found.local_rank = Number(launcher.rank, *rank);
    found.size = Number(launcher.size, *size);
    if (auto local = lookup(launcher.local_rank)) {
      found.local_rank = Number(launcher.local_rank, *local);
    }
    if (found.rank >= found.size) {
      Throw(ErrorCode::kValue, "distributed: {} is {}, but {} is only {}", launcher.rank,
            found.rank, launcher.size, found.size);
    }
    for (const char* name : launcher.job) {
      auto part = name ? lookup(name) : std::nullopt;
      if (part) found.job += (found.job.empty() ? "" : "-") + *part;
    }
    return found;
  }
  return {};
}

Environment ReadEnvironment() {
  return ReadEnvironment([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  });
}

}  // namespace hammock::distributed
