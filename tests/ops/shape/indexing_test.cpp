#include "hammock/executor.h"
#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Tensor Grid() { return tensor({{0.0, 1.0, 2.0}, {10.0, 11.0, 12.0}}); }
Tensor Ints(std::vector<double> values) { return Vec(values, i64); }

int64_t ShapeReads() { return metrics::CounterValue("DataDependentShape").value_or(0); }

TEST(Index, IntegersAndSlicesAreViews) {
  Tensor x = Grid();
  EXPECT_TENSOR(x[1], Type(f32, {3}), {10, 11, 12});
  EXPECT_TENSOR(x.index({Ellipsis, -1}), Type(f32, {2}), {2, 12});
  EXPECT_TENSOR(x.index({None, Slice(0, 1)}), Type(f32, {1, 1, 3}), {0, 1, 2});
  EXPECT_TENSOR(x.index({Slice(), Slice(None, None, 2)}), Type(f32, {2, 2}), {0, 2, 10, 12});
  Tensor row = x[0];
  row.add_(100.0);
  EXPECT_TENSOR(x, Type(f32, {2, 3}), {100, 101, 102, 10, 11, 12});
  x.index_put_({1, Slice(1, 3)}, 7.0);
  EXPECT_TENSOR(x[1], Type(f32, {3}), {10, 7, 7});
  EXPECT_ERROR(x[2], ValueError, "index 2 is out of bounds for dimension 0 with size 2");
  EXPECT_ERROR(x.index({0, 0, 0}), ValueError, "too many indices");
}

TEST(Index, TensorsBroadcastAndKeepTheirPlace) {
  Tensor x = Grid();
  EXPECT_TENSOR(x.index({Ints({1, 0, -1})}), Type(f32, {3, 3}), {10, 11, 12, 0, 1, 2, 10, 11, 12});
  EXPECT_TENSOR(x.index({Ints({0, 1}), Ints({2, 0})}), Type(f32, {2}), {2, 10});
  EXPECT_TENSOR(x.index({Slice(), Ints({2, 0})}), Type(f32, {2, 2}), {2, 0, 12, 10});
  Tensor cube = arange(8.0).view({2, 2, 2});
  // Indices with a slice between them: their dims come first.
  EXPECT_TENSOR(cube.index({Ints({0, 1, 1}), Slice(), Ints({1, 0, 1})}), Type(f32, {3, 2}),
                {1, 3, 4, 6, 5, 7});
}

TEST(Index, WrongIndicesRaiseWhenRead) {
  Tensor x = Grid();
  EXPECT_ERROR(x.index({Ints({2})}).host(), Error, "out of bounds");
  // 0 * 3 + 5 would be a valid flat index.
  EXPECT_ERROR(x.index({Ints({0}), Ints({5})}).host(), Error, "out of bounds");
  EXPECT_TENSOR(x.index({Ints({-1}), Ints({-3})}), Type(f32, {1}), {10});
}

TEST(Index, MasksReadTheirCount) {
  Tensor x = Grid();
  int64_t before = ShapeReads();
  EXPECT_TENSOR(x.index({x > 1.5}), Type(f32, {4}), {2, 10, 11, 12});
  EXPECT_TENSOR(x.index({Vec({0, 1}, boolean)}), Type(f32, {1, 3}), {10, 11, 12});
  EXPECT_TENSOR(x.index({Slice(), Vec({1, 0, 1}, boolean)}), Type(f32, {2, 2}), {0, 2, 10, 12});
  EXPECT_EQ(ShapeReads() - before, 3);
  x.index_put_({x > 10.5}, -1.0);
  EXPECT_TENSOR(x, Type(f32, {2, 3}), {0, 1, 2, 10, -1, -1});
  EXPECT_EQ(ShapeReads() - before, 3);  // one value through one mask needs no count
  EXPECT_ERROR(x.index({Vec({1, 0, 1}, boolean)}), ValueError, "mask");
}

TEST(Index, PutWritesOrAccumulates) {
  Tensor x = zeros({3});
  EXPECT_TENSOR(index_put(x, {Ints({0, 0, 2})}, Vec({1, 2, 3}), true), Type(f32, {3}), {3, 0, 3});
  EXPECT_TENSOR(index_put(x, {Ints({0, 2})}, tensor(5.0)), Type(f32, {3}), {5, 0, 5});
  EXPECT_TENSOR(put(Grid(), Ints({-1}), Vec({9})), Type(f32, {2, 3}), {0, 1, 2, 10, 11, 9});
  EXPECT_TENSOR(take(Grid(), Ints({4, -6})), Type(f32, {2}), {11, 0});
}

TEST(Index, BoxedItems) {
  Tensor x = Grid();
  AnyDict range{{"slice", Any(AnyList{1, Any(), Any()})}};
  EXPECT_TENSOR(CallOp("getitem", {x, Any(AnyList{"...", Any(range)})}).ToTensor(),
                Type(f32, {2, 2}), {1, 2, 11, 12});
  CallOp("setitem", {x, Any(AnyList{0, 1}), 50.0});
  EXPECT_TENSOR(x[0], Type(f32, {3}), {0, 50, 2});
}

TEST(Index, BoxedListsAreTensorsOfIndices) {
  Tensor x = Grid();  // 0 1 2, 10 11 12
  auto at = [&](AnyList indices) { return CallOp("getitem", {x, Any(indices)}).ToTensor(); };
  EXPECT_TENSOR(at({Any::Ints({1, 0, 1})}), Type(f32, {3, 3}), {10, 11, 12, 0, 1, 2, 10, 11, 12});
  EXPECT_TENSOR(at({Any::Ints({0, 1}), Any::Ints({-1, 0})}), Type(f32, {2}), {2, 10});
  EXPECT_TENSOR(at({"...", Any::Ints({2})}), Type(f32, {2, 1}), {2, 12});
  Any rows = AnyList{Any::Ints({0}), Any::Ints({1})};
  EXPECT_TENSOR(at({rows, Any::Ints({0, 2})}), Type(f32, {2, 2}), {0, 2, 10, 12});
  EXPECT_TENSOR(at({Any(AnyList{false, true})}), Type(f32, {1, 3}), {10, 11, 12});
  EXPECT_TENSOR(at({Any(AnyList{true, 0})}), Type(f32, {2, 3}), {10, 11, 12, 0, 1, 2});
  EXPECT_EQ(at({Any(AnyList{})}).shape(), Type(f32, {0, 3}));
  CallOp("setitem", {x, Any(AnyList{Any::Ints({0, 1}), Any::Ints({1, 2})}), 7.0});
  EXPECT_TENSOR(x, Type(f32, {2, 3}), {0, 7, 2, 10, 11, 7});

  EXPECT_ERROR(at({Any::Ints({0, 2})}).host(), Error, "out of bounds");
  EXPECT_ERROR(at({Any(AnyList{0, 1.5})}), TypeError, "has ints or bools, got 1.5");
  EXPECT_ERROR(at({Any(AnyList{0, Any::Ints({1})})}), ValueError, "same length at each depth");
  EXPECT_ERROR(at({Any(AnyList{Any::Ints({1}), 0})}), ValueError, "same length at each depth");
  EXPECT_ERROR(at({Any(AnyList{Any::Ints({0, 1}), Any::Ints({0})})}), ValueError, "same length");
  Any deep = 0;
  for (int i = 0; i < 100; ++i) deep = AnyList{deep};
  EXPECT_ERROR(at({deep}), ValueError, "nest at most");
}

TEST(Gather, AndScatter) {
  Tensor index = tensor({{2, 0}, {1, 1}}, i64);
  EXPECT_TENSOR(gather(Grid(), 1, index), Type(f32, {2, 2}), {2, 0, 11, 11});
  EXPECT_TENSOR(scatter(zeros({2, 3}), 1, index, 5.0), Type(f32, {2, 3}), {5, 0, 5, 0, 5, 0});
  EXPECT_TENSOR(scatter_add(zeros({2, 3}), 1, index, tensor({{1.0, 2.0}, {3.0, 4.0}})),
                Type(f32, {2, 3}), {2, 0, 1, 0, 7, 0});
  EXPECT_ERROR(gather(Grid(), 1, Ints({0})), ValueError, "as many dims");
  EXPECT_ERROR(gather(Grid(), 1, Vec({0})), TypeError, "index must be i64");
  EXPECT_ERROR(gather(Grid(), 1, tensor({{3}, {0}}, i64)).host(), Error, "out of bounds");
}

TEST(Gather, ScatterReduceLeavesUntouchedElements) {
  Tensor self = Vec({10, 20, 30}), index = Ints({0, 0, 1}), source = Vec({1, 2, 3});
  EXPECT_TENSOR(scatter_reduce(self, 0, index, source, "sum", false), Type(f32, {3}), {3, 3, 30});
  EXPECT_TENSOR(scatter_reduce(self, 0, index, source, "mean"), Type(f32, {3}),
                {13.0f / 3, 11.5, 30}, 1e-6);
  EXPECT_TENSOR(scatter_reduce(self, 0, index, source, "amax", false), Type(f32, {3}), {2, 3, 30});
  EXPECT_TENSOR(scatter_reduce(self, 0, index, source, "prod", false), Type(f32, {3}), {2, 3, 30});
  EXPECT_ERROR(scatter_reduce(self, 0, index, source, "max"), ValueError, "amax or amin");
}

TEST(Gather, AlongOneDim) {
  EXPECT_TENSOR(index_select(Grid(), 1, Ints({2, 2})), Type(f32, {2, 2}), {2, 2, 12, 12});
  EXPECT_TENSOR(index_add(zeros({2, 2}), 0, Ints({1, 1}), ones({2, 2}), 3), Type(f32, {2, 2}),
                {0, 0, 6, 6});
  EXPECT_TENSOR(index_copy(Grid(), 0, Ints({0}), zeros({1, 3})), Type(f32, {2, 3}),
                {0, 0, 0, 10, 11, 12});
  EXPECT_TENSOR(index_fill(Grid(), 1, Ints({-1}), 9.0), Type(f32, {2, 3}), {0, 1, 9, 10, 11, 9});
  EXPECT_TENSOR(take_along_dim(Grid(), argsort(Grid(), 1, true), 1), Type(f32, {2, 3}),
                {2, 1, 0, 12, 11, 10});
  EXPECT_TENSOR(embedding(tensor({{1}, {0}}, i64), Grid()), Type(f32, {2, 1, 3}),
                {10, 11, 12, 0, 1, 2});
  EXPECT_ERROR(index_add(zeros({2, 2}), 0, Ints({1}), ones({2, 2})), ValueError, "source");
}

TEST(Gather, InPlaceFormsWriteThroughViews) {
  Tensor x = zeros({2, 3});
  Tensor row = x[1];
  row.index_fill_(0, Ints({0, 2}), 4.0);
  row.masked_fill_(row == 0.0, 1.0);
  EXPECT_TENSOR(x, Type(f32, {2, 3}), {0, 0, 0, 4, 1, 4});
  x.scatter_(1, tensor({{0}, {0}}, i64), 8.0);
  EXPECT_TENSOR(row, Type(f32, {3}), {8, 1, 4});
}

TEST(Mask, FillSelectScatter) {
  Tensor x = Grid(), mask = x > 1.5;
  EXPECT_TENSOR(masked_fill(x, mask, -1.0), Type(f32, {2, 3}), {0, 1, -1, -1, -1, -1});
  EXPECT_TENSOR(masked_select(x, mask), Type(f32, {4}), {2, 10, 11, 12});
  EXPECT_TENSOR(masked_scatter(x, mask, Vec({5, 6, 7, 8})), Type(f32, {2, 3}), {0, 1, 5, 6, 7, 8});
  EXPECT_ERROR(masked_scatter(x, mask, Vec({5})).host(), Error, "out of bounds");
  EXPECT_TENSOR(nonzero(Vec({0, 3, 0, 4})), Type(i64, {2, 1}), {1, 3});
  EXPECT_TENSOR(nonzero(tensor(1.0)), Type(i64, {1, 0}), {});
  EXPECT_ERROR(masked_fill(x, Vec({1, 0, 0}), 0.0), TypeError, "mask must be bool");
}

TEST(Mask, FillDoesNotRecompileForANewValue) {
  Tensor x = Grid(), mask = Vec({1, 0, 0}, boolean);
  masked_fill(x, mask, 2.0).host();
  int64_t before = Compiles();
  masked_fill(x, mask, 0.0).host();
  EXPECT_EQ(Compiles(), before);
}

TEST(Sort, PutsNanLastAndIsStable) {
  auto [values, indices] = sort(Vec({3, kNan, 1, 3}));
  EXPECT_TENSOR(values, Type(f32, {4}), {1, 3, 3, kNan});
  EXPECT_TENSOR(indices, Type(i64, {4}), {2, 0, 3, 1});
  EXPECT_TENSOR(argsort(Vec({1, 2, 2}, i64), 0, true), Type(i64, {3}), {1, 2, 0});
  auto [best, where_best] = topk(Vec({1, 5, 3, 4}), 2);
  EXPECT_TENSOR(best, Type(f32, {2}), {5, 4});
  EXPECT_TENSOR(where_best, Type(i64, {2}), {1, 3});
  EXPECT_TENSOR(std::get<0>(sort(tensor(2.0))), Type(f32, {}), {2});
  EXPECT_ERROR(topk(Vec({1}), 2), ValueError, "topk: k must be from 0 to 1");
}

TEST(Search, BucketsAndCounts) {
  Tensor bounds = Vec({1, 3, 5});
  EXPECT_TENSOR(searchsorted(bounds, Vec({0, 3, 9})), Type(i64, {3}), {0, 1, 3});
  EXPECT_TENSOR(bucketize(Vec({3, kNan}), bounds, true, true), Type(i32, {2}), {2, 3});
  EXPECT_TENSOR(bincount(Ints({1, 3, 1})), Type(i64, {4}), {0, 2, 0, 1});
  EXPECT_TENSOR(bincount(Ints({1, 0}), Vec({0.5, 2}), 3), Type(f32, {3}), {2, 0.5, 0});
  EXPECT_TENSOR(isin(Ints({1, 2}), Ints({2, 5})), Type(boolean, {2}), {0, 1});
  EXPECT_TENSOR(one_hot(Ints({1, 0}), 3), Type(i64, {2, 3}), {0, 1, 0, 1, 0, 0});
  EXPECT_ERROR(one_hot(Ints({3}), 3).host(), Error, "out of bounds");
}

// Numbers and counts have no device of their own; they must go where the tensors are.
TEST(Index, NumbersFollowTheTensorsDevice) {
  Device null("null");
  Tensor x = zeros({2, 3}, f32, null), index = zeros({2, 1}, i64, null);
  Tensor mask = zeros({2, 3}, boolean, null);
  x.index_put_({index.view({2})}, 1.0);
  x.index_put_({mask}, 1.0);
  for (const Tensor& y :
       {scatter(x, 1, index, 5.0), index_fill(x, 0, index.view({2}), 1.0),
        masked_fill(x, mask, 2.0), scatter_reduce(x, 1, index, x.slice(1, 0, 1), "mean", false),
        one_hot(index, 4), tril(x), diag_embed(x), pad(x, {1, 1}),
        addmv(x[0], zeros({3, 3}, f32, null), x[0], 2, 3), avg_pool1d(x.unsqueeze(0), {2}),
        std::get<0>(mode(x)), std::get<0>(median(x, 1)), std::get<1>(cummax(x, 1)),
        quantile(x, zeros({2}, f32, null), 1), logsumexp(x, {1}),
        gather(x, 1, zeros({2, 0}, i64, null)), trapezoid(x, 2.0), combinations(x[0])}) {
    EXPECT_EQ(y.device(), null) << y.summary();
  }
}

TEST(Index, OneIntegerAsATensorAliases) {
  Tensor x = zeros({2, 3});
  Tensor row = x.index({tensor(-1)});
  EXPECT_TRUE(row.is_alias_of(x));
  row.add_(5.0);
  EXPECT_TENSOR(x, Type(f32, {2, 3}), {0, 0, 0, 5, 5, 5});
  x.index_put_({tensor(0), Slice(1, 3)}, 7.0);
  EXPECT_TENSOR(x, Type(f32, {2, 3}), {0, 7, 7, 5, 5, 5});
  EXPECT_EQ(x.index({tensor(1, i32), tensor({0, 2})}).shape(), Type(f32, {2}));
  EXPECT_ERROR(x.index({tensor(2)}), ValueError, "index 2 is out of bounds for dimension 0");
  EXPECT_FALSE(x.index({tensor({1})}).is_alias_of(x));
  NoExecution nothing_runs("the test says so");
  EXPECT_FALSE(x.index({tensor(1)}).is_alias_of(x));
}

}  // namespace
}  // namespace hammock
