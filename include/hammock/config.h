#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "hammock/export.h"
#include "hammock/location.h"

/// Options of the whole process. One table holds name, type, default and meaning of each; see
/// docs/config.md or `Describe()`.
///
///   if (config::Get<config::kEager>()) ...            // one relaxed atomic load
///   config::Set<config::kEager>(true);                // takes effect at once
///   config::Set("trim_graph_size", "5000");           // by name
///   config::Override quiet("log_level", "error");     // until the end of the scope
///   config::LoadFile("hammock.conf");                 // lines `name = value`, # comments
///
/// The environment (`HAMMOCK_EAGER=1`; a dot in a name is `_` there) is read once, before the first
/// use of any option, so a later call or file wins over it. All functions may be called from any
/// thread and at any time.
namespace hammock::config {

/// The options: first the bools, then the integers, then the strings.
enum Key : uint8_t {
  kAsync,
  kCheckBorrowed,
  kCpuGdb,
  kCpuOneDnn,
  kCpuPerfMap,
  kCpuTimeSteps,
  kCpuWaitForCode,
  kCudaFastAtomics,
  kCudaTimeSteps,
  kDebugNans,
  kEager,
  kExplainMisses,
  kFallback,
  kFastMath,
  kGeneralise,
  kParamAliasing,
  kPrintPasses,
  kReferenceLapack,
  kVerifyPasses,
  kWideSums,

  kCacheDirBytes,
  kCompilationCacheBytes,
  kCompilationCacheSize,
  kCpuThreads,
  kCudaVirtualDevices,
  kDeviceDataCacheSize,
  kMaxAsyncQueue,
  kMetricsSamples,
  kTraceFileBytes,
  kTrimGraphBytes,
  kTrimGraphSize,
  kVerifyReplay,

  kCacheDir,
  kCpuLlvmPlugin,
  kCpuText,
  kCudaDumpFailures,
  kCudaEmulate,
  kCudaText,
  kDevice,
  kFallbackDevice,
  kForceFallback,
  kLoad,
  kLogLevel,
  kMatmulPrecision,
  kMetricsPercentiles,
  kSaveTensorsFile,
  kSaveTensorsFormat,
  kTraceFile,

  kKeyCount
};

enum class Type : uint8_t { kBool, kInt, kString };

constexpr Type TypeOf(Key key) {
  if (key < kCacheDirBytes) return Type::kBool;
  return key < kCacheDir ? Type::kInt : Type::kString;
}

/// bool, int64_t or std::string.
template <Key key>
using ValueOf =
    std::conditional_t<TypeOf(key) == Type::kBool, bool,
                       std::conditional_t<TypeOf(key) == Type::kInt, int64_t, std::string>>;

/// What is known of one option.
struct OptionInfo {
  Key key;
  Type type;
  std::string_view name;
  std::string default_value;
  std::string_view doc;
  std::string_view upstream;  ///< what it is called in PyTorch's lazy tensors, or empty
};

namespace detail {

/// Marks a value that was not read yet; no option can have it.
inline constexpr int64_t kUnset = INT64_MIN;

/// Bools and integers as such; strings as pointers to texts that are never freed.
struct OptionValue : std::atomic<int64_t> {
  constexpr OptionValue() : atomic(kUnset) {}
};
extern HAMMOCK_API OptionValue values[kKeyCount];

/// Reads the environment and returns the option's value.
[[gnu::cold]] HAMMOCK_API int64_t Initialize(Key key);

HAMMOCK_API void SetBool(Key key, bool value);
HAMMOCK_API void SetInt(Key key, int64_t value);
HAMMOCK_API void SetString(Key key, std::string_view value);

inline int64_t Load(Key key, std::memory_order order) {
  int64_t value = values[key].load(order);
  if (value == kUnset) [[unlikely]]
    return Initialize(key);
  return value;
}

}  // namespace detail

/// The present value. A string stays valid for ever, also when the option is changed.
template <Key key>
auto Get() -> std::conditional_t<TypeOf(key) == Type::kString, const std::string&, ValueOf<key>> {
  if constexpr (TypeOf(key) == Type::kString) {
    int64_t value = detail::Load(key, std::memory_order_acquire);
    return *reinterpret_cast<const std::string*>(value);
  } else {
    return static_cast<ValueOf<key>>(detail::Load(key, std::memory_order_relaxed));
  }
}

template <Key key>
void Set(const ValueOf<key>& value, Location at = Location::current()) {
  LocationScope scope(at);
  if constexpr (TypeOf(key) == Type::kBool) detail::SetBool(key, value);
  if constexpr (TypeOf(key) == Type::kInt) detail::SetInt(key, value);
  if constexpr (TypeOf(key) == Type::kString) detail::SetString(key, value);
}

/// Sets an option by name. An unknown name is a ValueError (kUnknownName) that names the nearest
/// valid one, a text of the wrong type is a TypeError, a value out of range a ValueError.
HAMMOCK_API void Set(std::string_view name, std::string_view value,
                     Location at = Location::current());

/// An option's value as text that `Set` accepts.
HAMMOCK_API std::string GetText(std::string_view name, Location at = Location::current());

/// Who set the present value: "default", "environment HAMMOCK_EAGER", "file my.conf:3" or "call".
HAMMOCK_API std::string OriginOf(std::string_view name, Location at = Location::current());

/// Sets all options of a file, or none of them when a line is wrong; errors name file and line.
HAMMOCK_API void LoadFile(const std::string& path, Location at = Location::current());

/// Grows with every change of any option: a cheap test whether something derived is out of date.
HAMMOCK_API uint64_t Generation();

/// All options, by name.
HAMMOCK_API std::vector<OptionInfo> Options();

/// The table with the present values, for people.
HAMMOCK_API std::string Describe();

/// The table as docs/config.md, with what became of upstream's flags. Independent of present
/// values.
HAMMOCK_API std::string DescribeMarkdown();

/// Sets an option and puts the old value back at the end of the scope.
class HAMMOCK_API Override {
 public:
  Override(std::string_view name, std::string_view value, Location at = Location::current());
  ~Override();
  Override(const Override&) = delete;
  Override& operator=(const Override&) = delete;

 private:
  Key key_;
  int64_t old_value_;
  const std::string* old_origin_;
};

}  // namespace hammock::config
