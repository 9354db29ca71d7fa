#include "trace/alias.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/throw.h"
#include "ir/primitives.h"
#include "trace/apply.h"
#include "trace/hooks.h"
#include "trace/layout.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

Value AsView(Value value) {
  NodeAccess::flags(value.node.get()) |= NodeAccess::kIsView;
  return value;
}

Value ApplyForward(const ViewStep& step, const Operands::Borrowed& input) {
  return RecordView(*step.model, input, step.start, CurrentLocation());
}

std::shared_ptr<const ViewStep> NewStep(const ViewOp& view, const Shape& input,
                                        std::shared_ptr<const ViewStep> parent) {
  return std::allocate_shared<ViewStep>(PoolAllocator<ViewStep>(), view, input, std::move(parent));
}

Value Permuted(const Value& value, const Dims& order) {
  const Attr attrs[] = {Attr(order)};
  return Record(ops::kPermute, std::span(&value, 1), attrs, CurrentLocation());
}

Dims Inverse(std::span<const int64_t> order) {
  Dims inverse = Dims::Filled(static_cast<int>(order.size()), 0);
  for (size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<int>(order[i])] = static_cast<int64_t>(i);
  return inverse;
}

/// A base as it lies in memory, which is what as_strided addresses.
Value InMemory(const AliasGroup& group, const Value& base) {
  return group.order.empty() ? base : AsView(Permuted(base, group.order));
}
/// The base whose memory this is.
Value FromMemory(const AliasGroup& group, const Value& memory) {
  return group.order.empty() ? memory : Permuted(memory, Inverse(group.order));
}

Value Reshaped(const Value& value, const Dims& sizes) {
  const Attr attrs[] = {Attr(sizes)};
  return Record(ops::kReshape, std::span(&value, 1), attrs, CurrentLocation());
}

/// `input` with the elements that the view shows replaced by `written`.
Value ApplyInverse(const ViewStep& step, const Value& input, const Value& written) {
  if (step.op() == &ops::kReshape || step.op() == &ops::kBroadcast) {
    return Reshaped(written, input.shape().sizes());  // no broadcast that stretches comes here
  }
  if (step.op() == &ops::kPermute) return Permuted(written, Inverse(step.attr(0).ints()));
  if (step.op() == &ops::kSlice) {  // {dim, start, size, step} -> {dim, start, step}
    const Attr attrs[] = {step.attr(0), step.attr(1), step.attr(3)};
    const Value operands[] = {input, written};
    return Record(ops::kUpdateSlice, operands, attrs, CurrentLocation());
  }
  if (step.op() == &ops::kDynamicSelect) {  // {dim} -> {dim, step}
    const Attr attrs[] = {step.attr(0), Attr(1)};
    Dims sizes = input.shape().sizes();
    sizes[static_cast<int>(step.attr(0).integer())] = 1;
    const Value operands[] = {input, Reshaped(written, sizes), step.start};
    return Record(ops::kDynamicUpdateSlice, operands, attrs, CurrentLocation());
  }
  if (step.op() == &ops::kDynamicSlice) {  // {dim, size, step} -> {dim, step}
    const Attr attrs[] = {step.attr(0), step.attr(2)};
    const Value operands[] = {input, written, step.start};
    return Record(ops::kDynamicUpdateSlice, operands, attrs, CurrentLocation());
  }
  if (step.op() == &ops::kBitcast) {
    const Attr attrs[] = {Attr(input.shape().dtype())};
    return Record(ops::kBitcast, std::span(&written, 1), attrs, CurrentLocation());
  }
  if (step.op() == &ops::kReal || step.op() == &ops::kImag) {
    bool real = step.op() == &ops::kReal;
    Value other =
        Record(real ? ops::kImag : ops::kReal, std::span(&input, 1), {}, CurrentLocation());
    const Value parts[] = {real ? written : other, real ? other : written};
    return Record(ops::kComplex, parts, {}, CurrentLocation());
  }
  HAMMOCK_CHECK(step.op() == &ops::kAsStrided, "view op {} cannot be written through",
                step.op()->name());
  const Attr attrs[] = {step.attr(1), step.attr(2)};
  const Value operands[] = {input, written};
  return Record(ops::kAsStridedScatter, operands, attrs, CurrentLocation());
}

/// The view ops from the base. An as_strided can only be the first, and addresses memory.
std::vector<const ViewStep*> ChainOf(const ViewState& view) {
  std::vector<const ViewStep*> chain;
  for (const ViewStep* step = view.last.get(); step; step = step->parent.get())
    chain.push_back(step);
  std::reverse(chain.begin(), chain.end());
  // Views before an as_strided do not matter: it addresses the base itself.
  for (size_t i = chain.size(); i-- > 0;) {
    if (chain[i]->op() == &ops::kAsStrided) {
      chain.erase(chain.begin(), chain.begin() + static_cast<long>(i));
      break;
    }
  }
  return chain;
}

bool AddressesMemory(const std::vector<const ViewStep*>& chain) {
  return !chain.empty() && chain[0]->op() == &ops::kAsStrided;
}

/// Makes a tensor with memory of its own the base of a group.
[[gnu::noinline]] void MakeGroup(TensorImpl& impl) {
  Geometry geometry = GeometryOf(impl);
  auto group = std::allocate_shared<AliasGroup>(PoolAllocator<AliasGroup>());
  group->base = {NodePtr(impl.node), impl.index, impl.tape};
  group->order = StorageOrder(geometry.sizes, geometry.strides);
  group->attached = 1;
  auto view = std::make_unique<ViewState>(group, nullptr, group->generation.load(), geometry,
                                          /*detached=*/false);
  std::unique_lock<SpinLock> owner;
  if (impl.owner) owner = std::unique_lock(impl.owner->lock);
  impl.view.swap(view);
  if (owner) owner.unlock();
  MoveWrites(impl, *impl.view->group);
}

inline void EnsureGroup(TensorImpl& impl) {
  if (!impl.SharesMemory()) MakeGroup(impl);
}

/// Whether the view op shows an element of its input more than once.
bool Stretches(const ViewStep& step, const Shape& input) {
  if (step.op() == &ops::kAsStrided) {
    return SelfOverlaps({Dims(step.attr(0).ints()), Dims(step.attr(1).ints()), 0});
  }
  return step.op() == &ops::kBroadcast &&
         input.numel() != Shape(DType::kBool, Dims(step.attr(0).ints())).numel();
}

/// The base with `value` in the places that the view shows.
Value WrittenBase(const ViewState& view, const Value& value) {
  const Value& base = view.group->base;
  auto chain = ChainOf(view);
  bool in_memory = AddressesMemory(chain), stretched = false;
  std::vector<Value> inputs{in_memory ? InMemory(*view.group, base) : base};
  for (const ViewStep* step : chain) {
    stretched |= Stretches(*step, inputs.back().shape());
    if (step != chain.back()) inputs.push_back(ApplyForward(*step, inputs.back()));
  }
  if (stretched) {
    // Part of an expanded tensor in which no two elements share a place: written by address.
    if (base.shape().dtype() != value.shape().dtype()) {
      Throw<NotSupported>(
          ErrorCode::kNotSupported,
          "cannot write to a part of an expanded tensor under another dtype; clone it");
    }
    const Attr attrs[] = {Attr(view.strides), Attr(view.offset)};
    const Value operands[] = {InMemory(*view.group, base), value};
    return FromMemory(*view.group,
                      Record(ops::kAsStridedScatter, operands, attrs, CurrentLocation()));
  }
  Value written = value;
  for (size_t i = chain.size(); i-- > 0;) written = ApplyInverse(*chain[i], inputs[i], written);
  return in_memory ? FromMemory(*view.group, written) : written;
}

/// A new member of the group of `of`, whose value is at `generation`.
Tensor NewView(Value&& value, const ViewState& of, std::shared_ptr<const ViewStep>&& last,
               uint64_t generation, const Geometry& geometry, bool detached = false) {
  detached |= of.detached || !Context().grad_mode;
  if (!detached) of.group->attached.fetch_add(1, std::memory_order_relaxed);
  return NewTensor(
      std::move(value), false,  // Note [Pending views]
      std::make_unique<ViewState>(of.group, std::move(last), generation, geometry, detached));
}

/// The value that a member of a group shows now.
void Assign(TensorImpl& impl, const Value& value) {
  Node* node = value.node.get();
  node->AddReference();
  Node* old;
  {
    std::unique_lock<SpinLock> owner;
    if (impl.owner) owner = std::unique_lock(impl.owner->lock);
    old = std::exchange(impl.node, node);
    impl.index = value.index;
    impl.host_is_current = false;
  }
  if (old) old->DropReference();
}

/// So that the next step computes what was written even if no member of the group is in a pending
/// list.
void ListWritten(const std::shared_ptr<AliasGroup>& group) {
  if (group->listed.exchange(true)) return;
  ThreadContext& context = Context();
  std::lock_guard lock(context.lock);
  context.written_groups.push_back(group);
}

}  // namespace

ViewStep::ViewStep(const ViewOp& view, const Shape& input, std::shared_ptr<const ViewStep> parent)
    : parent(std::move(parent)) {
  if (view.start) start.node = LiftNode(*view.start, DType::kI64);
  const Shape* types[] = {&input, start ? &start.shape() : nullptr};
  model = ModelOf(view.op, std::span(types, start ? 2 : 1), {view.attrs.begin(), view.attrs.size()},
                  CurrentLocation());
}

ViewState::~ViewState() {
  if (!group || detached || group->attached.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  TapePtr history;  // goes when the lock is free
  std::lock_guard lock(group->mutex);
  std::swap(history, group->base.tape);
}

Geometry GeometryOf(const TensorImpl& impl) {
  const Dims& sizes = impl.node->shape(static_cast<int>(impl.index)).sizes();
  if (!impl.view) return {sizes, ContiguousStrides(sizes), 0};
  return {sizes, impl.view->strides, impl.view->offset};
}

namespace {

/// By looking at every element.
bool SharesAnElement(const Geometry& geometry) {
  std::vector<int64_t> offsets{0};
  for (int i = 0; i < geometry.sizes.size(); ++i) {
    size_t known = offsets.size();
    for (int64_t at = 1; at < geometry.sizes[i]; ++at) {
      for (size_t k = 0; k < known; ++k) offsets.push_back(offsets[k] + at * geometry.strides[i]);
    }
  }
  std::sort(offsets.begin(), offsets.end());
  return std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
}

}  // namespace

bool SelfOverlaps(const Geometry& geometry) {
  // Dims of more than one element, by stride: no overlap if each stride exceeds the reach of the
  // smaller ones. Interleaved dims that do not overlap all the same are found by looking, as long
  // as that is cheap.
  constexpr int64_t kMostToLookAt = 1 << 16;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int i = 0; i < geometry.sizes.size(); ++i) {
    if (geometry.sizes[i] == 0) return false;
    if (geometry.sizes[i] > 1) dims.emplace_back(geometry.strides[i], geometry.sizes[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach) {
      bool look = stride > 0 && Shape(DType::kBool, geometry.sizes).numel() <= kMostToLookAt;
      return !look || SharesAnElement(geometry);
    }
    reach += stride * (size - 1);
  }
  return false;
}

[[gnu::flatten]] Tensor MakeView(const char* name, const Tensor& self, const ViewOp& op,
                                 const Geometry& geometry) {
  Node* node = CurrentNode(name, self);
  TensorImpl& impl = *self.impl();
  bool symbolic = node->device() == kNoDevice;  // such values have no identity to alias
  if (!symbolic) EnsureGroup(impl);
  const Operands::Borrowed input(node, impl.index, impl.tape);
  auto step = NewStep(op, input.shape(), symbolic ? nullptr : impl.view->last);
  Value value = ApplyForward(*step, input);
  if (symbolic) return NewTensor(std::move(value), true);
  return NewView(std::move(value), *impl.view, std::move(step), impl.view->generation, geometry);
}

namespace {

/// The view of a complex base that a geometry in real numbers shows: places of complex numbers, and
/// which part of them. Nothing where it shows both parts.
struct PartGeometry {
  Geometry places;
  const OpDef* part = nullptr;
};
std::optional<PartGeometry> PartOf(const Geometry& geometry) {
  PartGeometry result{geometry, geometry.offset % 2 ? &ops::kImag : &ops::kReal};
  for (int i = 0; i < geometry.sizes.size(); ++i) {
    if (geometry.sizes[i] > 1 && geometry.strides[i] % 2 != 0) return std::nullopt;
    result.places.strides[i] /= 2;
  }
  result.places.offset /= 2;
  return result;
}

}  // namespace

Tensor MakeBaseView(const char* name, const Tensor& self, const Geometry& geometry) {
  Node* node = CurrentNode(name, self);
  TensorImpl& impl = *self.impl();
  auto strided = [](const Shape& input, const Geometry& places) {
    return NewStep({ops::kAsStrided, {places.sizes, places.strides, places.offset}}, input,
                   nullptr);
  };
  if (node->device() == kNoDevice) {
    const Operands::Borrowed input(node, impl.index, impl.tape);
    return NewTensor(ApplyForward(*strided(input.shape(), geometry), input), true);
  }
  EnsureGroup(impl);
  std::lock_guard lock(impl.view->group->mutex);
  Value base = impl.view->group->base;
  if (impl.view->detached) base.tape = {};
  base = InMemory(*impl.view->group, base);
  const DType from = base.shape().dtype();
  PartGeometry shown{geometry};
  if (from != self.dtype()) {
    std::optional<PartGeometry> part;
    if (IsComplex(from) && RealOf(from) == self.dtype()) part = PartOf(geometry);
    if (!part) {
      Throw<NotSupported>(ErrorCode::kNotSupported,
                          "{}: the tensor is a view of {} under another dtype ({}); clone it first",
                          name, NameOf(from), NameOf(self.dtype()));
    }
    shown = *part;
  }
  auto step = strided(base.shape(), shown.places);
  Value result = ApplyForward(*step, base);
  if (shown.part) {
    step = NewStep({*shown.part, {}}, result.shape(), std::move(step));
    result = ApplyForward(*step, result);
  }
  return NewView(std::move(result), *impl.view, std::move(step),
                 impl.view->group->generation.load(), geometry);
}

Tensor MakeAlias(const Tensor& self, bool detached) {
  Node* node = CurrentNode("alias", self);
  TensorImpl& impl = *self.impl();
  Value value{NodePtr(node), impl.index};
  if (!detached) value.tape = PassOn({value.node, value.index, impl.tape});
  if (node->device() == kNoDevice) return NewTensor(std::move(value), true);
  Geometry geometry = GeometryOf(impl);
  EnsureGroup(impl);
  return NewView(std::move(value), *impl.view, std::shared_ptr(impl.view->last),
                 impl.view->generation, geometry, detached);
}

[[gnu::noinline]] void RefreshView(TensorImpl& impl) {
  ViewState& view = *impl.view;
  std::lock_guard lock(view.group->mutex);
  GradModeScope mode(!view.detached);
  Value base = view.group->base;
  if (view.detached) base.tape = {};
  auto chain = ChainOf(view);
  Value value = AddressesMemory(chain) ? InMemory(*view.group, base) : base;
  for (const ViewStep* step : chain) value = ApplyForward(*step, value);
  view.generation = view.group->generation.load();
  Assign(impl, value);
  bool is_leaf = impl.tape && impl.tape == impl.grad_slot;
  if (!is_leaf) impl.tape = view.last || !value.tape ? value.tape : PassOn(value);
}

void WriteValue(const char* op, TensorImpl& impl, const Value& value, bool is_shared) {
  if (!impl.SharesMemory()) {
    if (impl.owner)
      NoteWrite(impl, false, {NodePtr(impl.node), impl.index, impl.tape}, value, is_shared);
    SetNode(impl, value);
    return;
  }
  if (SelfOverlaps(GeometryOf(impl))) {
    Throw(
        ErrorCode::kValue,
        "{}: cannot write to a view in which several elements share one place (such as an expanded "
        "tensor); clone it first",
        op);
  }
  if (value.shape().numel() == 0) return;
  ViewState& view = *impl.view;
  std::lock_guard lock(view.group->mutex);
  bool keep_history = !Context().grad_mode || view.detached;
  GradModeScope mode(!keep_history);
  Value written = WrittenBase(view, value);
  if (keep_history) written.tape = view.group->base.tape;
  is_shared = is_shared && written == value;
  NoteWrite(*view.group, true, view.group->base, written, is_shared);
  view.group->base = std::move(written);
  view.generation = view.group->generation.fetch_add(1) + 1;
  ListWritten(view.group);
  Assign(impl, value);
}

Value BaseValue(const std::shared_ptr<AliasGroup>& group) {
  std::lock_guard lock(group->mutex);
  return group->base;
}

}  // namespace hammock
