// Tensor methods of reduce.h, index.h, matmul.h, nn.h and shape.h: each forwards to the function of
// its name.

#include "hammock/ops/index.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/nn.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"

namespace hammock {

Tensor Tensor::sum(const Dims& dim, bool keepdim, std::optional<DType> dtype, Location at) const {
  return hammock::sum(*this, dim, keepdim, dtype, at);
}
Tensor Tensor::nansum(const Dims& dim, bool keepdim, std::optional<DType> dtype,
                      Location at) const {
  return hammock::nansum(*this, dim, keepdim, dtype, at);
}
Tensor Tensor::mean(const Dims& dim, bool keepdim, std::optional<DType> dtype, Location at) const {
  return hammock::mean(*this, dim, keepdim, dtype, at);
}
Tensor Tensor::nanmean(const Dims& dim, bool keepdim, std::optional<DType> dtype,
                       Location at) const {
  return hammock::nanmean(*this, dim, keepdim, dtype, at);
}
Tensor Tensor::prod(const Dims& dim, bool keepdim, std::optional<DType> dtype, Location at) const {
  return hammock::prod(*this, dim, keepdim, dtype, at);
}
Tensor Tensor::amax(const Dims& dim, bool keepdim, Location at) const {
  return hammock::amax(*this, dim, keepdim, at);
}
Tensor Tensor::amin(const Dims& dim, bool keepdim, Location at) const {
  return hammock::amin(*this, dim, keepdim, at);
}
Tensor Tensor::any(const Dims& dim, bool keepdim, Location at) const {
  return hammock::any(*this, dim, keepdim, at);
}
Tensor Tensor::all(const Dims& dim, bool keepdim, Location at) const {
  return hammock::all(*this, dim, keepdim, at);
}
Tensor Tensor::max(Location at) const { return hammock::max(*this, at); }
std::tuple<Tensor, Tensor> Tensor::max(int64_t dim, bool keepdim, Location at) const {
  return hammock::max(*this, dim, keepdim, at);
}
Tensor Tensor::min(Location at) const { return hammock::min(*this, at); }
std::tuple<Tensor, Tensor> Tensor::min(int64_t dim, bool keepdim, Location at) const {
  return hammock::min(*this, dim, keepdim, at);
}
Tensor Tensor::median(Location at) const { return hammock::median(*this, at); }
std::tuple<Tensor, Tensor> Tensor::median(int64_t dim, bool keepdim, Location at) const {
  return hammock::median(*this, dim, keepdim, at);
}
Tensor Tensor::argmax(std::optional<int64_t> dim, bool keepdim, Location at) const {
  return hammock::argmax(*this, dim, keepdim, at);
}
Tensor Tensor::argmin(std::optional<int64_t> dim, bool keepdim, Location at) const {
  return hammock::argmin(*this, dim, keepdim, at);
}
Tensor Tensor::count_nonzero(const Dims& dim, Location at) const {
  return hammock::count_nonzero(*this, dim, at);
}
Tensor Tensor::var(const Dims& dim, int64_t correction, bool keepdim, Location at) const {
  return hammock::var(*this, dim, correction, keepdim, at);
}
Tensor Tensor::std(const Dims& dim, int64_t correction, bool keepdim, Location at) const {
  return hammock::std(*this, dim, correction, keepdim, at);
}
Tensor Tensor::logsumexp(const Dims& dim, bool keepdim, Location at) const {
  return hammock::logsumexp(*this, dim, keepdim, at);
}
Tensor Tensor::trace(Location at) const { return hammock::trace(*this, at); }
Tensor Tensor::cumsum(int64_t dim, std::optional<DType> dtype, Location at) const {
  return hammock::cumsum(*this, dim, dtype, at);
}
Tensor Tensor::cumprod(int64_t dim, std::optional<DType> dtype, Location at) const {
  return hammock::cumprod(*this, dim, dtype, at);
}
bool Tensor::equal(const Tensor& other, Location at) const {
  return hammock::equal(*this, other, at);
}
bool Tensor::allclose(const Tensor& other, double rtol, double atol, bool equal_nan,
                      Location at) const {
  return hammock::allclose(*this, other, rtol, atol, equal_nan, at);
}
Tensor Tensor::gather(int64_t dim, const Tensor& index, Location at) const {
  return hammock::gather(*this, dim, index, at);
}
Tensor Tensor::scatter_add(int64_t dim, const Tensor& index, const Tensor& source,
                           Location at) const {
  return hammock::scatter_add(*this, dim, index, source, at);
}
Tensor Tensor::index_select(int64_t dim, const Tensor& index, Location at) const {
  return hammock::index_select(*this, dim, index, at);
}
Tensor Tensor::index_add(int64_t dim, const Tensor& index, const Tensor& source,
                         const Scalar& alpha, Location at) const {
  return hammock::index_add(*this, dim, index, source, alpha, at);
}
Tensor Tensor::take(const Tensor& index, Location at) const {
  return hammock::take(*this, index, at);
}
Tensor Tensor::masked_fill(const Tensor& mask, const TensorArg& value, Location at) const {
  return hammock::masked_fill(*this, mask, value, at);
}
Tensor Tensor::masked_select(const Tensor& mask, Location at) const {
  return hammock::masked_select(*this, mask, at);
}
Tensor Tensor::nonzero(Location at) const { return hammock::nonzero(*this, at); }
std::tuple<Tensor, Tensor> Tensor::topk(int64_t k, int64_t dim, bool largest, bool sorted,
                                        Location at) const {
  return hammock::topk(*this, k, dim, largest, sorted, at);
}
Tensor Tensor::norm(const Scalar& p, const Dims& dim, bool keepdim, Location at) const {
  return hammock::norm(*this, p, dim, keepdim, std::nullopt, at);
}
Tensor Tensor::scatter(int64_t dim, const Tensor& index, const TensorArg& source,
                       Location at) const {
  return hammock::scatter(*this, dim, index, source, "none", at);
}
std::tuple<Tensor, Tensor> Tensor::sort(int64_t dim, bool descending, Location at) const {
  return hammock::sort(*this, dim, descending, false, at);
}
Tensor Tensor::argsort(int64_t dim, bool descending, Location at) const {
  return hammock::argsort(*this, dim, descending, false, at);
}
Tensor& Tensor::scatter_(int64_t dim, const Tensor& index, const TensorArg& source, Location at) {
  return hammock::scatter_(*this, dim, index, source, "none", at);
}
Tensor& Tensor::scatter_add_(int64_t dim, const Tensor& index, const Tensor& source, Location at) {
  return hammock::scatter_add_(*this, dim, index, source, at);
}
Tensor& Tensor::index_add_(int64_t dim, const Tensor& index, const Tensor& source,
                           const Scalar& alpha, Location at) {
  return hammock::index_add_(*this, dim, index, source, alpha, at);
}
Tensor& Tensor::index_fill_(int64_t dim, const Tensor& index, const TensorArg& value, Location at) {
  return hammock::index_fill_(*this, dim, index, value, at);
}
Tensor& Tensor::masked_fill_(const Tensor& mask, const TensorArg& value, Location at) {
  return hammock::masked_fill_(*this, mask, value, at);
}
Tensor Tensor::matmul(const Tensor& other, Location at) const {
  return hammock::matmul(*this, other, at);
}
Tensor Tensor::mm(const Tensor& other, Location at) const { return hammock::mm(*this, other, at); }
Tensor Tensor::bmm(const Tensor& other, Location at) const {
  return hammock::bmm(*this, other, at);
}
Tensor Tensor::mv(const Tensor& other, Location at) const { return hammock::mv(*this, other, at); }
Tensor Tensor::dot(const Tensor& other, Location at) const {
  return hammock::dot(*this, other, at);
}
Tensor Tensor::outer(const Tensor& other, Location at) const {
  return hammock::outer(*this, other, at);
}
Tensor Tensor::inner(const Tensor& other, Location at) const {
  return hammock::inner(*this, other, at);
}
Tensor Tensor::softmax(int64_t dim, std::optional<DType> dtype, Location at) const {
  return hammock::softmax(*this, dim, dtype, at);
}
Tensor Tensor::log_softmax(int64_t dim, std::optional<DType> dtype, Location at) const {
  return hammock::log_softmax(*this, dim, dtype, at);
}
Tensor Tensor::repeat(const Dims& repeats, Location at) const {
  return hammock::repeat(*this, repeats, at);
}
Tensor Tensor::tile(const Dims& dims, Location at) const { return hammock::tile(*this, dims, at); }
Tensor Tensor::roll(const Dims& shifts, const Dims& dims, Location at) const {
  return hammock::roll(*this, shifts, dims, at);
}
Tensor Tensor::flip(const Dims& dims, Location at) const { return hammock::flip(*this, dims, at); }
Tensor Tensor::tril(int64_t diagonal, Location at) const {
  return hammock::tril(*this, diagonal, at);
}
Tensor Tensor::triu(int64_t diagonal, Location at) const {
  return hammock::triu(*this, diagonal, at);
}
Tensor Tensor::diag(int64_t diagonal, Location at) const {
  return hammock::diag(*this, diagonal, at);
}

}  // namespace hammock
