#pragma once
/// Which outputs may take the memory of which inputs, in a run that the inputs are donated to.

#include <span>
#include <vector>

#include "hammock/compiler/schedule.h"

namespace hammock::compiler {

/// An output may take the memory of an input of the same size if nothing reads the input once the
/// output is written, and nothing can fail any more by then. Immutable.
///
/// Inputs of one size that die before a command are a prefix of those sorted by their last reader,
/// so the pairs are never listed: building this and matching outputs to inputs are linear but for a
/// logarithm.
class HAMMOCK_API DonationPlan {
 public:
  DonationPlan() = default;
  /// That no output takes part in.
  explicit DonationPlan(size_t outputs) : output_count_(outputs) {}
  /// `group_last`: for each command the last of those that may run at the same time; empty where
  /// each runs alone. `may_write`: by command, whether it may write into memory of inputs; empty:
  /// all may.
  DonationPlan(const Graph& graph, const Schedule& schedule, const std::vector<int>& group_last,
               const std::vector<bool>& may_write = {});

  /// By output: the input whose memory it takes, or -1. `donated`: by input, whether this run may
  /// write into it; inputs behind its end are not. Each input is taken once, and as many outputs
  /// take one as can; those that an input is updated to come first, since they live on as it did.
  std::vector<int> Match(const std::vector<bool>& donated) const;
  /// Whether it matches the same, whatever is donated.
  bool operator==(const DonationPlan&) const = default;

 private:
  /// An output that is written by a command.
  struct Output {
    int number = -1;
    int pool = -1;
    int dead = 0;  // how many inputs of the pool are dead when it is written
    // In `inputs_`: those that its own command reads, each element before it is overwritten, and
    // behind them those of these that it is computed from.
    int first = 0, own = 0, updated = 0;
    bool operator==(const Output&) const = default;
  };
  std::span<const int> OwnOf(const Output& output) const;
  std::span<const int> UpdatedBy(const Output& output) const;
  struct Builder;

  size_t output_count_ = 0;
  std::vector<Output> outputs_;          // in the order in which they are written
  std::vector<int> inputs_;              // of the outputs
  std::vector<std::vector<int>> pools_;  // inputs of one size, by their last reader
};

}  // namespace hammock::compiler
