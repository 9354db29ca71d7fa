#include "engine/kept_inputs.h"

#include <algorithm>
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

/// The bits of elements from the first to the last of a tensor in host memory.
std::array<uint64_t, 4> SomeElements(const at::Tensor& tensor) {
  std::array<uint64_t, 4> elements = {};
  if (!tensor.is_cpu() || tensor.numel() == 0) return elements;
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto width = static_cast<int64_t>(tensor.itemsize());
  for (int64_t i = 0; i < 4; ++i) {
    const char* element = static_cast<const char*>(tensor.data_ptr()) + last * i / 3 * width;
    std::memcpy(&elements[static_cast<size_t>(i)], element,
                static_cast<size_t>(std::min<int64_t>(width, sizeof(uint64_t))));
  }
  return elements;
}

bool MayBeKept(const at::Tensor& tensor) {
  return VersionOf(tensor).enabled() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

bool KeptInputs::Kept::IsOf(const at::Tensor& tensor) const {
  return storage._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
         memory == tensor.data_ptr() && tensor.strides() == strides &&
         SameCounter(counter, VersionOf(tensor)) &&
         version == VersionOf(tensor).current_version() && elements == SomeElements(tensor);
}

void KeptInputs::Kept::Become(const at::Tensor& tensor) {
  storage = tensor.storage().getWeakStorageImpl();
  memory = tensor.data_ptr();
  strides = tensor.strides().vec();
  counter = VersionOf(tensor);
  version = counter.current_version();
  elements = SomeElements(tensor);
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
    if (again && kept.data) {
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
    } else if (MayBeKept(tensor)) {
      kept.Become(tensor);
    }
  }
}

}  // namespace hammock_torch
