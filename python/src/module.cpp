/// The extension module `hammock._hammock`.

#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert.h"
#include "create.h"
#include "errors.h"
#include "exchange.h"
#include "hammock/hammock.h"
#include "location.h"
#include "op_function.h"
#include "parts.h"
#include "reading.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

void AddDevices(nb::module_& module) {
  nb::class_<Device>(module, "device", "One device of a backend: `device('cuda:1')`.")
      .def(
          "__init__",
          [](Device* self, const std::string& name) {
            CallerLine line;
            new (self) Device(name);
          },
          nb::arg("name"))
      .def(nb::init<const Device&>(), nb::arg("device"))
      .def_prop_ro("type", &Device::type, "\"cuda\"")
      .def_prop_ro("index", &Device::ordinal, "The number of the device within its backend.")
      .def("__str__", &Device::to_string)
      .def("__repr__", [](const Device& self) { return "device('" + self.to_string() + "')"; })
      .def("__hash__",
           [](const Device& self) {
             // That of a text it is equal to: "cuda:1", and of "cpu" and "cpu:0" the shorter.
             return nb::hash(nb::cast(self.ordinal() == 0 ? self.type() : self.to_string()));
           })
      .def(
          "__eq__",
          [](const Device& self, nb::handle other) {
            std::optional<std::string> name = DeviceNameFrom(other.ptr());
            try {
              return name && Device(*name) == self;
            } catch (const Error&) {  // a name that no device has
              return false;
            }
          },
          nb::arg("other").none())
      .def("__reduce__", [](const Device& self) {
        return nb::make_tuple(nb::type<Device>(), nb::make_tuple(self.to_string()));
      });
  module.def(
      "devices", [] { return Devices(); }, "Every device of every backend.");
  module.def(
      "default_device", [] { return Device(); }, "Where new tensors are made.");
  module.def(
      "set_default_device",
      [](nb::handle device) {
        CallerLine line;
        std::optional<std::string> name = DeviceNameFrom(device.ptr());
        if (!name) ThrowTypeError("set_default_device: takes a name such as 'cpu', or a device");
        SetDefaultDevice(Device(*name));
      },
      nb::arg("device"), "Makes new tensors on this device.");
}

void AddRandom(nb::module_& module) {
  nb::class_<Generator>(module, "Generator", "A stream of random numbers under one seed.")
      .def(nb::init<uint64_t>(), nb::arg("seed") = 0)
      .def("manual_seed", &Generator::manual_seed, nb::arg("seed"), "Sets the seed and rewinds.")
      .def_prop_ro("seed", &Generator::seed)
      .def_prop_rw("offset", &Generator::offset, &Generator::set_offset);
  module.def(
      "default_generator", [] { return Generator::Default(); },
      "The generator of ops that are given none.");
  module.def(
      "manual_seed", [](uint64_t seed) { manual_seed(seed); }, nb::arg("seed"),
      "Seeds the default generator.");
}

void AddPrinting(nb::module_& module) {
  module.def(
      "set_printoptions",
      [](nb::object precision, nb::object threshold, nb::object edgeitems, nb::object linewidth,
         nb::object sci_mode) {
        CallerLine line;
        TensorPrintOptions options = get_printoptions();
        if (!precision.is_none()) options.precision = nb::cast<int>(precision);
        if (!threshold.is_none()) options.threshold = nb::cast<int64_t>(threshold);
        if (!edgeitems.is_none()) options.edgeitems = nb::cast<int64_t>(edgeitems);
        if (!linewidth.is_none()) options.linewidth = nb::cast<int>(linewidth);
        if (!sci_mode.is_none()) options.sci_mode = nb::cast<bool>(sci_mode);
        set_printoptions(options);
      },
      nb::arg("precision") = nb::none(), nb::arg("threshold") = nb::none(),
      nb::arg("edgeitems") = nb::none(), nb::arg("linewidth") = nb::none(),
      nb::arg("sci_mode") = nb::none(), "How tensors are printed.");
}

}  // namespace
}  // namespace hammock::python

NB_MODULE(_hammock, module) {
  using namespace hammock::python;
  nb::set_leak_warnings(false);  // dtypes, ops and what tensors hold live as long as the process
  AddErrors(module);
  AddDTypes(module);
  AddDevices(module);
  AddRandom(module);
  AddTensor(module);
  AddOps(module);
  AddCreation(module);
  AddExchange(module);
  AddPrinting(module);
  AddAutograd(module);
  AddExecution(module);
  AddSettings(module);
  AddOptim(module);
  AddControl(module);
  AddDistributions(module);
  AddModules(module);
  AddSparse(module);
  AddFiles(module);
  AddProfile(module);
  AddDistributed(module);
  AddOnnx(module);
  AddJit(module);
  AddInterrupts();
  module.def("set_package_directory", SetPackageDirectory);
}
