/// Profiles, activity and repro files.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "create.h"
#include "gil.h"
#include "hammock/profile.h"
#include "hammock/repro.h"
#include "location.h"
#include "parts.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

/// A profile keeps names by pointer.
const char* Kept(const std::string& name) {
  static auto& mutex = *new std::mutex;
  static auto& names = *new std::set<std::string>;
  std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

/// A span of a `with` block.
class Span {
 public:
  Span(std::string name, std::string category)
      : name_(std::move(name)), category_(std::move(category)) {}

  void Enter() {
    if (profile::IsOn()) span_ = std::make_unique<profile::Span>(Kept(name_), Kept(category_));
  }
  void Exit() { span_.reset(); }
  void Set(const std::string& key, nb::handle value) const {
    if (!span_) return;
    if (PyLong_Check(value.ptr()) && !PyBool_Check(value.ptr())) {
      span_->Set(Kept(key), nb::cast<int64_t>(value));
    } else {
      span_->Set(Kept(key), nb::cast<std::string>(nb::str(value)));
    }
  }

 private:
  std::string name_, category_;
  std::unique_ptr<profile::Span> span_;
};

void AddSpans(nb::module_& module) {
  nb::module_ profile = module.def_submodule("profile");
  profile.def(
      "start",
      [](const std::string& path) {
        CallerLine line;
        profile::Start(path);
      },
      nb::arg("path"),
      "Begins a profile; `%p` in the path is the process id. It is complete at every moment.");
  profile.def("stop", profile::Stop, "Ends the profile, if there is one.");
  profile.def("is_on", profile::IsOn, "Whether a profile is being written.");
  profile.def(
      "mark",
      [](const std::string& name, const std::string& category) {
        CallerLine line;
        profile::Mark(name, Kept(category));
      },
      nb::arg("name"), nb::arg("category") = "program", "A moment on the calling thread.");
  nb::class_<Span>(profile, "Span")
      .def(nb::init<std::string, std::string>(), nb::arg("name"), nb::arg("category"))
      .def("enter",
           [](Span& self) {
             CallerLine line;
             self.Enter();
           })
      .def("exit", &Span::Exit)
      .def("set", &Span::Set, nb::arg("key"), nb::arg("value").none());
}

void AddActivity(nb::module_& module) {
  using Totals = ActivityTotals;
  nb::class_<Totals>(module, "ActivityTotals")
      .def_ro("steps", &Totals::steps)
      .def_ro("graphs_compiled", &Totals::graphs_compiled)
      .def_ro("cache_hits", &Totals::cache_hits)
      .def_ro("ops_traced", &Totals::ops_traced)
      .def_ro("kernels_compiled", &Totals::kernels_compiled)
      .def_ro("kernels_run", &Totals::kernels_run)
      .def_ro("fallbacks", &Totals::fallbacks)
      .def_ro("peak_bytes", &Totals::peak_bytes)
      .def_ro("seconds", &Totals::seconds)
      .def_ro("tracing_seconds", &Totals::tracing_seconds)
      .def_ro("compiling_seconds", &Totals::compiling_seconds)
      .def_ro("kernel_compiling_seconds", &Totals::kernel_compiling_seconds)
      .def_ro("running_seconds", &Totals::running_seconds)
      .def("to_json", &Totals::ToJson)
      .def("__str__", &Totals::ToText);
  nb::class_<Activity>(module, "Activity")
      .def(nb::init<>())
      .def("totals", &Activity::totals, "Since it was made.");
}

void AddRepro(nb::module_& module) {
  module.def(
      "save_repro",
      [](const std::string& path, const std::vector<Tensor>& tensors) {
        CallerLine line;
        WithoutGil no_gil;
        SaveRepro(path, tensors, Location());
      },
      nb::arg("path"), nb::arg("tensors"),
      "Writes the pending graph of tensors and the values of its inputs to a file. Computes "
      "nothing.");
  module.def(
      "run_repro",
      [](const std::string& path, nb::handle device) {
        CallerLine line;
        const Device target = DeviceArgument(device);
        WithoutGil no_gil;
        return RunRepro(path, target, Location());
      },
      nb::arg("path"), nb::arg("device") = nb::none(),
      "Computes the graph of such a file: one tensor for each that was saved.");
}

}  // namespace

void AddProfile(nb::module_& module) {
  AddSpans(module);
  AddActivity(module);
  AddRepro(module);
}

}  // namespace hammock::python
