// Every record under vmap: equal to a loop over the samples.

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "hammock/testing.h"
#include "ir/op_registry.h"
#include "ir/sample.h"
#include "vmap/batching.h"

namespace hammock {
namespace {

class EveryOp : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(EveryOp, IsTheStackedLoop) { EXPECT_EQ(testing::CheckBatching(*GetParam()), ""); }

std::vector<const OpDef*> NodesWithSamples() {
  std::vector<const OpDef*> nodes;
  for (const OpDef* op : ops::InTreeOps()) {
    if (op->IsNode() && !SampleCalls(*op).empty()) nodes.push_back(op);
  }
  return nodes;
}

INSTANTIATE_TEST_SUITE_P(Records, EveryOp, ::testing::ValuesIn(NodesWithSamples()),
                         [](const auto& info) {
                           std::string name = info.param->name();
                           for (char& c : name) {
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           }
                           return name;
                         });

/// What the test above does not see: leaves and lists, which are not batched, graphs as bodies, and
/// operands that no text describes (symmetric matrices, rows in order), which vmap_test.cpp makes.
TEST(Records, WithoutSamplesAreKnown) {
  std::set<std::string> without;
  for (const OpDef* op : ops::InTreeOps()) {
    if (op->IsNode() && SampleCalls(*op).empty()) without.insert(op->name());
  }
  EXPECT_EQ(without, (std::set<std::string>{
                         "_csr_matmul", "_fake_quantize", "call", "cond", "custom_call",
                         "device_data", "input", "linalg_cholesky", "linalg_eig", "linalg_eigh",
                         "loop", "module_call", "rng_state", "scalar", "tensor_list", "while"}));
}

/// A primitive without a rule would run once per sample, unnoticed.
TEST(VmapRules, EveryPrimitiveHasOneOrIsKnownToBeLooped) {
  for (const OpDef* op : ops::InTreeOps()) {
    bool takes_tensors = op->IsNode() && !op->info().operand_args.empty();
    if (!takes_tensors || !op->IsPrimitive()) continue;
    EXPECT_NE(vmap_rules::RuleOf(*op) != nullptr, vmap_rules::IsLooped(*op)) << op->name();
  }
}

}  // namespace
}  // namespace hammock
