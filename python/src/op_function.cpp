#include "op_function.h"

#include <nanobind/stl/string.h>
#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "convert.h"
#include "errors.h"
#include "hammock/ir/function.h"
#include "hammock/ir/op_def.h"
#include "hammock/ops.h"
#include "location.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

PyTypeObject* op_type = nullptr;

/// Values of more arguments than these are in memory of their own.
constexpr size_t kFewArguments = 32;

/// An argument by its interned name; other libraries call some of them otherwise.
struct Parameter {
  const SchemaArgument* argument;
  PyObject* name;
  PyObject* other_name;
};

struct Overload {
  const OpDef* op;
  std::vector<Parameter> parameters;
  size_t positional = 0;  // how many may be given by position
  int sizes = -1;         // the int[] whose items may be given one by one, as in `view(2, 3)`
  bool creates = false;   // a new tensor, which may be asked to require grad
};

PyObject* OtherName(const std::string& name) {
  static const std::map<std::string, const char*> names = {
      {"self", "input"}, {"input", "self"}, {"dim", "axis"}, {"keepdim", "keepdims"}};
  auto found = names.find(name);
  return found == names.end() ? nullptr : PyUnicode_InternFromString(found->second);
}

/// Of PyTorch's creation functions, which no schema has.
PyObject* RequiresGradName() {
  static PyObject* name = PyUnicode_InternFromString("requires_grad");
  return name;
}

bool IsNewTensor(const OpDef& op) {
  const FunctionSchema& schema = op.info().schema;
  return schema.IndexOf("dtype") >= 0 && schema.IndexOf("device") >= 0 && schema.name() != "to";
}

Overload MakeOverload(const OpDef* op) {
  Overload overload{.op = op, .parameters = {}};
  for (const SchemaArgument& argument : op->info().schema.arguments()) {
    if (!argument.keyword_only) ++overload.positional;
    overload.parameters.push_back(
        {&argument, PyUnicode_InternFromString(argument.name.c_str()), OtherName(argument.name)});
  }
  overload.creates = IsNewTensor(*op);
  for (size_t i = 0; i < std::min<size_t>(overload.positional, 2); ++i) {
    const SchemaType& type = overload.parameters[i].argument->type;
    if (type.base == SchemaType::Base::kInt && type.list) {
      if (i + 1 == overload.positional) overload.sizes = static_cast<int>(i);
      break;
    }
    if (type.base != SchemaType::Base::kTensor || type.list) break;
  }
  return overload;
}

/// A primitive without a call of its own is reached through the function of the same name.
std::vector<Overload> OverloadsOf(const std::string& name) {
  std::vector<const OpDef*> ops = op_registry::Overloads(name);
  auto callable = [](const OpDef* op) { return op->call != nullptr; };
  if (std::any_of(ops.begin(), ops.end(), callable)) std::erase_if(ops, std::not_fn(callable));
  std::vector<Overload> overloads;
  for (const OpDef* op : ops) overloads.push_back(MakeOverload(op));
  return overloads;
}

// ---- Typed calls. The elementwise ops that are alike, and reductions of all elements, are called
// without boxing where all arguments are tensors and none has a name; all else takes the way of the
// schema.

using TypedCall = Tensor (*)(PyObject* const* args);
struct TypedOp {
  size_t arity = 0;
  TypedCall call = nullptr;
};

template <Tensor (*op)(const Tensor&, Location)>
Tensor CallUnary(PyObject* const* args) {
  return op(TensorOf(args[0]), Location());
}
template <Tensor (*op)(const Tensor&, const TensorArg&, Location)>
Tensor CallBinary(PyObject* const* args) {
  return op(TensorOf(args[0]), TensorArg(TensorOf(args[1]), Location()), Location());
}

template <Tensor (*op)(const Tensor&, const Dims&, bool, std::optional<DType>, Location)>
Tensor CallReduceAll(PyObject* const* args) {
  return op(TensorOf(args[0]), {}, false, std::nullopt, Location());
}

TypedOp TypedOpOf(const std::string& name) {
  static const std::map<std::string, TypedOp> ops = {
#define HAMMOCK_TYPED(name) \
  {#name, {1, CallUnary<static_cast<Tensor (*)(const Tensor&, Location)>(name)>}},
      HAMMOCK_UNARY_OPS(HAMMOCK_TYPED) HAMMOCK_UNARY_FUNCTIONS(HAMMOCK_TYPED) HAMMOCK_TYPED(relu)
#undef HAMMOCK_TYPED
#define HAMMOCK_TYPED(name) \
  {#name,                   \
   {2, CallBinary<static_cast<Tensor (*)(const Tensor&, const TensorArg&, Location)>(name)>}},
          HAMMOCK_BINARY_OPS(HAMMOCK_TYPED) HAMMOCK_BINARY_FUNCTIONS(HAMMOCK_TYPED)
#undef HAMMOCK_TYPED
              {"sum", {1, CallReduceAll<sum>}},
      {"mean", {1, CallReduceAll<mean>}},
  };
  auto found = ops.find(name);
  return found == ops.end() ? TypedOp() : found->second;
}

struct OpObject {
  PyObject_HEAD vectorcallfunc call;
  PyObject* weak_references;
  std::string* name;
  TypedOp typed;
  std::vector<Overload>* overloads;  // null before the first use
};

const std::vector<Overload>& Overloads(PyObject* self) {
  auto* op = reinterpret_cast<OpObject*>(self);
  if (!op->overloads) op->overloads = new std::vector(OverloadsOf(*op->name));
  return *op->overloads;
}

/// The arguments of a call as Python passes them.
struct Arguments {
  std::span<PyObject* const> positional;
  PyObject* names;  // of those behind the positional ones; may be null
  size_t size_of_names() const { return names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0; }
  PyObject* name(size_t i) const { return PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i)); }
  PyObject* named(size_t i) const { return positional.data()[positional.size() + i]; }
};

bool SameName(PyObject* name, PyObject* given) {
  return name == given || (name && PyUnicode_Compare(name, given) == 0);
}

int IndexOf(const Overload& overload, PyObject* name) {
  for (size_t i = 0; i < overload.parameters.size(); ++i) {
    if (overload.parameters[i].name == name) return static_cast<int>(i);
  }
  for (size_t i = 0; i < overload.parameters.size(); ++i) {
    const Parameter& parameter = overload.parameters[i];
    if (SameName(parameter.name, name) || SameName(parameter.other_name, name)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

/// One call's values by argument, as many as the record has.
class Bound {
 public:
  explicit Bound(size_t size) : size_(size) {
    if (size_ > kFewArguments) [[unlikely]] {
      many_ = std::make_unique<Any[]>(size_);
      many_given_.resize(size_);
    } else {
      std::uninitialized_default_construct_n(values(), size_);
    }
  }
  ~Bound() {
    if (!many_) std::destroy_n(values(), size_);
  }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

  Any& operator[](size_t i) { return values()[i]; }
  bool given(size_t i) const {
    return many_ ? static_cast<bool>(many_given_[i]) : (given_ >> i & 1) != 0;
  }
  void SetGiven(size_t i) {
    if (many_) {
      many_given_[i] = true;
    } else {
      given_ |= uint32_t{1} << i;
    }
  }
  std::span<const Any> all() { return {values(), size_}; }

  bool requires_grad = false;  // the result of a creation

 private:
  Any* values() { return many_ ? many_.get() : reinterpret_cast<Any*>(storage_); }

  const size_t size_;
  std::unique_ptr<Any[]> many_;
  std::vector<bool> many_given_;
  uint32_t given_ = 0;
  alignas(Any) std::byte storage_[kFewArguments * sizeof(Any)];
};

/// How strictly arguments are taken: first as they are, then with the liberties of PyTorch.
struct Liberties {
  bool sizes_one_by_one;
  TensorsAsNumbers tensors;
};
constexpr Liberties kLiberties[] = {{false, TensorsAsNumbers::kNo},
                                    {true, TensorsAsNumbers::kNo},
                                    {false, TensorsAsNumbers::kRead},
                                    {true, TensorsAsNumbers::kRead}};

bool BindPositional(const Overload& overload, std::span<PyObject* const> args,
                    const Liberties& liberties, Bound& bound) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (!Convert(args[i], overload.parameters[i].argument->type, bound[i], liberties.tensors))
      return false;
    bound.SetGiven(i);
  }
  return true;
}

/// `view(2, 3)`: what is behind the first arguments are the items of the list.
bool BindSizes(const Overload& overload, std::span<PyObject* const> args,
               const Liberties& liberties, Bound& bound) {
  auto first = static_cast<size_t>(overload.sizes);
  if (overload.sizes < 0 || args.size() <= first + 1) return false;
  if (!BindPositional(overload, args.first(first), liberties, bound)) return false;
  AnyList items;
  const SchemaType item{.base = SchemaType::Base::kInt};
  for (PyObject* size : args.subspan(first)) {
    Any value;
    if (PyBool_Check(size) || !Convert(size, item, value, liberties.tensors)) return false;
    items.push_back(std::move(value));
  }
  bound[first] = Any(std::move(items));
  bound.SetGiven(first);
  return true;
}

bool BindRequiresGrad(const Overload& overload, PyObject* name, PyObject* value, Bound& bound) {
  if (!overload.creates || !SameName(RequiresGradName(), name) || !PyBool_Check(value))
    return false;
  bound.requires_grad = value == Py_True;
  return true;
}

bool BindNamed(const Overload& overload, const Arguments& args, const Liberties& liberties,
               Bound& bound) {
  for (size_t i = 0; i < args.size_of_names(); ++i) {
    int index = IndexOf(overload, args.name(i));
    if (index < 0) {
      if (BindRequiresGrad(overload, args.name(i), args.named(i), bound)) continue;
      return false;
    }
    auto place = static_cast<size_t>(index);
    if (bound.given(place)) return false;
    const SchemaType& type = overload.parameters[place].argument->type;
    if (!Convert(args.named(i), type, bound[place], liberties.tensors)) return false;
    bound.SetGiven(place);
  }
  return true;
}

bool FillDefaults(const Overload& overload, Bound& bound) {
  for (size_t i = 0; i < overload.parameters.size(); ++i) {
    if (bound.given(i)) continue;
    const std::optional<Any>& value = overload.parameters[i].argument->default_value;
    if (!value) return false;
    bound[i] = *value;
  }
  return true;
}

bool Bind(const Overload& overload, const Arguments& args, const Liberties& liberties,
          Bound& bound) {
  bool sizes = liberties.sizes_one_by_one;
  if (!sizes && args.positional.size() > overload.positional) return false;
  bool fits = sizes ? BindSizes(overload, args.positional, liberties, bound)
                    : BindPositional(overload, args.positional, liberties, bound);
  return fits && BindNamed(overload, args, liberties, bound) && FillDefaults(overload, bound);
}

/// The schema without the name of the overload, and with Python's truth values.
std::string Signature(const Overload& overload) {
  std::string schema = overload.op->info().schema.to_string();
  size_t dot = schema.find('.'), open = schema.find('(');
  if (dot < open) schema.erase(dot, open - dot);
  for (auto [from, to] : {std::pair("=false", "=False"), std::pair("=true", "=True")}) {
    for (size_t at = 0; (at = schema.find(from, at)) != std::string::npos; ++at) {
      schema.replace(at, std::string_view(from).size(), to);
    }
  }
  return schema;
}

std::string TypeName(PyObject* object) {
  if (IsTensor(object)) return "Tensor";
  return Py_TYPE(object)->tp_name;
}

/// Why an overload does not take the arguments.
std::string Mismatch(const Overload& overload, const Arguments& args) {
  const auto& parameters = overload.parameters;
  if (args.positional.size() > overload.positional) {
    return "takes at most " + std::to_string(overload.positional) + " positional arguments, got " +
           std::to_string(args.positional.size());
  }
  std::vector<bool> given(parameters.size(), false);
  auto wrong = [&](size_t index, PyObject* object) -> std::string {
    Any value;
    given[index] = true;
    const SchemaArgument& argument = *parameters[index].argument;
    if (Convert(object, argument.type, value)) return "";
    return "argument '" + argument.name + "' must be " + argument.type.to_string() + ", not " +
           TypeName(object);
  };
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (std::string why = wrong(i, args.positional[i]); !why.empty()) return why;
  }
  for (size_t i = 0; i < args.size_of_names(); ++i) {
    const char* text = PyUnicode_AsUTF8(args.name(i));
    if (!text) ThrowPythonError();
    int index = IndexOf(overload, args.name(i));
    if (index < 0) {
      std::string why;
      // The schema knows the nearest name.
      overload.op->info().schema.TryBind({}, {{text, Any()}}, &why);
      return why;
    }
    if (given[static_cast<size_t>(index)])
      return std::string("argument '") + text + "' is given twice";
    std::string why = wrong(static_cast<size_t>(index), args.named(i));
    if (!why.empty()) return why;
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (given[i] || parameters[i].argument->default_value) continue;
    return "argument '" + parameters[i].argument->name + "' is missing";
  }
  return "does not fit";
}

[[noreturn]] void Refuse(PyObject* self, const Arguments& args) {
  const std::string& name = *reinterpret_cast<OpObject*>(self)->name;
  const std::vector<Overload>& overloads = Overloads(self);
  std::string message = name + ": ";
  if (overloads.size() == 1) {
    message += Mismatch(overloads[0], args) + "; its signature is " + Signature(overloads[0]);
  } else {
    message += "no overload takes these arguments:";
    for (const Overload& overload : overloads) {
      message += "\n  " + Signature(overload) + ": " + Mismatch(overload, args);
    }
  }
  throw TypeError(ErrorCode::kSchema, message);
}

/// Runs a record; the object of an argument that the call wrote and returns is returned itself.
PyObject* Run(const Overload& overload, Bound& bound, const Arguments& args) {
  std::span<const Any> values = bound.all();
  Any result = overload.op->call
                   ? overload.op->call(values)
                   : CallOp(overload.op->name(), std::vector<Any>(values.begin(), values.end()));
  if (result.IsTensor() && !args.positional.empty() && IsTensor(args.positional[0]) &&
      result.ToTensor().is_same(TensorOf(args.positional[0]))) {
    return Py_NewRef(args.positional[0]);
  }
  if (bound.requires_grad) Tensor(result.ToTensor()).requires_grad_(true, Location());
  return ObjectFrom(result);
}

PyObject* CallOpObject(PyObject* self, PyObject* const* args, size_t flags, PyObject* names) {
  return Guarded([&]() -> PyObject* {
    CallerLine line;
    auto count = static_cast<size_t>(PyVectorcall_NARGS(flags));
    const TypedOp& typed = reinterpret_cast<OpObject*>(self)->typed;
    if (count > 0 && count == typed.arity && !names && IsTensor(args[0]) &&
        (count == 1 || IsTensor(args[1]))) {
      return Wrap(typed.call(args));
    }
    Arguments arguments{{args, count}, names};
    const std::vector<Overload>& overloads = Overloads(self);
    for (const Liberties& liberties : kLiberties) {
      for (const Overload& overload : overloads) {
        Bound bound(overload.parameters.size());
        if (Bind(overload, arguments, liberties, bound)) return Run(overload, bound, arguments);
      }
    }
    Refuse(self, arguments);
  });
}

// ---- The type

PyObject* NewOp(const std::string& name) {
  auto* op = PyObject_New(OpObject, op_type);
  if (!op) ThrowPythonError();
  op->call = CallOpObject;
  op->weak_references = nullptr;
  op->name = new std::string(name);
  new (&op->typed) TypedOp(TypedOpOf(name));
  op->overloads = nullptr;
  return reinterpret_cast<PyObject*>(op);
}

PyObject* Get(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyObject* Repr(PyObject* self) {
  return PyUnicode_FromFormat("<hammock op %s>", reinterpret_cast<OpObject*>(self)->name->c_str());
}

PyObject* Name(PyObject* self, void*) {
  return PyUnicode_FromString(reinterpret_cast<OpObject*>(self)->name->c_str());
}

PyObject* ModuleName(PyObject*, void*) { return PyUnicode_FromString("hammock"); }

PyObject* Doc(PyObject* self, void*) {
  return Guarded([&]() -> PyObject* {
    std::string text;
    const char* last = "";
    for (const Overload& overload : Overloads(self)) {
      if (std::string_view(last) != overload.op->doc)
        text += std::string(overload.op->doc) + "\n\n";
      last = overload.op->doc;
      text += "    " + Signature(overload) + "\n";
    }
    return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  });
}

PyObject* Schemas(PyObject* self, void*) {
  return Guarded([&]() -> PyObject* {
    nb::list schemas;
    for (const Overload& overload : Overloads(self)) {
      schemas.append(nb::str(overload.op->info().schema.to_string().c_str()));
    }
    return nb::tuple(schemas).release().ptr();
  });
}

/// Made by the package, which knows `inspect`.
PyObject* InspectSignature(PyObject* self, void*) {
  return Guarded([&]() -> PyObject* {
    nb::object signature =
        nb::module_::import_("hammock._signatures").attr("signature")(nb::borrow(self));
    return signature.release().ptr();
  });
}

PyObject* Reduce(PyObject* self, PyObject*) { return Name(self, nullptr); }

PyTypeObject* MakeType() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(OpObject, call), READONLY, nullptr},
      {"__weaklistoffset__", T_PYSSIZET, offsetof(OpObject, weak_references), READONLY, nullptr},
      {}};
  static PyGetSetDef properties[] = {
      {"__name__", Name, nullptr, nullptr, nullptr},
      {"__qualname__", Name, nullptr, nullptr, nullptr},
      {"__module__", ModuleName, nullptr, nullptr, nullptr},
      {"__doc__", Doc, nullptr, nullptr, nullptr},
      {"__signature__", InspectSignature, nullptr, nullptr, nullptr},
      {"schemas", Schemas, nullptr, "The signatures of its records.", nullptr},
      {}};
  static PyMethodDef methods[] = {{"__reduce__", Reduce, METH_NOARGS, nullptr}, {}};
  PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                         {Py_tp_descr_get, reinterpret_cast<void*>(Get)},
                         {Py_tp_repr, reinterpret_cast<void*>(Repr)},
                         {Py_tp_members, members},
                         {Py_tp_getset, properties},
                         {Py_tp_methods, methods},
                         {0, nullptr}};
  PyType_Spec spec = {"hammock.Op", sizeof(OpObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                          Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) ThrowPythonError();
  return reinterpret_cast<PyTypeObject*>(type);
}

bool IsMethod(const OpDef& op) {
  const auto& arguments = op.info().schema.arguments();
  return !arguments.empty() && arguments[0].name == "self" &&
         arguments[0].type.base == SchemaType::Base::kTensor && !arguments[0].type.list;
}

std::map<std::string, PyObject*>& Functions() {
  static auto& functions = *new std::map<std::string, PyObject*>;
  return functions;
}

}  // namespace

PyObject* FindOp(const std::string& name) {
  auto found = Functions().find(name);
  if (found != Functions().end()) return found->second;
  std::vector<const OpDef*> overloads = op_registry::Overloads(name);
  if (overloads.empty()) return nullptr;
  return Functions()[name] = NewOp(name);
}

void AddOps(nb::module_& module) {
  op_type = MakeType();
  module.attr("Op") = nb::borrow(reinterpret_cast<PyObject*>(op_type));
  nb::dict methods = nb::borrow<nb::dict>(tensor_type->tp_dict);
  nb::dict functions;
  for (const OpDef* op : op_registry::All()) {
    const std::string& name = op->info().schema.name();
    PyObject* function = FindOp(name);
    if (!function) continue;
    functions[name.c_str()] = nb::borrow(function);
    if (IsMethod(*op) && !methods.contains(name.c_str())) {
      methods[name.c_str()] = nb::borrow(function);
    }
  }
  PyType_Modified(tensor_type);
  module.attr("ops") = functions;
  module.def("find_op", [](const std::string& name) {
    PyObject* function = FindOp(name);
    return nb::borrow(function ? function : Py_None);
  });
}

}  // namespace hammock::python
