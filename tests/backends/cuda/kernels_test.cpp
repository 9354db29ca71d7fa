// Ops that have kernels of their own, at sizes that reach every way of them, against the
// interpreter; on the emulated machine, and on a GPU where there is one.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "backends/cuda/emulated.h"
#include "backends/cuda/gpu_machine.h"
#include "backends/cuda/nvrtc.h"
#include "backends/cuda/scalar_text.h"
#include "backends/reference/interpreter.h"
#include "fuzz/bounds.h"
#include "fuzz/case.h"
#include "hammock/config.h"

namespace hammock::cuda {
namespace {

std::shared_ptr<Machine> MachineForTests() {
  static auto& machine =
      *new std::shared_ptr<Machine>(WhyNoGpu().empty() ? MakeGpuMachine(0) : EmulatedForTests());
  return machine;
}

class CudaKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNoGpu().empty() && !WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  }
};

void ExpectCompiledByNvrtc(const std::vector<std::unique_ptr<Program>>& programs) {
  if (!WhyNoNvrtc().empty()) return;
  std::map<std::string, std::string> texts;
  for (const auto& program : programs) {
    for (const KernelSource& source : program->Sources()) texts[source.name] = source.text;
  }
  std::string module = Prelude();
  for (const auto& [name, text] : texts) module += text;
  EXPECT_NO_THROW(CompileByNvrtc(module, 90));
}

/// All graphs are prepared first, so that their kernels are compiled together.
void ExpectRight(const std::vector<std::string>& texts) {
  std::shared_ptr<Machine> machine = MachineForTests();
  std::vector<Graph> graphs;
  std::vector<std::unique_ptr<Program>> programs;
  for (const std::string& text : texts) {
    graphs.push_back(ParseGraph(text));
    programs.push_back(std::make_unique<Program>(graphs.back(), machine));
  }
  ExpectCompiledByNvrtc(programs);
  for (size_t i = 0; i < graphs.size(); ++i) {
    std::vector<HostTensor> inputs = fuzz::RandomInputs(graphs[i], i + 1);
    std::vector<HostTensor> actual = RunProgram(*machine, *programs[i], graphs[i], inputs);
    std::vector<HostTensor> expected = reference::Interpret(graphs[i], inputs);
    EXPECT_EQ(fuzz::CompareNode(graphs[i], inputs, actual, expected), "") << texts[i];
  }
}

/// Exact ops, so the bits of the interpreter's.
void ExpectBits(const std::string& text, const std::vector<HostTensor>& given = {}) {
  Graph graph = ParseGraph(text);
  std::vector<HostTensor> inputs = given.empty() ? fuzz::RandomInputs(graph, 3) : given;
  Program program(graph, MachineForTests());
  std::vector<HostTensor> actual = RunProgram(*MachineForTests(), program, graph, inputs);
  std::vector<HostTensor> expected = reference::Interpret(graph, inputs);
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_EQ(fuzz::CompareBits(actual[i], expected[i]), "") << text;
  }
}

/// What `across` makes of columns, `along` makes of rows: both take [length, width], one turned.
void ExpectSameBits(const std::string& across, const std::string& along, int64_t length,
                    int64_t width, bool turned_result) {
  SCOPED_TRACE(fmt::format("{} x {}\n{}", length, width, across));
  Graph by_columns = ParseGraph(across), by_rows = ParseGraph(along);
  DType dtype = by_columns[0].type().dtype();
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
      bool whole = turned_result && output == 0;
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
  auto sum = [](DType dtype, int64_t rows, int64_t columns, int dim) {
    return fmt::format(R"(
      %0 = input : {0}[{1},{2}]
      %1 = cast %0 {{dtype=f32}} : f32[{1},{2}]
      %2 = reduce_sum %1 {{dims=[{3}], keepdim=false}} : f32[{4}]
      return %2)",
                       NameOf(dtype), rows, columns, dim, dim == 0 ? columns : rows);
  };
  for (auto [length, width] :
       {std::pair{3, 160}, {8, 64}, {40, 24}, {1000, 8}, {3000, 5}, {2048, 200}, {5000, 16}}) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      ExpectSameBits(sum(dtype, length, width, 0), sum(dtype, width, length, 1), length, width,
                     false);
    }
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
      EXPECT_EQ(error.node(), 3);
      return error.message();
    }
    return "none";
  };
  EXPECT_EQ(message_of({0, 1, 4, 2, 3, 5}, 7),
            "index_select: index 5 is out of bounds for dimension 0 with size 5");
  EXPECT_EQ(message_of({0, 1, 4, 2, 3, 3}, 0),
            "floor_divide: ZeroDivisionError: integer division by zero");
}

std::string SortOf(const std::string& dtype, const std::string& sizes, int dim, bool descending) {
  return fmt::format(
      "%0 = input : {0}[{1}]\n"
      "%1:2 = sort %0 {{dim={2}, descending={3}, stable=true}} : {0}[{1}], i64[{1}]\n"
      "return %1.0, %1.1\n",
      dtype, sizes, dim, descending);
}

TEST_F(CudaKernels, SortsShortRowsOfAllDtypes) {
  std::vector<std::string> texts;
  for (const char* dtype : {"bool", "u8", "i8", "i16", "u16", "i32", "u32", "i64", "u64", "f16",
                            "bf16", "f32", "f64"}) {
    texts.push_back(SortOf(dtype, "3,100", 1, false));
    texts.push_back(SortOf(dtype, "3,100", 1, true));
  }
  ExpectRight(texts);
}

TEST_F(CudaKernels, SortsRowsOfEveryLength) {
  std::vector<std::string> texts;
  for (const char* sizes : {"", "1", "2", "700,3", "5,4", "3,9", "3,2048", "2,2049", "1,9000"}) {
    int dim = std::string_view(sizes).find(',') == std::string_view::npos ? 0 : 1;
    texts.push_back(SortOf("f32", sizes, dim, false));
  }
  texts.push_back(SortOf("f32", "40000", 0, true));
  texts.push_back(SortOf("bf16", "2,33000", 1, false));
  texts.push_back(SortOf("f64", "2,5000", 1, true));
  texts.push_back(SortOf("f32", "0,4", 1, true));
  texts.push_back(SortOf("f32", "4,0", 1, true));
  ExpectRight(texts);
}

TEST_F(CudaKernels, SortsAlongDimsThatAreNotTheLast) {
  ExpectRight({SortOf("f32", "5,37", 0, false), SortOf("i64", "2,50,3", 1, true),
               SortOf("bf16", "2,4100,3", 1, false)});
}

/// Few values, of both signs, and the ends of what the dtype has; `ways` of them, mixed up.
HostTensor Mixed(const Shape& type, int64_t ways) {
  HostTensor tensor(type);
  int64_t highest = type.dtype() == DType::kI64 ? std::numeric_limits<int64_t>::max()
                                                : std::numeric_limits<int32_t>::max();
  const Scalar numbers[] = {int64_t{3}, int64_t{-1}, int64_t{0}, highest, -highest - 1, int64_t{7}};
  double infinity = std::numeric_limits<double>::infinity();
  const Scalar reals[] = {0.0, -0.0, 1.5, std::nan(""), -infinity, infinity, -1e-42, -2.0};
  std::span<const Scalar> all = IsFloat(type.dtype()) ? std::span<const Scalar>(reals) : numbers;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    uint64_t hash = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u >> 40;
    tensor.set(i, all[hash % std::min<uint64_t>(all.size(), static_cast<uint64_t>(ways))]);
  }
  return tensor;
}

TEST_F(CudaKernels, SortsLongRowsOfFewValues) {
  for (const char* dtype : {"f32", "i64", "i32", "f64"}) {
    for (const char* sizes : {"32768", "3,33793", "36865,2"}) {
      int dim = std::string_view(sizes) == "3,33793" ? 1 : 0;
      for (int64_t ways : {1, 2, 8}) {
        std::string text = SortOf(dtype, sizes, dim, /*descending=*/ways == 8);
        ExpectBits(text, {Mixed(ParseGraph(text)[0].type(), ways)});
      }
    }
  }
}

/// From 2^18 items on tiles are larger: 4,096, or 3,072 of 64 bits.
TEST_F(CudaKernels, SortsVeryLongRows) {
  ExpectBits(SortOf("f32", "266240", 0, false));
  ExpectBits(SortOf("f32", "2,140001", 1, true));
  ExpectBits(SortOf("i64", "264193", 0, false));
  for (const char* dtype : {"f32", "i64"}) {
    std::string text = SortOf(dtype, "270000", 0, false);
    ExpectBits(text, {Mixed(ParseGraph(text)[0].type(), 8)});
  }
}

TEST_F(CudaKernels, SortsLongRowsOfAllDtypes) {
  std::vector<std::string> texts;
  for (const char* dtype : {"bool", "u8", "i8", "i16", "u16", "i32", "u32", "i64", "u64", "f16",
                            "bf16", "f32", "f64"}) {
    texts.push_back(SortOf(dtype, "33000", 0, false));
    texts.push_back(SortOf(dtype, "2,32769", 1, true));
  }
  ExpectRight(texts);
}

std::string NonzeroOf(const std::string& dtype, const std::string& sizes, int size, int rank) {
  return fmt::format(
      "%0 = input : {0}[{1}]\n%1 = nonzero_bounded %0 {{size={2}}} : i64[{2},{3}]\nreturn %1\n",
      dtype, sizes, size, rank);
}

TEST_F(CudaKernels, FindsWhatIsNotZero) {
  ExpectRight({NonzeroOf("bool", "3,50", 150, 2), NonzeroOf("bool", "3,50", 5, 2),
               NonzeroOf("bool", "600000", 400000, 1), NonzeroOf("f32", "4,5,600", 12000, 3),
               NonzeroOf("u8", "0,3", 4, 2), NonzeroOf("bf16", "7", 0, 1),
               NonzeroOf("bool", "", 2, 0)});
}

std::string TopKOf(const std::string& dtype, const std::string& from, const std::string& to, int k,
                   int dim, bool largest) {
  return fmt::format(
      "%0 = input : {0}[{1}]\n"
      "%1:2 = topk %0 {{k={3}, dim={4}, largest={5}, sorted=true}} : {0}[{2}], i64[{2}]\n"
      "return %1.0, %1.1\n",
      dtype, from, to, k, dim, largest);
}

TEST_F(CudaKernels, FindsTheFirstOfShortAndLongRows) {
  ExpectRight(
      {TopKOf("f32", "4,50", "4,7", 7, 1, true), TopKOf("f32", "4,50", "4,50", 50, 1, false),
       TopKOf("f32", "2,70000", "2,100", 100, 1, true),
       TopKOf("f32", "2,70000", "2,300", 300, 1, false),
       TopKOf("f32", "3,2049", "3,256", 256, 1, true), TopKOf("i32", "3,3072", "3,1", 1, 1, true),
       TopKOf("bf16", "40000,2", "31,2", 31, 0, false), TopKOf("f64", "5000,2", "1,2", 1, 0, true),
       TopKOf("i8", "4,50", "4,0", 0, 1, true)});
}

/// Rows that get better and better are sorted again and again; few values are mostly left out.
TEST_F(CudaKernels, FindsTheFirstOfRowsInOrder) {
  for (const char* dtype : {"f32", "i64"}) {
    for (bool largest : {true, false}) {
      std::string text = TopKOf(dtype, "2,40000", "2,200", 200, 1, largest);
      const Shape type = ParseGraph(text)[0].type();
      HostTensor rising(type);
      for (int64_t i = 0; i < rising.numel(); ++i) rising.set(i, Scalar(i % 40000));
      ExpectBits(text, {rising});
      ExpectBits(text, {Mixed(type, 8)});
      ExpectBits(text, {Mixed(type, 1)});
    }
  }
}

std::string ScanOf(const std::string& kind, const std::string& dtype, const std::string& sizes,
                   int dim, bool reverse = false) {
  return fmt::format(
      "%0 = input : {0}[{1}]\n"
      "%1 = scan %0 {{kind=\"{2}\", dim={3}, reverse={4}}} : {0}[{1}]\nreturn %1\n",
      dtype, sizes, kind, dim, reverse);
}

TEST_F(CudaKernels, ScansLinesOfEveryLength) {
  std::vector<std::string> texts;
  for (const char* kind : {"sum", "prod", "max", "min"}) {
    texts.push_back(ScanOf(kind, "f32", "3,100", 1));
    texts.push_back(ScanOf(kind, "i64", "5,3,7", 1, true));
  }
  for (const char* sizes : {"3,1", "700,2", "5,8", "3,2048", "2,2049", "1,20000", "4,0", "0,4"}) {
    texts.push_back(ScanOf("sum", "i32", sizes, 1));
    texts.push_back(ScanOf("max", "f16", sizes, 1, true));
  }
  texts.push_back(ScanOf("sum", "i32", "", 0));
  texts.push_back(ScanOf("sum", "f64", "9000,2", 0, true));
  texts.push_back(ScanOf("sum", "u8", "3,17000", 0));
  texts.push_back(ScanOf("max", "i32", "20,9000", 0, true));
  ExpectRight(texts);
}

/// More tiles than a group has, and results that are wider than elements.
TEST_F(CudaKernels, ScansLongLines) {
  ExpectRight({ScanOf("sum", "i32", "2110000", 0), ScanOf("sum", "f32", "1050000", 0, true),
               ScanOf("sum", "f32", "2,8192", 1), ScanOf("prod", "f64", "2,4097,2", 1),
               "%0 = input : i32[3,70000]\n%1 = scan %0 {kind=\"sum\", dim=1, reverse=true} : "
               "i64[3,70000]\nreturn %1\n",
               "%0 = input : i32[540000]\n%1 = scan %0 {kind=\"max\", dim=0, reverse=false} : "
               "i64[540000]\nreturn %1\n"});
}

std::string ScatterOf(const std::string& reduce, const std::string& dtype, const std::string& self,
                      const std::string& index, const std::string& source, int dim) {
  return fmt::format(
      "%0 = input : {0}[{1}]\n%1 = input : i64[{2}]\n%2 = input : {0}[{3}]\n"
      "%3 = scatter %0, %1, %2 {{dim={4}, reduce=\"{5}\"}} : {0}[{1}]\nreturn %3\n",
      dtype, self, index, source, dim, reduce);
}

TEST_F(CudaKernels, ScattersInEveryWay) {
  std::vector<std::string> texts;
  for (const char* reduce : {"none", "sum", "prod", "amax", "amin"}) {
    for (const char* dtype : {"f32", "bf16", "i64", "i32", "u8"}) {
      texts.push_back(ScatterOf(reduce, dtype, "7", "100", "100", 0));
      texts.push_back(ScatterOf(reduce, dtype, "7,5", "40,3", "50,4", 0));
    }
    texts.push_back(ScatterOf(reduce, "f32", "4,3", "4,2", "4,2", 1));
  }
  texts.push_back(ScatterOf("sum", "f64", "100,3", "3000,3", "3000,3", 0));
  texts.push_back(ScatterOf("sum", "f32", "300", "40000", "40000", 0));
  texts.push_back(ScatterOf("sum", "i32", "5", "70000", "70000", 0));
  texts.push_back(ScatterOf("sum", "u64", "300", "70000", "70000", 0));
  texts.push_back(ScatterOf("amax", "bf16", "2", "1000", "1000", 0));
  texts.push_back(ScatterOf("prod", "f32", "3,70", "3,700", "3,700", 1));
  texts.push_back(ScatterOf("none", "f32", "9,2,3", "9,50,3", "9,50,3", 1));
  for (const char* dtype : {"f32", "f64", "bf16"}) {
    texts.push_back(ScatterOf("sum", dtype, "50000", "40000", "40000", 0));
    texts.push_back(ScatterOf("prod", dtype, "300", "33000", "33000", 0));
    texts.push_back(ScatterOf("none", dtype, "300,2", "20000,2", "20000,2", 0));
    texts.push_back(ScatterOf("amin", dtype, "50,3", "20000,2", "20001,3", 0));
  }
  texts.push_back(ScatterOf("sum", "f32", "20000", "270000", "270000", 0));
  texts.push_back(ScatterOf("sum", "f32", "7", "0", "0", 0));
  texts.push_back(ScatterOf("sum", "f32", "", "", "", 0));
  ExpectRight(texts);
}

/// Rows of an embedding's gradient: equal to the last bit, whatever the index looks like.
std::vector<HostTensor> ScatteredRows(const std::string& dtype, bool broadcast, int64_t count) {
  std::string sizes = fmt::format("2,{},3", count);
  Graph graph = ParseGraph(
      broadcast ? fmt::format("%0 = input : {0}[2,6,3]\n%1 = input : i64[{1}]\n"
                              "%2 = input : {0}[{2}]\n%3 = reshape %1 {{sizes=[1,{1},1]}} : "
                              "i64[1,{1},1]\n%4 = broadcast %3 {{sizes=[{2}]}} : i64[{2}]\n"
                              "%5 = scatter %0, %4, %2 {{dim=1, reduce=\"sum\"}} : {0}[2,6,3]\n"
                              "return %5\n",
                              dtype, count, sizes)
                : ScatterOf("sum", dtype, "2,6,3", sizes, sizes, 1));
  std::vector<HostTensor> inputs;
  for (NodeId id : graph.inputs()) {
    HostTensor tensor(graph[id].type());
    bool index = tensor.dtype() == DType::kI64;
    int64_t row = index && !broadcast ? 3 : 1;
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      int64_t at = i / row % count;
      tensor.set(i, index ? Scalar(at * at % 5) : Scalar(std::sin(static_cast<double>(i))));
    }
    inputs.push_back(tensor);
  }
  Program program(graph, MachineForTests());
  std::vector<HostTensor> results = RunProgram(*MachineForTests(), program, graph, inputs);
  results.push_back(reference::Interpret(graph, inputs)[0]);
  // The index itself is never stored for every element.
  EXPECT_EQ(program.ToText("").find("broadcast %"), std::string::npos) << program.ToText("");
  return results;
}

TEST_F(CudaKernels, ScatteredRowsHaveTheBitsOfScatteredElements) {
  for (const char* dtype : {"f32", "bf16"}) {
    for (int64_t count : {5, 5000, 40000}) {
      std::vector<HostTensor> rows = ScatteredRows(dtype, true, count);
      std::vector<HostTensor> elements = ScatteredRows(dtype, false, count);
      EXPECT_EQ(fuzz::CompareBits(rows[0], elements[0]), "") << dtype << " " << count;
      if (count <= 16) continue;  // rounded at each step
      EXPECT_EQ(fuzz::CompareBits(rows[0], rows[1]), "") << dtype << " " << count;
    }
  }
}

TEST_F(CudaKernels, ScattersIntoZeros) {
  ExpectBits(R"(
    %0 = constant {value=0, dtype=i32} : i32[]
    %1 = broadcast %0 {sizes=[7]} : i32[7]
    %2 = input : i32[100]
    %3 = iota {size=100, dtype=i64} : i64[100]
    %4 = constant {value=7, dtype=i64} : i64[]
    %5 = broadcast %4 {sizes=[100]} : i64[100]
    %6 = remainder %3, %5 : i64[100]
    %7 = scatter %1, %6, %2 {dim=0, reduce="sum"} : i32[7]
    return %7)");
}

/// Rows of 16 bytes and more, short and long runs; small numbers, so that sums are exact.
TEST_F(CudaKernels, ScattersWideRows) {
  for (auto [count, width] : {std::pair(130, 4), std::pair(3000, 200), std::pair(40000, 12)}) {
    std::string text = fmt::format(
        "%0 = input : f32[260,{1}]\n%1 = input : i64[{0}]\n%2 = input : f32[{0},{1}]\n"
        "%3 = reshape %1 {{sizes=[{0},1]}} : i64[{0},1]\n"
        "%4 = broadcast %3 {{sizes=[{0},{1}]}} : i64[{0},{1}]\n"
        "%5 = scatter %0, %4, %2 {{dim=0, reduce=\"sum\"}} : f32[260,{1}]\nreturn %5\n",
        count, width);
    Graph graph = ParseGraph(text);
    std::vector<HostTensor> inputs;
    for (NodeId id : graph.inputs()) {
      HostTensor tensor(graph[id].type());
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        int64_t number = i * i % 257;
        tensor.set(i, tensor.dtype() == DType::kI64 ? Scalar(number % (i % 2 ? 3 : 260))
                                                    : Scalar(static_cast<double>(number)));
      }
      inputs.push_back(tensor);
    }
    ExpectBits(text, inputs);
  }
}

TEST_F(CudaKernels, ManyIndicesAreCheckedWhenTheyAreSorted) {
  std::string text = ScatterOf("sum", "f32", "300", "40000", "40000", 0);
  Graph graph = ParseGraph(text);
  std::vector<HostTensor> inputs = fuzz::RandomInputs(graph, 3);
  inputs[1].set(39000, Scalar(int64_t{300}));
  inputs[1].set(20000, Scalar(int64_t{-2}));
  Program program(graph, MachineForTests());
  try {
    RunProgram(*MachineForTests(), program, graph, inputs);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("index -2 is out of bounds"), std::string::npos)
        << error.what();
  }
}

/// What no index names is 0, and the last one that names a row wins.
TEST_F(CudaKernels, ScattersRowsIntoZeros) {
  for (const char* reduce : {"sum", "none"}) {
    for (int64_t count : {40, 3000, 40000}) {
      std::string text = fmt::format(
          "%0 = constant {{value=0, dtype=f32}} : f32[]\n"
          "%1 = broadcast %0 {{sizes=[260,12]}} : f32[260,12]\n%2 = input : i64[{0}]\n"
          "%3 = input : f32[{0},12]\n%4 = reshape %2 {{sizes=[{0},1]}} : i64[{0},1]\n"
          "%5 = broadcast %4 {{sizes=[{0},12]}} : i64[{0},12]\n"
          "%6 = scatter %1, %5, %3 {{dim=0, reduce=\"{1}\"}} : f32[260,12]\nreturn %6\n",
          count, reduce);
      Graph graph = ParseGraph(text);
      HostTensor index(graph[graph.inputs()[0]].type()), source(graph[graph.inputs()[1]].type());
      for (int64_t i = 0; i < count; ++i) index.set(i, Scalar(i * i % (i % 2 ? 3 : 257)));
      for (int64_t i = 0; i < source.numel(); ++i) source.set(i, Scalar(i % 257));
      ExpectBits(text, {index, source});
    }
  }
}

TEST_F(CudaKernels, FastAtomicsAddInAnyOrder) {
  config::Override fast("cuda.fast_atomics", "true");
  ExpectRight({ScatterOf("sum", "f32", "7,5", "40,3", "50,4", 0),
               ScatterOf("sum", "f64", "7", "100", "100", 0)});
  Program program(ParseGraph(ScatterOf("sum", "f32", "7", "100", "100", 0)), MachineForTests());
  EXPECT_NE(program.Sources()[0].text.find("atomicAdd"), std::string::npos);
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
      expected += out.values<double>()[static_cast<size_t>(k)] *
                  gradient.values<double>()[static_cast<size_t>(k)];
    }
    EXPECT_NEAR(actual.values<double>()[static_cast<size_t>(i)], expected, 0.004 * largest) << i;
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
