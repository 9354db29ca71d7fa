// hammock_torch._C: programs that Python builds from an FX graph, op by op, and calls with tensors.
// Nothing is written as text and parsed again; a call unpacks its arguments where they lie.

#include <ATen/core/dispatch/Dispatcher.h>
#include <hammock/executor.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "engine/aten_op.h"
#include "engine/program.h"
#include "engine/values.h"

namespace py = pybind11;

namespace hammock_torch {
namespace {

using hammock::Any;

/// A constant of an FX graph. Dtypes come as numbers, devices and layouts as None.
Any FromPython(const py::handle& value, const hammock::Device& device) {
  if (value.is_none()) return Any();
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return Any(value.cast<int64_t>());
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  if (THPVariable_Check(value.ptr())) return ImportTensor(THPVariable_Unpack(value.ptr()), device);
  if (PyComplex_Check(value.ptr())) return value.cast<std::complex<double>>();
  if (py::isinstance<py::list>(value) || py::isinstance<py::tuple>(value)) {
    hammock::AnyList items;
    for (const py::handle& item : value) items.push_back(FromPython(item, device));
    return items;
  }
  throw Unsupported("a constant of type " + std::string(py::str(py::type::handle_of(value))));
}

py::object ToPython(Any value) {
  switch (value.kind()) {
    case Any::Kind::kNone:
      return py::none();
    case Any::Kind::kTensor: {
      hammock::Tensor tensor = value.ToTensor();
      value = Any();
      return py::reinterpret_steal<py::object>(THPVariable_Wrap(ExportTensor(std::move(tensor))));
    }
    case Any::Kind::kBool:
      return py::bool_(value.ToBool());
    case Any::Kind::kInt:
      return py::int_(value.ToInt());
    case Any::Kind::kFloat:
      return py::float_(value.ToDouble());
    default:
      throw Unsupported("a result of type " + value.type_name());
  }
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

  /// `args` is a list of tensors and numbers, which is cleared: the program holds the last
  /// references while it runs.
  py::list Run(py::list args) {
    std::vector<Any> inputs;
    inputs.reserve(args.size());
    for (const py::handle& arg : args) {
      PyObject* object = arg.ptr();
      if (THPVariable_Check(object)) {
        inputs.emplace_back(ImportTensor(THPVariable_Unpack(object), program_.device()));
      } else if (PyLong_CheckExact(object)) {
        inputs.emplace_back(static_cast<int64_t>(PyLong_AsLongLong(object)));
      } else {
        inputs.push_back(FromPython(arg, program_.device()));
      }
    }
    std::vector<Any> results;
    {
      py::gil_scoped_release no_gil;
      results = program_.Run(inputs);
      inputs.clear();
      std::vector<hammock::Tensor> tensors;
      for (const Any& result : results) {
        if (result.IsTensor()) tensors.push_back(result.ToTensor());
      }
      // PyTorch may write to its tensors as soon as this returns.
      hammock::LazyGraphExecutor::Get()->SyncTensorsGraph(tensors, true);
    }
    py::list returned(results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      returned[i] = ToPython(std::exchange(results[i], Any()));
    }
    return returned;
  }

 private:
  Program program_;
};

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
  py::class_<PyProgram>(m, "Program")
      .def(py::init<std::string>(), py::arg("device"))
      .def("input", &PyProgram::Input)
      .def("constant", &PyProgram::Constant)
      .def("call", &PyProgram::Call)
      .def("list", &PyProgram::List)
      .def("item", &PyProgram::Item)
      .def("outputs", &PyProgram::Outputs)
      .def("replays", &PyProgram::Replays)
      .def("run", &PyProgram::Run);
}

}  // namespace hammock_torch
