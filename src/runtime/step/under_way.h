#pragma once
/// Steps that an asynchronous backend has started and that are not known to have succeeded: what
/// they need no longer, and what others may overwrite although they still refer to it.
///
/// Note [Readers under way]: a step under way keeps its operands, so that its values can be
/// computed again if it fails. Another step may overwrite such an operand nevertheless, where the
/// backend keeps donated memory on failure: it gets a result of the reader as one more argument,
/// behind its parameters. So it comes behind the reader; and if that has failed, it writes nothing
/// and is rolled back, and both are computed again when they are needed. The step that made the
/// operand is such a reader too, if it went on to use it, as the one before in a loop that updates
/// a cache and then reads it.

#include <optional>
#include <span>
#include <vector>

#include "hammock/ir/node.h"
#include "hammock/lazy/backend_data.h"
#include "runtime/step/executor.h"

namespace hammock {

// ---- A step that has succeeded lets go of what it held, on a thread of the backend.
void BeginSettling(DeviceEntry& device);  ///< with the graph mutex held
void EndSettling(DeviceEntry& device);
/// With the graph mutex held, which is free meanwhile: waits until no step is letting go, since who
/// looks what others hold would find what nobody needs. Not for long: letting go may run code of
/// users, which may wait for this thread.
void AwaitSettling(const DeviceEntry& device, GraphLock& lock);

/// With the graph mutex held: memory of outputs that nobody refers to any more, such as gradients
/// that were set to zero meanwhile. It would be held until their steps are known to have succeeded,
/// and with many steps under way so would much.
std::vector<BackendDataPtr> TakeUnused(DeviceEntry& device);

/// Which arguments a step may overwrite: those that nobody else holds, and those that only readers
/// under way hold besides. With the graph mutex held.
class DyingArguments {
 public:
  explicit DyingArguments(Step& step);

  /// Argument `i` dies with the step if only `references` refer to its node, and to its data only
  /// the node's slot and the step.
  void Add(size_t i, Node* node, const BackendDataPtr& slot, uint32_t references);
  /// Whether others hold some of them.
  bool has_held() const { return !held_.empty(); }
  /// Has the step come behind readers under way of arguments that nobody else holds. Marks of walks
  /// are overwritten. `remembered`, sorted, are the values that are worth it.
  void AddReaders(std::span<const Node* const> remembered);

 private:
  struct Held {
    size_t number;
    Node* node;
    const lazy::BackendData* data;
    uint32_t references;
  };
  struct Share;
  size_t MadeBy(const Step& step) const;
  std::optional<Share> ShareOf(const Step& reader, bool makes) const;

  Step& step_;
  const bool may_wait_;     // there are readers, and the backend keeps what is donated
  std::vector<Held> held_;  // that others refer to
};

}  // namespace hammock
