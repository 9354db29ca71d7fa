#include "compiler/sizes/generalise.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "base/throw.h"
#include "compiler/sizes/size_solver.h"
#include "ir/graph_access.h"
#include "ir/id_format.h"
#include "ir/infer.h"

namespace hammock {

namespace {

constexpr std::array kNames = {"n", "m", "k", "l", "p", "q", "r", "s", "t", "u", "v", "w",
                               "x", "y", "z", "b", "a", "c", "d", "e", "g", "h", "i", "j"};

bool Varies(const SizeValues& values) {
  return std::ranges::any_of(values, [&](int64_t value) { return value != values[0]; });
}

/// Sums of a few sizes do not overflow. What is larger is a number, such as the least integer.
bool MayBeSizes(const SizeValues& values) {
  constexpr int64_t kMost = int64_t{1} << 60;
  return std::ranges::all_of(values, [](int64_t value) { return -kMost < value && value < kMost; });
}

/// Finds out which parameters follow from others.
class Derivation {
 public:
  /// `kinds` are those of the slots that define the parameters. Quotients are looked for among
  /// the dims of results: anything fits as a quotient by chance where samples are few.
  Derivation(const std::vector<SizeValues>& parameters, std::vector<SizeSlot::Kind> kinds)
      : parameters_(parameters),
        kinds_(std::move(kinds)),
        derived_(parameters.size()),
        is_factor_(parameters.size()) {}

  DerivedSizes Run() {
    for (size_t p = 0; p < count(); ++p) {
      if (kinds_[p] != SizeSlot::kDim) TryMultiple(p, false);
    }
    const std::vector<bool> is_base = is_factor_;
    for (size_t p = 0; p < count(); ++p) TryMultiple(p, true);
    for (size_t p = 0; p < count(); ++p) TryProducts(p);
    for (size_t p = 0; p < count(); ++p) {
      if (IsFree(p) && kinds_[p] == SizeSlot::kDim && !is_base[p]) TryQuotients(p);
    }
    return std::move(derived_);
  }

 private:
  size_t count() const { return parameters_.size(); }
  bool IsInput(size_t p) const { return kinds_[p] == SizeSlot::kInputDim; }
  bool IsFree(size_t p) const { return derived_[p].factors.empty(); }

  /// A size that was always divided without a rest is the multiple of the quotient.
  void TryMultiple(size_t p, bool of_factors) {
    if (is_factor_[p] || !IsFree(p)) return;
    lazy::DerivedSize best;
    for (size_t a = 0; a < count(); ++a) {
      if (a == p || IsInput(a) || !IsFree(a) || (of_factors && !is_factor_[a])) continue;
      std::optional<lazy::DerivedSize> multiple = ProductOf(parameters_, parameters_[p], {a});
      if (multiple && multiple->coefficient > best.coefficient) best = *multiple;
    }
    Set(p, best);
  }

  void TryProducts(size_t p) {
    auto may_be_factor = [&](size_t i) { return i != p && IsFree(i); };
    // A factor of another is never made a product: it would be one of a product.
    for (size_t a = 0; a < count() && !is_factor_[p]; ++a) {
      for (size_t b = a; b < count() && may_be_factor(a); ++b) {
        if (may_be_factor(b) && IsFree(p)) TryProduct(p, {a, b});
        for (size_t c = b; c < count() && may_be_factor(b); ++c) {
          if (may_be_factor(c) && IsFree(p)) TryProduct(p, {a, b, c});
        }
      }
    }
  }

  void TryProduct(size_t p, const std::vector<size_t>& factors) {
    if (auto product = ProductOf(parameters_, parameters_[p], factors)) Set(p, *product);
  }

  /// By the least divisor.
  void TryQuotients(size_t p) {
    lazy::DerivedSize best;
    for (size_t a = 0; a < p; ++a) {
      if (FollowsFrom(a, p)) continue;
      auto quotient = QuotientOf(parameters_[a], parameters_[p]);
      if (!quotient || (best.divisor > 1 && best.divisor <= quotient->divisor)) continue;
      best = *quotient;
      best.factors = {static_cast<int>(a)};
    }
    Set(p, best);
  }

  bool FollowsFrom(size_t p, size_t other) const {
    return std::ranges::any_of(derived_[p].factors, [&](int factor) {
      auto f = static_cast<size_t>(factor);
      return f == other || FollowsFrom(f, other);
    });
  }

  void Set(size_t p, const lazy::DerivedSize& derived) {
    derived_[p] = derived;
    for (int factor : derived.factors) is_factor_[factor] = true;
  }

  const std::vector<SizeValues>& parameters_;
  const std::vector<SizeSlot::Kind> kinds_;
  DerivedSizes derived_;
  std::vector<bool> is_factor_;
};

/// Builds a rule: first the inputs' dims, then what is left of the traced sizes, then numbers and
/// the lowered sizes, which define nothing.
class RuleFinder {
 public:
  RuleFinder(std::span<const SizeSample> samples, std::span<const SizeSlot> traced,
             std::span<const SizeSlot> lowered)
      : samples_(samples), traced_(traced), lowered_(lowered) {}

  FoundRule Run() {
    auto define = [&](auto is_this) {
      for (size_t i = 0; i < traced_.size(); ++i) {
        if (is_this(traced_[i].kind) && !Define(i)) return false;
      }
      return true;
    };
    if (!define([](SizeSlot::Kind kind) { return kind == SizeSlot::kInputDim; })) return {};
    if (!define([](SizeSlot::Kind kind) {
          return kind == SizeSlot::kDim || kind == SizeSlot::kAttribute;
        })) {
      return {};
    }
    if (parameters_.empty()) return {};
    std::vector<SizeSlot::Kind> kinds;
    for (size_t index : rule_.defined_at) kinds.push_back(traced_[index].kind);
    rule_.derived = Derivation(parameters_, std::move(kinds)).Run();
    defined_ = parameters_.size();
    for (size_t i = 0; i < traced_.size(); ++i) {
      if (traced_[i].kind != SizeSlot::kConstant) continue;
      // A number in the graph may follow from sizes; it is none itself.
      if (!Explain(At(&SizeSample::traced, i), i, rule_.traced)) return {};
    }
    for (size_t i = 0; i < lowered_.size(); ++i) {
      if (!Explain(At(&SizeSample::lowered, i), i, rule_.lowered)) {
        return {std::nullopt, lowered_[i]};
      }
    }
    std::ranges::sort(rule_.traced, {}, &std::pair<size_t, DimExpr>::first);
    rule_.fixed = samples_.back();
    return {std::move(rule_), std::nullopt};
  }

 private:
  SizeValues At(std::vector<int64_t> SizeSample::*sizes, size_t index) const {
    SizeValues values;
    for (const SizeSample& sample : samples_) values.push_back((sample.*sizes)[index]);
    return values;
  }

  /// Explains a traced size, or makes it a parameter.
  bool Define(size_t index) {
    SizeValues values = At(&SizeSample::traced, index);
    if (!Varies(values)) return true;
    if (!MayBeSizes(values)) return false;
    std::optional<DimExpr> expr = ExprOf(values, traced_[index].kind);
    if (!expr) {
      if (parameters_.size() == kNames.size()) return false;
      expr = DimExpr{0, {{static_cast<int>(parameters_.size()), 1}}};
      parameters_.push_back(std::move(values));
      rule_.defined_at.push_back(index);
    }
    rule_.traced.emplace_back(index, std::move(*expr));
    return true;
  }

  std::optional<DimExpr> ExprOf(const SizeValues& values, SizeSlot::Kind kind) const {
    if (kind == SizeSlot::kInputDim) return SizeSolver(parameters_, values).Multiple();
    if (std::optional<DimExpr> expr = SizeSolver(parameters_, values).Plain()) return expr;
    // A dim that is a quotient is a parameter, whatever else may fit by chance.
    auto divides = [&](const SizeValues& dividends) {
      return QuotientOf(dividends, values).has_value();
    };
    if (kind == SizeSlot::kDim && std::ranges::any_of(parameters_, divides)) return std::nullopt;
    return SizeSolver(parameters_, values).Linear();
  }

  /// Explains a size or number by the parameters and their products.
  bool Explain(const SizeValues& values, size_t index, SizeRule::Exprs& exprs) {
    if (!Varies(values)) return true;
    if (!MayBeSizes(values)) return false;
    std::optional<DimExpr> expr = SizeSolver(parameters_, values).Sum();
    if (!expr) expr = ProductFor(values);
    if (!expr) expr = SizeSolver(parameters_, values).Linear();
    if (!expr) return false;
    exprs.emplace_back(index, std::move(*expr));
    return true;
  }

  /// A multiple of a new parameter that is a product of two or three.
  std::optional<DimExpr> ProductFor(const SizeValues& values) {
    if (parameters_.size() == kNames.size()) return std::nullopt;
    lazy::DerivedSize best;
    auto offer = [&](const std::vector<size_t>& factors) {
      auto product = ProductOf(parameters_, values, factors);
      if (!product) return;
      if (best.factors.empty() || product->coefficient < best.coefficient) best = *product;
    };
    for (size_t a = 0; a < defined_; ++a) {
      for (size_t b = a; b < defined_; ++b) offer({a, b});
    }
    for (size_t a = 0; a < defined_ && best.factors.empty(); ++a) {
      for (size_t b = a; b < defined_; ++b) {
        for (size_t c = b; c < defined_; ++c) offer({a, b, c});
      }
    }
    if (best.factors.empty()) return std::nullopt;
    int64_t coefficient = std::exchange(best.coefficient, 1);
    SizeValues product;
    for (size_t sample = 0; sample < values.size(); ++sample) {
      product.push_back(values[sample] / coefficient);
    }
    parameters_.push_back(std::move(product));
    rule_.derived.push_back(std::move(best));
    return DimExpr{0, {{static_cast<int>(parameters_.size()) - 1, coefficient}}};
  }

  std::span<const SizeSample> samples_;
  std::span<const SizeSlot> traced_;
  std::span<const SizeSlot> lowered_;
  std::vector<SizeValues> parameters_;
  size_t defined_ = 0;  // the parameters that are traced sizes
  SizeRule rule_;
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
  if (!AppendDerived(derived, parameters)) return std::nullopt;
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

FoundRule FindRule(std::span<const SizeSample> samples, std::span<const SizeSlot> traced,
                   std::span<const SizeSlot> lowered) {
  return RuleFinder(samples, traced, lowered).Run();
}

Graph InferredAt(Graph traced, const SizeRule& rule, std::vector<int64_t> parameters) {
  const std::vector<SizeSlot> slots = SizeSlotsOf(traced);
  std::vector<const Shape*> in;
  auto next = rule.traced.begin();
  for (NodeId id : traced.ids()) {
    GraphNode& node = traced.mutable_node(id);
    auto begin = next;
    std::vector<SizeSlot> set;
    std::vector<int64_t> sizes;
    for (; next != rule.traced.end() && slots[next->first].node == id; ++next) {
      if (slots[next->first].kind == SizeSlot::kDim) continue;
      set.push_back(slots[next->first]);
      sizes.push_back(next->second.Evaluate(parameters));
    }
    SetSizes(node, set, sizes);
    if (TypeIsGiven(*node.op)) continue;
    in.clear();
    for (GraphValue input : node.inputs) {
      in.push_back(!input.node ? nullptr : &traced.TypeOf(input));
    }
    node.types = InferShapes(*node.op, in, node.attrs);
    // Parameters that this node defines, and those that follow from them.
    for (auto at = begin; at != next; ++at) {
      const SizeSlot& slot = slots[at->first];
      auto defined = std::ranges::find(rule.defined_at, at->first);
      if (defined == rule.defined_at.end() || slot.kind != SizeSlot::kDim) continue;
      auto p = static_cast<size_t>(defined - rule.defined_at.begin());
      parameters[p] = node.types[slot.which].size(slot.position);
      for (size_t later = p + 1; later < parameters.size(); ++later) {
        const lazy::DerivedSize& derived = rule.derived[later];
        if (!derived.factors.empty()) parameters[later] = ValueOf(derived, parameters);
      }
    }
  }
  return traced;
}

namespace {

using ExprsInSlots = std::vector<std::pair<const SizeSlot*, const DimExpr*>>;

void SetExprs(Graph& graph, const std::vector<DimParam>& params, const ExprsInSlots& exprs) {
  graph.dim_params = params;
  std::map<std::pair<NodeId, int>, ExprsInSlots> in_bodies;
  for (auto [slot, expr] : exprs) {
    if (slot->inside) {
      in_bodies[{slot->node, slot->which}].emplace_back(slot->inside.get(), expr);
      continue;
    }
    bool attribute = slot->kind == SizeSlot::kAttribute || slot->kind == SizeSlot::kConstant;
    auto& list = attribute ? graph.attr_exprs : graph.dim_exprs;
    list[{slot->node, slot->which, slot->position}] = *expr;
  }
  for (const auto& [where, inner] : in_bodies) {
    SharedList<Attr>& attrs = graph.mutable_node(where.first).attrs;
    auto body = std::make_shared<Graph>(attrs[where.second].graph());
    SetExprs(*body, params, inner);
    attrs.Set(where.second, Attr(std::shared_ptr<const Graph>(std::move(body))));
  }
}

}  // namespace

Graph WithDimParams(Graph graph, const SizeRule::Exprs& exprs,
                    const std::vector<int64_t>& parameters) {
  std::vector<DimParam> params;
  for (size_t i = 0; i < parameters.size(); ++i) params.push_back({kNames[i], parameters[i]});
  const std::vector<SizeSlot> slots = SizeSlotsOf(graph);
  ExprsInSlots placed;
  for (const auto& [index, expr] : exprs) placed.emplace_back(&slots[index], &expr);
  SetExprs(graph, params, placed);
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

std::vector<std::vector<int64_t>> SampleSizes(const std::vector<int64_t>& sizes) {
  std::vector<std::vector<int64_t>> samples{sizes};
  std::vector<int64_t> all = sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    samples.push_back(sizes);
    samples.back()[i] *= 2;
    all[i] *= 3 + static_cast<int64_t>(i);
  }
  samples.push_back(all);
  return samples;
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
  std::vector<SizeSlot> slots = SizeSlotsOf(graphs[0]);
  FoundRule found = FindRule(samples, slots, slots);
  if (!found.rule) {
    Throw(ErrorCode::kValue, "{}: {}", what,
          found.unexplained ? fmt::format("a size of %{} is no linear function of the free dims",
                                          found.unexplained->node)
                            : std::string("too many of its sizes vary"));
  }
  if (found.rule->derived.size() > found.rule->defined_at.size()) {
    Throw(ErrorCode::kValue, "{}: a size is a product of free dims", what);
  }
  for (size_t index : found.rule->defined_at) {
    if (slots[index].kind == SizeSlot::kInputDim) continue;
    Throw(ErrorCode::kValue, "{}: a size of %{} does not follow from the free dims", what,
          slots[index].node);
  }
  return WithDimParams(graphs[0], found.rule->lowered, *found.rule->ParametersOf(first.sizes));
}

}  // namespace hammock
