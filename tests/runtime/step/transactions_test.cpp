// A step is a transaction, and errors belong to values: whatever fails, every live tensor is what
// it was, what depends on the failing op raises its error, everything else can be had.

#include <gtest/gtest.h>

#include <chrono>

#include "hammock/config.h"
#include "hammock/custom_call.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Transactions : public Runtime {};

// ---- A real failing op: upstream.md's recipe

TEST_F(Transactions, AFailingOpIsRaisedOnceByTheStepAndLeavesTheRest) {
  Tensor x = OnHost({0, 1, 2, 3});
  Tensor i = Indices({9});
  Tensor g = gather(x, 0, i);
  int line = __LINE__ - 1;
  Tensor h = x + 1.0f;
  mark_step();  // what fails in it is raised by the next one
  Raised raised = ErrorOf([] { mark_step(); });
  EXPECT_EQ(raised.code, ErrorCode::kIndexOutOfRange) << raised.what;
  EXPECT_NE(raised.what.find("gather"), std::string::npos) << raised.what;
  EXPECT_NE(raised.what.find(Line(line)), std::string::npos) << raised.what;
  mark_step();
  wait_device_ops();  // once is enough
  EXPECT_TENSOR_EQ(h, {1, 2, 3, 4}, {4});
  EXPECT_TENSOR_EQ(h, {1, 2, 3, 4}, {4});
  EXPECT_TENSOR_EQ(x, {0, 1, 2, 3}, {4});
  EXPECT_TENSOR_EQ(x, {0, 1, 2, 3}, {4});
  EXPECT_TENSOR_EQ(i, {9}, {1});
}

TEST_F(Transactions, ReadingAFailedValueRaisesEveryTimeWithoutRunningItAgain) {
  Tensor x = OnDevice({0, 1, 2, 3});
  Tensor g = gather(x, 0, Indices({9}));
  int line = __LINE__ - 1;
  Tensor behind = (g * 2.0f).exp();
  EXPECT_THROW(g.host(), Error);
  int64_t nodes = NodesRun();
  for (int i = 0; i < 3; ++i) {
    EXPECT_CODE(g.host(), ErrorCode::kIndexOutOfRange, Line(line));
    EXPECT_CODE(behind.host(), ErrorCode::kIndexOutOfRange, Line(line));
    EXPECT_CODE(sync_multi({behind}), ErrorCode::kIndexOutOfRange, "gather");
  }
  EXPECT_EQ(NodesRun(), nodes);
  mark_step();  // has been seen
  wait_device_ops();
  EXPECT_EQ(NodesRun(), nodes) << "a step leaves out what is known to fail";
}

TEST_F(Transactions, TracingOnAFailedValueIsFineAndRaisesWhenRead) {
  Tensor x = OnDevice({0, 1, 2, 3});
  Tensor g = gather(x, 0, Indices({9}));
  EXPECT_THROW(g.host(), Error);
  Tensor later = where(x > 1.0f, x, g.expand({4}));
  Tensor other = x * 2.0f;
  EXPECT_CODE(later.host(), ErrorCode::kIndexOutOfRange, "gather");
  mark_step();
  EXPECT_TENSOR_EQ(other, {0, 2, 4, 6}, {4});
}

TEST_F(Transactions, ABarrierRaisesWhatNoReadHasSeen) {
  Tensor x = OnDevice({0, 1, 2, 3});
  Gate gate;
  Tensor g = gather(x, 0, Indices({9}));
  {
    config::Override async("async", "true");
    Tensor big = zeros({64, 1024}, f32, "reference") + x[0];  // too big to run inline
    mark_step();
  }
  gate.Open();
  EXPECT_CODE(wait_device_ops(), ErrorCode::kIndexOutOfRange, "gather");
  wait_device_ops();
  mark_step();
}

TEST_F(Transactions, ABarrierDoesNotRaiseWhatAReadHasSeen) {
  Tensor x = OnDevice({0, 1, 2, 3});
  Tensor g = gather(x, 0, Indices({9}));
  EXPECT_THROW(g.host(), Error);
  wait_device_ops();
  mark_step();
}

TEST_F(Transactions, SeeingOneErrorDoesNotHideAnother) {
  Tensor x = OnDevice({0, 1, 2, 3});
  Tensor old_failure = gather(x, 0, Indices({9}));
  EXPECT_THROW(old_failure.host(), Error);
  Tensor big = zeros({64, 1024}, f32, "reference");
  sync_multi({big});
  Gate gate;
  Tensor fresh_failure = index_select(big + x[0], 0, Indices({100}));
  mark_step();
  gate.Open();
  while (Lazy().IsPending(fresh_failure) == false) std::this_thread::yield();
  EXPECT_THROW(old_failure.host(), Error);  // known for long
  EXPECT_CODE(wait_device_ops(), ErrorCode::kIndexOutOfRange, "index_select");
  wait_device_ops();
}

TEST_F(Transactions, EachUnseenErrorIsRaised) {
  Tensor big = zeros({64, 1024}, f32, "reference");
  Tensor x = OnDevice({0, 1, 2, 3});
  sync_multi({big});
  Gate gate;
  Tensor first = gather(x + big[0][0], 0, Indices({9}));
  mark_step();
  Tensor second = index_select(big + x[0], 0, Indices({100}));
  mark_step();
  gate.Open();
  EXPECT_CODE(second.host(), ErrorCode::kIndexOutOfRange, "index_select");
  EXPECT_CODE(wait_device_ops(), ErrorCode::kIndexOutOfRange, "gather");
  wait_device_ops();
  mark_step();
}

TEST_F(Transactions, ErrorsStayOnTheirDevice) {
  Tensor g = gather(OnDevice({0, 1}), 0, Indices({9}));
  Tensor other = ones({2}, f32, "null") + 1.0f;
  mark_step(Device("null"));
  wait_device_ops({Device("null")});
  mark_step(Device("reference"));
  mark_step(Device("null"));
  EXPECT_CODE(mark_step(Device("reference")), ErrorCode::kIndexOutOfRange, "gather");
}

TEST_F(Transactions, ClearErrorsTriesAgain) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor y = x.exp();
  Tensor z = y + 1.0f;
  {
    FailAt fault(FaultPoint::kExecute, "exp");
    EXPECT_CODE(z.host(), ErrorCode::kDevice, "injected at exp");
    EXPECT_EQ(fault.count(), 1);
    EXPECT_CODE(z.host(), ErrorCode::kDevice, "injected at exp");
    EXPECT_EQ(fault.count(), 1) << "not run again";
  }
  EXPECT_CODE(z.host(), ErrorCode::kDevice, "injected at exp");
  Lazy().ClearErrors(z);
  EXPECT_TENSOR_NEAR(z, {std::exp(1.0) + 1, std::exp(2.0) + 1, std::exp(3.0) + 1}, {3});
  EXPECT_TENSOR_NEAR(y, {std::exp(1.0), std::exp(2.0), std::exp(3.0)}, {3});
}

TEST_F(Transactions, AFailingCustomCallIsAnOpLikeOthers) {
  static bool fail = true;
  RegisterCustomCall("transactions_test.sometimes",
                     [](std::span<const HostTensor> in, std::string_view) {
                       if (fail) throw std::runtime_error("the call says no");
                       return std::vector<HostTensor>{in[0]};
                     });
  Tensor x = OnDevice({1, 2});
  Any called = CallOp("custom_call", {Any(AnyList{Any(x)}), Any("transactions_test.sometimes"),
                                      Any(""), Any(AnyList{Any("f32[2]")})});
  Tensor y = called.ToList().at(0).ToTensor();
  Tensor z = x + 1.0f;
  mark_step();
  EXPECT_CODE(mark_step(), ErrorCode::kExecute, "the call says no");
  EXPECT_TENSOR_EQ(z, {2, 3}, {2});
  EXPECT_CODE(y.host(), ErrorCode::kExecute, "the call says no");
  fail = false;
  Lazy().ClearErrors(y);
  EXPECT_TENSOR_EQ(y, {1, 2}, {2});
}

// ---- Steps that wait behind the failing one

TEST_F(Transactions, StepsQueuedBehindAFailureAreComputedAllTheSame) {
  Tensor big = ones({64, 1024}, f32, "reference");
  Tensor x = OnDevice({0, 1, 2, 3});
  sync_multi({big});
  Gate gate;
  Tensor g = gather(x + big[0][0], 0, Indices({9}));
  Tensor h = x + big[0][1];
  mark_step();
  gate.WaitReached();
  Tensor k = h * 3.0f;  // needs a result of the failing step, not the failing op
  Tensor bad = g * 3.0f;
  mark_step();
  Tensor k2 = k - 1.0f;
  Tensor unrelated = x - 1.0f;
  mark_step();
  Tensor bad2 = bad + k2[0];
  mark_step();
  gate.Open();
  EXPECT_CODE(wait_device_ops(), ErrorCode::kIndexOutOfRange, "gather");
  wait_device_ops();
  EXPECT_TENSOR_EQ(unrelated, {-1, 0, 1, 2}, {4});
  EXPECT_TENSOR_EQ(k2, {2, 5, 8, 11}, {4});
  EXPECT_TENSOR_EQ(k, {3, 6, 9, 12}, {4});
  EXPECT_TENSOR_EQ(h, {1, 2, 3, 4}, {4});
  EXPECT_CODE(bad2.host(), ErrorCode::kIndexOutOfRange, "gather");
  EXPECT_CODE(bad.host(), ErrorCode::kIndexOutOfRange, "gather");
  EXPECT_CODE(g.host(), ErrorCode::kIndexOutOfRange, "gather");
  wait_device_ops();
}

TEST_F(Transactions, AReadThatWaitsBehindAFailureOfOthersSucceeds) {
  Tensor big = ones({64, 1024}, f32, "reference");
  Tensor x = OnDevice({0, 1, 2, 3});
  sync_multi({big});
  Gate gate;
  Tensor g = gather(x + big[0][0], 0, Indices({9}));
  Tensor h = x + big[0][1];
  mark_step();
  gate.WaitReached();
  Tensor k = h * 3.0f;
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.Open();
  });
  EXPECT_TENSOR_EQ(k, {3, 6, 9, 12}, {4});
  opener.join();
  EXPECT_TENSOR_EQ(h, {1, 2, 3, 4}, {4});
}

TEST_F(Transactions, ASyncThatWaitsBehindAFailureOfOthersSucceeds) {
  Tensor big = ones({64, 1024}, f32, "reference");
  Tensor x = OnDevice({0, 1, 2, 3});
  sync_multi({big});
  Gate gate;
  Tensor g = gather(x + big[0][0], 0, Indices({9}));
  Tensor h = x + big[0][1];
  mark_step();
  gate.WaitReached();
  Tensor k = h * 3.0f;
  std::jthread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    gate.Open();
  });
  sync_multi({k});
  opener.join();
  EXPECT_FALSE(k.is_pending());
  std::vector<HostTensor> both = Lazy().GetTensors(std::vector<Tensor>{h, k});
  EXPECT_EQ(both[0].at(0).ToDouble(), 1);
  EXPECT_EQ(both[1].at(0).ToDouble(), 3);
}

// ---- Every place where a step can fail

struct Place {
  FaultPoint point;
  const char* detail;
  const char* name;
};

class EveryPlace : public Runtime, public ::testing::WithParamInterface<Place> {};

TEST_P(EveryPlace, LeavesEveryLiveTensorAsItWas) {
  manual_seed(5);
  Tensor host = OnHost({1, 2, 3});
  Tensor data = OnDevice({4, 5, 6});
  Tensor dying = OnDevice({7, 8, 9});
  Tensor random = rand({3}, f32, "reference");
  Tensor a = host * 2.0f;
  Tensor b = data + host;
  Tensor c = dying + 1.0f;
  dying = Tensor();  // c is all that needs it: donated
  Tensor d = c * 10.0f;
  Tensor base = OnDevice({0, 0, 0, 0});
  Tensor part = base.slice(0, 1, 3);
  part.add_(5.0f);
  Tensor r = random + 0.0f;
  {
    FailAt fault(GetParam().point, GetParam().detail);
    Raised raised = ErrorOf([] {
      mark_step();
      wait_device_ops();
    });
    EXPECT_NE(raised.what.find("injected"), std::string::npos) << raised.what;
    EXPECT_GT(fault.count(), 0);
  }
  wait_device_ops();  // seen
  for (const Tensor& each : {a, b, c, d, part, base, r}) Lazy().ClearErrors(each);
  EXPECT_TENSOR_EQ(d, {80, 90, 100}, {3});
  EXPECT_TENSOR_EQ(c, {8, 9, 10}, {3});
  // Where one op failed, writes that do not depend on it stand; else the step's are undone.
  float written = GetParam().detail[0] ? 5.0f : 0.0f;
  EXPECT_TENSOR_EQ(part, std::vector<float>({written, written}), {2});
  EXPECT_TENSOR_EQ(base, std::vector<float>({0, written, written, 0}), {4});
  EXPECT_TENSOR_EQ(a, {2, 4, 6}, {3});
  EXPECT_TENSOR_EQ(b, {5, 7, 9}, {3});
  EXPECT_TENSOR_EQ(host, {1, 2, 3}, {3});
  EXPECT_TENSOR_EQ(data, {4, 5, 6}, {3});
  manual_seed(5);
  EXPECT_TENSOR_EQ(r, rand({3}, f32, "reference"));
  EXPECT_TENSOR_EQ(random, r);
}

TEST_P(EveryPlace, LeavesHostDataReadableWhileItStillFails) {
  Tensor host = OnHost({1, 2, 3});
  Tensor a = host * 2.0f;
  FailAt fault(GetParam().point, GetParam().detail);
  EXPECT_THROW(
      {
        mark_step();
        wait_device_ops();
      },
      Error);
  EXPECT_TENSOR_EQ(host, {1, 2, 3}, {3});
  EXPECT_TENSOR_EQ(host, {1, 2, 3}, {3});
}

TEST_P(EveryPlace, AnotherTryAfterAPassingFaultGivesTheValue) {
  Tensor host = OnHost({1, 2, 3});
  Tensor a = host * 2.0f;
  Tensor b = host + 1.0f;
  {
    FailAt fault(GetParam().point, GetParam().detail, 1);
    EXPECT_THROW(
        {
          mark_step();
          wait_device_ops();
        },
        Error);
  }
  Lazy().ClearErrors(a);
  Lazy().ClearErrors(b);
  mark_step();
  EXPECT_TENSOR_EQ(b, {2, 3, 4}, {3});
  EXPECT_TENSOR_EQ(a, {2, 4, 6}, {3});
}

INSTANTIATE_TEST_SUITE_P(Transactions, EveryPlace,
                         ::testing::Values(Place{FaultPoint::kLower, "", "lower"},
                                           Place{FaultPoint::kCompile, "", "compile"},
                                           Place{FaultPoint::kAllocate, "mul", "allocate"},
                                           Place{FaultPoint::kExecute, "mul", "execute"},
                                           Place{FaultPoint::kUpload, "", "upload"}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(Transactions, IndependentValuesAreHadWhileAnOpFails) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor bad = x.exp();
  Tensor good = x * 2.0f;
  Tensor behind = bad + good;
  for (FaultPoint point : {FaultPoint::kExecute, FaultPoint::kAllocate}) {
    FailAt fault(point, "exp");
    mark_step();
    EXPECT_THROW(mark_step(), Error);
    EXPECT_TENSOR_EQ(good, {2, 4, 6}, {3});
    EXPECT_CODE(bad.host(), ErrorCode::kDevice, "exp");
    EXPECT_CODE(behind.host(), ErrorCode::kDevice, "exp");
    Lazy().ClearErrors(behind);
  }
  EXPECT_TENSOR_NEAR(behind, {std::exp(1.0) + 2, std::exp(2.0) + 4, std::exp(3.0) + 6}, {3});
}

TEST_F(Transactions, AFailedDownloadCanBeRepeatedAndComputesNothingAgain) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor y = x * 2.0f;
  {
    FailAt fault(FaultPoint::kDownload);
    EXPECT_CODE(y.host(), ErrorCode::kDevice, "injected");
    EXPECT_CODE(y.host(), ErrorCode::kDevice, "injected");
  }
  int64_t nodes = NodesRun();
  EXPECT_TENSOR_EQ(y, {2, 4, 6}, {3});
  EXPECT_EQ(NodesRun(), nodes);
}

TEST_F(Transactions, OutOfMemoryIsRolledBack) {
  lazy::BackendImplInterface* backend = lazy::getBackend("reference");
  lazy::BackendDevice device = Device("reference").backend_device();
  Tensor x = OnDevice({1, 2, 3});
  Tensor small = x + 1.0f;
  Tensor large = zeros({1 << 20}, f32, "reference") + x[0];
  int line = __LINE__ - 1;
  int64_t in_use = backend->GetMemoryInfo(device).in_use;
  backend->SetMemoryLimit(device, in_use + (1 << 20));
  EXPECT_THROW(
      {
        mark_step();
        wait_device_ops();
      },
      OutOfMemory);
  EXPECT_CODE(large.host(), ErrorCode::kOutOfMemory, Line(line));
  EXPECT_TENSOR_EQ(small, {2, 3, 4}, {3});
  EXPECT_LE(backend->GetMemoryInfo(device).in_use, in_use + 64);
  backend->SetMemoryLimit(device, 0);
  Lazy().ClearErrors(large);
  EXPECT_EQ(large[77].item<float>(), 1.0f);
}

TEST_F(Transactions, AFailedCompileIsNotCached) {
  Tensor x = OnDevice({1, 2, 3});
  Tensor y = x * 2.0f;
  int64_t entries = Lazy().GetCacheStats().entries;
  {
    FailAt fault(FaultPoint::kCompile);
    EXPECT_THROW(mark_step(), Error);
  }
  EXPECT_EQ(Lazy().GetCacheStats().entries, entries);
  Lazy().ClearErrors(y);
  int64_t compiles = Compiles();
  EXPECT_TENSOR_EQ(y, {2, 4, 6}, {3});
  EXPECT_EQ(Compiles(), compiles + 1);
}

TEST_F(Transactions, DonatedInputsSurviveAFailure) {
  Tensor w = OnDevice({1, 2, 3});
  Tensor bad;
  for (int i = 0; i < 3; ++i) {
    w = w + 1.0f;  // the old value dies with the step
    bad = w.exp();
    FailAt fault(FaultPoint::kExecute, "exp");
    EXPECT_THROW(
        {
          mark_step();
          wait_device_ops();
        },
        Error);
  }
  EXPECT_TENSOR_EQ(w, {4, 5, 6}, {3});
}

TEST_F(Transactions, WritesThroughViewsSurviveAFailure) {
  Tensor base = OnDevice({0, 1, 2, 3, 4, 5});
  Tensor grid = base.view({2, 3});
  Tensor column = grid.select(1, 2);
  column.mul_(10.0f);
  Tensor bad = gather(base, 0, Indices({77}));
  mark_step();
  EXPECT_THROW(mark_step(), Error);
  grid.add_(1.0f);
  EXPECT_TENSOR_EQ(column, {21, 51}, {2});
  EXPECT_TENSOR_EQ(base, {1, 2, 21, 4, 5, 51}, {6});
}

TEST_F(Transactions, InEagerModeTheOpItselfRaises) {
  Tensor x = OnDevice({0, 1, 2, 3});
  EagerMode eager;
  Tensor y = x + 1.0f;
  EXPECT_CODE(gather(x, 0, Indices({9})), ErrorCode::kIndexOutOfRange, "gather");
  EXPECT_TENSOR_EQ(y, {1, 2, 3, 4}, {4});
  mark_step();
  wait_device_ops();
}

TEST_F(Transactions, AWriteThatFailsInEagerModeLeavesTheOldValue) {
  Tensor plain = OnDevice({0, 1, 2, 3});
  Tensor base = OnDevice({0, 1, 2, 3});
  Tensor part = base.slice(0, 1, 3);
  Tensor whole_numbers = Indices({7, 7, 7, 7});
  EagerMode eager;
  {
    FailAt fault(FaultPoint::kExecute, "cast");
    EXPECT_CODE(plain.copy_(whole_numbers), ErrorCode::kDevice, "injected at cast");
  }
  {
    FailAt fault(FaultPoint::kExecute, "update_slice");
    EXPECT_CODE(part.mul_(10.0f), ErrorCode::kDevice, "injected at dynamic_update_slice");
  }
  EXPECT_TENSOR_EQ(plain, {0, 1, 2, 3}, {4});
  EXPECT_TENSOR_EQ(part, {1, 2}, {2});
  EXPECT_TENSOR_EQ(base, {0, 1, 2, 3}, {4});
  plain.copy_(whole_numbers);
  part.mul_(10.0f);
  EXPECT_TENSOR_EQ(plain, {7, 7, 7, 7}, {4});
  EXPECT_TENSOR_EQ(base, {0, 10, 20, 3}, {4});
  mark_step();
}

// ---- Budgets

TEST_F(Transactions, ABudgetLeavesCompileErrorsToTheValues) {
  HostBackend& backend = *new HostBackend("budget");
  int attempts = 0;
  backend.before_compile = [&](const lazy::Computation& computation) {
    if (ToText(computation.graph()).find("exp") == std::string::npos) return;
    ++attempts;
    throw CompileError(ErrorCode::kCompile, "no exp here");
  };
  Registered registered(backend);
  config::Override fallback("fallback", "false");
  config::Override budget("trim_graph_size", "5");
  Tensor x = ones({2}, f32, "budget");
  Tensor bad = x.exp();
  Tensor behind = bad + 1.0f;
  Tensor good = x * 3.0f;
  for (int i = 0; i < 10; ++i) good = good + 1.0f;
  EXPECT_GT(backend.executed, 0) << "what can be computed is";
  EXPECT_TENSOR_EQ(good, {13, 13}, {2});
  EXPECT_CODE(mark_step(), ErrorCode::kCompile, "no exp here");
  mark_step();
  int known = attempts;
  for (int i = 0; i < 3; ++i) EXPECT_CODE(behind.host(), ErrorCode::kCompile, "no exp here");
  EXPECT_EQ(attempts, known);
  EXPECT_CODE(bad.host(), ErrorCode::kCompile, "no exp here");
}

TEST_F(Transactions, ABudgetLeavesUploadErrorsToTheValues) {
  config::Override budget("trim_graph_size", "5");
  Tensor data = OnDevice({1, 2});
  Tensor host = OnHost({1, 2});
  Tensor needs_host = host * 2.0f;
  {
    FailAt fault(FaultPoint::kUpload, "f32[2]");  // not the numbers
    for (int i = 0; i < 10; ++i) data = data + 1.0f;
    EXPECT_GT(fault.count(), 0);
    EXPECT_TENSOR_EQ(data, {11, 12}, {2});
    EXPECT_CODE(needs_host.host(), ErrorCode::kDevice, "injected");
  }
  EXPECT_TENSOR_EQ(needs_host, {2, 4}, {2});
}

// ---- Steps that fail without a failing op that is known

TEST_F(Transactions, AStepThatFailedAsAWholeIsNotRunAgain) {
  HostBackend& backend = *new HostBackend("whole");
  Registered registered(backend);
  Tensor x = ones({2}, f32, "whole");
  sync_multi({x});
  bool fail = true;
  int runs = 0;
  backend.before_execute = [&](const lazy::Computation&) {
    ++runs;
    if (fail) throw std::runtime_error("somewhere");
  };
  Tensor y = x.exp();
  Tensor z = y + 1.0f;
  for (int i = 0; i < 3; ++i) {
    EXPECT_CODE(Lazy().GetTensors(std::vector{y, z}), ErrorCode::kExecute, "somewhere");
    EXPECT_CODE(z.host(), ErrorCode::kExecute, "somewhere");
  }
  EXPECT_EQ(runs, 2) << "both, and y by itself";
  mark_step();
  EXPECT_EQ(runs, 2);
  fail = false;
  EXPECT_THROW(z.host(), Error) << "nobody asked to try again";
  Lazy().ClearErrors(z);
  EXPECT_TENSOR_NEAR(z, {std::exp(1.0) + 1, std::exp(1.0) + 1}, {2});
  EXPECT_TENSOR_NEAR(y, {std::exp(1.0), std::exp(1.0)}, {2});
  EXPECT_EQ(runs, 3);
}

TEST_F(Transactions, PartsOfAStepThatFailedAsAWholeAreTriedOnce) {
  HostBackend& backend = *new HostBackend("parts");
  Registered registered(backend);
  Tensor x = ones({2}, f32, "parts");
  sync_multi({x});
  int runs = 0;
  backend.before_execute = [&](const lazy::Computation& computation) {
    ++runs;
    if (computation.results_size() > 1) throw std::runtime_error("too much");
  };
  Tensor a = x + 1.0f;
  Tensor b = x * 3.0f;
  mark_step();
  EXPECT_CODE(mark_step(), ErrorCode::kExecute, "too much");
  mark_step();
  EXPECT_EQ(runs, 1);
  EXPECT_TENSOR_EQ(a, {2, 2}, {2});
  EXPECT_TENSOR_EQ(b, {3, 3}, {2});
  EXPECT_EQ(runs, 3);
}

TEST_F(Transactions, AnErrorOutsideTheLibraryIsWrapped) {
  Tensor y = OnDevice({1, 2}).exp();
  ScopedFault fault([](FaultPoint at, std::string_view) {
    if (at == FaultPoint::kExecute) throw std::runtime_error("somebody else's");
  });
  int line = __LINE__ - 4;
  Raised raised = ErrorOf([&] { y.host(); });
  EXPECT_NE(raised.what.find("somebody else's"), std::string::npos) << raised.what;
  EXPECT_NE(raised.what.find("exp"), std::string::npos) << raised.what;
  EXPECT_NE(raised.what.find(Line(line)), std::string::npos) << raised.what;
}

TEST_F(Transactions, ErrorsAreRaisedInTheThreadThatReads) {
  Tensor x = OnDevice({0, 1, 2, 3});
  Tensor g = gather(x, 0, Indices({9}));
  Raised other;
  std::thread([&] { other = ErrorOf([&] { g.host(); }); }).join();
  EXPECT_EQ(other.code, ErrorCode::kIndexOutOfRange);
  EXPECT_CODE(g.host(), ErrorCode::kIndexOutOfRange, "gather");
}

TEST_F(Transactions, ACapturedGraphIsRolledBackToo) {
  CompiledGraph graph = extract_compiled_graph(
      [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{gather(in[0], 0, in[1]), in[0] + 1.0f};
      },
      {OnDevice({0, 1, 2, 3}), Indices({0})});
  std::vector<Tensor> fine = graph({OnDevice({4, 5, 6, 7}), Indices({2})});
  EXPECT_TENSOR_EQ(fine[0], {6}, {1});
  Tensor x = OnHost({4, 5, 6, 7});
  std::vector<Tensor> results = graph({x, Indices({9})});
  EXPECT_CODE(results[0].host(), ErrorCode::kIndexOutOfRange, "gather");
  EXPECT_TENSOR_EQ(results[1], {5, 6, 7, 8}, {4});
  EXPECT_TENSOR_EQ(x, {4, 5, 6, 7}, {4});
  EXPECT_CODE(results[0].host(), ErrorCode::kIndexOutOfRange, "gather");
  wait_device_ops();
}

}  // namespace
}  // namespace hammock
