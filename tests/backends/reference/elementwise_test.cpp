#include "backends/run_graph.h"
#include "hammock/lazy/backend_interface.h"

namespace hammock {
namespace {

TEST(Elementwise, RunsGraphText) {
  HostTensor out = RunText(R"(
    %0 = input : f32[4]
    %1 = input : f32[4]
    %2 = mul %0, %1 : f32[4]
    %3 = add %2, %0 : f32[4]
    return %3)",
                           {Make(f32, {1, 2, 3, 4}), Make(f32, {0.5, -1, 0, 2})});
  EXPECT_TENSOR(out, Make(f32, {1.5, 0, 3, 12}));
}

TEST(Elementwise, SignsAndRoundingKeepZeroAndNan) {
  HostTensor x = Make(f32, {kNan, kInf, -kInf, 0.0, -0.0, -2.5, 2.5, 0.5, -0.5, 1.5});
  EXPECT_TENSOR(Eval("abs", {x}), Make(f32, {kNan, kInf, kInf, 0, 0, 2.5, 2.5, 0.5, 0.5, 1.5}));
  EXPECT_TENSOR(Eval("neg", {x}),
                Make(f32, {kNan, -kInf, kInf, -0.0, 0.0, 2.5, -2.5, -0.5, 0.5, -1.5}));
  EXPECT_TENSOR(Eval("sign", {x}), Make(f32, {0, 1, -1, 0, 0, -1, 1, 1, -1, 1}));
  EXPECT_TENSOR(Eval("floor", {x}), Make(f32, {kNan, kInf, -kInf, 0, -0.0, -3, 2, 0, -1, 1}));
  EXPECT_TENSOR(Eval("ceil", {x}), Make(f32, {kNan, kInf, -kInf, 0, -0.0, -2, 3, 1, -0.0, 2}));
  EXPECT_TENSOR(Eval("trunc", {x}), Make(f32, {kNan, kInf, -kInf, 0, -0.0, -2, 2, 0, -0.0, 1}));
  EXPECT_TENSOR(Eval("round", {x}), Make(f32, {kNan, kInf, -kInf, 0, -0.0, -2, 2, 0, -0.0, 2}));
}

TEST(Elementwise, RoundingOfIntegersKeepsTheDType) {
  HostTensor x = Make(i32, {-3, 0, 7});
  for (const char* op : {"floor", "ceil", "trunc", "round"}) EXPECT_TENSOR(Eval(op, {x}), x);
  EXPECT_TENSOR(Eval("abs", {x}), Make(i32, {3, 0, 7}));
  EXPECT_TENSOR(Eval("sign", {x}), Make(i32, {-1, 0, 1}));
  EXPECT_TENSOR(Eval("sign", {Make(u8, {0, 200})}), Make(u8, {0, 1}));
}

TEST(Elementwise, TranscendentalsOfIntegersAreFloats) {
  EXPECT_TENSOR(Eval("exp", {Make(i64, {0})}), Make(f32, {1}));
  EXPECT_TENSOR(Eval("sqrt", {Make(u8, {0, 4, 9})}), Make(f32, {0, 2, 3}));
  EXPECT_TENSOR(Eval("sigmoid", {Make(boolean, {0})}), Make(f32, {0.5}));
  EXPECT_TENSOR(Eval("div", {Make(i32, {1, 7, 1}), Make(i32, {2, -2, 0})}),
                Make(f32, {0.5, -3.5, kInf}));
}

TEST(Elementwise, TranscendentalsHaveTheirEdgeValues) {
  HostTensor edges = Make(f64, {0, -0.0, kInf, -kInf, kNan});
  EXPECT_TENSOR(Eval("exp", {edges}), Make(f64, {1, 1, kInf, 0, kNan}));
  EXPECT_TENSOR(Eval("expm1", {edges}), Make(f64, {0, -0.0, kInf, -1, kNan}));
  EXPECT_TENSOR(Eval("log", {edges}), Make(f64, {-kInf, -kInf, kInf, kNan, kNan}));
  EXPECT_TENSOR(Eval("log1p", {edges}), Make(f64, {0, -0.0, kInf, kNan, kNan}));
  EXPECT_TENSOR(Eval("sqrt", {edges}), Make(f64, {0, -0.0, kInf, kNan, kNan}));
  EXPECT_TENSOR(Eval("rsqrt", {edges}), Make(f64, {kInf, -kInf, 0, kNan, kNan}));
  EXPECT_TENSOR(Eval("reciprocal", {edges}), Make(f64, {kInf, -kInf, 0, -0.0, kNan}));
  EXPECT_TENSOR(Eval("tanh", {edges}), Make(f64, {0, -0.0, 1, -1, kNan}));
  EXPECT_TENSOR(Eval("sigmoid", {edges}), Make(f64, {0.5, 0.5, 1, 0, kNan}));
  EXPECT_TENSOR(Eval("sin", {edges}), Make(f64, {0, -0.0, kNan, kNan, kNan}));
  EXPECT_TENSOR(Eval("erf", {edges}), Make(f64, {0, -0.0, 1, -1, kNan}));
  EXPECT_TENSOR(Eval("isnan", {edges}), Make(boolean, {0, 0, 0, 0, 1}));
}

TEST(Elementwise, TranscendentalsHaveKnownValues) {
  HostTensor x = Make(f64, {0.5});
  auto expect = [&](const char* op, double value) {
    EXPECT_NEAR_TENSOR(Eval(op, {x}), Make(f64, {value}), 4) << op;
  };
  expect("exp2", 1.4142135623730951);
  expect("log2", -1.0);
  expect("log10", -0.30102999566398120);
  expect("cos", 0.87758256189037271);
  expect("tan", 0.54630248984379051);
  expect("asin", 0.52359877559829887);
  expect("acos", 1.0471975511965979);
  expect("atan", 0.46364760900080612);
  expect("sinh", 0.52109530549374736);
  expect("cosh", 1.1276259652063808);
  expect("asinh", 0.48121182505960345);
  expect("atanh", 0.54930614433405484);
  expect("erfc", 0.47950012218695346);
  expect("erfinv", 0.47693627620446987);
  expect("lgamma", 0.57236494292470009);
  expect("digamma", -1.9635100260214235);
  EXPECT_NEAR_TENSOR(Eval("acosh", {Make(f64, {2})}), Make(f64, {1.3169578969248168}), 4);
  EXPECT_NEAR_TENSOR(Eval("atan2", {x, Make(f64, {-1})}), Make(f64, {2.6779450445889870}), 4);
  EXPECT_TENSOR(Eval("hypot", {Make(f32, {3e30}), Make(f32, {4e30})}), Make(f32, {5e30}));
}

TEST(Elementwise, IntegersWrapToTheirWidth) {
  EXPECT_TENSOR(Eval("add", {Make(u8, {250}), Make(u8, {10})}), Make(u8, {4}));
  EXPECT_TENSOR(Eval("mul", {Make(i8, {100}), Make(i8, {2})}), Make(i8, {-56}));
  EXPECT_TENSOR(Eval("neg", {Make(i8, {-128})}), Make(i8, {-128}));
  EXPECT_TENSOR(Eval("sub", {Make(u16, {0}), Make(u16, {1})}), Make(u16, {65535}));
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  EXPECT_TENSOR(Eval("abs", {MakeInts(i64, {kMin})}), MakeInts(i64, {kMin}));
  EXPECT_TENSOR(Eval("floor_divide", {MakeInts(i64, {kMin}), MakeInts(i64, {-1})}),
                MakeInts(i64, {kMin}));
  EXPECT_TENSOR(Eval("remainder", {MakeInts(i64, {kMin}), MakeInts(i64, {-1})}),
                MakeInts(i64, {0}));
}

TEST(Elementwise, LargeUnsignedIntegersStayUnsigned) {
  HostTensor big = MakeInts(u64, {-1});  // 2^64 - 1
  HostTensor one = MakeInts(u64, {1});
  EXPECT_TENSOR(Eval("gt", {big, one}), Make(boolean, {1}));
  EXPECT_TENSOR(Eval("maximum", {big, one}), big);
  EXPECT_TENSOR(Eval("bitwise_right_shift", {big, MakeInts(u64, {63})}), one);
  EXPECT_TENSOR(Eval("floor_divide", {big, MakeInts(u64, {2})}),
                MakeInts(u64, {std::numeric_limits<int64_t>::max()}));
}

TEST(Elementwise, DivisionFollowsPython) {
  HostTensor a = Make(i32, {7, -7, 7, -7});
  HostTensor b = Make(i32, {2, 2, -2, -2});
  EXPECT_TENSOR(Eval("floor_divide", {a, b}), Make(i32, {3, -4, -4, 3}));
  EXPECT_TENSOR(Eval("trunc_divide", {a, b}), Make(i32, {3, -3, -3, 3}));
  EXPECT_TENSOR(Eval("remainder", {a, b}), Make(i32, {1, 1, -1, -1}));
  EXPECT_TENSOR(Eval("fmod", {a, b}), Make(i32, {1, -1, 1, -1}));
  HostTensor x = Make(f32, {7.5, -7.5, 7.5, -7.5, 1, -1, 0});
  HostTensor y = Make(f32, {2, 2, -2, -2, 0, 0, 0});
  EXPECT_TENSOR(Eval("floor_divide", {x, y}), Make(f32, {3, -4, -4, 3, kInf, -kInf, kNan}));
  EXPECT_TENSOR(Eval("trunc_divide", {x, y}), Make(f32, {3, -3, -3, 3, kInf, -kInf, kNan}));
  EXPECT_TENSOR(Eval("remainder", {x, y}), Make(f32, {1.5, 0.5, -0.5, -1.5, kNan, kNan, kNan}));
  EXPECT_TENSOR(Eval("fmod", {x, y}), Make(f32, {1.5, -1.5, 1.5, -1.5, kNan, kNan, kNan}));
}

TEST(Elementwise, DivisionOfIntegersByZeroRaises) {
  for (const char* op : {"floor_divide", "trunc_divide", "remainder", "fmod"}) {
    try {
      Eval(op, {Make(i64, {1, 2}), Make(i64, {1, 0})});
      ADD_FAILURE() << op << " did not raise";
    } catch (const lazy::ExecutionError& error) {
      EXPECT_EQ(error.message(),
                fmt::format("{0}: ZeroDivisionError: integer division by zero (in %2 = {0} i64[2], "
                            "i64[2] : i64[2])",
                            op));
    }
  }
}

TEST(Elementwise, PowersOfIntegersWrapAndVanish) {
  HostTensor base = Make(i32, {2, -3, 1, -1, -1, 5, 0, 2});
  HostTensor exponent = Make(i32, {10, 3, -7, -2, -3, -1, 0, 40});
  EXPECT_TENSOR(Eval("pow", {base, exponent}), Make(i32, {1024, -27, 1, 1, -1, 0, 1, 0}));
  EXPECT_TENSOR(Eval("pow", {Make(f32, {4, 0, -1, kNan}), Make(f32, {0.5, -1, 0.5, 0})}),
                Make(f32, {2, kInf, kNan, 1}));
}

TEST(Elementwise, MaximumPropagatesNanAndFmaxIgnoresIt) {
  HostTensor a = Make(f32, {1, kNan, 3, kNan, -kInf});
  HostTensor b = Make(f32, {2, 2, kNan, kNan, kInf});
  EXPECT_TENSOR(Eval("maximum", {a, b}), Make(f32, {2, kNan, kNan, kNan, kInf}));
  EXPECT_TENSOR(Eval("minimum", {a, b}), Make(f32, {1, kNan, kNan, kNan, -kInf}));
  EXPECT_TENSOR(Eval("fmax", {a, b}), Make(f32, {2, 2, 3, kNan, kInf}));
  EXPECT_TENSOR(Eval("fmin", {a, b}), Make(f32, {1, 2, 3, kNan, -kInf}));
  EXPECT_TENSOR(Eval("maximum", {Make(boolean, {0, 1}), Make(boolean, {0, 0})}),
                Make(boolean, {0, 1}));
}

TEST(Elementwise, ComparisonsWithNanAreFalseButNotEqual) {
  HostTensor a = Make(f32, {1, 2, kNan, 0.0});
  HostTensor b = Make(f32, {2, 2, kNan, -0.0});
  EXPECT_TENSOR(Eval("eq", {a, b}), Make(boolean, {0, 1, 0, 1}));
  EXPECT_TENSOR(Eval("ne", {a, b}), Make(boolean, {1, 0, 1, 0}));
  EXPECT_TENSOR(Eval("lt", {a, b}), Make(boolean, {1, 0, 0, 0}));
  EXPECT_TENSOR(Eval("le", {a, b}), Make(boolean, {1, 1, 0, 1}));
  EXPECT_TENSOR(Eval("gt", {a, b}), Make(boolean, {0, 0, 0, 0}));
  EXPECT_TENSOR(Eval("ge", {a, b}), Make(boolean, {0, 1, 0, 1}));
}

TEST(Elementwise, LogicReadsTruthValues) {
  HostTensor a = Make(f32, {0, -0.0, kNan, 2});
  HostTensor b = Make(i32, {1, 0, 0, 3});
  EXPECT_TENSOR(Eval("logical_and", {a, b}), Make(boolean, {0, 0, 0, 1}));
  EXPECT_TENSOR(Eval("logical_or", {a, b}), Make(boolean, {1, 0, 1, 1}));
  EXPECT_TENSOR(Eval("logical_xor", {a, b}), Make(boolean, {1, 0, 1, 0}));
  EXPECT_TENSOR(Eval("logical_not", {a}), Make(boolean, {1, 1, 0, 0}));
}

TEST(Elementwise, BitsAreThoseOfTheDType) {
  HostTensor a = Make(u8, {12, 255});
  HostTensor b = Make(u8, {10, 15});
  EXPECT_TENSOR(Eval("bitwise_and", {a, b}), Make(u8, {8, 15}));
  EXPECT_TENSOR(Eval("bitwise_or", {a, b}), Make(u8, {14, 255}));
  EXPECT_TENSOR(Eval("bitwise_xor", {a, b}), Make(u8, {6, 240}));
  EXPECT_TENSOR(Eval("bitwise_not", {a}), Make(u8, {243, 0}));
  EXPECT_TENSOR(Eval("bitwise_not", {Make(i8, {0, -1})}), Make(i8, {-1, 0}));
  EXPECT_TENSOR(Eval("bitwise_not", {Make(boolean, {0, 1})}), Make(boolean, {1, 0}));
}

TEST(Elementwise, ShiftsPastTheWidthLoseAllBits) {
  HostTensor x = Make(i8, {1, 1, -128, -2, 5});
  HostTensor by = Make(i8, {7, 8, 3, 9, -1});
  EXPECT_TENSOR(Eval("bitwise_left_shift", {x, by}), Make(i8, {-128, 0, 0, 0, 0}));
  EXPECT_TENSOR(Eval("bitwise_right_shift", {x, by}), Make(i8, {0, 0, -16, -1, 0}));
}

TEST(Elementwise, BoolsAddAsOrAndMultiplyAsAnd) {
  HostTensor a = Make(boolean, {0, 1, 1});
  HostTensor b = Make(boolean, {0, 0, 1});
  EXPECT_TENSOR(Eval("add", {a, b}), Make(boolean, {0, 1, 1}));
  EXPECT_TENSOR(Eval("mul", {a, b}), Make(boolean, {0, 0, 1}));
}

TEST(Elementwise, SixteenBitFloatsRoundAtEachOp) {
  // 1 + 2^-11 is a tie in f16; 2049 has no f16.
  EXPECT_TENSOR(Eval("add", {Make(f16, {1, 2048}), Make(f16, {0x1p-11, 1})}), Make(f16, {1, 2048}));
  EXPECT_TENSOR(Eval("mul", {Make(f16, {300}), Make(f16, {300})}), Make(f16, {kInf}));
  EXPECT_TENSOR(Eval("add", {Make(bf16, {256}), Make(bf16, {1})}), Make(bf16, {256}));
}

TEST(Elementwise, NextafterStepsInTheDType) {
  HostTensor up = Make(f16, {kInf, kInf, -kInf, 1, kNan});
  HostTensor x = Make(f16, {1, 0, 0, 1, 1});
  EXPECT_TENSOR(Eval("nextafter", {x, up}), Make(f16, {1 + 0x1p-10, 0x1p-24, -0x1p-24, 1, kNan}));
  EXPECT_TENSOR(Eval("nextafter", {Make(bf16, {-1}), Make(bf16, {0})}), Make(bf16, {-1 + 0x1p-8}));
  EXPECT_TENSOR(Eval("nextafter", {Make(f32, {1}), Make(f32, {2})}), Make(f32, {1 + 0x1p-23}));
  EXPECT_TENSOR(Eval("copysign", {Make(f32, {3, kInf}), Make(f32, {-0.0, -1})}),
                Make(f32, {-3, -kInf}));
}

TEST(Elementwise, OperandsBroadcastAndPromote) {
  EXPECT_TENSOR(Eval("add", {Make(i32, {2, 1}, {10, 20}), Make(f32, {3}, {1, 2, 3})}),
                Make(f32, {2, 3}, {11, 12, 13, 21, 22, 23}));
  EXPECT_TENSOR(Eval("mul", {Make(f16, {2}, {1, 2}), Make(f64, {}, {3})}), Make(f16, {3, 6}));
}

TEST(Elementwise, EmptyAndRankZeroTensorsWork) {
  EXPECT_TENSOR(Eval("add", {Make(f32, {0, 3}, {}), Make(f32, {3}, {1, 2, 3})}),
                Make(f32, {0, 3}, {}));
  EXPECT_TENSOR(Eval("neg", {Make(f32, {}, {2})}), Make(f32, {}, {-2}));
}

TEST(Elementwise, BlocksCoverLongTensors) {
  std::vector<double> x(1500), y(1500);
  for (int i = 0; i < 1500; ++i) {
    x[i] = i;
    y[i] = 2 * i + 1;
  }
  EXPECT_TENSOR(Eval("add", {Eval("mul", {Make(f32, x), Make(f32, {}, {2})}), Make(f32, {1}, {1})}),
                Make(f32, y));
}

TEST(Elementwise, WhereSelectsBits) {
  HostTensor out =
      Eval("where", {Make(boolean, {1, 0, 1}), Make(f32, {-0.0, 1, kNan}), Make(f32, {5, 6, 7})});
  EXPECT_TENSOR(out, Make(f32, {-0.0, 6, kNan}));
  EXPECT_TENSOR(
      Eval("where", {Make(boolean, {2, 1}, {1, 0}), Make(i64, {}, {4}), Make(f32, {1, 2})}),
      Make(f32, {2, 2}, {4, 4, 1, 2}));
}

HostTensor Cast(const HostTensor& x, DType to) {
  return RunText(fmt::format("%0 = input : {0}\n%1 = cast %0 {{dtype={1}}} : {2}\nreturn %1",
                             x.shape().to_string(), NameOf(to), x.shape().With(to).to_string()),
                 {x});
}

TEST(Elementwise, CastsConvertAsC) {
  EXPECT_TENSOR(Cast(Make(f32, {1.9, -1.9, 300, -1}), u8), Make(u8, {1, 255, 44, 255}));
  EXPECT_TENSOR(Cast(Make(f32, {0, -0.0, 0.1, kNan}), boolean), Make(boolean, {0, 0, 1, 1}));
  EXPECT_TENSOR(Cast(Make(i64, {65536, -1}), i16), Make(i16, {0, -1}));
  EXPECT_TENSOR(Cast(Make(f64, {1e300, 65520, 1e-9}), f16), Make(f16, {kInf, kInf, 0}));
  EXPECT_TENSOR(Cast(Make(boolean, {1, 0}), f32), Make(f32, {1, 0}));
  EXPECT_TENSOR(Cast(MakeInts(i64, {(int64_t{1} << 53) + 1}), f64), Make(f64, {0x1p53}));
}

TEST(Elementwise, BitcastKeepsBitsAndScalesTheLastDim) {
  EXPECT_TENSOR(RunText(R"(
    %0 = input : f32[2]
    %1 = bitcast %0 {dtype=i32} : i32[2]
    return %1)",
                        {Make(f32, {1, -0.0})}),
                MakeInts(i32, {0x3f800000, std::numeric_limits<int32_t>::min()}));
  EXPECT_TENSOR(RunText(R"(
    %0 = input : u16[1,2]
    %1 = bitcast %0 {dtype=u8} : u8[1,4]
    return %1)",
                        {Make(u16, {1, 2}, {258, 3})}),
                Make(u8, {1, 4}, {2, 1, 3, 0}));
}

}  // namespace
}  // namespace hammock
