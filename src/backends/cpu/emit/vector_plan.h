#pragma once
/// VectorPlan: how the loops of a kernel are cut into vectors.
///
/// A vector of the emitted code is longer than one of the processor where a loop's body is short:
/// LLVM cuts each of its operations into several, which then wait for their operands side by side
/// instead of one after another. What is left at the end of a row is done by short vectors, with
/// masks.

#include <vector>

#include "hammock/compiler/kernel.h"

namespace hammock::cpu {

inline constexpr int kShortLanes = 16;  ///< of vectors with masks; the least of all others
inline constexpr int kMostLanes = 64;

class VectorPlan {
 public:
  explicit VectorPlan(const compiler::Kernel& kernel);

  /// Whether it is part of the loop of this stage.
  static bool InLoop(const compiler::Instr& instr, int stage);
  bool HasLoop(int stage) const { return stages_[stage].size > 0; }
  bool Reduces(int stage) const { return stages_[stage].reduces; }
  /// Whether its loop has polynomials, beside which memory has little to do.
  bool IsHeavy(int stage) const { return stages_[stage].heavy; }
  /// Of the vectors without masks in the loop of a stage, 16 to 64. Where lanes lie along rows, the
  /// same for all stages.
  int lanes(int stage) const { return stages_[stage].lanes; }
  /// All lanes that occur.
  const std::vector<int>& widths() const { return widths_; }

 private:
  struct Stage {
    int size = 0;  // instructions
    bool reduces = false;
    bool heavy = false;
    int lanes = kShortLanes;
  };
  std::vector<Stage> stages_;
  std::vector<int> widths_;
};

}  // namespace hammock::cpu
