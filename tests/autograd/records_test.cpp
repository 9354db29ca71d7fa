// Every record: its samples lazily and eagerly, and its gradients of first and second order.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "hammock/hammock.h"
#include "hammock/testing.h"
#include "ir/op_registry.h"
#include "ir/primitives.h"
#include "ops/nn/quantize.h"
#include "ops/primitives/module_call.h"
#include "ops/sparse/sparse_matmul.h"
#include "support/source_path.h"

namespace hammock {
namespace {

/// What has no sample call: leaves have data, and bodies are graphs, which control_test.cpp makes.
const std::set<const OpDef*> kWithoutSamples = {
    &ops::kInput,
    &ops::kDeviceData,
    &ops::kScalarLeaf,
    &ops::kRngState,
    &ops::kCond,
    &ops::kWhile,
    &ops::kLoop,
    &ops::kCustomCall,
    &ops::kCall,
    &ops::kModuleCall,
    &ops::kTensorList,
    // Symmetric matrices, which linalg_test.cpp makes.
    &ops::kCholesky,
    &ops::kEigh,
    // Vectors of any phase, which linalg_test.cpp takes out.
    &ops::kEig,
    // No gradient for the first operand; bessel_gamma_test.cpp checks the other.
    &ops::kIgamma,
    &ops::kIgammac,
    &ops::kZeta,
    // Rows that begin in order, which sparse_test.cpp makes.
    &ops::kCsrMatmul,
    // Not the gradient of its steps, which quantize_test.cpp checks.
    &ops::kFakeQuantize,
};

class EveryOp : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOp, IsRight) { EXPECT_EQ(testing::CheckOp(*GetParam()), ""); }

/// PyTorch's gradient of ctc_loss is that of the operand of the log_softmax before it.
TEST(Records, CtcLossIsDifferentiatedThroughLogSoftmax) {
  Tensor scores = linspace(-1.0, 1.0, 4 * 2 * 3, DType::kF64).sin().reshape({4, 2, 3});
  Tensor targets = tensor({{1, 2}, {2, 1}}), lengths = tensor({4, 3}), sizes = tensor({2, 1});
  for (const char* reduction : {"none", "mean", "sum"}) {
    TensorsFn loss = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      return {ctc_loss(log_softmax(in[0], 2), targets, lengths, sizes, 0, reduction)};
    };
    EXPECT_EQ(testing::Gradcheck(loss, {scores}), "") << reduction;
  }
}

std::vector<const OpDef*> Nodes() {
  std::vector<const OpDef*> nodes;
  for (const OpDef* op : ops::InTreeOps()) {
    bool is_ctc = std::string_view(op->name()).starts_with("ctc_loss");
    if (op->IsNode() && !kWithoutSamples.contains(op) && !is_ctc) nodes.push_back(op);
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
  std::set<std::string> without;
  for (const OpDef* op : ops::InTreeOps()) {
    if (!op->IsPrimitive() || op->vjp || kWithoutSamples.contains(op)) continue;
    bool makes_floats = op->rule == DTypeRule::kPromote || op->rule == DTypeRule::kFloat ||
                        op->rule == DTypeRule::kSelect;
    if (makes_floats) without.insert(op->name());
  }
  EXPECT_EQ(without, std::set<std::string>{"nextafter"});
}

TEST(Records, WithoutSamplesCannotBeChecked) {
  for (const OpDef* op : kWithoutSamples) EXPECT_NE(testing::CheckOp(*op), "") << op->name();
}

TEST(Records, TheTableInTheDocsIsFresh) {
  std::string path = testing::SourcePath("docs/ops.md");
  std::string table =
      "# Ops\nEvery op that can be called by name, made from the records by `UPDATE_DOCS=1 "
      "autograd_tests`. A primitive is run by\nbackends; a composite is one node that a backend "
      "may "
      "take whole and that is otherwise expanded; a function makes no\nnode of its own. Gradient: "
      "`own`, by the record; `expanded`, by those of its parts. Autocast:\nwhat floats are cast to "
      "in "
      "the scope of an `AutocastGuard`. The C++ function has the op's name;\n[cpp-names.md]"
      "(cpp-names.md) has those that differ.\n\n" +
      DescribeOps();
  if (std::getenv("UPDATE_DOCS")) std::ofstream(path) << table;
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str() == table, true) << "run autograd_tests with UPDATE_DOCS=1";
}

}  // namespace
}  // namespace hammock
