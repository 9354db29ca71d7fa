#include "compiler/simplify.h"

#include "compiler/bodies.h"
#include "compiler/simplify_rules.h"

namespace hammock {

Graph Simplify(Graph graph) {
  RequireConcrete("simplify", graph);
  static const auto& rules = *new std::vector<RuleFor>([] {
    std::vector<RuleFor> all(NumberRules().begin(), NumberRules().end());
    all.insert(all.end(), ShapeRules().begin(), ShapeRules().end());
    return all;
  }());
  Graph out = Rewriter(rules).Run(std::move(graph));
  MapBodies(out, Simplify);
  return out;
}

}  // namespace hammock
