// What a backend refuses or cannot compile runs on the fallback device.

#include <gtest/gtest.h>

#include "base/log.h"
#include "hammock/config.h"
#include "hammock/op_builder.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Fallback : public Runtime {};

int64_t Fallbacks() {
  int64_t sum = 0;
  for (const std::string& name : metrics::CounterNames()) {
    if (name.starts_with("fallback::")) sum += CounterOf(name);
  }
  return sum;
}

std::string NameOf(const GraphNode& node) { return node.op->info().name; }

TEST_F(Fallback, WhatABackendRefusesRunsOnTheFallbackDevice) {
  HostBackend& backend = MakeBackend("noexp");
  backend.refuse = [](const GraphNode& node) {
    return NameOf(node) == "exp" ? std::string("it has no exponentials") : std::string();
  };
  Registered registered(backend);
  LogCapture log;
  Tensor x = tensor(std::vector<float>{0, 1, 2}, std::nullopt, "noexp");
  int64_t before = CounterOf("fallback::exp");
  int line = 0;
  for (int i = 0; i < 3; ++i) {
    Tensor y = ((x * 2.0f).exp() + 1.0f) * 0.5f;
    line = __LINE__ - 1;
    Tensor z = x - 1.0f;
    mark_step();
    EXPECT_TENSOR_NEAR(y, {1, (std::exp(2.0) + 1) / 2, (std::exp(4.0) + 1) / 2}, {3});
    EXPECT_TENSOR_EQ(z, {-1, 0, 1}, {3});
    EXPECT_EQ(y.device().to_string(), "noexp:0");
  }
  EXPECT_EQ(CounterOf("fallback::exp"), before + 3) << "counted each time";
  std::string text = log.text();
  size_t first = text.find("it has no exponentials");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("it has no exponentials", first + 1), std::string::npos) << "one warning";
  EXPECT_NE(text.find("exp"), std::string::npos) << text;
  EXPECT_NE(text.find(Line(line)), std::string::npos) << text;
  for (const std::string& graph : backend.graphs()) {
    EXPECT_EQ(graph.find("exp"), std::string::npos) << graph;
  }
}

TEST_F(Fallback, WithoutFallbackARefusalIsAnError) {
  HostBackend& backend = MakeBackend("strict");
  backend.refuse = [](const GraphNode& node) {
    return NameOf(node) == "exp" ? std::string("no exponentials here") : std::string();
  };
  Registered registered(backend);
  Tensor x = ones({2}, f32, "strict");
  Tensor y = x.exp();
  int line = __LINE__ - 1;
  {
    config::Override strict("fallback", "false");
    Raised raised = ErrorOf([&] { y.host(); });
    EXPECT_EQ(raised.code, ErrorCode::kNotSupported);
    EXPECT_NE(raised.what.find("no exponentials here"), std::string::npos) << raised.what;
    EXPECT_NE(raised.what.find(Line(line)), std::string::npos) << raised.what;
    EXPECT_TENSOR_EQ(x + 1.0f, {2, 2}, {2});
  }
  EXPECT_TENSOR_NEAR(y, {M_E, M_E}, {2});
}

TEST_F(Fallback, AForcedFallbackChangesNoOtherResult) {
  auto program = [](const char* device) {
    Tensor x = arange(0, 24, 1, f32, device).view({4, 6}) * 0.37f;
    Tensor y = softmax(x.sin(), 1);
    Tensor z = matmul(y, x.t());
    Tensor w = z.exp() - z;
    return std::vector{x, y, z, w, w.sum()};
  };
  HostBackend& backend = MakeBackend("whole");
  Registered registered(backend);
  auto plain = program("whole");
  sync_multi(plain);
  std::vector<HostTensor> expected;
  for (const Tensor& each : plain) expected.push_back(each.host());
  for (const char* op : {"exp", "dot_general", "softmax", "sin", "sin,dot_general"}) {
    config::Override forced("force_fallback", op);
    auto values = program("whole");
    int64_t before = Fallbacks();
    mark_step();
    EXPECT_GT(Fallbacks(), before) << op;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(values[i].host().SameBits(expected[i])) << op << " changes value " << i;
    }
  }
}

TEST_F(Fallback, AForcedFallbackNeedsAnOpThatIsRecorded) {
  Tensor x = OnDevice({1, 2});
  {
    config::Override forced("force_fallback", "matmul");  // records a dot_general
    EXPECT_CODE((x + 1.0f).host(), ErrorCode::kUnknownName, "matmul");
  }
  {
    config::Override forced("force_fallback", "mull");
    EXPECT_CODE((x + 1.0f).host(), ErrorCode::kUnknownName, "mul");
  }
  EXPECT_TENSOR_EQ(x + 1.0f, {2, 3}, {2});
}

TEST_F(Fallback, AFailureInAFallbackSegmentIsRolledBack) {
  HostBackend& backend = MakeBackend("segments");
  backend.refuse = [](const GraphNode& node) {
    return NameOf(node) == "exp" ? std::string("no exp") : std::string();
  };
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{0, 1}, std::nullopt, "segments");
  Tensor y = (x + 1.0f).exp() * 2.0f;
  Tensor z = x + 3.0f;
  {
    FailAt fault(FaultPoint::kExecute, "exp");
    mark_step();
    EXPECT_CODE(mark_step(), ErrorCode::kDevice, "injected");
    EXPECT_CODE(y.host(), ErrorCode::kDevice, "injected");
  }
  EXPECT_TENSOR_EQ(z, {3, 4}, {2});
  Lazy().ClearErrors(y);
  EXPECT_TENSOR_NEAR(y, {2 * M_E, 2 * M_E * M_E}, {2});
}

TEST_F(Fallback, AGraphThatDoesNotCompileRunsOnTheFallbackDevice) {
  HostBackend& backend = MakeBackend("nocompile");
  backend.before_compile = [](const lazy::Computation&) {
    throw CompileError(ErrorCode::kCompile, "the compiler is on holiday");
  };
  Registered registered(backend);
  Tensor x = tensor(std::vector<float>{1, 2}, std::nullopt, "nocompile");
  int64_t before = CounterOf("fallback::compile");
  EXPECT_TENSOR_EQ(x * 2.0f, {2, 4}, {2});
  EXPECT_EQ(CounterOf("fallback::compile"), before + 1);
  config::Override strict("fallback", "false");
  Tensor y = x * 3.0f + 1.0f;
  EXPECT_CODE(y.host(), ErrorCode::kCompile, "on holiday");
  EXPECT_TENSOR_EQ(x, {1, 2}, {2});
}

}  // namespace
}  // namespace hammock
