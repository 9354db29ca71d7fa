#include "hammock/module.h"

#include <algorithm>
#include <set>

#include "base/location_scope.h"
#include "base/nearest.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/caller_scope.h"
#include "hammock/ir/graph.h"
#include "hammock/ops.h"
#include "hammock/sparse.h"
#include "hammock/state_dict.h"
#include "module/module_access.h"
#include "module/module_hooks.h"
#include "runtime/step/budget.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

/// Gives a tensor another value of any type and device; handles to it stay the same tensor.
void Replace(const Tensor& tensor, const Tensor& value) {
  TensorImpl& impl = *tensor.impl();
  if (impl.SharesMemory() && impl.view->group.use_count() > 1) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "to: a parameter or buffer shares its memory with another tensor; "
                        "register a clone of it");
  }
  impl.view.reset();  // views of it are gone
  ForgetWrites(impl);
  SetNode(impl, ValueOf("to", value));
}

template <class Fn>
void ReplaceAll(Module& module, Fn new_value) {
  NoGradGuard no_grad;
  for (const auto& [name, tensor] : ModuleAccess::DistinctTensors(module)) {
    Replace(tensor, new_value(tensor));
  }
}

}  // namespace

namespace {

void NamesChanged() { module_names_generation.fetch_add(1, std::memory_order_relaxed); }

/// The name of a module: its path in the module that calls it.
std::string NameIn(const Module& caller, const Module& module) {
  for (const auto& [path, below] : caller.named_modules()) {
    if (below == &module && !path.empty()) return path;
  }
  return "";
}

}  // namespace

size_t GraphBody::num_arguments() const { return graph->inputs().size() - captures.size(); }
size_t GraphBody::num_results() const { return graph->outputs().size() - writes.size(); }

Module::Module(std::string class_name) : class_name_(std::move(class_name)) {}

Module::~Module() {
  NamesChanged();
  if (hooks_) hooks_->module = nullptr;
  for (auto& [name, child] : children_) {
    if (child->parent_ == this) child->parent_ = nullptr;
  }
}

std::pair<std::string, Any> Module::SavedState() const { return {}; }

std::string Module::FrameLabel(const Module& module, const Module* caller,
                               std::string_view method) {
  std::string_view type = module.class_name();
  type = type.substr(type.rfind('.') + 1);
  if (!caller) caller = TracingRoot();
  std::string name = caller ? NameIn(*caller, module) : "";
  if (name.empty()) name = caller && TracingRoot() ? module.name() : module.Path();
  return fmt::format("{}({})::{}", name, type, method);
}

std::string Module::Path() const {
  if (!parent_) return name_;
  std::string above = parent_->parent_ ? parent_->Path() + "." : "";
  return above + name_;
}

void Module::Adopt(const std::string& name, Module& child) {
  child.name_ = name;
  child.parent_ = this;
  NamesChanged();
}

// ---- The tree

void Module::CheckName(const std::string& name) const {
  if (name.empty() || name.find('.') != std::string::npos) {
    Throw(ErrorCode::kValue, "{}: '{}' is no name: it must not be empty or have a dot", class_name_,
          name);
  }
  auto is_name = [&](const auto& entry) { return entry.first == name; };
  bool taken = attributes_.contains(name) || std::ranges::any_of(children_, is_name) ||
               std::ranges::any_of(tensors_, [&](const auto& t) { return t->name == name; });
  if (taken) {
    Throw(ErrorCode::kDuplicateRegistration, "{}: '{}' is already registered", class_name_, name);
  }
}

Parameter Module::AddTensor(RegisteredTensor tensor) {
  CheckName(tensor.name);
  MarkState(tensor.own);
  tensors_.push_back(std::make_shared<RegisteredTensor>(std::move(tensor)));
  return Parameter(tensors_.back());
}

void Module::CheckDefined(const std::string& name, const Tensor& tensor) const {
  if (tensor.defined()) return;
  Throw(ErrorCode::kUninitializedTensor, "{}: '{}' is undefined", class_name_, name);
}

Parameter Module::register_parameter(const std::string& name, const Tensor& value,
                                     bool requires_grad, Location at) {
  LocationScope scope(at);
  CheckDefined(name, value);
  if (requires_grad && IsFloatOrComplex(value.dtype())) Tensor(value).requires_grad_();
  return AddTensor({.name = name, .own = value});
}

Parameter Module::register_parameter(const std::string& name, std::nullopt_t, Location at) {
  LocationScope scope(at);
  return AddTensor({.name = name});
}

Buffer Module::register_buffer(const std::string& name, const Tensor& value, bool persistent,
                               Location at) {
  LocationScope scope(at);
  CheckDefined(name, value);
  return AddTensor({.name = name, .is_buffer = true, .persistent = persistent, .own = value});
}

Buffer Module::register_buffer(const std::string& name, std::nullopt_t, Location at) {
  LocationScope scope(at);
  return AddTensor({.name = name, .is_buffer = true});
}

void Module::AddChild(const std::string& name, ModulePtr child, Location at) {
  LocationScope scope(at);
  CheckName(name);
  if (!child) Throw(ErrorCode::kValue, "{}: module '{}' is null", class_name_, name);
  Adopt(name, *child);
  children_.emplace_back(name, std::move(child));
}

void Module::set_attribute(const std::string& name, Any value, Location at) {
  LocationScope scope(at);
  if (!attributes_.contains(name)) CheckName(name);
  attributes_[name] = std::move(value);
}

const Any& Module::attribute(const std::string& name, Location at) const {
  LocationScope scope(at);
  auto entry = attributes_.find(name);
  if (entry != attributes_.end()) return entry->second;
  Throw(ErrorCode::kUnknownName, "{} has no attribute '{}'", class_name_, name);
}

template <class Wanted>
void Module::Collect(const std::string& prefix, bool recurse, Wanted wanted,
                     NamedTensors& out) const {
  for (bool is_buffer : {false, true}) {
    for (const auto& slot : tensors_) {
      if (slot->is_buffer != is_buffer || !slot->get().defined() || !wanted(*slot)) continue;
      out.emplace_back(prefix + slot->name, slot->get());
    }
  }
  if (!recurse) return;
  for (const auto& [name, child] : children_) {
    child->Collect(prefix + name + ".", true, wanted, out);
  }
}

namespace {

/// Each tensor by the first of its names.
NamedTensors WithoutDuplicates(NamedTensors tensors) {
  std::set<const TensorImpl*> seen;  // looked up, never iterated
  std::erase_if(tensors,
                [&](const auto& entry) { return !seen.insert(entry.second.impl()).second; });
  return tensors;
}

}  // namespace

NamedTensors Module::named_parameters(bool recurse, bool remove_duplicate) const {
  NamedTensors found;
  Collect(
      "", recurse, [](const RegisteredTensor& slot) { return !slot.is_buffer; }, found);
  return remove_duplicate ? WithoutDuplicates(std::move(found)) : found;
}

std::vector<Tensor> Module::parameters() const {
  std::vector<Tensor> found;
  for (auto& [name, parameter] : named_parameters()) found.push_back(parameter);
  return found;
}

NamedTensors Module::named_buffers(bool recurse, bool remove_duplicate) const {
  NamedTensors found;
  Collect(
      "", recurse, [](const RegisteredTensor& slot) { return slot.is_buffer; }, found);
  return remove_duplicate ? WithoutDuplicates(std::move(found)) : found;
}

NamedTensors Module::state_dict() const {
  NamedTensors found;
  Collect(
      "", true, [](const RegisteredTensor& slot) { return slot.persistent; }, found);
  return found;
}

NamedTensors ModuleAccess::DistinctTensors(const Module& module) {
  NamedTensors found;
  module.Collect(
      "", true, [](const RegisteredTensor&) { return true; }, found);
  return WithoutDuplicates(std::move(found));
}

bool ModuleAccess::IsPersistent(const Module& module, const std::string& name) {
  return std::ranges::none_of(
      module.tensors_, [&](const auto& slot) { return slot->name == name && !slot->persistent; });
}

void Module::load_state_dict(const NamedTensors& values, bool strict, Location at) {
  LocationScope scope(at);
  NamedTensors own = state_dict();
  CopyState({own.begin(), own.end()}, {values.begin(), values.end()}, class_name_ + ": the state",
            strict);
}

namespace {

template <class M>
void CollectModules(const std::string& path, M* module,
                    std::vector<std::pair<std::string, M*>>& out) {
  out.emplace_back(path, module);
  for (const auto& [name, child] : module->named_children()) {
    CollectModules<M>(path.empty() ? name : path + "." + name, child.get(), out);
  }
}

}  // namespace

std::vector<std::pair<std::string, Module*>> Module::named_modules() {
  std::vector<std::pair<std::string, Module*>> found;
  CollectModules("", this, found);
  return found;
}

std::vector<std::pair<std::string, const Module*>> Module::named_modules() const {
  std::vector<std::pair<std::string, const Module*>> found;
  CollectModules("", this, found);
  return found;
}

ModulePtr Module::get_submodule(const std::string& path, Location at) const {
  LocationScope scope(at);
  const Module* parent = this;
  ModulePtr found;
  for (size_t start = 0; start <= path.size();) {
    size_t dot = std::min(path.find('.', start), path.size());
    std::string_view name = std::string_view(path).substr(start, dot - start);
    auto entry = std::ranges::find_if(parent->children_, [&](auto& c) { return c.first == name; });
    if (entry == parent->children_.end()) {
      Throw(ErrorCode::kUnknownName, "Attribute named {} is not a Module", path);
    }
    found = entry->second;
    parent = found.get();
    start = dot + 1;
  }
  return found;
}

void Module::replace_submodule(const std::string& path, ModulePtr module, Location at) {
  LocationScope scope(at);
  get_submodule(path);
  if (!module) Throw(ErrorCode::kValue, "{}: module '{}' is null", class_name_, path);
  size_t dot = path.rfind('.');
  Module* parent = dot == std::string::npos ? this : get_submodule(path.substr(0, dot)).get();
  std::string name = path.substr(dot == std::string::npos ? 0 : dot + 1);
  parent->Adopt(name, *module);
  module->replaced_by_.reset();
  for (auto& [child_name, child] : parent->children_) {
    if (child_name != name || child == module) continue;
    child->parent_ = nullptr;
    Redirect(child, module);
    child = module;
  }
}

/// Calls of a module, and of those in whose place it stood, go to another from now on.
void Module::Redirect(const ModulePtr& from, const ModulePtr& to) {
  auto redirect = [&](const ModulePtr& module) {
    module->replaced_by_ = to;
    to->replaced_.push_back(module);
  };
  for (const std::weak_ptr<Module>& earlier : std::exchange(from->replaced_, {})) {
    ModulePtr module = earlier.lock();
    if (module && module != to && module->replaced_by_.lock() == from) redirect(module);
  }
  redirect(from);
}

void Module::remove_submodule(const std::string& path, Location at) {
  LocationScope scope(at);
  ModulePtr removed = get_submodule(path);
  size_t dot = path.rfind('.');
  Module* parent = dot == std::string::npos ? this : get_submodule(path.substr(0, dot)).get();
  std::string name = path.substr(dot == std::string::npos ? 0 : dot + 1);
  std::erase_if(parent->children_, [&](const auto& child) { return child.first == name; });
  if (removed->parent_ != parent || removed->name_ != name) return;  // it is elsewhere too
  removed->name_ = "top";
  removed->parent_ = nullptr;
  NamesChanged();
}

Module* Module::Replacement() const {
  ModulePtr module = replaced_by_.lock();
  return module && !IsRunning(*module) ? module.get() : nullptr;
}

Tensor Module::get_tensor(const std::string& path, Location at) const {
  LocationScope scope(at);
  size_t dot = path.rfind('.');
  const Module* owner = dot == std::string::npos ? this : get_submodule(path.substr(0, dot)).get();
  std::string_view name = std::string_view(path).substr(dot == std::string::npos ? 0 : dot + 1);
  for (const auto& slot : owner->tensors_) {
    if (slot->name == name && slot->get().defined()) return slot->get();
  }
  Throw(ErrorCode::kUnknownName, "{} has no parameter or buffer '{}'", class_name_, path);
}

// ---- State

void Module::train(bool on) {
  for (auto& [path, module] : named_modules()) module->training_ = on;
}

void Module::apply(const std::function<void(Module&)>& fn) {
  for (auto& [name, child] : children_) child->apply(fn);
  fn(*this);
}

void Module::zero_grad() {
  for (auto& [name, parameter] : named_parameters()) {
    parameter.set_grad({});
    sparse::clear_grad(parameter);
  }
}

void Module::to(const Device& device, Location at) {
  LocationScope scope(at);
  ReplaceAll(*this, [&](const Tensor& tensor) { return tensor.to(device); });
}

void Module::to(DType dtype, Location at) {
  LocationScope scope(at);
  if (!IsFloat(dtype)) {
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: the dtype is {}, expected a floating one",
                     class_name_, NameOf(dtype));
  }
  ReplaceAll(*this, [&](const Tensor& tensor) {
    return tensor.is_floating_point() ? tensor.to(dtype) : tensor;
  });
}

// ---- Methods

void Module::define(Method method) {
  NamesChanged();
  auto same = [&](const Method& other) { return other.schema.name() == method.schema.name(); };
  auto known = std::ranges::find_if(methods_, same);
  if (known == methods_.end()) {
    methods_.push_back(std::move(method));
  } else {
    *known = std::move(method);
  }
}

void Module::define(std::string_view schema, MethodFn code, Location at) {
  LocationScope scope(at);
  if (!code) Throw(ErrorCode::kValue, "{}: the code of {} is empty", class_name_, schema);
  define(Method{.schema = FunctionSchema::Parse(schema), .code = std::move(code)});
}

namespace {

/// A value of tensors alone that fits a type of a schema; `count` is how many are left for lists.
Any StandInFor(const SchemaType& type, const std::string& method, size_t count) {
  if (type.base != SchemaType::Base::kTensor || type.optional || type.optional_items) {
    Throw(ErrorCode::kSchema, "{}: a method that is given as a graph has tensors only, not {}",
          method, type.to_string());
  }
  return type.list ? Any(AnyList(count, Any(Tensor()))) : Any(Tensor());
}

Any StandInsFor(const std::vector<SchemaType>& types, const std::string& method, size_t tensors) {
  size_t lists = 0;
  for (const SchemaType& type : types) lists += type.list;
  size_t single = types.size() - lists;
  if (lists > 1 || tensors < single || (lists == 0 && tensors != single)) {
    Throw(ErrorCode::kValue, "{}: its schema has {} tensors{}, its graph {}", method, single,
          lists ? " and a list" : "", tensors);
  }
  AnyList values;
  for (const SchemaType& type : types) values.push_back(StandInFor(type, method, tensors - single));
  return Any(std::move(values));
}

}  // namespace

void Module::define(std::string_view schema, const Graph& graph,
                    const std::vector<std::string>& captures, Location at) {
  LocationScope scope(at);
  Verify(graph);
  Method method{.schema = FunctionSchema::Parse(schema)};
  const std::string& name = method.schema.name();
  if (captures.size() > graph.inputs().size()) {
    Throw(ErrorCode::kValue, "{}: {} captures for a graph with {} inputs", name, captures.size(),
          graph.inputs().size());
  }
  auto body = std::make_shared<GraphBody>();
  body->graph = std::make_shared<const Graph>(graph);
  for (const std::string& capture : captures) {
    get_tensor(capture);
    body->captures.push_back({.name = capture});
  }
  std::vector<SchemaType> types;
  for (const SchemaArgument& argument : method.schema.arguments()) types.push_back(argument.type);
  body->argument_form = PackTensors(StandInsFor(types, name, body->num_arguments())).form;
  Any results = StandInsFor(method.schema.returns(), name, body->num_results());
  bool single = method.schema.returns().size() == 1;
  body->result_form = PackTensors(single ? results.ToList()[0] : Any::Tuple(results.ToList())).form;
  method.body = std::move(body);
  define(std::move(method));
}

const Method* Module::find_method(std::string_view name) const {
  for (const Method& method : methods_) {
    if (method.schema.name() == name) return &method;
  }
  return nullptr;
}

const Method& Module::method(std::string_view name, Location at) const {
  if (const Method* found = find_method(name)) return *found;
  LocationScope scope(at);
  std::vector<std::string_view> names;
  for (const Method& method : methods_) names.push_back(method.schema.name());
  std::string_view nearest = NearestName(name, names);
  Throw(ErrorCode::kUnknownName, "Method '{}' is not defined.{}", name,
        nearest.empty() ? "" : fmt::format(" Did you mean '{}'?", nearest));
}

const GraphBody& Module::graph_body(std::string_view name, Location at) const {
  LocationScope scope(at);
  const Method& found = method(name);
  if (!found.forwards_to.empty()) return get_submodule(found.forwards_to)->graph_body(name);
  if (found.body) return *found.body;
  Throw(ErrorCode::kValue,
        "{}: method '{}' is C++ code, not a graph; trace it on example arguments first",
        class_name_, name);
}

Any Module::run_method(std::string_view name, const std::vector<Any>& args, const AnyKwargs& kwargs,
                       Location at) {
  if (Module* other = replacement()) return other->run_method(name, args, kwargs, at);
  BeginOfCall();
  const Method* found;
  std::vector<Any> bound;
  {
    LocationScope scope(at);
    found = &method(name);
    bound = found->schema.Bind(args, kwargs);
  }
  Any result = RunBound(*found, bound, at);
  EndOfCall(at);
  return result;
}

void Module::BeginOfCall() {
  if (!IsInModule()) RunNewState();
}

void Module::EndOfCall(const Location& at) {
  if (!IsInModule()) AtNaturalEnd(NaturalEnd::kModuleCall, CurrentLocation(at));
}

Any Module::RunBound(const Method& method, const std::vector<Any>& args, Location at) {
  const std::string& name = method.schema.name();
  ModuleFrameScope frame(FrameLabel, *this, name, at);
  if (!hooks_ || name != "forward") return RunInside(method, args, at);
  const ComputedScope computed(method.code ? hooks_ : nullptr);
  PackedTensors given = PackTensors(Any(args));
  std::string form;
  std::vector<Tensor> outputs =
      RunBetweenHooks(hooks_, given.tensors, [&](const std::vector<Tensor>& inputs) {
        Any values = UnpackTensors(given.form, inputs);
        PackedTensors results = PackTensors(RunInside(method, values.ToList(), at));
        form = std::move(results.form);
        return std::move(results.tensors);
      });
  return UnpackTensors(form, outputs);
}

Any Module::RunInside(const Method& method, const std::vector<Any>& args, Location at) {
  const std::string& name = method.schema.name();
  if (!method.forwards_to.empty()) {
    Module& child = *get_submodule(method.forwards_to);
    return child.RunBound(child.method(name), args, at);
  }
  if (IsDelegated() && TracingRoot() && method.body) {
    return RecordModuleCall(*this, method, args, at);
  }
  if (!method.code) return RunGraphBody(*this, method, args, at);
  Any result = method.code(*this, args);
  method.schema.CheckReturned(result);
  return result;
}

Tensor Module::operator()(const Tensor& x, Location at) {
  if (!find_method("forward")) {
    LocationScope scope(at);
    Throw(ErrorCode::kUnknownName,
          "{}: Method 'forward' is not defined. A forward of a class that derives from Module is "
          "called by net.forward(x); for net(x) derive from nn::UnaryModule, or write "
          "define(\"forward(Tensor x) -> Tensor\", &{}::forward) in the constructor",
          class_name_, class_name_);
  }
  return run_method("forward", {Any(x)}, {}, at).ToTensor();
}

void Module::trace(std::string_view name, const std::vector<Any>& examples,
                   const TraceOptions& options, Location at) {
  CallerScope caller(at);
  Method traced = method(name);
  traced.body =
      std::make_shared<const GraphBody>(TraceMethod(*this, traced, examples, options, at));
  traced.code = nullptr;
  traced.forwards_to.clear();
  define(std::move(traced));
}

void Module::ThrowForeign(const Module& self) {
  Throw(ErrorCode::kValue,
        "{}: this method is a member function of a C++ class of which this module is no object; "
        "copy a module by the function clone(module), which makes another of its class, where the "
        "member module.clone() does not know it; trace the method before, or give example "
        "arguments for it where the module is lowered",
        self.class_name());
}

}  // namespace hammock
