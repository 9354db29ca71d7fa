#include "plugins/exchange_adaptor.h"

#include <utility>

#include "base/throw.h"

namespace hammock::plugins {

BackendDataPtr ExchangeAdaptor::Borrow(const lazy::BackendDevice& device, uint64_t memory,
                                       const HammockShape& shape, HammockBuffer buffer) const {
  const Shape type(static_cast<DType>(shape.dtype), Dims(std::span(shape.sizes, shape.rank)));
  if (host_.buffer_retain(host_.context, buffer) != HAMMOCK_OK) {
    Throw<InternalError>(ErrorCode::kInternal, "stale handle {:#x} of a buffer", buffer);
  }
  return exchange_->Borrow(memory, type, device,
                           [this, buffer] { host_.buffer_release(host_.context, buffer); });
}

HammockLent ExchangeAdaptor::Lend(BackendDataPtr data) {
  auto device = std::make_shared<const lazy::BackendDevice>(data->device());
  lazy::DeviceExchange::Lent lent = exchange_->Lend(std::move(data));
  const uint64_t memory = lent.memory;
  return {memory, loans_.Add({std::move(lent), std::move(device), {}})};
}

HammockLent ExchangeAdaptor::Share(const BackendDataPtr& data) {
  HostTensor elements = sharing_->Share(data);
  if (!elements.defined()) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "the elements are not shared");
  }
  const auto memory = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(elements.data()));
  return {memory, loans_.Add({{}, nullptr, std::move(elements)})};
}

void ExchangeAdaptor::TakeBack(HammockLoan loan, const uint64_t* stream) {
  std::optional<Loan> ended = loans_.Take(loan);
  if (!ended) Throw<InternalError>(ErrorCode::kInternal, "stale handle {:#x} of a loan", loan);
  if (ended->device && stream) {
    exchange_->TakeBack(std::move(ended->lent), *ended->device, *stream);
  }
}

}  // namespace hammock::plugins
