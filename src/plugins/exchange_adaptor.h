#pragma once
/// ExchangeAdaptor: the memory of a C++ backend for others, by handles: its DeviceExchange and
/// HostSharing, where it has them.

#include <memory>

#include "hammock/lazy/backend_interface.h"
#include "hammock/lazy/device_exchange.h"
#include "hammock/lazy/host_sharing.h"
#include "hammock/plugin.h"
#include "plugins/handle_table.h"

namespace hammock::plugins {

/// Errors are thrown. Thread-safe.
class ExchangeAdaptor {
 public:
  ExchangeAdaptor(const lazy::BackendImplInterface& backend, const HammockHost& host)
      : exchange_(dynamic_cast<const lazy::DeviceExchange*>(&backend)),
        sharing_(dynamic_cast<const lazy::HostSharing*>(&backend)),
        host_(host) {}

  const lazy::DeviceExchange* exchange() const { return exchange_; }
  bool shares() const { return sharing_ != nullptr; }

  BackendDataPtr Borrow(const lazy::BackendDevice& device, uint64_t memory,
                        const HammockShape& shape, HammockBuffer buffer) const;
  /// `data` as the caller has it: its memory itself is lent where nobody else has it.
  HammockLent Lend(BackendDataPtr data);
  HammockLent Share(const BackendDataPtr& data);
  void TakeBack(HammockLoan loan, const uint64_t* stream);

 private:
  /// Of `lend`, or of `share` where the elements are defined.
  struct Loan {
    lazy::DeviceExchange::Lent lent;
    std::shared_ptr<const lazy::BackendDevice> device;
    HostTensor elements;
  };

  const lazy::DeviceExchange* const exchange_;
  const lazy::HostSharing* const sharing_;
  const HammockHost& host_;
  HandleTable<Loan> loans_{9};
};

}  // namespace hammock::plugins
