// Memory of the device that others have.
#include <fmt/format.h>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"
#include "hammock/lazy/device_exchange.h"
#include "hammock/lazy/host_sharing.h"

namespace hammock::tool {
namespace {

/// Elements in host memory keep their values when a run may write into the data.
std::string SharedElementsStay(const DirectDevice& device, const HostTensor& given, bool& shares) {
  const auto* sharing = dynamic_cast<const lazy::HostSharing*>(&device.backend);
  auto twice = device.Compile(TwiceGraph("64"));
  BackendDataPtr x = device.Run(twice, {device.Upload(given)})[0];
  const HostTensor wanted = device.Download(x);
  const HostTensor shared = sharing ? sharing->Share(x) : HostTensor();
  if (!shared.defined()) return "";
  shares = true;
  std::string differs = Difference(shared, wanted);
  auto written = device.Run(twice, {x}, {true});
  x.reset();
  if (differs.empty()) differs = Difference(shared, wanted);
  return differs.empty() ? "" : "shared elements: " + differs + "\n";
}

/// A result that is lent and borrowed again is computed with as it is.
std::string LentMemoryIsBorrowed(const DirectDevice& device, const HostTensor& given,
                                 const lazy::DeviceExchange& exchange) {
  auto twice = device.Compile(TwiceGraph("64"));
  BackendDataPtr kept = device.Run(twice, {device.Upload(given)})[0];
  const HostTensor wanted = device.Download(device.Run(twice, {kept})[0]);
  std::string wrong;
  for (bool sole : {false, true}) {
    int released = 0;
    BackendDataPtr given_away = sole ? std::move(kept) : kept;
    const Shape shape = given_away->shape();
    auto lent = exchange.Lend(std::move(given_away));
    BackendDataPtr borrowed =
        exchange.Borrow(lent.memory, shape, device.where, [&] { ++released; });
    const std::string differs =
        Difference(device.Download(device.Run(twice, {borrowed}, {true})[0]), wanted);
    if (!differs.empty()) wrong += fmt::format("lent and borrowed memory: {}\n", differs);
    borrowed.reset();
    device.backend.WaitForDevice(device.where);
    if (released != 1) wrong += fmt::format("borrowed memory is released {} times\n", released);
  }
  return wrong;
}

}  // namespace

std::string LendsMemory(const Subject& subject) {
  const DirectDevice device(Open(subject));
  const HostTensor given = Ramp(f32, {64});
  bool shares = false;
  std::string wrong = SharedElementsStay(device, given, shares);
  const auto* exchange = dynamic_cast<const lazy::DeviceExchange*>(&device.backend);
  if (exchange) wrong += LentMemoryIsBorrowed(device, given, *exchange);
  if (!shares && !exchange) throw SkippedRule{"it lends no memory: all goes through the host"};
  return wrong;
}

}  // namespace hammock::tool
