#include "lazy/apply.h"

#include <fmt/format.h>

#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metrics.h"
#include "ir/location_scope.h"
#include "lazy/autocast.h"
#include "lazy/hooks.h"
#include "lazy/layout.h"
#include "lazy/record.h"
#include "lazy/tensor_impl.h"
#include "lazy/trace_points.h"
#include "ops/primitives.h"

namespace hammock {

namespace {

constexpr int kInlineOperands = 8;

[[noreturn]] void ThrowMixedDevices(const OpDef& op, DeviceId a, DeviceId b) {
  Throw(ErrorCode::kDeviceMismatch,
        "{}: operands live on different devices: {} and {}; move one with to(device)", op.name(),
        Device::FromId(a).to_string(), Device::FromId(b).to_string());
}

LocationId Here(const Location& at) { return tls_location ? tls_location : InternLocation(at); }

/// Off the usual path: an operand has a history or is a view.
[[gnu::noinline]] bool KeepsMore(const TensorImpl& a, const TensorImpl& b) {
  if ((a.tape || b.tape) && Context().grad_mode) return true;
  return IsStrided(a) || IsStrided(b);
}

/// Whether the result has a history or strides that depend on the operands.
inline bool KeepsMore(const Tensor& a, const Tensor& b) {
  const TensorImpl &x = *a.impl(), &y = *b.impl();
  auto bits = [](const auto& pointer) { return reinterpret_cast<uintptr_t>(pointer.get()); };
  if ((bits(x.tape) | bits(x.view) | bits(y.tape) | bits(y.view)) == 0) [[likely]]
    return false;
  return KeepsMore(x, y);
}

inline bool MayCast(const OpDef& op) {
  return op.autocast != AutocastRule::kNone && IsAutocast(Context());
}

bool IsEager(const ThreadContext& context) {
  return config::Get<config::kEager>() || context.eager > 0;
}

/// Runs the budgets and eager mode after an op; one test on the usual path.
inline void AfterOp(ThreadContext& context, const Tensor& result, int64_t bytes) {
  ++context.traced_nodes;
  context.traced_bytes += bytes;
  if (tracing::detail::wanted.load(std::memory_order_relaxed) != 0) [[unlikely]]
    NoteOp(context);
  bool eager = IsEager(context);
  // A budget of 0 is none; the slow path knows.
  if (eager || context.traced_nodes >= config::Get<config::kTrimGraphSize>() ||
      context.traced_bytes >= config::Get<config::kTrimGraphBytes>()) [[unlikely]] {
    if (context.baking == 0) AfterOpSlow(context, result, eager);
  }
}

Tensor Finish(NodePtr node, uint32_t index) {
  ThreadContext& context = Context();
  bool symbolic = node->device() == kNoDevice;
  int64_t bytes = node->shape(static_cast<int>(index)).bytes();
  Tensor result = NewTensor(node.release(), index, false);
  if (!symbolic) AfterOp(context, result, bytes);
  return result;
}

/// With scalars only, a node has no device yet.
DeviceId ResolveDevice(DeviceId device) {
  if (device != kNoDevice) return device;
  ThreadContext& context = Context();
  if (context.symbolic > 0) return device;
  return context.home_device != kNoDevice ? context.home_device : Device().id();
}

[[noreturn]] void Rethrow(Error& error, LocationId location) {
  if (error.where().empty()) error.SetWhere(LocationText(location));
  error.Raise();
  __builtin_unreachable();
}

/// The dtype of an elementwise op's result without inference, where its operands have this dtype.
/// False: ask the record.
inline bool FastDType(const OpDef& op, DType operands, DType* result) {
  if (!IsFloat(operands)) return false;
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
  auto* slot = new (node->slots()) Node::Slot{Shape(dtype, {}), nullptr};
  NodeAccess::SetLeaf(node);
  NodeAccess::SetHash(node, HashType(ops::kDeviceData.info().seed, slot->shape));
  NodeAccess::SetDevice(node, kNoDevice);
  NodeAccess::SetLocation(node, tls_location);
  return node;
}

/// An elementwise op with a result of these sizes; the operands' references become its own.
[[gnu::always_inline]] inline Tensor RecordBinary(const OpDef& op, const Location& at,
                                                  Node::Operand a, Node::Operand b,
                                                  const Shape& sizes, DType dtype,
                                                  DeviceId device) {
  Node* node = NodeAccess::Allocate(op, 2, 0, 1);
  NodeAccess::operands(node)[0] = a;
  NodeAccess::operands(node)[1] = b;
  auto* slot = new (node->slots()) Node::Slot{sizes, nullptr};
  slot->shape.SetDType(dtype);
  NodeAccess::SetHash(node, HashType(op.info().seed, slot->shape));
  NodeAccess::SetDevice(node, device);
  NodeAccess::SetLocation(node, Here(at));
  return Finish(NodePtr::Adopt(node), 0);
}

/// False if their devices differ. Lifted numbers go with any.
inline bool ShareDevice(const Node& a, const Node& b, DeviceId* device) {
  *device = a.device();
  if (a.device() == b.device()) [[likely]]
    return true;
  if (a.device() == kNoDevice) *device = b.device();
  return a.device() == kNoDevice || b.device() == kNoDevice;
}

}  // namespace

DeviceId CommonDevice(const OpDef& op, DeviceId a, DeviceId b) {
  if (a == b || b == kNoDevice) return a;
  if (a == kNoDevice) return b;
  ThrowMixedDevices(op, b, a);
}

NodePtr RecordNode(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
                   LocationId location, DeviceId device_if_none) {
  try {
    const OpInfo& info = op.info();
    HAMMOCK_CHECK(attrs.size() == info.attribute_args.size(),
                  "{}: {} attributes given, {} declared", info.name, attrs.size(),
                  info.attribute_args.size());
    DeviceId device = kNoDevice;
    const Shape* inline_types[kInlineOperands];
    std::vector<const Shape*> many;
    const Shape** types = inline_types;
    if (operands.size() > kInlineOperands) {
      many.resize(operands.size());
      types = many.data();
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      types[i] = operands[i] ? &operands[i].shape() : nullptr;
      if (operands[i]) device = CommonDevice(op, operands[i].node->device(), device);
    }
    std::vector<Shape> shapes = InferShapes(op, std::span(types, operands.size()), attrs);
    if (device == kNoDevice) device = device_if_none;
    return Node::Make(op, operands, attrs, shapes, ResolveDevice(device), location);
  } catch (Error& error) {
    Rethrow(error, location);
  }
}

NodePtr RecordNodeOn(const OpDef& op, std::span<const Attr> attrs, DeviceId device,
                     LocationId location) {
  try {
    std::vector<Shape> shapes = InferShapes(op, {}, attrs);
    if (Context().symbolic > 0) device = kNoDevice;
    return Node::Make(op, {}, attrs, shapes, device, location);
  } catch (Error& error) {
    Rethrow(error, location);
  }
}

Value Record(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
             LocationId location, DeviceId device_if_none) {
  Value result{RecordNode(op, operands, attrs, location, device_if_none), 0};
  if (WantsHistory(Context(), operands)) result.tape = RecordHistory(*result.node, operands);
  return result;
}

Value ValueOf(const char* op, const Tensor& tensor) {
  if (!tensor.defined()) return {};
  Node* node = CurrentNode(op, tensor);
  return {NodePtr(node), tensor.impl()->index, tensor.impl()->tape};
}

void RunBaked(std::span<const Tensor> results) {
  ThreadContext& context = Context();
  if (!IsEager(context) || context.baking > 0) return;
  for (const Tensor& result : results) {
    if (result.defined() && result.impl()->owner) AfterOpSlow(context, result, true);
  }
}

namespace {

/// Elementwise ops pass on the order in which their operands lie in memory. The numbers of a
/// composite are settings, not operands.
void KeepLayouts(const OpDef& op, std::span<const Tensor> results,
                 std::span<const Tensor> operands) {
  if (!op.KeepsLayout()) return;
  for (const Tensor& result : results) {
    for (const Tensor& operand : operands) {
      HAMMOCK_CHECK(!operand.defined() || operand.dim() <= result.dim(),
                    "{}: its record says keeps_layout, but {} does not broadcast to {}", op.name(),
                    operand.shape().to_string(), result.shape().to_string());
    }
    KeepLayout(result, operands, !op.IsComposite());
  }
}

/// A composite without a gradient of its own: its parts have theirs.
std::vector<Tensor> ExpandWhileTracing(const Node& node, std::span<const Tensor> operands) {
  LocationScope location(node.location());
  BakingScope baking(node.device());
  std::vector<Shape> types;
  for (int i = 0; i < node.num_outputs(); ++i) types.push_back(node.shape(i));
  std::vector<Tensor> results = node.op().expand({node.op(), operands, node.attrs(), types});
  HAMMOCK_CHECK(results.size() == types.size(), "{}: the expansion gave {} results instead of {}",
                node.op().name(), results.size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    HAMMOCK_CHECK(results[i].shape() == types[i], "{}: the expansion gave {} instead of {}",
                  node.op().name(), results[i].shape().to_string(), types[i].to_string());
    // What is a part of an operand, or one itself, is a value of its own to the caller.
    if (results[i].impl()->view) results[i] = Tensor::FromValue(results[i].value());
  }
  return results;
}

}  // namespace

std::vector<Tensor> ApplyMulti(const OpDef& op, const Location& at,
                               std::span<const Tensor> operands, std::span<const Attr> attrs) {
  if (MayCast(op)) {
    std::vector<Tensor> given(operands.begin(), operands.end());
    Autocasted cast(op, at, given);
    return ApplyMulti(op, at, cast(given), attrs);
  }
  std::vector<Value> values;
  values.reserve(operands.size());
  bool views = false;
  for (const Tensor& operand : operands) {
    values.push_back(ValueOf(op.name(), operand));
    views |= operand.defined() && operand.impl()->view;
  }
  NodePtr node = RecordNode(op, values, attrs, Here(at));
  TapePtr tape;
  if (WantsHistory(Context(), values)) {
    if (op.IsComposite() && !op.vjp) {
      std::vector<Tensor> results = ExpandWhileTracing(*node, operands);
      if (views) KeepLayouts(op, results, operands);
      RunBaked(results);
      return results;
    }
    tape = RecordHistory(*node, values);
  }
  std::vector<Tensor> results;
  for (int i = 0; i < node->num_outputs(); ++i) {
    results.push_back(Finish(node, static_cast<uint32_t>(i)));
    if (tape && IsFloat(node->shape(i).dtype())) results.back().impl()->tape = tape;
  }
  if (views) KeepLayouts(op, results, operands);
  return results;
}

Tensor Apply(const OpDef& op, const Location& at, std::span<const Tensor> operands,
             std::span<const Attr> attrs) {
  return ApplyMulti(op, at, operands, attrs).at(0);
}

Tensor Apply(const OpDef& op, const Location& at, std::initializer_list<Tensor> operands,
             std::initializer_list<Attr> attrs) {
  return Apply(op, at, std::span(operands.begin(), operands.size()),
               std::span(attrs.begin(), attrs.size()));
}

Tensor ApplyOn(const OpDef& op, const Location& at, const Device& device,
               std::initializer_list<Attr> attrs) {
  return Finish(RecordNodeOn(op, std::span(attrs.begin(), attrs.size()), device.id(), Here(at)), 0);
}

Tensor ApplyUnary(const OpDef& op, const Location& at, const Tensor& a) {
  Node* x = CurrentNode(op.schema, a);
  const Shape& type = x->shape(static_cast<int>(a.impl()->index));
  bool fast =
      IsFloat(type.dtype()) && (op.rule == DTypeRule::kPromote || op.rule == DTypeRule::kFloat);
  if (!fast || KeepsMore(a, a) || MayCast(op)) return Apply(op, at, std::span(&a, 1));
  Node* node = NodeAccess::Allocate(op, 1, 0, 1);
  x->AddReference();
  NodeAccess::operands(node)[0] = {x, a.impl()->index};
  new (node->slots()) Node::Slot{type, nullptr};
  NodeAccess::SetHash(node, HashType(op.info().seed, type));
  NodeAccess::SetDevice(node, ResolveDevice(x->device()));
  NodeAccess::SetLocation(node, Here(at));
  return Finish(NodePtr::Adopt(node), 0);
}

Tensor ApplyBinary(const OpDef& op, const Location& at, const Tensor& a, const Tensor& b) {
  Node* x = CurrentNode(op.schema, a);
  Node* y = CurrentNode(op.schema, b);
  const Shape& type_a = x->shape(static_cast<int>(a.impl()->index));
  const Shape& type_b = y->shape(static_cast<int>(b.impl()->index));
  DType dtype;
  DeviceId device;
  const Shape* type = FastType(op, type_a, type_b, &dtype);
  if (!type || !ShareDevice(*x, *y, &device) || KeepsMore(a, b) || MayCast(op)) {
    const Tensor operands[] = {a, b};
    return Apply(op, at, operands);
  }
  x->AddReference();
  y->AddReference();
  return RecordBinary(op, at, {x, a.impl()->index}, {y, b.impl()->index}, *type, dtype,
                      ResolveDevice(device));
}

Tensor ApplyBinary(const OpDef& op, const Location& at, const Tensor& a, const TensorArg& b) {
  if (b.is_tensor()) return ApplyBinary(op, at, a, b.tensor());
  Node* x = CurrentNode(op.schema, a);
  const Shape& type = x->shape(static_cast<int>(a.impl()->index));
  DType dtype;
  if (x->device() == kNoDevice || BakesNumbers() || !FastDType(op, type.dtype(), &dtype) ||
      KeepsMore(a, a) || MayCast(op)) {
    return ApplyBinary(op, at, a, AsTensor(b, a));
  }
  x->AddReference();
  return RecordBinary(op, at, {x, a.impl()->index}, {ScalarLeaf(b.scalar(), type.dtype()), 0}, type,
                      dtype, x->device());
}

Tensor ApplyElementwise(const OpDef& op, const TensorArg& a, const TensorArg& b) {
  if (a.is_tensor() && b.is_tensor()) return ApplyBinary(op, b.at(), a.tensor(), b.tensor());
  if (!a.is_tensor() && !b.is_tensor()) {
    return ApplyElementwise(
        op, Lift(a.scalar(), a.scalar().IsFloating() ? kDefaultFloat : a.scalar().dtype()), b);
  }
  const Tensor& tensor = a.is_tensor() ? a.tensor() : b.tensor();
  const Scalar& scalar = a.is_tensor() ? b.scalar() : a.scalar();
  CurrentNode(op.schema, tensor);
  // Before the number takes on the tensor's dtype.
  if (Autocasted cast(op, b.at(), tensor); cast) {
    Tensor wanted = cast(tensor);
    TensorArg operand(wanted, b.at());
    return ApplyElementwise(op, a.is_tensor() ? operand : a, a.is_tensor() ? b : operand);
  }
  DType dtype = ResultType(tensor, scalar);
  if (op.rule == DTypeRule::kFloat && !IsFloat(dtype)) dtype = kDefaultFloat;
  Tensor lifted = Lift(scalar, dtype);
  return ApplyBinary(op, b.at(), a.is_tensor() ? tensor : lifted, a.is_tensor() ? lifted : tensor);
}

Tensor Lift(const Scalar& value, DType dtype) {
  if (BakesNumbers()) return Constant(value, dtype);
  return NewTensor(ScalarLeaf(value, dtype), 0, true);
}

Tensor Constant(const Scalar& value, DType dtype) {
  const Attr attrs[] = {Attr(value.To(dtype)), Attr(dtype)};
  NodePtr node = RecordNodeOn(ops::kConstant, attrs, kNoDevice, tls_location);
  return NewTensor(node.release(), 0, true);
}

DType ResultType(const Tensor& tensor, const Scalar& scalar) {
  DType dtype = tensor.dtype();
  if (scalar.IsFloating()) return IsFloat(dtype) ? dtype : kDefaultFloat;
  if (scalar.IsInt()) return dtype == DType::kBool ? DType::kI64 : dtype;
  return dtype;
}

Tensor AsTensor(const TensorArg& arg, const Tensor& other) {
  if (arg.is_tensor()) return arg.tensor();
  // Without the other one, the op that takes both says what is wrong.
  return Lift(arg.scalar(), other.defined() ? ResultType(other, arg.scalar()) : kDefaultFloat);
}

}  // namespace hammock
