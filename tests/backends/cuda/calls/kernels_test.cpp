// Ops that have kernels of their own, at sizes that reach every way of them; those that order their
// elements are in order_kernels_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "backends/cuda/calls/kernel_tests.h"
#include "backends/cuda/emit/launch_config.h"
#include "compiler/passes/expand.h"
#include "hammock/compiler/schedule.h"

namespace hammock::cuda {
namespace {

/// `across` computes of columns what `along` computes of rows: the operand of one is the transpose
/// of the other's.
void ExpectSameBits(const std::string& across, const std::string& along, int64_t length,
                    int64_t width, bool transposed_result) {
  SCOPED_TRACE(fmt::format("{} x {}\n{}", length, width, across));
  Graph by_columns = ParseGraph(across), by_rows = ParseGraph(along);
  DType dtype = by_columns[NodeId(0)].type().dtype();
  HostTensor columns(Shape(dtype, {length, width})), rows(Shape(dtype, {width, length}));
  for (int64_t i = 0; i < length; ++i) {
    for (int64_t k = 0; k < width; ++k) {
      float value = 1.0f / static_cast<float>((i * 7 + k * 13) % 101 + 1);
      auto set = [&](HostTensor& tensor, int64_t at) {
        if (dtype == DType::kF32) {
          static_cast<float*>(tensor.mutable_data())[at] = value;
        } else {
          static_cast<uint16_t*>(tensor.mutable_data())[at] =
              static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
        }
      };
      set(columns, i * width + k);
      set(rows, k * length + i);
    }
  }
  std::shared_ptr<Machine> machine = MachineForTests();
  Program a_program(by_columns, machine), b_program(by_rows, machine);
  for (int run = 0; run < 2; ++run) {  // what one run leaves must not disturb the next
    std::vector<HostTensor> a = RunProgram(*machine, a_program, by_columns, {columns});
    std::vector<HostTensor> b = RunProgram(*machine, b_program, by_rows, {rows});
    for (size_t output = 0; output < a.size(); ++output) {
      const auto* x = static_cast<const float*>(a[output].data());
      const auto* y = static_cast<const float*>(b[output].data());
      bool whole = transposed_result && output == 0;
      for (int64_t i = 0; i < (whole ? length : 1); ++i) {
        for (int64_t k = 0; k < width; ++k) {
          ASSERT_EQ(std::bit_cast<uint32_t>(x[i * width + k]),
                    std::bit_cast<uint32_t>(y[whole ? k * length + i : k]))
              << "output " << output << " at " << i << ", " << k;
        }
      }
    }
  }
}

/// The bits are those of sums along rows, however many lanes, slots, threads and passes there are.
TEST_F(CudaKernels, ColumnsAreReducedAsRowsAre) {
  auto sum = [](DType dtype, int64_t rows, int64_t columns, int dim, DType in = DType::kF32) {
    return fmt::format(R"(
      %0 = input : {0}[{1},{2}]
      %1 = cast %0 {{dtype={5}}} : {5}[{1},{2}]
      %2 = mul %1, %1 : {5}[{1},{2}]
      %3 = reduce_sum %1 {{dims=[{3}], keepdim=false}} : {5}[{4}]
      %4 = reduce_sum %2 {{dims=[{3}], keepdim=false}} : {5}[{4}]
      %5 = sub %3, %4 : {5}[{4}]
      %6 = cast %5 {{dtype=f32}} : f32[{4}]
      return %6)",
                       NameOf(dtype), rows, columns, dim, dim == 0 ? columns : rows, NameOf(in));
  };
  for (auto [length, width] :
       {std::pair{3, 160}, {8, 64}, {40, 24}, {1000, 8}, {3000, 5}, {2048, 200}, {5000, 16}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      for (DType in : {DType::kF32, DType::kF64}) {
        ExpectSameBits(sum(dtype, length, width, 0, in), sum(dtype, width, length, 1, in), length,
                       width, false);
      }
    }
  }
}

/// Threads that have several lines, the last of which are missing.
TEST_F(CudaKernels, LinesShareElements) {
  for (auto [lines, columns] : {std::pair{16389, 256}, {65541, 64}}) {
    const std::string text = fmt::format(R"(
      %0 = input : bf16[{0},{1}]
      %1 = input : f32[{1}]
      %2 = input : f64[{1}]
      %3 = cast %0 {{dtype=f32}} : f32[{0},{1}]
      %4 = broadcast %1 {{sizes=[{0},{1}]}} : f32[{0},{1}]
      %5 = cast %2 {{dtype=f32}} : f32[{1}]
      %6 = broadcast %5 {{sizes=[{0},{1}]}} : f32[{0},{1}]
      %7 = mul %3, %4 : f32[{0},{1}]
      %8 = sub %7, %6 : f32[{0},{1}]
      %9 = cast %8 {{dtype=bf16}} : bf16[{0},{1}]
      return %9, %7)",
                                         lines, columns);
    Graph graph = ParseGraph(text);
    compiler::Schedule schedule = compiler::MakeSchedule(graph, false, false);
    ASSERT_TRUE(ConfigureLaunch(schedule.commands.back().launch).line_slots);
    ExpectBits(text);
  }
}

/// Two sums and their elements in one kernel, and a softmax, which has passes in one block.
TEST_F(CudaKernels, ColumnsOfSeveralResultsAreReducedAsRowsAre) {
  auto sums = [](int64_t rows, int64_t columns, int dim) {
    return fmt::format(R"(
      %0 = input : f32[{0},{1}]
      %1 = exp %0 : f32[{0},{1}]
      %2 = mul %1, %0 : f32[{0},{1}]
      %3 = reduce_sum %2 {{dims=[{2}], keepdim=false}} : f32[{3}]
      %4 = reduce_max %1 {{dims=[{2}], keepdim=false}} : f32[{3}]
      %5 = add %3, %4 : f32[{3}]
      return %2, %5, %4)",
                       rows, columns, dim, dim == 0 ? columns : rows);
  };
  auto softmax = [](int64_t rows, int64_t columns, int dim) {
    int64_t left = dim == 0 ? 1 : rows, right = dim == 0 ? columns : 1;
    return fmt::format(R"(
      %0 = input : f32[{0},{1}]
      %1 = reduce_max %0 {{dims=[{2}], keepdim=true}} : f32[{3},{4}]
      %2 = broadcast %1 {{sizes=[{0},{1}]}} : f32[{0},{1}]
      %3 = sub %0, %2 : f32[{0},{1}]
      %4 = exp %3 : f32[{0},{1}]
      %5 = reduce_sum %4 {{dims=[{2}], keepdim=true}} : f32[{3},{4}]
      %6 = broadcast %5 {{sizes=[{0},{1}]}} : f32[{0},{1}]
      %7 = div %4, %6 : f32[{0},{1}]
      return %7)",
                       rows, columns, dim, left, right);
  };
  for (auto [length, width] : {std::pair{1500, 40}, {2048, 12}}) {
    ExpectSameBits(sums(length, width, 0), sums(width, length, 1), length, width, true);
    ExpectSameBits(softmax(length, width, 0), softmax(width, length, 1), length, width, true);
  }
}

/// Words that kernels draw, at sizes and offsets that are multiples of four and not.
TEST_F(CudaKernels, DrawsRandomWordsWhereTheyAreUsed) {
  for (const char* dtype : {"f32", "bf16"}) {
    for (int64_t count : {1, 6, 4096, 270000, 270001, 600000}) {
      ExpectBits(fmt::format(R"(
        %0 = input : u64[2]
        %1 = rng_bits %0 {{sizes=[2,{1}]}} : u32[2,{1}]
        %2 = slice %1 {{dim=0, start=0, size=1, step=1}} : u32[1,{1}]
        %3 = slice %1 {{dim=0, start=1, size=1, step=1}} : u32[1,{1}]
        %4 = constant {{value=25:u32, dtype=u32}} : u32[]
        %5 = broadcast %4 {{sizes=[1,{1}]}} : u32[1,{1}]
        %6 = bitwise_right_shift %2, %5 : u32[1,{1}]
        %7 = bitwise_right_shift %3, %5 : u32[1,{1}]
        %8 = cast %6 {{dtype={0}}} : {0}[1,{1}]
        %9 = cast %7 {{dtype={0}}} : {0}[1,{1}]
        %10 = sub %8, %9 : {0}[1,{1}]
        return %10)",
                             dtype, count));
    }
  }
  ExpectBits(R"(
    %0 = input : u64[2]
    %1 = rng_bits %0 {sizes=[50,70]} : u32[50,70]
    %2 = input : u32[50,70]
    %3 = bitwise_xor %1, %2 : u32[50,70]
    %4 = reduce_max %3 {dims=[1], keepdim=true} : u32[50,1]
    %5 = broadcast %4 {sizes=[50,70]} : u32[50,70]
    %6 = sub %5, %3 : u32[50,70]
    return %6)");
  ExpectBits(R"(
    %0 = input : u64[2]
    %1 = input : u64[2]
    %2 = rng_bits %0 {sizes=[300]} : u32[300]
    %3 = rng_bits %1 {sizes=[500]} : u32[500]
    %4 = neg %2 : u32[300]
    %5 = neg %3 : u32[500]
    return %4, %5)");
}

/// Few angles are so large that another reduction is branched to.
TEST_F(CudaKernels, TurnsAnglesOfEverySize) {
  const float angles[] = {0.0f,    -0.0f,  1.0f,    -2.5f,    3e5f,   -0x1p39f,
                          0x1p41f, -1e20f, 3.3e30f, -3.4e38f, 1e-40f, 0x1.fffffep39f};
  for (const char* op : {"sin", "cos", "tan"}) {
    Graph graph = ParseGraph(fmt::format(R"(
      %0 = input : f32[12]
      %1 = {} %0 : f32[12]
      return %1)",
                                         op));
    std::vector<HostTensor> input = {HostTensor(Shape(DType::kF32, {12}))};
    std::copy(std::begin(angles), std::end(angles), static_cast<float*>(input[0].mutable_data()));
    Program program(graph, MachineForTests());
    std::vector<HostTensor> actual = RunProgram(*MachineForTests(), program, graph, input);
    std::vector<HostTensor> expected = reference::Interpret(graph, input);
    EXPECT_EQ(fuzz::CompareNode(graph, input, actual, expected), "") << op;
  }
}

TEST_F(CudaKernels, TransposesInTiles) {
  ExpectBits(R"(
    %0 = input : bf16[3,70,45]
    %1 = input : bf16[3,45,70]
    %2 = permute %0 {dims=[0,2,1]} : bf16[3,45,70]
    %3 = maximum %2, %1 : bf16[3,45,70]
    %4 = permute %1 {dims=[0,2,1]} : bf16[3,70,45]
    return %3, %4)");
  ExpectBits(R"(
    %0 = input : i64[40,5,33]
    %1 = permute %0 {dims=[2,1,0]} : i64[33,5,40]
    %2 = permute %0 {dims=[1,2,0]} : i64[5,33,40]
    %3 = neg %2 : i64[5,33,40]
    return %1, %3)");
}

/// A carried value, slices that are read and written, and an invariant; slices of 8 and 16 bytes,
/// since kernels want the latter.
TEST_F(CudaKernels, Loops) {
  for (int count : {0, 1, 2, 5}) {
    for (int width : {1, 2, 3}) {
      ExpectBits(fmt::format(R"(
        %0 = input : i64[{1}]
        %1 = input : i64[{0},{1}]
        %2 = input : i64[{1}]
        %3:4 = loop %0, %2, %1, %2 {{body=graph {{
          %0 = input : i64[]
          %1 = input : i64[{1}]
          %2 = input : i64[{1}]
          %3 = input : i64[{1}]
          %4 = input : i64[{1}]
          %5 = broadcast %0 {{sizes=[{1}]}} : i64[{1}]
          %6 = add %1, %5 : i64[{1}]
          %7 = mul %6, %3 : i64[{1}]
          %8 = sub %7, %4 : i64[{1}]
          return %2, %8, %7, %3
        }}, count={0}, num_carried=2, num_stacked_in=1}} : i64[{1}], i64[{1}], i64[{0},{1}], i64[{0},{1}]
        return %3.0, %3.1, %3.2, %3.3)",
                             count, width));
    }
  }
}

/// Rounds that fail are found after the loop, and say what went wrong.
TEST_F(CudaKernels, LoopsThatCanFail) {
  Graph graph = ParseGraph(R"(
    %0 = input : i64[3,2]
    %1 = input : i64[5]
    %2 = input : i64[2]
    %3:2 = loop %2, %0, %1 {body=graph {
      %0 = input : i64[]
      %1 = input : i64[2]
      %2 = input : i64[2]
      %3 = input : i64[5]
      %4 = index_select %3, %2 {dim=0} : i64[2]
      %5 = add %1, %4 : i64[2]
      %6 = floor_divide %5, %1 : i64[2]
      return %5, %6
    }, count=3, num_carried=1, num_stacked_in=1} : i64[2], i64[3,2]
    return %3.0, %3.1)");
  Program program(graph, MachineForTests());
  auto numbers = [](std::vector<int64_t> values, const Dims& sizes) {
    return HostTensor::Copy(Shape(DType::kI64, sizes), values.data());
  };
  auto inputs_of = [&](std::vector<int64_t> indices, int64_t first) {
    return std::vector<HostTensor>{numbers(std::move(indices), {3, 2}),
                                   numbers({10, 20, 30, 40, 50}, {5}), numbers({first, 1}, {2})};
  };
  auto run = [&](const std::vector<HostTensor>& inputs) {
    return RunProgram(*MachineForTests(), program, graph, inputs);
  };
  std::vector<HostTensor> inputs = inputs_of({0, 1, 4, 2, 3, 3}, 7);
  std::vector<HostTensor> actual = run(inputs), expected = reference::Interpret(graph, inputs);
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(fuzz::CompareBits(actual[i], expected[i]), "");
  }
  auto message_of = [&](std::vector<int64_t> indices, int64_t first) -> std::string {
    try {
      run(inputs_of(std::move(indices), first));
    } catch (const lazy::ExecutionError& error) {
      EXPECT_EQ(error.node(), NodeId(3));
      return error.message();
    }
    return "none";
  };
  EXPECT_EQ(message_of({0, 1, 4, 2, 3, 5}, 7),
            "index_select: index 5 is out of bounds for dimension 0 with size 5");
  EXPECT_EQ(message_of({0, 1, 4, 2, 3, 3}, 0),
            "floor_divide: ZeroDivisionError: integer division by zero");
}

/// The operand has few values, so that windows have several maxima.
TEST_F(CudaKernels, GradientsOfMaxima) {
  struct Case {
    const char *dtype, *grad, *operand, *attrs;
  };
  for (const Case& c : {
           Case{"f32", "2,3,2", "2,6,4",
                "window=[2,2], stride=[2,2], low=[0,0], high=[0,0], dilation=[1,1]"},
           {"bf16", "2,3,4", "2,6,5",
            "window=[3,2], stride=[2,1], low=[1,0], high=[1,0], dilation=[1,1]"},
           {"f64", "3,5,5", "3,9,9",
            "window=[3,3], stride=[2,2], low=[1,1], high=[1,1], dilation=[1,1]"},
           {"f32", "2,7", "2,9", "window=[2], stride=[1], low=[0], high=[0], dilation=[2]"},
           {"f32", "4,1", "4,40", "window=[40], stride=[40], low=[0], high=[0], dilation=[1]"},
           {"f32", "2,2,2,2", "2,5,4,5",
            "window=[2,2,2], stride=[3,2,3], low=[0,0,0], high=[0,0,0], dilation=[1,1,1]"},
           {"f32", "2,4", "2,3", "window=[2], stride=[2], low=[3], high=[3], dilation=[1]"},
           {"f32", "0,2", "0,4", "window=[2], stride=[2], low=[0], high=[0], dilation=[1]"},
       }) {
    Graph graph =
        ParseGraph(fmt::format("%0 = input : {0}[{1}]\n%1 = input : {0}[{2}]\n"
                               "%2 = _max_window_backward %0, %1 {{{3}}} : {0}[{2}]\nreturn %2\n",
                               c.dtype, c.grad, c.operand, c.attrs));
    std::vector<HostTensor> values;
    for (NodeId id : graph.inputs()) {
      HostTensor tensor(graph[id].type());
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        double value = static_cast<double>(i * 37 % 101 % (values.empty() ? 17 : 3)) / 8 - 1;
        if (!values.empty() && i % 11 == 10) value = std::nan("");
        tensor.set(i, Scalar(value).To(tensor.dtype()));
      }
      values.push_back(tensor);
    }
    Program program(graph, MachineForTests());
    HostTensor actual = RunProgram(*MachineForTests(), program, graph, values)[0];
    EXPECT_TRUE(actual.SameBits(reference::Interpret(ExpandComposites(graph), values)[0]))
        << ToText(graph);
  }
}

/// A size that changes compiles no kernel, so texts have none of them.
TEST_F(CudaKernels, OfCallsServeManySizes) {
  const char* texts[] = {
      "%0 = input : f32[{0},10]\n%1 = input : i64[{0},1]\n%2 = input : f32[{0},1]\n"
      "%3 = scatter %0, %1, %2 {{dim=1, reduce=\"sum\"}} : f32[{0},10]\nreturn %3\n",
      "%0 = input : f32[9,{0},6]\n%1 = input : i64[9,{0},6]\n"
      "%3 = scatter %0, %1, %0 {{dim=1, reduce=\"sum\"}} : f32[9,{0},6]\nreturn %3\n",
      "%0 = input : i64[9,{0},6]\n"
      "%3 = scatter %0, %0, %0 {{dim=1, reduce=\"sum\"}} : i64[9,{0},6]\nreturn %3\n",
      "%0 = input : f32[3,8,{0}]\n%1 = reduce_window %0 {{kind=\"max\", window=[2,{0}], "
      "stride=[2,1], low=[0,0], high=[0,0], dilation=[1,1]}} : f32[3,4,1]\nreturn %1\n",
      "%0 = input : f32[3,4,1]\n%1 = input : f32[3,8,{0}]\n"
      "%2 = _max_window_backward %0, %1 {{window=[2,{0}], "
      "stride=[2,1], low=[0,0], high=[0,0], dilation=[1,1]}} : f32[3,8,{0}]\nreturn %2\n",
      "%0 = input : bool[{0},7]\n%1 = nonzero_bounded %0 {{size=40}} : i64[40,2]\n"
      "return %1\n",
      "%0 = input : f32[{0},7]\n%1 = input : i64[{0},3]\n"
      "%2 = gather %0, %1 {{dim=1}} : f32[{0},3]\nreturn %2\n",
  };
  for (const char* text : texts) {
    auto names_at = [&](int size) {
      Program program(ParseGraph(fmt::format(fmt::runtime(text), size)), MachineForTests());
      std::vector<std::string> names;
      for (const KernelSource& source : program.Sources()) names.push_back(source.name);
      return names;
    };
    EXPECT_FALSE(names_at(40).empty()) << text;
    EXPECT_EQ(names_at(40), names_at(43)) << text;
  }
}

std::string ConvolutionOf(const std::string& dtype, const std::string& input,
                          const std::string& weight, const std::string& out,
                          const std::string& attrs) {
  return fmt::format(
      "%0 = input : {0}[{1}]\n%1 = input : {0}[{2}]\n"
      "%2 = convolution %0, %1 {{{4}}} : {0}[{3}]\nreturn %2\n",
      dtype, input, weight, out, attrs);
}

/// The larger ones go to the machine's library.
TEST_F(CudaKernels, Convolutions) {
  std::string plain =
      "stride=[1,1], padding=[1,1], dilation=[1,1], transposed=false, output_padding=[0,0], "
      "groups=1";
  std::string odd =
      "stride=[2,1], padding=[1,0], dilation=[1,2], transposed=false, output_padding=[0,0], "
      "groups=2";
  std::string back =
      "stride=[2,1], padding=[1,0], dilation=[1,2], transposed=true, output_padding=[1,0], "
      "groups=2";
  ExpectRight({
      ConvolutionOf("f32", "1,2,4,4", "3,2,3,3", "1,3,4,4", plain),
      ConvolutionOf("f32", "2,8,12,12", "6,8,3,3", "2,6,12,12", plain),
      ConvolutionOf("bf16", "2,8,12,12", "6,8,3,3", "2,6,12,12", plain),
      ConvolutionOf("f64", "2,8,13,12", "16,4,3,2", "2,16,7,10", odd),
      ConvolutionOf("f32", "2,8,13,12", "16,4,3,2", "2,16,7,10", odd),
      ConvolutionOf("f32", "2,16,7,10", "16,4,3,2", "2,8,14,12", back),
      ConvolutionOf("f16", "4,16,40", "16,16,5", "4,16,18",
                    "stride=[2], padding=[0], dilation=[1], transposed=false, "
                    "output_padding=[0], groups=1"),
      ConvolutionOf("i32", "2,8,12,12", "6,8,3,3", "2,6,12,12", plain),
      ConvolutionOf("f32", "0,8,12,12", "6,8,3,3", "0,6,12,12", plain),
  });
}

/// The interpreter runs what the composite expands to.
void ExpectWeightGradient(const std::string& dtype, const std::string& grad,
                          const std::string& input, const std::string& weight,
                          const std::string& attrs, const std::string& forward) {
  std::string inputs =
      fmt::format("%0 = input : {0}[{1}]\n%1 = input : {0}[{2}]\n", dtype, grad, input);
  Graph whole = ParseGraph(
      inputs +
      fmt::format("%2 = _convolution_weight_backward %0, %1 {{sizes=[{1}], {2}}} : {0}[{1}]\n"
                  "return %2\n",
                  dtype, weight, attrs));
  Program program(whole, MachineForTests());
  std::vector<HostTensor> values;
  for (NodeId id : whole.inputs()) {
    HostTensor tensor(whole[id].type());
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      tensor.set(i, Scalar(static_cast<double>(i * 37 % 101 % 17) / 8 - 1).To(tensor.dtype()));
    }
    values.push_back(tensor);
  }
  HostTensor actual = RunProgram(*MachineForTests(), program, whole, values)[0].To(DType::kF64);
  // The derivative along each weight of the sum of the forward result times the gradient.
  Graph convolution =
      ParseGraph(fmt::format("%0 = input : f64[{0}]\n%1 = input : f64[{1}]\n"
                             "%2 = convolution %0, %1 {{{3}}} : f64[{2}]\nreturn %2\n",
                             input, weight, grad, forward));
  HostTensor gradient = values[0].To(DType::kF64), image = values[1].To(DType::kF64);
  double largest = 1;
  for (double x : actual.values<double>()) largest = std::max(largest, std::abs(x));
  for (int64_t i = 0; i < actual.numel(); i += std::max<int64_t>(1, actual.numel() / 23)) {
    HostTensor one(actual.shape());
    std::ranges::fill(one.mutable_values<double>(), 0.0);
    one.set(i, Scalar(1.0));
    HostTensor out = reference::Interpret(convolution, std::vector{image, one})[0];
    double expected = 0;
    for (int64_t k = 0; k < out.numel(); ++k) {
      expected += out.values<double>()[k] * gradient.values<double>()[k];
    }
    EXPECT_NEAR(actual.values<double>()[i], expected, 0.004 * largest) << i;
  }
}

TEST_F(CudaKernels, GradientsOfConvolutionsWeights) {
  std::string odd = "stride=[2,1], padding=[1,0], dilation=[1,2], ";
  std::string rest = "transposed=false, output_padding=[0,0], ";
  ExpectWeightGradient("f32", "2,6,3,3", "2,4,6,5", "6,2,3,2", odd + "groups=2",
                       odd + rest + "groups=2");
  ExpectWeightGradient("f32", "4,16,7,10", "4,8,13,12", "16,4,3,2", odd + "groups=2",
                       odd + rest + "groups=2");
  ExpectWeightGradient("bf16", "4,16,7,10", "4,8,13,12", "16,8,3,2", odd + "groups=1",
                       odd + rest + "groups=1");
  ExpectWeightGradient("f64", "1,2,4", "1,3,6", "2,3,3",
                       "stride=[1], padding=[0], dilation=[1], groups=1",
                       "stride=[1], padding=[0], dilation=[1], transposed=false, "
                       "output_padding=[0], groups=1");
}

}  // namespace
}  // namespace hammock::cuda
