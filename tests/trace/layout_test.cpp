// Where results lie: strides are PyTorch's, values and keys know nothing of them. The strides were
// taken from PyTorch.

#include <gtest/gtest.h>

#include "hammock/op_builder.h"
#include "runtime/runtime.h"

namespace hammock {
namespace {

using namespace hammock::testing;

class Layout : public Runtime {};

/// 0, 1, 2, ... in row-major memory.
Tensor Counting(const Dims& sizes) {
  return arange(Shape(f32, sizes).numel(), f32, "reference").view(sizes).clone();
}

// ---- Strides

struct ResultCase {
  const char* name;
  std::function<Tensor(const Tensor&)> op;
};
void PrintTo(const ResultCase& result, std::ostream* out) { *out << result.name; }

class KeepsTheLayout : public Runtime, public ::testing::WithParamInterface<ResultCase> {};

TEST_P(KeepsTheLayout, OfATransposedOperand) {
  Tensor x = Counting({2, 3}).t();
  Tensor result = GetParam().op(x);
  EXPECT_EQ(result.sizes(), Dims({3, 2}));
  EXPECT_EQ(result.strides(), Dims({1, 3}));
  EXPECT_EQ(result.storage_offset(), 0);
  EXPECT_FALSE(result.is_contiguous());
  EXPECT_FALSE(result.is_alias_of(x));
  EXPECT_CODE(result.view({-1}), ErrorCode::kShapeMismatch, "reshape");
  EXPECT_EQ(result.t().view({-1}).sizes(), Dims({6}));
}

TEST_P(KeepsTheLayout, OfAPlainOperand) {
  Tensor result = GetParam().op(Counting({3, 2}));
  EXPECT_EQ(result.strides(), Dims({2, 1}));
  EXPECT_TRUE(result.is_contiguous());
}

TEST_P(KeepsTheLayout, WithGrad) {
  Tensor x = Counting({2, 3}).requires_grad_();
  EXPECT_EQ(GetParam().op(x.t()).strides(), Dims({1, 3}));
}

TEST_P(KeepsTheLayout, InEagerMode) {
  EagerMode eager;
  EXPECT_EQ(GetParam().op(Counting({2, 3}).t()).strides(), Dims({1, 3}));
}

std::vector<ResultCase> ResultCases() {
  using T = const Tensor&;
  return {
      {"add_number", [](T x) { return x + 1.0f; }},
      {"number_minus", [](T x) { return 1.0f - x; }},
      {"add", [](T x) { return x + x; }},
      {"add_plain",
       [](T x) {
         return x + ones({3, 2}, f32, "reference");
       }},
      {"add_row", [](T x) { return ones({2}, f32, "reference") + x; }},
      {"compare", [](T x) { return gt(x, 2.0f); }},
      {"neg", [](T x) { return -x; }},
      {"exp", [](T x) { return exp(x); }},
      {"pow", [](T x) { return pow(x, 2.0f); }},
      {"where", [](T x) { return where(gt(x, 2.0f), x, 0.0f); }},
      {"clamp", [](T x) { return clamp(x, 0.0f, 1.0f); }},
      {"relu", [](T x) { return relu(x); }},
      {"gelu", [](T x) { return gelu(x); }},
      {"silu", [](T x) { return silu(x); }},
      {"leaky_relu", [](T x) { return leaky_relu(x); }},
      {"elu", [](T x) { return elu(x); }},
      {"celu", [](T x) { return celu(x); }},
      {"softplus", [](T x) { return softplus(x); }},
      {"hardtanh", [](T x) { return hardtanh(x); }},
      {"threshold", [](T x) { return threshold(x, 1.0f, 2.0f); }},
      {"softshrink", [](T x) { return softshrink(x); }},
      {"hardshrink", [](T x) { return hardshrink(x); }},
      {"logit", [](T x) { return logit(x); }},
      {"nan_to_num", [](T x) { return nan_to_num(x); }},
      {"polygamma", [](T x) { return polygamma(1, x); }},
      {"frexp", [](T x) { return std::get<0>(frexp(x)); }},
      {"dropout", [](T x) { return dropout(x, 0.5, true); }},
      {"lerp", [](T x) { return lerp(x, x, 0.5f); }},
      {"addcmul", [](T x) { return addcmul(x, x, x); }},
      {"addcdiv", [](T x) { return addcdiv(x, x, x); }},
      {"clone", [](T x) { return x.clone(); }},
      {"to", [](T x) { return x.to(f64); }},
      {"zeros_like", [](T x) { return zeros_like(x); }},
      {"full_like", [](T x) { return full_like(x, 2.0f); }},
      {"empty_like", [](T x) { return empty_like(x); }},
      {"rand_like", [](T x) { return rand_like(x); }},
      {"randn_like", [](T x) { return randn_like(x); }},
      {"randint_like", [](T x) { return randint_like(x, 9); }},
      {"chained", [](T x) { return exp(x * 2.0f) + x; }},
      {"in_place",
       [](T x) {
         Tensor y = x * 2.0f;
         y.add_(1.0f);
         y.copy_(ones({3, 2}, f32, "reference"));
         return y;
       }},
  };
}

INSTANTIATE_TEST_SUITE_P(Layout, KeepsTheLayout, ::testing::ValuesIn(ResultCases()),
                         [](const auto& info) { return std::string(info.param.name); });

void InferFirstElement(const InferCall& call) { call.out = {Shape(call.in[0]->dtype(), {})}; }

constinit const OpDef kFirstElement = {
    .schema = "test::first_element(Tensor self) -> Tensor",
    .infer = InferFirstElement,
    .keeps_layout = true,
};

TEST_F(Layout, OfAResultThatIsSmallerIsRefused) {
  op_registry::Register(kFirstElement);
  Tensor x = Counting({2, 3}).t();
  EXPECT_THROW_MESSAGE(Apply(kFirstElement, Location::current(), {x}), InternalError,
                       "keeps_layout, but f32[3,2] does not broadcast to f32[]");
}

TEST_F(Layout, OthersAreRowMajor) {
  Tensor x = Counting({2, 3}).t();
  EXPECT_EQ(x.contiguous().strides(), Dims({2, 1}));
  EXPECT_EQ((x + 1.0f).contiguous().strides(), Dims({2, 1}));
  EXPECT_EQ(matmul(x, x.t()).strides(), Dims({3, 1}));
  EXPECT_EQ(cat({x, x}, 0).strides(), Dims({2, 1}));
  EXPECT_EQ(softmax(x, 1).strides(), Dims({2, 1}));
  EXPECT_EQ(sum(x, {0}, true).strides(), Dims({2, 1}));
  EXPECT_EQ(new_zeros(x, {3, 2}).strides(), Dims({2, 1}));
}

TEST_F(Layout, OfSeveralOperands) {
  Tensor a = Counting({2, 3, 4}).permute({2, 0, 1});  // [4,2,3], strides 1, 12, 4
  Tensor b = Counting({4, 2, 3});
  EXPECT_EQ((a + a).strides(), Dims({1, 12, 4}));
  EXPECT_EQ((a + b).strides(), Dims({1, 12, 4})) << "the first that tells dims apart";
  EXPECT_EQ((b + a).strides(), Dims({6, 3, 1}));
}

TEST_F(Layout, OfExpandedAndSlicedOperands) {
  Tensor row = Counting({3, 1});
  Tensor wide = row.expand({3, 4});
  EXPECT_EQ((wide + 1.0f).strides(), Dims({4, 1}));
  EXPECT_EQ(wide.t().clone().strides(), Dims({3, 1}));
  EXPECT_EQ(wide.clone().strides(), Dims({4, 1}));
  Tensor gaps = Counting({4, 6}).slice(1, 0, 6, 2).t();  // [3,4], strides 2, 6
  EXPECT_EQ((gaps + 1.0f).strides(), Dims({1, 3}));
  EXPECT_EQ(gaps.clone().strides(), Dims({1, 3}));
  EXPECT_EQ(gaps.to(f64).strides(), Dims({1, 3}));
  EXPECT_EQ(zeros_like(gaps).strides(), Dims({1, 3}));
}

TEST_F(Layout, OfImagesWithChannelsLast) {
  Tensor images = Counting({2, 4, 5, 3}).permute({0, 3, 1, 2});  // [2,3,4,5]
  EXPECT_EQ(relu(images).strides(), Dims({60, 1, 15, 3}));
  EXPECT_EQ((images * 2.0f + images).strides(), Dims({60, 1, 15, 3}));
  Tensor bias = ones({3, 1, 1}, f32, "reference");
  EXPECT_EQ((images + bias).strides(), Dims({60, 1, 15, 3}));
  EXPECT_EQ(images.slice(3, 0, 4).to(f64).strides(), Dims({48, 1, 12, 3}));
}

TEST_F(Layout, OfEmptyTensors) {
  Tensor x = zeros({0, 3}, f32, "reference").t();
  EXPECT_TRUE((x + x).is_contiguous());
  EXPECT_EQ((x + x).strides(), Dims({1, 1}));
  EXPECT_EQ((x + 1.0f).t().view({-1}).numel(), 0);
  Tensor y = x + 1.0f;
  y.select(0, 1).fill_(1.0f);
  mark_step();
  EXPECT_EQ(y.to_vector<float>().size(), 0u);
}

// ---- Aliasing

TEST_F(Layout, WritesThroughViewsOfResults) {
  for (int steps = 0; steps < 4; ++steps) {
    Tensor y = Counting({2, 3}).t() * 1.0f;  // 0 3 / 1 4 / 2 5
    if (steps & 1) mark_step();
    Tensor rows = y.t();
    EXPECT_TRUE(rows.is_contiguous());
    Tensor flat = rows.view({6});
    EXPECT_TRUE(flat.is_alias_of(y));
    EXPECT_EQ(flat.strides(), Dims({1}));
    flat.slice(0, 1, 3).fill_(9.0f);
    if (steps & 2) mark_step();
    EXPECT_TENSOR_EQ(flat, {0, 9, 9, 3, 4, 5}, {6});
    EXPECT_TENSOR_EQ(y, {0, 3, 9, 4, 9, 5}, {3, 2});
    y.select(1, 1).mul_(-1.0f);
    EXPECT_TENSOR_EQ(flat, {0, 9, 9, -3, -4, -5}, {6});
    EXPECT_EQ(y.strides(), Dims({1, 3}));
  }
}

TEST_F(Layout, AsStridedAddressesMemory) {
  for (int steps = 0; steps < 4; ++steps) {
    Tensor y = Counting({2, 3}).t() + 0.0f;
    Tensor memory = as_strided(y, {6}, {1}, 0);
    EXPECT_TENSOR_EQ(memory, {0, 1, 2, 3, 4, 5}, {6});
    EXPECT_TENSOR_EQ(y.diagonal(), {0, 4}, {2});
    EXPECT_TENSOR_EQ(unfold_dim(y, 0, 2, 1), {0, 1, 3, 4, 1, 2, 4, 5}, {2, 2, 2});
    if (steps & 1) mark_step();
    memory.slice(0, 0, 2).fill_(7.0f);
    y.diagonal(-1).fill_(8.0f);
    if (steps & 2) mark_step();
    EXPECT_TENSOR_EQ(memory, {7, 8, 2, 3, 4, 8}, {6});
    EXPECT_TENSOR_EQ(y, {7, 3, 8, 4, 2, 8}, {3, 2});
    // Part of an expanded view, written by address.
    y.unsqueeze(0).expand({4, 3, 2}).select(0, 3).select(1, 0).fill_(1.0f);
    EXPECT_TENSOR_EQ(memory, {1, 1, 1, 3, 4, 8}, {6});
    EXPECT_TENSOR_EQ(y, {1, 3, 1, 4, 1, 8}, {3, 2});
  }
}

TEST_F(Layout, OfThreeDimsIsAddressedRight) {
  Tensor y = Counting({2, 3, 4}).permute({2, 0, 1}) + 0.0f;  // [4,2,3]
  EXPECT_EQ(y.strides(), Dims({1, 12, 4}));
  std::vector<float> counting(24);
  for (size_t i = 0; i < 24; ++i) counting[i] = static_cast<float>(i);
  EXPECT_TENSOR_EQ(as_strided(y, {24}, {1}, 0), counting, {24});
  EXPECT_EQ(y[1][1][2].item<float>(), 21);
  as_strided(y, {2}, {20}, 1).fill_(-1.0f);  // elements 1 and 21
  EXPECT_EQ(y[1][0][0].item<float>(), -1);
  EXPECT_EQ(y[1][1][2].item<float>(), -1);
  EXPECT_TENSOR_EQ(y.permute({1, 2, 0}).view({24}).slice(0, 20, 23), {20, -1, 22}, {3});
}

TEST_F(Layout, SurvivesAStepAndCopies) {
  Tensor y = Counting({2, 3}).t() + 1.0f;
  mark_step();
  EXPECT_EQ(y.strides(), Dims({1, 3}));
  EXPECT_TENSOR_EQ(y, {1, 4, 2, 5, 3, 6}, {3, 2});
  EXPECT_EQ((y * 2.0f).strides(), Dims({1, 3}));
  Tensor copy = y.clone();
  copy.t().view({6}).fill_(0.0f);
  EXPECT_TENSOR_EQ(y, {1, 4, 2, 5, 3, 6}, {3, 2});
  EXPECT_EQ(y.detach().strides(), Dims({1, 3}));
  Tensor resized = y + 0.0f;
  resize_(resized, {2, 2});
  EXPECT_TENSOR_EQ(resized, {1, 2, 3, 4}, {2, 2});  // of its memory
  EXPECT_EQ(resized.strides(), Dims({2, 1}));
}

TEST_F(Layout, CanBeDonated) {
  Tensor y = Counting({2, 3}).t() + 1.0f;
  donate(y);
  EXPECT_CODE(y + 1.0f, ErrorCode::kUseAfterDonate);
}

// ---- Gradients

TEST_F(Layout, PassesGradients) {
  Tensor x = Counting({2, 3}).requires_grad_();
  Tensor y = x.t() * 2.0f;
  Tensor weights = Counting({6});
  (y.t().view({6}) * weights).sum().backward();
  EXPECT_TENSOR_EQ(x.grad(), {0, 2, 4, 6, 8, 10}, {2, 3});
}

TEST_F(Layout, PassesGradientsOfWrites) {
  Tensor x = Counting({2, 3}).requires_grad_();
  Tensor y = x.t() * 2.0f;
  y.t().view({6}).slice(0, 0, 2).mul_(10.0f);
  as_strided(y, {2}, {1}, 4).zero_();
  y.sum().backward();
  EXPECT_TENSOR_EQ(x.grad(), {20, 20, 2, 2, 0, 0}, {2, 3});
}

TEST_F(Layout, OfGradientsIsThatOfTheLeaf) {
  Tensor w = (Counting({2, 3}).t() * 1.0f).requires_grad_();
  (w * w).sum().backward();
  EXPECT_EQ(w.grad().strides(), Dims({1, 3}));
  EXPECT_TENSOR_EQ(w.grad(), {0, 6, 2, 8, 4, 10}, {3, 2});
  (w * w).sum().backward();
  EXPECT_EQ(w.grad().strides(), Dims({1, 3}));
  EXPECT_TENSOR_EQ(w.grad(), {0, 12, 4, 16, 8, 20}, {3, 2});
  Tensor plain = Counting({3, 2}).requires_grad_();
  (plain.t() * 2.0f).sum().backward();
  EXPECT_TRUE(plain.grad().is_contiguous());
}

TEST_F(Layout, DetachInPlaceIsOfNoView) {
  Tensor x = Counting({2, 3}).requires_grad_();
  Tensor y = x.t() * 2.0f;
  Tensor v = y.t();
  y.detach_();
  EXPECT_FALSE(y.requires_grad());
}

// ---- Keys

TEST_F(Layout, IsNoPartOfAKey) {
  Tensor strided = Counting({2, 3}).t() + 1.0f, plain = ones({3, 2}, f32, "reference") + 1.0f;
  sync_multi({strided, plain});
  mark_step();
  auto program = [](const Tensor& x) {
    Tensor y = exp(x * 2.0f), z = y - x;
    mark_step();
    return z;
  };
  program(plain);
  int64_t before = Compiles();
  Tensor z = program(strided);
  EXPECT_EQ(Compiles(), before);
  EXPECT_EQ(z.strides(), Dims({1, 3}));
}

TEST_F(Layout, CostsNoNodes) {
  Tensor x = ones({3, 2}, f32, "reference") + 1.0f, y = Counting({2, 3}).t() + 1.0f;
  mark_step(true);
  auto nodes = [](const Tensor& in) {
    int64_t before = NodesRun();
    Tensor z = relu(in * 2.0f);
    z.add_(1.0f);
    sync_multi({z});
    return NodesRun() - before;
  };
  EXPECT_EQ(nodes(y), nodes(x));
}

TEST_F(Layout, OfWhatACapturedFunctionReturns) {
  auto fn = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0].t() + 1.0f, in[0] * 2.0f};
  };
  Tensor x = Counting({2, 3});
  auto results = extract_compiled_graph(fn, {x})({x});
  EXPECT_EQ(results[0].strides(), Dims({1, 3}));
  EXPECT_TENSOR_EQ(results[0], {1, 4, 2, 5, 3, 6}, {3, 2});
  EXPECT_TRUE(results[1].is_contiguous());
}

TEST_F(Layout, IsTheSameInEagerMode) {
  auto program = [] {
    Tensor y = Counting({3, 4}).t() * 2.0f;
    Tensor flat = y.t().view({12}), strided = as_strided(y, {3}, {4}, 1);
    flat.slice(0, 0, 5).add_(1.0f);
    strided.mul_(-1.0f);
    y.select(0, 2).fill_(0.5f);
    return std::vector<HostTensor>{y.host(), flat.host(), strided.host(), (y + y).host()};
  };
  auto lazily = program();
  EagerMode eager;
  auto eagerly = program();
  for (size_t i = 0; i < lazily.size(); ++i) EXPECT_TRUE(lazily[i].SameBits(eagerly[i])) << i;
}

}  // namespace
}  // namespace hammock
