// hammock devices: every backend, what its devices have and what they lack.

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "hammock/device.h"
#include "hammock/distributed/engine.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/metrics.h"

namespace hammock::tool {

namespace {

using Json = nlohmann::ordered_json;

std::string Bytes(int64_t count) {
  return metrics::Repr(metrics::Kind::kBytes, static_cast<double>(count));
}

std::string MemoryText(const lazy::MemoryInfo& memory) {
  std::string text = fmt::format("{} in use, {} reserved, {} peak", Bytes(memory.in_use),
                                 Bytes(memory.reserved), Bytes(memory.peak));
  return memory.limit > 0 ? text + ", limit " + Bytes(memory.limit) : text;
}

Json DeviceJson(const Device& device) {
  Json facts = Json::array();
  for (const lazy::DeviceFact& fact : device.backend().DescribeDevice(device.backend_device())) {
    facts.push_back({{"name", fact.name}, {"text", fact.text}, {"missing", fact.missing}});
  }
  lazy::MemoryInfo memory = GetMemoryInfo(device);
  return {{"name", device.to_string()},
          {"default", device == Device()},
          {"asynchronous", device.backend().IsAsynchronous()},
          {"memory",
           {{"in_use", memory.in_use},
            {"reserved", memory.reserved},
            {"peak", memory.peak},
            {"limit", memory.limit}}},
          {"facts", std::move(facts)}};
}

void PrintDevice(const Device& device) {
  std::cout << device.to_string() << (device == Device() ? "  (default)\n" : "\n");
  auto row = [](const std::string& name, const std::string& text) {
    std::cout << fmt::format("  {:<14}{}\n", name, text);
  };
  for (const lazy::DeviceFact& fact : device.backend().DescribeDevice(device.backend_device())) {
    row(fact.name, fact.missing ? "missing: " + fact.text : fact.text);
  }
  row("memory", MemoryText(GetMemoryInfo(device)));
}

}  // namespace

int Devices(const DevicesOptions& options) {
  if (!options.json) {
    for (const Device& device : hammock::Devices()) PrintDevice(device);
    for (const lazy::AbsentBackend& absent : lazy::AbsentBackends()) {
      std::cout << absent.name << "  (not here: " << absent.reason << ")\n";
    }
    std::cout << "ranks\n";
    for (const distributed::EngineFact& fact : distributed::DescribeEngines()) {
      std::cout << fmt::format("  {:<14}{}{}\n", fact.name, fact.missing ? "missing: " : "",
                               fact.text);
    }
    return 0;
  }
  Json json = {{"devices", Json::array()}, {"absent", Json::array()}};
  for (const Device& device : hammock::Devices()) json["devices"].push_back(DeviceJson(device));
  for (const lazy::AbsentBackend& absent : lazy::AbsentBackends()) {
    json["absent"].push_back({{"name", absent.name}, {"reason", absent.reason}});
  }
  json["engines"] = Json::array();
  for (const distributed::EngineFact& fact : distributed::DescribeEngines()) {
    json["engines"].push_back(
        {{"name", fact.name}, {"text", fact.text}, {"missing", fact.missing}});
  }
  std::cout << json.dump(2) << "\n";
  return 0;
}

}  // namespace hammock::tool
