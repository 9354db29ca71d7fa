/// Elementwise ops without inference, the fast path of recording, and the numbers among their
/// operands.

#include <array>

#include "ir/primitives.h"
#include "trace/after_op.h"
#include "trace/apply.h"
#include "trace/layout.h"
#include "trace/record.h"

namespace hammock {

namespace {

/// Strides and history of a result, if it has them.
struct Keeps {
  bool strides = false;  // that depend on the operands
  bool history = false;
};

/// Off the usual path: an operand has a history or is a view.
[[gnu::noinline]] Keeps WhatKeeps(const TensorImpl& a, const TensorImpl& b) {
  return {IsStrided(a) || IsStrided(b), (a.tape || b.tape) && Context().grad_mode};
}

inline Keeps WhatKeeps(const Tensor& a, const Tensor& b) {
  const TensorImpl &x = *a.impl(), &y = *b.impl();
  auto bits = [](const auto& pointer) { return reinterpret_cast<uintptr_t>(pointer.get()); };
  if ((bits(x.tape) | bits(x.view) | bits(y.tape) | bits(y.view)) == 0) [[likely]]
    return {};
  return WhatKeeps(x, y);
}

/// An operand that cannot be used: raises an error at the caller's line.
[[gnu::cold, gnu::noinline]] Node* RefuseOperand(const OpDef& op, const Location& at,
                                                 const Tensor& tensor) {
  LocationScope scope(at);
  return CurrentNode(op.schema, tensor);
}

/// As CurrentNode, for functions that open no scope.
inline Node* NodeOf(const OpDef& op, const Location& at, const Tensor& tensor) {
  TensorImpl* impl = tensor.impl();
  if (!impl || impl->donated) [[unlikely]]
    return RefuseOperand(op, at, tensor);
  if (impl->view && IsStale(*impl->view)) [[unlikely]]
    RefreshView(*impl);
  return impl->node;
}

/// A float that is computed with, not only stored.
inline bool IsComputedFloat(DType dtype) { return dtype >= DType::kF16 && dtype <= DType::kF64; }

/// The dtype of an elementwise op's result without inference, where its operands have this dtype.
/// False: ask the record.
inline bool FastDType(const OpDef& op, DType operands, DType* result) {
  if (!IsComputedFloat(operands)) return false;
  if (op.rule == DTypeRule::kPromote || op.rule == DTypeRule::kFloat) {
    *result = operands;
    return true;
  }
  *result = DType::kBool;
  return op.rule == DTypeRule::kCompare;
}

/// The same with the sizes, where the operands have equal ones, or one of them is a number.
inline const Shape* FastType(const OpDef& op, const Shape& a, const Shape& b, DType* result) {
  if (a.dtype() != b.dtype() || !FastDType(op, a.dtype(), result)) return nullptr;
  if (a.sizes() == b.sizes()) [[likely]]
    return &a;
  return b.rank() == 0 ? &a : a.rank() == 0 ? &b : nullptr;
}

/// Whether numbers are constants of the graph that is being recorded.
inline bool BakesNumbers() {
  const ThreadContext& context = Context();
  return context.symbolic > 0 || context.baking > 0;
}

/// A number that is a parameter of its graph.
inline Node* ScalarLeaf(const Scalar& value, DType dtype) {
  Node* node = NodeAccess::Allocate(ops::kScalarLeaf, 0, 1, 1);
  new (NodeAccess::attrs(node)) Attr(value.To(dtype));
  auto* slot = new (node->slots()) Node::Slot(Shape(dtype, {}));
  NodeAccess::SetLeaf(node);
  NodeAccess::SetHash(node, HashType(ops::kDeviceData.info().seed, slot->shape));
  NodeAccess::SetDevice(node, kNoDevice);
  NodeAccess::SetLocation(node, tls_location);
  return node;
}

/// An elementwise op with a result of these sizes; the operands' references become its own.
[[gnu::always_inline]] inline NodePtr RecordBinary(const OpDef& op, const Location& at,
                                                   Node::Operand a, Node::Operand b,
                                                   const Shape& sizes, DType dtype,
                                                   DeviceId device) {
  Node* node = NodeAccess::Allocate(op, 2, 0, 1);
  NodeAccess::operands(node)[0] = a;
  NodeAccess::operands(node)[1] = b;
  auto* slot = new (node->slots()) Node::Slot(sizes);
  slot->shape.SetDType(dtype);
  NodeAccess::SetHash(node, HashType(op.info().seed, slot->shape));
  NodeAccess::SetDevice(node, device);
  NodeAccess::SetLocation(node, Here(at));
  return NodePtr::Adopt(node);
}

/// Off the usual path: the result of `node` with its history.
[[gnu::noinline]] Tensor FinishWithHistory(NodePtr node, const Operands& operands) {
  TapePtr tape = RecordHistory(*node, operands);
  Tensor result = FinishOp(std::move(node), 0);
  result.impl()->tape = std::move(tape);
  return result;
}

/// False if their devices differ. Lifted numbers go with any.
inline bool ShareDevice(const Node& a, const Node& b, DeviceId* device) {
  *device = a.device();
  if (a.device() == b.device()) [[likely]]
    return true;
  if (a.device() == kNoDevice) *device = b.device();
  return a.device() == kNoDevice || b.device() == kNoDevice;
}

/// A node of one operand and its sizes; `seed` is the hash of the op with its attribute, which may
/// be null.
[[gnu::always_inline]] inline Tensor RecordUnary(const OpDef& op, const Location& at,
                                                 const Tensor& a, const Attr* attr, DType dtype,
                                                 const Hash128& seed, bool has_history) {
  Node* x = a.impl()->node;
  const uint32_t index = a.impl()->index;
  Node* node = NodeAccess::Allocate(op, 1, attr ? 1 : 0, 1);
  x->AddReference();
  NodeAccess::operands(node)[0] = {x, index};
  if (attr) new (NodeAccess::attrs(node)) Attr(*attr);
  auto* slot = new (node->slots()) Node::Slot(x->shape(static_cast<int>(index)));
  slot->shape.SetDType(dtype);
  NodeAccess::SetHash(node, HashType(seed, slot->shape));
  NodeAccess::SetDevice(node, ResolveDevice(x->device()));
  NodeAccess::SetLocation(node, Here(at));
  NodePtr recorded = NodePtr::Adopt(node);
  if (has_history) [[unlikely]] {
    const Operands::Borrowed operand(x, index, a.impl()->tape);
    return FinishWithHistory(std::move(recorded), Operands(std::span(&operand, 1)));
  }
  return FinishOp(std::move(recorded), 0);
}

/// The hashes of casts to each dtype, as those of other nodes are made.
const Hash128& CastSeed(DType dtype) {
  static const auto seeds = [] {
    std::array<Hash128, kNumDTypes> seeds;
    for (size_t i = 0; i < seeds.size(); ++i) {
      seeds[i] = Combine(ops::kCast.info().seed, Attr(static_cast<DType>(i)).hash());
    }
    return seeds;
  }();
  return seeds[static_cast<size_t>(dtype)];
}

}  // namespace

Tensor ApplyUnary(const OpDef& op, const Location& at, const Tensor& a) {
  const DType dtype = NodeOf(op, at, a)->shape(static_cast<int>(a.impl()->index)).dtype();
  bool fast =
      IsComputedFloat(dtype) && (op.rule == DTypeRule::kPromote || op.rule == DTypeRule::kFloat);
  Keeps keeps = WhatKeeps(a, a);
  if (!fast || keeps.strides || MayCast(op) || (keeps.history && !HasGradient(op))) {
    return Apply(op, at, std::span(&a, 1));
  }
  return RecordUnary(op, at, a, nullptr, dtype, op.info().seed, keeps.history);
}

Tensor ApplyCast(const Location& at, const Tensor& a, DType dtype) {
  NodeOf(ops::kCast, at, a);
  const Attr attr(dtype);
  Keeps keeps = WhatKeeps(a, a);
  if (keeps.strides || dtype > DType::kC128)
    return Apply(ops::kCast, at, std::span(&a, 1), std::span(&attr, 1));
  return RecordUnary(ops::kCast, at, a, &attr, dtype, CastSeed(dtype), keeps.history);
}

Tensor ApplyBinary(const OpDef& op, const Location& at, const Tensor& a, const Tensor& b) {
  Node* x = NodeOf(op, at, a);
  Node* y = NodeOf(op, at, b);
  const Shape& type_a = x->shape(static_cast<int>(a.impl()->index));
  const Shape& type_b = y->shape(static_cast<int>(b.impl()->index));
  DType dtype = DType::kF32;
  DeviceId device;
  const Shape* type = FastType(op, type_a, type_b, &dtype);
  Keeps keeps = WhatKeeps(a, b);
  if (!type || !ShareDevice(*x, *y, &device) || keeps.strides || MayCast(op) ||
      (keeps.history && (!HasGradient(op) || !IsComputedFloat(dtype)))) {
    const Tensor operands[] = {a, b};
    return Apply(op, at, operands);
  }
  x->AddReference();
  y->AddReference();
  NodePtr node = RecordBinary(op, at, {x, a.impl()->index}, {y, b.impl()->index}, *type, dtype,
                              ResolveDevice(device));
  if (keeps.history) [[unlikely]] {
    const Operands::Borrowed operands[] = {{x, a.impl()->index, a.impl()->tape},
                                           {y, b.impl()->index, b.impl()->tape}};
    return FinishWithHistory(std::move(node), Operands(operands));
  }
  return FinishOp(std::move(node), 0);
}

Tensor ApplyBinary(const OpDef& op, const Location& at, const Tensor& a, const TensorArg& b) {
  if (b.is_tensor()) return ApplyBinary(op, at, a, b.tensor());
  Node* x = NodeOf(op, at, a);
  const Shape& type = x->shape(static_cast<int>(a.impl()->index));
  DType dtype = DType::kF32;
  Keeps keeps = WhatKeeps(a, a);
  if (x->device() == kNoDevice || BakesNumbers() || b.scalar().IsComplex() ||
      !FastDType(op, type.dtype(), &dtype) || keeps.strides || keeps.history || MayCast(op)) {
    return ApplyBinary(op, at, a, AsTensor(b, a));
  }
  x->AddReference();
  return FinishOp(RecordBinary(op, at, {x, a.impl()->index},
                               {ScalarLeaf(b.scalar(), type.dtype()), 0}, type, dtype, x->device()),
                  0);
}

Tensor ApplyElementwise(const OpDef& op, const TensorArg& a, const TensorArg& b) {
  if (a.is_tensor() && b.is_tensor()) return ApplyBinary(op, b.at(), a.tensor(), b.tensor());
  if (!a.is_tensor() && !b.is_tensor()) {
    return ApplyElementwise(op, Lift(a.scalar(), DTypeOfNumber(a.scalar())), b);
  }
  const Tensor& tensor = a.is_tensor() ? a.tensor() : b.tensor();
  const Scalar& scalar = a.is_tensor() ? b.scalar() : a.scalar();
  NodeOf(op, b.at(), tensor);
  // Before the number takes on the tensor's dtype.
  if (Autocasted cast(op, b.at(), tensor); cast) {
    Tensor wanted = cast(tensor);
    TensorArg operand(wanted, b.at());
    return ApplyElementwise(op, a.is_tensor() ? operand : a, a.is_tensor() ? b : operand);
  }
  DType dtype = ResultType(tensor, scalar);
  if (op.rule == DTypeRule::kFloat && !IsFloatOrComplex(dtype)) dtype = kDefaultFloat;
  Tensor lifted = Lift(scalar, dtype);
  return ApplyBinary(op, b.at(), a.is_tensor() ? tensor : lifted, a.is_tensor() ? lifted : tensor);
}

namespace {

NodePtr ConstantNode(const Scalar& value, DType dtype) {
  const Attr attrs[] = {Attr(value.To(dtype)), Attr(dtype)};
  return RecordNodeOn(ops::kConstant, attrs, kNoDevice, tls_location);
}

}  // namespace

NodePtr LiftNode(const Scalar& value, DType dtype) {
  return BakesNumbers() ? ConstantNode(value, dtype) : NodePtr::Adopt(ScalarLeaf(value, dtype));
}

Tensor Lift(const Scalar& value, DType dtype) {
  return NewTensor(LiftNode(value, dtype).release(), 0, true);
}

Tensor Constant(const Scalar& value, DType dtype) {
  return NewTensor(ConstantNode(value, dtype).release(), 0, true);
}

DType DTypeOfNumber(const Scalar& scalar) {
  if (scalar.IsComplex()) return kDefaultComplex;
  return scalar.IsFloating() ? kDefaultFloat : scalar.dtype();
}

DType ResultType(const Tensor& tensor, const Scalar& scalar) {
  DType dtype = tensor.dtype();
  if (scalar.IsComplex()) return ComplexOf(dtype);
  if (scalar.IsFloating()) return IsFloatOrComplex(dtype) ? dtype : kDefaultFloat;
  if (scalar.IsInt()) return dtype == DType::kBool ? DType::kI64 : dtype;
  return dtype;
}

Tensor AsTensor(const TensorArg& arg, const Tensor& other) {
  if (arg.is_tensor()) return arg.tensor();
  // Without the other one, the op that takes both says what is wrong.
  return Lift(arg.scalar(), other.defined() ? ResultType(other, arg.scalar()) : kDefaultFloat);
}

}  // namespace hammock
