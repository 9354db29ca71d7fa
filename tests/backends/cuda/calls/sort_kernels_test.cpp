// Sorts, top-k, nonzero, scans and scatters.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "backends/cuda/calls/kernel_tests.h"

namespace hammock::cuda {
namespace {

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
    for (auto [sizes, dim, ways] :
         {std::tuple("32768", 0, 1), std::tuple("3,33793", 1, 2), std::tuple("36865,2", 0, 8)}) {
      std::string text = SortOf(dtype, sizes, dim, /*descending=*/ways == 8);
      ExpectBits(text, {Mixed(ParseGraph(text)[NodeId(0)].type(), ways)});
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
    ExpectBits(text, {Mixed(ParseGraph(text)[NodeId(0)].type(), 8)});
  }
}

TEST_F(CudaKernels, SortsLongRowsOfAllDtypes) {
  std::vector<std::string> texts;
  for (const char* dtype : {"bool", "u8", "i8", "i16", "u16", "i32", "u32", "i64", "u64", "f16",
                            "bf16", "f32", "f64"}) {
    texts.push_back(SortOf(dtype, "2,32769", 1, /*descending=*/texts.size() % 2 == 1));
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
      const Shape type = ParseGraph(text)[NodeId(0)].type();
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
               "i32[3,70000]\nreturn %1\n",
               "%0 = input : i32[540000]\n%1 = scan %0 {kind=\"max\", dim=0, reverse=false} : "
               "i32[540000]\nreturn %1\n"});
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

}  // namespace
}  // namespace hammock::cuda
