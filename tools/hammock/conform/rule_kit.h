#pragma once
/// Helpers of the rules.

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "conform/rules.h"
#include "hammock/hammock.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/plugin.h"

namespace hammock::tool {

/// Loads the plug-in and makes its first device the default one.
Device Open(const Subject& subject);

/// The plug-in's table, as it is and as it is registered by OpenWrapped.
struct PluginTables {
  HammockPlugin original, wrapped;
};
PluginTables& Tables();
/// As Open, with functions that `wrap` puts into `Tables().wrapped`.
Device OpenWrapped(const Subject& subject, const std::function<void()>& wrap);

/// The first element that differs, or nothing.
std::string Difference(const HostTensor& got, const HostTensor& wanted, double tolerance = 0);
/// The same where bits must be equal.
std::string BitDifference(const HostTensor& got, const HostTensor& wanted);

/// How far results of a dtype may be from the reference's, relative to 1 + |value|; 0: equal.
double ToleranceOf(DType dtype);

/// Small numbers, some of them negative where the dtype has such.
HostTensor Ramp(DType dtype, const Dims& sizes);

/// With an end of line, unless it is empty.
std::string Line(const std::string& text);

/// A line where `run` does not raise an E.
template <class E>
std::string ExpectError(const std::string& what, const std::function<void()>& run) {
  try {
    run();
  } catch (const E&) {
    return "";
  }
  return what + ": no error was raised\n";
}

/// A device without the runtime in front of it.
class DirectDevice {
 public:
  using Data = BackendDataPtr;

  explicit DirectDevice(const Device& device)
      : backend(device.backend()), where(device.backend_device()) {}
  Data Upload(const HostTensor& host) const;
  HostTensor Download(const Data& data) const;
  /// Its first result may be written into the first parameter.
  lazy::ComputationPtr Compile(const std::string& graph) const;
  /// Waits for the results.
  std::vector<Data> Run(const lazy::ComputationPtr& computation, const std::vector<Data>& arguments,
                        const std::vector<bool>& donated = {}) const;

  lazy::BackendImplInterface& backend;
  const lazy::BackendDevice where;
};

/// x + x of f32[sizes], which every level of a plug-in runs by itself.
std::string TwiceGraph(const std::string& sizes);

// ---- The program of a rule, for the report of a finding: statements in SHOWN, and graphs.

#define SHOWN(...)                         \
  ::hammock::tool::ShowCode(#__VA_ARGS__); \
  __VA_ARGS__

/// Once, where a loop comes back to it.
void ShowCode(const char* statements);
/// In place of all that was shown before.
void ShowOnly(std::string code);
void ShowGraph(const std::string& text);
/// The graph of values that have not run yet.
void ShowGraph(std::initializer_list<Tensor> pending);
/// As C++ and as graphs; empty where nothing was shown.
const std::string& ShownText();

}  // namespace hammock::tool
