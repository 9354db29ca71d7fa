#pragma once
/// Module: a tree of named parameters, buffers and submodules with methods that are called by name.
/// Layers, saved programs and delegates are all modules.
///
///   struct Net : Module {
///     Net() : Module("Net") { define("forward(Tensor x) -> Tensor", &Net::forward); }
///     Parameter weight = register_parameter("weight", randn({3, 4}));
///     Tensor forward(const Tensor& x) { return relu(matmul(x, weight)); }
///   };
///
///   Net net;
///   Tensor y = net(x);
///   net.trace("forward", {x}, {.free_dims = {{"x", 0}}});   // code becomes a graph
///   save_module(net, "net.hmk");
///   ModulePtr again = load_module("net.hmk");
///
/// Methods may run on several threads at once; changing a module, tracing or cloning it may not
/// overlap other uses of it.

#include <concepts>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include "hammock/boxing.h"
#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/ir/function.h"
#include "hammock/module_hooks.h"
#include "hammock/parameter.h"
#include "hammock/tensor.h"

namespace hammock {

class Module;
using ModulePtr = std::shared_ptr<Module>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using MethodFn = std::function<Any(Module& self, const std::vector<Any>& args)>;

/// An input of a method's graph that is no argument: a parameter or buffer by its dotted name, a
/// constant, or random state that is drawn anew at each call.
struct Capture {
  std::string name = {};
  Tensor constant = {};
  uint64_t random_blocks = 0;
};

/// A method as a graph. Its inputs are the tensors in the arguments, then what it captured; its
/// outputs are the tensors in the results, then the new values of the inputs that it writes.
struct HAMMOCK_API GraphBody {
  std::shared_ptr<const Graph> graph = nullptr;
  std::vector<Capture> captures = {};
  std::vector<int> writes = {};  ///< inputs, by index
  /// How arguments and results are put together around their tensors; see PackTensors.
  std::string argument_form = {};
  std::string result_form = {};

  size_t num_arguments() const;
  size_t num_results() const;
};

/// A method: C++ code, a graph, or a call of the same method of a child.
struct HAMMOCK_API Method {
  FunctionSchema schema;
  MethodFn code = nullptr;
  std::shared_ptr<const GraphBody> body = nullptr;  ///< the graph, where there is one
  std::string forwards_to = {};
};

/// A dim of an argument that may have any size; dims of one name have equal sizes.
struct FreeDim {
  std::string argument;
  int dim = 0;
  std::string name = "n";
};

struct TraceOptions {
  std::vector<FreeDim> free_dims = {};
};

class HAMMOCK_API Module {
 public:
  /// The class name is for people: it stands in messages and archives.
  explicit Module(std::string class_name = "Module");
  virtual ~Module();
  Module& operator=(const Module&) = delete;

  const std::string& class_name() const { return class_name_; }
  /// Its name in the module that it was last registered in; "top" for others.
  const std::string& name() const { return name_; }

  // ---- The tree. A name has no dot, and is used once in a module.
  Parameter register_parameter(const std::string& name, const Tensor& value,
                               bool requires_grad = true, Location at = Location::current());
  /// A name that has no value yet: the member is undefined, and not listed until one is assigned.
  Parameter register_parameter(const std::string& name, std::nullopt_t,
                               Location at = Location::current());
  /// One that is not `persistent` is no part of the state_dict.
  Buffer register_buffer(const std::string& name, const Tensor& value, bool persistent = true,
                         Location at = Location::current());
  Buffer register_buffer(const std::string& name, std::nullopt_t,
                         Location at = Location::current());
  template <class M>
  std::shared_ptr<M> register_module(const std::string& name, std::shared_ptr<M> module,
                                     Location at = Location::current()) {
    RememberClass(module.get());
    AddChild(name, module, at);
    return module;
  }
  /// Any other value that is saved with the module; replaces one of that name.
  void set_attribute(const std::string& name, Any value, Location at = Location::current());

  /// Names are dotted from here; own ones come before those of submodules. A tensor that has
  /// several names is listed once, by its first, unless `remove_duplicate` is off.
  NamedTensors named_parameters(bool recurse = true, bool remove_duplicate = true) const;
  NamedTensors named_buffers(bool recurse = true, bool remove_duplicate = true) const;
  std::vector<Tensor> parameters() const;
  /// Parameters and persistent buffers under all of their names, in the order of PyTorch's
  /// state_dict.
  NamedTensors state_dict() const;
  /// Copies values by name. ValueError lists those that are missing or unexpected and those of
  /// another dtype or shape; then nothing has been copied. Unless `strict`, values that only one
  /// side has are left alone, and dtypes are cast.
  void load_state_dict(const NamedTensors& values, bool strict = true,
                       Location at = Location::current());
  const std::vector<std::pair<std::string, ModulePtr>>& named_children() const { return children_; }
  /// This module with an empty name, then all below it.
  std::vector<std::pair<std::string, Module*>> named_modules();
  std::vector<std::pair<std::string, const Module*>> named_modules() const;
  const AnyDict& attributes() const { return attributes_; }

  /// By dotted path; ValueError "Attribute named a.b is not a Module".
  ModulePtr get_submodule(const std::string& path, Location at = Location::current()) const;
  /// Calls of the former submodule through handles that C++ code still has (`fc(x)`,
  /// `fc->run_method(...)`, `fc->forward(x)` of UnaryLayers) go to the new one, except from within.
  void replace_submodule(const std::string& path, ModulePtr module,
                         Location at = Location::current());
  void remove_submodule(const std::string& path, Location at = Location::current());
  /// A parameter or buffer by dotted path; ValueError where there is none.
  Tensor get_tensor(const std::string& path, Location at = Location::current()) const;
  /// ValueError where there is none.
  const Any& attribute(const std::string& name, Location at = Location::current()) const;

  // ---- State
  void train(bool on = true);  ///< also all below it
  void eval() { train(false); }
  bool is_training() const { return training_; }
  void apply(const std::function<void(Module&)>& fn);  ///< to all below it, then to itself
  void zero_grad();
  /// Moves or casts (floats only) all parameters and buffers; handles to them stay valid.
  void to(const Device& device, Location at = Location::current());
  void to(DType dtype, Location at = Location::current());

  // ---- Methods. Defining one again replaces it.
  void define(std::string_view schema, MethodFn code, Location at = Location::current());
  template <class M, class R, class... P>
  void define(std::string_view schema, R (M::*method)(P...), Location at = Location::current()) {
    define(schema, BoxMethod<M, R, P...>(method), at);
  }
  template <class M, class R, class... P>
  void define(std::string_view schema, R (M::*method)(P...) const,
              Location at = Location::current()) {
    define(schema, BoxMethod<M, R, P...>(method), at);
  }
  /// Arguments and results are tensors, or lists or tuples of them; inputs of the graph behind
  /// those of the arguments are the parameters and buffers in `captures`, by dotted name.
  void define(std::string_view schema, const Graph& graph,
              const std::vector<std::string>& captures = {}, Location at = Location::current());
  void define(Method method);

  const std::vector<Method>& methods() const { return methods_; }
  /// Null if there is none.
  const Method* find_method(std::string_view name) const;
  /// ValueError "Method 'name' is not defined."
  const Method& method(std::string_view name, Location at = Location::current()) const;
  /// The graph of a method; ValueError where it is code that was not traced.
  const GraphBody& graph_body(std::string_view name, Location at = Location::current()) const;

  Any run_method(std::string_view name, const std::vector<Any>& args = {},
                 const AnyKwargs& kwargs = {}, Location at = Location::current());
  /// `forward` of tensors that returns one.
  Tensor operator()(const Tensor& x, Location at = Location::current());

  /// Runs a method on example arguments, which are left alone, and makes its body the graph of what
  /// it recorded. Values that are not tensors, and sizes that are not free, are then fixed. Free
  /// dims are found by tracing at two sizes. Refused as in `extract_compiled_graph`.
  void trace(std::string_view name, const std::vector<Any>& examples,
             const TraceOptions& options = {}, Location at = Location::current());

  // ---- Hooks around `forward`; see hammock/module_hooks.h. Clones and archives have none.
  HookHandle register_forward_pre_hook(ForwardPreHook hook);
  HookHandle register_forward_hook(ForwardHook hook);
  HookHandle register_full_backward_pre_hook(BackwardPreHook hook);
  HookHandle register_full_backward_hook(BackwardHook hook);
  /// Takes a parameter of its own out of the lists. It is computed from others before each call of
  /// `forward` and undefined in between; clones compute theirs by the same function.
  void compute_parameter(const std::string& name, std::function<Tensor(Module& self)> compute,
                         Location at = Location::current());
  /// The reverse: what would be computed now is the parameter.
  void keep_computed(const std::string& name, Location at = Location::current());
  /// Null while there are none.
  const std::shared_ptr<ModuleHooks>& hooks() const { return hooks_; }

  // ---- For the runtime
  /// Of a ModuleFrameScope.
  static std::string FrameLabel(const Module& module, const Module* caller,
                                std::string_view method);
  /// Called before a call of a module's method: computes parameters that are new.
  static void BeginOfCall();
  /// Called after a call of a module's method, which is a good place to run what was recorded.
  static void EndOfCall(const Location& at);
  /// The module that a call of this one goes to after `replace_submodule`; null: itself.
  Module* replacement() const { return replaced_by_.expired() ? nullptr : Replacement(); }

  /// The text in parentheses where the module is printed, such as its sizes.
  virtual std::string extra_repr() const { return ""; }

  /// A module of its own with the same values and methods; see the function `clone`, which gives
  /// the class too. Where the class is not known (it was neither made as an `nn::Layer` nor given
  /// to `register_module` as what it is), the copy and all below it are plain Modules: graphs and
  /// code that takes any module run on them, member functions of a class do not.
  ModulePtr clone() const;

  // ---- For layers
  /// Notes what class a module is, so that `clone` makes another of it.
  template <class M>
  static void RememberClass(M* module) {
    if (module && !module->copy_ && typeid(*module) == typeid(M)) module->copy_ = CopyFnOf<M>();
  }
  /// The module that stands for this one in the clone in progress on this thread, or itself.
  static ModulePtr InClone(const ModulePtr& module);
  static bool IsCloning();
  [[noreturn]] static void ThrowUnknownClass(const Module& module);

 protected:
  /// For `clone` alone: a copy of its own of everything but the hooks.
  Module(const Module& other);
  /// The state that archives write instead of attributes: ("kind", state). Empty: the module is
  /// plain.
  virtual std::pair<std::string, Any> SavedState() const;
  /// Whether a delegate runs its methods: a trace of a module above it keeps calls of them whole.
  virtual bool IsDelegated() const { return false; }

 private:
  friend class ModuleAccess;

  template <class M, class R, class... P, class F>
  static MethodFn BoxMethod(F method) {
    return [method](Module& self, const std::vector<Any>& args) -> Any {
      auto* object = dynamic_cast<M*>(&self);
      if (!object) ThrowForeign(self);
      return CallBoxed<M, R, P...>(*object, method, args, std::index_sequence_for<P...>());
    };
  }
  template <class M, class R, class... P, class F, size_t... I>
  static Any CallBoxed(M& object, F method, const std::vector<Any>& args,
                       std::index_sequence<I...>) {
    std::tuple<typename boxing::Arg<P>::Type...> values{
        boxing::FromAny<typename boxing::Arg<P>::Type>(args.at(I))...};
    if constexpr (std::is_void_v<R>) {
      (object.*method)(static_cast<P>(std::get<I>(values))...);
      return Any();
    } else {
      return boxing::ToAny((object.*method)(static_cast<P>(std::get<I>(values))...));
    }
  }
  [[noreturn]] static void ThrowForeign(const Module& self);

  using CopyFn = ModulePtr (*)(const Module&);
  template <class M>
  static CopyFn CopyFnOf() {
    if constexpr (std::is_copy_constructible_v<M>) {
      return [](const Module& module) -> ModulePtr {
        return std::make_shared<M>(dynamic_cast<const M&>(module));
      };
    } else {
      return nullptr;
    }
  }
  static ModulePtr CloneOf(const Module& module, const std::type_info& type, CopyFn copy);
  template <std::derived_from<Module> M>
  friend std::shared_ptr<M> clone(const M& module);

  /// With its hooks, and without.
  Any RunBound(const Method& method, const std::vector<Any>& args, Location at);
  Any RunInside(const Method& method, const std::vector<Any>& args, Location at);
  void CheckName(const std::string& name) const;
  void CheckDefined(const std::string& name, const Tensor& tensor) const;
  Parameter AddTensor(RegisteredTensor tensor);
  void AddChild(const std::string& name, ModulePtr child, Location at);
  void Adopt(const std::string& name, Module& child);
  /// Its name below the outermost module that it is in.
  std::string Path() const;
  Module* Replacement() const;
  template <class Wanted>
  void Collect(const std::string& prefix, bool recurse, Wanted wanted, NamedTensors& out) const;
  ModuleHooks& OwnHooks();
  static void Redirect(const ModulePtr& from, const ModulePtr& to);
  void CopyTo(Module& other, ModulePtr (*copy_child)(const ModulePtr&)) const;
  static ModulePtr PlainCopyOf(const Module& module, ModulePtr (*copy_child)(const ModulePtr&));
  static ModulePtr PlainInClone(const ModulePtr& module);

  std::string class_name_;
  std::string name_ = "top";
  const Module* parent_ = nullptr;  // that it was last registered in, while that lives
  // Weak: what replaces a module may hold it, and is held by the parent of both.
  std::weak_ptr<Module> replaced_by_;
  std::vector<std::weak_ptr<Module>> replaced_;  // modules whose calls go to this one
  std::vector<std::shared_ptr<RegisteredTensor>> tensors_;
  std::vector<std::pair<std::string, ModulePtr>> children_;
  AnyDict attributes_;
  std::vector<Method> methods_;
  std::shared_ptr<ModuleHooks> hooks_;
  CopyFn copy_ = nullptr;  // makes a copy of the class that it really is
  bool training_ = true;
};

/// A module of its own: parameters and buffers with the same values, submodules, attributes and the
/// training flag; tensors and submodules that were one under several names are one in the copy too.
/// Gradients and hooks are not copied; what a delegate has compiled is shared. Members are copied
/// as C++ copies them, where `Parameter`, `Buffer` and `nn::Layer` stand for those of the copy;
/// NotSupported where another member (a Tensor, a std::shared_ptr) would share what is registered.
///
///   std::shared_ptr<Net> target = clone(net);
///   nn::Sequential twin = clone(sequential);
template <std::derived_from<Module> M>
std::shared_ptr<M> clone(const M& module) {
  auto copy =
      std::dynamic_pointer_cast<M>(Module::CloneOf(module, typeid(M), Module::CopyFnOf<M>()));
  if (!copy) Module::ThrowUnknownClass(module);
  return copy;
}
template <std::derived_from<Module> M>
std::shared_ptr<M> clone(const std::shared_ptr<M>& module) {
  return clone(*module);
}

/// The tree of modules with what they hold and how many parameters.
HAMMOCK_API std::ostream& operator<<(std::ostream& os, const Module& module);

/// The tensors in a value, in order, and the rest of it as bytes ("form"); equal forms differ only
/// in tensors.
struct HAMMOCK_API PackedTensors {
  std::string form;
  std::vector<Tensor> tensors;
};
HAMMOCK_API PackedTensors PackTensors(const Any& value);
HAMMOCK_API Any UnpackTensors(const std::string& form, const std::vector<Tensor>& tensors);

struct LoadOptions {
  Device device = Device();  ///< where parameters, buffers and constants go
  /// Runs machine code that the archive carries, if it is whole and was made for this CPU and
  /// version; otherwise, and by default, graphs are compiled anew. Code is as trusted as a program.
  bool allow_native = false;
  /// With allow_native: NotSupported where the code cannot be used.
  bool require_native = false;
};

/// Writes an archive: one file, whole or not at all. Methods that are code must have been traced;
/// those of submodules are left out otherwise.
HAMMOCK_API void save_module(const Module& module, const std::string& path,
                             Location at = Location::current());
/// ValueError (kParse) for damaged or newer files. Weights are mapped, not copied.
HAMMOCK_API ModulePtr load_module(const std::string& path, const LoadOptions& options = {},
                                  Location at = Location::current());

}  // namespace hammock
