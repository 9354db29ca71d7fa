#include "hammock/ir/node.h"

#include <fmt/format.h>

#include "base/throw.h"
#include "hammock/lazy/backend_data.h"
#include "ir/node_access.h"
#include "ir/primitives.h"

namespace hammock {

NodePtr Node::Make(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
                   std::span<const Shape> shapes, DeviceId device, LocationId location) {
  std::vector<Operand> borrowed;
  for (const Value& operand : operands) borrowed.push_back({operand.node.get(), operand.index});
  return NodeAccess::Make(op, borrowed, attrs, shapes, device, location);
}

namespace {

/// The values of lifted leaves are parameters, not part of the key.
bool IsLeafOp(const OpDef& op) {
  return &op == &ops::kScalarLeaf || &op == &ops::kRngState || &op == &ops::kDeviceData;
}

}  // namespace

Hash128 NodeAccess::HashOfCall(const OpDef& op, std::span<const Attr> attrs,
                               std::span<const Shape> shapes) {
  bool leaf = IsLeafOp(op);
  Hash128 hash = leaf ? ops::kDeviceData.info().seed : op.info().seed;
  if (!leaf) {
    for (const Attr& attr : attrs) hash = Combine(hash, attr.hash());
  }
  for (const Shape& shape : shapes) hash = HashType(hash, shape);
  return hash;
}

NodePtr NodeAccess::Make(const OpDef& op, std::span<const Node::Operand> operands,
                         std::span<const Attr> attrs, std::span<const Shape> shapes,
                         DeviceId device, LocationId location) {
  constexpr size_t kMost = 0xfffe;
  if (operands.size() > kMost || shapes.size() > kMost || attrs.size() > kMost) {
    Throw(ErrorCode::kValue, "{}: {} operands, a node has at most {}; take them in parts",
          op.name(), operands.size(), kMost);
  }
  Node* node = MakeWithoutSlots(op, operands, attrs, static_cast<uint32_t>(shapes.size()));
  node->device_ = device;
  node->location_ = location;
  node->leaf_ = IsLeafOp(op);
  node->hash_ = HashOfCall(op, attrs, shapes);
  Node::Slot* slot = node->slots();
  for (const Shape& each : shapes) new (slot++) Node::Slot(each);
  return NodePtr::Adopt(node);
}

const Attr& Node::attr(std::string_view name) const {
  int index = op_->info().AttributeIndex(name);
  HAMMOCK_CHECK(index >= 0, "{} has no attribute {}", op_->name(), name);
  return attr_array()[index];
}

std::string Node::to_string() const {
  std::string text;
  for (int i = 0; i < num_outputs(); ++i) {
    text += (i ? ", " : "") + shape(i).to_string();
  }
  text += fmt::format(" {}", op_->name());
  for (size_t i = 0; i < attrs().size(); ++i) {
    text += fmt::format(", {}={}", op_->info().AttributeName(static_cast<int>(i)),
                        attrs()[i].to_string());
  }
  return text;
}

void Node::ReleaseOperands() {
  std::vector<Node*> dropped;
  NodeAccess::TakeOperands(this, dropped);
  for (Node* operand : dropped) NodeAccess::Drop(operand);
}

// Dying nodes are chained through their hash, so that a chain of any length needs neither stack nor
// heap.
void Node::Destroy(Node* node) {
  node->hash_.lo = 0;
  while (node) {
    Node* next = reinterpret_cast<Node*>(node->hash_.lo);
    for (const Operand& operand : node->operands()) {
      if (operand.node && NodeAccess::Release(operand.node)) {
        operand.node->hash_.lo = reinterpret_cast<uint64_t>(next);
        next = operand.node;
      }
    }
    for (uint32_t i = 0; i < node->num_attrs_; ++i) node->attr_array()[i].~Attr();
    for (uint32_t i = 0; i < node->num_outputs_; ++i) node->slots()[i].~Slot();
    delete node->payload_;
    size_t bytes = NodeAccess::BytesOf(*node);
    node->~Node();
    pool::Free(node, bytes);
    node = next;
  }
}

}  // namespace hammock
