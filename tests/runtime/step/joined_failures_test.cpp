// One hearing of an error covers the unit of writes that failed by it, what made it fail, and what
// failed with it: the next step raises nothing more, and finds all tensors as they were.

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "hammock/hammock.h"
#include "runtime/runtime.h"
#include "runtime/step/budget.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

/// A device whose next computations fail, each with an error of its own that names no op.
class JoinedFailures : public Runtime {
 protected:
  JoinedFailures() : registered_(Backend()) { Backend().before_execute = MaybeFail(); }
  ~JoinedFailures() override { Backend().before_execute = nullptr; }

  static HostBackend& Backend() {
    static HostBackend& backend = MakeBackend("joined");
    return backend;
  }
  static Tensor Full(float value) { return full({4}, value, f32, "joined"); }
  /// Kept from step to step, and not computed yet.
  static Tensor NewState(float value) {
    Tensor state = Full(value) * 1.0f;
    MarkState(state);
    return state;
  }
  static std::string TextOf(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  static float First(const Tensor& x) { return x[0].item<float>(); }

  std::atomic<int> failures_{0};  // yet to come
  std::atomic<int> failed_{0};
  std::atomic<bool> held_{false};

 private:
  std::function<void(const lazy::Computation&)> MaybeFail() {
    return [this](const lazy::Computation&) {
      held_.wait(true);
      if (failures_ == 0) return;
      --failures_;
      throw DeviceError(ErrorCode::kDevice, "failure " + std::to_string(++failed_));
    };
  }

  Registered registered_;
};

TEST_F(JoinedFailures, AStepBehindStateThatCouldNotBeMadeIsHeardOfWithIt) {
  Tensor w = Full(1), m = Full(1), v = Full(1);
  mark_step(true);
  w.add_(1.0f);  // written before the step, and run as its initial state
  m.add_(1.0f);
  MarkState(w);
  MarkState(m);
  failures_ = 2;
  step([&] {
    w.add_(10.0f);
    v.add_(10.0f);  // needs nothing that has failed, and fails by itself
  });
  ASSERT_EQ(failed_, 2);
  const std::string text = TextOf([&] { w.host(); });
  EXPECT_NE(text.find("failure 1"), std::string::npos) << text;
  EXPECT_NE(text.find("2 steps are undone"), std::string::npos) << text;
  EXPECT_EQ(TextOf([&] { step([&] { w.add_(1.0f), m.add_(1.0f), v.add_(1.0f); }); }), "");
  for (const Tensor& each : {w, m, v}) EXPECT_EQ(First(each), 2);
}

TEST_F(JoinedFailures, AQueuedStepInheritsAFailureOfNoKnownOp) {
  config::Override async("async", "true");
  Tensor w = Full(1), v = Full(1);
  mark_step(true);
  Tensor a = NewState(1), b = NewState(2);
  Tensor large = zeros({64, 1024}, f32, "joined") + a[0];  // too large to run inline
  MarkState(large);
  failures_ = 1;
  held_ = true;
  step([&] {
    w.add_(large[0][0] + b);
    v.add_(1.0f);
  });
  held_ = false;
  held_.notify_all();
  const std::string text = TextOf([&] { w.host(); });
  EXPECT_NE(text.find("failure 1"), std::string::npos) << text;
  EXPECT_NE(text.find("the step is undone"), std::string::npos) << text;
  EXPECT_EQ(TextOf([&] { step([&] { w.add_(a), v.add_(b); }); }), "");
  EXPECT_EQ(First(w), 2);
  EXPECT_EQ(First(v), 3);
}

TEST_F(JoinedFailures, StateThatIsMadeAtTheSecondTryIsNoError) {
  Tensor w = Full(1);
  mark_step(true);
  Tensor a = NewState(1), b = NewState(2);
  failures_ = 1;
  step([&] { w.add_(a + b); });
  ASSERT_EQ(failed_, 1);
  EXPECT_EQ(TextOf([&] { step([&] { w.add_(1.0f); }); }), "");
  EXPECT_EQ(First(w), 5);
}

TEST_F(JoinedFailures, AValueThatIsTriedAgainTellsOfTheWholeStep) {
  Tensor w = Full(1), metric;
  mark_step(true);
  failures_ = 2;
  step([&] {
    w.add_(1.0f);
    metric = Full(3) * 2.0f;
  });
  const std::string text = TextOf([&] { metric.host(); });
  EXPECT_NE(text.find("failure 2"), std::string::npos) << text;
  EXPECT_NE(text.find("the step is undone"), std::string::npos) << text;
  EXPECT_EQ(TextOf([&] { step([&] { w.add_(10.0f); }); }), "");
  EXPECT_EQ(First(w), 11);
}

TEST_F(JoinedFailures, ALaterFailureIsRaisedByItself) {
  Tensor w = Full(1), v = Full(1);
  mark_step(true);
  w.add_(1.0f);
  MarkState(w);
  Tensor state = NewState(1);
  for (int i = 1; i < 4; ++i) {
    failures_ = 1;
    step([&] {
      w.add_(1.0f);
      v.add_(1.0f);
    });
    failures_ = 0;
    const std::string text = TextOf([&] { step([] {}); });
    EXPECT_NE(text.find("failure " + std::to_string(i)), std::string::npos) << text;
    EXPECT_EQ(First(w), 1) << text;
    EXPECT_EQ(First(v), 1);
  }
}

}  // namespace
}  // namespace hammock
