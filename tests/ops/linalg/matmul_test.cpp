#include "hammock/ir/node.h"
#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

Tensor A() { return tensor({{1.0, 2.0}, {3.0, 4.0}}); }
Tensor B() { return tensor({{5.0, 6.0}, {7.0, 8.0}}); }

TEST(Matmul, FollowsTheRanks) {
  EXPECT_TENSOR(matmul(A(), B()), Type(f32, {2, 2}), {19, 22, 43, 50});
  EXPECT_TENSOR(matmul(Vec({1, 2}), Vec({3, 4})), Type(f32, {}), {11});
  EXPECT_TENSOR(matmul(A(), Vec({1, 1})), Type(f32, {2}), {3, 7});
  EXPECT_TENSOR(matmul(Vec({1, 1}), A()), Type(f32, {2}), {4, 6});
  Tensor batch = stack({A(), B()});
  EXPECT_TENSOR(matmul(batch, A()), Type(f32, {2, 2, 2}), {7, 10, 15, 22, 23, 34, 31, 46});
  EXPECT_TENSOR(matmul(A(), batch), Type(f32, {2, 2, 2}), {7, 10, 15, 22, 19, 22, 43, 50});
  EXPECT_TENSOR(matmul(Vec({1, 1}), batch), Type(f32, {2, 2}), {4, 6, 12, 14});
  EXPECT_TENSOR(matmul(batch.unsqueeze(1), batch.unsqueeze(0)).index({0, 1}), Type(f32, {2, 2}),
                {19, 22, 43, 50});
}

TEST(Matmul, EmptySumsAreZero) {
  EXPECT_TENSOR(matmul(zeros({2, 0}), zeros({0, 3})), Type(f32, {2, 3}), {0, 0, 0, 0, 0, 0});
  EXPECT_TENSOR(matmul(zeros({0, 2}), A()), Type(f32, {0, 2}), {});
}

TEST(Matmul, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(matmul(zeros({8, 16}), zeros({32, 4})), ValueError,
               "matmul: inner sizes differ: f32[8,16] @ f32[32,4] needs 16 == 32");
  EXPECT_ERROR(matmul(A(), to(B(), f64)), TypeError, "matmul: needs operands of one number dtype");
  EXPECT_ERROR(matmul(A(), tensor(1.0)), ValueError, "at least one dim");
  EXPECT_ERROR(mm(Vec({1}), A()), ValueError, "mm: needs 2-d and 2-d operands");
  EXPECT_ERROR(bmm(zeros({2, 1, 1}), zeros({3, 1, 1})), ValueError, "bmm: batch sizes differ");
}

TEST(Matmul, IsOneNode) {
  Tensor x = zeros({4, 8}), w = zeros({8, 2});
  EXPECT_EQ(std::string(mm(x, w).value().node->op().name()), "dot_general");
}

TEST(Matmul, AddmmIgnoresSelfWhereBetaIsZero) {
  Tensor nan = full({2, 2}, kNan);
  EXPECT_TENSOR(addmm(A(), A(), B()), Type(f32, {2, 2}), {20, 24, 46, 54});
  EXPECT_TENSOR(addmm(A(), A(), B(), 2, 0.5), Type(f32, {2, 2}), {11.5, 15, 27.5, 33});
  EXPECT_TENSOR(addmm(nan, A(), B(), 0), Type(f32, {2, 2}), {19, 22, 43, 50});
  EXPECT_TENSOR(addmv(Vec({1, 1}), A(), Vec({1, 1})), Type(f32, {2}), {4, 8});
  EXPECT_TENSOR(addr(tensor(1.0), Vec({1, 2}), Vec({3, 4})), Type(f32, {2, 2}), {4, 5, 7, 9});
  EXPECT_ERROR(addmm(zeros({3, 2}), A(), B()), ValueError, "addmm");
}

TEST(Matmul, FactorsDoNotRecompile) {
  Tensor a = A(), b = B();
  addmm(a, a, b, 1, 0.5).host();
  int64_t before = Compiles();
  for (double factor : {0.0, 1.0, 2.0}) addmm(a, a, b, factor, factor).host();
  EXPECT_EQ(Compiles(), before);
}

TEST(Matmul, Linear) {
  EXPECT_TENSOR(linear(A(), B(), Vec({1, 2})), Type(f32, {2, 2}), {18, 25, 40, 55});
  EXPECT_TENSOR(linear(Vec({1, 1}), B()), Type(f32, {2}), {11, 15});
  EXPECT_TENSOR(linear(Vec({1, 2}), Vec({3, 4}), Vec({5})), Type(f32, {1}), {16});
  EXPECT_ERROR(linear(A(), zeros({3, 3})), ValueError, "linear: inner sizes differ");
}

TEST(Matmul, OuterInnerKron) {
  EXPECT_TENSOR(outer(Vec({1, 2}), Vec({3, 4})), Type(f32, {2, 2}), {3, 4, 6, 8});
  EXPECT_TENSOR(inner(A(), B()), Type(f32, {2, 2}), {17, 23, 39, 53});
  EXPECT_TENSOR(kron(Vec({1, 2}), Vec({1, 10})), Type(f32, {4}), {1, 10, 2, 20});
  EXPECT_TENSOR(tensordot(A(), B(), {1}, {1}), Type(f32, {2, 2}), {17, 23, 39, 53});
  EXPECT_TENSOR(tensordot(A(), B()), Type(f32, {}), {70});
}

TEST(Einsum, ContractsByLabel) {
  EXPECT_TENSOR(einsum("ij,jk->ik", {A(), B()}), Type(f32, {2, 2}), {19, 22, 43, 50});
  EXPECT_TENSOR(einsum("ij,jk", {A(), B()}), Type(f32, {2, 2}), {19, 22, 43, 50});
  EXPECT_TENSOR(einsum("ii", {A()}), Type(f32, {}), {5});
  EXPECT_TENSOR(einsum("ii->i", {A()}), Type(f32, {2}), {1, 4});
  EXPECT_TENSOR(einsum("ij->ji", {A()}), Type(f32, {2, 2}), {1, 3, 2, 4});
  EXPECT_TENSOR(einsum("...ij,...jk->...ik", {stack({A(), B()}), A()}), Type(f32, {2, 2, 2}),
                {7, 10, 15, 22, 23, 34, 31, 46});
  EXPECT_TENSOR(einsum("i,ij,j->", {Vec({1, 1}), A(), Vec({1, 1})}), Type(f32, {}), {10});
  EXPECT_TENSOR(einsum("ij,ij->i", {A(), ones({2, 1})}), Type(f32, {2}), {3, 7});
  EXPECT_ERROR(einsum("ij,jk->il", {A(), B()}), ValueError, "label 'l'");
  EXPECT_ERROR(einsum("ijk", {A()}), ValueError, "has 3 labels");
  EXPECT_ERROR(einsum("ij,jk->ik", {A(), zeros({3, 2})}), ValueError, "label 'j' has the sizes");
}

TEST(Convolution, OneDim) {
  Tensor x = tensor({1.0, 2.0, 3.0, 4.0}).view({1, 1, 4});
  Tensor w = tensor({1.0, 0.0, -1.0}).view({1, 1, 3});
  EXPECT_TENSOR(conv1d(x, w), Type(f32, {1, 1, 2}), {-2, -2});
  EXPECT_TENSOR(conv1d(x, w, Vec({10}), {1}, "same"), Type(f32, {1, 1, 4}), {8, 8, 8, 13});
  EXPECT_TENSOR(conv1d(x, w, std::nullopt, {2}, {1}), Type(f32, {1, 1, 2}), {-2, -2});
  EXPECT_TENSOR(conv_transpose1d(x, w), Type(f32, {1, 1, 6}), {1, 2, 2, 2, -3, -4});
  EXPECT_ERROR(conv1d(x, zeros({1, 2, 3})), ValueError, "channels");
  EXPECT_ERROR(conv1d(zeros({1, 1, 1}), w), ValueError, "kernel size");
}

TEST(Pooling, MaximaAndMeans) {
  Tensor x = tensor({1.0, 3.0, 2.0, 5.0, 4.0}).view({1, 1, 5});
  EXPECT_TENSOR(max_pool1d(x, {2}), Type(f32, {1, 1, 2}), {3, 5});
  EXPECT_TENSOR(max_pool1d(x, {2}, {}, {0}, {1}, true), Type(f32, {1, 1, 3}), {3, 5, 4});
  auto [values, indices] = max_pool1d_with_indices(x, {3}, {1});
  EXPECT_TENSOR(values, Type(f32, {1, 1, 3}), {3, 5, 5});
  EXPECT_TENSOR(indices, Type(i64, {1, 1, 3}), {1, 3, 3});
  EXPECT_TENSOR(avg_pool1d(x, {2}, {2}, {1}), Type(f32, {1, 1, 3}), {0.5, 2.5, 4.5});
  EXPECT_TENSOR(avg_pool1d(x, {2}, {2}, {1}, false, false), Type(f32, {1, 1, 3}), {1, 2.5, 4.5});
  EXPECT_TENSOR(avg_pool1d(x, {2}, {}, {0}, true), Type(f32, {1, 1, 3}), {2, 3.5, 4});
}

}  // namespace
}  // namespace hammock
