#pragma once
/// Recording at the level of Values, below Tensor.

#include <memory>
#include <span>
#include <vector>

#include "hammock/ir/node.h"

namespace hammock {

class HostTensor;
class Tensor;

/// The operands of a node that is about to be recorded, with their types and histories; borrowed
/// from tensors or values that outlive the call.
class Operands {
 public:
  /// A value with its history.
  struct Borrowed {
    Borrowed(Node* node, uint32_t index, const TapePtr& tape)
        : node(node), index(index), tape(&tape) {}
    Borrowed(const Value& value) : Borrowed(value.node.get(), value.index, value.tape) {}  // NOLINT

    const Shape& shape() const { return node->shape(static_cast<int>(index)); }

    Node* node;  // null: absent
    uint32_t index;
    const TapePtr* tape;
  };
  explicit Operands(std::span<const Borrowed> values) : Operands(values.size()) {
    for (size_t i = 0; i < size_; ++i) Set(i, values[i].node, values[i].index, *values[i].tape);
  }
  explicit Operands(std::span<const Value> values);
  /// The present values of tensors; undefined ones are absent operands. `op` names the caller.
  Operands(const char* op, std::span<const Tensor> tensors);
  Operands(const char* op, std::span<const Tensor* const> tensors);
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  size_t size() const { return size_; }
  std::span<const Node::Operand> nodes() const { return {nodes_, size_}; }
  /// Null for an absent operand.
  std::span<const Shape* const> types() const { return {types_, size_}; }
  const TapePtr& tape(size_t i) const { return *tapes_[i]; }
  bool has_tape() const { return has_tape_; }
  /// Whether one of the tensors is a view.
  bool has_view() const { return has_view_; }

 private:
  static constexpr size_t kInline = 16;
  struct More;  // room for those that do not fit
  explicit Operands(size_t size) : size_(size) {
    if (size > kInline) [[unlikely]]
      MakeRoom();
  }
  void MakeRoom();
  void Set(size_t i, Node* node, uint32_t index, const TapePtr& tape) {
    nodes_[i] = {node, index};
    types_[i] = node ? &node->shape(static_cast<int>(index)) : nullptr;
    tapes_[i] = &tape;
    has_tape_ |= static_cast<bool>(tape);
  }

  void Set(size_t i, const char* op, const Tensor& tensor);

  size_t size_;
  bool has_tape_ = false;
  bool has_view_ = false;
  Node::Operand* nodes_ = inline_nodes_;
  const Shape** types_ = inline_types_;
  const TapePtr** tapes_ = inline_tapes_;
  Node::Operand inline_nodes_[kInline];
  const Shape* inline_types_[kInline];
  const TapePtr* inline_tapes_[kInline];
  std::unique_ptr<More> more_;
};

struct Operands::More {
  explicit More(size_t size) : nodes(size), types(size), tapes(size) {}
  std::vector<Node::Operand> nodes;
  std::vector<const Shape*> types;
  std::vector<const TapePtr*> tapes;
};

/// Infers types and makes a node; checks devices. Errors name the op and carry the location.
/// `device` is where a node goes whose operands are all lifted scalars; by default the default
/// device.
NodePtr RecordNode(const OpDef& op, const Operands& operands, std::span<const Attr> attrs,
                   LocationId location, DeviceId device = kNoDevice);
NodePtr RecordNode(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
                   LocationId location, DeviceId device = kNoDevice);
/// As RecordNode, with the history of the first output.
Value Record(const OpDef& op, const Operands& operands, std::span<const Attr> attrs,
             LocationId location, DeviceId device = kNoDevice);
Value Record(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
             LocationId location, DeviceId device = kNoDevice);
/// The model of a call (see known_calls.h) on operands of these types. Errors as of RecordNode.
NodePtr ModelOf(const OpDef& op, std::span<const Shape* const> types, std::span<const Attr> attrs,
                LocationId location);
/// As Record, of a view op by its model; `start` is its second operand or empty.
Value RecordView(const Node& model, const Operands::Borrowed& input, const Value& start,
                 LocationId location);
/// As above for a node without operands.
NodePtr RecordNodeOn(const OpDef& op, std::span<const Attr> attrs, DeviceId device,
                     LocationId location);

/// A leaf whose value is in host memory until a step needs it on its device.
NodePtr MakeHostLeaf(const HostTensor& host, DeviceId device, LocationId location);
/// A leaf of data that is on its device.
NodePtr MakeDataLeaf(const BackendDataPtr& data, DeviceId device, LocationId location);

/// Names the public op whose part has failed, where `location` has one: "gather: index 7 ..."
/// becomes "cross_entropy: index 7 ... (in gather)".
void NameCaller(Error& error, const OpDef& op, LocationId location);

/// The common device of operands; lifted scalars go with any. `b` is the device found so far.
DeviceId CommonDevice(const OpDef& op, DeviceId a, DeviceId b);

/// Computes results in eager mode. While numbers are baked neither budgets nor eager mode run
/// anything, for a gradient may trace what it does not use.
void RunBaked(std::span<const Tensor> results);

/// The current value of a tensor, owning; empty for an undefined one.
Value ValueOf(const char* op, const Tensor& tensor);

}  // namespace hammock
