// Every error names the user's line, and the module that was called where there is one.

#include <gtest/gtest.h>

#include <cmath>

#include "hammock/config.h"
#include "lazy/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

/// The text of the error that `mistake` raises.
template <class Fn>
std::string TextOf(Fn mistake) {
  try {
    mistake();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no error";
}

#define EXPECT_LINE(...) \
  EXPECT_TRUE(Contains(TextOf([&] { __VA_ARGS__; }), "[at " + Line(__LINE__)))
#define EXPECT_LINE_AND(part, ...)                        \
  {                                                       \
    std::string text = TextOf([&] { __VA_ARGS__; });      \
    EXPECT_TRUE(Contains(text, "[at " + Line(__LINE__))); \
    EXPECT_TRUE(Contains(text, part));                    \
  }

::testing::AssertionResult Contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << text << "\nlacks " << part;
}

class ErrorLines : public Runtime {
 protected:
  Tensor a = randn({2, 3}), b = randn({4, 5});
  Tensor undefined;
  static Tensor Leaf(const Dims& sizes) { return ones(sizes).requires_grad_(); }
};

TEST_F(ErrorLines, OfShapes) {
  EXPECT_LINE(a + b);
  EXPECT_LINE(a - b);
  EXPECT_LINE(matmul(a, b));
  EXPECT_LINE(a.matmul(b));
  EXPECT_LINE(einsum("ij,jk->ik", {a, b}));
  EXPECT_LINE(a.reshape({4, 2}));
  EXPECT_LINE(a.t().view({6}));
  EXPECT_LINE(cat({a, b}));
  EXPECT_LINE(cat({}));
  EXPECT_LINE(stack({a, b}));
  EXPECT_LINE(a.expand({5}));
  EXPECT_LINE(topk(a, 9));
  EXPECT_LINE(zeros({-1, 2}));
  EXPECT_LINE(full({-1}, 2.0));
  EXPECT_LINE(where(a > 0, a, b));
  EXPECT_LINE(tril(ones({2})));
}

TEST_F(ErrorLines, OfDims) {
  EXPECT_LINE(a[5]);
  EXPECT_LINE(a.sum({4}));
  EXPECT_LINE(a.index({0, 1, 2}));
  EXPECT_LINE(softmax(a, 2));
  EXPECT_LINE(a.select(0, 7));
  EXPECT_LINE(a.unbind(3));
  EXPECT_LINE(a.transpose(0, 5));
  EXPECT_LINE(a[0].mT());
  EXPECT_LINE(a.size(4));
  EXPECT_LINE(a.stride(4));
  EXPECT_LINE(glu(a, 5));
  EXPECT_LINE(flip(a, {3}));
}

TEST_F(ErrorLines, OfDTypesAndValues) {
  EXPECT_LINE(matmul(a, ones({3, 2}, i64)));
  EXPECT_LINE(matmul(a, ones({3, 2}, f64)));
  EXPECT_LINE((a > 0) - (a > 0));
  EXPECT_LINE(cross_entropy(a, randn({2})));
  EXPECT_LINE(scatter(a, 0, tensor({{0, 0, 0}}), ones({1, 3}, i64)));
  EXPECT_LINE(dropout(a, 1.5));
  EXPECT_LINE(celu(a, 0));
  EXPECT_LINE(linalg_qr(a, "what"));
  EXPECT_LINE(a.item());
  EXPECT_LINE((a > 0).item<bool>());
  EXPECT_LINE(upsample_nearest2d(a, {2, 2}));
}

TEST_F(ErrorLines, OfUndefinedTensors) {
  EXPECT_LINE(undefined + a);
  EXPECT_LINE(a + undefined);
  EXPECT_LINE(undefined * 2);
  EXPECT_LINE(undefined - a);
  EXPECT_LINE(exp(undefined));
  EXPECT_LINE(undefined.exp());
  EXPECT_LINE(gelu(undefined));
  EXPECT_LINE(leaky_relu(undefined));
  EXPECT_LINE(undefined.sum());
  EXPECT_LINE(undefined.t());
  EXPECT_LINE(undefined.item());
  EXPECT_LINE(Leaf({2}).grad() * 2);
}

TEST_F(ErrorLines, OfGradients) {
  EXPECT_LINE(Tensor x = Leaf({2}); Tensor y = (x * x).sum(); y.backward(); y.backward());
  EXPECT_LINE(Tensor x = Leaf({2}); (x * x).backward());
  EXPECT_LINE(a.sum().backward());
  EXPECT_LINE(Tensor x = Leaf({2}); x += 1);
  EXPECT_LINE(Leaf({2, 2})[0].fill_(1));
  EXPECT_LINE(ones({2}, i64).requires_grad_());
  EXPECT_LINE(Tensor y = Leaf({2}) * 2; y.requires_grad_(false));
  EXPECT_LINE(grad({(Leaf({2}) * 2).sum()}, {Leaf({2})}));
}

TEST_F(ErrorLines, OfWritesInPlace) {
  EXPECT_LINE(Tensor x = ones({2}, i64); x += 0.5);
  EXPECT_LINE(Tensor x = ones({2}); x += ones({3, 2}));
  EXPECT_LINE(Tensor x = ones({1, 2}).expand({3, 2}); x += 1);
  EXPECT_LINE(Tensor x = ones({2}); x.copy_(ones({3})));
}

TEST_F(ErrorLines, OfDevices) {
  EXPECT_LINE(a.to(Device("gpu")));
  EXPECT_LINE(a.to("gpu"));
  EXPECT_LINE(a + ones({2, 3}).to(Device("null")));
  EXPECT_LINE(ones({2}, f32, "reference:7"));
}

TEST_F(ErrorLines, OfModulesOptimisersAndFiles) {
  EXPECT_LINE(nn::LSTM l({.input_size = 4, .hidden_size = 8}); l(randn({5, 2, 3})));
  EXPECT_LINE(nn::Linear l(2, 2); load_weights(*l, "/nonexistent.safetensors"));
  EXPECT_LINE(nn::Linear l(2, 2); l->load_state_dict({{"wieght", ones({2, 2})}}));
  EXPECT_LINE(optim::SGD o(std::vector<Tensor>{}, {.lr = 0.1}));
  EXPECT_LINE(nn::Linear l(2, 2); optim::SGD o(l->parameters(), {.lr = -0.1}));
  EXPECT_LINE(Module m; m.register_module("x", nn::ReLU()); m.register_module("x", nn::ReLU()));
  EXPECT_LINE(nn::BatchNorm1d norm(3); norm(randn({1, 3})));
  EXPECT_LINE(nn::Conv2d c({.in_channels = 3, .out_channels = 4, .kernel_size = 3}); c(a));
  EXPECT_LINE(nn::Embedding e(10, 4); e(tensor({0.0, 1.0})));
  EXPECT_LINE(nn::Linear l(2, 2); auto p = l->parameters(); p.push_back(p[0]); optim::SGD o(p));
  EXPECT_LINE(Module m; m.run_method("forward"));
  EXPECT_LINE(config::Set("cpu_thread", "3"));
  EXPECT_LINE(config::Set("cpu_threads", "many"));
  EXPECT_LINE(config::Override changed("cpu_thread", "3"));
}

TEST_F(ErrorLines, OfValuesThatAreKnownLate) {
  EXPECT_LINE(linalg_solve(zeros({2, 2}), ones({2})).sum().item());
  EXPECT_LINE(linalg_cholesky(-eye(3)).sum().item());
  EXPECT_LINE(a.index({tensor({7})}).sum().item());
}

TEST_F(ErrorLines, OfLayersThatAreMade) {
  EXPECT_LINE(nn::Linear(-1, 2));
  EXPECT_LINE(nn::Dropout(1.5));
  EXPECT_LINE(nn::GroupNorm(3, 8));
  EXPECT_LINE(nn::MultiheadAttention(7, 2));
  EXPECT_LINE(nn::Conv2d({.in_channels = 3, .out_channels = 4, .kernel_size = 3, .groups = 2}));
  EXPECT_LINE(nn::LSTM({.input_size = -4, .hidden_size = 8}));
  // One line for each of two that are made by the same code.
  EXPECT_LINE(nn::Linear(2, -1));
  EXPECT_LINE(nn::Linear(2, -1));
}

TEST_F(ErrorLines, OfTracesOfLayers) {
  EXPECT_LINE(nn::Linear l(2, 2); l->trace("forward", {Any(a)}));
  EXPECT_LINE(nn::Linear l(2, 2); l->trace("forward", {Any(a)}));
  EXPECT_LINE_AND(" in 1]", nn::Sequential s(nn::ReLU(), nn::Linear(2, 2));
                  s->trace("forward", {Any(a)}));
  EXPECT_LINE(nn::Linear l(3, 2); l->trace("backward", {Any(a)}));
  EXPECT_LINE(nn::Linear l(3, 2); l->trace("forward", {}));
  nn::Sequential net(nn::Linear(3, 2), nn::ReLU());
  net->trace("forward", {Any(a)});
  const std::string line = Line(__LINE__ - 1);
  for (const GraphNode& node : net->graph_body("forward").graph->nodes()) {
    if (node.inputs.empty()) continue;
    EXPECT_EQ(LocationText(node.location), line);
  }
}

TEST_F(ErrorLines, OfModulesByNameAndFiles) {
  Module module("Net");
  EXPECT_LINE(module.register_parameter("a.b", a));
  EXPECT_LINE(module.register_buffer("x", undefined));
  EXPECT_LINE(module.register_parameter("", std::nullopt));
  EXPECT_LINE(module.get_submodule("x"));
  EXPECT_LINE(module.get_tensor("x"));
  EXPECT_LINE(module.attribute("x"));
  EXPECT_LINE(save_module(module, "/nonexistent/x.hmk"));
  EXPECT_LINE(load_module("/nonexistent.hmk"));
  EXPECT_LINE(io::ReadNpy("/nonexistent.npy"));
  EXPECT_LINE(io::NpzFile::Open("/nonexistent.npz"));
  EXPECT_LINE(io::SafetensorsFile::Open("/nonexistent.safetensors"));
  EXPECT_LINE(set_printoptions({.precision = -1}));
  EXPECT_LINE(a.cuda(99));
}

TEST_F(ErrorLines, OfCompiledFunctions) {
  auto reads = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x : -x; });
  EXPECT_TRUE(Contains(TextOf([&] { reads(a); }), "[at " + Line(__LINE__ - 1)));
  Tensor other = randn({3});
  auto uses = compile([&](const Tensor& x) { return x * other; });
  EXPECT_TRUE(Contains(TextOf([&] { uses(a); }), Line(__LINE__ - 1)));
}

TEST_F(ErrorLines, OfTheOpNotOfTheRead) {
  const std::string line = Line(__LINE__ + 1);
  Tensor taken = index_select(a, 0, tensor({7}));
  Tensor sum = taken.sum();
  EXPECT_TRUE(Contains(TextOf([&] { sum.item(); }), "[at " + line));
  EXPECT_TRUE(Contains(TextOf([&] { taken.to_vector<float>(); }), "[at " + line));
}

TEST_F(ErrorLines, CompositesAreNamedByTheCall) {
  EXPECT_LINE_AND("cross_entropy: index 3", cross_entropy(a, tensor({0, 3})).item());
  EXPECT_LINE_AND("embedding: index 10", embedding(tensor({0, 10}), randn({10, 4})).sum().item());
  nn::Embedding layer(10, 4);
  EXPECT_LINE_AND("embedding: index 10", layer(tensor({0, 10})).sum().item());
  Tensor weight = randn({2, 3}).requires_grad_();
  EXPECT_LINE_AND("cross_entropy: index 5", cross_entropy(weight, tensor({0, 5})).item());
}

// ---- Modules

struct Inner : nn::UnaryModule {
  Inner() : UnaryModule("Inner") {}
  nn::Linear linear = register_module("linear", nn::Linear(9, 2));
  Tensor forward(const Tensor& x) override { return linear(x); }
};
const int kInnerLine = __LINE__ - 2;

struct Outer : nn::UnaryModule {
  Outer() : UnaryModule("Outer") {}
  nn::Sequential first = register_module("first", nn::Sequential(nn::Linear(3, 8), nn::ReLU()));
  std::shared_ptr<Inner> encoder = register_module("encoder", std::make_shared<Inner>());
  Tensor forward(const Tensor& x) override { return encoder->forward(first(x)); }
};

TEST_F(ErrorLines, LayersNameTheLineOfTheirCallAndTheirPath) {
  nn::Sequential net(nn::Linear(3, 8), nn::ReLU(), nn::Linear(9, 2));
  EXPECT_LINE_AND(" in 2]", net(a));
  EXPECT_LINE_AND(" in 2]", (*net)(a));
  nn::Sequential deep(nn::ReLU(), net);
  EXPECT_LINE_AND(" in 1.2]", deep(a));
  EXPECT_LINE(nn::Linear(10, 2)(a));
}

TEST_F(ErrorLines, ModulesOfTheUserKeepTheirOwnLines) {
  Outer net;
  const std::string expected = "[at " + Line(kInnerLine) + " in encoder.linear]";
  EXPECT_TRUE(Contains(TextOf([&] { net.forward(a); }), expected));
  EXPECT_TRUE(Contains(TextOf([&] { net(a); }), expected));
  auto shared = std::make_shared<Outer>();
  EXPECT_TRUE(Contains(TextOf([&] { (*shared)(a); }), expected));
}

TEST_F(ErrorLines, LateErrorsNameTheModule) {
  nn::Sequential net(nn::ReLU(), nn::Embedding(4, 2));
  const std::string line = Line(__LINE__ + 1);
  Tensor rows = net(tensor({1, 9}));
  EXPECT_TRUE(Contains(TextOf([&] { rows.sum().item(); }), "[at " + line + " in 1]"));
}

TEST_F(ErrorLines, DumpsNameTheModule) {
  nn::Sequential net(nn::Linear(3, 8), nn::ReLU());
  const std::string line = Line(__LINE__ + 1);
  std::vector<Tensor> y = {net(a)};
  std::string dump = Lazy().DumpTensors(y);
  EXPECT_TRUE(Contains(dump, "@ " + line + " in 0"));
  EXPECT_TRUE(Contains(dump, "@ " + line + " in 1"));
}

TEST_F(ErrorLines, ModulesEnterNoKey) {
  nn::Sequential plain(nn::Flatten(1, -1));
  nn::Sequential wrapped(plain);
  plain(a).to_vector<float>();
  int64_t before = Compiles();
  wrapped(a).to_vector<float>();
  EXPECT_EQ(Compiles(), before);
}

}  // namespace
}  // namespace hammock
