#include "backends/run_graph.h"
#include "hammock/custom_call.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {
namespace {

TEST(Cond, RunsOneBranch) {
  constexpr const char* kText = R"(
    %0 = input : bool[]
    %1 = input : i32[2]
    %2 = input : i32[2]
    %3:2 = cond %0, %1, %2 {then=graph {
      %0 = input : i32[2]
      %1 = input : i32[2]
      %2 = add %0, %1 : i32[2]
      return %2, %0
    }, otherwise=graph {
      %0 = input : i32[2]
      %1 = input : i32[2]
      %2 = floor_divide %0, %1 : i32[2]
      return %2, %1
    }} : i32[2], i32[2]
    return %3.0, %3.1)";
  HostTensor a = Make(i32, {6, 7});
  HostTensor zero = Make(i32, {0, 0});
  // The branch that is not taken would divide by zero.
  auto taken = RunAll(kText, {Make(boolean, {}, {1}), a, zero});
  EXPECT_TENSOR(taken[0], a);
  EXPECT_TENSOR(taken[1], a);
  auto other = RunAll(kText, {Make(boolean, {}, {0}), a, Make(i32, {2, 2})});
  EXPECT_TENSOR(other[0], Make(i32, {3, 3}));
  EXPECT_TENSOR(other[1], Make(i32, {2, 2}));
}

TEST(While, RunsUntilTheConditionFails) {
  constexpr const char* kText = R"(
    %0 = input : i64[]
    %1 = input : i64[]
    %2:2 = while %0, %1 {condition=graph {
      %0 = input : i64[]
      %1 = input : i64[]
      %2 = constant {value=100, dtype=i64} : i64[]
      %3 = lt %0, %2 : bool[]
      return %3
    }, body=graph {
      %0 = input : i64[]
      %1 = input : i64[]
      %2 = add %0, %0 : i64[]
      %3 = constant {value=1, dtype=i64} : i64[]
      %4 = add %1, %3 : i64[]
      return %2, %4
    }} : i64[], i64[]
    return %2.0, %2.1)";
  auto out = RunAll(kText, {Make(i64, {}, {3}), Make(i64, {}, {0})});
  EXPECT_TENSOR(out[0], Make(i64, {}, {192}));
  EXPECT_TENSOR(out[1], Make(i64, {}, {6}));
  auto none = RunAll(kText, {Make(i64, {}, {500}), Make(i64, {}, {0})});
  EXPECT_TENSOR(none[0], Make(i64, {}, {500}));
}

// carried sum; stacked x; invariant scale: sum += i * scale + x[i], and every sum is kept.
constexpr const char* kLoop = R"(
    %0 = input : i64[]
    %1 = input : i64[{0},2]
    %2 = input : i64[]
    %3:3 = loop %0, %1, %2 {{body=graph {{
      %0 = input : i64[]
      %1 = input : i64[]
      %2 = input : i64[2]
      %3 = input : i64[]
      %4 = mul %0, %3 : i64[]
      %5 = reduce_sum %2 {{dims=[0], keepdim=false}} : i64[]
      %6 = add %4, %5 : i64[]
      %7 = add %1, %6 : i64[]
      %8 = broadcast %7 {{sizes=[1]}} : i64[1]
      return %7, %8, %2
    }}, count={0}, num_carried=1, num_stacked_in=1}} : i64[], i64[{0},1], i64[{0},2]
    return %3.0, %3.1, %3.2)";

TEST(Loop, CarriesStacksAndKeepsInvariants) {
  HostTensor x = Make(i64, {3, 2}, {1, 1, 2, 2, 3, 3});
  auto out =
      RunAll(fmt::format(fmt::runtime(kLoop), 3), {Make(i64, {}, {100}), x, Make(i64, {}, {10})});
  EXPECT_TENSOR(out[0], Make(i64, {}, {142}));
  EXPECT_TENSOR(out[1], Make(i64, {3, 1}, {102, 116, 142}));
  EXPECT_TENSOR(out[2], x);
}

TEST(Loop, OfNoStepsReturnsWhatItCarries) {
  auto out = RunAll(fmt::format(fmt::runtime(kLoop), 0),
                    {Make(i64, {}, {7}), Make(i64, {0, 2}, {}), Make(i64, {}, {10})});
  EXPECT_TENSOR(out[0], Make(i64, {}, {7}));
  EXPECT_EQ(out[1].numel(), 0);
}

TEST(Loop, ErrorsNameTheOuterNodeAndTheInnerOp) {
  try {
    RunAll(R"(
    %0 = input : i64[]
    %1 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : i64[]
      %2 = floor_divide %1, %0 : i64[]  @ body.cpp:3
      return %2
    }, count=2, num_carried=1, num_stacked_in=0} : i64[]  @ main.cpp:9
    return %1)",
           {Make(i64, {}, {7})});
    ADD_FAILURE() << "no error";
  } catch (const lazy::ExecutionError& error) {
    EXPECT_EQ(error.node(), NodeId(1));
    EXPECT_EQ(error.where(), "body.cpp:3");
    EXPECT_EQ(error.message(),
              "floor_divide: ZeroDivisionError: integer division by zero (in %2 = floor_divide "
              "i64[], i64[] : i64[]) (in %1 = loop i64[] : i64[])");
  }
}

constexpr const char* kCall = R"(
    %0 = input : f32[2]
    %1 = custom_call %0 {target="test.twice", payload="2", types=strings["f32[2]"]} : f32[2]
    return %1)";

TEST(CustomCall, ReachesARegisteredFunction) {
  EXPECT_THROW(RunText(kCall, {Make(f32, {1, 2})}), lazy::ExecutionError);
  RegisterCustomCall("test.twice", [](std::span<const HostTensor> in, std::string_view payload) {
    EXPECT_EQ(payload, "2");
    if (in[0].at(0).ToDouble() < 0) throw std::runtime_error("it was negative");
    return std::vector<HostTensor>{Eval("add", {in[0], in[0]})};
  });
  EXPECT_TENSOR(RunText(kCall, {Make(f32, {1, 2})}), Make(f32, {2, 4}));
  try {
    RunText(kCall, {Make(f32, {-1, 2})});
    ADD_FAILURE() << "no error";
  } catch (const lazy::ExecutionError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kExecute);
    EXPECT_EQ(error.message(),
              "custom_call: it was negative (in %1 = custom_call f32[2] : f32[2])");
  }
  EXPECT_THROW(RegisterCustomCall("test.twice", nullptr), ValueError);
}

}  // namespace
}  // namespace hammock
