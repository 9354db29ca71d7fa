#pragma once
#include <string>

namespace hammock::metrics {

/// docs/metrics.md: every counter, gauge and metric, with its meaning.
std::string DescribeMarkdown();

}  // namespace hammock::metrics
