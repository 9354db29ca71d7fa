#pragma once
/// Whether the CPU backend computes a case rightly. See docs/design/fuzzing.md.
///
/// The graph is run as a whole, and node by node: a program of one node each, interpreted, whose
/// operands are the results of the nodes before.
///  - The whole must have the same bits as node by node (a NaN is any NaN), interpreted and
///    compiled: fusing, ordering, addressing and sharing memory change nothing. Nor do the passes:
///    what they make of the graph must have the same bits too.
///  - Each node must agree with the reference interpreter on the same operands: exactly, or within
///    the bound of its op. As both get the same operands, errors do not add up on the way.
///  - Nothing is written outside of outputs and arena, nothing is read behind the end of a buffer.

#include <functional>
#include <string>
#include <vector>

#include "fuzz/case.h"

namespace hammock::fuzz {

struct Tiers {
  bool interpreted = true;
  bool compiled = false;
};

/// Empty if all is right, else what differs first. A case that the interpreter refuses is right.
std::string FindDifference(const Case& test, const Tiers& tiers);

/// The result of `f`, run in a process of its own, or the signal that ended that process.
std::string RunApart(const std::function<std::string()>& f);

/// All values of all nodes, computed node by node; empty where the interpreter refuses.
NodeMap<std::vector<HostTensor>> NodeByNode(const Case& test);

/// Why nothing can be compiled here; empty where it can.
std::string WhyNotCompiled();

/// Kernels that ran in the tier since the process began.
struct Counts {
  int64_t programs = 0;
  int64_t kernels = 0;
};
Counts CountsOf(bool compiled);

}  // namespace hammock::fuzz
