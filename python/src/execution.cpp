/// Steps, compiled functions, guards, explanations.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "convert.h"
#include "errors.h"
#include "gil.h"
#include "hammock/compile.h"
#include "hammock/executor.h"
#include "location.h"
#include "parts.h"
#include "release.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

/// The state of a compiled Python function: tensors, and flags that choose the trace.
struct PythonState {
  struct Flag {
    bool on;
    bool is_training() const { return on; }
    std::vector<std::pair<std::string, const Flag*>> named_children() const { return {}; }
  };
  std::vector<Tensor> tensors;
  std::shared_ptr<PyObject> training;  // a function that returns a list of bools

  std::vector<std::pair<std::string, Tensor>> state_dict() const {
    std::vector<std::pair<std::string, Tensor>> named;
    for (const Tensor& tensor : tensors) named.emplace_back("", tensor);
    return named;
  }
  bool is_training() const { return true; }
  std::vector<std::pair<std::string, std::shared_ptr<Flag>>> named_children() const {
    std::vector<std::pair<std::string, std::shared_ptr<Flag>>> flags;
    for (bool on : nb::cast<std::vector<bool>>(nb::handle(training.get())())) {
      flags.emplace_back("", std::make_shared<Flag>(Flag{on}));
    }
    return flags;
  }
};

/// One compiled signature: Python knows the structure of arguments and results.
class CompiledFunction {
 public:
  CompiledFunction(nb::handle fn, std::vector<Tensor> state, nb::handle training)
      : function_(std::make_shared<nb::object>(nb::borrow(fn))),
        state_(std::make_shared<PythonState>(PythonState{std::move(state), Keep(training)})),
        replayed_(Call(function_), {StateOf(state_)}, Location()) {}

  std::vector<Tensor> operator()(nb::handle args) const {
    CallerLine line;
    std::vector<Tensor> tensors;  // TensorArg refers to them
    std::vector<std::optional<Scalar>> numbers;
    for (nb::handle arg : nb::borrow(args)) {
      tensors.push_back(IsTensor(arg.ptr()) ? TensorOf(arg.ptr()) : Tensor());
      numbers.push_back(tensors.back().defined() ? std::nullopt : ScalarFrom(arg.ptr(), false));
    }
    std::vector<TensorArg> list;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (numbers[i]) {
        list.emplace_back(*numbers[i], Location());
      } else {
        list.emplace_back(tensors[i], Location());
      }
    }
    return replayed_.Call(list);
  }
  size_t traces() const { return replayed_.traces(); }

  /// The function often refers to an object that has this one: the garbage collector sees it.
  static int Traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<CompiledFunction>(self)->function_->ptr());
    return 0;
  }
  static int Clear(PyObject* self) {
    if (nb::inst_ready(self)) nb::inst_ptr<CompiledFunction>(self)->function_->reset();
    return 0;
  }

 private:
  static TensorsFn Call(const std::shared_ptr<nb::object>& function) {
    return [function](const std::vector<Tensor>& args) {
      nb::gil_scoped_acquire gil;
      if (!function->is_valid()) ThrowTypeError("compile: the function is being freed");
      return nb::cast<std::vector<Tensor>>((*function)(nb::cast(args)));
    };
  }

  const std::shared_ptr<nb::object> function_;
  std::shared_ptr<PythonState> state_;
  Replayed replayed_;
};

template <class Guard>
struct Scope {
  std::unique_ptr<Guard> guard;
  void Exit() { guard.reset(); }
};

std::optional<Device> OptionalDevice(nb::handle device) {
  if (device.is_none()) return std::nullopt;
  std::optional<std::string> name = DeviceNameFrom(device.ptr());
  if (!name) ThrowTypeError("device must be a name such as 'cpu', or a device");
  return Device(*name);
}

void AddSteps(nb::module_& module) {
  module.def(
      "mark_step",
      [](nb::handle device, bool wait) {
        CallerLine line;
        std::optional<Device> on = OptionalDevice(device);
        WithoutGil no_gil;
        LazyGraphExecutor::Get()->MarkStep(on ? &*on : nullptr, wait, Location());
      },
      nb::arg("device") = nb::none(), nb::arg("wait") = false,
      "Starts what this thread has recorded.");
  module.def(
      "sync",
      [](const std::vector<Tensor>& tensors, bool wait) {
        CallerLine line;
        WithoutGil no_gil;
        LazyGraphExecutor::Get()->SyncTensorsGraph(tensors, wait, Location());
      },
      nb::arg("tensors"), nb::arg("wait") = true, "Computes these tensors.");
  module.def(
      "wait_device_ops",
      [](nb::handle device) {
        CallerLine line;
        std::vector<Device> devices;
        if (std::optional<Device> on = OptionalDevice(device)) devices.push_back(*on);
        WithoutGil no_gil;
        LazyGraphExecutor::Get()->WaitDeviceOps(devices, Location());
      },
      nb::arg("device") = nb::none(),
      "Waits for all that runs; raises an error that nobody has seen.");
  nb::class_<Scope<StepScope>>(module, "StepScope")
      .def(nb::init<>())
      .def("enter",
           [](Scope<StepScope>& self) {
             CallerLine line;
             self.guard = std::make_unique<StepScope>(Location());
           })
      .def("mark",
           [](Scope<StepScope>& self) {
             CallerLine line;
             WithoutGil no_gil;
             if (self.guard) self.guard->Mark(Location());
           })
      .def("abandon",
           [](Scope<StepScope>& self) {
             WithoutGil no_gil;
             if (self.guard) self.guard->Abandon();
           })
      .def("exit", &Scope<StepScope>::Exit);
  static PyType_Slot slots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(CompiledFunction::Traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(CompiledFunction::Clear)},
      {0, nullptr}};
  nb::class_<CompiledFunction>(module, "CompiledFunction", nb::type_slots(slots))
      .def(nb::init<nb::handle, std::vector<Tensor>, nb::handle>())
      .def("__call__", &CompiledFunction::operator())
      .def_prop_ro("traces", &CompiledFunction::traces);
}

void AddGuards(nb::module_& module) {
  nb::class_<Scope<ExpectNoRecompile>>(module, "ExpectNoRecompile")
      .def(nb::init<>())
      .def("enter",
           [](Scope<ExpectNoRecompile>& self, std::string why) {
             self.guard = std::make_unique<ExpectNoRecompile>(std::move(why));
           })
      .def("exit", &Scope<ExpectNoRecompile>::Exit);
  nb::class_<Scope<NoExecution>>(module, "NoExecution")
      .def(nb::init<>())
      .def("enter",
           [](Scope<NoExecution>& self, std::string why) {
             self.guard = std::make_unique<NoExecution>(std::move(why));
           })
      .def("exit", &Scope<NoExecution>::Exit);
  nb::class_<Scope<EagerMode>>(module, "EagerMode")
      .def(nb::init<>())
      .def("enter", [](Scope<EagerMode>& self) { self.guard = std::make_unique<EagerMode>(); })
      .def("exit", &Scope<EagerMode>::Exit);
}

void AddLooking(nb::module_& module) {
  module.def(
      "compile_misses",
      [] {
        std::vector<std::string> misses;
        for (const CompileMiss& miss : LazyGraphExecutor::Get()->GetMisses())
          misses.push_back(miss.ToText());
        return misses;
      },
      "Why graphs were compiled, oldest first.");
  module.def(
      "cache_stats",
      [] {
        CacheStats stats = LazyGraphExecutor::Get()->GetCacheStats();
        nb::dict result;
        result["entries"] = stats.entries;
        result["bytes"] = stats.bytes;
        result["hits"] = stats.hits;
        result["misses"] = stats.misses;
        result["evictions"] = stats.evictions;
        return result;
      },
      "Numbers of the cache of compiled steps.");
  module.def(
      "graph_text",
      [](const std::vector<Tensor>& tensors, const std::string& format) {
        CallerLine line;
        return LazyGraphExecutor::Get()->DumpTensors(tensors, format);
      },
      nb::arg("tensors"), nb::arg("format") = "text",
      "The pending graph of tensors, as \"text\", \"dot\" or \"backend\".");
  module.def("prepare_to_exit", [] {
    WithoutGil no_gil;
    LazyGraphExecutor::Get()->PrepareToExit();
  });
}

}  // namespace

void AddExecution(nb::module_& module) {
  AddSteps(module);
  AddGuards(module);
  AddLooking(module);
}

}  // namespace hammock::python
