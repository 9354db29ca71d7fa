#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hammock/config.h"

namespace hammock::config {

/// One row of the table. `min` is the least valid integer; `check` returns what would be right when
/// a string is not valid.
struct Row {
  Key key;
  std::string_view name;
  std::string_view default_value;
  std::string_view doc;
  std::string_view upstream = {};
  int64_t min = 0;
  std::optional<std::string> (*check)(std::string_view value) = nullptr;
  std::string_view default_doc = {};  ///< where the default depends on the build
  bool affects_code = false;          ///< other values give other computations of a graph
};

/// A flag of upstream's that has no option here, and why.
struct Dropped {
  std::string_view upstream;
  std::string_view reason;
};

const std::array<Row, kKeyCount>& Table();
const std::vector<Dropped>& DroppedUpstreamFlags();

/// The present values of the options that affect code, in the order of the table.
std::vector<std::pair<std::string_view, std::string>> CodeOptions();

/// The numbers of `metrics_percentiles`, or nothing if the text is not a list of numbers in (0,1).
std::optional<std::vector<double>> ParsePercentiles(std::string_view text);

}  // namespace hammock::config
