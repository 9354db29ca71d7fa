#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "hammock/export.h"

/// Options are objects, declared at namespace scope by whoever follows them: a part of Hammock, a
/// backend, a library of its own.
///
///   constinit config::Option<bool> kWholeGelu({
///       .name = "toy.whole_gelu",
///       .default_value = true,
///       .doc = "Run `gelu` as one kernel.",
///       .affects_code = true,
///   });
///
///   if (config::Get<kWholeGelu>()) ...
///
/// That is all: code that reads or sets an option registers it when its library is loaded. From
/// then on it is listed, and set by name, by HAMMOCK_TOY_WHOLE_GELU and by files, as all others are
/// (hammock/config.h). It can be read at any time, also before main. An option is never destroyed,
/// so a library that declares one must not be unloaded.
namespace hammock::config {

/// The description of an option by its owner. T is bool, int64_t or std::string.
template <class T>
struct OptionSpec {
  std::string_view name;  ///< `owner.name`; those of Hammock itself have no owner
  std::conditional_t<std::is_same_v<T, std::string>, std::string_view, T> default_value;
  std::string_view doc;
  /// Other values give other computations of a graph: the value is part of the key of what is
  /// compiled, and the recompile explainer names the option.
  bool affects_code = false;
  int64_t min = 0;                ///< least valid integer
  std::string_view choices = {};  ///< the valid strings, as in "text, dot"; empty: any string
  /// For other rules of strings: what would be right, where a text is not. Reads no option.
  std::optional<std::string> (*check)(std::string_view value) = nullptr;
  /// Called after the value was set, by the thread that set it.
  void (*changed)() = nullptr;
  std::string_view old_name = {};     ///< accepted for one version, with a warning
  std::string_view default_doc = {};  ///< where the default depends on the build
  std::string_view upstream = {};     ///< what it is called in PyTorch's lazy tensors
};

enum class Type : uint8_t { kBool, kInt, kString };

namespace detail {

/// Marks a value that was not read yet; no option can have it.
inline constexpr int64_t kUnset = INT64_MIN;

/// An option of any type.
struct AnyOption {
  /// Bools and integers as such; strings as pointers to texts that are never freed. The first
  /// member: it is where code finds it that was compiled with another version of this header.
  std::atomic<int64_t> value{kUnset};
  /// Who set it, a text that is never freed; null: it is the default.
  std::atomic<const std::string*> origin{nullptr};
  Type type;
  bool affects_code;
  int64_t default_number;
  int64_t min;
  std::string_view name, doc, default_text, choices, old_name, default_doc, upstream;
  std::optional<std::string> (*check)(std::string_view value);
  void (*changed)();
};

HAMMOCK_API void Register(AnyOption& option);

/// Registers an option when the library that reads it is loaded.
template <auto& option>
struct [[gnu::visibility("hidden")]] AtLoad {
  AtLoad() { Register(option); }
  static inline const AtLoad registrar;
};

/// Reads the environment and returns the option's value.
[[gnu::cold]] HAMMOCK_API int64_t Initialize(AnyOption& option);

}  // namespace detail

/// An option whose values are T: bool, int64_t or std::string.
template <class T>
class Option : public detail::AnyOption {
 public:
  using Value = T;

  constexpr explicit Option(const OptionSpec<T>& spec) : AnyOption{} {
    static_assert(std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
                  std::is_same_v<T, std::string>);
    if constexpr (std::is_same_v<T, std::string>) {
      type = Type::kString;
      default_text = spec.default_value;
    } else {
      type = std::is_same_v<T, bool> ? Type::kBool : Type::kInt;
      default_number = spec.default_value;
    }
    name = spec.name;
    doc = spec.doc;
    affects_code = spec.affects_code;
    min = spec.min;
    choices = spec.choices;
    check = spec.check;
    changed = spec.changed;
    old_name = spec.old_name;
    default_doc = spec.default_doc;
    upstream = spec.upstream;
  }
};

template <auto& option>
using ValueOf = typename std::remove_cvref_t<decltype(option)>::Value;

/// The present value: one relaxed atomic load. A string stays valid for ever, also when the option
/// is changed.
template <auto& option>
auto Get() -> std::conditional_t<std::is_same_v<ValueOf<option>, std::string>, const std::string&,
                                 ValueOf<option>> {
  static_cast<void>(&detail::AtLoad<option>::registrar);
  constexpr bool kIsString = std::is_same_v<ValueOf<option>, std::string>;
  int64_t value =
      option.value.load(kIsString ? std::memory_order_acquire : std::memory_order_relaxed);
  if (value == detail::kUnset) [[unlikely]]
    value = detail::Initialize(option);
  if constexpr (kIsString) {
    return *reinterpret_cast<const std::string*>(value);
  } else {
    return static_cast<ValueOf<option>>(value);
  }
}

}  // namespace hammock::config
