// Every record: its samples lazily and eagerly, and its gradients of first and second order.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "hammock/hammock.h"
#include "hammock/testing.h"
#include "ops/primitives.h"
#include "ops/table.h"

namespace hammock {
namespace {

/// What has no sample call: leaves have data, and bodies are graphs, which control_test.cpp makes.
const std::set<const OpDef*> kWithoutSamples = {
    &ops::kInput,
    &ops::kDeviceData,
    &ops::kScalarLeaf,
    &ops::kRngState,
    &ops::kConstant,
    &ops::kCond,
    &ops::kWhile,
    &ops::kLoop,
    &ops::kCustomCall,
    &ops::kCall,
    &ops::kTensorList,
    // Symmetric matrices, which linalg_test.cpp makes.
    &ops::kCholesky,
    &ops::kEigh,
    // No gradient for the first operand; bessel_gamma_test.cpp checks the other.
    &ops::kIgamma,
    &ops::kIgammac,
    &ops::kZeta,
};

class EveryOp : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOp, IsRight) { EXPECT_EQ(testing::CheckOp(*GetParam()), ""); }

std::vector<const OpDef*> Nodes() {
  std::vector<const OpDef*> nodes;
  for (const OpDef* op : ops::InTreeOps()) {
    if (op->IsNode() && !kWithoutSamples.contains(op)) nodes.push_back(op);
  }
  return nodes;
}

INSTANTIATE_TEST_SUITE_P(Records, EveryOp, ::testing::ValuesIn(Nodes()), [](const auto& info) {
  std::string name = info.param->name();
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
});

/// Primitives that give floats from floats and still have no gradient.
TEST(Records, WithoutAGradientAreKnown) {
  const std::set<std::string> known = {"nextafter", "bitcast", "while", "custom_call"};
  for (const OpDef* op : ops::InTreeOps()) {
    if (!op->IsPrimitive() || op->vjp || kWithoutSamples.contains(op)) continue;
    bool makes_floats = op->rule == DTypeRule::kPromote || op->rule == DTypeRule::kFloat ||
                        op->rule == DTypeRule::kSelect;
    if (makes_floats) {
      EXPECT_TRUE(known.contains(op->name())) << op->name();
    }
  }
}

}  // namespace
}  // namespace hammock
