#include "runtime/step/closures.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <stdexcept>
#include <thread>

#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

TEST(StepClosures, RunInOrderAfterTheStep) {
  Tensor x = tensor({1.0, 2.0}, std::nullopt, "reference") * 2.0;
  std::string order;
  add_step_closure([&] { order += x.is_pending() ? "pending" : "done"; });
  add_step_closure([&] { order += ",second"; });
  EXPECT_EQ(order, "");
  mark_step();
  EXPECT_EQ(order, "done,second");
  mark_step();
  EXPECT_EQ(order, "done,second") << "a closure runs once";
}

TEST(StepClosures, AddedByAClosureWaitForTheNextStep) {
  int runs = 0;
  add_step_closure([&] { add_step_closure([&] { ++runs; }); });
  mark_step();
  EXPECT_EQ(runs, 0);
  mark_step();
  EXPECT_EQ(runs, 1);
}

TEST(StepClosures, AnExceptionLeavesMarkStepAndTheStepStaysDone) {
  Tensor x = tensor({1.0, 2.0}, std::nullopt, "reference") * 2.0;
  std::string order;
  add_step_closure([&] { order += "a"; });
  add_step_closure([] { throw std::runtime_error("no luck"); });
  add_step_closure([&] { order += "b"; });
  EXPECT_THROW_MESSAGE(mark_step(), std::runtime_error, "no luck");
  EXPECT_EQ(order, "a");
  EXPECT_FALSE(x.is_pending());
  EXPECT_TENSOR_EQ(x, {2.0f, 4.0f}, {2});
  mark_step();
  EXPECT_EQ(order, "ab") << "those behind it run after the next step";
}

TEST(StepClosures, BelongToTheThreadThatAddedThem) {
  int runs = 0;
  add_step_closure([&] { ++runs; });
  std::thread([] { mark_step(); }).join();
  EXPECT_EQ(runs, 0);
  mark_step();
  EXPECT_EQ(runs, 1);
}

TEST(StepClosures, AsynchronousOnesRunInOrderOnAnotherThread) {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::vector<int> order;
  std::thread::id thread;
  for (int i = 0; i < 5; ++i) {
    add_step_closure(
        [&, i] {
          opened.wait();
          thread = std::this_thread::get_id();
          order.push_back(i);
        },
        true);
  }
  mark_step();  // returns although none can finish
  gate.set_value();
  DrainStepClosures();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(StepClosures, AnAsynchronousErrorIsRaisedOnceByTheNextStep) {
  add_step_closure([] { throw std::runtime_error("disk full"); }, true);
  mark_step();
  DrainStepClosures();
  int runs = 0;
  add_step_closure([&] { ++runs; });
  EXPECT_THROW_MESSAGE(mark_step(), ValueError,
                       "cannot run asynchronous closure due to previously raised exception: disk "
                       "full");
  EXPECT_EQ(runs, 0);
  mark_step();
  EXPECT_EQ(runs, 1);
}

TEST(StepClosures, OfSeveralAsynchronousErrorsTheFirstIsRaised) {
  int runs = 0;
  add_step_closure([] { throw ValueError(ErrorCode::kParse, "one"); }, true);
  add_step_closure([] { throw 2; }, true);
  add_step_closure([&] { ++runs; }, true);
  mark_step();
  DrainStepClosures();
  EXPECT_EQ(runs, 1);
  EXPECT_THROW_MESSAGE(mark_step(), ValueError, "exception: one");
  mark_step();
}

TEST(StepClosures, TheQueueIsBounded) {
  config::Override two("max_async_queue", "2");
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future().share();
  std::atomic<bool> stepped = false;
  std::thread other([&] {
    for (int i = 0; i < 5; ++i) add_step_closure([opened] { opened.wait(); }, true);
    mark_step();
    stepped = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(stepped) << "five closures fit into a queue of two";
  gate.set_value();
  other.join();
  EXPECT_TRUE(stepped);
  DrainStepClosures();
}

TEST(StepClosures, AsynchronousOnesEndBeforeTheProcess) {
  std::string path = ::testing::TempDir() + "hammock_closures_child";
  std::filesystem::remove(path);
  EXPECT_EQ(std::system((std::string(HAMMOCK_CLOSURES_CHILD) + " " + path).c_str()), 0);
  std::string text;
  std::getline(std::ifstream(path), text);
  EXPECT_EQ(text, "3 6");
  std::filesystem::remove(path);
}

TEST(StepClosures, RefuseAnEmptyFunction) {
  EXPECT_THROW_MESSAGE(add_step_closure(nullptr), ValueError, "the function is empty");
}

}  // namespace
}  // namespace hammock
