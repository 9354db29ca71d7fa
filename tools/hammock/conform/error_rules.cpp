// Errors of runs that have already returned.
#include <fmt/format.h>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"

namespace hammock::tool {
namespace {

/// Where the error of an earlier step is known by now, the next one may raise it, once.
void StepOrRaise() {
  try {
    mark_step();
  } catch (const Error&) {
  }
}

}  // namespace

/// Three steps are enqueued behind each other before the first error is looked at.
std::string KeepsErrorsWithValues(const Subject& subject) {
  Device device = Open(subject);
  const HostTensor given = Ramp(f32, {4});
  SHOWN(Tensor x = from_host(given, device); Tensor written = x.clone(); mark_step(true);
        Tensor bad = gather(x, 0, tensor(std::vector<int64_t>{0, 1, 2, 9}, std::nullopt, device)));
  ShowGraph({bad});
  SHOWN(StepOrRaise(); Tensor after = bad * 2.0f, good = x + x; StepOrRaise(); written += after;
        Tensor later = after + good; StepOrRaise());
  std::string wrong;
  for (const char* time : {"first", "second"}) {
    const std::pair<const char*, Tensor*> values[] = {{"the value of the step that failed", &bad},
                                                      {"a value of the step behind it", &after},
                                                      {"a value of the step behind that", &later}};
    for (const auto& [what, value] : values) {
      wrong += ExpectError<Error>(fmt::format("the {} read of {}", time, what),
                                  [value = value] { value->host(); });
    }
  }
  HostTensor twice = Ramp(f32, {4});
  for (int64_t i = 0; i < 4; ++i) twice.set(i, 2 * given.at(i).ToDouble());
  if (std::string differs = Difference(good.host(), twice); !differs.empty()) {
    wrong += "a value that does not depend on the error: " + differs + "\n";
  }
  if (std::string differs = Difference(written.host(), given); !differs.empty()) {
    wrong +=
        "a tensor that the failing step wrote to has no longer its old value: " + differs + "\n";
  }
  Tensor next = x * 2.0f;
  if (std::string differs = Difference(next.host(), twice); !differs.empty()) {
    wrong += "the next step: " + differs + "\n";
  }
  return wrong;
}

/// A loop that fits the limit runs as often as one likes; one that does not raises, and leaves
/// nothing behind.
std::string RunsCloseToItsLimit(const Subject& subject) {
  Device device = Open(subject);
  constexpr int64_t kElements = 1 << 18;
  SHOWN(Tensor x = ones({kElements}, f32, device) + 0.0f; mark_step(true); auto step = [&] {
    Tensor y = sum(x * 2.0f + 1.0f);
    ShowGraph({y});
    return y.item().ToDouble();
  });
  const double wanted = step();
  wait_device_ops({device});
  const int64_t in_use = GetMemoryInfo(device).in_use;
  try {
    SHOWN(SetMemoryLimit(device, in_use + 8 * kElements * 4));
  } catch (const NotSupported&) {
    throw SkippedRule{"memory cannot be limited"};
  }
  std::string wrong;
  for (int i = 0; i < 50; ++i) {
    const double got = step();
    if (got != wanted) return fmt::format("run {}: {} instead of {}\n", i, got, wanted);
  }
  for (int i = 0; i < 5; ++i) {
    SHOWN(Tensor large = cat({x, x, x, x, x, x, x, x, x, x}, 0));
    ShowGraph({large});
    wrong += ExpectError<OutOfMemory>("ten times the data", [&] { large.host(); });
  }
  wait_device_ops({device});
  const int64_t after = GetMemoryInfo(device).in_use;
  if (after > in_use + 4096) {
    wrong += fmt::format("runs over the limit leave {} bytes in use\n", after - in_use);
  }
  if (step() != wanted) wrong += "after runs over the limit the value is wrong\n";
  return wrong;
}

}  // namespace hammock::tool
