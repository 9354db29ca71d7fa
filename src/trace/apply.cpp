#include "trace/apply.h"

#include <algorithm>
#include <unordered_set>

#include "base/location_scope.h"
#include "base/of_thread.h"
#include "base/throw.h"
#include "hammock/config.h"
#include "ir/primitives.h"
#include "trace/after_op.h"
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

/// Whether the history of a node with these operands is wanted.
bool WantsHistory(const Operands& operands) { return operands.has_tape() && Context().grad_mode; }

[[noreturn, gnu::noinline]] void Rethrow(Error& error, const OpDef& op, LocationId location) {
  error.SetWhere(WhereText(location));
  NameCaller(error, op, location);
  error.Raise();
  __builtin_unreachable();
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

namespace {

/// Composites that take complex operands or storage types, by the hash of node and operand types.
struct TakesComplex {
  struct HashOf {
    size_t operator()(const Hash128& hash) const { return static_cast<size_t>(hash.lo); }
  };
  std::unordered_set<Hash128, HashOf> known;
};

/// Raises what the parts of a composite say to operands that not every op takes: its expansion is
/// tried on symbolic tensors, once for each call that differs.
[[gnu::cold, gnu::noinline]] void CheckComplexParts(const Node& node,
                                                    std::span<const Shape* const> types) {
  Hash128 hash = node.hash();
  for (const Shape* type : types) hash = type ? HashType(hash, *type) : Combine(hash, 1);
  auto& known = OfThread<TakesComplex>().known;
  if (known.contains(hash)) return;
  LocationOverride part(AsPartOf(node.location(), node.op().name()));
  SymbolicScope symbolic;
  std::vector<Tensor> operands;
  for (const Shape* type : types) operands.push_back(type ? SymbolicTensor(*type) : Tensor());
  std::vector<Shape> results;
  for (int i = 0; i < node.num_outputs(); ++i) results.push_back(node.shape(i));
  node.op().expand({node.op(), operands, node.attrs(), results});
  OfThread<TakesComplex>().known.insert(hash);
}

/// Or of a storage type.
inline bool AnyComplex(std::span<const Shape* const> types) {
  for (const Shape* type : types) {
    if (type && type->dtype() >= DType::kC64) return true;
  }
  return false;
}

}  // namespace

NodePtr RecordNode(const OpDef& op, const Operands& operands, std::span<const Attr> attrs,
                   LocationId location, DeviceId device_if_none) {
  try {
    DeviceId device = kNoDevice;
    for (const Node::Operand& operand : operands.nodes()) {
      if (operand.node) device = CommonDevice(op, operand.node->device(), device);
    }
    if (device == kNoDevice) device = device_if_none;
    NodePtr node = MakeInferredNode(op, operands.nodes(), operands.types(), attrs,
                                    ResolveDevice(device), location);
    if (op.IsComposite() && AnyComplex(operands.types())) [[unlikely]] {
      CheckComplexParts(*node, operands.types());
    }
    return node;
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
    // A result that is an operand, or a part of one, is a value of its own to the caller.
    if (results[i].impl()->view) results[i] = Tensor::FromValue(results[i].value());
  }
  return results;
}

/// Gives a new result its history, where its dtype has gradients.
void SetTape(const Tensor& result, const Node& node, const TapePtr& tape) {
  TensorImpl& impl = *result.impl();
  if (tape && IsFloatOrComplex(node.shape(static_cast<int>(impl.index)).dtype())) impl.tape = tape;
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
    results.push_back(FinishOp(node, static_cast<uint32_t>(i)));
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
  Tensor result = FinishOp(std::move(node), 0);
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
  return FinishOp(RecordNodeOn(op, std::span(attrs.begin(), attrs.size()), device.id(), Here(at)),
                  0);
}

}  // namespace hammock
