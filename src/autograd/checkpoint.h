#pragma once
/// Checkpoints: a region whose saved values are dropped and computed again when the backward pass
/// first asks for one of them. The region is traced once more in the same order, so the n-th entry
/// of the second trace saves what the n-th of the first would have.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hammock/autograd.h"
#include "hammock/distributed/random_part.h"
#include "hammock/ir/node.h"
#include "hammock/random.h"

namespace hammock {

/// The values that an entry saves: its operands, then its results, as far as the gradient reads
/// them.
using SavedValues = std::vector<Value>;

/// Shared by the entries of a region.
class CheckpointRecord : public std::enable_shared_from_this<CheckpointRecord> {
 public:
  CheckpointRecord(TensorsFn fn, const std::vector<Tensor>& inputs);
  /// The values that entry `number` saves; traces the region again if it must. `grads` are those
  /// that arrive at the entry: the region is not computed before they are, nor taken for the first
  /// one.
  SavedValues Restore(size_t number, const std::vector<Tensor>& grads);

 private:
  friend class CheckpointRegion;
  TensorsFn fn_;
  std::vector<Value> inputs_;
  std::optional<DType> autocast_;                            // of the first trace
  std::vector<distributed::RandomPart::Part> random_parts_;  // of it
  size_t entries_ = 0;                                       // of it
  std::vector<std::optional<SavedValues>> saved_;
  std::vector<std::pair<uint64_t, uint64_t>> draws_;  // random state of the first trace, in order
};

/// A region while it is being traced.
class CheckpointRegion {
 public:
  /// `again`: the region was traced before and is now traced for what its entries save.
  CheckpointRegion(CheckpointRecord& record, bool again);
  ~CheckpointRegion();
  CheckpointRegion(const CheckpointRegion&) = delete;
  CheckpointRegion& operator=(const CheckpointRegion&) = delete;

  /// Takes what the next entry saves and returns the entry's number.
  size_t Add(SavedValues saved);
  std::pair<uint64_t, uint64_t> Draw(Generator& generator, uint64_t blocks);
  CheckpointRecord& record() { return record_; }

 private:
  CheckpointRecord& record_;
  bool again_;
  size_t entries_ = 0;
  size_t draws_ = 0;
  CheckpointRegion* outer_;
};

}  // namespace hammock
