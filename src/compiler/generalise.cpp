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

/// Says which parameter is a product of two or three free ones.
SizeProducts ProductsAmong(const std::vector<Values>& parameters) {
  SizeProducts products(parameters.size());
  auto is_free = [&](size_t p) { return products[p].factors.empty(); };
  auto try_factors = [&](size_t p, const std::vector<size_t>& factors) {
    lazy::SizeProduct product;
    for (size_t sample = 0; sample < parameters[p].size(); ++sample) {
      __int128 value = 1;
      for (size_t factor : factors) value *= parameters[factor][sample];
      if (value == 0 || parameters[p][sample] % value != 0) return;
      int64_t coefficient = static_cast<int64_t>(parameters[p][sample] / value);
      if (sample > 0 && coefficient != product.coefficient) return;
      product.coefficient = coefficient;
    }
    for (size_t factor : factors) product.factors.push_back(static_cast<int>(factor));
    products[p] = std::move(product);
  };
  const size_t count = parameters.size();
  // A factor of another is never made a product: it would be one of a product.
  std::vector<bool> is_factor(count);
  for (size_t p = 0; p < count; ++p) {
    auto may_be_factor = [&](size_t i) { return i != p && is_free(i); };
    for (size_t a = 0; a < count && !is_factor[p]; ++a) {
      for (size_t b = a; b < count && may_be_factor(a); ++b) {
        if (may_be_factor(b) && is_free(p)) try_factors(p, {a, b});
        for (size_t c = b; c < count && may_be_factor(b); ++c) {
          if (may_be_factor(c) && is_free(p)) try_factors(p, {a, b, c});
        }
      }
    }
    for (int factor : products[p].factors) is_factor[static_cast<size_t>(factor)] = true;
  }
  return products;
}

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
    rule_.products = ProductsAmong(parameters_);
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

std::vector<int64_t> AllSizes(const SizeProducts& products, std::span<const int64_t> free) {
  if (products.empty()) return {free.begin(), free.end()};
  std::vector<int64_t> sizes(products.size());
  auto next = free.begin();
  for (size_t p = 0; p < sizes.size(); ++p) {
    if (products[p].factors.empty()) sizes[p] = *next++;
  }
  for (size_t p = 0; p < sizes.size(); ++p) {
    if (products[p].factors.empty()) continue;
    sizes[p] = products[p].coefficient;
    for (int factor : products[p].factors) {
      if (__builtin_mul_overflow(sizes[p], sizes[static_cast<size_t>(factor)], &sizes[p])) {
        Throw(ErrorCode::kValue, "a size overflows");
      }
    }
  }
  return sizes;
}

std::optional<std::vector<int64_t>> FreeSizes(const SizeProducts& products,
                                              std::span<const int64_t> sizes) {
  std::vector<int64_t> free;
  for (size_t p = 0; p < sizes.size(); ++p) {
    if (p >= products.size() || products[p].factors.empty()) {
      free.push_back(sizes[p]);
      continue;
    }
    __int128 size = products[p].coefficient;
    for (int factor : products[p].factors) size *= sizes[static_cast<size_t>(factor)];
    if (size != sizes[p]) return std::nullopt;
  }
  return free;
}

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

Graph WithDimParams(Graph graph, const SizeRule::Exprs& exprs,
                    const std::vector<int64_t>& parameters) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    graph.dim_params.push_back({kNames[i], parameters[i]});
  }
  const std::vector<SizePlace> places = SizePlacesOf(graph);
  for (const auto& [index, expr] : exprs) {
    const SizePlace& place = places[index];
    bool attribute = place.kind == SizePlace::kAttribute || place.kind == SizePlace::kConstant;
    auto& list = attribute ? graph.attr_exprs : graph.dim_exprs;
    list[{place.node, place.which, place.position}] = expr;
  }
  return graph;
}

bool SizeRange::Contains(std::span<const int64_t> sizes) const {
  for (size_t p = 0; p < sizes.size(); ++p) {
    if (sizes[p] < least[p] || sizes[p] > most[p]) return false;
  }
  return true;
}

namespace {

/// Where a bound on a size, or on a sum or difference of two, would show.
std::vector<std::vector<int64_t>> CornersOf(const SizeRange& range) {
  std::vector<std::vector<int64_t>> corners = {range.most, range.least};
  for (size_t p = 0; p < range.least.size() && range.least.size() > 1; ++p) {
    corners.push_back(range.least);
    corners.back()[p] = range.most[p];
  }
  return corners;
}

}  // namespace

SizeRange Widened(SizeRange range, int64_t most,
                  const std::function<bool(const std::vector<int64_t>& sizes)>& holds) {
  const SizeRange given = range;
  for (bool up : {true, false}) {
    auto wider = [&](double factor) {
      SizeRange result = range;
      for (size_t p = 0; p < range.least.size(); ++p) {
        int64_t& end = up ? result.most[p] : result.least[p];
        // Sizes of 0 and 1 have a meaning of their own.
        end =
            up ? static_cast<int64_t>(static_cast<double>(given.most[p]) * factor)
               : std::min(end, std::max<int64_t>(given.least[p] / static_cast<int64_t>(factor), 2));
      }
      return result;
    };
    auto all_hold = [&](const SizeRange& at) { return std::ranges::all_of(CornersOf(at), holds); };
    double fails = 0, factor = static_cast<double>(most);
    for (; factor > 1 && !all_hold(wider(factor)); factor /= factor > 4 ? 4 : 2) fails = factor;
    // Sizes often grow by one: a range that ended before the bound would be left at once.
    while (up && fails > 0) {
      double middle = (factor + fails) / 2;
      SizeRange between = wider(middle);
      if (between.most == wider(factor).most || between.most == wider(fails).most) break;
      (all_hold(between) ? factor : fails) = middle;
    }
    if (factor > 1) range = wider(factor);
  }
  return range;
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
  return WithDimParams(graphs[0], found.rule->lowered, *found.rule->ParametersOf(first.sizes));
}

}  // namespace hammock
