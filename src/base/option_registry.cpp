#include "base/option_registry.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

#include "base/log.h"
#include "base/nearest.h"
#include "base/never_destroyed.h"
#include "base/option_value.h"
#include "base/throw.h"
#include "hammock/config.h"

namespace hammock::config {
namespace {

using detail::AnyOption;

struct Kept {
  std::string value;
  const std::string* origin;
};

struct Registry {
  std::mutex mutex;
  std::vector<AnyOption*> options;                // by name
  std::map<std::string, Kept, std::less<>> kept;  // see Note [Owners that are not loaded]
  bool environment_read = false;
  bool names_checked = false;  // of variables in the environment
  bool step_begun = false;
};

Registry& GetRegistry() {
  static auto& registry = NeverDestroyed<Registry>();
  return registry;
}

constinit std::atomic<uint64_t> generation{0};

/// Work for the time when the mutex is free: it asks for options itself.
struct Afterwards {
  std::vector<std::string> warnings;
  std::vector<void (*)()> changed;

  void Run() const {
    for (const std::string& warning : warnings) Log(LogLevel::kWarn, "{}", warning);
    for (auto* call : changed) call();
  }
};

std::string EnvironmentName(std::string_view name) {
  std::string text = "HAMMOCK_";
  for (char c : name) {
    text += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return text;
}

// ---- With the mutex held

AnyOption* FindIn(const Registry& registry, std::string_view name) {
  for (AnyOption* option : registry.options) {
    if (option->name == name || (!name.empty() && option->old_name == name)) return option;
  }
  return nullptr;
}

std::string_view NearestIn(const Registry& registry, std::string_view name) {
  std::vector<std::string_view> names;
  for (const AnyOption* option : registry.options) names.push_back(option->name);
  return NearestName(name, names);
}

bool HasOwner(const Registry& registry, std::string_view owner) {
  return std::ranges::any_of(registry.options,
                             [&](const AnyOption* o) { return OwnerOf(o->name) == owner; });
}

/// Whether it was not there. A name that is taken and a wrong default are errors.
bool Insert(Registry& registry, AnyOption& option) {
  auto at = std::ranges::lower_bound(registry.options, option.name, {}, &AnyOption::name);
  if (at != registry.options.end() && (*at)->name == option.name) {
    if (*at == &option) return false;
    Throw(ErrorCode::kDuplicateRegistration,
          "config: there is an option '{}' already; a library begins the names of its options with "
          "its own",
          option.name);
  }
  Parse(option, DefaultText(option));
  registry.options.insert(at, &option);
  return true;
}

/// The first value of an option: by default, by the environment, by a setting that was kept.
class FirstValue {
 public:
  FirstValue(const AnyOption& option, Afterwards& after)
      : option_(option), after_(after), value_(Parse(option, DefaultText(option))) {}

  void TakeVariable() {
    const std::string variable = EnvironmentName(option_.name);
    const std::string old = EnvironmentName(option_.old_name);
    const char* text = std::getenv(variable.c_str());
    const char* old_text = option_.old_name.empty() ? nullptr : std::getenv(old.c_str());
    if (text) {
      Take(text, "environment variable " + variable, Intern("environment " + variable));
    } else if (old_text) {
      after_.warnings.push_back(fmt::format(
          "config: environment variable {} is now called {}; the next version does not know it",
          old, variable));
      Take(old_text, "environment variable " + old, Intern("environment " + old));
    }
  }

  void TakeKept(Registry& registry) {
    for (std::string_view name : {option_.old_name, option_.name}) {
      auto found = registry.kept.find(name);
      if (found == registry.kept.end()) continue;
      const auto& [text, origin] = found->second;
      Take(text, fmt::format("{}, set by {} before it was loaded", name, *origin), *origin);
      registry.kept.erase(found);
    }
  }

  void StoreIn(AnyOption& option) {
    option.origin.store(origin_, std::memory_order_release);
    option.value.store(value_, std::memory_order_release);
    if (origin_ && option.changed) after_.changed.push_back(option.changed);
  }

 private:
  /// A wrong text is found at whatever call comes first, which has nothing to do with it.
  void Take(std::string_view text, const std::string& what, const std::string& origin) {
    try {
      value_ = Parse(option_, text);
      origin_ = &origin;
    } catch (const Error& error) {
      const std::string used = Format(option_, value_);
      after_.warnings.push_back(
          fmt::format("{}: {}; using {}", what, error.message(), used.empty() ? "none" : used));
    }
  }

  const AnyOption& option_;
  Afterwards& after_;
  int64_t value_;
  const std::string* origin_ = nullptr;
};

void ReadFirst(Registry& registry, AnyOption& option, Afterwards& after) {
  FirstValue first(option, after);
  first.TakeVariable();
  first.TakeKept(registry);
  first.StoreIn(option);
}

/// Of an option that comes after the others were read.
void ReadLate(Registry& registry, AnyOption& option, Afterwards& after) {
  ReadFirst(registry, option, after);
  generation.fetch_add(1, std::memory_order_release);
}

/// Variables that set nothing; before the first step only those that no other owner can have.
void CheckEnvironmentNames(Registry& registry, bool first_step, Afterwards& after) {
  const bool checked = std::exchange(registry.names_checked, true);
  for (char** entry = environ; entry && *entry; ++entry) {
    std::string_view variable = *entry;
    variable = variable.substr(0, variable.find('='));
    if (!variable.starts_with("HAMMOCK_")) continue;
    std::string name(variable.substr(8));
    bool may_have_owner = name.find('_') != std::string::npos;
    if (may_have_owner ? !first_step : checked) continue;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    auto named = [&](const AnyOption* option) {
      return EnvironmentName(option->name) == variable ||
             EnvironmentName(option->old_name) == variable;
    };
    if (std::ranges::any_of(registry.options, named)) continue;
    after.warnings.push_back(
        fmt::format("config: environment variable {} is no option, did you mean {}?", variable,
                    EnvironmentName(NearestIn(registry, name))));
  }
}

void ReadEnvironment(Registry& registry, Afterwards& after) {
  registry.environment_read = true;
  for (AnyOption* option : registry.options) ReadFirst(registry, *option, after);
}

/// Locks the registry once the environment has been read.
std::unique_lock<std::mutex> LockRead(Registry& registry) {
  for (;;) {
    std::unique_lock lock(registry.mutex);
    if (registry.environment_read) return lock;
    Afterwards after;
    ReadEnvironment(registry, after);
    CheckEnvironmentNames(registry, false, after);
    lock.unlock();
    after.Run();
  }
}

}  // namespace

void detail::Register(AnyOption& option) {
  Afterwards after;
  Registry& registry = GetRegistry();
  {
    std::lock_guard lock(registry.mutex);
    if (!Insert(registry, option)) return;
    if (registry.environment_read) ReadLate(registry, option, after);
  }
  after.Run();
}

int64_t detail::Initialize(AnyOption& option) {
  Afterwards after;
  Registry& registry = GetRegistry();
  {
    std::lock_guard lock(registry.mutex);
    // If it is new, constructors have still to register others, whose names are not wrong.
    const bool is_new = Insert(registry, option);
    if (!registry.environment_read) {
      ReadEnvironment(registry, after);
      if (!is_new) CheckEnvironmentNames(registry, false, after);
    } else if (is_new) {  // else another thread has read it meanwhile
      ReadLate(registry, option, after);
    }
  }
  after.Run();
  return option.value.load(std::memory_order_acquire);
}

std::string_view OwnerOf(std::string_view name) {
  size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

std::vector<AnyOption*> AllOptions() {
  Registry& registry = GetRegistry();
  auto lock = LockRead(registry);
  return registry.options;
}

AnyOption* FindOption(std::string_view name) {
  AnyOption* option;
  {
    Registry& registry = GetRegistry();
    auto lock = LockRead(registry);
    option = FindIn(registry, name);
  }
  if (option && option->name != name) {
    LogOnce("config: " + std::string(name), LogLevel::kWarn,
            "config: option '{}' is now called '{}'; the next version does not know the old name",
            name, option->name);
  }
  return option;
}

AnyOption& GetOption(std::string_view name) {
  if (AnyOption* option = FindOption(name)) return *option;
  Registry& registry = GetRegistry();
  auto lock = LockRead(registry);
  Throw(ErrorCode::kUnknownName, "config: no option '{}', did you mean '{}'?", name,
        NearestIn(registry, name));
}

bool MayBeKept(std::string_view name) {
  std::string_view owner = OwnerOf(name);
  Registry& registry = GetRegistry();
  auto lock = LockRead(registry);
  return !owner.empty() && !registry.step_begun && !HasOwner(registry, owner);
}

void Keep(std::string_view name, std::string_view value, const std::string& origin) {
  Registry& registry = GetRegistry();
  {
    auto lock = LockRead(registry);
    if (!FindIn(registry, name)) {
      registry.kept[std::string(name)] = {std::string(value), &origin};
      return;
    }
  }
  AnyOption& option = GetOption(name);
  Store(option, Parse(option, value), &origin);
}

void Store(AnyOption& option, int64_t value, const std::string* origin) {
  // Else the environment would overwrite it later.
  if (option.value.load(std::memory_order_relaxed) == detail::kUnset) detail::Initialize(option);
  option.value.store(value, std::memory_order_release);
  option.origin.store(origin, std::memory_order_release);
  generation.fetch_add(1, std::memory_order_release);
  if (option.changed) option.changed();
}

uint64_t Generation() { return generation.load(std::memory_order_acquire); }

std::vector<CodeOption> CodeOptions() {
  std::vector<CodeOption> values;
  for (const AnyOption* option : AllOptions()) {
    if (!option->affects_code) continue;
    std::string value = Format(*option, option->value.load(std::memory_order_acquire));
    bool is_default = value == DefaultText(*option);
    values.push_back({option->name, std::move(value), is_default});
  }
  return values;
}

void WarnOfUnclaimed() {
  Afterwards after;
  Registry& registry = GetRegistry();
  {
    auto lock = LockRead(registry);
    if (std::exchange(registry.step_begun, true)) return;
    CheckEnvironmentNames(registry, true, after);
    for (const auto& [name, kept] : registry.kept) {
      after.warnings.push_back(fmt::format(
          "config: {} set '{}', but no option of that name is loaded, did you mean '{}'?",
          *kept.origin, name, NearestIn(registry, name)));
    }
  }
  after.Run();
}

}  // namespace hammock::config
