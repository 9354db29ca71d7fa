// Fourier transforms: strides, repeats, several dims at once and scales, against the interpreter.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cuda/calls/calls.h"
#include "backends/cuda/emulated.h"
#include "backends/reference/interpreter.h"

namespace hammock::cuda {
namespace {

/// Nothing is asked of the driver: the test holds of the machine that it names.
void ExpectAsInterpreted(const std::string& text) {
  SCOPED_TRACE(text);
  Graph graph = ParseGraph(text);
  EXPECT_EQ(WhyNot(graph, graph.outputs()[0].node, EmulatedForTests().get()), "");
  const Shape& type = graph[NodeId(0)].type();
  HostTensor input(type);
  const int64_t count = type.bytes() / (RealOf(type.dtype()) == DType::kF64 ? 8 : 4);
  for (int64_t i = 0; i < count; ++i) {
    const double value = static_cast<double>((i + 1) * 2654435761u % 512) / 256.0 - 1.0;
    if (RealOf(type.dtype()) == DType::kF64) {
      static_cast<double*>(input.mutable_data())[i] = value;
    } else {
      static_cast<float*>(input.mutable_data())[i] = static_cast<float>(value);
    }
  }
  Program program(graph, EmulatedForTests());
  const HostTensor got = RunProgram(*EmulatedForTests(), program, graph, {input}, 2)[0];
  const HostTensor wanted = reference::Interpret(graph, std::vector<HostTensor>{input})[0];
  ASSERT_EQ(got.shape(), wanted.shape());
  for (int64_t i = 0; i < got.numel(); ++i) {
    EXPECT_NEAR(got.at(i).ToDouble(), wanted.at(i).ToDouble(), 1e-4) << i;
    EXPECT_NEAR(got.at(i).imag(), wanted.at(i).imag(), 1e-4) << i;
  }
}

class CudaFft : public testing::Test {
 protected:
  void SetUp() override {
    if (!WhyNotEmulated().empty()) GTEST_SKIP() << WhyNotEmulated();
  }
};

TEST_F(CudaFft, AnyDimsOfComplexNumbers) {
  for (const char* dims : {"2", "1", "0", "1, 2", "0, 2", "0, 1", "2, 0, 1"}) {
    for (int normalization : {0, 1, 2}) {
      ExpectAsInterpreted(fmt::format(R"(
        %0 = input : c64[3,4,5]
        %1 = fft_c2c %0 {{dim=[{}], normalization={}, forward={}}} : c64[3,4,5]
        return %1)",
                                      dims, normalization, normalization != 1));
    }
  }
  ExpectAsInterpreted(R"(
    %0 = input : c128[2,2,3,2]
    %1 = fft_c2c %0 {dim=[0, 1, 2, 3], normalization=2, forward=false} : c128[2,2,3,2]
    return %1)");
  ExpectAsInterpreted(R"(
    %0 = input : c64[2,3]
    %1 = fft_c2c %0 {dim=[], normalization=2, forward=true} : c64[2,3]
    return %1)");
}

// cuFFT refuses such addresses, and so does the emulation.
TEST_F(CudaFft, RealSignalsMayBeginInTheMiddleOfAComplexNumber) {
  ExpectAsInterpreted(R"(
    %0 = input : f32[4,3,5]
    %1 = fft_r2c %0 {dim=1, normalization=0} : c64[4,2,5]
    return %1)");
  ExpectAsInterpreted(R"(
    %0 = input : c64[4,2,5]
    %1 = fft_c2r %0 {dim=1, normalization=2, size=3} : f32[4,3,5]
    return %1)");
  ExpectAsInterpreted(R"(
    %0 = input : f64[3,3,1]
    %1 = fft_r2c %0 {dim=1, normalization=0} : c128[3,2,1]
    return %1)");
}

TEST_F(CudaFft, RealNumbersThereAndBack) {
  for (const char* dtypes : {"f32 c64", "f64 c128"}) {
    const std::string real(dtypes, 3), complex(dtypes + 4);
    for (int size : {6, 7}) {
      for (int dim : {0, 1, 2}) {
        Dims whole = {2, 3, 4}, half = {2, 3, 4};
        whole[dim] = size;
        half[dim] = size / 2 + 1;
        ExpectAsInterpreted(fmt::format(R"(
          %0 = input : {}{}
          %1 = fft_r2c %0 {{dim={}, normalization=1}} : {}{}
          return %1)",
                                        real, ToString(whole), dim, complex, ToString(half)));
        ExpectAsInterpreted(fmt::format(R"(
          %0 = input : {}{}
          %1 = fft_c2r %0 {{dim={}, normalization=2, size={}}} : {}{}
          return %1)",
                                        complex, ToString(half), dim, size, real, ToString(whole)));
      }
    }
  }
}

}  // namespace
}  // namespace hammock::cuda
