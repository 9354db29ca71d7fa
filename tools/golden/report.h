#pragma once
/// The results of a run, by group: as a table, as JSON, and against the list of ops that must pass.

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "case.h"
#include "replay.h"

namespace hammock::golden {

struct Tally {
  int cases = 0, pass = 0, fail = 0, error = 0, unknown = 0, crash = 0;
  int known = 0;      ///< of the failing ones, those listed as known with good reason
  int gradients = 0;  ///< cases whose gradients are in the suite
  void Add(const Case& c, Outcome outcome, bool is_known);
  bool AsExpected() const { return pass + known == cases; }
  int Bad() const { return fail + error + crash - known; }
};

class Report {
 public:
  /// `known`: ids of cases that fail, each for a reason that stands in the list, though they are
  /// nearer to the exact values than what the suite expects.
  explicit Report(std::set<std::string> known = {}) : known_(std::move(known)) {}

  void Add(const Case& c, const CaseResult& result);

  const Tally& total() const { return total_; }
  std::string Table() const;
  /// "clamp: no overload ...: 3 cases", most cases first.
  std::string UnknownText() const;
  Json ToJson() const;
  /// A line for each known failure that passes, or that is further from the exact values than what
  /// the suite expects.
  const std::string& Unfounded() const { return unfounded_; }
  /// A line for each group of `expected` that has a case which neither passes nor is a known
  /// failure, or that is none of the suite's `groups`.
  std::string Unmet(const std::vector<std::string>& expected,
                    const std::set<std::string>& groups) const;

 private:
  struct Problem {
    std::string id, op;
    CaseResult result;
  };
  std::set<std::string> known_;
  std::string unfounded_;
  std::map<std::string, Tally> by_op_;
  std::vector<Problem> problems_;
  Tally total_;
};

/// Names, one a line; " #" and a '#' that begins a line begin a comment.
std::vector<std::string> ReadNames(const std::string& path);

}  // namespace hammock::golden
