#include "engine/kept_inputs.h"

#include <bit>
#include <cstring>

#include "engine/cuda_tensors.h"
#include "engine/values.h"

namespace hammock_torch {

namespace {

const c10::VariableVersion& VersionOf(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->version_counter();
}

/// Of a handle of a counter, which PyTorch does not compare.
bool SameCounter(const c10::VariableVersion& a, const c10::VariableVersion& b) {
  static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof(a)) == 0;
}

bool MayBeKept(const at::Tensor& tensor) {
  return VersionOf(tensor).enabled() && !tensor.is_conj() && !tensor.is_neg();
}

#if defined(__x86_64__)
#define HAMMOCK_VECTOR_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define HAMMOCK_VECTOR_CLONES
#endif

/// Of 64 streams of words, each summed up by a bijection of its sum: no write of one word is
/// missed, of several in one stream one in 2^32, else one in 2^64.
HAMMOCK_VECTOR_CLONES uint64_t ChecksumOf(const char* bytes, size_t size) {
  using Lanes = uint32_t __attribute__((vector_size(64)));
  constexpr size_t kBlock = 4 * sizeof(Lanes);
  Lanes sums[4] = {};
  char rest[kBlock] = {};
  std::memcpy(rest, bytes + size - size % kBlock, size % kBlock);
  for (size_t at = 0; at <= size; at += kBlock) {
    const char* block = at + kBlock <= size ? bytes + at : rest;
    for (size_t i = 0; i < 4; ++i) {
      Lanes words;
      std::memcpy(&words, block + i * sizeof(Lanes), sizeof(Lanes));
      words ^= sums[i];
      sums[i] = ((words << 13) | (words >> 19)) * 0x9e3779b1u;
    }
  }
  uint64_t result = size;
  for (const Lanes& stream : sums) {
    for (size_t i = 0; i < sizeof(Lanes) / sizeof(uint32_t); ++i) {
      result = std::rotl(result ^ stream[i], 29) * 0x9e3779b97f4a7c15u;
    }
  }
  return result;
}

}  // namespace

uint64_t ChecksumOf(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || tensor.numel() == 0) return 0;
  int64_t elements = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) elements += (tensor.size(d) - 1) * tensor.stride(d);
  return ChecksumOf(static_cast<const char*>(tensor.data_ptr()),
                    static_cast<size_t>(elements) * tensor.itemsize());
}

bool KeptInputs::Kept::IsFresh(const at::Tensor& tensor, const hammock::Device& device) const {
  if (!data) return false;
  // Data without derived forms is fresh where it is read in place.
  bool in_place = tensor.is_contiguous() && device.type() == "cpu";
  return (in_place && data->derived_bytes() == 0) || checksum == ChecksumOf(tensor);
}

bool KeptInputs::Kept::IsOf(const at::Tensor& tensor) const {
  return storage._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
         memory == tensor.data_ptr() && tensor.strides() == strides &&
         SameCounter(counter, VersionOf(tensor)) && version == VersionOf(tensor).current_version();
}

void KeptInputs::Kept::Become(const at::Tensor& tensor) {
  storage = tensor.storage().getWeakStorageImpl();
  memory = tensor.data_ptr();
  strides = tensor.strides().vec();
  counter = VersionOf(tensor);
  version = counter.current_version();
  data = nullptr;
}

void KeptInputs::Import(const hammock::DirectCall& call, CudaCall& cuda,
                        const std::vector<hammock::Shape>& shapes,
                        c10::ArrayRef<c10::IValue> inputs,
                        std::vector<hammock::BackendDataPtr>& data) {
  std::lock_guard lock(mutex_);
  kept_.resize(shapes.size());
  size_t next = 0;
  for (const c10::IValue& input : inputs) {
    if (!input.isTensor() || !input.toTensor().defined()) continue;
    const at::Tensor& tensor = input.toTensor();
    Kept& kept = kept_[next];
    const hammock::Shape& shape = shapes[next++];
    const bool again = MayBeKept(tensor) && kept.IsOf(tensor);
    if (again && kept.IsFresh(tensor, call.device())) {
      data.push_back(kept.data);
      continue;
    }
    const bool on_card = tensor.is_cuda() && tensor.numel() > 0;
    at::Tensor dense = on_card ? cuda.Dense(tensor) : Dense(tensor);
    // The caller holds the tensor while the data is used, also in later calls; a copy is ours.
    bool own = dense.is_same(tensor);
    c10::Storage holder = again && own ? c10::Storage() : dense.storage();
    data.push_back(on_card ? cuda.Borrow(dense, shape, std::move(holder))
                           : call.Import(Borrowed(dense, shape, std::move(holder))));
    if (again) {
      kept.data = data.back();
      kept.checksum = ChecksumOf(tensor);
    } else if (MayBeKept(tensor)) {
      kept.Become(tensor);
    }
  }
}

}  // namespace hammock_torch
