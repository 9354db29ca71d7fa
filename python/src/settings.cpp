/// Options and metrics.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "hammock/config.h"
#include "hammock/metrics.h"
#include "location.h"
#include "parts.h"

namespace hammock::python {

void AddSettings(nb::module_& module) {
  nb::module_ config =
      module.def_submodule("config", "Options of the whole process; `describe()` lists them.");
  config.def(
      "set",
      [](const std::string& name, nb::handle value) {
        CallerLine line;
        nb::object text = PyBool_Check(value.ptr())
                              ? nb::object(nb::str(value.ptr() == Py_True ? "true" : "false"))
                              : nb::object(nb::str(value));
        config::Set(name, nb::cast<std::string>(text));
      },
      nb::arg("name"), nb::arg("value"), "Sets an option by name.");
  config.def(
      "get",
      [](const std::string& name) {
        CallerLine line;
        return config::GetText(name);
      },
      nb::arg("name"), "An option's value as text that `set` accepts.");
  config.def(
      "origin",
      [](const std::string& name) {
        CallerLine line;
        return config::OriginOf(name);
      },
      nb::arg("name"), "Who set the present value.");
  config.def(
      "load_file",
      [](const std::string& path) {
        CallerLine line;
        config::LoadFile(path);
      },
      nb::arg("path"), "Sets all options of a file, or none of them.");
  config.def(
      "names",
      [] {
        std::vector<std::string> names;
        for (const config::OptionInfo& option : config::Options()) names.emplace_back(option.name);
        return names;
      },
      "The names of all options.");
  config.def(
      "describe", [] { return config::Describe(); }, "All options with their present values.");

  nb::module_ metrics =
      module.def_submodule("metrics", "Counters, gauges and samples of the whole process.");
  metrics.def(
      "report", [] { return metrics::Report(); }, "All that is not zero, as text.");
  metrics.def(
      "report_json", [] { return metrics::ReportJson(); }, "The same as JSON.");
  metrics.def(
      "reset", [] { metrics::Reset(); }, "Starts all counting anew.");
  metrics.def(
      "counter", [](const std::string& name) { return metrics::CounterValue(name); },
      nb::arg("name"), "The value of a counter, or None.");
  metrics.def("counter_names", [] { return metrics::CounterNames(); });
}

}  // namespace hammock::python
