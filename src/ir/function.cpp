#include "hammock/ir/function.h"

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <shared_mutex>

#include "base/nearest.h"
#include "base/never_destroyed.h"
#include "base/throw.h"
#include "ir/class_table.h"
#include "ir/op_registry.h"

namespace hammock {
namespace {

/// Pushes a boxed result onto the stack as the body of an op does: one value for each return.
void PushResults(Stack& stack, const FunctionSchema& schema, Any result) {
  if (schema.returns().size() == 1) return Push(stack, std::move(result));
  if (schema.returns().empty()) return;
  for (const Any& item : result.ToList()) Push(stack, item);
}

class ClassRegistry {
 public:
  explicit ClassRegistry(std::vector<ClassDef> defs) {
    for (ClassDef& def : defs) Add(std::move(def));
  }

  void Add(ClassDef def) {
    size_t dot = def.name.rfind('.');
    if (dot == std::string::npos || dot == 0 || dot + 1 == def.name.size()) {
      Throw(ErrorCode::kValue, "register class: '{}' needs a namespace, as in 'shop.Counter'",
            def.name);
    }
    std::set<std::string> names;
    for (const Function& method : def.methods) {
      if (names.insert(method.schema.name()).second) continue;
      Throw(ErrorCode::kDuplicateRegistration, "register class: {} has two methods '{}'", def.name,
            method.schema.name());
    }
    std::unique_lock lock(mutex_);
    auto [entry, added] = by_name_.try_emplace(def.name, nullptr);
    if (!added) {
      Throw(ErrorCode::kDuplicateRegistration, "register class: {} is already registered",
            def.name);
    }
    entry->second = &defs_.emplace_back(std::move(def));
  }

  const ClassDef* Find(std::string_view name) const {
    std::shared_lock lock(mutex_);
    auto entry = by_name_.find(name);
    return entry == by_name_.end() ? nullptr : entry->second;
  }

  std::vector<std::string> Names(std::string_view name_space) const {
    std::shared_lock lock(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, def] : by_name_) {
      if (std::string_view(name).substr(0, name.rfind('.')) == name_space) names.push_back(name);
    }
    return names;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, const ClassDef*, std::less<>> by_name_;
  std::deque<ClassDef> defs_;
};

ClassRegistry& Classes() {
  static auto& registry = NeverDestroyed<ClassRegistry>(InTreeClasses());
  return registry;
}

}  // namespace

void Push(Stack& stack, Any value) { stack.push_back(std::move(value)); }

Any Pop(Stack& stack) {
  if (stack.empty()) Throw(ErrorCode::kValue, "the stack of a boxed call is empty");
  Any value = std::move(stack.back());
  stack.pop_back();
  return value;
}

Any Function::Call(const std::vector<Any>& args, const AnyKwargs& kwargs) const {
  Stack stack = schema.Bind(args, kwargs);
  body(stack);
  size_t expected = schema.returns().size();
  if (stack.size() != expected) {
    Throw<TypeError>(ErrorCode::kSchema, "{}: must leave {} values on the stack, left {}",
                     schema.full_name(), expected, stack.size());
  }
  Any result = expected == 1 ? std::move(stack[0]) : Any::Tuple(std::move(stack));
  schema.CheckReturned(result);
  return result;
}

Function FunctionOf(const OpDef& op) {
  return {op.info().schema, [&op](Stack& stack) {
            const FunctionSchema& schema = op.info().schema;
            size_t count = schema.arguments().size();
            if (stack.size() < count) {
              Throw(ErrorCode::kValue, "{}: the stack has {} values, needs {}", schema.full_name(),
                    stack.size(), count);
            }
            std::vector<Any> args(stack.end() - static_cast<ptrdiff_t>(count), stack.end());
            stack.resize(stack.size() - count);
            PushResults(stack, schema, CallRecord(op, args));
          }};
}

const Function* ClassDef::FindMethod(std::string_view method) const {
  for (const Function& candidate : methods) {
    if (candidate.schema.name() == method) return &candidate;
  }
  return nullptr;
}

void RegisterClass(ClassDef def) { Classes().Add(std::move(def)); }

const ClassDef* FindClass(std::string_view name) { return Classes().Find(name); }

std::vector<std::string> ClassNames(std::string_view name_space) {
  return Classes().Names(name_space);
}

Any NewObject(std::string_view class_name) {
  const ClassDef* def = FindClass(class_name);
  if (!def) Throw(ErrorCode::kUnknownName, "there is no class '{}'", class_name);
  if (!def->make) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "objects of {} are not made by name", class_name);
  }
  return Any(def->make());
}

Any CallMethod(const Any& object, std::string_view method, const std::vector<Any>& args,
               const AnyKwargs& kwargs) {
  const ClassDef* def =
      object.kind() == Any::Kind::kObject ? FindClass(object.type_name()) : nullptr;
  if (!def) {
    Throw<TypeError>(ErrorCode::kSchema, "{}: expected an object of a registered class, got {}",
                     method, object.type_name());
  }
  const Function* function = def->FindMethod(method);
  if (!function) {
    std::vector<std::string_view> names;
    for (const Function& candidate : def->methods) names.push_back(candidate.schema.name());
    std::string_view nearest = NearestName(method, names);
    Throw(ErrorCode::kUnknownName, "{} has no method '{}'{}", def->name, method,
          nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest));
  }
  std::vector<Any> all{object};
  all.insert(all.end(), args.begin(), args.end());
  return function->Call(all, kwargs);
}

}  // namespace hammock
