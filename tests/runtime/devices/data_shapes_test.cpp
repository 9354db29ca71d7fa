// Ops whose shape depends on values: where they end the graph, who is told, and the forms that do
// not.

#include <gtest/gtest.h>

#include "hammock/config.h"
#include "runtime/runtime.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class DataShapes : public Runtime {};

TEST_F(DataShapes, OnlyWhatTheCountNeedsIsComputed) {
  Tensor x = OnDevice({0, 1, 0, 2});
  Tensor needed = x * 2.0f;
  Tensor unrelated = exp(x);
  Tensor later = needed + 1.0f;
  Tensor found = nonzero(needed);
  EXPECT_FALSE(needed.is_pending()) << "computed on the way, and kept";
  EXPECT_TRUE(unrelated.is_pending());
  EXPECT_TRUE(later.is_pending());
  EXPECT_TRUE(found.is_pending()) << "only its size was read";
  EXPECT_EQ(found.shape(), Shape(i64, {2, 1}));
  int64_t nodes = NodesRun();
  EXPECT_TENSOR_EQ(found, {1, 3}, {2, 1});
  EXPECT_EQ(NodesRun() - nodes, 1) << "nothing is computed again";
}

TEST_F(DataShapes, AreCountedByOpAndLine) {
  Tensor x = OnDevice({0, 1, 2});
  int64_t all = CounterOf("DataDependentShape");
  masked_select(x, x > 0.0f);
  std::string name = "DataDependentShape::masked_select at " + Line(__LINE__ - 1);
  EXPECT_EQ(CounterOf(name), 1) << metrics::Report();
  EXPECT_EQ(CounterOf("DataDependentShape"), all + 1);
  CompileMiss miss = Lazy().GetMisses().back();
  EXPECT_EQ(miss.trigger, "the shape of masked_select");
  EXPECT_NE(miss.where.find(Line(__LINE__ - 6)), std::string::npos) << miss.where;
  x.index({x > 0.0f});
  EXPECT_EQ(CounterOf("DataDependentShape::index at " + Line(__LINE__ - 1)), 1);
}

TEST_F(DataShapes, AreNamedWhereExecutionIsForbidden) {
  Tensor x = OnDevice({0, 1, 2});
  Tensor y = x + 1.0f;
  NoExecution none("a test");
  EXPECT_CODE(nonzero(y), ErrorCode::kExecutionForbidden, "the shape of nonzero would run");
  EXPECT_CODE(masked_select(y, y > 1.0f), ErrorCode::kExecutionForbidden,
              "the shape of masked_select");
  EXPECT_CODE(unique(y), ErrorCode::kExecutionForbidden, "the shape of unique");
  EXPECT_CODE(y.index({y > 1.0f}), ErrorCode::kExecutionForbidden, "the shape of index");
  EXPECT_CODE(bincount(y.to(i64)), ErrorCode::kExecutionForbidden, "the shape of bincount");
}

TEST_F(DataShapes, AGivenSizeReadsNothing) {
  Tensor x = OnDevice({3, 0, 1, 3, 0});
  int64_t reads = CounterOf("DataDependentShape");
  Tensor few, more, filled, picked, cut, values, inverse, counts, smallest, little;
  {
    NoExecution none("a size is given");
    few = nonzero_static(x, 2);
    more = nonzero_static(x, 4);
    filled = nonzero_static(x, 4, 99);
    picked = masked_select_static(x, x > 0.5f, 4, -7.5);
    cut = masked_select_static(x, x > 0.5f, 2);
    std::tie(values, inverse, counts) = unique_static(x, 4, -1);
    std::tie(smallest, std::ignore, little) = unique_static(x, 2);
  }
  EXPECT_EQ(CounterOf("DataDependentShape"), reads);
  EXPECT_TENSOR_EQ(few, {0, 2}, {2, 1});
  EXPECT_TENSOR_EQ(more, {0, 2, 3, -1}, {4, 1});
  EXPECT_TENSOR_EQ(filled, {0, 2, 3, 99}, {4, 1});
  EXPECT_TENSOR_EQ(picked, {3, 1, 3, -7.5}, {4});
  EXPECT_TENSOR_EQ(cut, {3, 1}, {2});
  EXPECT_TENSOR_EQ(values, {0, 1, 3, -1}, {4});
  EXPECT_TENSOR_EQ(inverse, {2, 0, 1, 2, 0}, {5});
  EXPECT_TENSOR_EQ(counts, {2, 1, 2, 0}, {4});
  EXPECT_TENSOR_EQ(smallest, {0, 1}, {2});
  EXPECT_TENSOR_EQ(little, {2, 1}, {2});
}

TEST_F(DataShapes, AGivenSizeMayBeZeroAndTensorsEmpty) {
  Tensor x = OnDevice({3, 1}), none = zeros({0, 3}, f32, "reference");
  EXPECT_EQ(nonzero_static(x, 0).shape(), Shape(i64, {0, 1}));
  EXPECT_TENSOR_EQ(nonzero_static(none, 1), {-1, -1}, {1, 2});
  EXPECT_TENSOR_EQ(masked_select_static(none, none > 0.0f, 2, 5), {5, 5}, {2});
  auto [values, inverse, counts] = unique_static(none, 2, 5);
  EXPECT_TENSOR_EQ(values, {5, 5}, {2});
  EXPECT_EQ(inverse.shape(), Shape(i64, {0, 3}));
  EXPECT_TENSOR_EQ(counts, {0, 0}, {2});
  EXPECT_EQ(std::get<0>(unique_static(x, 0)).shape(), Shape(f32, {0}));
  EXPECT_CODE(nonzero_static(x, -1), ErrorCode::kNegativeSize);
  EXPECT_CODE(unique_static(x, -1), ErrorCode::kNegativeSize);
  EXPECT_CODE(masked_select_static(x, x, 1), ErrorCode::kDTypeMismatch);
}

TEST_F(DataShapes, UniqueElementsAndSlices) {
  Tensor x = tensor(std::vector<float>{2, 1, 2, 3, 1, 1}, {2, 3}, f32, "reference");
  auto [values, inverse, counts] = unique(x);
  EXPECT_TENSOR_EQ(values, {1, 2, 3}, {3});
  EXPECT_TENSOR_EQ(inverse, {1, 0, 1, 2, 0, 0}, {2, 3});
  EXPECT_TENSOR_EQ(counts, {3, 2, 1}, {3});
  Tensor rows =
      tensor(std::vector<float>{1, 2, 9, 0, 5, 5, 1, 2, 9, 0, 5, 4}, {4, 3}, f32, "reference");
  auto [distinct, which, often] = unique(rows, true, 0);
  EXPECT_TENSOR_EQ(distinct, {0, 5, 4, 0, 5, 5, 1, 2, 9}, {3, 3});
  EXPECT_TENSOR_EQ(which, {2, 1, 2, 0}, {4});
  EXPECT_TENSOR_EQ(often, {1, 1, 2}, {3});
  auto [runs, run, length] = unique_consecutive(OnHost({1, 1, 2, 2, 2, 1}));
  EXPECT_TENSOR_EQ(runs, {1, 2, 1}, {3});
  EXPECT_TENSOR_EQ(run, {0, 0, 1, 1, 1, 2}, {6});
  EXPECT_TENSOR_EQ(length, {2, 3, 1}, {3});
  EXPECT_EQ(std::get<0>(unique(OnHost({NAN, 1, NAN}))).size(0), 3) << "every NaN is distinct";
  EXPECT_EQ(std::get<0>(unique(zeros({0}, f32, "reference"))).size(0), 0);
  EXPECT_CODE(unique(zeros({2, 0}, f32, "reference"), true, 0), ErrorCode::kShapeMismatch);
  EXPECT_CODE(unique(x, true, 2), ErrorCode::kDimOutOfRange);
}

}  // namespace
}  // namespace hammock
