#include "hammock/ir/node.h"

#include <fmt/format.h>

#include "base/throw.h"
#include "hammock/lazy/backend_data.h"
#include "ir/node_access.h"
#include "ops/primitives.h"

namespace hammock {

NodePtr Node::Make(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
                   std::span<const Shape> shapes, DeviceId device, LocationId location) {
  std::vector<Operand> borrowed;
  for (const Value& operand : operands) borrowed.push_back({operand.node.get(), operand.index});
  return NodeAccess::Make(op, borrowed, attrs, shapes, device, location);
}

NodePtr NodeAccess::Make(const OpDef& op, std::span<const Node::Operand> operands,
                         std::span<const Attr> attrs, std::span<const Shape> shapes,
                         DeviceId device, LocationId location) {
  const OpInfo& info = op.info();
  constexpr size_t kMost = 0xfffe;
  if (operands.size() > kMost || shapes.size() > kMost || attrs.size() > kMost) {
    Throw(ErrorCode::kValue, "{}: {} operands, a node has at most {}; take them in parts",
          info.name, operands.size(), kMost);
  }
  Node* node = NodeAccess::Allocate(op, static_cast<uint32_t>(operands.size()),
                                    static_cast<uint32_t>(attrs.size()),
                                    static_cast<uint32_t>(shapes.size()));
  node->device_ = device;
  node->location_ = location;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].node) operands[i].node->AddReference();
    node->operand_array()[i] = operands[i];
  }
  // The values of lifted leaves are parameters, not part of the key.
  node->leaf_ = &op == &ops::kScalarLeaf || &op == &ops::kRngState || &op == &ops::kDeviceData;
  Hash128 hash = node->leaf_ ? ops::kDeviceData.info().seed : info.seed;
  for (size_t i = 0; i < attrs.size(); ++i) {
    new (&node->attr_array()[i]) Attr(attrs[i]);
    if (!node->leaf_) hash = Combine(hash, attrs[i].hash());
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    new (&node->slots()[i]) Node::Slot(shapes[i]);
    hash = HashType(hash, shapes[i]);
  }
  node->hash_ = hash;
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
  for (Node* operand : dropped) operand->DropReference();
}

// Whose reference is the only one needs no locked instruction to give it up: nobody is left to take
// another.
bool NodeAccess::Release(Node* node) {
  return node->references_.load(std::memory_order_acquire) == 1 ||
         node->references_.fetch_sub(1, std::memory_order_acq_rel) == 1;
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
