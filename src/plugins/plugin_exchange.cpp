#include "plugins/plugin_exchange.h"

#include <utility>

#include "plugins/plugin_calls.h"

namespace hammock::plugins {
namespace {

/// The state of `lend` and `share`.
struct Lending {
  HammockData data;
  uint32_t sole = 0;
  HammockLent lent = {};
  bool supported = true;
};

/// The state of `come_after` and `let_come_after`.
struct Ordering {
  int64_t device;
  uint64_t stream;
};

}  // namespace

// ---- PluginBackend

void PluginBackend::TakeBackLoan(HammockLoan loan, const uint64_t* stream) const noexcept {
  struct State {
    HammockLoan loan;
    bool has_stream;
    uint64_t stream;
  } state{loan, stream != nullptr, stream ? *stream : 0};
  Tell("take_back", state, [this](const HammockPlugin& table, State& given) {
    ErrorText error;
    const uint64_t* after = given.has_stream ? &given.stream : nullptr;
    const HammockStatus status = table.take_back(table.self, given.loan, after, error.c());
    if (status != HAMMOCK_OK) Raise("take_back", status, error, nullptr);
  });
}

HostTensor PluginBackend::Share(const BackendDataPtr& data) const {
  if (!table_.share) return {};
  data->WaitReady();
  Lending state{HandleOf(*this, data)};
  Call("share", state, [](const HammockPlugin& table, Lending& call, HammockError* error) {
    const HammockStatus status = table.share(table.self, call.data, &call.lent, error);
    call.supported = status != HAMMOCK_NOT_SUPPORTED;
    return call.supported ? status : HAMMOCK_OK;
  });
  if (!state.supported) return {};
  auto* elements = reinterpret_cast<void*>(static_cast<uintptr_t>(state.lent.memory));
  if (!elements && data->shape().bytes() > 0) {
    Throw<InternalError>(ErrorCode::kInternal, "share of {} gave no memory", table_.name);
  }
  return HostTensor::Borrow(data->shape(), elements,
                            [this, loan = state.lent.loan] { TakeBackLoan(loan, nullptr); });
}

// ---- ExchangingPlugin

/// Memory of the plug-in that another library has.
struct ExchangingPlugin::Loan {
  Loan(const ExchangingPlugin& plugin, HammockLoan handle) : plugin(plugin), handle(handle) {}
  ~Loan() { End(nullptr); }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  void End(const uint64_t* stream) {
    if (const HammockLoan ended = std::exchange(handle, 0)) plugin.TakeBackLoan(ended, stream);
  }

  const ExchangingPlugin& plugin;
  HammockLoan handle;
};

void ExchangingPlugin::ComeAfter(const BackendDevice& device, Stream stream) const {
  Ordering state{device.ordinal(), stream};
  Call("come_after", state, [](const HammockPlugin& table, Ordering& call, HammockError* error) {
    return table.come_after(table.self, call.device, call.stream, error);
  });
}

void ExchangingPlugin::LetComeAfter(const BackendDevice& device, Stream stream) const {
  Ordering state{device.ordinal(), stream};
  Call("let_come_after", state,
       [](const HammockPlugin& table, Ordering& call, HammockError* error) {
         return table.let_come_after(table.self, call.device, call.stream, error);
       });
}

BackendDataPtr ExchangingPlugin::Borrow(uint64_t memory, const Shape& shape,
                                        const BackendDevice& device,
                                        Callback<void()> release) const {
  struct State {
    int64_t device;
    uint64_t memory;
    Shape shape;
    HammockBuffer buffer;
    HammockData data = 0;
  };
  // The buffer lives as long as the plug-in retains it.
  HostTensor owner = HostTensor::Borrow(Shape(DType::kU8, {0}), nullptr, std::move(release));
  State state{device.ordinal(), memory, shape, host().AddBuffer(std::move(owner))};
  struct Drop {
    PluginHost& host;
    const HammockBuffer buffer;
    ~Drop() { host.DropBuffer(buffer); }
  } drop{host(), state.buffer};
  Call("borrow", state, [](const HammockPlugin& table, State& call, HammockError* error) {
    const HammockShape given = ShapeOf(call.shape);
    return table.borrow(table.self, call.device, call.memory, &given, call.buffer, &call.data,
                        error);
  });
  if (state.data == 0) {
    Throw<InternalError>(ErrorCode::kInternal, "borrow of {} gave no data", table().name);
  }
  return PluginData::Make(*this, device, shape, state.data);
}

lazy::DeviceExchange::Lent ExchangingPlugin::Lend(BackendDataPtr data) const {
  data->WaitReady();
  // `data` and the cell itself are the only holders.
  return LendMemory(data, data.use_count() == 1 && DataOf(*this, data).cell().use_count() == 2);
}

// The interface has no memory that is read while its owner keeps it: what is not given away is
// copied.
lazy::DeviceExchange::Lent ExchangingPlugin::ShareMemory(const BackendDataPtr& data) const {
  return LendMemory(data, false);
}

lazy::DeviceExchange::Lent ExchangingPlugin::LendMemory(const BackendDataPtr& data,
                                                        bool sole) const {
  Lending state{HandleOf(*this, data)};
  state.sole = sole;
  Call("lend", state, [](const HammockPlugin& table, Lending& call, HammockError* error) {
    return table.lend(table.self, call.data, call.sole, &call.lent, error);
  });
  if (state.lent.loan == 0) {
    Throw<InternalError>(ErrorCode::kInternal, "lend of {} gave no loan", table().name);
  }
  return {state.lent.memory, std::make_shared<Loan>(*this, state.lent.loan)};
}

void ExchangingPlugin::TakeBack(Lent lent, const BackendDevice&, Stream stream) const {
  std::static_pointer_cast<Loan>(lent.holder)->End(&stream);
}

}  // namespace hammock::plugins
