/// ONNX files.

#include "hammock/onnx.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "convert.h"
#include "gil.h"
#include "location.h"
#include "parts.h"
#include "program.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

onnx::LoadOptions OptionsOf(const std::map<std::string, Tensor>& fixed, const std::string& folder,
                            nb::handle device) {
  onnx::LoadOptions options;
  options.folder = folder;
  for (const auto& [name, tensor] : fixed) options.fixed[name] = tensor.host();
  if (!device.is_none()) {
    if (std::optional<std::string> name = DeviceNameFrom(device.ptr())) {
      options.device = Device(*name);
    }
  }
  return options;
}

/// (name, element type, sizes): a size is a number, a name, or None; no sizes where none are
/// declared.
nb::list Declared(const std::vector<onnx::DeclaredValue>& values) {
  nb::list list;
  for (const onnx::DeclaredValue& value : values) {
    nb::object sizes = nb::none();
    if (value.ranked) {
      nb::list dims;
      for (const onnx::DeclaredDim& dim : value.dims) {
        if (dim.size) {
          dims.append(*dim.size);
        } else if (!dim.name.empty()) {
          dims.append(dim.name);
        } else {
          dims.append(nb::none());
        }
      }
      sizes = nb::tuple(dims);
    }
    list.append(nb::make_tuple(value.name, value.element, sizes));
  }
  return list;
}

}  // namespace

void AddOnnx(nb::module_& module) {
  module.def(
      "onnx_load",
      [](const std::string& path, const std::map<std::string, Tensor>& fixed, nb::handle device) {
        CallerLine line;
        onnx::LoadOptions options = OptionsOf(fixed, "", device);
        WithoutGil no_gil;
        return Program{onnx::load(path, options, Location())};
      },
      nb::arg("path"), nb::arg("fixed"), nb::arg("device").none());
  module.def(
      "onnx_load_bytes",
      [](nb::bytes bytes, const std::map<std::string, Tensor>& fixed, const std::string& folder,
         nb::handle device) {
        CallerLine line;
        std::span<const std::byte> data(reinterpret_cast<const std::byte*>(bytes.c_str()),
                                        bytes.size());
        onnx::LoadOptions options = OptionsOf(fixed, folder, device);
        WithoutGil no_gil;
        return Program{onnx::load(data, options, Location())};
      },
      nb::arg("data"), nb::arg("fixed"), nb::arg("folder"), nb::arg("device").none());
  module.def("onnx_inputs",
             [](const Program& self) { return Declared(onnx::inputs(*self.module)); });
  module.def("onnx_outputs",
             [](const Program& self) { return Declared(onnx::outputs(*self.module)); });
  module.def("onnx_trace",
             [](const Program& self, const std::map<std::string, int64_t>& dims, bool free) {
               CallerLine line;
               onnx::trace(*self.module, {.dims = dims, .free = free}, Location());
             });
  module.def("onnx_save", [](const Program& self, const std::string& path, int opset) {
    CallerLine line;
    WithoutGil no_gil;
    onnx::save(*self.module, path, opset, Location());
  });
  module.def("onnx_operators", [] {
    nb::list list;
    for (const onnx::OperatorRange& row : onnx::operators()) {
      list.append(nb::make_tuple(row.domain, row.name, row.since, row.until));
    }
    return list;
  });
  module.def("onnx_why_absent", [] { return onnx::why_absent(); });
}

}  // namespace hammock::python
