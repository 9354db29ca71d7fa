#include "optim/sparse_updates.h"

#include "base/throw.h"
#include "hammock/ops.h"
#include "ops/nn/optimizer_updates.h"

namespace hammock::optim {
namespace {

/// Different rows, in order. Where fewer are different than there are, zeros at the last row fill
/// the rest: nothing is read, and one compilation serves all batches.
struct DifferentRows {
  Tensor index, grad;
  Tensor counts;  ///< [rows, 1]: 0 for those that fill

  DifferentRows(const SparseTensor& sparse, bool maximize) {
    SparseTensor merged = sparse.coalesce(sparse.nnz());
    index = merged.indices().reshape({merged.nnz()});
    grad = maximize ? neg(merged.values()) : merged.values();
    if (sparse.nnz() == 0) return;
    Tensor changes =
        ne(index.narrow(0, 1, index.size(0) - 1), index.narrow(0, 0, index.size(0) - 1));
    Tensor fresh = cat({ones({1}, DType::kBool, index.device()), changes});
    counts = fresh.to(grad.dtype()).unsqueeze(1);
  }
};

/// A number of the optimiser in the dtype of `like`.
Tensor Number(const Tensor* number, const Tensor& like) { return number->to(like.dtype()); }

void UpdateSgd(const SparseTensor& grad, const Tensor& lr, bool maximize, Tensor& weight) {
  // Rows that occur several times are added as often.
  Tensor step = mul(grad.values(), lr.to(grad.dtype()));
  weight.index_add_(0, grad.indices().reshape({grad.nnz()}), step, maximize ? 1 : -1);
}

void UpdateAdagrad(const DifferentRows& rows, std::span<const Tensor* const> operands,
                   std::span<Tensor> updated) {
  const Tensor &lr = *operands[0], &step = *operands[1];
  Tensor rate = lr / (1.0 + (step - 1.0) * *operands[2]);
  updated[1].index_add_(0, rows.index, square(rows.grad));
  Tensor deviation = sqrt(updated[1].index_select(0, rows.index)) + Number(operands[3], rows.grad);
  updated[0].index_add_(0, rows.index, rows.grad / deviation * rate.to(rows.grad.dtype()), -1);
}

void UpdateAdam(const DifferentRows& rows, std::span<const Tensor* const> operands,
                std::span<Tensor> updated) {
  const Tensor &lr = *operands[0], &beta1 = *operands[1], &step = *operands[2],
               &beta2 = *operands[3];
  const Tensor& grad = rows.grad;
  auto moved = [&](Tensor& average, const Tensor& towards, const Tensor& beta) {
    Tensor before = average.index_select(0, rows.index);
    Tensor change = (towards - before) * (1.0 - beta).to(grad.dtype()) * rows.counts;
    average.index_add_(0, rows.index, change);
    return before + change;
  };
  Tensor mean = moved(updated[1], grad, beta1),
         square_mean = moved(updated[2], square(grad), beta2);
  Tensor rate = lr * sqrt(1.0 - pow(beta2, step)) / (1.0 - pow(beta1, step));
  Tensor change = mean / (sqrt(square_mean) + Number(operands[4], grad)) * rows.counts;
  updated[0].index_add_(0, rows.index, change * rate.to(grad.dtype()), -1);
}

}  // namespace

void UpdateRows(const OpDef& op, const SparseTensor& grad, std::span<const Tensor* const> operands,
                bool maximize, std::span<Tensor> updated) {
  if (&op == &ops::kSgdUpdate) return UpdateSgd(grad, *operands[0], maximize, updated[0]);
  DifferentRows rows(grad, maximize);
  if (grad.nnz() == 0) return;
  if (&op == &ops::kAdagradUpdate) return UpdateAdagrad(rows, operands, updated);
  HAMMOCK_CHECK(&op == &ops::kAdamUpdate, "{} has no form for rows", op.name());
  UpdateAdam(rows, operands, updated);
}

}  // namespace hammock::optim
