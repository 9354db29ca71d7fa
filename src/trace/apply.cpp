#include "trace/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "hammock/metrics.h"
#include "hammock/profile.h"
#include "ir/primitives.h"
#include "trace/autocast.h"
#include "trace/hooks.h"
#include "trace/known_calls.h"
#include "trace/layout.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"
#include "trace/write.h"

namespace hammock {

constinit config::Option<bool> config::kEager({
    .name = "eager",
    .default_value = false,
    .doc = "Execute every op when it is called, one by one; for debugging.",
});

constinit config::Option<int64_t> config::kTrimGraphBytes({
    .name = "trim_graph_bytes",
    .default_value = -1,
    .doc = "Bytes that a thread's pending ops may take on a device, by a plan of their memory; "
           "beyond that a part of them is executed. 0: no limit; -1: what is free there.",
    .min = -1,
});

constinit config::Option<int64_t> config::kTrimGraphSize({
    .name = "trim_graph_size",
    .default_value = 100000,
    .doc = "Pending nodes from which a thread's recorded ops are executed outside of a `step`. "
           "From 2000 on they are where an optimiser's step, a backward pass or a module call "
           "ends, or where a loop repeats itself. 0: never.",
    .upstream = "torch_lazy_trim_graph_size",
});

namespace {

constexpr int kInlineOperands = 8;

[[noreturn]] void ThrowMixedDevices(const OpDef& op, DeviceId a, DeviceId b) {
  if (Device::FromId(a).to_string() == Device::FromId(b).to_string()) {
    Throw(ErrorCode::kDeviceMismatch,
          "{}: an operand lives on a device {} whose backend is no longer registered; another "
          "backend has its name now",
          op.name(), Device::FromId(a).to_string());
  }
  Throw(ErrorCode::kDeviceMismatch,
        "{}: operands live on different devices: {} and {}; move one with to(device)", op.name(),
        Device::FromId(a).to_string(), Device::FromId(b).to_string());
}

LocationId Here(const Location& at) { return tls_location ? tls_location : InternLocation(at); }

/// What a result has besides its value.
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

/// Whether a node of it can have a history of its own, rather than those of its parts.
inline bool HasGradient(const OpDef& op) { return !op.IsComposite() || op.vjp; }

inline bool MayCast(const OpDef& op) {
  return op.autocast != AutocastRule::kNone && IsAutocast(Context());
}

bool IsEager(const ThreadContext& context) {
  return config::Get<config::kEager>() || context.eager > 0;
}

/// Counts an op; true if a budget must be checked.
inline bool CountOp(ThreadContext& context) {
  ++context.traced_nodes;
  // Not by Get, which looks whether they were read yet: then they differ, too.
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (config::kTrimGraphSize.value.load(kRelaxed) != context.most_nodes ||
      config::kTrimGraphBytes.value.load(kRelaxed) != context.most_bytes) [[unlikely]] {
    context.nodes_look = context.held_look = 0;
  }
  if (profile::detail::wanted.load(kRelaxed) != 0) [[unlikely]]
    NoteOp(context);
  return context.traced_nodes >= context.nodes_look || context.held_bytes >= context.held_look;
}

/// Runs the budgets and eager mode after an op.
inline void AfterOp(ThreadContext& context, const Tensor& result) {
  TensorImpl& impl = *result.impl();
  impl.held_epoch = context.held_epoch;
  impl.held_bytes = impl.node->shape(static_cast<int>(impl.index)).bytes();
  context.held_bytes += impl.held_bytes;
  bool check = CountOp(context), eager = IsEager(context);
  if (check || eager) [[unlikely]] {
    if (context.baking == 0) AfterOpSlow(context, result, eager);
  }
}

Tensor Finish(NodePtr node, uint32_t index) {
  ThreadContext& context = Context();
  bool symbolic = node->device() == kNoDevice;
  Tensor result = NewTensor(context, node.release(), index, false);
  if (!symbolic) AfterOp(context, result);
  return result;
}

/// With scalars only, a node has no device yet.
DeviceId ResolveDevice(DeviceId device) {
  if (device != kNoDevice) return device;
  ThreadContext& context = Context();
  if (context.symbolic > 0) return device;
  return context.home_device != kNoDevice ? context.home_device : Device().id();
}

/// Whether the history of a node with these operands is wanted.
bool WantsHistory(const Operands& operands) { return operands.has_tape() && Context().grad_mode; }

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

[[noreturn, gnu::noinline]] void Rethrow(Error& error, const OpDef& op, LocationId location) {
  error.SetWhere(WhereText(location));
  NameCaller(error, op, location);
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
  Tensor result = Finish(std::move(node), 0);
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

}  // namespace

void NameCaller(Error& error, const OpDef& op, LocationId location) {
  std::string caller = CalledOp(location), own = op.info().schema.name();
  std::string_view message = error.message();
  if (caller.empty() || own.starts_with(caller) || message.starts_with(caller + ":")) return;
  std::string inner = op.name();
  if (message.starts_with(inner + ": ")) message.remove_prefix(inner.size() + 2);
  bool described = message.find(" (in ") != std::string_view::npos;
  error.SetMessage(caller + ": " + std::string(message) + (described ? "" : " (in " + inner + ")"));
}

DeviceId CommonDevice(const OpDef& op, DeviceId a, DeviceId b) {
  if (a == b || b == kNoDevice) return a;
  if (a == kNoDevice) return b;
  ThrowMixedDevices(op, b, a);
}

void Operands::MakeRoom() {
  more_ = std::make_unique<More>(size_);
  nodes_ = more_->nodes.data();
  types_ = more_->types.data();
  tapes_ = more_->tapes.data();
}

namespace {

const TapePtr kNoTape;

}  // namespace

inline void Operands::Set(size_t i, const char* op, const Tensor& tensor) {
  if (!tensor.defined()) return Set(i, nullptr, 0, kNoTape);
  Node* node = CurrentNode(op, tensor);
  const TensorImpl& impl = *tensor.impl();
  Set(i, node, impl.index, impl.tape);
  has_view_ |= impl.view != nullptr;
}

Operands::Operands(std::span<const Value> values) : Operands(values.size()) {
  for (size_t i = 0; i < size_; ++i) Set(i, values[i].node.get(), values[i].index, values[i].tape);
}

Operands::Operands(const char* op, std::span<const Tensor> tensors) : Operands(tensors.size()) {
  for (size_t i = 0; i < size_; ++i) Set(i, op, tensors[i]);
}

Operands::Operands(const char* op, std::span<const Tensor* const> tensors)
    : Operands(tensors.size()) {
  for (size_t i = 0; i < size_; ++i) Set(i, op, *tensors[i]);
}

NodePtr RecordNode(const OpDef& op, const Operands& operands, std::span<const Attr> attrs,
                   LocationId location, DeviceId device_if_none) {
  try {
    DeviceId device = kNoDevice;
    for (const Node::Operand& operand : operands.nodes()) {
      if (operand.node) device = CommonDevice(op, operand.node->device(), device);
    }
    if (device == kNoDevice) device = device_if_none;
    return MakeInferredNode(op, operands.nodes(), operands.types(), attrs, ResolveDevice(device),
                            location);
  } catch (Error& error) {
    Rethrow(error, op, location);
  }
}

NodePtr ModelOf(const OpDef& op, std::span<const Shape* const> types, std::span<const Attr> attrs,
                LocationId location) {
  try {
    return ModelOf(op, types, attrs);
  } catch (Error& error) {
    Rethrow(error, op, location);
  }
}

[[gnu::flatten]] Value RecordView(const Node& model, const Operands::Borrowed& input,
                                  const Value& start, LocationId location) {
  const Node::Operand operands[] = {{input.node, input.index}, {start.node.get(), 0}};
  DeviceId device = ResolveDevice(input.node->device());
  Value result{NodeAccess::MakeLike(model, operands, device, location), 0};
  NodeAccess::flags(result.node.get()) |= NodeAccess::kIsView;
  if (*input.tape && Context().grad_mode) [[unlikely]] {
    const Operands::Borrowed both[] = {input, start};
    Operands with_tapes(std::span(both, start ? 2 : 1));
    result.tape = RecordHistory(*result.node, with_tapes);
  }
  return result;
}

NodePtr RecordNode(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
                   LocationId location, DeviceId device_if_none) {
  return RecordNode(op, Operands(operands), attrs, location, device_if_none);
}

NodePtr RecordNodeOn(const OpDef& op, std::span<const Attr> attrs, DeviceId device,
                     LocationId location) {
  try {
    if (Context().symbolic > 0) device = kNoDevice;
    return MakeInferredNode(op, {}, {}, attrs, device, location);
  } catch (Error& error) {
    Rethrow(error, op, location);
  }
}

Value Record(const OpDef& op, std::span<const Value> operands, std::span<const Attr> attrs,
             LocationId location, DeviceId device_if_none) {
  return Record(op, Operands(operands), attrs, location, device_if_none);
}

[[gnu::flatten]] Value Record(const OpDef& op, const Operands& operands,
                              std::span<const Attr> attrs, LocationId location,
                              DeviceId device_if_none) {
  Value result{RecordNode(op, operands, attrs, location, device_if_none), 0};
  if (WantsHistory(operands)) result.tape = RecordHistory(*result.node, operands);
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
[[gnu::noinline]] void KeepLayouts(const OpDef& op, std::span<const Tensor> results,
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
  LocationOverride part(AsPartOf(node.location(), node.op().name()));
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

namespace {

/// Gives a new result its history, where its dtype has gradients.
void SetTape(const Tensor& result, const Node& node, const TapePtr& tape) {
  TensorImpl& impl = *result.impl();
  if (tape && IsFloat(node.shape(static_cast<int>(impl.index)).dtype())) impl.tape = tape;
}

}  // namespace

[[gnu::noinline]] std::vector<Tensor> ApplyMulti(const OpDef& op, const Location& at,
                                                 std::span<const Tensor> tensors,
                                                 std::span<const Attr> attrs) {
  LocationScope scope(Here(at));
  if (MayCast(op)) {
    std::vector<Tensor> given(tensors.begin(), tensors.end());
    Autocasted cast(op, at, given);
    return ApplyMulti(op, at, cast(given), attrs);
  }
  Operands operands(op.schema, tensors);
  NodePtr node = RecordNode(op, operands, attrs, Here(at));
  TapePtr tape;
  std::vector<Tensor> results;
  if (WantsHistory(operands)) {
    if (!HasGradient(op)) {
      results = ExpandWhileTracing(*node, tensors);
      if (operands.has_view()) KeepLayouts(op, results, tensors);
      RunBaked(results);
      return results;
    }
    tape = RecordHistory(*node, operands);
  }
  results.reserve(static_cast<size_t>(node->num_outputs()));
  for (int i = 0; i < node->num_outputs(); ++i) {
    results.push_back(Finish(node, static_cast<uint32_t>(i)));
    SetTape(results.back(), *node, tape);
  }
  if (operands.has_view()) KeepLayouts(op, results, tensors);
  return results;
}

[[gnu::flatten]] Tensor Apply(const OpDef& op, const Location& at, std::span<const Tensor> tensors,
                              std::span<const Attr> attrs) {
  if (MayCast(op) || !HasGradient(op)) [[unlikely]]
    return ApplyMulti(op, at, tensors, attrs).at(0);
  Operands operands(op.schema, tensors);
  NodePtr node = RecordNode(op, operands, attrs, Here(at));
  TapePtr tape;
  if (WantsHistory(operands)) tape = RecordHistory(*node, operands);
  Node* recorded = node.get();
  Tensor result = Finish(std::move(node), 0);
  SetTape(result, *recorded, tape);
  if (operands.has_view()) KeepLayouts(op, std::span(&result, 1), tensors);
  return result;
}

void ApplyInto(const OpDef& op, std::span<const Tensor* const> tensors, std::span<const Attr> attrs,
               std::span<const Tensor> targets) {
  NodePtr node = RecordNode(op, Operands(op.schema, tensors), attrs, CurrentLocation());
  HAMMOCK_CHECK(static_cast<size_t>(node->num_outputs()) == targets.size(),
                "{} has {} results, {} targets given", op.name(), node->num_outputs(),
                targets.size());
  for (size_t i = 0; i < targets.size(); ++i) {
    Write(op.schema, targets[i], {node, static_cast<uint32_t>(i)});
  }
  CountOp(Context());
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

namespace {

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
  return Finish(std::move(recorded), 0);
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
  bool fast = IsFloat(dtype) && (op.rule == DTypeRule::kPromote || op.rule == DTypeRule::kFloat);
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
  if (keeps.strides) return Apply(ops::kCast, at, std::span(&a, 1), std::span(&attr, 1));
  return RecordUnary(ops::kCast, at, a, &attr, dtype, CastSeed(dtype), keeps.history);
}

Tensor ApplyBinary(const OpDef& op, const Location& at, const Tensor& a, const Tensor& b) {
  Node* x = NodeOf(op, at, a);
  Node* y = NodeOf(op, at, b);
  const Shape& type_a = x->shape(static_cast<int>(a.impl()->index));
  const Shape& type_b = y->shape(static_cast<int>(b.impl()->index));
  DType dtype;
  DeviceId device;
  const Shape* type = FastType(op, type_a, type_b, &dtype);
  Keeps keeps = WhatKeeps(a, b);
  if (!type || !ShareDevice(*x, *y, &device) || keeps.strides || MayCast(op) ||
      (keeps.history && (!HasGradient(op) || !IsFloat(dtype)))) {
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
  return Finish(std::move(node), 0);
}

Tensor ApplyBinary(const OpDef& op, const Location& at, const Tensor& a, const TensorArg& b) {
  if (b.is_tensor()) return ApplyBinary(op, at, a, b.tensor());
  Node* x = NodeOf(op, at, a);
  const Shape& type = x->shape(static_cast<int>(a.impl()->index));
  DType dtype;
  Keeps keeps = WhatKeeps(a, a);
  if (x->device() == kNoDevice || BakesNumbers() || !FastDType(op, type.dtype(), &dtype) ||
      keeps.strides || keeps.history || MayCast(op)) {
    return ApplyBinary(op, at, a, AsTensor(b, a));
  }
  x->AddReference();
  return Finish(RecordBinary(op, at, {x, a.impl()->index},
                             {ScalarLeaf(b.scalar(), type.dtype()), 0}, type, dtype, x->device()),
                0);
}

Tensor ApplyElementwise(const OpDef& op, const TensorArg& a, const TensorArg& b) {
  if (a.is_tensor() && b.is_tensor()) return ApplyBinary(op, b.at(), a.tensor(), b.tensor());
  if (!a.is_tensor() && !b.is_tensor()) {
    return ApplyElementwise(
        op, Lift(a.scalar(), a.scalar().IsFloating() ? kDefaultFloat : a.scalar().dtype()), b);
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
  if (op.rule == DTypeRule::kFloat && !IsFloat(dtype)) dtype = kDefaultFloat;
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
