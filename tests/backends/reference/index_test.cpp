#include "backends/run_graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {
namespace {

const HostTensor kNine = Make(f32, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});

constexpr const char* kGather = R"(
    %0 = input : f32[3,3]
    %1 = input : i64[2,2]
    %2 = gather %0, %1 {dim=0} : f32[2,2]  @ model.cpp:42
    return %2)";

TEST(Gather, ReadsAlongADim) {
  EXPECT_TENSOR(RunText(kGather, {kNine, Make(i64, {2, 2}, {2, 0, 1, 1})}),
                Make(f32, {2, 2}, {7, 2, 4, 5}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : i8[3,3]
    %1 = input : i32[3,1]
    %2 = gather %0, %1 {dim=1} : i8[3,1]
    return %2)",
                        {kNine.To(i8), Make(i32, {3, 1}, {2, 1, 0})}),
                Make(i8, {3, 1}, {3, 5, 7}));
}

TEST(Gather, OutOfBoundsNamesOpNodeAndLocation) {
  for (double index : {9.0, -1.0}) {
    try {
      RunText(kGather, {kNine, Make(i64, {2, 2}, {0, 0, index, 0})});
      ADD_FAILURE() << "no error for " << index;
    } catch (const lazy::ExecutionError& error) {
      EXPECT_EQ(error.node(), NodeId(2));
      EXPECT_EQ(error.code(), ErrorCode::kIndexOutOfRange);
      EXPECT_EQ(std::string(error.what()),
                fmt::format("gather: index {} is out of bounds for dimension 0 with size 3 (in %2 "
                            "= gather f32[3,3], i64[2,2] : f32[2,2]) [at model.cpp:42] (HM0005)",
                            index));
    }
  }
}

HostTensor Scatter(const char* reduce, const HostTensor& self, const HostTensor& index,
                   const HostTensor& source) {
  std::string type = self.shape().to_string();
  return RunText(fmt::format("%0 = input : {0}\n%1 = input : {1}\n%2 = input : {2}\n"
                             "%3 = scatter %0, %1, %2 {{dim=0, reduce=\"{3}\"}} : {0}\nreturn %3",
                             type, index.shape().to_string(), source.shape().to_string(), reduce),
                 {self, index, source});
}

TEST(Scatter, LastWriteWinsOrValuesCombine) {
  HostTensor self = Make(f32, {10, 20, 30});
  HostTensor index = Make(i64, {1, 1, 0});
  HostTensor source = Make(f32, {4, 2, 50, 99});  // longer than the index
  EXPECT_TENSOR(Scatter("none", self, index, source), Make(f32, {50, 2, 30}));
  EXPECT_TENSOR(Scatter("sum", self, index, source), Make(f32, {60, 26, 30}));
  EXPECT_TENSOR(Scatter("prod", self, index, source), Make(f32, {500, 160, 30}));
  EXPECT_TENSOR(Scatter("amax", self, index, source), Make(f32, {50, 20, 30}));
  EXPECT_TENSOR(Scatter("amin", self, index, source), Make(f32, {10, 2, 30}));
}

TEST(Scatter, ExtremaPropagateNan) {
  EXPECT_TENSOR(Scatter("amax", Make(f32, {1, kNan}), Make(i64, {0, 1}), Make(f32, {kNan, 5})),
                Make(f32, {kNan, kNan}));
}

TEST(Scatter, AddressesTheSourceByItsOwnSizes) {
  HostTensor self = Make(i32, {2, 3}, {0, 0, 0, 0, 0, 0});
  HostTensor index = Make(i64, {2, 2}, {0, 1, 1, 0});
  HostTensor source = Make(i32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_TENSOR(Scatter("none", self, index, source), Make(i32, {2, 3}, {1, 5, 0, 4, 2, 0}));
}

TEST(Scatter, OutOfBoundsRaises) {
  HostTensor self = Make(f32, {1, 2});
  for (const char* reduce : {"none", "sum", "amin"}) {
    EXPECT_THROW(Scatter(reduce, self, Make(i64, {2}), Make(f32, {1})), lazy::ExecutionError);
  }
  EXPECT_TENSOR(self, Make(f32, {1, 2}));
}

TEST(Scatter, OfAnEmptyIndexChangesNothing) {
  HostTensor self = Make(f32, {1, 2});
  EXPECT_TENSOR(Scatter("sum", self, Make(i64, {}), Make(f32, {})), self);
}

TEST(IndexSelect, TakesSlices) {
  constexpr const char* kText = R"(
    %0 = input : f32[3,3]
    %1 = input : i64[4]
    %2 = index_select %0, %1 {dim=1} : f32[3,4]
    return %2)";
  EXPECT_TENSOR(RunText(kText, {kNine, Make(i64, {2, 2, 0, 1})}),
                Make(f32, {3, 4}, {3, 3, 1, 2, 6, 6, 4, 5, 9, 9, 7, 8}));
  EXPECT_THROW(RunText(kText, {kNine, Make(i64, {0, 0, 0, 3})}), lazy::ExecutionError);
}

TEST(IndexSelect, OfRankZeroTakesTheValue) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[]
    %1 = input : i64[1]
    %2 = index_select %0, %1 {dim=0} : f32[]
    return %2)",
                        {Make(f32, {}, {3}), Make(i64, {0})}),
                Make(f32, {}, {3}));
}

TEST(NonzeroBounded, FillsUpWithMinusOne) {
  HostTensor x = Make(f32, {2, 3}, {0, 2, -0.0, kNan, 0, 6});
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = nonzero_bounded %0 {size=4} : i64[4,2]
    return %1)",
                        {x}),
                Make(i64, {4, 2}, {0, 1, 1, 0, 1, 2, -1, -1}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2,3]
    %1 = nonzero_bounded %0 {size=1} : i64[1,2]
    return %1)",
                        {x}),
                Make(i64, {1, 2}, {0, 1}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : bool[]
    %1 = nonzero_bounded %0 {size=1} : i64[1,0]
    return %1)",
                        {Make(boolean, {}, {1})}),
                Make(i64, {1, 0}, {}));
}

std::vector<HostTensor> Sort(const HostTensor& x, int dim, bool descending) {
  std::string sizes = ToString(x.shape().sizes());
  return RunAll(fmt::format("%0 = input : {0}{1}\n%1:2 = sort %0 {{dim={2}, descending={3}, "
                            "stable=true}} : {0}{1}, i64{1}\nreturn %1.0, %1.1",
                            NameOf(x.dtype()), sizes, dim, descending),
                {x});
}

TEST(Sort, PutsNanLastAndKeepsTheOrderOfEquals) {
  HostTensor x = Make(f32, {2, kNan, 1, 2, -kInf, kNan, 1});
  auto ascending = Sort(x, 0, false);
  EXPECT_TENSOR(ascending[0], Make(f32, {-kInf, 1, 1, 2, 2, kNan, kNan}));
  EXPECT_TENSOR(ascending[1], Make(i64, {4, 2, 6, 0, 3, 1, 5}));
  auto descending = Sort(x, 0, true);
  EXPECT_TENSOR(descending[0], Make(f32, {kNan, kNan, 2, 2, 1, 1, -kInf}));
  EXPECT_TENSOR(descending[1], Make(i64, {1, 5, 0, 3, 2, 6, 4}));
}

TEST(Sort, WorksAlongAnyDim) {
  auto out = Sort(Make(i32, {2, 2}, {3, 1, 2, 4}), 0, false);
  EXPECT_TENSOR(out[0], Make(i32, {2, 2}, {2, 1, 3, 4}));
  EXPECT_TENSOR(out[1], Make(i64, {2, 2}, {1, 0, 0, 1}));
  EXPECT_TENSOR(Sort(Make(f32, {3, 0}, {}), 1, false)[1], Make(i64, {3, 0}, {}));
  EXPECT_TENSOR(Sort(Make(f32, {}, {5}), 0, false)[1], Make(i64, {}, {0}));
}

TEST(TopK, TakesTheBestFirst) {
  auto out = RunAll(R"(
    %0 = input : f32[2,4]
    %1:2 = topk %0 {k=2, dim=1, largest=true, sorted=true} : f32[2,2], i64[2,2]
    %2:2 = topk %0 {k=1, dim=1, largest=false, sorted=true} : f32[2,1], i64[2,1]
    return %1.0, %1.1, %2.0, %2.1)",
                    {Make(f32, {2, 4}, {1, 3, 2, 3, kNan, 0, -1, 5})});
  EXPECT_TENSOR(out[0], Make(f32, {2, 2}, {3, 3, kNan, 5}));
  EXPECT_TENSOR(out[1], Make(i64, {2, 2}, {1, 3, 0, 3}));
  EXPECT_TENSOR(out[2], Make(f32, {2, 1}, {1, -1}));
  EXPECT_TENSOR(out[3], Make(i64, {2, 1}, {0, 2}));
}

}  // namespace
}  // namespace hammock
