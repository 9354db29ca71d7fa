#pragma once
/// ExchangingPlugin: a plug-in whose device memory other libraries of the process use.

#include "hammock/lazy/device_exchange.h"
#include "plugins/plugin_backend.h"

namespace hammock::plugins {

class ExchangingPlugin : public PluginBackend, public lazy::DeviceExchange {
 public:
  using PluginBackend::PluginBackend;

  void ComeAfter(const lazy::BackendDevice& device, Stream stream) const override;
  void LetComeAfter(const lazy::BackendDevice& device, Stream stream) const override;
  int64_t alignment() const override { return static_cast<int64_t>(table().exchange_alignment); }
  BackendDataPtr Borrow(uint64_t memory, const Shape& shape, const lazy::BackendDevice& device,
                        Callback<void()> release) const override;
  Lent Lend(BackendDataPtr data) const override;
  Lent ShareMemory(const BackendDataPtr& data) const override;
  void TakeBack(Lent lent, const lazy::BackendDevice& device, Stream stream) const override;

 private:
  struct Loan;

  Lent LendMemory(const BackendDataPtr& data, bool sole) const;
};

}  // namespace hammock::plugins
