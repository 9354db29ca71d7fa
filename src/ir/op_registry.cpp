#include "ir/op_registry.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "base/nearest.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "ir/op_info.h"

namespace hammock {

namespace {

/// Records are parsed when they are first used, in-tree ones by themselves: a program uses few of
/// them. Names are listed when one is looked up.
class Registry {
 public:
  const OpInfo& Parse(const OpDef& def, size_t id) {
    std::unique_ptr<OpInfo> info = MakeOpInfo(def);
    std::unique_lock lock(mutex_);
    return Publish(def, std::move(info), id);
  }

  /// A record of another library, which is checked at once.
  void Add(const OpDef& def) {
    std::unique_ptr<OpInfo> info;
    if (!def.registered.load(std::memory_order_acquire)) info = MakeOpInfo(def);
    std::unique_lock lock(mutex_);
    const size_t id = by_name_.size();
    List(def);
    Publish(def, std::move(info), id);
  }

  void ListAll(std::span<const OpDef* const> defs) {
    std::unique_lock lock(mutex_);
    for (const OpDef* def : defs) List(*def);
  }

  const OpDef* Find(std::string_view full_name) const {
    std::shared_lock lock(mutex_);
    auto entry = by_name_.find(full_name);
    return entry == by_name_.end() ? nullptr : entry->second;
  }

  std::vector<const OpDef*> Overloads(std::string_view name) const {
    std::shared_lock lock(mutex_);
    auto entry = overloads_.find(name);
    return entry == overloads_.end() ? std::vector<const OpDef*>() : entry->second;
  }

  std::vector<const OpDef*> All() const {
    std::shared_lock lock(mutex_);
    std::vector<const OpDef*> all;
    for (const auto& [name, def] : by_name_) all.push_back(def);
    return all;
  }

 private:
  /// By the text in front of the arguments: "add.alpha(" is an overload of "add".
  void List(const OpDef& def) {
    const std::string_view schema = def.schema;
    const std::string_view full_name = schema.substr(0, schema.find('('));
    auto [entry, added] = by_name_.try_emplace(std::string(full_name), &def);
    if (!added) {
      Throw(ErrorCode::kDuplicateRegistration, "register: {} is already registered as {}",
            full_name, entry->second->info().schema.to_string());
    }
    overloads_[std::string(full_name.substr(0, full_name.find('.')))].push_back(&def);
  }

  /// The first thread that parsed a record publishes it.
  const OpInfo& Publish(const OpDef& def, std::unique_ptr<OpInfo> info, size_t id) {
    if (const OpInfo* known = def.registered.load(std::memory_order_acquire)) return *known;
    info->id = static_cast<uint32_t>(id);
    def.registered.store(info.get(), std::memory_order_release);
    infos_.push_back(std::move(info));
    return *infos_.back();
  }

  mutable std::shared_mutex mutex_;
  std::map<std::string, const OpDef*, std::less<>> by_name_;
  std::map<std::string, std::vector<const OpDef*>, std::less<>> overloads_;
  std::deque<std::unique_ptr<OpInfo>> infos_;
};

// Never destroyed: records are used until the process ends.
Registry& Instance() {
  static auto& registry = NeverDestroyed<Registry>();
  return registry;
}

// The registry with the names of the in-tree records in it. Their numbers are their positions, in
// every process, as they are part of keys.
Registry& Filled() {
  static std::once_flag once;
  std::call_once(once, [] { Instance().ListAll(ops::InTreeOps()); });
  return Instance();
}

std::string Mismatches(const std::vector<const OpDef*>& overloads, const std::vector<Any>& args,
                       const std::vector<std::pair<std::string, Any>>& kwargs) {
  std::string lines;
  for (const OpDef* def : overloads) {
    std::string why_not;
    def->info().schema.TryBind(args, kwargs, &why_not);
    lines += fmt::format("\n  {}: {}", def->info().schema.to_string(), why_not);
  }
  return lines;
}

}  // namespace

Any CallRecord(const OpDef& def, std::vector<Any> bound) {
  LiftFirst(def, bound);
  if (def.call) return def.call(bound);
  if (def.IsNode()) return CallNode(def, bound);
  Throw<NotSupported>(ErrorCode::kNotSupported, "{}: this op cannot be called by name", def.name());
}

std::string OpSuggestion(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OpDef* def : op_registry::All()) names.push_back(def->info().name);
  std::string_view nearest = NearestName(name, names);
  return nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest);
}

const OpInfo& OpDef::InitInfo() const {
  std::span<const OpDef* const> all = ops::InTreeOps();
  auto found = std::ranges::find(all, this);
  if (found == all.end()) {
    Throw(ErrorCode::kNotRegistered, "the op record \"{}\" is used before it is registered",
          schema);
  }
  return Instance().Parse(*this, static_cast<size_t>(found - all.begin()));
}

namespace op_registry {

void Register(const OpDef& def) { Filled().Add(def); }

const OpDef* Find(std::string_view full_name) { return Filled().Find(full_name); }

const OpDef& Get(std::string_view full_name) {
  if (const OpDef* def = Find(full_name)) return *def;
  Throw(ErrorCode::kUnknownName, "there is no op '{}'{}", full_name, OpSuggestion(full_name));
}

std::vector<const OpDef*> Overloads(std::string_view name) { return Filled().Overloads(name); }

std::vector<const OpDef*> All() { return Filled().All(); }

}  // namespace op_registry

Any CallOp(std::string_view name, const std::vector<Any>& args,
           const std::vector<std::pair<std::string, Any>>& kwargs, Location at) {
  LocationScope scope(at);
  std::vector<const OpDef*> overloads = op_registry::Overloads(name);
  if (overloads.empty()) overloads = {&op_registry::Get(name)};
  // A primitive without a call of its own is reached through the function of the same name.
  auto callable = [](const OpDef* def) { return def->call != nullptr; };
  if (std::ranges::any_of(overloads, callable)) std::erase_if(overloads, std::not_fn(callable));
  if (overloads.size() == 1)
    return CallRecord(*overloads[0], overloads[0]->info().schema.Bind(args, kwargs));
  for (const OpDef* def : overloads) {
    if (auto bound = def->info().schema.TryBind(args, kwargs, nullptr)) {
      return CallRecord(*def, *std::move(bound));
    }
  }
  Throw<TypeError>(ErrorCode::kSchema, "{}: no overload takes these arguments:{}", name,
                   Mismatches(overloads, args, kwargs));
}

}  // namespace hammock
