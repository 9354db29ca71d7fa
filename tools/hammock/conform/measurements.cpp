// Times on the device beside those on `cpu`.
#include <fmt/format.h>

#include <chrono>
#include <string_view>

#include "conform/rule_kit.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock::tool {

std::string Measurements(const Subject& subject) {
  using Clock = std::chrono::steady_clock;
  Device device = Open(subject);
  struct Measured {
    const char* what;
    const char* unit;
    std::function<double(const Device&)> run;
  };
  auto seconds = [](int repeats, const std::function<void()>& run) {
    run();
    const auto begin = Clock::now();
    for (int i = 0; i < repeats; ++i) run();
    return std::chrono::duration<double>(Clock::now() - begin).count() / repeats;
  };
  const HostTensor large = Ramp(f32, {1 << 20});
  const Measured all[] = {
      {"upload of 4 MiB", "GB/s",
       [&](const Device& on) {
         return 4.2e-3 / seconds(10, [&] {
                  on.backend().MakeComputationDataFromTensor(large, large.shape(),
                                                             on.backend_device());
                  wait_device_ops({on});
                });
       }},
      {"download of 4 MiB", "GB/s",
       [&](const Device& on) {
         auto data =
             on.backend().MakeComputationDataFromTensor(large, large.shape(), on.backend_device());
         return 4.2e-3 / seconds(10, [&] {
                  on.backend().MakeTensorFromComputationData(data, std::nullopt);
                });
       }},
      {"steps of one small op", "per ms",
       [&](const Device& on) {
         Tensor x = ones({16}, f32, on);
         return 1e-3 / seconds(200, [&] { (x + x).host(); });
       }},
      {"x + y of 4 MiB", "GB/s",
       [&](const Device& on) {
         Tensor x = from_host(large, on), y = from_host(large, on);
         return 12.6e-3 / seconds(10, [&] {
                  Tensor z = x + y;
                  sync_multi({z});
                  wait_device_ops({on});
                });
       }},
      {"matmul of 256 x 256", "GFLOP/s",
       [&](const Device& on) {
         Tensor x = ones({256, 256}, f32, on);
         return 0.0336 / seconds(5, [&] {
                  Tensor z = matmul(x, x);
                  sync_multi({z});
                  wait_device_ops({on});
                });
       }},
  };
  std::string text;
  for (const Measured& each : all) {
    const double here = each.run(device), cpu = each.run("cpu");
    // An upload to `cpu` may share the host's memory, which says nothing of devices that copy.
    constexpr double kNoCopy = 1000;
    const bool copies = std::string_view(each.unit) != "GB/s" || cpu < kNoCopy;
    text += fmt::format("  {:24} {:10.2f} {:8} cpu {:>10}{}\n", each.what, here, each.unit,
                        copies ? fmt::format("{:.2f}", cpu) : "in place",
                        copies && here * 3 < cpu ? "   slow" : "");
  }
  return text;
}

}  // namespace hammock::tool
