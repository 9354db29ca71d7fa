#include "backends/cpu/calls/calls.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "backends/cpu/host/host_allocator.h"
#include "backends/cpu/host/strided_copy.h"
#include "backends/cpu/program.h"
#include "backends/run_graph.h"
#include "hammock/config.h"
#include "hammock/custom_call.h"
#include "hammock/lazy/backend_interface.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

constexpr DType kDTypes[] = {boolean, u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64};
constexpr DType kNumbers[] = {u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64};
constexpr DType kIntegers[] = {u8, u16, u32, u64, i8, i16, i32, i64};
constexpr DType kFewDTypes[] = {boolean, i16, f16, f32, i64};

std::mt19937& Random() {
  static std::mt19937& random = *new std::mt19937(7);
  return random;
}

enum class Values { kPlain, kSpecial };

/// Numbers that every dtype holds, many of them equal; with special ones also NaN, -0 and infinity.
HostTensor RandomTensor(const Shape& shape, Values values = Values::kPlain) {
  std::mt19937& random = Random();
  HostTensor result(shape.With(f64));
  for (double& value : result.mutable_values<double>()) {
    if (!IsFloat(shape.dtype())) {
      value = static_cast<double>(random() % 100) - (IsSigned(shape.dtype()) ? 50 : 0);
      if (shape.dtype() == boolean) value = random() % 3 == 0;
      continue;
    }
    value = static_cast<double>(static_cast<int>(random() % 2001) - 1000) / 64;
    if (values == Values::kSpecial && random() % 16 == 0) {
      constexpr double kSpecial[] = {kNan, -0.0, 0.0, kInf, -kInf};
      value = kSpecial[random() % 5];
    }
  }
  return result.To(shape.dtype());
}

HostTensor RandomIndex(DType dtype, const Dims& sizes, int64_t extent) {
  HostTensor result(Shape(i64, sizes));
  for (int64_t& value : result.mutable_values<int64_t>()) {
    value = static_cast<int64_t>(Random()() % static_cast<uint64_t>(extent));
  }
  return result.To(dtype);
}

HostAllocator& Memory() {
  static HostAllocator& memory = *new HostAllocator("test");
  return memory;
}

HostTensor Garbage(const Shape& shape) {
  HostTensor tensor = Memory().New(shape, "test");
  std::memset(tensor.mutable_data(), 0xee, static_cast<size_t>(tensor.bytes()));
  return tensor;
}

std::vector<HostTensor> RunOnCpu(const Graph& graph, const std::vector<HostTensor>& inputs,
                                 const char* threads) {
  config::Override some("cpu.threads", threads);
  Program program(graph);
  std::vector<char*> in;
  for (const HostTensor& input : inputs) {
    in.push_back(static_cast<char*>(const_cast<void*>(input.data())));
  }
  std::vector<HostTensor> results;
  std::vector<char*> out;
  for (GraphValue output : graph.outputs()) {
    results.push_back(Garbage(graph.TypeOf(output)));
    out.push_back(static_cast<char*>(results.back().mutable_data()));
  }
  HostTensor arena = Garbage(Shape(u8, {std::max<int64_t>(program.plan().arena_bytes, 1)}));
  program.Run(in, out, static_cast<char*>(arena.mutable_data()));
  for (size_t i = 0; i < results.size(); ++i) {
    const Program::Output& from = program.outputs()[i];
    const Shape& type = graph.TypeOf(graph.outputs()[i]);
    if (from.input >= 0) {
      results[i] = HostTensor(type, inputs[from.input].storage());
    } else if (from.same >= 0) {
      results[i] = HostTensor(type, results[from.same].storage());
    }
  }
  return results;
}

Graph OneNode(const OpDef& op, const std::vector<HostTensor>& operands, std::vector<Attr> attrs) {
  Graph graph;
  std::vector<GraphValue> values;
  for (const HostTensor& operand : operands) values.push_back(graph.AddInput(operand.shape()));
  NodeId node = graph.AddNode(op, values, std::move(attrs));
  for (size_t i = 0; i < graph[node].types.size(); ++i) {
    graph.AddOutput({node, static_cast<int32_t>(i)});
  }
  return graph;
}

/// As the reference interpreter has it, whatever the number of threads; bit for bit but for the
/// payload of NaN, or within so many ulps.
void ExpectAsReference(const Graph& graph, const std::vector<HostTensor>& inputs, double ulps = 0) {
  std::vector<HostTensor> expected = reference::Interpret(graph, inputs);
  std::vector<HostTensor> first;
  for (const char* threads : {"1", "3"}) {
    std::vector<HostTensor> actual = RunOnCpu(graph, inputs, threads);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_TRUE(SameTensor(actual[i], expected[i], ulps))
          << "result " << i << ", " << threads << " threads\n"
          << ToText(graph);
      if (!first.empty()) {
        ASSERT_TRUE(actual[i].SameBits(first[i])) << ToText(graph);
      }
    }
    first = actual;
  }
}

void ExpectAsReference(const OpDef& op, const std::vector<HostTensor>& operands,
                       std::vector<Attr> attrs, double ulps = 0) {
  Graph graph = OneNode(op, operands, std::move(attrs));
  NodeId node = graph.outputs()[0].node;
  EXPECT_STRNE(MakeCall(graph, node)->kernel(), "reference") << op.name();
  ExpectAsReference(graph, operands, ulps);
}

/// The error of the reference, without what it adds about the node.
void ExpectSameError(const Graph& graph, const std::vector<HostTensor>& inputs) {
  std::string expected;
  ErrorCode code{};
  try {
    reference::Interpret(graph, inputs);
    FAIL() << "no error\n" << ToText(graph);
  } catch (const Error& error) {
    expected = error.message().substr(0, error.message().find(" (in "));
    code = error.code();
  }
  for (const char* threads : {"1", "3"}) {
    try {
      RunOnCpu(graph, inputs, threads);
      FAIL() << "no error\n" << ToText(graph);
    } catch (const lazy::ExecutionError& error) {
      EXPECT_EQ(error.message(), expected);
      EXPECT_EQ(error.code(), code);
      EXPECT_EQ(error.node(), graph.outputs()[0].node);
    }
  }
}

void ExpectSameError(const OpDef& op, const std::vector<HostTensor>& operands,
                     std::vector<Attr> attrs) {
  ExpectSameError(OneNode(op, operands, std::move(attrs)), operands);
}

// ---- copies

TEST(StridedCopy, FindsRowsAndMatrices) {
  auto kind = [](const Dims& sizes, const Dims& from, const Dims& to) {
    return std::string(StridedCopy(4, sizes, from, to).kind());
  };
  EXPECT_EQ(kind({2, 3}, {3, 1}, {3, 1}), "rows");
  EXPECT_EQ(kind({2, 3}, {1, 2}, {3, 1}), "matrices");
  EXPECT_EQ(kind({4, 5, 2}, {2, 8, 1}, {10, 2, 1}), "matrices");  // of pairs
  EXPECT_EQ(kind({4, 5, 3}, {3, 12, 1}, {15, 3, 1}), "rows");
  EXPECT_EQ(kind({8}, {2}, {1}), "elements");
  EXPECT_EQ(kind({8, 2}, {2, 1}, {1, 1}), "elements in order");
  EXPECT_EQ(kind({0, 2}, {2, 1}, {2, 1}), "nothing");
}

TEST(Calls, PermuteTransposes) {
  struct Case {
    Dims sizes;
    std::vector<int64_t> dims;
  };
  const Case cases[] = {
      {{64, 48}, {1, 0}},       {{257, 131}, {1, 0}},          {{5, 33, 70}, {0, 2, 1}},
      {{5, 33, 70}, {2, 1, 0}}, {{3, 4, 5, 60}, {0, 2, 3, 1}}, {{2, 3, 40, 41}, {3, 1, 0, 2}},
      {{1500, 2}, {1, 0}},      {{40, 30, 1}, {1, 2, 0}},      {{16, 32, 2}, {1, 2, 0}},
      {{1024, 1100}, {1, 0}}};
  for (DType dtype : kFewDTypes) {
    for (const Case& one : cases) {
      HostTensor input = RandomTensor(Shape(dtype, one.sizes), Values::kSpecial);
      ExpectAsReference(ops::kPermute, {input}, {one.dims});
    }
  }
}

TEST(Calls, PermuteOfAComputedValueIsACopy) {
  Graph graph = ParseGraph(R"(
    %0 = input : f32[64,48]
    %1 = neg %0 : f32[64,48]
    %2 = permute %1 {dims=[1,0]} : f32[48,64]
    return %2)");
  EXPECT_NE(Program(graph).ToText("").find("transposing copy"), std::string::npos);
  ExpectAsReference(graph, {RandomTensor(Shape(f32, {64, 48}))});
  Graph small = ParseGraph(R"(
    %0 = input : f32[4,8]
    %1 = permute %0 {dims=[1,0]} : f32[8,4]
    return %1)");
  EXPECT_EQ(Program(small).ToText("").find("transposing copy"), std::string::npos);
}

TEST(Calls, Concat) {
  for (DType dtype : kFewDTypes) {
    for (const Dims& sizes : {Dims{3, 4, 5}, Dims{0, 4, 5}, Dims{1, 1, 1}, Dims{40, 70, 90}}) {
      for (int dim = 0; dim < 3; ++dim) {
        Dims other = sizes;
        other[dim] = 3;
        Dims none = sizes;
        none[dim] = 0;
        ExpectAsReference(ops::kConcat,
                          {RandomTensor(Shape(dtype, sizes)), RandomTensor(Shape(dtype, other)),
                           RandomTensor(Shape(dtype, none)), RandomTensor(Shape(dtype, sizes))},
                          {dim});
      }
    }
  }
}

TEST(Calls, PadCropsAndFills) {
  struct Case {
    Dims sizes;
    std::vector<int64_t> low, high;
  };
  const Case cases[] = {{{3, 4}, {1, 2}, {0, 3}},
                        {{3, 4}, {-1, 2}, {1, -3}},
                        {{5, 6}, {-2, -1}, {-1, -2}},
                        {{3, 4}, {4, 0}, {-6, 0}},
                        {{0, 4}, {2, 1}, {1, 1}},
                        {{}, {}, {}},
                        {{2, 3, 4, 5}, {0, 1, 0, 0}, {0, 1, 0, 0}},
                        {{8, 16, 30, 30}, {0, 0, 1, 1}, {0, 0, 1, 1}}};
  for (DType dtype : kFewDTypes) {
    for (const Case& one : cases) {
      ExpectAsReference(ops::kPad, {RandomTensor(Shape(dtype, one.sizes)), Make(dtype, {}, {1})},
                        {one.low, one.high});
    }
  }
}

TEST(Calls, UpdateSlice) {
  for (DType dtype : kFewDTypes) {
    for (int64_t step : {1, 2, 3}) {
      for (int dim = 0; dim < 3; ++dim) {
        Dims part = {30, 40, 50};
        part[dim] = 7;
        ExpectAsReference(
            ops::kUpdateSlice,
            {RandomTensor(Shape(dtype, {30, 40, 50})), RandomTensor(Shape(dtype, part))},
            {dim, 4, step});
        ExpectAsReference(ops::kDynamicUpdateSlice,
                          {RandomTensor(Shape(dtype, {30, 40, 50})),
                           RandomTensor(Shape(dtype, part)), Make(i64, {}, {9})},
                          {dim, step});
        ExpectAsReference(ops::kDynamicSlice,
                          {RandomTensor(Shape(dtype, {30, 40, 50})), Make(i32, {}, {9})},
                          {dim, 7, step});
      }
    }
  }
}

TEST(Calls, DynamicSliceChecksItsStart) {
  for (double start : {-1.0, 3.0}) {
    ExpectSameError(ops::kDynamicSlice, {RandomTensor(Shape(f32, {4, 5})), Make(i64, {}, {start})},
                    {0, 2, 1});
    ExpectSameError(ops::kDynamicUpdateSlice,
                    {RandomTensor(Shape(f32, {4, 5})), RandomTensor(Shape(f32, {2, 5})),
                     Make(i64, {}, {start})},
                    {0, 1});
  }
}

TEST(Calls, AsStrided) {
  using Ints = std::vector<int64_t>;
  for (DType dtype : kFewDTypes) {
    HostTensor self = RandomTensor(Shape(dtype, {20, 300}), Values::kSpecial);
    ExpectAsReference(ops::kAsStrided, {self}, {Ints{4, 5}, Ints{2, 3}, 7});
    ExpectAsReference(ops::kAsStrided, {self}, {Ints{50, 60}, Ints{1, 50}, 3});
    ExpectAsReference(ops::kAsStrided, {self}, {Ints{4, 0}, Ints{2, 3}, 7});
    ExpectAsReference(ops::kAsStrided, {self}, {Ints{9, 8, 7}, Ints{0, 1, 4}, 0});
    HostTensor source = RandomTensor(Shape(dtype, {4, 5}));
    ExpectAsReference(ops::kAsStridedScatter, {self, source}, {Ints{2, 30}, 7});
    ExpectAsReference(ops::kAsStridedScatter, {self, source}, {Ints{1, 1}, 7});  // they coincide
  }
}

TEST(Calls, BitcastBetweenWidths) {
  ExpectAsReference(ops::kBitcast, {RandomTensor(Shape(i32, {3, 4}))}, {u8});
  ExpectAsReference(ops::kBitcast, {RandomTensor(Shape(u8, {3, 16}))}, {i64});
}

TEST(Calls, RequireCopiesOrFails) {
  HostTensor self = RandomTensor(Shape(f32, {3}));
  ExpectAsReference(ops::kRequire, {self, Make(boolean, {2}, {1, 1})}, {"never"});
  ExpectAsReference(ops::kRequire, {self, Make(boolean, {0}, {})}, {"never"});
  ExpectSameError(ops::kRequire, {self, Make(boolean, {2}, {1, 0})}, {"op: it does not hold"});
}

// ---- indices

TEST(Calls, IndexSelect) {
  for (DType dtype : kFewDTypes) {
    for (DType index : {i64, i32}) {
      for (int dim = 0; dim < 3; ++dim) {
        Dims sizes = {20, 30, 17};
        ExpectAsReference(ops::kIndexSelect,
                          {RandomTensor(Shape(dtype, sizes)), RandomIndex(index, {60}, sizes[dim])},
                          {dim});
      }
    }
    ExpectAsReference(ops::kIndexSelect,
                      {RandomTensor(Shape(dtype, {20, 0})), RandomIndex(i64, {6}, 20)}, {0});
    ExpectAsReference(ops::kIndexSelect, {RandomTensor(Shape(dtype, {20, 2})), Make(i64, {0}, {})},
                      {0});
  }
  HostTensor self = RandomTensor(Shape(f32, {4, 5}));
  ExpectSameError(ops::kIndexSelect, {self, Make(i64, {1, 4, -1})}, {0});
  ExpectSameError(ops::kIndexSelect, {self, Make(i32, {1, -1, 4})}, {0});
}

TEST(Calls, Gather) {
  for (DType dtype : kFewDTypes) {
    for (int dim = 0; dim < 3; ++dim) {
      for (const Dims& index : {Dims{7, 9, 11}, Dims{5, 9, 3}, Dims{7, 1, 1}, Dims{0, 2, 2}}) {
        HostTensor self = RandomTensor(Shape(dtype, {7, 9, 11}), Values::kSpecial);
        ExpectAsReference(ops::kGather, {self, RandomIndex(i64, index, self.shape().size(dim))},
                          {dim});
      }
    }
  }
  ExpectAsReference(ops::kGather, {Make(f32, {}, {3}), Make(i64, {}, {0})}, {0});
  ExpectAsReference(ops::kGather,
                    {RandomTensor(Shape(f32, {100, 70})), RandomIndex(i32, {100, 700}, 70)}, {1});
  ExpectAsReference(ops::kGather,
                    {RandomTensor(Shape(f32, {5000})), RandomIndex(i64, {70000}, 5000)}, {0});
  HostTensor bad = RandomIndex(i64, {100, 700}, 70);
  bad.set(66666, Scalar(int64_t{-7}));
  bad.set(69999, Scalar(int64_t{70}));
  ExpectSameError(ops::kGather, {RandomTensor(Shape(f32, {100, 70})), bad}, {1});
}

TEST(Calls, ScatterInEveryWay) {
  struct Case {
    Dims self, index, source;
  };
  const Case cases[] = {{{7, 9, 11}, {7, 9, 11}, {7, 9, 11}},
                        {{7, 9, 11}, {5, 9, 3}, {6, 9, 4}},
                        {{7, 9, 11}, {0, 2, 2}, {1, 2, 2}},
                        {{7, 40, 33}, {7, 40, 33}, {7, 40, 33}}};
  for (DType dtype : kDTypes) {
    for (const char* reduce : {"none", "sum", "prod", "amax", "amin"}) {
      for (const Case& one : cases) {
        for (int dim = 0; dim < 3; ++dim) {
          std::string kind = reduce;
          bool compares = kind == "amax" || kind == "amin" || kind == "none";
          Values values = compares ? Values::kSpecial : Values::kPlain;
          HostTensor self = RandomTensor(Shape(dtype, one.self), values);
          HostTensor source = RandomTensor(Shape(dtype, one.source), values);
          if (kind == "prod" && IsFloat(dtype)) {  // values whose products are exact
            for (HostTensor* tensor : {&self, &source}) {
              for (int64_t i = 0; i < tensor->numel(); ++i) {
                tensor->set(i, Scalar(tensor->at(i).ToDouble() < 0 ? -1.0 : 1.0));
              }
            }
          }
          // Sums are of multiples of 1/64 here, exact in f32; f16 and bf16 round once, from f32.
          ExpectAsReference(ops::kScatter,
                            {self, RandomIndex(i64, one.index, one.self[dim]), source},
                            {dim, reduce});
        }
      }
    }
  }
  ExpectAsReference(ops::kScatter, {Make(f32, {}, {3}), Make(i64, {}, {0}), Make(f32, {}, {4})},
                    {0, "sum"});
  ExpectSameError(
      ops::kScatter,
      {RandomTensor(Shape(f32, {4})), Make(i64, {1, 9, -1}), RandomTensor(Shape(f32, {3}))},
      {0, "sum"});
}

TEST(Calls, ScatterLarge) {
  for (int dim : {0, 1}) {
    Dims sizes = {300, 400};
    ExpectAsReference(ops::kScatter,
                      {RandomTensor(Shape(f32, sizes)), RandomIndex(i64, sizes, sizes[dim]),
                       RandomTensor(Shape(f32, sizes))},
                      {dim, "sum"});
  }
}

// ---- order

TEST(Calls, SortAndTopK) {
  for (DType dtype : kDTypes) {
    for (const Dims& sizes : {Dims{5, 9, 3}, Dims{1, 1, 1}, Dims{3, 0, 2}, Dims{4, 600, 3}}) {
      for (int dim = 0; dim < 3; ++dim) {
        for (bool descending : {false, true}) {
          HostTensor self = RandomTensor(Shape(dtype, sizes), Values::kSpecial);
          ExpectAsReference(ops::kSort, {self}, {dim, descending, true});
          ExpectAsReference(ops::kTopK, {self},
                            {std::min<int64_t>(2, sizes[dim]), dim, descending, true});
        }
      }
    }
    ExpectAsReference(ops::kSort, {RandomTensor(Shape(dtype, {5000}))}, {0, false, false});
    ExpectAsReference(ops::kTopK, {RandomTensor(Shape(dtype, {3, 5000}))}, {100, 1, true, false});
  }
  ExpectAsReference(ops::kSort, {Make(f32, {}, {3})}, {0, false, false});
}

TEST(Calls, Nonzero) {
  for (DType dtype : kDTypes) {
    for (int64_t size : {0, 3, 60000}) {
      HostTensor large = RandomTensor(Shape(dtype, {200, 250}), Values::kSpecial);
      ExpectAsReference(ops::kNonzeroBounded, {large}, {size});
    }
    ExpectAsReference(ops::kNonzeroBounded, {RandomTensor(Shape(dtype, {0, 3}))}, {2});
    ExpectAsReference(ops::kNonzeroBounded, {Make(dtype, {}, {1})}, {2});
  }
}

// ---- along a dim

TEST(Calls, ArgMaxAndArgMin) {
  for (DType dtype : kDTypes) {
    for (const Dims& sizes : {Dims{5, 9, 3}, Dims{1, 1, 1}, Dims{3, 70, 300}, Dims{2, 3, 1000}}) {
      for (int dim = 0; dim < 3; ++dim) {
        for (Values values : {Values::kPlain, Values::kSpecial}) {
          HostTensor self = RandomTensor(Shape(dtype, sizes), values);
          ExpectAsReference(ops::kArgMax, {self}, {dim, false});
          ExpectAsReference(ops::kArgMin, {self}, {dim, true});
        }
      }
    }
  }
  ExpectAsReference(ops::kArgMax, {Make(f32, {}, {3})}, {0, false});
  HostTensor late = RandomTensor(Shape(f32, {1001}));
  late.set(1000, Scalar(kNan));
  ExpectAsReference(ops::kArgMax, {late}, {0, false});
}

TEST(Calls, Scan) {
  for (DType dtype : kNumbers) {
    for (const char* kind : {"sum", "prod", "max", "min"}) {
      for (const Dims& sizes : {Dims{5, 9, 3}, Dims{1, 1, 1}, Dims{3, 0, 2}, Dims{4, 70, 300}}) {
        for (int dim = 0; dim < 3; ++dim) {
          for (bool reverse : {false, true}) {
            HostTensor self = RandomTensor(Shape(dtype, sizes), Values::kSpecial);
            ExpectAsReference(ops::kScan, {self}, {kind, dim, reverse});
          }
        }
      }
    }
  }
}

TEST(Calls, Windows) {
  struct Case {
    Dims sizes;
    std::vector<int64_t> window, stride, low, high, dilation;
  };
  const Case cases[] = {
      {{2, 3, 8, 9}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}},
      {{2, 3, 8, 9}, {3, 3}, {2, 1}, {1, 1}, {1, 2}, {1, 1}},
      {{2, 3, 8, 9}, {2, 3}, {3, 2}, {0, 1}, {1, 0}, {2, 3}},
      {{3, 40}, {5}, {3}, {2}, {2}, {2}},
      {{2, 5, 6, 7}, {2, 3, 2}, {1, 2, 2}, {1, 0, 1}, {0, 1, 0}, {2, 1, 1}},
      {{2, 3, 1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
      {{4, 16, 56, 57}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
  };
  for (DType dtype : kNumbers) {
    for (const Case& one : cases) {
      // Sums of multiples of 1/64 are exact in f32.
      ExpectAsReference(ops::kReduceWindow, {RandomTensor(Shape(dtype, one.sizes))},
                        {"sum", one.window, one.stride, one.low, one.high, one.dilation});
      HostTensor self = RandomTensor(Shape(dtype, one.sizes), Values::kSpecial);
      ExpectAsReference(ops::kReduceWindow, {self},
                        {"max", one.window, one.stride, one.low, one.high, one.dilation});
      ExpectAsReference(ops::kReduceWindowArg, {self},
                        {one.window, one.stride, one.low, one.high, one.dilation});
    }
  }
}

// ---- elements

TEST(Calls, RngBits) {
  HostTensor state =
      HostTensor::From(std::vector<uint64_t>{0x123456789abcdef0, ~uint64_t{0} - 5}, {2});
  for (int64_t count : {0, 1, 3, 63, 64, 65, 1000, 100003}) {
    ExpectAsReference(ops::kRngBits, {state}, {std::vector<int64_t>{count}});
  }
}

TEST(Calls, QuotientsOfIntegers) {
  for (DType dtype : kIntegers) {
    for (const OpDef* op :
         {&ops::kFloorDivide, &ops::kTruncDivide, &ops::kRemainder, &ops::kFmod}) {
      HostTensor x = RandomTensor(Shape(dtype, {30000}));
      HostTensor y = RandomTensor(Shape(dtype, {30000}));
      for (int64_t i = 0; i < y.numel(); ++i) {
        if (!y.at(i).ToBool()) y.set(i, Scalar(int64_t{-1}));
      }
      x.set(5, Scalar(std::numeric_limits<int64_t>::min()));
      y.set(5, Scalar(int64_t{-1}));
      x.set(6, Scalar(static_cast<int64_t>(InfoOf(dtype).lowest)));
      y.set(6, Scalar(int64_t{-1}));
      ExpectAsReference(*op, {x, y}, {});
      y.set(29999, Scalar(int64_t{0}));
      ExpectSameError(*op, {x, y}, {});
    }
  }
}

// ---- control flow

TEST(Calls, CondRunsOneBranch) {
  Graph graph = ParseGraph(R"(
    %0 = input : bool[]
    %1 = input : f32[3,4]
    %2 = input : f32[3,4]
    %3:3 = cond %0, %1, %2 {then=graph {
      %0 = input : f32[3,4]
      %1 = input : f32[3,4]
      %2 = add %0, %1 : f32[3,4]
      return %2, %2, %0
    }, otherwise=graph {
      %0 = input : f32[3,4]
      %1 = input : f32[3,4]
      %2 = mul %0, %1 : f32[3,4]
      return %1, %2, %1
    }} : f32[3,4], f32[3,4], f32[3,4]
    return %3.0, %3.1, %3.2)");
  for (double predicate : {0.0, 1.0}) {
    ExpectAsReference(graph, {Make(boolean, {}, {predicate}), RandomTensor(Shape(f32, {3, 4})),
                              RandomTensor(Shape(f32, {3, 4}))});
  }
}

TEST(Calls, WhileCarriesValues) {
  Graph graph = ParseGraph(R"(
    %0 = input : i64[]
    %1 = input : f32[5]
    %2 = input : f32[5]
    %3 = input : f32[2]
    %4:4 = while %0, %1, %2, %3 {condition=graph {
      %0 = input : i64[]
      %1 = input : f32[5]
      %2 = input : f32[5]
      %3 = input : f32[2]
      %4 = constant {value=5, dtype=i64} : i64[]
      %5 = lt %0, %4 : bool[]
      return %5
    }, body=graph {
      %0 = input : i64[]
      %1 = input : f32[5]
      %2 = input : f32[5]
      %3 = input : f32[2]
      %4 = constant {value=1, dtype=i64} : i64[]
      %5 = add %0, %4 : i64[]
      %6 = add %1, %2 : f32[5]
      return %5, %2, %6, %3
    }} : i64[], f32[5], f32[5], f32[2]
    return %4.0, %4.1, %4.2, %4.3)");
  for (double start : {0.0, 1.0, 4.0, 5.0, 9.0}) {
    ExpectAsReference(graph, {Make(i64, {}, {start}), RandomTensor(Shape(f32, {5})),
                              RandomTensor(Shape(f32, {5})), RandomTensor(Shape(f32, {2}))});
  }
}

std::string LoopText(int64_t count) {
  return fmt::format(R"(
    %0 = input : f32[3]
    %1 = input : f32[3]
    %2 = input : f32[{0},3]
    %3 = input : f32[3]
    %4:5 = loop %0, %1, %2, %3 {{body=graph {{
      %0 = input : i64[]
      %1 = input : f32[3]
      %2 = input : f32[3]
      %3 = input : f32[3]
      %4 = input : f32[3]
      %5 = mul %1, %4 : f32[3]
      %6 = add %5, %3 : f32[3]
      return %2, %6, %6, %3, %0
    }}, count={0}, num_carried=2, num_stacked_in=1}} : f32[3], f32[3], f32[{0},3], f32[{0},3], i64[{0}]
    return %4.0, %4.1, %4.2, %4.3, %4.4)",
                     count);
}

TEST(Calls, LoopCarriesAndStacks) {
  for (int64_t count : {0, 1, 2, 3, 8}) {
    ExpectAsReference(ParseGraph(LoopText(count)),
                      {Make(f32, {1, 2, 3}), Make(f32, {4, 5, 6}),
                       RandomTensor(Shape(f32, {count, 3})), Make(f32, {1, 0.5, 2})});
  }
}

TEST(Calls, LoopsMayHaveLoops) {
  ExpectAsReference(ParseGraph(R"(
    %0 = input : f32[3]
    %1 = loop %0 {body=graph {
      %0 = input : i64[]
      %1 = input : f32[3]
      %2 = loop %1 {body=graph {
        %0 = input : i64[]
        %1 = input : f32[3]
        %2 = add %1, %1 : f32[3]
        return %2
      }, count=2, num_carried=1, num_stacked_in=0} : f32[3]
      return %2
    }, count=3, num_carried=1, num_stacked_in=0} : f32[3]
    return %1)"),
                    {Make(f32, {1, 2, 3})});
}

TEST(Calls, ErrorsInsideOfLoopsNameTheLoop) {
  Graph graph = ParseGraph(R"(
    %0 = input : i64[3]
    %1 = input : i64[4,3]
    %2 = loop %0, %1 {body=graph {
      %0 = input : i64[]
      %1 = input : i64[3]
      %2 = input : i64[3]
      %3 = floor_divide %1, %2 : i64[3]
      return %3
    }, count=4, num_carried=1, num_stacked_in=1} : i64[3]
    return %2)");
  HostTensor divisors = Make(i64, {4, 3}, {1, 2, 3, 1, 2, 3, 1, 0, 3, 1, 2, 3});
  ExpectSameError(graph, {Make(i64, {100, 200, 300}), divisors});
}

TEST(Calls, CustomCallRuns) {
  RegisterCustomCall("calls_test_twice", [](std::span<const HostTensor> in, std::string_view) {
    HostTensor result(in[0].shape());
    for (int64_t i = 0; i < in[0].numel(); ++i) {
      result.set(i, Scalar(2 * in[0].at(i).ToDouble()));
    }
    return std::vector<HostTensor>{result};
  });
  Graph graph = ParseGraph(R"(
    %0 = input : f32[3]
    %1 = custom_call %0 {target="calls_test_twice", payload="", types=strings["f32[3]"]} : f32[3]
    return %1)");
  ExpectAsReference(graph, {Make(f32, {1, 2, 3})});
}

}  // namespace
}  // namespace hammock::cpu
