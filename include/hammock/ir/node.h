#pragma once
/// Node and Value: the traced form. A Node is immutable but for its slots, which receive the data
/// of its outputs when they are computed. Intrusively counted; freed without recursion; a chain of
/// a million is fine.
///
/// Who may touch what: op, operands, attributes, types, hash and location never change after
/// creation and may be read by any thread that holds a reference. Slots, operand release and walk
/// marks belong to the executor and are guarded by its mutex (see Note [Graph mutex] in
/// src/runtime/step/executor.h).

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "hammock/export.h"
#include "hammock/ir/attr.h"
#include "hammock/ir/device_id.h"
#include "hammock/ir/hash.h"
#include "hammock/ir/op_def.h"
#include "hammock/ir/shape.h"
#include "hammock/location.h"

namespace hammock {

namespace lazy {
class BackendData;
}
using BackendDataPtr = std::shared_ptr<lazy::BackendData>;

class Node;
struct LeafPayload;

/// Owning reference to a node.
class HAMMOCK_API NodePtr {
 public:
  NodePtr() = default;
  /// Takes over one reference.
  static NodePtr Adopt(Node* node) {
    NodePtr result;
    result.node_ = node;
    return result;
  }
  explicit NodePtr(Node* node);
  NodePtr(const NodePtr& other) : NodePtr(other.node_) {}
  NodePtr(NodePtr&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodePtr& operator=(NodePtr other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodePtr();
  Node* get() const { return node_; }
  Node* operator->() const { return node_; }
  Node& operator*() const { return *node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const NodePtr&) const = default;
  Node* release() { return std::exchange(node_, nullptr); }

 private:
  Node* node_ = nullptr;
};

class TapeEntry;

/// Owning reference to what the tape holds of a value's history; null where no gradient is wanted.
class HAMMOCK_API TapePtr {
 public:
  TapePtr() = default;
  /// Takes over one reference.
  static TapePtr Adopt(TapeEntry* entry) {
    TapePtr result;
    result.entry_ = entry;
    return result;
  }
  TapePtr(const TapePtr& other) : entry_(other.entry_) {
    if (entry_) [[unlikely]]
      AddReference(entry_);
  }
  TapePtr(TapePtr&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  TapePtr& operator=(TapePtr other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~TapePtr() {
    if (entry_) [[unlikely]]
      DropReference(entry_);
  }
  TapeEntry* get() const { return entry_; }
  TapeEntry* operator->() const { return entry_; }
  explicit operator bool() const { return entry_ != nullptr; }
  bool operator==(const TapePtr&) const = default;

 private:
  static void AddReference(TapeEntry* entry);
  static void DropReference(TapeEntry* entry);
  TapeEntry* entry_ = nullptr;
};

/// One output of a node, owning, with its history. Empty for an absent optional operand.
struct HAMMOCK_API Value {
  NodePtr node;
  uint32_t index = 0;
  TapePtr tape{};

  explicit operator bool() const { return static_cast<bool>(node); }
  const Shape& shape() const;
  /// The same output, whatever history it was reached by.
  bool operator==(const Value& other) const { return node == other.node && index == other.index; }
};

/// One output of a node, borrowing.
struct Output {
  const Node* node = nullptr;
  uint32_t index = 0;
  bool operator==(const Output&) const = default;
};

class HAMMOCK_API Node {
 public:
  struct Operand {
    Node* node;
    uint32_t index;
  };
  struct Slot {
    explicit Slot(const Shape& shape) : shape(shape) {}
    Shape shape;
    BackendDataPtr data;  ///< set when claimed by a step; guarded by the graph mutex
  };

  /// Makes a node with a count of one. Operands may be empty Values. `shapes` has one entry per
  /// output.
  static NodePtr Make(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
                      std::span<const Shape> shapes, DeviceId device, LocationId location);

  const OpDef& op() const { return *op_; }
  DeviceId device() const { return device_; }
  LocationId location() const { return location_; }
  /// Over op, attributes and output types; not operands.
  const Hash128& hash() const { return hash_; }
  int num_outputs() const { return num_outputs_; }
  const Shape& shape(int output = 0) const { return slots()[output].shape; }
  std::span<const Operand> operands() const { return {operand_array(), num_operands_}; }
  std::span<const Attr> attrs() const { return {attr_array(), num_attrs_}; }
  const Attr& attr(std::string_view name) const;
  /// "f32[2,3] add(...)": op, types and attributes on one line.
  std::string to_string() const;
  /// Device data, a lifted scalar or random state.
  bool IsLeaf() const { return leaf_; }

  // For the executor.
  Slot* slots() { return reinterpret_cast<Slot*>(reinterpret_cast<char*>(this) + slots_offset_); }
  const Slot* slots() const { return const_cast<Node*>(this)->slots(); }
  uint32_t references() const { return references_.load(std::memory_order_acquire); }
  /// Drops the operands once every output has its data. Frees without recursion.
  void ReleaseOperands();

  void AddReference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void DropReference() {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy(this);
  }

 private:
  friend struct NodeAccess;  // src/ir/node_access.h: the fast tracing path and the executor's marks
  Node() = default;
  ~Node() = default;
  static void Destroy(Node* node);
  Operand* operand_array() { return reinterpret_cast<Operand*>(this + 1); }
  const Operand* operand_array() const { return reinterpret_cast<const Operand*>(this + 1); }
  Attr* attr_array() { return reinterpret_cast<Attr*>(operand_array() + operand_capacity_); }
  const Attr* attr_array() const { return const_cast<Node*>(this)->attr_array(); }

  const OpDef* op_ = nullptr;
  std::atomic<uint32_t> references_{1};
  LocationId location_ = 0;
  Hash128 hash_{};
  uint16_t num_operands_ = 0;      // 0 once released
  uint16_t operand_capacity_ = 0;  // as allocated
  uint16_t num_attrs_ = 0;
  uint16_t num_outputs_ = 0;
  uint32_t slots_offset_ = 0;
  DeviceId device_ = kNoDevice;
  bool leaf_ = false;
  // Walk marks, guarded by the graph mutex.
  uint32_t epoch_ = 0;
  uint32_t walk_index_ = 0;
  uint32_t walk_uses_ = 0;
  uint32_t flags_ = 0;
  LeafPayload* payload_ = nullptr;  // host data of a leaf, or the error of a failed op
};

inline NodePtr::NodePtr(Node* node) : node_(node) {
  if (node_) node_->AddReference();
}
inline NodePtr::~NodePtr() {
  if (node_) node_->DropReference();
}
inline const Shape& Value::shape() const { return node->shape(static_cast<int>(index)); }

}  // namespace hammock
