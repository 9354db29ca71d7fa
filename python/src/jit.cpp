/// Traced programs, delegates that are Python classes, and functions of arrays that ops call.

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cxxabi.h>
#include <unistd.h>

#include <utility>

#include "convert.h"
#include "errors.h"
#include "exchange.h"
#include "gil.h"
#include "hammock/custom_call.h"
#include "hammock/interrupt.h"
#include "hammock/ir/graph.h"
#include "hammock/jit/backend.h"
#include "hammock/jit/to_backend.h"
#include "hammock/module.h"
#include "location.h"
#include "parts.h"
#include "program.h"
#include "release.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

/// The GIL for a thread of Hammock's. Its work ends in an error once the interpreter ends.
class WithGil {
 public:
  WithGil() {
    if (IsFinalizing()) throw DeviceError(ErrorCode::kExecute, "the Python interpreter is ending");
    state_ = PyGILState_Ensure();
  }
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

/// A call of Python code. As the interpreter ends it ends other threads by unwinding their C++
/// frames, whose destructors would need the GIL; here such a thread is left waiting.
template <class Call>
auto CallPython(Call&& call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    while (true) pause();
  }
}

/// Steps in flight that call Python end before the interpreter does.
void AwaitStepsAtExit() {
  static bool registered = false;
  if (std::exchange(registered, true)) return;
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    WithoutGil no_gil;
    AwaitSteps();
  }));
}

/// An error of Python code as one that other threads may hold and raise again.
template <class Call>
auto WithPythonErrors(const std::string& what, Call&& call) {
  try {
    return call();
  } catch (nb::python_error& error) {
    std::string message = what + ": ";
    message += error.what();
    if (error.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();  // it is the program's
    throw DeviceError(ErrorCode::kExecute, message);
  }
}

/// Any Python object in a boxed value: what a delegate compiles a method to.
class PythonObject : public Object {
 public:
  explicit PythonObject(nb::handle object) : object(Keep(object)) {}
  std::string type_name() const override { return "hammock.python.Object"; }
  const std::shared_ptr<PyObject> object;
};

Any Boxed(nb::handle object) {
  try {
    return AnyFrom(object.ptr());
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    return Any(std::shared_ptr<Object>(std::make_shared<PythonObject>(object)));
  }
}

nb::object Unboxed(const Any& value) {
  if (value.kind() == Any::Kind::kObject) {
    if (auto object = std::dynamic_pointer_cast<PythonObject>(value.ToObject()))
      return nb::borrow(object->object.get());
  }
  return nb::steal(ObjectFrom(value));
}

AnyDict DictFrom(nb::handle object, const char* what) {
  if (!PyDict_Check(object.ptr())) {
    throw TypeError(ErrorCode::kSchema, std::string(what) +
                                            " must be a dict with one entry for each method, not " +
                                            Py_TYPE(object.ptr())->tp_name);
  }
  AnyDict dict;
  for (auto [key, value] : nb::borrow<nb::dict>(object))
    dict[nb::cast<std::string>(key)] = Boxed(value);
  return dict;
}

nb::dict DictOf(const AnyDict& dict) {
  nb::dict result;
  for (const auto& [key, value] : dict) result[key.c_str()] = Unboxed(value);
  return result;
}

// ---- Programs

std::vector<Any> Arguments(nb::handle args) {
  std::vector<Any> values;
  for (nb::handle arg : args) values.push_back(AnyFrom(arg.ptr()));
  return values;
}

nb::object RunMethod(const Program& self, const std::string& name, nb::handle args) {
  CallerLine line;
  return nb::steal(ObjectFrom(self.module->run_method(name, Arguments(args), {}, Location())));
}

/// The module that holds the last part of a dotted name, made where it is missing.
Module& HolderOf(Module& root, const std::string& name, std::string& last) {
  Module* holder = &root;
  size_t begin = 0;
  for (size_t dot; (dot = name.find('.', begin)) != std::string::npos; begin = dot + 1) {
    std::string part = name.substr(begin, dot - begin);
    Module* next = nullptr;
    for (const auto& [child_name, child] : holder->named_children())
      if (child_name == part) next = child.get();
    if (!next) next = holder->register_module(part, std::make_shared<Module>()).get();
    holder = next;
  }
  last = name.substr(begin);
  return *holder;
}

using NamedParts = std::vector<std::tuple<std::string, Tensor, bool>>;
using FreeDims = std::vector<std::tuple<std::string, int, std::string>>;

/// `tensors`: name, value, whether it is a parameter. `schema` has one `Any` for each argument.
Program Trace(nb::handle function, const std::string& class_name, const NamedParts& tensors,
              const std::string& schema, nb::handle examples, const FreeDims& free_dims) {
  CallerLine line;
  auto module = std::make_shared<Module>(class_name);
  for (const auto& [name, tensor, is_parameter] : tensors) {
    std::string last;
    Module& holder = HolderOf(*module, name, last);
    if (is_parameter) {
      holder.register_parameter(last, tensor, tensor.requires_grad(), Location());
    } else {
      holder.register_buffer(last, tensor, true, Location());
    }
  }
  module->define(
      schema,
      [kept = Keep(function)](Module&, const std::vector<Any>& args) {
        WithGil gil;
        nb::list list;
        for (const Any& arg : args) list.append(nb::steal(ObjectFrom(arg)));
        return AnyFrom(nb::handle(kept.get())(*nb::tuple(list)).ptr());
      },
      Location());
  TraceOptions options;
  for (const auto& [argument, dim, name] : free_dims)
    options.free_dims.push_back({argument, dim, name});
  module->trace("forward", Arguments(examples), options, Location());
  return {module};
}

nb::object AttributeOf(const Attr& attr) {
  switch (attr.kind()) {
    case Attr::Kind::kNone:
      return nb::none();
    case Attr::Kind::kScalar:
      return nb::steal(ObjectFrom(Any(attr.scalar())));
    case Attr::Kind::kDType:
      return ObjectOf(attr.dtype());
    case Attr::Kind::kString:
      return nb::cast(attr.str());
    case Attr::Kind::kInts:
      return nb::cast(attr.ints());
    case Attr::Kind::kFloats:
      return nb::cast(attr.floats());
    case Attr::Kind::kStrings:
      return nb::cast(attr.strings());
    case Attr::Kind::kGraph:
      return nb::cast(ToText(attr.graph()));
  }
  return nb::none();
}

nb::object ValueOf(const Graph& graph, GraphValue value) {
  if (!graph.Contains(value.node)) return nb::none();
  return nb::make_tuple(value.node.number(), value.index);
}

/// (op, operands, attributes, types, line) of each node, in order. An operand is (node, result).
nb::list Nodes(const Program& self, const std::string& method) {
  const Graph& graph = *self.module->graph_body(method).graph;
  nb::list nodes;
  for (NodeId id : graph.ids()) {
    const GraphNode& node = graph[id];
    nb::list operands, types;
    nb::dict attributes;
    for (GraphValue input : node.inputs) operands.append(ValueOf(graph, input));
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      attributes[node.op->info().AttributeName(static_cast<int>(i)).c_str()] =
          AttributeOf(node.attrs[i]);
    }
    for (const Shape& type : node.types) {
      nb::list sizes;
      for (int64_t size : type.sizes()) sizes.append(size);
      types.append(nb::make_tuple(ObjectOf(type.dtype()), nb::tuple(sizes)));
    }
    nodes.append(nb::make_tuple(nb::str(node.op->name()), operands, attributes, types,
                                LocationText(node.location)));
  }
  return nodes;
}

/// The inputs of the graph, each as an argument's number, a name of the state, or a tensor.
nb::list Inputs(const Program& self, const std::string& method) {
  const GraphBody& body = self.module->graph_body(method);
  nb::list inputs;
  for (size_t i = 0; i < body.num_arguments(); ++i) inputs.append(i);
  for (const Capture& capture : body.captures) {
    if (!capture.name.empty()) {
      inputs.append(capture.name);
    } else if (capture.constant.defined()) {
      inputs.append(nb::cast(capture.constant));
    } else {
      inputs.append(nb::none());
    }
  }
  return inputs;
}

nb::list Outputs(const Program& self, const std::string& method) {
  const Graph& graph = *self.module->graph_body(method).graph;
  nb::list outputs;
  for (GraphValue value : graph.outputs()) outputs.append(ValueOf(graph, value));
  return outputs;
}

nb::dict State(const Program& self) {
  nb::dict state;
  for (const auto& [name, tensor] : self.module->state_dict())
    state[name.c_str()] = nb::cast(tensor);
  return state;
}

// ---- Delegates

class PythonBackend : public jit::BackendInterface {
 public:
  explicit PythonBackend(nb::handle kind) {
    WithGil gil;
    WithPythonErrors("delegate", [&] { object_ = Keep(kind()); });
  }

  bool is_available() override {
    WithGil gil;
    return WithPythonErrors("is_available", [&] {
      nb::object method = nb::getattr(Self(), "is_available", nb::none());
      return method.is_none() || nb::cast<bool>(nb::bool_(method()));
    });
  }

  AnyDict compile(Any processed, AnyDict spec) override {
    WithGil gil;
    return WithPythonErrors("compile", [&] {
      return DictFrom(Self().attr("compile")(Unboxed(processed), DictOf(spec)),
                      "the result of compile");
    });
  }

  AnyList execute(Any handle, AnyList inputs) override {
    WithGil gil;
    return WithPythonErrors("execute", [&] {
      nb::object list = nb::steal(ObjectFrom(Any(std::move(inputs))));
      nb::object results =
          CallPython([&] { return Self().attr("execute")(Unboxed(handle), list); });
      if (!PyList_Check(results.ptr()) && !PyTuple_Check(results.ptr()))
        return AnyList{AnyFrom(results.ptr())};
      AnyList values;
      for (nb::handle result : results) values.push_back(AnyFrom(result.ptr()));
      return values;
    });
  }

 private:
  nb::handle Self() const { return object_.get(); }
  std::shared_ptr<PyObject> object_;
};

void RegisterBackend(const std::string& name, nb::handle kind) {
  CallerLine line;
  AwaitStepsAtExit();
  std::shared_ptr<PyObject> kept = Keep(kind);
  jit::RegisterBackendClass(name, [kept] { return std::make_shared<PythonBackend>(kept.get()); });
  jit::backend_preprocess_register(
      name, [kept](const Module& module, const AnyDict& spec, const jit::DebugHandleGenerator&) {
        WithGil gil;
        return WithPythonErrors("preprocess", [&] {
          nb::object program = nb::cast(Program{module.clone()});
          return Boxed(nb::handle(kept.get()).attr("preprocess")(program, DictOf(spec)));
        });
      });
}

Program ToBackend(const std::string& name, const Program& program, nb::handle spec) {
  CallerLine line;
  return {jit::to_backend(name, *program.module, DictFrom(spec, "method_compile_spec"), {},
                          Location())};
}

// ---- Functions of arrays

nb::object ArrayOf(const HostTensor& host) {
  auto* owner = new HostTensor(host);
  nb::capsule keeper(owner, [](void* held) noexcept { delete static_cast<HostTensor*>(held); });
  std::vector<size_t> sizes(host.shape().sizes().begin(), host.shape().sizes().end());
  const DLPackCode type = DLPackCodeOf(host.dtype());
  return nb::cast(nb::ndarray<nb::numpy, nb::ro>(host.data(), sizes.size(), sizes.data(), keeper,
                                                 nullptr, {type.code, type.bits, 1}));
}

void RegisterArrayFunction(const std::string& target, nb::handle function) {
  CallerLine line;
  AwaitStepsAtExit();
  RegisterCustomCall(
      target,
      [kept = Keep(function), target](std::span<const HostTensor> operands,
                                      std::string_view payload) {
        WithGil gil;
        return WithPythonErrors(target, [&] {
          nb::list arrays;
          for (const HostTensor& operand : operands) arrays.append(ArrayOf(operand));
          nb::str text(payload.data(), payload.size());
          nb::object results = CallPython([&] { return nb::handle(kept.get())(arrays, text); });
          std::vector<HostTensor> hosts;
          for (nb::handle result : results) hosts.push_back(CopyBuffer(result.ptr()));
          return hosts;
        });
      },
      Location());
}

}  // namespace

void AddJit(nb::module_& module) {
  nb::class_<Program>(module, "Program",
                      "A module whose methods are graphs, or are run by a delegate.")
      .def("__call__",
           [](const Program& self, nb::args args) { return RunMethod(self, "forward", args); })
      .def("run_method", [](const Program& self, const std::string& name,
                            nb::args args) { return RunMethod(self, name, args); })
      .def(
          "graph_text",
          [](const Program& self, const std::string& method) {
            return ToText(*self.module->graph_body(method).graph, {.locations = true});
          },
          nb::arg("method") = "forward", "The graph of a method as text, with lines.")
      .def("nodes", Nodes, nb::arg("method") = "forward")
      .def("inputs", Inputs, nb::arg("method") = "forward",
           "What each input of the graph is: the number of an argument, the name of a parameter or "
           "buffer, a constant, or None for random state.")
      .def("outputs", Outputs, nb::arg("method") = "forward", "The results as (node, result).")
      .def("state_dict", State, "Parameters and buffers by name.")
      .def(
          "named_parameters",
          [](const Program& self) {
            nb::dict parameters;
            for (const auto& [name, tensor] : self.module->named_parameters())
              parameters[name.c_str()] = nb::cast(tensor);
            return parameters;
          },
          "Parameters by name: what gradients reach and optimisers change.")
      .def("methods",
           [](const Program& self) {
             std::vector<std::string> names;
             for (const Method& method : self.module->methods())
               names.push_back(method.schema.name());
             return names;
           })
      .def(
          "save",
          [](const Program& self, const std::string& path) {
            CallerLine line;
            WithoutGil no_gil;
            save_module(*self.module, path, Location());
          },
          nb::arg("path"), "Writes an archive, which C++ loads too.");
  module.def("load_program", [](const std::string& path) {
    CallerLine line;
    WithoutGil no_gil;
    return Program{load_module(path, {}, Location())};
  });
  module.def("trace_program", Trace);
  module.def("register_backend", RegisterBackend);
  module.def("to_backend", ToBackend);
  module.def("register_array_function", RegisterArrayFunction);
}

}  // namespace hammock::python
