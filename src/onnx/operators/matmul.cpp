#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

Values MatMul(Call& c) { return {matmul(c[0], c[1])}; }

Values Gemm(Call& c) {
  Tensor a = c[0], b = c[1];
  if (c.Int("transA", 0)) a = a.t();
  if (c.Int("transB", 0)) b = b.t();
  double alpha = c.Float("alpha", 1), beta = c.Float("beta", 1);
  if (IsFloat(a.dtype()) && alpha == 1 && beta == 1 && c.Has(2)) {
    return {addmm(broadcast_to(c[2], {a.size(0), b.size(1)}), a, b)};
  }
  Tensor y = matmul(a, b);
  if (alpha != 1) y = (y * alpha).to(a.dtype());
  if (!c.Has(2)) return {y};
  Tensor bias = c[2];
  return {y + (beta == 1 ? bias : (bias * beta).to(a.dtype()))};
}

Values Einsum(Call& c) { return {einsum(c.Text("equation"), c.Tensors())}; }
Values Det(Call& c) { return {linalg_det(c[0])}; }

constexpr Operator kRows[] = {
    {"Det", 11, kNewestOpset, Det},
    {"Einsum", 12, kNewestOpset, Einsum},
    {"Gemm", 1, kNewestOpset, Gemm},
    {"MatMul", 1, kNewestOpset, MatMul},
};

}  // namespace

std::span<const Operator> MatmulOperators() { return kRows; }

}  // namespace hammock::onnx
