// Ops on the tape: what is kept of a node when it is recorded, and running its gradient.

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "autograd/checkpoint.h"
#include "autograd/tape.h"
#include "base/of_thread.h"
#include "base/throw.h"
#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "trace/hooks.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

/// The gradient of an op for calls with the same attributes and types in which the same operands
/// are differentiated. Shared by the entries of these calls; never changes.
class Signature {
 public:
  /// `alike` is null, or a signature whose gradient reads the same values.
  Signature(const Node& node, const Operands& operands, const Signature* alike);
  bool Fits(const Node& node, const Operands& operands) const;
  /// The same but for sizes.
  bool IsLike(const Node& node, const Operands& operands) const;

  const OpDef& op;
  std::vector<Attr> attrs;
  std::vector<Shape> in_types;  // of no meaning where an operand is absent
  std::vector<Shape> types;     // of the results
  std::vector<uint8_t> present, needed;
  /// Which operands and results the gradient reads the values of.
  std::vector<uint8_t> in_reads, reads;
  size_t saved = 0;  // how many those are
  /// Tensors that have a type only: what the gradient gets for the others.
  std::vector<Tensor> in, out;

  /// Summed and cast to the operands' types where the op broadcast or promoted them.
  std::vector<Tensor> Finished(std::vector<Tensor> grads) const;

 private:
  void FindReads();
};
using SignaturePtr = std::shared_ptr<const Signature>;

Signature::Signature(const Node& node, const Operands& operands, const Signature* alike)
    : op(node.op()), attrs(node.attrs().begin(), node.attrs().end()) {
  present.reserve(operands.size());
  needed.reserve(operands.size());
  in_types.reserve(operands.size());
  in.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Shape* type = operands.types()[i];
    present.push_back(type != nullptr);
    needed.push_back(static_cast<bool>(operands.tape(i)));
    in_types.push_back(type ? *type : Shape());
    in.push_back(type ? SymbolicTensor(*type) : Tensor());
  }
  types.reserve(static_cast<size_t>(node.num_outputs()));
  out.reserve(types.capacity());
  for (int i = 0; i < node.num_outputs(); ++i) {
    types.push_back(node.shape(i));
    out.push_back(SymbolicTensor(types.back()));
  }
  if (!alike) {
    FindReads();
    return;
  }
  in_reads = alike->in_reads;
  reads = alike->reads;
  saved = alike->saved;
}

// The types of the results follow from the rest.
bool Signature::Fits(const Node& node, const Operands& operands) const {
  if (&op != &node.op() || in.size() != operands.size() ||
      !std::ranges::equal(attrs, node.attrs())) {
    return false;
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape* type = operands.types()[i];
    if (present[i] != (type != nullptr) || (type && *type != in_types[i]) ||
        needed[i] != static_cast<bool>(operands.tape(i))) {
      return false;
    }
  }
  return true;
}

bool Signature::IsLike(const Node& node, const Operands& operands) const {
  if (&op != &node.op() || in.size() != operands.size() ||
      !std::ranges::equal(attrs, node.attrs())) {
    return false;
  }
  for (size_t i = 0; i < in.size(); ++i) {
    const Shape* type = operands.types()[i];
    if (present[i] != (type != nullptr) || needed[i] != static_cast<bool>(operands.tape(i)) ||
        (type && (type->dtype() != in_types[i].dtype() || type->rank() != in_types[i].rank()))) {
      return false;
    }
  }
  return true;
}

void Signature::FindReads() {
  in_reads.resize(in.size());
  reads.resize(out.size());
  if (!op.vjp) return;
  SymbolicScope symbolic;
  GradModeScope no_grad(false);
  std::vector<std::pair<const Node*, uint8_t*>> leaves;  // of which there are few
  leaves.reserve(in.size() + out.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (present[i]) leaves.emplace_back(in[i].value().node.get(), &in_reads[i]);
  }
  std::vector<Tensor> grads;
  for (size_t i = 0; i < out.size(); ++i) {
    leaves.emplace_back(out[i].value().node.get(), &reads[i]);
    grads.push_back(IsFloatOrComplex(types[i].dtype()) ? SymbolicTensor(types[i]) : Tensor());
  }
  std::vector<Tensor> results = Finished(op.vjp({op, in, out, attrs, grads, needed}));
  std::vector<const Node*> stack;
  std::vector<Value> roots;
  for (const Tensor& result : results) {
    if (!result.defined()) continue;
    roots.push_back(result.value());
    stack.push_back(roots.back().node.get());
  }
  std::unordered_set<const Node*> seen;
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (node->IsLeaf()) {
      auto leaf = std::ranges::find(leaves, node, &std::pair<const Node*, uint8_t*>::first);
      if (leaf != leaves.end()) *leaf->second = 1;
      continue;
    }
    if (!seen.insert(node).second) continue;
    for (const Node::Operand& operand : node->operands()) {
      if (operand.node) stack.push_back(operand.node);
    }
  }
  saved = static_cast<size_t>(std::ranges::count(in_reads, 1) + std::ranges::count(reads, 1));
}

std::vector<Tensor> Signature::Finished(std::vector<Tensor> grads) const {
  HAMMOCK_CHECK(grads.size() == in.size(), "the gradient of {} gave {} results instead of {}",
                op.name(), grads.size(), in.size());
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!needed[i]) grads[i] = Tensor();
    if (!grads[i].defined() || grads[i].shape() == in_types[i]) continue;
    if (op.IsElementwise()) grads[i] = ReducedTo(grads[i], in_types[i]);
    HAMMOCK_CHECK(grads[i].shape() == in_types[i],
                  "the gradient of {} gave {} for operand {}, a {}", op.name(),
                  grads[i].shape().to_string(), i, in_types[i].to_string());
  }
  return grads;
}

class OpEntry : public TapeEntry {
 public:
  OpEntry(SignaturePtr signature, const Node& node, const Operands& operands)
      : signature_(std::move(signature)) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const TapePtr& tape = operands.tape(i);
      edges.push_back({tape, tape && !tape->one_result ? operands.nodes()[i].index : 0});
    }
    types = signature_->types;
    device = node.device();
    location = node.location();
  }

  std::string name() const override { return signature_->op.name(); }

  /// Calls `save` with each value that the gradient reads, without history: see Note [No cycles].
  template <class Fn>
  void EachRead(const Node& node, const Operands& operands, Fn save) const {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!signature_->in_reads[i]) continue;
      save(Value{NodePtr(operands.nodes()[i].node), operands.nodes()[i].index});
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (!signature_->reads[i]) continue;
      save(Value{NodePtr(const_cast<Node*>(&node)), static_cast<uint32_t>(i)});
    }
  }
  void Save(ThreadContext& context, const Node& node, const Operands& operands) {
    held_by_ = &context;
    held_epoch_ = context.held_epoch;
    EachRead(node, operands, [&](Value value) {
      if (!value.node->IsLeaf()) held_bytes_ += value.shape().bytes();
      saved_.push_back(std::move(value));
    });
    context.held_bytes += held_bytes_;
  }
  void SaveIn(CheckpointRegion& region, const Node& node, const Operands& operands) {
    SavedValues saved;
    EachRead(node, operands, [&](Value value) { saved.push_back(std::move(value)); });
    number_ = region.Add(std::move(saved));
    record_ = region.record().shared_from_this();
  }

  ~OpEntry() override { LetGo(); }

  void Release() override {
    LetGo();
    released_ = released_ || !saved_.empty() || record_;
    saved_.clear();
    record_ = nullptr;
  }

  std::vector<Tensor> Backward(const TapePtr& self, std::vector<Tensor>&& grads) override {
    const Signature& s = *signature_;
    if (!s.op.vjp) {
      Throw<NotSupported>(ErrorCode::kNotSupported, "backward: {} has no gradient", s.op.name());
    }
    if (released_) ThrowReleased(*this);
    SavedValues restored;
    if (record_) restored = Restored(grads);
    const Value* saved = record_ ? restored.data() : saved_.begin();
    InlineList<Tensor, 4> values;  // of operands, then of results, where any are read
    for (size_t i = 0; s.saved > 0 && i < s.in.size(); ++i) {
      values.push_back(s.in_reads[i] ? WithHistory(*saved++, s.in_types[i], edges[i].entry)
                                     : s.in[i]);
    }
    for (size_t i = 0; s.saved > 0 && i < s.out.size(); ++i) {
      values.push_back(s.reads[i] ? WithHistory(*saved++, s.types[i], self) : s.out[i]);
    }
    std::span<const Tensor> in = s.in, out = s.out;
    if (s.saved > 0) {
      in = {values.begin(), in.size()};
      out = {values.begin() + in.size(), out.size()};
    }
    std::vector<Tensor> results;
    {
      BakingScope baking(device);
      results = s.Finished(s.op.vjp({s.op, in, out, s.attrs, grads, s.needed}));
    }
    RunBaked(results);
    return results;
  }

 private:
  static Tensor WithHistory(const Value& value, const Shape& type, const TapePtr& tape) {
    return Tensor::FromValue(
        {value.node, value.index, IsFloatOrComplex(type.dtype()) ? tape : TapePtr()});
  }
  /// The bytes that it held are no longer counted, by the thread that counted them.
  void LetGo() {
    if (held_by_ == tls_context && held_bytes_ > 0 && held_epoch_ == held_by_->held_epoch) {
      held_by_->held_bytes -= held_bytes_;
    }
    held_bytes_ = 0;
  }
  SavedValues Restored(const std::vector<Tensor>& grads) const {
    SavedValues saved = record_->Restore(number_, grads);
    if (saved.size() == signature_->saved) return saved;
    Throw(ErrorCode::kValue,
          "checkpoint: the function recorded another op in place of {} when it was called again; "
          "it must do the same",
          name());
  }

  SignaturePtr signature_;
  InlineList<Value, 3> saved_;
  ThreadContext* held_by_ = nullptr;
  int64_t held_bytes_ = 0;
  uint32_t held_epoch_ = 0;
  std::shared_ptr<CheckpointRecord> record_;  // or where they are computed again
  size_t number_ = 0;
  bool released_ = false;
};

/// The signatures that a thread has met.
struct Signatures {
  struct HashOf {
    size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.lo); }
  };
  std::unordered_map<Hash128, SignaturePtr, HashOf> known;
  std::array<SignaturePtr, 256> recent;  // by a part of their node's hash
  /// The last one of an op whose gradient reads the same values at all sizes.
  std::unordered_map<const OpDef*, SignaturePtr> of_any_size;

  SignaturePtr Make(const Node& node, const Operands& operands) {
    const OpDef* op = &node.op();
    if (!op->IsElementwise() && op != &ops::kDotGeneral) {
      return std::make_shared<const Signature>(node, operands, nullptr);
    }
    SignaturePtr alike = of_any_size[op];
    if (alike && !alike->IsLike(node, operands)) alike = nullptr;
    auto made = std::make_shared<const Signature>(node, operands, alike.get());
    return of_any_size[op] = std::move(made);
  }
};

const SignaturePtr& SignatureOf(const Node& node, const Operands& operands) {
  constexpr size_t kMostKnown = 1 << 16;
  Signatures& signatures = OfThread<Signatures>();
  SignaturePtr& recent = signatures.recent[node.hash().lo % signatures.recent.size()];
  if (recent && recent->Fits(node, operands)) return recent;
  Hash128 hash = node.hash();
  for (size_t i = 0; i < operands.size(); ++i) {
    const Shape* type = operands.types()[i];
    hash = Combine(hash, (type ? 2u : 0u) + (operands.tape(i) ? 1u : 0u));
    if (type) hash = HashType(hash, *type);
  }
  if (signatures.known.size() >= kMostKnown) signatures.known.clear();
  SignaturePtr& known = signatures.known[hash];
  if (!known || !known->Fits(node, operands)) {
    // Looking for what a gradient reads may record ops with histories of their own.
    SignaturePtr made = signatures.Make(node, operands);
    return recent = signatures.known[hash] = std::move(made);
  }
  return recent = known;
}

}  // namespace

TapePtr RecordHistory(const Node& node, const Operands& operands) {
  bool any_float = false;
  for (int i = 0; i < node.num_outputs(); ++i) any_float |= IsFloatOrComplex(node.shape(i).dtype());
  if (!any_float) return {};
  auto* entry = new OpEntry(SignatureOf(node, operands), node, operands);
  TapePtr result = TapePtr::Adopt(entry);
  ThreadContext& context = Context();
  auto bits = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); };
  if ((bits(context.mapping) | bits(context.checkpoint)) == 0) [[likely]] {
    entry->Save(context, node, operands);
    return result;
  }
  if (context.mapping) NoteHistory(*context.mapping, node, operands);
  if (context.checkpoint) {
    entry->SaveIn(*context.checkpoint, node, operands);
  } else {
    entry->Save(context, node, operands);
  }
  return result;
}

const Tensor& VjpCall::grad() const { return grads[0]; }

}  // namespace hammock
