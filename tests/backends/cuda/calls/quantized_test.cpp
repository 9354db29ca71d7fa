// Linear layers with quantised weights, against sums in f64; matmuls of bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/calls/kernel_tests.h"
#include "backends/cuda/passes/cuda_passes.h"

namespace hammock::cuda {
namespace {

/// Any bytes for integers, numbers around 0 for floats.
HostTensor AnyValues(const Shape& shape, unsigned seed) {
  HostTensor values(Shape(IsFloat(shape.dtype()) ? DType::kF32 : shape.dtype(), shape.sizes()));
  auto next = [&] { return seed = seed * 1664525u + 1013904223u, seed >> 16; };
  if (IsFloat(shape.dtype())) {
    auto* x = static_cast<float*>(values.mutable_data());
    for (int64_t i = 0; i < values.numel(); ++i) {
      x[i] = static_cast<float>(next() % 2001) / 1000.0f - 1.0f;
    }
    return values.To(shape.dtype());
  }
  auto* bytes = static_cast<unsigned char*>(values.mutable_data());
  for (int64_t i = 0; i < values.bytes(); ++i) bytes[i] = static_cast<unsigned char>(next());
  return values;
}

struct Layer {
  const char *x, *weight, *scale;
  const char* zero = nullptr;
  const char* bias = nullptr;
};

void ExpectSums(const Layer& layer) {
  std::string text, operands;
  std::vector<HostTensor> inputs;
  std::vector<int> which;  // of the inputs each operand is, or -1
  const char* types[] = {layer.x, layer.weight, layer.scale, layer.zero, layer.bias};
  for (const char* type : types) {
    which.push_back(type ? static_cast<int>(inputs.size()) : -1);
    operands += operands.empty() ? "" : ", ";
    operands += type ? fmt::format("%{}", inputs.size()) : "none";
    if (!type) continue;
    text += fmt::format("%{} = input : {}\n", inputs.size(), type);
    const Graph typed = ParseGraph(fmt::format("%0 = input : {}\nreturn %0", type));
    inputs.push_back(AnyValues(typed[NodeId(0)].type(), static_cast<unsigned>(inputs.size()) + 1));
  }
  const HostTensor &x = inputs[0], &weight = inputs[1], &scale = inputs[2];
  const int64_t k = weight.shape().size(1), n = weight.shape().size(0), m = x.numel() / k;
  text += fmt::format("%{0} = quantized_linear {1} : {2}\nreturn %{0}", inputs.size(), operands,
                      Shape(x.dtype(), {m, n}).to_string());
  SCOPED_TRACE(text);
  const Graph graph = ParseGraph(text);
  ASSERT_TRUE(RunsWhole(graph, graph.nodes().back()));
  std::vector<std::unique_ptr<Program>> programs;
  programs.push_back(std::make_unique<Program>(graph, MachineForTests()));
  ExpectCompiledByNvrtc(programs);
  const HostTensor actual = RunProgram(*MachineForTests(), *programs[0], graph, inputs)[0];
  const int64_t columns = scale.shape().rank() == 0 ? 1 : scale.shape().sizes().back();
  const int64_t scale_rows = scale.numel() / columns;
  const double rounding = x.dtype() == DType::kF32   ? 0
                          : x.dtype() == DType::kF16 ? 0x1p-11
                                                     : 0x1p-8;
  for (int64_t i = 0; i < m * n; ++i) {
    const int64_t row = i % n;
    double sum = 0, size = 0;
    for (int64_t c = 0; c < k; ++c) {
      const int64_t group = (scale_rows > 1 ? row : 0) * columns + c / (k / columns);
      double value = weight.at(row * k + c).ToDouble();
      if (which[3] >= 0) value -= inputs[static_cast<size_t>(which[3])].at(group).ToDouble();
      const double term = x.at(i / n * k + c).ToDouble() * value * scale.at(group).ToDouble();
      sum += term;
      size += std::abs(term);
    }
    if (which[4] >= 0) sum += inputs[static_cast<size_t>(which[4])].at(row).ToDouble();
    ASSERT_NEAR(actual.at(i).ToDouble(), sum, size * 0x1p-20 + std::abs(sum) * rounding + 1e-6)
        << i;
  }
}

TEST_F(CudaKernels, QuantizedRowsAreSumsOfProducts) {
  ExpectSums({"f32[1,64]", "i8[5,64]", "f32[5,1]"});
  ExpectSums({"f32[1,2080]", "u8[9,2080]", "f32[]", nullptr, "f32[9]"});
  ExpectSums({"bf16[1,1024]", "i8[19,1024]", "bf16[19,16]"});
  ExpectSums({"bf16[3,1152]", "i4[9,1152]", "bf16[9,18]"});
  ExpectSums({"f16[8,256]", "u4[11,256]", "f32[11,2]", "u4[11,2]", "f16[11]"});
  ExpectSums({"f32[2,512]", "i8[8,512]", "f16[4]", "i8[4]"});
  ExpectSums({"f32[1,96]", "i4[3,96]", "f32[3,1]", "u8[3,1]"});
  ExpectSums({"bf16[1,4096]", "u4[4,4096]", "bf16[1,128]", "i4[1,128]"});
  ExpectSums({"f32[1,160]", "u8[2,160]", "f32[2,10]", "u8[2,10]"});
}

TEST_F(CudaKernels, QuantizedRowsAreFewAndOfWholeChunks) {
  auto runs_whole = [](const Layer& layer) {
    const Graph graph = ParseGraph(fmt::format(R"(
      %0 = input : {}
      %1 = input : {}
      %2 = input : {}
      %3 = quantized_linear %0, %1, %2, none, none : f32[{},4]
      return %3)",
                                               layer.x, layer.weight, layer.scale, layer.x[4]));
    return RunsWhole(graph, graph.nodes().back());
  };
  EXPECT_TRUE(runs_whole({"f32[8,32]", "i4[4,32]", "f32[4,1]"}));
  EXPECT_FALSE(runs_whole({"f32[9,32]", "i4[4,32]", "f32[4,1]"}));
  EXPECT_FALSE(runs_whole({"f32[8,48]", "i4[4,48]", "f32[4,1]"}));
  EXPECT_FALSE(runs_whole({"f32[8,64]", "i4[4,64]", "f32[4,4]"}));
  EXPECT_FALSE(runs_whole({"f32[8,32]", "i8[4,32]", "f32[2,1]"}));
  EXPECT_FALSE(runs_whole({"f32[8,32]", "f8e4m3[4,32]", "f32[4,1]"}));
}

/// Through all passes, operands in any layout.
TEST_F(CudaKernels, BytesAreMultipliedExactly) {
  for (const char* first : {"i8", "u8"}) {
    for (int a_along : {0, 1}) {
      for (int b_along : {0, 1}) {
        const std::string text = fmt::format(
            R"(
      %0 = input : {0}[{1}]
      %1 = input : i8[{2}]
      %2 = cast %0 {{dtype=i32}} : i32[{1}]
      %3 = cast %1 {{dtype=i32}} : i32[{2}]
      %4 = dot_general %2, %3 {{a_contract=[{3}], b_contract=[{4}], a_batch=[], b_batch=[]}} : i32[36,132]
      return %4)",
            first, a_along == 1 ? "36,260" : "260,36", b_along == 1 ? "132,260" : "260,132",
            a_along, b_along);
        ExpectBits(text);
        EXPECT_NE(ToText(RewriteForCuda(ParseGraph(text))).find("_dot_general_fused"),
                  std::string::npos);
      }
    }
  }
  ExpectBits(R"(
    %0 = input : i8[3,40,64]
    %1 = input : i8[3,64,32]
    %2 = cast %0 {dtype=i32} : i32[3,40,64]
    %3 = cast %1 {dtype=i32} : i32[3,64,32]
    %4 = dot_general %2, %3 {a_contract=[2], b_contract=[1], a_batch=[0], b_batch=[0]} : i32[3,40,32]
    return %4)");
}

}  // namespace
}  // namespace hammock::cuda
