// Kernels as OpenCL C, without a device.

#include <gtest/gtest.h>
#include <hammock/compiler/schedule.h>

#include "../../plugins/opencl/emit.h"

namespace opencl {
namespace {

using hammock::DType;
using hammock::ScalarFn;
using hammock::compiler::kOpenClC;
using hammock::compiler::Launch;
using hammock::compiler::ScalarText;

/// The launches of a graph's kernels.
std::vector<Launch> LaunchesOf(const std::string& text) {
  const hammock::Graph graph =
      hammock::RunPasses(hammock::compiler::SchedulePasses(), hammock::ParseGraph(text));
  std::vector<Launch> launches;
  for (const auto& command : hammock::compiler::MakeSchedule(graph, false, false).commands) {
    EXPECT_FALSE(command.is_call());
    launches.push_back(command.launch);
  }
  return launches;
}

KernelSource SourceOf(const Launch& launch, KernelKind kind = {}) {
  ScalarText scalars(kOpenClC);
  return EmitKernel(*launch.kernel, static_cast<int>(launch.outer.size()), kind, scalars);
}

constexpr char kSoftmax[] = R"(
%0 = input : f32[8,100]
%1 = reduce_max %0 {dims=[1], keepdim=true} : f32[8,1]
%2 = broadcast %1 {sizes=[8,100]} : f32[8,100]
%3 = sub %0, %2 : f32[8,100]
%4 = exp %3 : f32[8,100]
%5 = reduce_sum %4 {dims=[1], keepdim=true} : f32[8,1]
%6 = broadcast %5 {sizes=[8,100]} : f32[8,100]
%7 = div %4, %6 : f32[8,100]
return %7)";

TEST(OpenClText, SoftmaxIsOneKernelOfSharedRows) {
  const std::vector<Launch> launches = LaunchesOf(kSoftmax);
  ASSERT_EQ(launches.size(), 1u);
  const KernelSource source = SourceOf(launches[0]);
  EXPECT_NE(source.text.find("__local float exchange_float_0[64];"), std::string::npos)
      << source.text;
  // Barriers lie one behind another: in a loop, PoCL takes exponential time for them.
  EXPECT_NE(source.text.find("if (threads > 32 && thread < 32) {"), std::string::npos);
  EXPECT_EQ(source.text.find("half"), std::string::npos);
  EXPECT_NE(source.text.find("combine_max_f32("), std::string::npos);
  EXPECT_NE(source.text.find("exp_f32("), std::string::npos);
  const QueuedCommand item = MakeQueuedCommand(launches[0], source);
  EXPECT_EQ(item.local, (std::array<size_t, 3>{64, 1, 1}));
  EXPECT_EQ(item.global, (std::array<size_t, 3>{64, 8, 1}));
}

TEST(OpenClText, DoesNotDependOnSizesAndNumbers) {
  auto text = [](int rows, const char* number) {
    std::string n = std::to_string(rows);
    return SourceOf(LaunchesOf("%0 = input : f32[" + n + "]\n%1 = constant {value=" + number +
                               ", dtype=f32} : f32[]\n%2 = broadcast %1 {sizes=[" + n +
                               "]} : f32[" + n + "]\n%3 = mul %0, %2 : f32[" + n + "]\nreturn %3")
                        .at(0))
        .text;
  };
  EXPECT_EQ(text(100, "2.0"), text(7000, "3.5"));
}

TEST(OpenClText, ShortRowsShareAGroup) {
  const std::vector<Launch> launches = LaunchesOf(
      "%0 = input : f32[1000,3]\n%1 = reduce_sum %0 {dims=[1], keepdim=false} : f32[1000]\n"
      "return %1");
  const QueuedCommand item = MakeQueuedCommand(launches.at(0), SourceOf(launches[0]));
  EXPECT_EQ(item.local[0] * item.local[1], 64u);
  EXPECT_EQ(item.numbers[3], 4);  // work-items of a row
}

TEST(OpenClText, OnePointerServesAllAccesses) {
  const std::vector<Launch> launches =
      LaunchesOf("%0 = input : f32[9]\n%1 = input : f32[9]\n%2 = add %0, %1 : f32[9]\nreturn %2");
  const std::string text = SourceOf(launches.at(0), {.one_pointer = true}).text;
  EXPECT_NE(text.find("m0 + all_numbers[own_first + 2]"), std::string::npos) << text;
  EXPECT_EQ(text.find("m1"), std::string::npos);
}

TEST(OpenClText, ScalarsHaveTheLanguagesWords) {
  ScalarText scalars(kOpenClC);
  EXPECT_EQ(scalars.Scalar(ScalarFn::kSqrt, DType::kF32, {"x"}), "sqrt_f32(x)");
  EXPECT_EQ(scalars.Cast("x", DType::kF32, DType::kI64), "(long)to_i64((double)x)");
  EXPECT_EQ(scalars.FromBits("w", DType::kF64), "as_double((long)w)");
  scalars.Scalar(ScalarFn::kExp, DType::kF64, {"x"});
  for (const char* word : {"__device__", "long long", "sqrtf", "__int_as_float"}) {
    EXPECT_EQ(scalars.Functions().find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace opencl
