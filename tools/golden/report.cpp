#include "report.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/throw.h"

namespace hammock::golden {
namespace {

std::string Row(const std::string& name, const Tally& tally) {
  return fmt::format("{:<40}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>9}\n", name, tally.cases, tally.pass,
                     tally.fail, tally.error, tally.crash, tally.known, tally.unknown);
}

Json ToJson(const Tally& tally) {
  return {{"cases", tally.cases},    {"pass", tally.pass},   {"fail", tally.fail},
          {"error", tally.error},    {"crash", tally.crash}, {"known", tally.known},
          {"unknown", tally.unknown}};
}

}  // namespace

void Tally::Add(const Case& c, Outcome outcome, bool is_known) {
  ++cases;
  known += is_known;
  gradients += c.has_gradients();
  switch (outcome) {
    case Outcome::kPass:
      ++pass;
      break;
    case Outcome::kFail:
      ++fail;
      break;
    case Outcome::kError:
      ++error;
      break;
    case Outcome::kUnknown:
      ++unknown;
      break;
    case Outcome::kCrash:
      ++crash;
      break;
  }
}

void Report::Add(const Case& c, const CaseResult& result) {
  bool is_listed = known_.contains(c.id), is_known = is_listed && result.nearer;
  by_op_[c.op].Add(c, result.outcome, is_known);
  total_.Add(c, result.outcome, is_known);
  if (is_listed && !is_known) {
    unfounded_ += fmt::format("{}: listed as a known failure, but {}\n", c.id,
                              result.outcome == Outcome::kPass
                                  ? "passes"
                                  : "is not nearer to the exact value than what is expected");
  }
  if (result.outcome != Outcome::kPass) problems_.push_back({c.id, c.op, result});
}

std::string Report::Table() const {
  std::string table = fmt::format("{:<40}{:>7}{:>7}{:>7}{:>7}{:>7}{:>7}{:>9}\n", "group", "cases",
                                  "pass", "fail", "error", "crash", "known", "unknown");
  for (const auto& [op, tally] : by_op_) table += Row(op, tally);
  int complete = 0, forgiven = 0, unknown = 0;
  for (const auto& [op, tally] : by_op_) {
    complete += tally.pass == tally.cases;
    forgiven += tally.known > 0 && tally.AsExpected();
    unknown += tally.unknown == tally.cases;
  }
  table += Row("total", total_);
  table += fmt::format(
      "groups: {}, of which {} pass entirely, {} apart from known failures, and {} are unknown\n",
      by_op_.size(), complete, forgiven, unknown);
  table += fmt::format("gradients: compared in {} cases\n", total_.gradients);
  return table;
}

std::string Report::UnknownText() const {
  std::map<std::string, int> counts;
  for (const Problem& problem : problems_) {
    if (problem.result.outcome == Outcome::kUnknown) ++counts[problem.result.detail];
  }
  std::vector<std::pair<std::string, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [reason, count] : sorted) text += fmt::format("{:>5}  {}\n", count, reason);
  return text;
}

Json Report::ToJson() const {
  Json ops = Json::object(), problems = Json::array();
  for (const auto& [op, tally] : by_op_) ops[op] = golden::ToJson(tally);
  for (const Problem& problem : problems_) {
    problems.push_back({{"id", problem.id},
                        {"outcome", NameOf(problem.result.outcome)},
                        {"detail", problem.result.detail}});
  }
  return {{"total", golden::ToJson(total_)}, {"ops", ops}, {"problems", problems}};
}

std::string Report::Unmet(const std::vector<std::string>& expected,
                          const std::set<std::string>& groups) const {
  std::string text;
  for (const std::string& op : expected) {
    if (!groups.contains(op)) text += fmt::format("{}: expected, but not in the suite\n", op);
    auto found = by_op_.find(op);
    if (found == by_op_.end() || found->second.AsExpected()) continue;
    const Tally& tally = found->second;
    text += fmt::format("{}: {} of {} cases do not pass, {} of them known failures\n", op,
                        tally.cases - tally.pass, tally.cases, tally.known);
  }
  return text;
}

std::vector<std::string> ReadNames(const std::string& path) {
  std::ifstream in(path);
  if (!in) Throw(ErrorCode::kParse, "{}: cannot be opened", path);
  std::vector<std::string> names;
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with('#')) continue;
    line.erase(std::min(line.find(" #"), line.size()));  // ids have a '#' of their own
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) names.push_back(line);
  }
  return names;
}

}  // namespace hammock::golden
