#include "hammock/print.h"

#include <gtest/gtest.h>

#include <sstream>
#include <thread>

#include "hammock/compile.h"
#include "hammock/error.h"
#include "hammock/executor.h"
#include "hammock/metrics.h"
#include "hammock/ops.h"
#include "runtime/step/closures.h"

namespace hammock {
namespace {

std::string Text(const Tensor& tensor) {
  std::ostringstream text;
  text << tensor;
  return text.str();
}

/// Options for one test.
class Print : public ::testing::Test {
 protected:
  ~Print() override { set_printoptions({}); }
};
using DebugPrint = Print;

TEST_F(Print, AlignsColumns) {
  EXPECT_EQ(Text(tensor({{1, -20}, {300, 4}})), "[[  1, -20],\n [300,   4]] : i64[2,2]");
  EXPECT_EQ(Text(tensor({{1.5, -20.25}, {3, 4}})),
            "[[  1.5000, -20.2500],\n [  3.0000,   4.0000]] : f32[2,2]");
}

TEST_F(Print, NamesTheDTypeOnce) {
  EXPECT_EQ(Text(tensor({4, 9}, u8)), "[4, 9] : u8[2]");
  EXPECT_EQ(Text(tensor({true, false})), "[ true, false] : bool[2]");
  EXPECT_EQ(Text(tensor(2.5)), "2.5000 : f32[]");
  EXPECT_EQ(Text(tensor({})), "[] : f32[0]");
  EXPECT_EQ(Text(Tensor()), "undefined");
}

TEST_F(Print, ChoosesOneFormatForAll) {
  EXPECT_EQ(Text(tensor({1.0, 2.0, NAN, -INFINITY})), "[  1.,   2.,  nan, -inf] : f32[4]");
  EXPECT_EQ(Text(tensor({1e-5, 2.0})), "[1.0000e-05, 2.0000e+00] : f32[2]");
  EXPECT_EQ(Text(tensor({1e9, 2e9})), "[1.0000e+09, 2.0000e+09] : f32[2]");
  EXPECT_EQ(Text(zeros({2})), "[0., 0.] : f32[2]");
}

TEST_F(Print, SeparatesMatrices) {
  EXPECT_EQ(Text(arange(4).reshape(2, 1, 2)), "[[[0, 1]],\n\n [[2, 3]]] : i64[2,1,2]");
}

TEST_F(Print, SummarisesLargeTensors) {
  EXPECT_EQ(Text(arange(2000)), "[   0,    1,    2, ..., 1997, 1998, 1999] : i64[2000]");
  std::string text = Text(zeros({1000, 1000}, i64));
  EXPECT_EQ(
      text,
      "[[0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0],\n ...,\n"
      " [0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0],\n [0, 0, 0, ..., 0, 0, 0]]"
      " : i64[1000,1000]");
}

TEST_F(Print, BreaksLongRows) {
  std::string text = Text(arange(100));
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  EXPECT_LE(longest, 80u);
  EXPECT_NE(text.find(",\n 19, 20,"), std::string::npos) << text;
}

TEST_F(Print, TakesOptions) {
  Tensor third = tensor(1, f64) / 3;
  set_printoptions({.precision = 12});
  EXPECT_EQ(Text(third), "0.333333333333 : f64[]");
  set_printoptions({.precision = 2, .sci_mode = true});
  EXPECT_EQ(Text(third), "3.33e-01 : f64[]");
  set_printoptions({.sci_mode = false});
  EXPECT_EQ(Text(tensor({1e-5, 2.0})), "[0.0000, 2.0000] : f32[2]");
  set_printoptions({.threshold = 4, .edgeitems = 1});
  EXPECT_EQ(Text(arange(6)), "[0, ..., 5] : i64[6]");
  set_printoptions({.linewidth = 10});
  EXPECT_EQ(Text(arange(4)), "[0, 1, 2,\n 3] : i64[4]");
  EXPECT_EQ(get_printoptions().linewidth, 10);
  EXPECT_THROW(set_printoptions({.precision = -1}), ValueError);
}

TEST_F(DebugPrint, PrintsWhatAStepComputes) {
  Tensor x = tensor({1.0, 2.0});
  Tensor kept;
  testing::internal::CaptureStderr();
  step([&] {
    Tensor hidden = x * 3;  // fused away, were it not printed
    debug_print(hidden, "hidden");
    kept = hidden + 1;
  });
  DrainStepClosures();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "hidden = [3., 6.] : f32[2]\n");
  EXPECT_EQ(kept.to_vector<float>(), (std::vector<float>{4, 7}));
}

TEST_F(DebugPrint, ComputesNothingByItself) {
  Tensor x = tensor({1.0, 2.0}) * 2;
  testing::internal::CaptureStderr();
  debug_print(x);
  EXPECT_TRUE(x.is_pending());
  Tensor y = x + 1;
  y.host();  // x is part of it
  DrainStepClosures();
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("print_test.cpp:"), std::string::npos) << text;
  EXPECT_NE(text.find(" = [2., 4.] : f32[2]\n"), std::string::npos) << text;
}

TEST_F(DebugPrint, ShowsTheValueOfItsMoment) {
  Tensor w = zeros({2, 2}, i64) + 1;
  testing::internal::CaptureStderr();
  debug_print(w[0], "before");
  w[0] = 5;
  debug_print(w.t(), "after");
  mark_step();
  debug_print(w, "ready");
  DrainStepClosures();
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "before = [1, 1] : i64[2]\nafter = [[5, 1],\n [5, 1]] : i64[2,2]\n"
            "ready = [[5, 5],\n [1, 1]] : i64[2,2]\n");
}

TEST_F(DebugPrint, PrintsTheErrorOfAFailedStep) {
  testing::internal::CaptureStderr();
  {
    Tensor picked = index_select(rand({3}), 0, tensor({0, 7}) + 0);
    debug_print(picked, "picked");
  }
  EXPECT_THROW(mark_step(true), Error);
  DrainStepClosures();
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("picked = "), std::string::npos) << text;
  EXPECT_NE(text.find("out of bounds"), std::string::npos) << text;
}

TEST_F(DebugPrint, KeepsNoErrorFromTheProgram) {
  testing::internal::CaptureStderr();
  Tensor weight = ones({3});
  mark_step(true);
  step([&] {
    Tensor picked = index_select(weight, 0, tensor({0, 7}) + 0);
    debug_print(picked, "picked");
    weight.sub_(picked.sum());
  });
  DrainStepClosures();
  EXPECT_NE(testing::internal::GetCapturedStderr().find("out of bounds"), std::string::npos);
  EXPECT_THROW(mark_step(true), Error);
  EXPECT_EQ(weight[0].item<float>(), 1);
}

TEST_F(DebugPrint, IsRefusedWhereAFunctionIsTraced) {
  auto fn = compile([](const Tensor& x) {
    debug_print(x * 2, "x");
    return x + 1;
  });
  EXPECT_THROW(fn(ones({2})), NotSupported);
}

TEST_F(DebugPrint, WorksFromSeveralThreads) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int k = 0; k < 10; ++k) {
        step([&] { debug_print(full({2}, i), "t"); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  DrainStepClosures();
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 40);
}

}  // namespace
}  // namespace hammock
