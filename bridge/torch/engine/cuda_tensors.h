#pragma once
/// Tensors on CUDA devices as data of Hammock's CUDA backend and back, in place, in the order of
/// PyTorch's current stream. Hammock uses the card's primary context, as PyTorch does.

#include <ATen/core/Tensor.h>
#include <hammock/direct_call.h>

#include <optional>

namespace hammock_torch {

/// Where PyTorch has the tensors of a device of Hammock: "cuda:1" is PyTorch's, all others compute
/// on tensors of the CPU.
c10::Device TorchDeviceOf(const hammock::Device& device);

/// Whether a call can take and return PyTorch's tensors of its device.
bool IsCallable(const hammock::DirectCall& call);

/// One call. The calling thread's work comes after that of PyTorch's current stream; from Finish
/// on, the stream's work comes after the call. Nothing of it happens on devices other than CUDA's.
class CudaCall {
 public:
  explicit CudaCall(const hammock::DirectCall& call);
  ~CudaCall();  ///< finishes it, so that inputs may be freed also where the call has failed
  CudaCall(const CudaCall&) = delete;
  CudaCall& operator=(const CudaCall&) = delete;

  /// The tensor itself where it is row-major and lies where Hammock can read it, else a copy on
  /// the card.
  at::Tensor Dense(const at::Tensor& tensor);
  /// Of a dense tensor, whose memory `holder` keeps alive.
  hammock::BackendDataPtr Borrow(const at::Tensor& dense, const hammock::Shape& shape,
                                 c10::Storage holder);
  /// A tensor that is the only user of its memory.
  at::Tensor Lend(hammock::BackendDataPtr data);
  void Finish();

 private:
  const hammock::DirectCall& call_;
  std::optional<uint64_t> stream_;  ///< PyTorch's, until the call has finished
};

}  // namespace hammock_torch
