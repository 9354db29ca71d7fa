#include "autograd/tape.h"

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "ops/kit/compose.h"
#include "trace/hooks.h"
#include "trace/layout.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

/// The entries that this thread is about to destroy: freeing a long tape never recurses.
constinit thread_local TapeEntry** tls_dying = nullptr;

}  // namespace

void TapePtr::AddReference(TapeEntry* entry) {
  entry->references.fetch_add(1, std::memory_order_relaxed);
}

void TapePtr::DropReference(TapeEntry* entry) {
  // The only reference is given up without a locked instruction: nobody can take another.
  if (entry->references.load(std::memory_order_acquire) != 1 &&
      entry->references.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    return;
  }
  if (tls_dying) {
    entry->next_dying = std::exchange(*tls_dying, entry);
    return;
  }
  TapeEntry* dying = nullptr;
  tls_dying = &dying;
  while (entry) {
    delete entry;
    entry = dying;
    if (entry) dying = entry->next_dying;
  }
  tls_dying = nullptr;
}

void ThrowReleased(const TapeEntry& entry) {
  Throw<ValueError>(ErrorCode::kValue,
                    "backward: trying to go through the history of {}{} a second time, after what "
                    "it saved has been freed; pass retain_graph=true the first time",
                    entry.name(),
                    entry.location ? " at " + LocationText(entry.location) : std::string());
}

bool LeafEntry::IsUndone() const { return grad_.defined() && grad_.impl()->undone; }

void LeafEntry::Accumulate(const Tensor& grad, bool keep_history) {
  std::lock_guard lock(mutex_);
  if (!grad_.defined() || IsUndone()) {
    Value value = grad.value();
    if (!keep_history) value.tape = {};
    grad_ = Tensor::FromValue(value);
    if (grad_.impl()->owner) NoteWrite(*grad_.impl(), false, {}, value, true);
    if (!strides.empty()) SetStrides(*grad_.impl(), strides);
  } else if (keep_history) {
    grad_ = grad_ + grad;
  } else {
    GradModeScope no_grad(false);
    grad_.add_(grad);
  }
}

Tensor ReducedTo(const Tensor& grad, const Shape& type) {
  return ops::Casted(ops::SummedTo(grad, type.sizes()), type.dtype());
}

// ---- Tensor's methods

bool Tensor::requires_grad(Location at) const {
  if (!impl_) ThrowUndefined("requires_grad", at);
  CurrentNode("requires_grad", *this);
  return static_cast<bool>(impl_->tape);
}

bool Tensor::is_leaf(Location at) const {
  if (!impl_) ThrowUndefined("is_leaf", at);
  CurrentNode("is_leaf", *this);
  return !impl_->tape || impl_->tape == impl_->grad_slot;
}

namespace {

/// The handle's place for `.grad`, made when first asked for.
LeafEntry& GradSlot(TensorImpl& impl) {
  if (!impl.grad_slot) {
    auto* entry = new LeafEntry(impl.node->shape(static_cast<int>(impl.index)));
    impl.grad_slot = TapePtr::Adopt(entry);
    entry->device = impl.node->device();
    Geometry geometry = GeometryOf(impl);
    if (impl.view && IsDense(geometry)) entry->strides = geometry.strides;
  }
  return static_cast<LeafEntry&>(*impl.grad_slot.get());
}

int64_t AddHook(const TensorImpl& impl, std::function<Tensor(const Tensor&)> hook) {
  auto& hooks = impl.tape->hooks;
  int64_t number = hooks.empty() ? 1 : hooks.back().number + 1;
  hooks.push_back({number, impl.tape->one_result ? 0 : impl.index, std::move(hook)});
  return number;
}

}  // namespace

Tensor& Tensor::requires_grad_(bool requires_grad, Location at) {
  LocationScope scope(at);
  CurrentNode("requires_grad_", *this);
  if (!requires_grad) {
    if (!is_leaf()) {
      Throw(ErrorCode::kValue,
            "requires_grad_: only a leaf can stop requiring grad, this is the result of {}; use "
            "detach()",
            impl_->tape->name());
    }
    impl_->tape = {};
  } else if (!impl_->tape) {
    if (!IsFloatOrComplex(dtype())) {
      Throw<TypeError>(ErrorCode::kDTypeMismatch,
                       "requires_grad_: only floating and complex tensors have gradients, not {}",
                       shape().to_string());
    }
    GradSlot(*impl_);
    impl_->tape = impl_->grad_slot;
  }
  if (impl_->SharesMemory() && !impl_->view->last && !impl_->view->detached && is_leaf()) {
    std::lock_guard lock(impl_->view->group->mutex);
    impl_->view->group->base.tape = impl_->tape;
  }
  return *this;
}

Tensor Tensor::grad(Location at) const {
  if (!impl_) ThrowUndefined("grad", at);
  return impl_->grad_slot ? GradSlot(*impl_).grad() : Tensor();
}

void Tensor::set_grad(const Tensor& grad, Location at) {
  LocationScope scope(at);
  CurrentNode("set_grad", *this);
  if (grad.defined() && grad.shape() != shape()) {
    Throw(ErrorCode::kShapeMismatch, "set_grad: the gradient of {} must have its type, not {}",
          shape().to_string(), grad.shape().to_string());
  }
  GradSlot(*impl_).SetGrad(grad);
}

void Tensor::retain_grad(Location at) {
  LocationScope scope(at);
  CurrentNode("retain_grad", *this);
  if (!impl_->tape) {
    Throw(ErrorCode::kValue, "retain_grad: the tensor {} does not require grad", summary());
  }
  if (is_leaf()) return;
  GradSlot(*impl_);
  // The slot must not keep the entry's own hook alive in a circle: it only holds a gradient.
  TapePtr slot = impl_->grad_slot;
  AddHook(*impl_, [slot](const Tensor& grad) {
    static_cast<LeafEntry&>(*slot.get()).Accumulate(grad, AutoGradMode::is_enabled());
    return Tensor();
  });
}

int64_t Tensor::register_hook(Callback<Tensor(const Tensor&)> hook, Location at) {
  LocationScope scope(at);
  CurrentNode("register_hook", *this);
  if (!impl_->tape) {
    Throw(ErrorCode::kValue, "register_hook: the tensor {} does not require grad", summary());
  }
  if (!hook) Throw(ErrorCode::kValue, "register_hook: the function is empty");
  return AddHook(*impl_, [hook = std::move(hook)](const Tensor& grad) {
    return CallUser([&] { return hook(grad); });
  });
}

void Tensor::remove_hook(int64_t number, Location at) {
  LocationScope scope(at);
  CurrentNode("remove_hook", *this);
  if (!impl_->tape) return;
  std::erase_if(impl_->tape->hooks, [&](const auto& hook) { return hook.number == number; });
}

Tensor& Tensor::detach_(Location at) {
  LocationScope scope(at);
  CurrentNode("detach_", *this);
  if (impl_->view && impl_->view->last) {
    Throw(ErrorCode::kValue, "detach_: the tensor is a view; use detach()");
  }
  impl_->tape = {};
  if (impl_->SharesMemory()) {
    std::lock_guard lock(impl_->view->group->mutex);
    impl_->view->group->base.tape = {};
  }
  return *this;
}

// ---- Modes

AutoGradMode::AutoGradMode(bool enabled) : before_(std::exchange(Context().grad_mode, enabled)) {}
AutoGradMode::~AutoGradMode() { Context().grad_mode = before_; }
bool AutoGradMode::is_enabled() { return Context().grad_mode; }

// ---- Histories that are not ops

namespace {

class OneResultEntry : public TapeEntry {
 public:
  using Fn = std::function<Tensor(const Tensor& grad)>;
  OneResultEntry(const char* name, TapeEdge edge, const Shape& type, Fn backward)
      : name_(name), type_(type), backward_(std::move(backward)) {
    one_result = true;
    edges.push_back(std::move(edge));
    types = std::span(&type_, 1);
  }
  std::string name() const override { return name_; }
  std::vector<Tensor> Backward(const TapePtr&, std::vector<Tensor>&& grads) override {
    return {backward_(grads[0])};
  }

 private:
  const char* name_;
  const Shape type_;
  Fn backward_;
};

}  // namespace

TapePtr OneResult(const char* name, TapeEdge edge, const Shape& type, DeviceId device,
                  std::function<Tensor(const Tensor&)> backward) {
  auto* entry = new OneResultEntry(name, std::move(edge), type, std::move(backward));
  entry->device = device;
  entry->location = CurrentLocation();
  return TapePtr::Adopt(entry);
}

TapePtr PassOn(const Value& value) {
  if (!value.tape || !Context().grad_mode) return {};
  return OneResult("alias", EdgeTo(value), value.shape(), value.node->device(),
                   [](const Tensor& grad) { return grad; });
}

TapePtr RecordTransfer(const Value& source, DeviceId to) {
  if (!source.tape || !Context().grad_mode) return {};
  return OneResult("to", EdgeTo(source), source.shape(), to,
                   [from = source.node->device()](const Tensor& grad) {
                     return hammock::to(grad, Device::FromId(from));
                   });
}

TapePtr HistoryOfWrite(const char* op, const TensorImpl& self, const Value& value) {
  const ViewState* view = self.view.get();
  bool writes_leaf = self.tape && self.tape == self.grad_slot;
  if (!writes_leaf && self.SharesMemory() && !view->detached) {
    std::lock_guard lock(view->group->mutex);
    const TapePtr& base = view->group->base.tape;
    writes_leaf = base && base->is_leaf;
  }
  if (writes_leaf) {
    Throw(ErrorCode::kValue,
          "{}: a leaf that requires grad, or a view of one, cannot be written in place while "
          "gradients are recorded; use NoGradGuard, or detach() it",
          op);
  }
  if (value.tape || !self.tape) return value.tape;
  // Still a tensor with history, but none of its former operands matter to it.
  return OneResult(op, {}, value.shape(), value.node->device(),
                   [](const Tensor&) { return Tensor(); });
}

}  // namespace hammock
