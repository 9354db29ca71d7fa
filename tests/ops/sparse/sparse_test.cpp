#include "hammock/sparse.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "hammock/autograd.h"
#include "hammock/error.h"
#include "hammock/testing.h"
#include "ops/expect.h"

namespace hammock {
namespace {

/// Elements without a pattern.
Tensor Sample(const Dims& sizes, DType dtype = f64, const Device& device = Device()) {
  Tensor x = to(arange(Shape(f64, sizes).numel()), f64);
  return to(to(reshape(sin(x * x * 0.7 + 0.3) * 2, sizes), dtype), device);
}

bool Close(const Tensor& a, const Tensor& b, double tolerance = 1e-10) {
  if (a.sizes() != b.sizes()) return false;
  return a.numel() == 0 ||
         max(abs(to(a, f64) - to(to(b, a.device()), f64))).item<double>() <= tolerance;
}

/// A matrix of which about two of three elements are zero.
Tensor Holes(const Dims& sizes, DType dtype = f64, const Device& device = Device()) {
  Tensor x = Sample(sizes, dtype, device);
  return where(gt(abs(x), 1.5), x, 0.0);
}

class OnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  Device device() const { return Device(GetParam()); }
};
/// The GPU where the environment asks for it, emulated or not.
std::vector<const char*> Devices() {
  const char* device = std::getenv("HAMMOCK_DEVICE");
  if (device && std::string_view(device) == "cuda") return {"cuda"};
  return {"reference", "cpu"};
}
INSTANTIATE_TEST_SUITE_P(Sparse, OnDevice, ::testing::ValuesIn(Devices()),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OnDevice, ConversionsKeepTheElements) {
  Tensor x = Holes({5, 7}, f32, device());
  SparseTensor coo = to_sparse(x), csr = to_sparse_csr(x);
  EXPECT_TRUE(coo.is_coalesced());
  EXPECT_EQ(coo.nnz(), csr.nnz());
  EXPECT_EQ(coo.summary(), "sparse_coo f32[5,7] of " + std::to_string(coo.nnz()) + " elements on " +
                               device().to_string());
  EXPECT_TRUE(Close(coo.to_dense(), x, 0));
  EXPECT_TRUE(Close(csr.to_dense(), x, 0));
  EXPECT_TRUE(Close(csr.to_sparse_coo().to_dense(), x, 0));
  EXPECT_TRUE(Close(coo.t().to_sparse_csr().to_dense(), transpose(x, 0, 1), 0));
  EXPECT_TRUE(Close(csr.t().to_dense(), transpose(x, 0, 1), 0));
  EXPECT_EQ(csr.crow_indices().sizes(), Dims{6});
  // A given number of elements reads nothing; the rest are zeros.
  SparseTensor padded = to_sparse(x, 30);
  EXPECT_EQ(padded.nnz(), 30);
  EXPECT_TRUE(Close(padded.to_dense(), x, 0));
  EXPECT_TRUE(Close(padded.to_sparse_csr().to_dense(), x, 0));
  EXPECT_ERROR(to_sparse(x, 2).to_dense().host(), Error, "more elements than max_nnz");
  EXPECT_TRUE(Close(to_sparse(zeros({3, 2}, f32, device())).to_dense(), zeros({3, 2}), 0));
}

TEST_P(OnDevice, CoalesceSumsEqualIndices) {
  Tensor indices = tensor({{1, 0, 1, 2, 1}, {0, 1, 0, 2, 1}}, i64, device());
  Tensor values = tensor({1.0, 2.0, 3.0, 4.0, 5.0}, f64, device());
  SparseTensor s = sparse_coo_tensor(indices, values, {3, 3});
  EXPECT_FALSE(s.is_coalesced());
  SparseTensor c = s.coalesce();
  EXPECT_EQ(c.nnz(), 4);
  EXPECT_TRUE(c.is_coalesced());
  EXPECT_TENSOR(c.indices(), Type(i64, {2, 4}), {0, 1, 1, 2, 1, 0, 1, 2});
  EXPECT_TENSOR(c.values(), Type(f64, {4}), {2, 4, 5, 4});
  SparseTensor padded = s.coalesce(6);
  EXPECT_TENSOR(padded.values(), Type(f64, {6}), {2, 4, 5, 4, 0, 0});
  EXPECT_TENSOR(padded.indices(), Type(i64, {2, 6}), {0, 1, 1, 2, 2, 2, 1, 0, 1, 2, 2, 2});
  EXPECT_ERROR(s.coalesce(3).values().host(), Error, "more elements than max_nnz");
  // Values with dims of their own; sizes from the indices.
  SparseTensor wide =
      sparse_coo_tensor(tensor({{2, 0, 2}}, i64, device()), Sample({3, 2}, f64, device()));
  EXPECT_EQ(wide.sizes(), (Dims{3, 2}));
  EXPECT_EQ(wide.dense_dim(), 1);
  EXPECT_TRUE(Close(wide.coalesce().to_dense(), wide.to_dense()));
}

TEST_P(OnDevice, MatmulsAreThoseOfDenseMatrices) {
  for (DType dtype : {f32, f64}) {
    double tolerance = dtype == f32 ? 1e-4 : 1e-12;
    for (int64_t width : {1, 3, 16, 75}) {
      Tensor a = Holes({6, 9}, dtype, device());
      Tensor x = Sample({9, width}, dtype, device()), left = Sample({width, 6}, dtype, device());
      SparseTensor coo = to_sparse(a), shuffled = coo.t().coalesce().t();
      for (const SparseTensor& s : {coo, to_sparse_csr(a), shuffled}) {
        EXPECT_TRUE(Close(sparse::mm(s, x), matmul(a, x), tolerance)) << s.summary();
        EXPECT_TRUE(Close(sparse::mm(left, s), matmul(left, a), tolerance)) << s.summary();
      }
      EXPECT_TRUE(Close(sparse::mm(coo, select(x, 1, 0)), mv(a, select(x, 1, 0)), tolerance));
      Tensor self = Sample({6, width}, dtype, device());
      EXPECT_TRUE(
          Close(sparse::addmm(self, coo, x, 0.5, 2), self * 0.5 + matmul(a, x) * 2, tolerance));
    }
  }
}

TEST_P(OnDevice, ProductsOfTwoSparseMatricesAreSparse) {
  Tensor a = Holes({6, 9}, f64, device()), b = transpose(Holes({7, 9}, f64, device()), 0, 1);
  SparseTensor left = to_sparse(a), right = to_sparse(b);
  SparseTensor twice = sparse::add(left, left), shuffled = right.t().coalesce().t();
  for (const SparseTensor& s : {left, left.to_sparse_csr()}) {
    for (const SparseTensor& t : {right, right.to_sparse_csr(), shuffled}) {
      SparseTensor product = sparse::mm(s, t);
      EXPECT_EQ(product.layout(), s.layout());
      EXPECT_EQ(product.sizes(), (Dims{6, 7}));
      EXPECT_TRUE(Close(product.to_dense(), matmul(a, b))) << s.summary() << t.summary();
    }
  }
  SparseTensor product = sparse::mm(twice, right);  // elements of equal indices
  EXPECT_TRUE(product.is_coalesced());
  EXPECT_TRUE(Close(product.to_dense(), matmul(a, b) * 2));
  EXPECT_LE(product.nnz(), 42);
  TensorsFn products = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {sparse::mm(left.with_values(in[0]), right.with_values(in[1])).values()};
  };
  std::vector<Tensor> in = {left.values(), right.values()};
  EXPECT_EQ(testing::Gradcheck(products, in), "");
  EXPECT_EQ(testing::Gradgradcheck(products, in), "");
}

TEST_P(OnDevice, BatchesOfMatrices) {
  // Two matrices of 3 x 4 with 4 elements each.
  Tensor crow = tensor({{0, 2, 2, 4}, {0, 1, 3, 4}}, i32, device());
  Tensor col = tensor({{0, 3, 1, 2}, {1, 0, 2, 3}}, i32, device());
  SparseTensor s = sparse_csr_tensor(crow, col, Sample({2, 4}, f64, device()), {2, 3, 4});
  Tensor dense = s.to_dense(), x = Sample({2, 4, 5}, f64, device());
  EXPECT_EQ(dense.sizes(), (Dims{2, 3, 4}));
  EXPECT_TRUE(Close(sparse::mm(s, x), matmul(dense, x)));
  EXPECT_TRUE(Close(sparse::mm(transpose(x, 1, 2).narrow(2, 0, 3), s),
                    matmul(transpose(x, 1, 2).narrow(2, 0, 3), dense)));
  EXPECT_TRUE(Close(s.to_sparse_coo().to_dense(), dense));
  EXPECT_TRUE(Close(sparse::mul(s, x.narrow(1, 0, 3).narrow(2, 0, 4)).to_dense(),
                    dense * x.narrow(1, 0, 3).narrow(2, 0, 4)));
  Tensor scores = where(ne(dense, 0.0), dense, -kInf);
  EXPECT_TRUE(Close(sparse::softmax(s, -1).to_dense(), nan_to_num(softmax(scores, -1), 0.0)));
  // Four dims: batches in one.
  SparseTensor four = sparse_csr_tensor(crow.reshape({1, 2, 4}), col.reshape({1, 2, 4}),
                                        s.values().reshape({1, 2, 4}), {1, 2, 3, 4});
  EXPECT_TRUE(
      Close(sparse::mm(four, x.reshape({1, 2, 4, 5})), matmul(dense, x).reshape({1, 2, 3, 5})));
}

TEST_P(OnDevice, ArithmeticWithDenseTensors) {
  Tensor a = Holes({4, 5}, f64, device()), b = Sample({4, 5}, f64, device()),
         row = Sample({5}, f64, device());
  for (const SparseTensor& s : {to_sparse(a), to_sparse_csr(a)}) {
    EXPECT_TRUE(Close(sparse::mul(s, b).to_dense(), a * b));
    EXPECT_TRUE(Close(sparse::mul(s, row).to_dense(), a * row));
    EXPECT_TRUE(Close(sparse::div(s, b).to_dense(), a / b));
    EXPECT_TRUE(Close(sparse::mul(s, 3).to_dense(), a * 3));
    EXPECT_TRUE(Close(sparse::div(s, 4).to_dense(), a / 4));
    EXPECT_TRUE(Close(sparse::add(b, s, 2), b + a * 2));
    EXPECT_TRUE(Close(sparse::sum(s), sum(a)));
    EXPECT_TRUE(Close(sparse::sum(s, {0}).to_dense(), sum(a, {0})));
    EXPECT_TRUE(Close(sparse::sum(s, {-1}).to_dense(), sum(a, {1})));
    EXPECT_TRUE(Close(sparse::mask(b, s).to_dense(), b * ne(a, 0.0)));
    EXPECT_TRUE(Close(s.with_values(relu(s.values())).to_dense(), relu(a)));
    Tensor x = Sample({4, 3}, f64, device()), y = Sample({3, 5}, f64, device());
    EXPECT_TRUE(Close(sparse::sampled_addmm(s, x, y, 0.5, 2).to_dense(),
                      (a * 0.5 + matmul(x, y) * 2) * ne(a, 0.0)));
  }
  SparseTensor s = to_sparse(a);
  EXPECT_TRUE(Close(sparse::add(s, s.with_values(s.values() * 2)).coalesce().to_dense(), a * 3));
}

TEST_P(OnDevice, SoftmaxIsThatOfTheElements) {
  Tensor a = Holes({5, 6}, f64, device());
  Tensor scores = where(ne(a, 0.0), a, -kInf);
  for (int dim : {0, 1}) {
    Tensor dense = nan_to_num(softmax(scores, dim), 0.0);
    EXPECT_TRUE(Close(sparse::softmax(to_sparse(a), dim).to_dense(), dense)) << dim;
    Tensor logarithm = where(ne(a, 0.0), log_softmax(scores, dim), 0.0);
    EXPECT_TRUE(Close(sparse::log_softmax(to_sparse(a), dim).to_dense(), logarithm)) << dim;
  }
  EXPECT_TRUE(
      Close(sparse::softmax(to_sparse_csr(a), 1).to_dense(), nan_to_num(softmax(scores, 1), 0.0)));
  EXPECT_ERROR(sparse::softmax(to_sparse_csr(a), 0), ValueError,
               "rows, the last dim, are possible");
}

TEST_P(OnDevice, GradientsOfBothOperandsToSecondOrder) {
  Tensor pattern = Holes({4, 5}, f64, device());
  SparseTensor coo = to_sparse(pattern), csr = to_sparse_csr(pattern),
               shuffled = coo.t().coalesce().t();
  for (const SparseTensor& s : {coo, csr, shuffled}) {
    TensorsFn products = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      SparseTensor a = s.with_values(in[0]);
      return {sparse::mm(a, in[1]), sparse::mm(in[2], a),
              sparse::sampled_addmm(a, in[2].t(), in[1].t()).values()};
    };
    std::vector<Tensor> in = {s.values(), Sample({5, 3}, f64, device()),
                              Sample({3, 4}, f64, device())};
    EXPECT_EQ(testing::Gradcheck(products, in), "") << s.summary();
    EXPECT_EQ(testing::Gradgradcheck(products, in), "") << s.summary();
    TensorsFn others = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      SparseTensor a = s.with_values(in[0]);
      return {sparse::softmax(a, 1).values(),
              sparse::log_softmax(a, 1).values(),
              a.to_dense(),
              sparse::mul(a, in[1]).values(),
              sparse::add(in[1], a),
              sparse::sum(a, {0}).to_dense()};
    };
    EXPECT_EQ(testing::Gradcheck(others, {s.values(), Sample({4, 5}, f64, device())}), "")
        << s.summary();
  }
  TensorsFn merged = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    SparseTensor a =
        sparse_coo_tensor(tensor({{1, 0, 1}, {2, 0, 2}}, i64, device()), in[0], Dims{2, 3});
    return {a.coalesce(3).values(), a.to_sparse_csr().to_dense()};
  };
  EXPECT_EQ(testing::Gradcheck(merged, {Sample({3}, f64, device())}), "");
}

TEST_P(OnDevice, ComplexNumbersAndNarrowFloats) {
  Tensor a = Holes({4, 5}, f64, device());
  SparseTensor s = to_sparse(a);
  Tensor z = complex(s.values(), s.values() * 0.5),
         x = complex(Sample({5, 2}, f64, device()), Sample({5, 2}, f64, device()) + 1);
  EXPECT_TRUE(Close(view_as_real(sparse::mm(s.with_values(z), x)),
                    view_as_real(matmul(s.with_values(z).to_dense(), x))));
  TensorsFn product = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {sparse::mm(s.with_values(in[0]), in[1])};
  };
  EXPECT_EQ(testing::Gradcheck(product, {z, x}), "");
  Tensor narrow = to(Sample({5, 4}, f32, device()), bf16);
  EXPECT_TRUE(Close(sparse::mm(s.to(bf16), narrow), matmul(to(a, bf16), narrow), 0.05));
}

TEST_P(OnDevice, EmptyAndWithoutElements) {
  SparseTensor none =
      sparse_coo_tensor(zeros({2, 0}, i64, device()), zeros({0}, f32, device()), Dims{3, 4});
  EXPECT_TRUE(Close(sparse::mm(none, ones({4, 2}, f32, device())), zeros({3, 2}), 0));
  EXPECT_TRUE(Close(none.coalesce().to_sparse_csr().to_dense(), zeros({3, 4}), 0));
  EXPECT_TRUE(
      Close(sparse::mm(none.to_sparse_csr(), ones({4, 2}, f32, device())), zeros({3, 2}), 0));
  EXPECT_TRUE(Close(sparse::softmax(none, 1).to_dense(), zeros({3, 4}), 0));
  EXPECT_TRUE(Close(sparse::add(ones({3, 4}, f32, device()), none), ones({3, 4}), 0));
  EXPECT_EQ(sparse::mm(none, zeros({4, 0}, f32, device())).sizes(), (Dims{3, 0}));
  EXPECT_EQ(sparse::mm(none, to_sparse(ones({4, 2}, f32, device()))).nnz(), 0);
  SparseTensor first = sparse_coo_tensor(zeros({2, 1}, i64, device()), ones({1}, f32, device()),
                                         Dims{3, 3});  // meets an empty row
  SparseTensor last =
      sparse_coo_tensor(full({2, 1}, 2, i64, device()), ones({1}, f32, device()), Dims{3, 3});
  EXPECT_TRUE(Close(sparse::mm(first, last).to_dense(), zeros({3, 3}), 0));
  EXPECT_TRUE(Close(sparse::mm(first.to_sparse_csr(), last).to_dense(), zeros({3, 3}), 0));
}

TEST_P(OnDevice, BadIndicesRaiseWithTheLine) {
  Tensor values = ones({2}, f32, device()), x = ones({3, 2}, f32, device());
  for (int64_t bad : {3, -1}) {
    SparseTensor s = sparse_coo_tensor(
        stack({tensor({0, 1}, i64, device()), full({2}, bad, i64, device())}), values, Dims{2, 3});
    EXPECT_ERROR(sparse::mm(s, x).host(), Error, "sparse_coo_tensor: an index is not in the range");
    EXPECT_ERROR(s.to_dense().host(), Error, "sparse_test.cpp");
    SparseTensor csr = sparse_csr_tensor(tensor({0, 1, 2}, i64, device()),
                                         full({2}, bad, i64, device()), values, {2, 3});
    EXPECT_ERROR(sparse::mm(csr, x).host(), Error,
                 "sparse_csr_tensor: a column is not in the range");
  }
  auto rows = [&](const Tensor& crow) {
    return sparse::mm(sparse_csr_tensor(crow, zeros({2}, i64, device()), values, {2, 3}), x);
  };
  EXPECT_ERROR(rows(tensor({0, 1, 3}, i64, device())).host(), Error,
               "end with the number of elements");
  EXPECT_ERROR(rows(tensor({1, 1, 2}, i64, device())).host(), Error, "begin with 0");
  SparseTensor falling = sparse_csr_tensor(tensor({0, 2, 1, 2}, i64, device()),
                                           zeros({2}, i64, device()), values, {3, 3});
  EXPECT_ERROR(sparse::mm(falling, x).host(), Error, "must not decrease");
}

TEST(Sparse, WrongArgumentsAreRefused) {
  Tensor values = ones({2});
  EXPECT_ERROR(sparse_coo_tensor(ones({2, 2}), values, Dims{2, 3}), TypeError,
               "indices are i64 or i32");
  EXPECT_ERROR(sparse_coo_tensor(zeros({2, 3}, i64), values, Dims{2, 3}), ValueError,
               "needs indices of");
  EXPECT_ERROR(sparse_coo_tensor(zeros({2, 2}, i64), values, Dims{2, 3, 4}), ValueError,
               "do not fit");
  EXPECT_ERROR(sparse_coo_tensor(zeros({2, 0}, i64), zeros({0})), ValueError, "give the sizes");
  EXPECT_ERROR(sparse_csr_tensor(zeros({2}, i64), zeros({2}, i64), values, {2, 3}), ValueError,
               "rows + 1");
  SparseTensor s = sparse_coo_tensor(zeros({2, 2}, i64), values, Dims{2, 3});
  EXPECT_ERROR(s.crow_indices(), ValueError, "crow_indices: needs CSR, got sparse_coo f32[2,3]");
  EXPECT_ERROR(sparse::mm(s, ones({2, 3})), ValueError, "need 3 == 2");
  EXPECT_ERROR(sparse::mm(s, ones({3, 2}, f64)), TypeError, "dtypes differ");
  EXPECT_ERROR(sparse::mm(s, s), ValueError, "need 3 == 2");
  EXPECT_ERROR(sparse::mm(s, s.t().to(f64)), TypeError, "dtypes differ");
  EXPECT_ERROR(sparse::sum(s, {0, 1}), ValueError, "the sum is dense");
  EXPECT_ERROR(s.with_values(ones({3})), ValueError, "with_values");
  EXPECT_ERROR(s.coalesce(-1), ValueError, "must not be negative");
}

TEST(Sparse, OneCompilationForAllValuesAndIndices) {
  auto product = [](int shift) {
    Tensor indices = stack({(arange(6) + shift) % 4, (arange(6) * 2 + shift) % 5});
    SparseTensor s = sparse_coo_tensor(indices, Sample({6}, f32) + shift, Dims{4, 5});
    return sparse::mm(s.coalesce(6), Sample({5, 3}, f32)).host();
  };
  product(0);
  int64_t before = Compiles();
  for (int shift : {1, 2, 3}) product(shift);
  EXPECT_EQ(Compiles(), before);
}

TEST(Sparse, EmbeddingsKeepTheRowsThatWereUsed) {
  Tensor weight = Sample({6, 3}).requires_grad_();
  Tensor input = tensor({{1, 4}, {1, 0}});
  Tensor scale = Sample({2, 2, 3});
  sum(sparse::embedding(input, weight) * scale).backward();
  EXPECT_FALSE(weight.grad().defined());
  SparseTensor grad = *sparse::grad(weight);
  EXPECT_EQ(grad.nnz(), 4);
  Tensor own = weight.detach().clone().requires_grad_();
  sum(embedding(input, own) * scale).backward();
  EXPECT_TRUE(Close(grad.to_dense(), own.grad()));
  sum(sparse::embedding(input, weight, 1) * scale).backward();  // adds; row 1 is padding
  EXPECT_EQ(sparse::grad(weight)->nnz(), 8);
  EXPECT_TRUE(Close(sparse::grad(weight)->to_dense()[4], own.grad()[4] * 2));
  EXPECT_TRUE(Close(sparse::grad(weight)->to_dense()[1], own.grad()[1]));
  sparse::clear_grad(weight);
  EXPECT_FALSE(sparse::grad(weight));
  EXPECT_ERROR(sparse::embedding(tensor({7}), weight).host(), Error, "out of bounds");
  EXPECT_ERROR(sparse::embedding(input, weight * 2), ValueError, "only a leaf");
}

}  // namespace
}  // namespace hammock
