#include "hammock/state_dict.h"

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops.h"

namespace hammock {

StateShapes ShapesOf(const StateDict& state) {
  StateShapes shapes;
  for (const auto& [name, tensor] : state) shapes.emplace(name, tensor.shape());
  return shapes;
}

std::string StateDifferences(const StateShapes& expected, const StateShapes& given, bool strict) {
  std::string lines;
  for (const auto& [name, shape] : expected) {
    auto found = given.find(name);
    if (found == given.end()) {
      if (strict) lines += fmt::format("\n  missing: {} {}", name, shape.to_string());
      continue;
    }
    const Shape& other = found->second;
    if (strict ? other == shape : other.sizes() == shape.sizes()) continue;
    lines += fmt::format("\n  {} is {}, expected {}", name, other.to_string(), shape.to_string());
  }
  for (const auto& [name, shape] : given) {
    if (!strict || expected.contains(name)) continue;
    lines += fmt::format("\n  unexpected: {} {}", name, shape.to_string());
  }
  return lines;
}

void CopyState(const StateDict& into, const StateDict& from, const std::string& what, bool strict) {
  std::string differences = StateDifferences(ShapesOf(into), ShapesOf(from), strict);
  if (!differences.empty()) Throw(ErrorCode::kValue, "{} does not fit:{}", what, differences);
  NoGradGuard no_grad;
  for (auto [name, tensor] : into) {
    auto found = from.find(name);
    if (found != from.end()) tensor.copy_(found->second.to(tensor.device()));
  }
}

}  // namespace hammock
