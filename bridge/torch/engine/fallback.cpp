#include "engine/fallback.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <hammock/config.h>
#include <hammock/ops/view.h>
#include <hammock/option.h>

#include <mutex>

#include "engine/scope.h"
#include "engine/values.h"

namespace hammock_torch {

using hammock::Any;

constinit hammock::config::Option<bool> kStrict({
    .name = "torch.strict",
    .default_value = false,
    .doc =
        "Ops of PyTorch that Hammock lacks are errors, instead of running by PyTorch on the CPU.",
});

namespace {

struct FallbackLog {
  std::mutex mutex;
  std::map<std::string, int64_t> of;
};
FallbackLog& TheLog() {
  static auto& log = *new FallbackLog;
  return log;
}

void Count(const std::string& op, const std::string& why) {
  FallbackLog& log = TheLog();
  std::lock_guard lock(log.mutex);
  if (log.of[op]++ == 0) {
    TORCH_WARN("hammock: ", op, " runs by PyTorch on the CPU: ", why);
  }
}

}  // namespace

bool IsStrict() { return hammock::config::Get<kStrict>(); }
void SetStrict(bool strict) { hammock::config::Set<kStrict>(strict); }

std::map<std::string, int64_t> FallbackCounts() {
  FallbackLog& log = TheLog();
  std::lock_guard lock(log.mutex);
  return log.of;
}

void ResetFallbackCounts() {
  FallbackLog& log = TheLog();
  std::lock_guard lock(log.mutex);
  log.of.clear();
}

Any RunEagerly(const c10::FunctionSchema& schema, const EagerFn& eager,
               const std::vector<Any>& values, const std::string& why) {
  std::string name = c10::toString(schema.operator_name());
  if (IsStrict()) throw Unsupported(name + ": " + why);
  Count(name, why);
  return RunOnHost(schema, eager, values);
}

Any RunOnHost(const c10::FunctionSchema& schema, const EagerFn& eager,
              const std::vector<Any>& values) {
  at::NoGradGuard no_grad;
  torch::jit::Stack stack;
  std::vector<std::pair<hammock::Tensor, at::Tensor>> written;
  const auto& arguments = schema.arguments();
  for (size_t i = 0; i < values.size(); ++i) {
    const c10::Argument* argument = i < arguments.size() ? &arguments[i] : nullptr;
    c10::IValue value = ToIValue(values[i], argument ? argument->type() : c10::AnyType::get());
    if (argument && argument->alias_info() && argument->alias_info()->isWrite() &&
        values[i].IsTensor()) {
      value = value.toTensor().clone();
      written.emplace_back(values[i].ToTensor(), value.toTensor());
    }
    stack.push_back(std::move(value));
  }
  eager(stack);
  for (auto& [target, value] : written) {
    hammock::copy_(target, ImportTensor(value.clone(), CurrentDevice()));
  }
  hammock::AnyList results;
  for (const c10::IValue& value : stack) {
    results.push_back(FromIValue(value, CurrentDevice()));
  }
  return results.size() == 1 ? results[0] : Any::Tuple(std::move(results));
}

}  // namespace hammock_torch
