#pragma once
/// A mapped function while it is traced, for one sample that stands for all. What it records are
/// ordinary nodes on ordinary devices, whose inputs have no value; so views, writes and errors are
/// those of any other function.

#include <memory>
#include <unordered_map>
#include <vector>

#include "autograd/custom_call.h"
#include "hammock/ir/node.h"
#include "hammock/random.h"
#include "hammock/vmap.h"
#include "trace/hooks.h"

namespace hammock {

/// Histories of a node's operands when it was recorded.
struct NodeHistory {
  NodePtr node;  // keeps the key of its map alive
  std::vector<TapePtr> tapes;
};

class MapTrace {
 public:
  /// `samples` receives the arguments of the traced function, and of those inside of it.
  MapTrace(int64_t size, Randomness randomness, std::vector<NodePtr>& samples);
  ~MapTrace();
  MapTrace(const MapTrace&) = delete;
  MapTrace& operator=(const MapTrace&) = delete;

  /// The function has returned: what is recorded from now on is not its.
  void Leave(const std::vector<NodePtr>& arguments = {});

  /// The histories with which a node was recorded; null if it has none.
  const NodeHistory* HistoryOf(const Node* node) const;
  /// Calls of functions with gradients of their own.
  const std::vector<std::shared_ptr<const CustomCall>>& customs() const { return customs_; }
  /// Whether a leaf is a random state that was drawn for each sample: the blocks from one sample's
  /// draw to the next one's; 0 if it is not.
  uint64_t StrideOf(const Node& node) const;

 private:
  friend void NoteHistory(MapTrace&, const Node&, const Operands&);
  friend void NoteCustom(MapTrace&, CustomCall);
  friend uint64_t RandomCopies();
  friend void NoteDraw(MapTrace&, const RandomDraw&, uint64_t);
  struct Draw {
    uint64_t seed, offset, stride;
  };

  std::vector<NodePtr>& samples_;
  const int64_t size_;
  const Randomness randomness_;
  MapTrace* const outer_;
  std::unordered_map<const Node*, NodeHistory> histories_;
  std::vector<std::shared_ptr<const CustomCall>> customs_;
  std::vector<Draw> draws_;
  bool entered_ = true;
};

}  // namespace hammock
