// Note [Clones]: a clone is made by the copy constructor of the module's class, inside of which the
// handles that are members (Parameter, nn::Layer) copy to what stands for theirs in the clone. A
// memo for the length of one clone says what that is, so that whatever was one stays one. A member
// whose submodule was replaced calls the copy of the new one; the module that is cloned is itself
// in no tree and in nobody's place.

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/module.h"
#include "hammock/ops.h"
#include "module/module_access.h"
#include "module/module_hooks.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

/// The originals of a clone in progress, each with its copy; looked up, never iterated.
struct CloneMemo {
  std::unordered_map<const Module*, ModulePtr> modules;  // null while it is being copied
  std::vector<std::function<void()>> at_end;             // of the clone
  std::unordered_map<const RegisteredTensor*, std::shared_ptr<RegisteredTensor>> slots;
  std::unordered_map<const TensorImpl*, Tensor> tensors;

  Tensor Of(const Tensor& tensor) {
    if (!tensor.defined()) return tensor;
    Tensor& copy = tensors[tensor.impl()];
    if (copy.defined()) return copy;
    NoGradGuard no_grad;
    copy = tensor.detach().clone();
    if (tensor.requires_grad()) copy.requires_grad_();
    return copy;
  }
};

constinit thread_local CloneMemo* tls_memo = nullptr;

/// The memo of the clone in progress, or a new one.
class CloneScope {
 public:
  CloneScope() {
    if (tls_memo) return;
    own_ = std::make_unique<CloneMemo>();
    tls_memo = own_.get();
  }
  /// All is copied, if this is the outermost one; whether it is.
  bool Finish() {
    if (!own_) return false;
    for (const auto& fn : own_->at_end) fn();
    return true;
  }
  ~CloneScope() {
    if (own_) tls_memo = nullptr;
  }
  CloneScope(const CloneScope&) = delete;
  CloneScope& operator=(const CloneScope&) = delete;

 private:
  std::unique_ptr<CloneMemo> own_;
};

/// A list, tuple, dict or tensor of its own; the rest is shared.
Any CopyOf(const Any& value) {
  if (value.IsTensor()) return tls_memo->Of(value.ToTensor());
  if (value.kind() == Any::Kind::kDict) {
    AnyDict items;
    for (const auto& [key, item] : value.ToDict()) items[key] = CopyOf(item);
    return Any(std::move(items));
  }
  if (!value.IsSequence()) return value;
  AnyList items;
  for (const Any& item : value.ToList()) items.push_back(CopyOf(item));
  return value.IsList() ? Any(std::move(items)) : Any::Tuple(std::move(items));
}

/// The copy of a module in the clone in progress; `make` makes it when it is first asked for.
template <class Make>
ModulePtr Memoised(const Module& module, Make make) {
  auto [entry, is_new] = tls_memo->modules.try_emplace(&module);
  if (!is_new) {
    if (entry->second) return entry->second;
    Throw(ErrorCode::kValue, "clone: {} contains itself", module.class_name());
  }
  ModulePtr copy = make();
  return tls_memo->modules[&module] = copy;
}

/// How many handles refer to what a module has registered: more after a copy mean that the copy
/// shares it.
class HandleCounts {
 public:
  explicit HandleCounts(const Module& module) : module_(module), state_(StateOf(module)) {
    for (const auto& [name, child] : module.named_children())
      children_.push_back(child.use_count());
    for (const auto& [name, tensor] : state_) tensors_.push_back(CountOf(tensor));
  }

  void CheckSame() const {
    for (size_t i = 0; i < children_.size(); ++i) {
      const auto& [name, child] = module_.named_children()[i];
      if (ModuleAccess::IsDelegated(*child)) continue;
      if (child.use_count() > children_[i]) Refuse("submodule", name, "nn::Layer");
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (CountOf(state_[i].second) > tensors_[i]) Refuse("tensor", state_[i].first, "Parameter");
    }
  }

 private:
  static NamedTensors StateOf(const Module& module) {
    NamedTensors state = module.named_parameters(false, false);
    for (auto& buffer : module.named_buffers(false, false)) state.push_back(std::move(buffer));
    return state;
  }
  static uint32_t CountOf(const Tensor& tensor) {
    return tensor.impl()->references.load(std::memory_order_relaxed);
  }
  void Refuse(const char* what, const std::string& name, const char* type) const {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "clone: a member of {} refers to its {} '{}', and a copy of it to the "
                        "same one; make that member a {}",
                        module_.class_name(), what, name, type);
  }

  const Module& module_;
  const NamedTensors state_;
  std::vector<long> children_;
  std::vector<uint32_t> tensors_;
};

}  // namespace

// ---- Members

Parameter::Parameter(std::shared_ptr<RegisteredTensor> slot) { Bind(std::move(slot)); }

void Parameter::Bind(std::shared_ptr<RegisteredTensor> slot) {
  // The slot keeps the tensor too: `Tensor w = register_parameter(...)` moves it out of this.
  slot_ = std::move(slot);
  Tensor::operator=(slot_->own);
  slot_->member = this;
}

Parameter::Parameter(const Parameter& other)
    : Tensor(tls_memo ? tls_memo->Of(other) : static_cast<const Tensor&>(other)) {
  if (!tls_memo || !other.slot_) return;
  auto copy = tls_memo->slots.find(other.slot_.get());
  if (copy != tls_memo->slots.end() && !copy->second->member) Bind(copy->second);
}

Parameter::Parameter(Parameter&& other) noexcept
    : Tensor(std::move(other)), slot_(std::move(other.slot_)) {
  if (slot_) slot_->member = this;
}

Parameter::~Parameter() {
  if (!slot_) return;
  slot_->member = nullptr;
  if (defined()) slot_->own = *this;
}

Parameter& Parameter::operator=(const TensorAt& given) {
  LocationScope scope(given.at);
  const Tensor& value = given.tensor;
  if (slot_ && !slot_->is_buffer && value.defined()) {
    if (!value.is_leaf()) {
      Throw(ErrorCode::kValue,
            "parameter '{}': the value assigned has a history, and a parameter is a leaf; "
            "detach() it",
            slot_->name);
    }
    bool trained = !defined() || requires_grad();
    if (trained && IsFloatOrComplex(value.dtype())) Tensor(value).requires_grad_();
  }
  if (slot_) slot_->own = Tensor();
  Tensor::operator=(value);
  return *this;
}

Parameter& Parameter::operator=(Parameter&& value) {
  if (slot_ || !value.slot_) return *this = TensorAt(value, Location());
  Tensor::operator=(std::move(value));
  slot_ = std::move(value.slot_);
  slot_->member = this;
  return *this;
}

// ---- Modules

Module::Module(const Module& other) {
  if (!tls_memo) {
    Throw(ErrorCode::kValue, "{}: a module is copied by clone()", other.class_name_);
  }
  other.CopyTo(*this, InClone);
}

void Module::CopyTo(Module& other, ModulePtr (*copy_child)(const ModulePtr&)) const {
  other.class_name_ = class_name_;
  other.name_ = name_;
  other.training_ = training_;
  other.methods_ = methods_;
  other.attributes_ = CopyOf(Any(attributes_)).ToDict();
  auto copy_of = [](const std::shared_ptr<RegisteredTensor>& slot) {
    auto copy = std::make_shared<RegisteredTensor>(RegisteredTensor{
        slot->name, slot->is_buffer, slot->persistent, nullptr, tls_memo->Of(slot->get())});
    tls_memo->slots[slot.get()] = copy;
    return copy;
  };
  for (const auto& slot : tensors_) other.tensors_.push_back(copy_of(slot));
  if (hooks_) {
    for (const ComputedTensor& each : hooks_->computed) {
      other.OwnHooks().computed.push_back({copy_of(each.tensor), each.compute});
    }
  }
  for (const auto& [name, child] : children_) {
    ModulePtr copy = copy_child(child);
    // One that is in several modules is called as it is there: by the last that it was put into.
    if (copy != child && (child->parent_ == this || !copy->parent_)) other.Adopt(name, *copy);
    other.children_.emplace_back(name, std::move(copy));
  }
  if (const Module* now = replaced_by_.lock().get()) {
    tls_memo->at_end.push_back([this, now] {
      auto copy = tls_memo->modules.find(this), copy_of_now = tls_memo->modules.find(now);
      if (copy == tls_memo->modules.end() || copy_of_now == tls_memo->modules.end()) return;
      Redirect(copy->second, copy_of_now->second);
    });
  }
}

bool Module::IsCloning() { return tls_memo != nullptr; }

ModulePtr Module::InClone(const ModulePtr& module) {
  if (!tls_memo || !module) return module;
  // A module that a delegate has compiled is shared: nothing changes it.
  if (module->IsDelegated()) return tls_memo->modules[module.get()] = module;
  return CloneOf(*module, typeid(void), nullptr);
}

ModulePtr Module::PlainInClone(const ModulePtr& module) {
  if (module->IsDelegated()) return tls_memo->modules[module.get()] = module;
  return Memoised(*module, [&] { return PlainCopyOf(*module, PlainInClone); });
}

ModulePtr Module::PlainCopyOf(const Module& module, ModulePtr (*copy_child)(const ModulePtr&)) {
  auto copy = std::make_shared<Module>();
  module.CopyTo(*copy, copy_child);
  return copy;
}

ModulePtr Module::CloneOf(const Module& module, const std::type_info& type, CopyFn copy) {
  if (module.IsDelegated()) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "{}: a module that a delegate runs cannot be copied; save and load it",
                        module.class_name_);
  }
  CloneScope scope;
  ModulePtr clone = Memoised(module, [&]() -> ModulePtr {
    if (typeid(module) == typeid(Module)) return PlainCopyOf(module, InClone);
    CopyFn known = module.copy_ ? module.copy_ : typeid(module) == type ? copy : nullptr;
    if (!known) return PlainCopyOf(module, PlainInClone);
    HandleCounts before(module);
    ModulePtr result = known(module);
    before.CheckSame();
    result->copy_ = known;
    return result;
  });
  if (scope.Finish()) clone->name_ = "top";
  return clone;
}

ModulePtr Module::clone() const { return CloneOf(*this, typeid(void), nullptr); }

ModulePtr ModuleAccess::PlainClone(const Module& module) {
  CloneScope scope;
  ModulePtr clone = Module::PlainCopyOf(module, Module::PlainInClone);
  scope.Finish();
  return clone;
}

void Module::ThrowUnknownClass(const Module& module) {
  Throw<NotSupported>(
      ErrorCode::kNotSupported,
      "clone: the class of {} is not known here; register it as what it is, hold it "
      "in an nn::Layer, or give its class a copy constructor",
      module.class_name());
}

}  // namespace hammock
