#include "hammock/direct_call.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

using Tensors = std::vector<Tensor>;

Tensor Example(std::initializer_list<float> values) {
  return tensor(std::vector<float>(values), std::nullopt, "cpu");
}

HostTensor Host(const std::vector<float>& values) {
  return HostTensor::From(values, {static_cast<int64_t>(values.size())});
}

std::vector<float> ValuesOf(const DirectCall& call, const BackendDataPtr& data) {
  HostTensor host = call.Export(data);
  return {host.values<float>().begin(), host.values<float>().end()};
}

DirectCall TimesPlusOne() {
  return DirectCall(
      extract_compiled_graph([](const Tensors& in) { return Tensors{in[0] * in[1] + 1.0}; },
                             {Example({1, 2}), Example({3, 4})}));
}

TEST(DirectCall, ComputesBeforeItReturns) {
  DirectCall call = TimesPlusOne();
  EXPECT_EQ(call.device(), Device("cpu"));
  for (float first : {5.0f, 7.0f}) {
    auto results = call({{call.Import(Host({first, 6})), call.Import(Host({7, 8}))}});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0]->IsReady());
    EXPECT_EQ(ValuesOf(call, results[0]), (std::vector<float>{first * 7 + 1, 49}));
  }
}

TEST(DirectCall, ReadsBorrowedMemoryAtEveryCall) {
  DirectCall call = TimesPlusOne();
  alignas(64) float weights[2] = {1, 2};
  auto x = call.Import(Host({10, 10}));
  auto w = call.Import(HostTensor::Borrow(Shape(DType::kF32, {2}), weights, [] {}));
  EXPECT_EQ(ValuesOf(call, call({{x, w}})[0]), (std::vector<float>{11, 21}));
  weights[0] = 5;
  EXPECT_EQ(ValuesOf(call, call({{x, w}})[0]), (std::vector<float>{51, 21}));
}

TEST(DirectCall, ReturnsInputsConstantsAndRepeatedOutputs) {
  Tensor constant = Example({8, 9});
  DirectCall call(extract_compiled_graph(
      [&](const Tensors& in) {
        Tensor sum = in[0] + 1.0;
        return Tensors{in[0], constant, sum, sum};
      },
      {Example({1, 2})}));
  BackendDataPtr x = call.Import(Host({3, 4}));
  auto results = call({{x}});
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0], x);
  EXPECT_EQ(ValuesOf(call, results[1]), (std::vector<float>{8, 9}));
  EXPECT_EQ(ValuesOf(call, results[2]), (std::vector<float>{4, 5}));
  EXPECT_EQ(results[2], results[3]);
}

TEST(DirectCall, RefusesFunctionsThatDoMore) {
  auto writes = extract_compiled_graph(
      [](const Tensors& in) {
        Tensor x = in[0];
        x += 1.0;
        return Tensors{x};
      },
      {Example({1})});
  EXPECT_THROW_MESSAGE(DirectCall{writes}, NotSupported, "it updates its inputs");
  auto draws = extract_compiled_graph(
      [](const Tensors& in) { return Tensors{in[0] + rand({1}, DType::kF32, "cpu")}; },
      {Example({1})});
  EXPECT_THROW_MESSAGE(DirectCall{draws}, NotSupported, "it draws random numbers");
}

TEST(DirectCall, ChecksItsInputs) {
  DirectCall call = TimesPlusOne();
  BackendDataPtr x = call.Import(Host({1, 2})), longer = call.Import(Host({1, 2, 3}));
  EXPECT_THROW_MESSAGE(call({{x}}), ValueError, "1 argument(s) given, needs 2");
  EXPECT_THROW_MESSAGE(call({{x, longer}}), ValueError, "input 1 is f32[3]");
  EXPECT_THROW_MESSAGE(call({{x, nullptr}}), ValueError, "input 1 is undefined");
  EXPECT_THROW_MESSAGE(call.Export(nullptr), ValueError, "undefined data cannot be exported");
}

// Locks of the device, and threads that it waits for, are those of the parent.
TEST(DirectCall, IsRefusedInTheChildOfAFork) {
  DirectCall call = TimesPlusOne();
  BackendDataPtr x = call.Import(Host({1, 2}));
  call({{x, x}});
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      call({{x, x}});
    } catch (const DeviceError&) {
      status = 0;
    } catch (...) {
    }
    _exit(status);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(DirectCall, ErrorsNameTheLineThatRecordedTheOp) {
  DirectCall call(extract_compiled_graph(
      [](const Tensors& in) { return Tensors{index_select(in[0], 0, in[1])}; },
      {Example({1, 2}), tensor(std::vector<int64_t>{0}, std::nullopt, "cpu")}));
  BackendDataPtr index = call.Import(HostTensor::From(std::vector<int64_t>{7}, {1}));
  try {
    call({{call.Import(Host({1, 2})), index}});
    FAIL() << "an index out of bounds is accepted";
  } catch (const Error& error) {
    EXPECT_NE(error.where().find("direct_call_test.cpp"), std::string::npos) << error.what();
  }
}

TEST(DirectCall, ServesSeveralThreads) {
  DirectCall call = TimesPlusOne();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      auto number = static_cast<float>(i);
      for (int repeat = 0; repeat < 50; ++repeat) {
        auto results = call({{call.Import(Host({number, 0})), call.Import(Host({2, 0}))}});
        EXPECT_EQ(ValuesOf(call, results[0]), (std::vector<float>{number * 2 + 1, 1}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace hammock
