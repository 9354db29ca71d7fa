#include "hammock/autocast.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "hammock/compile.h"
#include "hammock/hammock.h"
#include "hammock/nn.h"
#include "hammock/optim.h"
#include "ir/expect_error.h"
#include "nlohmann/json.hpp"
#include "support/source_path.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

using Json = nlohmann::json;

DType DTypeNamed(const std::string& name) {
  for (DType dtype : {bf16, f16, f32, f64, i64}) {
    if (NameOf(dtype) == name) return dtype;
  }
  throw std::runtime_error(name);
}

/// "bf16[2,3]" as a tensor.
Tensor TensorOf(const std::string& spec) {
  size_t bracket = spec.find('[');
  Dims sizes;
  std::stringstream list(spec.substr(bracket + 1));
  for (int64_t size; list >> size; list.ignore()) sizes.push_back(size);
  DType dtype = DTypeNamed(spec.substr(0, bracket));
  return IsFloat(dtype) ? full(sizes, 0.5, dtype) : zeros(sizes, dtype);
}

Any ArgumentOf(const Json& value) {
  if (value.is_string()) return TensorOf(value.get<std::string>());
  if (value.is_number_integer()) return Any(value.get<int64_t>());
  AnyList items;
  for (const Json& item : value) items.push_back(ArgumentOf(item));
  return Any(std::move(items));
}

Tensor CallRow(const Json& row) {
  std::vector<Any> args;
  for (const Json& arg : row["args"]) args.push_back(ArgumentOf(arg));
  return CallOp(row["op"].get<std::string>(), args).ToTensor();
}

TEST(Autocast, ResultsHavePyTorchsDTypes) {
  std::ifstream file(testing::SourcePath("tests/trace/autocast.json"));
  Json rows = Json::parse(file);
  ASSERT_GT(rows.size(), 80u);
  for (const Json& row : rows) {
    AutocastGuard autocast(bf16);
    try {
      EXPECT_EQ(NameOf(CallRow(row).dtype()), row["expected"].get<std::string>()) << row;
    } catch (const Error& error) {
      ADD_FAILURE() << row << ": " << error.what();
    }
  }
}

TEST(Autocast, GuardsNestAndCanBeSwitchedOff) {
  Tensor x = ones({2, 2});
  auto dtype = [&] { return matmul(x, x).dtype(); };
  EXPECT_EQ(dtype(), f32);
  {
    AutocastGuard outer(bf16);
    EXPECT_EQ(dtype(), bf16);
    {
      AutocastGuard inner(f16);
      EXPECT_EQ(dtype(), f16);
      NoAutocastGuard off;
      EXPECT_EQ(dtype(), f32);
      EXPECT_EQ(AutocastGuard::dtype(), std::nullopt);
    }
    EXPECT_EQ(AutocastGuard::dtype(), bf16);
    std::thread([&] { EXPECT_EQ(AutocastGuard::dtype(), std::nullopt); }).join();
    EXPECT_ERROR(AutocastGuard(f64), ValueError, "expected f16 or bf16");
    EXPECT_EQ(dtype(), bf16);
  }
  EXPECT_EQ(dtype(), f32);
}

TEST(Autocast, AnErrorLeavesTheGuardAsItWas) {
  AutocastGuard autocast(bf16);
  EXPECT_THROW(matmul(ones({2, 3}), ones({2, 3})), ValueError);
  EXPECT_EQ(AutocastGuard::dtype(), bf16);
}

TEST(Autocast, NumbersAreNotRoundedToSixteenBits) {
  Tensor x = full({1}, 3.0, bf16);
  AutocastGuard autocast(bf16);
  EXPECT_NEAR(pow(x, 0.1).item<double>(), 1.1161231, 1e-6);
}

TEST(Autocast, InPlaceOpsKeepTheirTensorsDType) {
  Tensor x = full({2}, 0.5, bf16);
  AutocastGuard autocast(bf16);
  x.exp_();
  EXPECT_EQ(x.dtype(), bf16);
}

TEST(Autocast, GradientsHaveTheDTypesOfTheParameters) {
  nn::Sequential net(nn::Linear(4, 8), nn::LayerNorm(8), nn::GELU(), nn::Linear(8, 2));
  Tensor x = randn({3, 4}), out, loss;
  x.requires_grad_();
  {
    AutocastGuard autocast(bf16);
    out = net(x);
    loss = cross_entropy(out, tensor({0, 1, 1}));
    loss.backward();  // inside as well as outside
  }
  EXPECT_EQ(out.dtype(), bf16);
  EXPECT_EQ(loss.dtype(), f32);
  EXPECT_EQ(x.grad().dtype(), f32);
  for (const auto& [name, parameter] : net->named_parameters()) {
    EXPECT_EQ(parameter.grad().dtype(), f32) << name;
  }
  // Near those of f32.
  std::vector<Tensor> low;
  for (const Tensor& parameter : net->parameters()) low.push_back(parameter.grad().clone());
  net->zero_grad();
  cross_entropy(net(x), tensor({0, 1, 1})).backward();
  for (size_t i = 0; i < low.size(); ++i) {
    Tensor grad = net->parameters()[i].grad();
    double error = (low[i] - grad).abs().max().item<double>();
    EXPECT_LT(error, 0.02 + 0.05 * grad.abs().max().item<double>()) << i;
  }
}

/// How often an op occurs in the graph that computes a tensor.
size_t CountOf(const std::string& op, const Tensor& tensor) {
  std::vector<Tensor> tensors = {tensor};
  std::string text = LazyGraphExecutor::Get()->DumpTensors(tensors, "text");
  size_t count = 0;
  for (size_t at = text.find(" " + op + " "); at != std::string::npos;
       at = text.find(" " + op + " ", at + 1)) {
    ++count;
  }
  return count;
}

TEST(Autocast, NothingIsCastWhereDTypesFit) {
  Tensor x = ones({2, 2}, bf16);
  AutocastGuard autocast(bf16);
  EXPECT_EQ(CountOf("cast", matmul(x, x)), 0u);
  EXPECT_EQ(CountOf("cast", exp(ones({2}))), 0u);
}

TEST(Autocast, RecomputedRegionsAreCastAsBefore) {
  Tensor w = randn({4, 4}), x = randn({4, 4});
  w.requires_grad_();
  auto region = [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {matmul(matmul(in[0], w), w)};
  };
  auto gradient = [&](bool again) {
    Tensor loss;
    {
      AutocastGuard autocast(bf16);
      loss = (again ? checkpoint(region, {x}) : region({x}))[0].sum();
    }
    w.set_grad({});
    loss.backward();
    return w.grad().host();
  };
  EXPECT_TRUE(gradient(true).SameBits(gradient(false)));
}

TEST(Autocast, ACompiledFunctionIsTracedForEachDType) {
  Tensor w = randn({4, 4});
  auto product = compile([&](const Tensor& x) { return matmul(x, w); }, {w});
  Tensor x = randn({4, 4});
  EXPECT_EQ(product(x).dtype(), f32);
  {
    AutocastGuard autocast(bf16);
    EXPECT_EQ(product(x).dtype(), bf16);
  }
  EXPECT_EQ(product(x).dtype(), f32);
  EXPECT_EQ(product.traces(), 2u);
}

TEST(Autocast, LayersOfAllKindsRun) {
  AutocastGuard autocast(bf16);
  Tensor image = randn({2, 3, 8, 8}), sequence = randn({5, 2, 4});
  nn::Sequential convnet(nn::Conv2d({.in_channels = 3, .out_channels = 4, .kernel_size = 3}),
                         nn::BatchNorm2d(4), nn::ReLU());
  EXPECT_EQ(convnet(image).dtype(), bf16);
  nn::LSTM lstm({.input_size = 4, .hidden_size = 6});
  EXPECT_EQ(std::get<0>(lstm(sequence)).dtype(), bf16);
  nn::GRU gru({.input_size = 4, .hidden_size = 6});
  EXPECT_EQ(std::get<0>(gru(sequence)).dtype(), bf16);
  nn::MultiheadAttention attention({.embed_dim = 4, .num_heads = 2});
  EXPECT_EQ(std::get<0>(attention(sequence, sequence, sequence)).dtype(), bf16);
  Tensor q = randn({2, 2, 5, 4});
  EXPECT_EQ(scaled_dot_product_attention(q, q.to(bf16), q).dtype(), bf16);
  EXPECT_EQ(einsum("ij,jk->ik", {randn({2, 3}), randn({3, 4}, bf16)}).dtype(), bf16);
}

class AutocastOn : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, AutocastOn, ::testing::Values("reference", "cpu"));

TEST_P(AutocastOn, ARunInBf16Converges) {
  manual_seed(3);
  Device device(GetParam());
  Tensor x = randn({64, 8}, f32, device);
  Tensor y = x.index({Slice(), 0}).mul(x.index({Slice(), 1})).gt(0).to(i64);
  nn::Sequential net(nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 2));
  net->to(device);
  optim::AdamW optimizer(net->parameters(), {.lr = 0.02});
  double first = 0, last = 0;
  for (int i = 0; i < 60; ++i) {
    optimizer.zero_grad();
    Tensor loss;
    {
      AutocastGuard autocast(bf16);
      loss = cross_entropy(net(x), y);
    }
    loss.backward();
    optimizer.step();
    last = loss.item<double>();
    if (i == 0) first = last;
  }
  EXPECT_GT(first, 0.5);
  EXPECT_LT(last, 0.1);
  for (const Tensor& parameter : net->parameters()) EXPECT_EQ(parameter.dtype(), f32);
}

}  // namespace
}  // namespace hammock
