#include "engine/cuda_tensors.h"

#include <ATen/ATen.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <hammock/lazy/device_exchange.h>
#include <torch/version.h>

#include "engine/unsupported.h"
#include "engine/values.h"

namespace hammock_torch {

namespace {

// Streams have handles since PyTorch 2.11.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 11)
#define HAMMOCK_TORCH_STREAM_HANDLES 1
#else
#define HAMMOCK_TORCH_STREAM_HANDLES 0
#endif

uint64_t CurrentStream(const c10::Device& device) {
#if !HAMMOCK_TORCH_STREAM_HANDLES
  (void)device;
  throw Unsupported("streams of this version of PyTorch have no handle");
#else
  c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return reinterpret_cast<uint64_t>(stream.native_handle());
#endif
}

/// Memory that Hammock has lent, as a tensor keeps it. Users are on the stream that was current
/// when it was made, as of memory that PyTorch allocates, or on the one that is current when it
/// goes.
struct LentMemory {
  hammock::DirectCall call;
  hammock::lazy::DeviceExchange::Lent lent;
  uint64_t made_on;

  ~LentMemory() {
    try {
      uint64_t stream = CurrentStream(TorchDeviceOf(call.device()));
      if (stream != made_on) call.exchange()->ComeAfter(call.backend_device(), made_on);
      call.exchange()->TakeBack(std::move(lent), call.backend_device(), stream);
    } catch (const std::exception&) {
      // The card is lost, or the process ends: nobody uses the memory again.
    }
  }
};

}  // namespace

c10::Device TorchDeviceOf(const hammock::Device& device) {
  if (device.type() != "cuda") return c10::Device(c10::kCPU);
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(device.ordinal())};
}

bool IsCallable(const hammock::DirectCall& call) {
  if (!TorchDeviceOf(call.device()).is_cuda()) return true;
  return HAMMOCK_TORCH_STREAM_HANDLES && call.exchange() != nullptr;
}

// Also where all inputs are kept: their memory may have been written without a new version.
CudaCall::CudaCall(const hammock::DirectCall& call) : call_(call) {
  c10::Device device = TorchDeviceOf(call.device());
  if (!device.is_cuda()) return;
  stream_ = CurrentStream(device);
  call.exchange()->ComeAfter(call.backend_device(), *stream_);
}

at::Tensor CudaCall::Dense(const at::Tensor& tensor) {
  const auto alignment = static_cast<uintptr_t>(call_.exchange()->alignment());
  at::Tensor dense = tensor;
  if (tensor.is_conj() || tensor.is_neg()) {
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous();
  } else if (!tensor.is_contiguous()) {
    dense = tensor.detach().contiguous();
  } else if (reinterpret_cast<uintptr_t>(tensor.data_ptr()) % alignment != 0) {
    dense = tensor.detach().clone();
  }
  // The stream has been given the copy just now.
  if (!dense.is_same(tensor)) call_.exchange()->ComeAfter(call_.backend_device(), *stream_);
  return dense;
}

hammock::BackendDataPtr CudaCall::Borrow(const at::Tensor& dense, const hammock::Shape& shape,
                                         c10::Storage holder) {
  return call_.exchange()->Borrow(reinterpret_cast<uint64_t>(dense.data_ptr()), shape,
                                  call_.backend_device(), [holder = std::move(holder)] {});
}

void CudaCall::Finish() {
  if (!stream_) return;
  call_.exchange()->LetComeAfter(call_.backend_device(), *stream_);
  stream_.reset();
}

CudaCall::~CudaCall() {
  try {
    Finish();
  } catch (const std::exception&) {
    // The card is lost, which the call has told.
  }
}

at::Tensor CudaCall::Lend(hammock::BackendDataPtr data) {
  hammock::Shape shape = data->shape();
  auto lent = call_.exchange()->Lend(std::move(data));
  auto* memory = new LentMemory{call_, std::move(lent), *stream_};
  c10::DataPtr pointer(
      reinterpret_cast<void*>(memory->lent.memory), memory,
      [](void* held) { delete static_cast<LentMemory*>(held); }, TorchDeviceOf(call_.device()));
  return OverMemory(std::move(pointer), shape);
}

}  // namespace hammock_torch
