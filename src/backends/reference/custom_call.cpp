#include "hammock/custom_call.h"

#include <map>
#include <mutex>

#include "base/never_destroyed.h"
#include "base/throw.h"

namespace hammock {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, CustomCallFn> functions;
};

Table& GetTable() {
  static auto& table = NeverDestroyed<Table>();
  return table;
}

}  // namespace

void RegisterCustomCall(const std::string& target, CustomCallFn function, Location at) {
  LocationScope scope(at);
  Table& table = GetTable();
  std::lock_guard lock(table.mutex);
  if (!table.functions.emplace(target, std::move(function)).second) {
    Throw(ErrorCode::kDuplicateRegistration, "custom_call: '{}' is already registered", target);
  }
}

CustomCallFn FindCustomCall(const std::string& target) {
  Table& table = GetTable();
  std::lock_guard lock(table.mutex);
  auto found = table.functions.find(target);
  return found == table.functions.end() ? nullptr : found->second;
}

}  // namespace hammock
