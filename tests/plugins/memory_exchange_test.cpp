// Memory of plug-ins that other libraries have, and theirs as data.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "hammock/direct_call.h"
#include "hammock/hammock.h"
#include "hammock/lazy/device_exchange.h"
#include "hammock/lazy/host_sharing.h"
#include "plugins/hostile_plugin.h"
#include "plugins/status.h"
#include "runtime/runtime.h"

namespace hammock {
namespace {

using namespace hammock::testing;

/// A device whose memory is that of the host; it writes down what it was asked.
class LendingBackend : public HostBackend, public lazy::DeviceExchange {
 public:
  LendingBackend() : HostBackend("lender") {}

  void ComeAfter(const lazy::BackendDevice&, Stream stream) const override {
    log.push_back(fmt::format("after {}", stream));
  }
  void LetComeAfter(const lazy::BackendDevice&, Stream stream) const override {
    log.push_back(fmt::format("before {}", stream));
  }
  int64_t alignment() const override { return 16; }
  BackendDataPtr Borrow(uint64_t memory, const Shape& shape, const lazy::BackendDevice& device,
                        Callback<void()> release) const override {
    log.push_back("borrow " + shape.to_string());
    auto* elements = reinterpret_cast<void*>(memory);
    return MakeComputationDataFromTensor(HostTensor::Borrow(shape, elements, std::move(release)),
                                         shape, device);
  }
  Lent Lend(BackendDataPtr data) const override {
    if (fails) throw OutOfMemory(ErrorCode::kOutOfMemory, "no memory to lend");
    HostTensor elements = MakeTensorFromComputationData(data, std::nullopt);
    const bool alone = data.use_count() == 1;
    if (!alone) elements = HostTensor::Copy(elements.shape(), elements.data());
    log.push_back(alone ? "lend" : "lend a copy");
    ++loans;
    std::shared_ptr<void> holder(new HostTensor(elements), [this](void* held) {
      delete static_cast<HostTensor*>(held);
      --loans;
    });
    return {reinterpret_cast<uint64_t>(elements.mutable_data()), std::move(holder)};
  }
  Lent ShareMemory(const BackendDataPtr& data) const override { return Lend(data); }
  void TakeBack(Lent, const lazy::BackendDevice&, Stream stream) const override {
    log.push_back(fmt::format("take back after {}", stream));
  }

  mutable std::vector<std::string> log;
  mutable std::atomic<int> loans{0};
  bool fails = false;
};

class MemoryExchange : public HostilePlugin {
 protected:
  void SetUp() override {
    static LendingBackend& made = *new LendingBackend;
    static const HammockPlugin* const adapted = plugins::Adapt(
        "rogue", "1.0", []() -> lazy::BackendImplInterface* { return &made; }, TheHost());
    backend_ = &made;
    made.log.clear();
    made.fails = false;
    table = *adapted;
    table.shutdown = nullptr;
  }

  /// x * 2 on the device.
  static DirectCall Twice() {
    return DirectCall(
        extract_compiled_graph([](const std::vector<Tensor>& in) { return std::vector{in[0] * 2}; },
                               {tensor(std::vector<float>(4, 0), {4}, f32, "rogue")}));
  }
  static BackendDataPtr Lendable(const DirectCall& call) {
    return call({{call.Import(HostTensor::From(std::vector<float>{1, 2, 3, 4}, {4}))}})[0];
  }
  static std::vector<float> Read(const lazy::DeviceExchange::Lent& lent) {
    const auto* elements = reinterpret_cast<const float*>(lent.memory);
    return {elements, elements + 4};
  }

  LendingBackend* backend_ = nullptr;

 private:
  /// The host that is registered later: buffers are its own.
  static const HammockHost* TheHost() {
    static HammockHost first = {};
    first = *FirstHost();
    first.buffer_retain = [](void*, HammockBuffer buffer) {
      return host->buffer_retain(host->context, buffer);
    };
    first.buffer_release = [](void*, HammockBuffer buffer) {
      return host->buffer_release(host->context, buffer);
    };
    return &first;
  }
};

TEST_F(MemoryExchange, BorrowsAndLendsWithoutTheHost) {
  Register();
  const DirectCall call = Twice();
  const lazy::DeviceExchange* exchange = call.exchange();
  ASSERT_TRUE(exchange);
  EXPECT_EQ(exchange->alignment(), 16);
  alignas(16) float theirs[] = {1, 2, 3, 4};
  int released = 0;
  const int uploads = backend_->uploads;
  exchange->ComeAfter(call.backend_device(), 7);
  BackendDataPtr input = exchange->Borrow(reinterpret_cast<uint64_t>(theirs), Shape(f32, {4}),
                                          call.backend_device(), [&] { ++released; });
  std::vector<BackendDataPtr> results = call({{input}});
  auto lent = exchange->Lend(std::move(results[0]));
  exchange->LetComeAfter(call.backend_device(), 8);
  EXPECT_EQ(Read(lent), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(released, 0);
  input.reset();
  EXPECT_EQ(released, 1);
  exchange->TakeBack(std::move(lent), call.backend_device(), 9);
  EXPECT_EQ(backend_->log, (std::vector<std::string>{"after 7", "borrow f32[4]", "lend", "before 8",
                                                     "take back after 9"}));
  EXPECT_EQ(backend_->loans, 0);
  EXPECT_EQ(backend_->uploads, uploads + 1) << "the borrowed memory alone";
}

TEST_F(MemoryExchange, DataThatSomeoneElseHasIsCopied) {
  Register();
  const DirectCall call = Twice();
  BackendDataPtr kept = Lendable(call), same = kept;
  auto lent = call.exchange()->Lend(std::move(same));
  std::memset(reinterpret_cast<void*>(lent.memory), 0, 16);
  EXPECT_EQ(backend_->log.back(), "lend a copy");
  EXPECT_EQ(call.Export(kept).at(0).ToDouble(), 2);
  lent = {};  // without a stream that used it
  EXPECT_EQ(backend_->loans, 0);
  EXPECT_EQ(backend_->log.back(), "lend a copy");
  backend_->log.clear();
  EXPECT_EQ(Read(call.exchange()->ShareMemory(kept))[1], 4) << "what its owner keeps";
  EXPECT_EQ(backend_->log, (std::vector<std::string>{"lend a copy"}));
}

TEST_F(MemoryExchange, ErrorsKeepTheirClassAndLoansEndOnce) {
  Register();
  const DirectCall call = Twice();
  backend_->fails = true;
  EXPECT_THROW(call.exchange()->Lend(Lendable(call)), OutOfMemory);
  plugins::ErrorText error;
  EXPECT_EQ(table.take_back(table.self, 12345, nullptr, error.c()), HAMMOCK_INTERNAL_ERROR);
  EXPECT_NE(error.text().find("stale handle 0x3039 of a loan"), std::string::npos) << error.text();
}

TEST_F(MemoryExchange, IsWholeOrRefused) {
  table.lend = nullptr;
  table.take_back = nullptr;
  EXPECT_CODE(Register(), ErrorCode::kValue, "its table lacks lend, take_back");
  table.exchange_alignment = 0;
  Register();
  EXPECT_EQ(Twice().exchange(), nullptr);
}

/// What lies behind the table of an older plug-in is not looked at.
TEST_F(MemoryExchange, CameWithVersionThree) {
  table.struct_size = offsetof(HammockPlugin, exchange_alignment);
  table.version_minor = 2;
  Register();
  EXPECT_EQ(Twice().exchange(), nullptr);
}

TEST_F(MemoryExchange, WithoutDataOrALoanIsAnError) {
  table.borrow = [](void*, int64_t, uint64_t, const HammockShape*, HammockBuffer, HammockData*,
                    HammockError*) -> HammockStatus { return HAMMOCK_OK; };
  table.lend = [](void*, HammockData, uint32_t, HammockLent*, HammockError*) -> HammockStatus {
    return HAMMOCK_OK;
  };
  table.share = [](void*, HammockData, HammockLent*, HammockError*) -> HammockStatus {
    return HAMMOCK_OK;
  };
  Register();
  const DirectCall call = Twice();
  int released = 0;
  EXPECT_CODE(
      call.exchange()->Borrow(16, Shape(f32, {4}), call.backend_device(), [&] { ++released; }),
      ErrorCode::kInternal, "borrow of rogue gave no data");
  EXPECT_EQ(released, 1);
  EXPECT_CODE(call.exchange()->Lend(Lendable(call)), ErrorCode::kInternal,
              "lend of rogue gave no loan");
  EXPECT_CODE(SharedElements(ones({3}, f32, "rogue") * 2), ErrorCode::kInternal,
              "share of rogue gave no memory");
}

// ---- Memory of the host

class SharedMemory : public Runtime {
 protected:
  static Tensor Threes() { return full({1000}, 1.5, f32, "cpu-plugin") * 2.0f; }
  static bool AllAre(const HostTensor& elements, float expected) {
    const auto values = elements.values<float>();
    return std::ranges::all_of(values, [&](float value) { return value == expected; });
  }
  void SetUp() override {
    plugins::Load(HAMMOCK_CPU_PLUGIN);
    Runtime::SetUp();
  }
  void TearDown() override {
    Runtime::TearDown();
    lazy::UnregisterBackend("cpu-plugin", true);
  }
};

TEST_F(SharedMemory, IsThatOfTheResult) {
  Tensor x = Threes();
  const HostTensor first = SharedElements(x), second = SharedElements(x), copied = x.host();
  EXPECT_TRUE(AllAre(first, 3) && AllAre(copied, 3));
  EXPECT_EQ(first.data(), second.data());
  EXPECT_NE(first.data(), copied.data());
}

TEST_F(SharedMemory, IsNotWrittenWhileItIsHeld) {
  Tensor x = Threes();
  const HostTensor held = SharedElements(x);
  {
    NoGradGuard no_grad;
    x += 1.0f;
    mark_step();
    wait_device_ops();
  }
  EXPECT_TRUE(AllAre(held, 3) && AllAre(x.host(), 4));
}

TEST_F(SharedMemory, OutlivesItsTensor) {
  HostTensor held;
  {
    Tensor x = Threes();
    held = SharedElements(x);
  }
  for (int i = 0; i < 4; ++i) (Threes() * 7.0f).host();
  EXPECT_TRUE(AllAre(held, 3));
}

}  // namespace
}  // namespace hammock
