#pragma once
/// KeptInputs: the inputs of direct calls as data of Hammock. A tensor that comes again with the
/// same memory and version, as weights do in inference, is the same data, so that what the backend
/// has derived of it (packed weights) serves again.
///
/// Note [Versions]: writes through PyTorch's in-place ops raise a tensor's version, which its views
/// and `detach` share. Writes through `.data`, NumPy or raw pointers do not; data that the CPU
/// backend reads in place has the new values then, and what it derived before has not. So data with
/// derived forms is kept only while a checksum of all elements stays the same, which costs one read
/// of them a call and less than deriving anew. Memory of a card is not read: there the version
/// decides alone. `x.data` counts versions of its own from 0 on, so a tensor is the same only with
/// the same counter.

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <hammock/direct_call.h>

#include <mutex>
#include <vector>

namespace hammock_torch {

class CudaCall;

/// Of all elements of a tensor in host memory: another value of one of them surely changes it,
/// those of several but for one case in 2^32.
uint64_t ChecksumOf(const at::Tensor& tensor);

/// Thread-safe.
class KeptInputs {
 public:
  /// Appends data for each tensor in `inputs`, which have the given shapes in order. The data is
  /// valid as long as the tensors live.
  void Import(const hammock::DirectCall& call, CudaCall& cuda,
              const std::vector<hammock::Shape>& shapes, c10::ArrayRef<c10::IValue> inputs,
              std::vector<hammock::BackendDataPtr>& data);

 private:
  /// The input that was given last. The storage is not kept alive, but its address is not used
  /// again.
  struct Kept {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage{c10::intrusive_ptr<c10::StorageImpl>()};
    const void* memory = nullptr;
    std::vector<int64_t> strides;
    c10::VariableVersion counter;
    uint32_t version = 0;          ///< of the counter then
    hammock::BackendDataPtr data;  ///< null before it came a second time
    uint64_t checksum = 0;         ///< of the elements when `data` was made

    bool IsOf(const at::Tensor& tensor) const;
    void Become(const at::Tensor& tensor);
    /// Whether `data`, of that device, and what was derived of it have the tensor's values.
    bool IsFresh(const at::Tensor& tensor, const hammock::Device& device) const;
  };

  std::mutex mutex_;
  std::vector<Kept> kept_;
};

}  // namespace hammock_torch
