#include "compiler/passes/simplify.h"

#include "base/never_destroyed.h"
#include "compiler/passes/simplify_rules.h"

namespace hammock {

Graph Simplify(Graph graph) {
  static const auto& rules = NeverDestroyed<std::vector<RuleFor>>([] {
    std::vector<RuleFor> all(NumberRules().begin(), NumberRules().end());
    all.insert(all.end(), ShapeRules().begin(), ShapeRules().end());
    return all;
  }());
  return Rewriter(rules).Run(std::move(graph));
}

}  // namespace hammock
