// Ops on the tape: what is kept of a node when it is recorded, and running its gradient.

#include <unordered_map>
#include <unordered_set>

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "base/throw.h"
#include "hammock/op_builder.h"
#include "lazy/hooks.h"
#include "lazy/tensor_impl.h"

namespace hammock {

namespace {

/// Which operands and results of an op a gradient reads the values of.
struct Reads {
  std::vector<uint8_t> in;
  std::vector<uint8_t> out;
};

class OpEntry : public TapeEntry {
 public:
  OpEntry(const Node& node, std::span<const Value> operands)
      : op_(node.op()), attrs_(node.attrs().begin(), node.attrs().end()) {
    for (const Value& operand : operands) {
      edges.push_back(EdgeTo(operand));
      present_.push_back(operand ? 1 : 0);
      in_types_.push_back(operand ? operand.shape() : Shape());
      needed_.push_back(operand.tape ? 1 : 0);
    }
    for (int i = 0; i < node.num_outputs(); ++i) types.push_back(node.shape(i));
    device = node.device();
    location = node.location();
  }

  std::string name() const override { return op_.name(); }

  /// The values that the gradient reads, without history: see Note [No cycles].
  SavedValues Select(const Reads& reads, const Node& node, std::span<const Value> operands) const {
    SavedValues saved(in_types_.size() + types.size());
    for (size_t i = 0; i < in_types_.size(); ++i) {
      if (reads.in[i]) saved[i] = {operands[i].node, operands[i].index};
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (!reads.out[i]) continue;
      saved[in_types_.size() + i] = {NodePtr(const_cast<Node*>(&node)), static_cast<uint32_t>(i)};
    }
    return saved;
  }
  void Save(SavedValues saved) { saved_ = std::move(saved); }
  void SaveIn(std::shared_ptr<CheckpointRecord> record, size_t number) {
    record_ = std::move(record);
    number_ = number;
  }

  Reads FindReads() const;
  Hash128 Signature(const Node& node) const;

  void Release() override {
    for (const Value& value : saved_) released_ = released_ || value;
    saved_.clear();
    if (record_) released_ = true;
    record_ = nullptr;
  }

  std::vector<Tensor> Backward(const TapePtr& self, std::vector<Tensor> grads) override {
    if (!op_.vjp) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "backward: {} has no gradient", op_.name());
    }
    if (released_) ThrowReleased(*this);
    SavedValues saved = record_ ? record_->Restore(number_, grads) : saved_;
    saved.resize(in_types_.size() + types.size());
    std::vector<Tensor> in, out;
    for (size_t i = 0; i < in_types_.size(); ++i) {
      in.push_back(present_[i] ? Unpack(saved[i], in_types_[i], edges[i].entry) : Tensor());
    }
    for (size_t i = 0; i < types.size(); ++i) {
      out.push_back(Unpack(saved[in_types_.size() + i], types[i], self));
    }
    std::vector<Tensor> results;
    {
      BakingScope baking(device);
      results = Finished(op_.vjp({op_, in, out, attrs_, grads, needed_}));
    }
    RunBaked(results);
    return results;
  }

 private:
  /// A value with its history, or a tensor that has a type only.
  static Tensor Unpack(const Value& value, const Shape& type, const TapePtr& tape) {
    if (!value) return SymbolicTensor(type);
    return Tensor::FromValue({value.node, value.index, IsFloat(type.dtype()) ? tape : TapePtr()});
  }

  std::vector<Tensor> Finished(std::vector<Tensor> grads) const {
    HAMMOCK_CHECK(grads.size() == edges.size(), "the gradient of {} gave {} results instead of {}",
                  op_.name(), grads.size(), edges.size());
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!needed_[i]) grads[i] = Tensor();
      if (!grads[i].defined()) continue;
      if (op_.IsElementwise()) grads[i] = ReducedTo(grads[i], in_types_[i]);
      HAMMOCK_CHECK(grads[i].shape() == in_types_[i],
                    "the gradient of {} gave {} for operand {}, a {}", op_.name(),
                    grads[i].shape().to_string(), i, in_types_[i].to_string());
    }
    return grads;
  }

  const OpDef& op_;
  std::vector<Attr> attrs_;
  std::vector<Shape> in_types_;
  std::vector<uint8_t> present_;
  std::vector<uint8_t> needed_;
  SavedValues saved_;                         // operands, then results; empty where not read
  std::shared_ptr<CheckpointRecord> record_;  // or where they are computed again
  size_t number_ = 0;
  bool released_ = false;
};

Reads OpEntry::FindReads() const {
  Reads reads{std::vector<uint8_t>(in_types_.size()), std::vector<uint8_t>(types.size())};
  if (!op_.vjp) return reads;
  SymbolicScope symbolic;
  GradModeScope no_grad(false);
  std::vector<Tensor> in, out, grads;
  std::unordered_map<const Node*, uint8_t*> places;
  for (size_t i = 0; i < in_types_.size(); ++i) {
    in.push_back(present_[i] ? SymbolicTensor(in_types_[i]) : Tensor());
    if (present_[i]) places[in[i].value().node.get()] = &reads.in[i];
  }
  for (size_t i = 0; i < types.size(); ++i) {
    out.push_back(SymbolicTensor(types[i]));
    places[out[i].value().node.get()] = &reads.out[i];
    grads.push_back(IsFloat(types[i].dtype()) ? SymbolicTensor(types[i]) : Tensor());
  }
  std::vector<Tensor> results = Finished(op_.vjp({op_, in, out, attrs_, grads, needed_}));
  std::vector<const Node*> stack;
  std::vector<Value> roots;
  for (const Tensor& result : results) {
    if (result.defined()) roots.push_back(result.value());
  }
  std::unordered_set<const Node*> seen;
  for (const Value& root : roots) stack.push_back(root.node.get());
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second) continue;
    if (auto place = places.find(node); place != places.end()) *place->second = 1;
    for (const Node::Operand& operand : node->operands()) {
      if (operand.node) stack.push_back(operand.node);
    }
  }
  return reads;
}

/// Equal for nodes whose gradients read the same: op, attributes, all types, wanted gradients.
Hash128 OpEntry::Signature(const Node& node) const {
  Hash128 hash = node.hash();
  for (size_t i = 0; i < in_types_.size(); ++i) {
    hash = Combine(hash, static_cast<uint64_t>(present_[i] * 2 + needed_[i]));
    if (present_[i]) hash = HashType(hash, in_types_[i]);
  }
  return hash;
}

const Reads& ReadsOf(const OpEntry& entry, const Node& node) {
  constexpr size_t kMostKnown = 1 << 16;
  struct HashOf {
    size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.lo); }
  };
  thread_local std::unordered_map<Hash128, Reads, HashOf> known;
  Hash128 signature = entry.Signature(node);
  if (auto it = known.find(signature); it != known.end()) return it->second;
  if (known.size() >= kMostKnown) known.clear();
  return known.emplace(signature, entry.FindReads()).first->second;
}

}  // namespace

bool WantsHistory(const ThreadContext& context, std::span<const Value> operands) {
  if (!context.grad_mode) return false;
  for (const Value& operand : operands) {
    if (operand.tape) return true;
  }
  return false;
}

TapePtr RecordHistory(const Node& node, std::span<const Value> operands) {
  bool any_float = false;
  for (int i = 0; i < node.num_outputs(); ++i) any_float |= IsFloat(node.shape(i).dtype());
  if (!any_float) return {};
  auto* entry = new OpEntry(node, operands);
  TapePtr result = TapePtr::Adopt(entry);
  SavedValues saved = entry->Select(ReadsOf(*entry, node), node, operands);
  if (CheckpointRegion* checkpoint = Context().checkpoint) {
    size_t number = checkpoint->Add(std::move(saved));
    entry->SaveIn(checkpoint->record().shared_from_this(), number);
  } else {
    entry->Save(std::move(saved));
  }
  return result;
}

const Tensor& VjpCall::grad() const { return grads[0]; }

}  // namespace hammock
