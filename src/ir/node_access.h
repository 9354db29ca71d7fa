#pragma once
/// The parts of Node that only tracing and the executor use.

#include <bit>
#include <memory>
#include <new>
#include <vector>

#include "base/pool.h"
#include "hammock/error.h"
#include "hammock/host_tensor.h"
#include "hammock/ir/node.h"
#include "hammock/random.h"

namespace hammock {

/// A step that failed as a whole: which of its ops is to blame is not known.
struct FailedStep {
  std::shared_ptr<const Error> error;
  size_t outputs = 0;  ///< how many nodes it was to compute
};

/// Fields that only a few nodes have, besides their slots.
struct LeafPayload {
  HostTensor host;                     ///< a leaf's value as long as it is not on its device
  std::shared_ptr<const Error> error;  ///< why this op failed: belongs to every value that needs it
  std::shared_ptr<const FailedStep> failed_step;  ///< that was to compute this node among others
  std::shared_ptr<Generator> generator;           ///< of random state drawn from an explicit one
  std::shared_ptr<struct WriteUnit> unit;         ///< unsettled, that wrote this value in place
  std::vector<BackendDataPtr> dropped;            ///< what a unit that was undone had computed
  bool undone = false;                            ///< `error` stays: the operands may be gone
  bool donated = false;                           ///< its data was given away

  /// Values that a step writes in place have one: its memory is that of nodes.
  static void* operator new(size_t bytes) { return pool::Allocate(bytes); }
  static void operator delete(void* memory, size_t bytes) { pool::Free(memory, bytes); }
};

struct NodeAccess {
  static constexpr uint32_t kIsView = 1;   // shape-only: recomputed rather than kept as an output
  static constexpr uint32_t kClaimed = 2;  // one reference is that of the step that computes it
  static constexpr uint32_t kBaked = 4;    // a leaf that the last walk made a constant

  /// Uninitialised but for counts and layout; the caller fills operands, attributes, slots, hash.
  static Node* Allocate(const OpDef& op, uint32_t operands, uint32_t attrs, uint32_t outputs) {
    size_t slots_at = sizeof(Node) + operands * sizeof(Node::Operand) + attrs * sizeof(Attr);
    size_t bytes = slots_at + outputs * sizeof(Node::Slot);
    Node* node = new (pool::Allocate(bytes)) Node();
    node->op_ = &op;
    node->num_operands_ = node->operand_capacity_ = static_cast<uint16_t>(operands);
    node->num_attrs_ = static_cast<uint16_t>(attrs);
    node->num_outputs_ = static_cast<uint16_t>(outputs);
    node->slots_offset_ = static_cast<uint32_t>(slots_at);
    return node;
  }
  /// As Node::Make, of operands that are borrowed; absent ones have no node.
  static NodePtr Make(const OpDef& op, std::span<const Node::Operand> operands,
                      std::span<const Attr> attrs, std::span<const Shape> shapes, DeviceId device,
                      LocationId location);
  /// A node with the op, attributes, types and hash of `model`, of as many operands, borrowed.
  static NodePtr MakeLike(const Node& model, const Node::Operand* operands, DeviceId device,
                          LocationId location) {
    Node* node = new (pool::Allocate(BytesOf(model))) Node();
    node->op_ = model.op_;
    node->hash_ = model.hash_;
    node->num_operands_ = node->operand_capacity_ = model.num_operands_;
    node->num_attrs_ = model.num_attrs_;
    node->num_outputs_ = model.num_outputs_;
    node->slots_offset_ = model.slots_offset_;
    node->leaf_ = model.leaf_;
    node->device_ = device;
    node->location_ = location;
    auto* attrs = reinterpret_cast<Attr*>(
        AddOperands(node->operand_array(), {operands, model.num_operands_}));
    auto* slot = reinterpret_cast<Node::Slot*>(
        std::uninitialized_copy_n(model.attr_array(), model.num_attrs_, attrs));
    const Node::Slot* from = model.slots();
    for (const Node::Slot* end = from + model.num_outputs_; from != end; ++from) {
      new (slot++) Node::Slot(from->shape);
    }
    return NodePtr::Adopt(node);
  }
  static size_t BytesOf(const Node& node) {
    return node.slots_offset_ + node.num_outputs_ * sizeof(Node::Slot);
  }
  static Node::Operand* operands(Node* node) { return node->operand_array(); }
  static Attr* attrs(Node* node) { return node->attr_array(); }
  static void SetDevice(Node* node, DeviceId device) { node->device_ = device; }
  static void SetLocation(Node* node, LocationId location) { node->location_ = location; }
  static void SetLeaf(Node* node) { node->leaf_ = true; }
  static void SetHash(Node* node, const Hash128& hash) { node->hash_ = hash; }
  static uint32_t& flags(Node* node) { return node->flags_; }
  static uint32_t& epoch(Node* node) { return node->epoch_; }
  static uint32_t& walk_index(Node* node) { return node->walk_index_; }
  static uint32_t& walk_uses(Node* node) { return node->walk_uses_; }
  /// Gives up a reference; true if it was the last one. Whose reference is the only one needs no
  /// locked instruction to give it up: nobody is left to take another.
  static bool Release(Node* node) {
    return node->references_.load(std::memory_order_acquire) == 1 ||
           node->references_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  static void Drop(Node* node) {
    if (Release(node)) Node::Destroy(node);
  }
  static void Destroy(Node* node) { Node::Destroy(node); }
  static LeafPayload* payload(const Node* node) { return node->payload_; }
  static LeafPayload& MakePayload(Node* node) {
    if (!node->payload_) node->payload_ = new LeafPayload;
    return *node->payload_;
  }
  /// Moves the operands out, so that they can be dropped outside the graph mutex.
  static void TakeOperands(Node* node, std::vector<Node*>& out) {
    for (uint32_t i = 0; i < node->num_operands_; ++i) {
      if (node->operand_array()[i].node) out.push_back(node->operand_array()[i].node);
    }
    node->num_operands_ = 0;
  }

 private:
  static Node* MakeWithoutSlots(const OpDef& op, std::span<const Node::Operand> operands,
                                std::span<const Attr> attrs, uint32_t outputs) {
    Node* node = Allocate(op, static_cast<uint32_t>(operands.size()),
                          static_cast<uint32_t>(attrs.size()), outputs);
    Node::Operand* end = AddOperands(node->operand_array(), operands);
    std::uninitialized_copy(attrs.begin(), attrs.end(), reinterpret_cast<Attr*>(end));
    return node;
  }
  /// Writes borrowed operands, which are then referred to; where they end.
  static Node::Operand* AddOperands(Node::Operand* to, std::span<const Node::Operand> operands) {
    for (const Node::Operand& each : operands) {
      if (each.node) each.node->AddReference();
      *to++ = each;
    }
    return to;
  }
  static Hash128 HashOfCall(const OpDef& op, std::span<const Attr> attrs,
                            std::span<const Shape> shapes);
};

inline Hash128 HashType(Hash128 hash, const Shape& shape) {
  uint64_t type = static_cast<uint64_t>(shape.dtype()) << 8 | static_cast<uint64_t>(shape.rank());
  for (int64_t size : shape.sizes()) {
    type = (std::rotl(type, 29) ^ static_cast<uint64_t>(size)) * 0x9e3779b97f4a7c15;
  }
  return Combine(hash, type);
}

}  // namespace hammock
