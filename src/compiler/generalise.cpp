#include "compiler/generalise.h"

#include <algorithm>
#include <array>

#include "base/throw.h"

namespace hammock {

namespace {

constexpr std::array kNames = {"n", "m", "k", "l", "p", "q", "r", "s",
                               "t", "u", "v", "w", "x", "y", "z", "b"};

/// One size at each sample.
using Values = std::vector<int64_t>;

bool Varies(const Values& values) {
  return std::ranges::any_of(values, [&](int64_t value) { return value != values[0]; });
}

bool Agrees(const DimExpr& expr, const std::vector<Values>& parameters, const Values& values) {
  for (size_t sample = 0; sample < values.size(); ++sample) {
    __int128 sum = expr.constant;
    for (auto [parameter, coefficient] : expr.terms) {
      sum +=
          static_cast<__int128>(coefficient) * parameters[static_cast<size_t>(parameter)][sample];
    }
    if (sum != values[sample]) return false;
  }
  return true;
}

/// Finds the plainest expression: a multiple of one parameter; the sum or difference of two; then
/// the same with a constant.
class Solver {
 public:
  Solver(const std::vector<Values>& parameters, const Values& values)
      : parameters_(parameters), values_(values) {}

  std::optional<DimExpr> Multiple() {
    for (int p = 0; p < count(); ++p) Line(p, false);
    return best_;
  }

  std::optional<DimExpr> Linear() {
    if (Multiple()) return best_;
    Pairs(false);
    if (best_) return best_;
    for (int p = 0; p < count(); ++p) Line(p, true);
    if (!best_) Pairs(true);
    return best_;
  }

 private:
  int count() const { return static_cast<int>(parameters_.size()); }

  /// coefficient * parameter + constant, through the first two samples at which the parameter
  /// differs.
  void Line(int p, bool constant) {
    const Values& x = parameters_[static_cast<size_t>(p)];
    size_t other = 1;
    while (x[other] == x[0]) ++other;
    int64_t rise = values_[other] - values_[0], run = x[other] - x[0];
    if (rise == 0 || rise % run != 0) return;
    int64_t coefficient = rise / run, product = 0, rest = 0;
    if (__builtin_mul_overflow(coefficient, x[0], &product)) return;
    if (__builtin_sub_overflow(values_[0], product, &rest)) return;
    if (rest != 0 && !constant) return;
    Offer({rest, {{p, coefficient}}});
  }

  void Pairs(bool constant) {
    constexpr std::pair<int, int> kSigns[] = {{1, 1}, {1, -1}, {-1, 1}};
    for (int p = 0; p < count(); ++p) {
      for (int q = p + 1; q < count(); ++q) {
        for (auto [a, b] : kSigns) {
          int64_t rest = values_[0] - a * parameters_[static_cast<size_t>(p)][0] -
                         b * parameters_[static_cast<size_t>(q)][0];
          if (rest == 0 || constant) Offer({rest, {{p, a}, {q, b}}});
        }
      }
    }
  }

  void Offer(DimExpr expr) {
    auto weight = [](const DimExpr& e) { return std::abs(e.terms[0].second); };
    if (best_ && weight(*best_) <= weight(expr)) return;
    if (Agrees(expr, parameters_, values_)) best_ = std::move(expr);
  }

  const std::vector<Values>& parameters_;
  const Values& values_;
  std::optional<DimExpr> best_;
};

/// Builds a rule: first the inputs' dims, then what is left of the traced sizes, then the lowered.
class RuleFinder {
 public:
  RuleFinder(std::span<const SizeSample> samples, std::span<const SizePlace> traced,
             std::span<const SizePlace> lowered)
      : samples_(samples), traced_(traced), lowered_(lowered) {}

  FoundRule Run() {
    for (size_t i = 0; i < traced_.size(); ++i) {
      if (traced_[i].kind == SizePlace::kInputDim) ExplainTraced(i);
    }
    for (size_t i = 0; i < traced_.size(); ++i) {
      if (traced_[i].kind != SizePlace::kInputDim) ExplainTraced(i);
    }
    if (failed_ || parameters_.empty()) return {};
    for (size_t i = 0; i < lowered_.size(); ++i) {
      Values values = At(&SizeSample::lowered, i);
      if (!Varies(values)) continue;
      std::optional<DimExpr> expr = Solver(parameters_, values).Linear();
      if (!expr) return {std::nullopt, lowered_[i]};
      rule_.lowered.emplace_back(i, std::move(*expr));
    }
    std::ranges::sort(rule_.traced, {}, &std::pair<size_t, DimExpr>::first);
    rule_.fixed = samples_.back();
    return {std::move(rule_), std::nullopt};
  }

 private:
  Values At(std::vector<int64_t> SizeSample::*sizes, size_t index) const {
    Values values;
    for (const SizeSample& sample : samples_) values.push_back((sample.*sizes)[index]);
    return values;
  }

  void ExplainTraced(size_t index) {
    Values values = At(&SizeSample::traced, index);
    if (failed_ || !Varies(values)) return;
    Solver solver(parameters_, values);
    bool input = traced_[index].kind == SizePlace::kInputDim;
    std::optional<DimExpr> expr = input ? solver.Multiple() : solver.Linear();
    // A number in the graph may follow from sizes; it is none itself.
    bool may_define = traced_[index].kind != SizePlace::kConstant;
    if (!expr && (!may_define || parameters_.size() == kNames.size())) {
      failed_ = true;
      return;
    }
    if (!expr) {
      expr = DimExpr{0, {{static_cast<int>(parameters_.size()), 1}}};
      parameters_.push_back(std::move(values));
      rule_.defined_at.push_back(index);
    }
    rule_.traced.emplace_back(index, std::move(*expr));
  }

  std::span<const SizeSample> samples_;
  std::span<const SizePlace> traced_;
  std::span<const SizePlace> lowered_;
  std::vector<Values> parameters_;
  SizeRule rule_;
  bool failed_ = false;
};

bool AllGiven(std::span<const int64_t> sizes, const std::vector<int64_t>& fixed,
              const SizeRule::Exprs& exprs, const std::vector<int64_t>& parameters) {
  if (sizes.size() != fixed.size()) return false;
  auto next = exprs.begin();
  for (size_t i = 0; i < sizes.size(); ++i) {
    int64_t expected = fixed[i];
    if (next != exprs.end() && next->first == i) {
      try {
        expected = (next++)->second.Evaluate(parameters);
      } catch (const ValueError&) {  // it overflows, so it is not the size
        return false;
      }
    }
    if (sizes[i] != expected) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<int64_t>> SizeRule::ParametersOf(
    std::span<const int64_t> traced_sizes) const {
  if (traced_sizes.size() != fixed.traced.size()) return std::nullopt;
  std::vector<int64_t> parameters;
  for (size_t index : defined_at) parameters.push_back(traced_sizes[index]);
  if (!AllGiven(traced_sizes, fixed.traced, traced, parameters)) return std::nullopt;
  return parameters;
}

bool SizeRule::Gives(std::span<const int64_t> lowered_sizes,
                     const std::vector<int64_t>& parameters) const {
  return AllGiven(lowered_sizes, fixed.lowered, lowered, parameters);
}

std::string SizeRule::Names() const {
  std::string text;
  for (size_t i = 0; i < defined_at.size(); ++i)
    text += (i > 0 ? ", " : "") + std::string(kNames[i]);
  return text;
}

FoundRule FindRule(std::span<const SizeSample> samples, std::span<const SizePlace> traced,
                   std::span<const SizePlace> lowered) {
  return RuleFinder(samples, traced, lowered).Run();
}

Graph WithDimParams(Graph lowered, std::span<const SizePlace> places, const SizeRule& rule,
                    const std::vector<int64_t>& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    lowered.dim_params.push_back({kNames[i], parameters[i]});
  }
  for (const auto& [index, expr] : rule.lowered) {
    const SizePlace& place = places[index];
    bool attribute = place.kind == SizePlace::kAttribute || place.kind == SizePlace::kConstant;
    auto& exprs = attribute ? lowered.attr_exprs : lowered.dim_exprs;
    exprs[{place.node, place.which, place.position}] = expr;
  }
  return lowered;
}

Graph GeneralGraph(const std::string& what, std::span<const Graph> graphs) {
  const Skeleton first = SkeletonOf(graphs[0]);
  std::vector<SizeSample> samples;
  for (const Graph& graph : graphs) {
    Skeleton skeleton = SkeletonOf(graph);
    if (skeleton.words != first.words) {
      Throw(ErrorCode::kValue,
            "{} records other ops at other sizes of its free dims, so no graph serves all of "
            "them",
            what);
    }
    samples.push_back({skeleton.sizes, skeleton.sizes});
  }
  bool varies = std::ranges::any_of(
      samples, [&](const SizeSample& sample) { return sample.traced != first.sizes; });
  if (!varies) return graphs[0];
  std::vector<SizePlace> places = SizePlacesOf(graphs[0]);
  FoundRule found = FindRule(samples, places, places);
  if (!found.rule) {
    Throw(ErrorCode::kValue, "{}: {}", what,
          found.unexplained ? fmt::format("a size of %{} is no linear function of the free dims",
                                          found.unexplained->node)
                            : std::string("too many of its sizes vary"));
  }
  for (size_t index : found.rule->defined_at) {
    if (places[index].kind == SizePlace::kInputDim) continue;
    Throw(ErrorCode::kValue, "{}: a size of %{} does not follow from the free dims", what,
          places[index].node);
  }
  return WithDimParams(graphs[0], places, *found.rule, *found.rule->ParametersOf(first.sizes));
}

}  // namespace hammock
