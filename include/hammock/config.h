#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/export.h"
#include "hammock/location.h"
#include "hammock/option.h"

/// Options of the whole process; see docs/config.md or `Describe()`.
///
///   if (config::Get<config::kEager>()) ...            // one relaxed atomic load
///   config::Set<config::kEager>(true);                // takes effect at once
///   config::Set("trim_graph_size", "5000");           // by name
///   config::Override quiet("log_level", "error");     // until the end of the scope
///   config::LoadFile("hammock.conf");                 // lines `name = value`, # comments
///
/// The environment (`HAMMOCK_EAGER=1`; a dot in a name is `_` there) is read once, before the first
/// use of any option, so a later call or file wins over it. All functions may be called from any
/// thread and at any time. An option is declared by its owner: hammock/option.h says how.
namespace hammock::config {

// Options of Hammock itself; those of backends are set by name.
extern HAMMOCK_API Option<bool> kAsync, kCheckBorrowed, kDebugNans, kEager, kExplainMisses,
    kFallback, kFastMath, kGeneralise, kParamAliasing, kPrintPasses, kVerifyPasses, kWideSums;
extern HAMMOCK_API Option<int64_t> kCacheDirBytes, kCompilationCacheBytes, kCompilationCacheSize,
    kDeviceDataCacheSize, kMaxAsyncQueue, kMetricsSamples, kProfileFileBytes, kTrimGraphBytes,
    kTrimGraphSize, kVerifyReplay;
extern HAMMOCK_API Option<std::string> kCacheDir, kDevice, kFallbackDevice, kForceFallback, kLoad,
    kLogLevel, kMatmulPrecision, kMetricsPercentiles, kSaveTensorsFile, kSaveTensorsFormat,
    kProfileFile;

/// A description of one option.
struct OptionInfo {
  Type type;
  std::string_view name;
  std::string default_value;
  std::string_view doc;
  std::string_view upstream;  ///< what it is called in PyTorch's lazy tensors, or empty
  std::string_view old_name;  ///< accepted for one version, or empty
  bool affects_code;          ///< it is part of the key of what is compiled
};

namespace detail {

HAMMOCK_API void SetNumber(AnyOption& option, int64_t value);
HAMMOCK_API void SetText(AnyOption& option, std::string_view value);

}  // namespace detail

template <auto& option>
void Set(const ValueOf<option>& value, Location at = Location::current()) {
  static_cast<void>(&detail::AtLoad<option>::registrar);
  LocationScope scope(at);
  if constexpr (std::is_same_v<ValueOf<option>, std::string>) {
    detail::SetText(option, value);
  } else {
    detail::SetNumber(option, value);
  }
}

/// Sets an option by name. An unknown name is a ValueError (kUnknownName) that names the nearest
/// valid one, a text of the wrong type is a TypeError, a value out of range a ValueError. Before
/// the first step, a setting of an owner that is not loaded (`toy.whole_gelu`) is kept for it.
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

/// All options of loaded libraries, by name.
HAMMOCK_API std::vector<OptionInfo> Options();

/// All options with their present values, for people.
HAMMOCK_API std::string Describe();

/// All options as docs/config.md, with what became of upstream's flags. Independent of present
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
  detail::AnyOption* option_;
  int64_t old_value_;
  const std::string* old_origin_;
};

}  // namespace hammock::config
