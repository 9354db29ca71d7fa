#include "conform/rules.h"

#include "conform/check_functions.h"

namespace hammock::tool {
namespace {

constexpr auto kBronze = ConformLevel::kBronze;
constexpr auto kSilver = ConformLevel::kSilver;
constexpr auto kGold = ConformLevel::kGold;

constexpr ConformRule kRules[] = {
    {"loads", "interface", kBronze, "The plug-in loads, has a device and describes itself.", Loads},
    {"every_dtype", "data", kBronze,
     "Data of every dtype comes back bit for bit, empty and of rank 0 too.", KeepsEveryDType},
    {"batched_transfers", "data", kBronze, "Several values in one call keep their order.",
     UploadsAreCopies},
    {"memory_returns", "lifetime", kBronze, "Steps that are repeated leave no memory in use.",
     GivesMemoryBack},
    {"samples", "ops", kBronze,
     "Every op record's samples give the reference's values, equal bits lazily and eagerly, and "
     "right "
     "gradients.",
     SamplesAgree},
    {"random_programs", "programs", kBronze,
     "Random programs give the reference's results and gradients.", RunsRandomPrograms},
    {"odd_sizes", "sizes", kBronze,
     "Values without elements, of rank 0 and of size 1 are computed.", AcceptsOddSizes},
    {"bad_indices", "errors", kBronze,
     "An index out of range is an error of its value, and of no other.", RaisesBadIndices},
    {"donation", "contract", kBronze, "Only donated arguments are overwritten.",
     KeepsWhatIsNotDonated},
    {"memory_limit", "contract", kBronze,
     "Over its limit a device raises OutOfMemory, and recovers.", ObeysMemoryLimits},
    {"saved_computations", "contract", kBronze,
     "A saved computation loads and gives the same; a damaged one is refused.", SavesComputations},
    {"unregistering", "contract", kBronze,
     "Live data keeps the device registered; by force its values go to the host.", Unregisters},
    {"repeated_runs", "contract", kBronze, "An executable that runs again gives equal bits.",
     RepeatsRuns},
    {"own_memory", "contract", kBronze,
     "Results have memory of their own: apart from each other and from arguments.",
     GivesResultsMemory},
    {"copies", "data", kBronze, "A copy has the value, and keeps it when the original is written.",
     CopiesData},
    {"borrowed_arguments", "contract", kBronze,
     "What a call points to is read until it returns, and downloads write where they should.",
     BorrowsArguments},
    {"lent_memory", "contract", kBronze,
     "Memory that is shared keeps its elements, and memory that is lent can be borrowed again.",
     LendsMemory},
    {"memory_counts", "contract", kBronze,
     "Live data counts as in use, peak is not below it, and free_cached_memory keeps values.",
     CountsMemory},
    {"capabilities_repeat", "contract", kBronze,
     "Asked twice about a graph, `capabilities` answers the same.", RepeatsCapabilities},
    {"instances", "sizes", kBronze,
     "An executable of `instantiate` gives the bits of a compilation at that size.",
     InstancesAreCompilations},
    {"fingerprint", "contract", kBronze, "The fingerprint is the same after steps as before.",
     KeepsItsFingerprint},
    {"seeds", "contract", kBronze,
     "set_seed changes no value, and random integers are the reference's.", SeedsChangeNoValue},
    {"handles", "lifetime", kBronze,
     "Each handle is given once at a time and goes back once, and no memory stays behind.",
     GivesHandlesOnce},
    {"descriptions", "interface", kBronze, "Kernels that are described name nodes of the graph.",
     DescribesExecutables},
    {"all_primitives", "ops", kSilver,
     "Every primitive's samples run without the fallback device, with the reference's values.",
     RunsAllPrimitives},
    {"golden", "ops", kBronze,
     "Calls of a golden suite give the expected results: an installed sample, or --golden FOLDER.",
     ReplaysGoldenSuite},
    {"async_errors", "errors", kGold,
     "An error of a run that has returned is raised by each value that depends on it, and by no "
     "other.",
     KeepsErrorsWithValues},
    {"memory_pressure", "contract", kGold,
     "Close to its memory limit a device runs on; over it, it leaves nothing in use.",
     RunsCloseToItsLimit},
    {"failed_calls", "lifetime", kGold, "A call that fails keeps no memory.",
     KeepsNothingOfFailedCalls},
    {"shared_executable", "threads", kGold,
     "One executable gives each of several threads its own results.", SharesExecutables},
    {"threads", "threads", kGold, "Threads that use the device at once get their own results.",
     ServesThreads},
    {"faults", "faults", kGold,
     "After a fault in any call of the table, the same program runs, and no value is lost.",
     SurvivesFaults},
};

}  // namespace

std::span<const ConformRule> ConformRules() { return kRules; }

}  // namespace hammock::tool
