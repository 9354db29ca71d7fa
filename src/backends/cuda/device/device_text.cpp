#include "backends/cuda/device/device_text.h"

#include <map>
#include <set>

#include "base/never_destroyed.h"
#include "base/throw.h"

namespace hammock::cuda {
namespace {

constexpr std::string_view kPrelude = "prelude.cuh";
constexpr std::string_view kInclude = "#include \"backends/cuda/device/";

std::string_view TextOf(std::string_view name) {
  for (const auto& [file, text] : DeviceFiles()) {
    if (file == name) return text;
  }
  Throw<InternalError>(ErrorCode::kInternal, "cuda: there is no device code {}", name);
}

void AppendFile(std::string_view name, std::set<std::string_view>& seen, std::string& text) {
  if (!seen.insert(name).second) return;
  std::string_view rest = TextOf(name);
  while (!rest.empty()) {
    std::string_view line = rest.substr(0, rest.find('\n') + 1);
    rest.remove_prefix(line.size());
    if (line.starts_with(kInclude)) {
      line.remove_prefix(kInclude.size());
      AppendFile(line.substr(0, line.find('"')), seen, text);
    } else if (!line.starts_with("#include") && !line.starts_with("#pragma once")) {
      text += line;
    }
  }
}

}  // namespace

const std::string& DeviceText(std::string_view file) {
  using Texts = std::map<std::string_view, std::string>;
  static const Texts& texts = []() -> Texts& {
    Texts& all = NeverDestroyed<Texts>();
    for (const auto& [name, unused] : DeviceFiles()) {
      std::set<std::string_view> seen;
      if (name != kPrelude) seen.insert(kPrelude);
      AppendFile(name, seen, all[name]);
    }
    return all;
  }();
  auto found = texts.find(file);
  if (found == texts.end()) {
    Throw<InternalError>(ErrorCode::kInternal, "cuda: there is no device code {}", file);
  }
  return found->second;
}

const std::string& Prelude() { return DeviceText(kPrelude); }

}  // namespace hammock::cuda
