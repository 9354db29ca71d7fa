/// Files in the safetensors format.

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "convert.h"
#include "gil.h"
#include "hammock/executor.h"
#include "hammock/io.h"
#include "hammock/ops.h"
#include "location.h"
#include "parts.h"
#include "tensor_object.h"

namespace hammock::python {

void AddFiles(nb::module_& module) {
  module.def("write_safetensors", [](const std::string& path,
                                     const std::vector<std::pair<std::string, Tensor>>& tensors,
                                     const std::map<std::string, std::string>& metadata) {
    CallerLine line;
    WithoutGil no_gil;
    std::vector<Tensor> values;
    for (const auto& [name, tensor] : tensors) values.push_back(tensor);
    std::vector<HostTensor> hosts = LazyGraphExecutor::Get()->GetTensors(values, Location());
    io::NamedHostTensors named;
    for (size_t i = 0; i < tensors.size(); ++i) named.emplace_back(tensors[i].first, hosts[i]);
    io::WriteSafetensors(path, named, metadata, Location());
  });
  module.def(
      "read_safetensors",
      [](const std::string& path, nb::handle device) {
        CallerLine line;
        std::optional<std::string> name =
            device.is_none() ? std::nullopt : DeviceNameFrom(device.ptr());
        Device to = name ? Device(*name) : Device();
        std::map<std::string, Tensor> tensors;
        std::map<std::string, std::string> metadata;
        {
          WithoutGil no_gil;
          io::SafetensorsFile file = io::SafetensorsFile::Open(path, Location());
          for (const std::string& key : file.names()) {
            tensors[key] = from_host(file.Read(key, Location()), to, Location());
          }
          metadata = file.metadata();
        }
        return nb::make_tuple(tensors, metadata);
      },
      nb::arg("path"), nb::arg("device").none());
}

}  // namespace hammock::python
