#pragma once
#include <string>

namespace hammock::metrics {

/// docs/metrics.md: every declared counter, gauge and metric, with its meaning.
std::string DescribeMarkdown();

}  // namespace hammock::metrics
