#pragma once
/// Adaptors: the ops of PyTorch that no record of Hammock matches by name and arguments, each a
/// function in Hammock's tensor ops. They are kept in tables, one for each family, and know nothing
/// of PyTorch's headers but where they draw random numbers.

#include <hammock/ir/any.h>
#include <hammock/ir/op_def.h>
#include <hammock/tensor.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/unsupported.h"

namespace hammock_torch {

/// The arguments of a call, by position in PyTorch's schema.
class AtenCall {
 public:
  AtenCall(const std::vector<std::string>& names, const std::vector<hammock::Any>& values)
      : names_(names), values_(values) {}

  size_t size() const { return values_.size(); }
  const hammock::Any& operator[](size_t i) const { return values_.at(i); }
  const hammock::Tensor& tensor(size_t i) const { return values_.at(i).ToTensor(); }
  /// Undefined where the argument is none.
  hammock::Tensor maybe_tensor(size_t i) const {
    return values_.at(i).IsNone() ? hammock::Tensor() : tensor(i);
  }
  std::vector<hammock::Tensor> tensors(size_t i) const;
  int64_t integer(size_t i) const { return values_.at(i).ToInt(); }
  double real(size_t i) const { return values_.at(i).ToDouble(); }
  hammock::Scalar number(size_t i) const { return values_.at(i).ToScalar(); }
  bool flag(size_t i) const { return !none(i) && values_.at(i).ToBool(); }
  bool none(size_t i) const { return values_.at(i).IsNone(); }
  std::vector<int64_t> ints(size_t i) const;
  /// A list of `rank` numbers where PyTorch allows one to stand for all.
  hammock::Dims dims(size_t i, int rank) const;
  /// A dtype, which PyTorch boxes as an integer; `otherwise` where it is none.
  hammock::DType dtype(size_t i, hammock::DType otherwise) const;
  /// The index of an argument by name, or -1.
  int find(std::string_view name) const;

 private:
  const std::vector<std::string>& names_;  ///< of the arguments
  const std::vector<hammock::Any>& values_;
};

using Adaptor = hammock::Any (*)(const AtenCall&);

struct AdaptorEntry {
  const char* name;  ///< "view" for all overloads, "view.dtype" for one, "prims::x" of others
  Adaptor call;
};

std::span<const AdaptorEntry> ShapeAdaptors();
std::span<const AdaptorEntry> MathAdaptors();
std::span<const AdaptorEntry> NnAdaptors();
std::span<const AdaptorEntry> ActivationGradAdaptors();
std::span<const AdaptorEntry> NnGradAdaptors();
std::span<const AdaptorEntry> LossAdaptors();
std::span<const AdaptorEntry> AttentionAdaptors();
std::span<const AdaptorEntry> RandomAdaptors();

/// Null if there is none.
Adaptor FindAdaptor(std::string_view name);

// ---- For writers of adaptors

/// Of a dtype as PyTorch boxes it, and back.
hammock::DType DTypeOfNumber(int64_t scalar_type);
int64_t NumberOfDType(hammock::DType dtype);
/// "none", "mean" or "sum", which PyTorch boxes as 0, 1 and 2.
std::string ReductionName(int64_t reduction);
/// A loss of each element, reduced.
hammock::Tensor Reduced(const hammock::Tensor& losses, int64_t reduction);
/// The gradient of a loss of each element: `grad` spread over the elements.
hammock::Tensor SpreadGrad(const hammock::Tensor& grad, const hammock::Tensor& like,
                           int64_t reduction);

/// The gradients of `fn(inputs)` given that of its result. What `fn` computes and the gradients do
/// not read is never run.
std::vector<hammock::Tensor> GradsOf(
    const std::function<hammock::Tensor(const std::vector<hammock::Tensor>&)>& fn,
    const std::vector<hammock::Tensor>& inputs, const hammock::Tensor& grad);

/// The gradients by a record's own `vjp`, with results that PyTorch kept from the forward pass
/// instead of results that are computed again.
std::vector<hammock::Tensor> RecordGrads(const char* record, std::vector<hammock::Tensor> operands,
                                         std::vector<hammock::Tensor> results,
                                         std::vector<hammock::Attr> attrs,
                                         const hammock::Tensor& grad,
                                         const std::vector<uint8_t>& needed);

/// Undefined gradients as none.
hammock::Any TupleOf(const std::vector<hammock::Tensor>& tensors);

}  // namespace hammock_torch
