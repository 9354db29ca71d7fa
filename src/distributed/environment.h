#pragma once
/// The place of this process among others, as launchers say it in the environment.

#include <functional>
#include <optional>
#include <string>

namespace hammock::distributed {

struct Environment {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::string job = {};       ///< the same on all ranks of a job, as far as the launcher says
  std::string launcher = {};  ///< "torchrun", "Slurm", ...; empty: none
};

using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// The first launcher whose variables are there: torchrun (and `hammock launch`), Open MPI, PMI
/// (MPICH), Slurm. ValueError where what they say makes no sense.
Environment ReadEnvironment(const Lookup& lookup);
Environment ReadEnvironment();

}  // namespace hammock::distributed
