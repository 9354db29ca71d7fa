#include "backends/run_graph.h"

namespace hammock {
namespace {

/// One reduction of one input.
HostTensor Reduce(const char* op, const HostTensor& x, const char* attrs, const char* type) {
  return RunText(fmt::format("%0 = input : {}\n%1 = {} %0 {{{}}} : {}\nreturn %1",
                             x.shape().to_string(), op, attrs, type),
                 {x});
}

const HostTensor kSix = Make(f32, {2, 3}, {1, -2, 3, 4, 5, -6});

TEST(Reduce, WorksAlongAnyDims) {
  EXPECT_TENSOR(Reduce("reduce_sum", kSix, "dims=[1], keepdim=false", "f32[2]"), Make(f32, {2, 3}));
  EXPECT_TENSOR(Reduce("reduce_sum", kSix, "dims=[0], keepdim=true", "f32[1,3]"),
                Make(f32, {1, 3}, {5, 3, -3}));
  EXPECT_TENSOR(Reduce("reduce_prod", kSix, "dims=[0,1], keepdim=false", "f32[]"),
                Make(f32, {}, {720}));
  EXPECT_TENSOR(Reduce("reduce_max", kSix, "dims=[1], keepdim=true", "f32[2,1]"),
                Make(f32, {2, 1}, {3, 5}));
  EXPECT_TENSOR(Reduce("reduce_min", kSix, "dims=[0], keepdim=false", "f32[3]"),
                Make(f32, {1, -2, -6}));
  HostTensor cube = Make(i32, {2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_TENSOR(Reduce("reduce_sum", cube, "dims=[0,2], keepdim=false", "i32[2]"),
                Make(i32, {14, 22}));
}

TEST(Reduce, OfNothingGivesTheIdentity) {
  HostTensor empty = Make(f32, {2, 0}, {});
  EXPECT_TENSOR(Reduce("reduce_sum", empty, "dims=[1], keepdim=false", "f32[2]"),
                Make(f32, {0, 0}));
  EXPECT_TENSOR(Reduce("reduce_prod", empty, "dims=[0,1], keepdim=false", "f32[]"),
                Make(f32, {}, {1}));
  EXPECT_TENSOR(Reduce("reduce_any", Make(boolean, {0}, {}), "dims=[0], keepdim=false", "bool[]"),
                Make(boolean, {}, {0}));
  EXPECT_TENSOR(Reduce("reduce_all", Make(boolean, {0}, {}), "dims=[0], keepdim=false", "bool[]"),
                Make(boolean, {}, {1}));
  EXPECT_TENSOR(Reduce("reduce_max", empty, "dims=[0], keepdim=false", "f32[0]"), Make(f32, {}));
}

TEST(Reduce, OfRankZeroIsTheValue) {
  HostTensor x = Make(f32, {}, {4});
  EXPECT_TENSOR(Reduce("reduce_sum", x, "dims=[], keepdim=false", "f32[]"), x);
  EXPECT_TENSOR(Reduce("reduce_max", x, "dims=[0], keepdim=false", "f32[]"), x);
  EXPECT_TENSOR(Reduce("arg_max", x, "dim=0, keepdim=false", "i64[]"), Make(i64, {}, {0}));
}

TEST(Reduce, ExtremaPropagateNan) {
  HostTensor x = Make(f32, {3, 2}, {1, kNan, kNan, 2, -kInf, kInf});
  EXPECT_TENSOR(Reduce("reduce_max", x, "dims=[1], keepdim=false", "f32[3]"),
                Make(f32, {kNan, kNan, kInf}));
  EXPECT_TENSOR(Reduce("reduce_min", x, "dims=[1], keepdim=false", "f32[3]"),
                Make(f32, {kNan, kNan, -kInf}));
}

TEST(Reduce, IntegersWrapToTheirWidth) {
  EXPECT_TENSOR(Reduce("reduce_sum", Make(u8, {200, 100}), "dims=[0], keepdim=false", "u8[]"),
                Make(u8, {}, {44}));
  EXPECT_TENSOR(Reduce("reduce_max", MakeInts(u64, {1, -1}), "dims=[0], keepdim=false", "u64[]"),
                HostTensor::From(std::vector<uint64_t>{~uint64_t{0}}, {}));
}

TEST(Reduce, SumsAccumulateInDouble) {
  // In float, 2^24 + 1 would stay 2^24; in f16 the sum would stop growing at 2048.
  std::vector<double> values(4097, 1.0);
  EXPECT_TENSOR(Reduce("reduce_sum", Make(f16, values), "dims=[0], keepdim=false", "f16[]"),
                Make(f16, {}, {4096}));
  EXPECT_TENSOR(Reduce("reduce_sum", Make(f32, {0x1p24, 1, 1}), "dims=[0], keepdim=false", "f32[]"),
                Make(f32, {}, {0x1p24 + 2}));
}

TEST(Reduce, TruthReducesToTruth) {
  HostTensor x = Make(boolean, {2, 2}, {0, 1, 1, 1});
  EXPECT_TENSOR(Reduce("reduce_any", x, "dims=[0], keepdim=false", "bool[2]"),
                Make(boolean, {1, 1}));
  EXPECT_TENSOR(Reduce("reduce_all", x, "dims=[1], keepdim=false", "bool[2]"),
                Make(boolean, {0, 1}));
}

TEST(ArgReduce, FindsTheFirstAndNanWins) {
  HostTensor x = Make(f32, {3, 4}, {1, 5, 5, 0, 2, kNan, 9, kNan, -1, -1, -3, -3});
  EXPECT_TENSOR(Reduce("arg_max", x, "dim=1, keepdim=false", "i64[3]"), Make(i64, {1, 1, 0}));
  EXPECT_TENSOR(Reduce("arg_min", x, "dim=1, keepdim=true", "i64[3,1]"),
                Make(i64, {3, 1}, {3, 1, 2}));
  EXPECT_TENSOR(Reduce("arg_max", x, "dim=0, keepdim=false", "i64[4]"), Make(i64, {1, 1, 1, 1}));
}

HostTensor Scan(const HostTensor& x, const char* kind, int dim, bool reverse) {
  return Reduce("scan", x,
                fmt::format("kind=\"{}\", dim={}, reverse={}", kind, dim, reverse).c_str(),
                x.shape().to_string().c_str());
}

TEST(Scan, RunsAlongADim) {
  EXPECT_TENSOR(Scan(kSix, "sum", 1, false), Make(f32, {2, 3}, {1, -1, 2, 4, 9, 3}));
  EXPECT_TENSOR(Scan(kSix, "sum", 1, true), Make(f32, {2, 3}, {2, 1, 3, 3, -1, -6}));
  EXPECT_TENSOR(Scan(kSix, "prod", 0, false), Make(f32, {2, 3}, {1, -2, 3, 4, -10, -18}));
  EXPECT_TENSOR(Scan(kSix, "max", 1, false), Make(f32, {2, 3}, {1, 1, 3, 4, 5, 5}));
  EXPECT_TENSOR(Scan(kSix, "min", 0, true), Make(f32, {2, 3}, {1, -2, -6, 4, 5, -6}));
  EXPECT_TENSOR(Scan(Make(f32, {1, kNan, 3}), "max", 0, false), Make(f32, {1, kNan, kNan}));
  EXPECT_TENSOR(Scan(Make(f32, {}, {3}), "sum", 0, false), Make(f32, {}, {3}));
  EXPECT_TENSOR(Scan(Make(f32, {0, 2}, {}), "sum", 0, false), Make(f32, {0, 2}, {}));
}

TEST(ReduceWindow, SumsWithPaddingAndDilation) {
  EXPECT_TENSOR(
      Reduce("reduce_window", Make(f32, {1, 2, 3, 4, 5}),
             "kind=\"sum\", window=[2], stride=[2], low=[1], high=[0], dilation=[2]", "f32[2]"),
      Make(f32, {2, 6}));
}

TEST(ReduceWindow, TakesTheMaximumPerPlane) {
  HostTensor x = Make(f32, {2, 2, 3}, {1, 2, 3, 4, 5, 6, -1, -2, kNan, -4, -5, -6});
  constexpr const char* kWindow =
      "window=[2,2], stride=[1,1], low=[0,0], high=[0,1], dilation=[1,1]";
  EXPECT_TENSOR(
      Reduce("reduce_window", x, fmt::format("kind=\"max\", {}", kWindow).c_str(), "f32[2,1,3]"),
      Make(f32, {2, 1, 3}, {5, 6, 6, -1, kNan, kNan}));
  EXPECT_TENSOR(Reduce("reduce_window_arg", x, kWindow, "i64[2,1,3]"),
                Make(i64, {2, 1, 3}, {4, 5, 5, 0, 2, 2}));
}

TEST(ReduceWindow, OfPaddingOnlyHasNoElement) {
  constexpr const char* kWindow = "window=[1], stride=[2], low=[1], high=[0], dilation=[1]";
  HostTensor x = Make(f32, {7, 8});
  EXPECT_TENSOR(
      Reduce("reduce_window", x, fmt::format("kind=\"max\", {}", kWindow).c_str(), "f32[2]"),
      Make(f32, {-kInf, 8}));
  EXPECT_TENSOR(Reduce("reduce_window_arg", x, kWindow, "i64[2]"), Make(i64, {-1, 1}));
}

}  // namespace
}  // namespace hammock
