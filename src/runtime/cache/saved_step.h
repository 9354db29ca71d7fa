#pragma once
/// Compiled steps in files of `cache_dir`, for other processes.
///
/// Note [Saved steps]: an entry is found by the traced graph, with its ops by name and version, the
/// values of all options that affect code, and the fingerprint of the device; those of the other
/// devices that a part of the step runs on are compared when it is loaded. It holds the segments
/// with what their backends serialise, so that nothing is lowered and nothing compiled. A general
/// step is found by its graph without the sizes. Steps are saved by a thread of its own, when their
/// code is there. A process that ends waits for it as long as for steps; process_exit::kLimit.
///
/// Nothing here fails: a file that cannot be read, is damaged, or of another build or device is
/// counted and is as good as none.

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "runtime/cache/computation_cache.h"
#include "runtime/cache/general_step.h"

namespace hammock {

/// Whether there is a directory for them.
bool SavesSteps();

/// Without its key; null if there is none that fits.
CompiledStepPtr LoadStep(DeviceEntry& device, const Graph& traced,
                         std::span<const std::string> devices);
void SaveStep(CompiledStepPtr step, const Graph& traced, std::span<const std::string> devices);

/// A step that `make` makes of a saved general step whose rule gives `sizes`, the sizes of the
/// traced graph; it lacks the fields that follow from that graph and its key. Null where `make`
/// returns null for all of them.
CompiledStepPtr LoadInstance(
    DeviceEntry& device, const Graph& traced, std::span<const int64_t> sizes,
    std::span<const std::string> devices,
    const std::function<CompiledStepPtr(const std::shared_ptr<GeneralStep>&)>& make);
void SaveGeneral(DeviceEntry& device, std::shared_ptr<GeneralStep> general, const Graph& traced,
                 std::span<const std::string> devices);

/// A computation outside of steps, such as a delegate's: from a file, or compiled and saved.
lazy::ComputationPtr LoadOrCompile(DeviceEntry& device, Graph graph);

/// Returns when all steps are saved.
void WaitForSavedSteps();

}  // namespace hammock
