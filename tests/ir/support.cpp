// Stand-ins for what is defined above the IR, so that these tests link without it: weak, hence the
// real ones win wherever they are linked.

#include <algorithm>
#include <string>
#include <vector>

#include "hammock/location.h"
#include "ir/any_tensor.h"

namespace hammock {

[[gnu::weak]] std::string TensorSummary(const Tensor&) { return "tensor"; }

namespace {
std::vector<std::string>& Texts() {
  static std::vector<std::string> texts = {""};
  return texts;
}
}  // namespace

[[gnu::weak]] LocationId InternLocationText(const std::string& text) {
  auto found = std::find(Texts().begin(), Texts().end(), text);
  if (found == Texts().end()) found = Texts().insert(found, text);
  return static_cast<LocationId>(found - Texts().begin());
}
[[gnu::weak]] std::string LocationText(LocationId id) { return Texts()[id]; }
[[gnu::weak]] LocationScope::LocationScope(const Location&) : outermost_(false) {}
[[gnu::weak]] LocationScope::~LocationScope() { static_cast<void>(outermost_); }

}  // namespace hammock
