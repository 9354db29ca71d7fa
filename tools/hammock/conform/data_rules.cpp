// The interface itself, data, memory.
#include <fmt/format.h>

#include <cstring>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"
#include "hammock/ir/storage_types.h"

namespace hammock::tool {

std::string Loads(const Subject& subject) {
  Device device = Open(subject);
  const auto& backend = device.backend();
  if (backend.GetBackendDevices().empty()) return "there is no device";
  backend.DescribeDevice(device.backend_device());
  backend.CreateMetricReport();
  backend.GetMetrics();
  return "";
}

namespace {

/// Small numbers, a negative zero and a NaN of all bits where the dtype has such.
HostTensor OddBits(DType dtype, const Dims& sizes) {
  HostTensor tensor = Ramp(dtype, sizes);
  if (!IsFloatOrComplex(dtype) || tensor.numel() < 2) return tensor;
  tensor.set(0, Scalar(-0.0).To(dtype));
  const int64_t element = tensor.bytes() / tensor.numel();
  std::memset(static_cast<char*>(tensor.mutable_data()) + tensor.bytes() - element, 0xff,
              static_cast<size_t>(element));
  return tensor;
}

}  // namespace

std::string KeepsEveryDType(const Subject& subject) {
  Device device = Open(subject);
  std::string wrong;
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (Dims sizes : {Dims{}, Dims{5}, Dims{3, 4}, Dims{2, 0, 3}}) {
      if (IsPacked(dtype) && sizes.size() > 0)
        sizes[sizes.size() - 1] *= 8 / InfoOf(dtype).bits;  // rows fill whole bytes
      HostTensor host = OddBits(dtype, sizes);
      SHOWN(auto data = device.backend().MakeComputationDataFromTensor(host, host.shape(),
                                                                       device.backend_device());
            HostTensor back = device.backend().MakeTensorFromComputationData(data, std::nullopt));
      if (std::string differs = BitDifference(back, host); !differs.empty()) {
        wrong += fmt::format("{}: {}\n", host.shape().to_string(), differs);
      }
    }
  }
  return wrong;
}

std::string UploadsAreCopies(const Subject& subject) {
  Device device = Open(subject);
  SHOWN(std::vector<HostTensor> hosts;
        for (int i = 0; i < 50; ++i) hosts.push_back(Ramp(f32, {i + 1}));
        auto data = device.backend().MakeComputationDataFromTensors(hosts, device.backend_device());
        auto back = device.backend().MakeTensorsFromComputationData(data));
  std::string wrong;
  for (size_t i = 0; i < hosts.size(); ++i) wrong += Line(Difference(back[i], hosts[i]));
  return wrong;
}

std::string GivesMemoryBack(const Subject& subject) {
  Device device = Open(subject);
  SHOWN(auto step = [&] {
    Tensor x = ones({1000}, f32, device);
    for (int i = 0; i < 10; ++i) x = x * 2.0f + 1.0f;
    ShowGraph({x});
    x.host();
  });
  step();  // what is kept from the first one is kept for ever
  wait_device_ops();
  const int64_t before = GetMemoryInfo(device).in_use;
  SHOWN(for (int i = 0; i < 20; ++i) step(); wait_device_ops());
  const int64_t after = GetMemoryInfo(device).in_use;
  if (after <= before + 4000) return "";
  return fmt::format("20 equal steps leave {} bytes more in use", after - before);
}

}  // namespace hammock::tool
