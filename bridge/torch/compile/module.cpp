// hammock_torch._C: programs that Python builds from an FX graph, op by op, and calls with tensors.
// Nothing is written as text and parsed again; a call unpacks its arguments where they lie.

#include <ATen/core/dispatch/Dispatcher.h>
#include <hammock/config.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_numbers.h>

#include <algorithm>

#include "engine/aten_op.h"
#include "engine/program.h"
#include "engine/values.h"

namespace py = pybind11;

namespace hammock_torch {
namespace {

using hammock::Any;

/// Devices, layouts, memory formats and generators, which say nothing of values.
bool IsOfPlacement(PyObject* value) {
  return THPDevice_Check(value) || THPLayout_Check(value) || THPMemoryFormat_Check(value) ||
         THPGenerator_Check(value);
}

/// A constant of an FX graph. Dtypes are numbers, as in PyTorch's boxed values.
Any FromPython(const py::handle& value, const hammock::Device& device) {
  if (value.is_none() || IsOfPlacement(value.ptr())) return Any();
  if (THPDtype_Check(value.ptr())) {
    return Any(static_cast<int64_t>(reinterpret_cast<THPDtype*>(value.ptr())->scalar_type));
  }
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return Any(value.cast<int64_t>());
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (THPVariable_Check(value.ptr())) return FromIValue(THPVariable_Unpack(value.ptr()), device);
  if (PyComplex_Check(value.ptr())) return value.cast<std::complex<double>>();
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    hammock::AnyList items;
    for (const py::handle& item : value) items.push_back(FromPython(item, device));
    return items;
  }
  throw Unsupported("a constant of type " + std::string(py::str(py::type::handle_of(value))));
}

/// Lists and tuples are tuples.
c10::IValue InputOf(PyObject* value) {
  if (THPVariable_Check(value)) return THPVariable_Unpack(value);
  if (PyBool_Check(value)) return value == Py_True;
  if (PyLong_Check(value)) return THPUtils_unpackLong(value);
  if (PyFloat_Check(value)) return PyFloat_AS_DOUBLE(value);
  if (value == Py_None) return {};
  if (PyComplex_Check(value)) {
    return c10::complex<double>(py::handle(value).cast<std::complex<double>>());
  }
  if (PyList_Check(value) || PyTuple_Check(value)) {
    std::vector<c10::IValue> items;
    for (const py::handle& item : py::handle(value)) items.push_back(InputOf(item.ptr()));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  throw Unsupported(std::string("a value of type ") + Py_TYPE(value)->tp_name);
}

PyObject* ToPython(const c10::IValue& value);

/// A list or tuple, as a list.
PyObject* ListToPython(c10::ArrayRef<c10::IValue> items) {
  py::list list(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), ToPython(items[i]));
  }
  return list.release().ptr();
}

/// A new reference.
PyObject* ToPython(const c10::IValue& value) {
  if (value.isTensor()) return THPVariable_Wrap(value.toTensor());
  if (value.isBool()) return PyBool_FromLong(value.toBool());
  if (value.isInt()) return PyLong_FromLongLong(value.toInt());
  if (value.isDouble()) return PyFloat_FromDouble(value.toDouble());
  if (value.isNone()) Py_RETURN_NONE;
  if (value.isComplexDouble()) {
    return py::cast(std::complex<double>(value.toComplexDouble())).release().ptr();
  }
  if (value.isTuple()) return ListToPython(value.toTupleRef().elements());
  if (value.isList()) return ListToPython(value.toListRef());
  throw Unsupported("a result of type " + value.tagKind());
}

/// `args` is a list of tensors and numbers, which is cleared: the program holds the last references
/// while it runs.
PyObject* RunOn(const Program& program, PyObject* args) {
  const auto count = static_cast<size_t>(PyList_GET_SIZE(args));
  std::vector<c10::IValue> inputs;
  inputs.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    inputs.push_back(InputOf(PyList_GET_ITEM(args, static_cast<Py_ssize_t>(i))));
  }
  if (PyList_SetSlice(args, 0, PY_SSIZE_T_MAX, nullptr) < 0) throw python_error();
  std::vector<c10::IValue> results;
  {
    py::gil_scoped_release no_gil;
    results = program.RunNow(inputs);
    inputs.clear();
  }
  return ListToPython(results);
}

PyObject* RunFunction(PyObject* self, PyObject* args) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(PyList_CheckExact(args), "a program takes its inputs as a list");
  return RunOn(*static_cast<Program*>(PyCapsule_GetPointer(self, nullptr)), args);
  END_HANDLE_TH_ERRORS
}
PyMethodDef run_method = {"run", RunFunction, METH_O,
                          "Runs the program on a list of inputs, which is cleared."};

/// A function of Python on PyTorch's stack: pops `count` arguments, pushes the result.
EagerFn OnStack(py::function function, size_t count) {
  std::shared_ptr<py::function> held(new py::function(std::move(function)), [](py::function* last) {
    py::gil_scoped_acquire gil;
    delete last;
  });
  return [held, count](torch::jit::Stack& stack) {
    py::gil_scoped_acquire gil;
    py::tuple arguments(count);
    for (size_t i = 0; i < count; ++i) {
      PyTuple_SET_ITEM(arguments.ptr(), static_cast<Py_ssize_t>(i),
                       ToPython(torch::jit::peek(stack, i, count)));
    }
    py::object result = (*held)(*arguments);
    torch::jit::drop(stack, count);
    stack.push_back(InputOf(result.ptr()));
  };
}

class PyProgram {
 public:
  explicit PyProgram(const std::string& device) : program_(hammock::Device(device)) {}

  int Input() { return program_.AddInput(); }
  int Constant(const py::object& value) {
    return program_.AddConstant(FromPython(value, program_.device()));
  }
  std::vector<int> Call(const std::string& overload, std::vector<int> inputs) {
    return program_.AddCall(overload, std::move(inputs));
  }
  int CallPython(const std::string& name, py::function function, std::vector<int> inputs) {
    EagerFn eager = OnStack(std::move(function), inputs.size());
    return program_.AddForeignCall(name, std::move(eager), std::move(inputs));
  }
  int List(std::vector<int> items) {
    int result = program_.NewRegister();
    program_.Add(
        {.kind = Instruction::Kind::kList, .inputs = std::move(items), .outputs = {result}});
    return result;
  }
  int Item(int list, int index, int size) {
    std::vector<int> items;
    for (int i = 0; i < size; ++i) items.push_back(program_.NewRegister());
    program_.Add({.kind = Instruction::Kind::kUnpack, .inputs = {list}, .outputs = items});
    return items.at(static_cast<size_t>(index));
  }
  void Outputs(std::vector<int> registers) { program_.SetOutputs(std::move(registers)); }
  int64_t Replays() const { return program_.replays(); }

  /// A function of a list, made for few nanoseconds a call: not one of pybind.
  py::object Function() const {
    auto* program = new Program(program_);
    py::capsule self(program, [](void* held) { delete static_cast<Program*>(held); });
    return py::reinterpret_steal<py::object>(PyCFunction_New(&run_method, self.ptr()));
  }

 private:
  Program program_;
};

/// Whether Hammock has the device here.
bool HasDevice(const std::string& name) {
  auto devices = hammock::Devices();
  return std::any_of(devices.begin(), devices.end(),
                     [&](const hammock::Device& device) { return device.to_string() == name; });
}

std::string ConfiguredDevice() { return hammock::config::Get<hammock::config::kDevice>(); }

bool Knows(const std::string& overload) {
  size_t dot = overload.find('.');
  auto handle = c10::Dispatcher::singleton().findSchema(
      {overload.substr(0, dot), dot == std::string::npos ? "" : overload.substr(dot + 1)});
  return handle && AtenOp::Of(handle->schema()).known();
}

}  // namespace

PYBIND11_MODULE(_C, m) {
  m.doc() = "Programs of aten ops on Hammock, built op by op.";
  m.def("knows", Knows, "Whether Hammock has a form of an operator (\"aten::add.Tensor\").");
  m.def("has_device", HasDevice, "Whether Hammock has a device (\"cuda:0\").");
  m.def("configured_device", ConfiguredDevice, "The device that HAMMOCK_DEVICE names, or \"\".");
  py::class_<PyProgram>(m, "Program")
      .def(py::init<std::string>(), py::arg("device"))
      .def("input", &PyProgram::Input)
      .def("constant", &PyProgram::Constant)
      .def("call", &PyProgram::Call)
      .def("call_python", &PyProgram::CallPython)
      .def("list", &PyProgram::List)
      .def("item", &PyProgram::Item)
      .def("outputs", &PyProgram::Outputs)
      .def("replays", &PyProgram::Replays)
      .def("function", &PyProgram::Function);
}

}  // namespace hammock_torch
