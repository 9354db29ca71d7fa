#include "runtime/functions/traced_inputs.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <unordered_set>

#include "hammock/interrupt.h"
#include "ir/node_access.h"
#include "ir/primitives.h"
#include "trace/tensor_impl.h"
#include "trace/write.h"

namespace hammock {

NodePtr MakeTracedInput(const char* op, size_t index, const Shape& type, DeviceId device,
                        LocationId location) {
  NodePtr node = Node::Make(ops::kInput, {}, {}, std::span(&type, 1), device, location);
  auto error = std::make_shared<ValueError>(
      ErrorCode::kExecutionForbidden,
      fmt::format("{}: a value that depends on input {} ({}) is read (printed, compared, turned "
                  "into a number), which it does not have while the function is recorded; return "
                  "it and read the result of the call",
                  op, index, type.to_string()));
  error->SetWhere("");  // that of the read
  NodeAccess::MakePayload(node.get()).error = std::move(error);
  return node;
}

namespace {

constinit std::atomic<void (*)()> collector = nullptr;

std::vector<Tensor> TensorsOfThread() {
  std::vector<Tensor> tensors;
  ThreadContext& context = Context();
  std::lock_guard lock(context.lock);
  for (Link* list : {&context.pending, &context.settled}) {
    for (Link* link = list->next; link != list; link = link->next) {
      auto* impl = static_cast<TensorImpl*>(link);
      impl->references.fetch_add(1);
      tensors.push_back(Tensor::FromImpl(impl));
    }
  }
  return tensors;
}

/// Whether a value is still to be computed from one of `inputs`. With the graph mutex held.
bool DependsOn(const std::vector<NodePtr>& inputs, const Node* root) {
  std::vector<const Node*> left{root};
  std::unordered_set<const Node*> seen{root};
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    for (const NodePtr& input : inputs) {
      if (input.get() == node) return true;
    }
    if (IsAvailable(*node)) continue;
    for (const Node::Operand& operand : node->operands()) {
      if (operand.node && seen.insert(operand.node).second) left.push_back(operand.node);
    }
  }
  return false;
}

}  // namespace

LiveTensors::LiveTensors() : tensors_(TensorsOfThread()) {
  for (const Tensor& tensor : tensors_) before_.push_back(WrittenValue(*tensor.impl()));
}

Value LiveTensors::UndoWrites() const {
  Value written;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Value now = WrittenValue(*tensors_[i].impl());
    if (now == before_[i]) continue;
    Unwrite(*tensors_[i].impl(), now, before_[i]);
    written = now;
  }
  return written;
}

void SetCollector(void (*collect)()) { collector.store(collect, std::memory_order_release); }

NodePtr LiveTensors::FindKept(const std::vector<NodePtr>& inputs,
                              const std::vector<Tensor>& results, bool gradients) const {
  NodePtr kept = FindHeld(inputs, results, gradients);
  void (*collect)() = collector.load(std::memory_order_acquire);
  if (!kept || !collect) return kept;
  kept = {};
  collect();
  return FindHeld(inputs, results, gradients);
}

NodePtr LiveTensors::FindHeld(const std::vector<NodePtr>& inputs,
                              const std::vector<Tensor>& results, bool gradients) const {
  std::unordered_set<const TensorImpl*> known;
  auto add = [&](const Tensor& tensor, bool with_gradient) {
    if (!tensor.defined()) return;
    known.insert(tensor.impl());
    if (!with_gradient) return;
    if (Tensor grad = tensor.grad(); grad.defined()) known.insert(grad.impl());
  };
  for (const Tensor& tensor : tensors_) add(tensor, !gradients);
  for (const Tensor& tensor : results) add(tensor, true);
  std::vector<Tensor> now = TensorsOfThread();
  std::erase_if(now, [&](const Tensor& tensor) { return known.contains(tensor.impl()); });
  std::lock_guard lock(Executor().graph_mutex);
  for (const Tensor& tensor : now) {
    Node* node = tensor.impl()->node;
    if (node && DependsOn(inputs, node)) return NodePtr(node);
  }
  return {};
}

}  // namespace hammock
