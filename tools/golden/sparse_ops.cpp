// Functions on sparse tensors as ops of dense ones, since a suite has arrays and names of ops.

#include "hammock/op_builder.h"
#include "hammock/sparse.h"

namespace hammock::golden {
namespace {

Tensor Mm(const Tensor& a, const Tensor& b) { return sparse::mm(to_sparse(a), b); }
Tensor CsrMm(const Tensor& a, const Tensor& b) { return sparse::mm(to_sparse_csr(a), b); }
Tensor Addmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
             const Scalar& alpha) {
  return sparse::addmm(self, to_sparse(a), b, beta, alpha);
}
Tensor SampledAddmm(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta,
                    const Scalar& alpha) {
  return sparse::sampled_addmm(to_sparse_csr(self), a, b, beta, alpha).to_dense();
}
Tensor Sum(const Tensor& self, const Dims& dims) {
  return dims.empty() ? sparse::sum(to_sparse(self))
                      : sparse::sum(to_sparse(self), dims).to_dense();
}
Tensor Softmax(const Tensor& self, int64_t dim) {
  return sparse::softmax(to_sparse(self), dim).to_dense();
}
Tensor LogSoftmax(const Tensor& self, int64_t dim) {
  return sparse::log_softmax(to_sparse(self), dim).to_dense();
}

constinit const OpDef kOps[] = {
    {.schema = "sparse_mm(Tensor a, Tensor b) -> Tensor", .doc = "COO.", .call = Box<Mm>},
    {.schema = "sparse_csr_mm(Tensor a, Tensor b) -> Tensor", .doc = "CSR.", .call = Box<CsrMm>},
    {.schema = "sparse_addmm(Tensor self, Tensor a, Tensor b, *, Scalar beta=1, Scalar alpha=1) -> "
               "Tensor",
     .doc = "COO.",
     .call = Box<Addmm>},
    {.schema = "sparse_sampled_addmm(Tensor self, Tensor a, Tensor b, *, Scalar beta=1, Scalar "
               "alpha=1) -> Tensor",
     .doc = "CSR.",
     .call = Box<SampledAddmm>},
    {.schema = "sparse_sum(Tensor self, int[] dim=[]) -> Tensor", .doc = "COO.", .call = Box<Sum>},
    {.schema = "sparse_softmax(Tensor self, int dim) -> Tensor",
     .doc = "COO.",
     .call = Box<Softmax>},
    {.schema = "sparse_log_softmax(Tensor self, int dim) -> Tensor",
     .doc = "COO.",
     .call = Box<LogSoftmax>},
};
const bool registered = [] {
  for (const OpDef& op : kOps) op_registry::Register(op);
  return true;
}();

}  // namespace
}  // namespace hammock::golden
