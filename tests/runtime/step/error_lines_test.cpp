// Every error names the user's line, and the module that was called where there is one.

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <sstream>

#include "base/location_scope.h"
#include "hammock/config.h"
#include "hammock/data.h"
#include "hammock/distributions.h"
#include "hammock/foreign_call.h"
#include "hammock/jit/compile_ahead.h"
#include "hammock/profile.h"
#include "runtime/runtime.h"
#include "support/host_backend.h"

namespace hammock {
namespace {

using namespace hammock::testing;

/// A lambda by reference. There are hundreds: this takes the compiler less than std::function.
class Mistake {
 public:
  template <class Fn>
  Mistake(const Fn& fn)
      : fn_(&fn), call_([](const void* fn) { (*static_cast<const Fn*>(fn))(); }) {}
  void operator()() const { call_(fn_); }

 private:
  const void* fn_;
  void (*call_)(const void*);
};

/// The text of the error that `mistake` raises.
std::string TextOf(Mistake mistake) {
  try {
    mistake();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "no error";
}

::testing::AssertionResult Contains(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << text << "\nlacks " << part;
}

void ExpectLine(int line, const char* part, Mistake mistake) {
  SCOPED_TRACE(Line(line));
  std::string text = TextOf(mistake);
  EXPECT_TRUE(Contains(text, "[at " + Line(line)));
  EXPECT_TRUE(Contains(text, part));
}

#define EXPECT_LINE_AND(part, ...) ExpectLine(__LINE__, part, [&] { __VA_ARGS__; })
#define EXPECT_LINE(...) EXPECT_LINE_AND("", __VA_ARGS__)

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
  EXPECT_LINE(a.sizes()[4]);
  EXPECT_LINE(Dims({2, 3})[int64_t{-1}]);
  EXPECT_LINE(Dims().back());
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
  EXPECT_LINE_AND("3000000000", tensor(3000000000.0, f64).item<int>());
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

TEST_F(ErrorLines, OfFactsOfUndefinedTensors) {
  EXPECT_LINE(undefined.shape());
  EXPECT_LINE(undefined.sizes());
  EXPECT_LINE(undefined.dim());
  EXPECT_LINE(undefined.numel());
  EXPECT_LINE(undefined.dtype());
  EXPECT_LINE(undefined.device());
  EXPECT_LINE(undefined.strides());
  EXPECT_LINE(undefined.storage_offset());
  EXPECT_LINE(undefined.is_contiguous());
  EXPECT_LINE(undefined.is_floating_point());
  EXPECT_LINE(undefined.is_signed());
  EXPECT_LINE(undefined.is_cuda());
  EXPECT_LINE(undefined.id());
  EXPECT_LINE(undefined.is_pending());
  EXPECT_LINE(undefined.requires_grad());
  EXPECT_LINE(undefined.is_leaf());
  EXPECT_LINE(undefined.grad());
  EXPECT_LINE(undefined.detach_());
  EXPECT_LINE(undefined.remove_hook(1));
  EXPECT_LINE(undefined.value());
  EXPECT_LINE(for (Tensor row : undefined) row.sum());
  EXPECT_LINE(for (Tensor row : tensor(1.0)) row.sum());
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
  for (const lazy::AbsentBackend& absent : lazy::AbsentBackends()) {
    EXPECT_LINE_AND(absent.reason.c_str(), a.to(Device(absent.name)));
  }
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
  EXPECT_LINE(nn::Conv2d c(1, 4, 30); c(randn({1, 1, 8, 8})));
  EXPECT_LINE(nn::Embedding e(10, 4); e(tensor({0.0, 1.0})));
  EXPECT_LINE(nn::Linear l(2, 2); auto p = l->parameters(); p.push_back(p[0]); optim::SGD o(p));
  EXPECT_LINE(Module m; m.run_method("forward"));
  EXPECT_LINE(config::Set("cpu.thread", "3"));
  EXPECT_LINE(config::Set("cpu.threads", "many"));
  EXPECT_LINE(config::Override changed("cpu.thread", "3"));
}

TEST_F(ErrorLines, OfOptimisersAndSchedules) {
  nn::Linear layer(3, 4);
  optim::Adam adam(layer->parameters());
  optim::SGD sgd(layer->parameters(), {.lr = 0.1});
  EXPECT_LINE_AND("missing", adam.load_state_dict({}));
  EXPECT_LINE_AND("exp_avg", sgd.load_state_dict(adam.state_dict()));
  EXPECT_LINE(adam.lr(3));
  EXPECT_LINE(adam.params(3));
  EXPECT_LINE(adam.options(3));
  EXPECT_LINE(adam.set_lr(3, 0.1));
  EXPECT_LINE(adam.momentum(3));
  EXPECT_LINE(adam.set_momentum(3, 0.1));
  EXPECT_LINE(optim::LBFGS(std::vector<Tensor>{}));
  EXPECT_LINE(optim::LBFGS(layer->parameters()).load_state_dict({{"x", a}}));
  EXPECT_LINE_AND("undefined", optim::LBFGS(layer->parameters()).step([] { return Tensor(); }));
  EXPECT_LINE(optim::StepLR(sgd, 0));
  EXPECT_LINE(optim::LambdaLR(sgd, nullptr));
  EXPECT_LINE(optim::LinearLR(sgd, {.total_iters = 0}));
  EXPECT_LINE(optim::CosineAnnealingLR(sgd, {.t_max = 0}));
  EXPECT_LINE(optim::CosineAnnealingWarmRestarts(sgd, {.t_0 = 0}));
  EXPECT_LINE(optim::OneCycleLR(sgd, {.max_lr = 1, .total_steps = 0}));
  EXPECT_LINE(optim::SequentialLR(sgd, {}, {}));
  EXPECT_LINE(optim::ReduceLROnPlateau(sgd, {.factor = 2}));
  EXPECT_LINE(optim::ReduceLROnPlateau(sgd).load_state_dict({}));
  EXPECT_LINE(optim::StepLR s(sgd, 2); s.set_last_step(-1));
  EXPECT_LINE(optim::StepLR s(sgd, 2); s.load_state_dict({}));
  EXPECT_LINE(optim::OneCycleLR s(sgd, {.max_lr = 1, .total_steps = 1}); s.step(); s.step());
  EXPECT_LINE(optim::EMA(layer->parameters(), 1.5));
  EXPECT_LINE(optim::EMA({undefined}, 0.5));
  EXPECT_LINE(optim::EMA(layer->parameters(), 0.9).load_state_dict({}));
  EXPECT_LINE(optim::GradScaler({.growth_factor = 0.5}));
  EXPECT_LINE(optim::GradScaler().update(-1.0));
  EXPECT_LINE(optim::GradScaler().load_state_dict({}));
}

TEST_F(ErrorLines, OfDataSetsAndReaders) {
  const std::string path = ::testing::TempDir() + "error_lines.bin";
  std::ofstream(path) << "no file of any of these formats";
  EXPECT_LINE(io::ReadIdx("/nonexistent"));
  EXPECT_LINE(io::ReadIdx(path));
  EXPECT_LINE(nn::Linear l(2, 2); load_weights(*l, path));
  EXPECT_LINE(io::ReadCsv("/nonexistent"));
  EXPECT_LINE(io::ReadCsv(path, {.header = false}));
  EXPECT_LINE(io::ReadImage("/nonexistent"));
  EXPECT_LINE(io::ReadImage(path));
  EXPECT_LINE(jit::describe_archive(path));
  using data::ArrayDataset, data::DataLoader;
  EXPECT_LINE(ArrayDataset({}));
  EXPECT_LINE(ArrayDataset({a.host(), b.host()}));
  auto rows = std::make_shared<ArrayDataset>(std::vector<HostTensor>{a.host()});
  EXPECT_LINE(data::Subset(rows, {9}));
  EXPECT_LINE(data::ConcatDataset({nullptr}));
  EXPECT_LINE(data::RandomSplit(rows, {1, 5}, 0));
  EXPECT_LINE(data::Stacked(std::vector<data::Example>{{a.host()}, {b.host()}}));
  EXPECT_LINE(DataLoader(rows, {.batch_size = 0}));
  EXPECT_LINE(DataLoader(std::shared_ptr<data::Dataset>(), {}));
  EXPECT_LINE(DataLoader(rows, {}).load_state_dict({}));
  EXPECT_LINE(data::WeightedRandomSampler({1, -1}, 3, true, 0));
  EXPECT_LINE(data::DistributedSampler(3, 2, true, 0));
  auto beyond = std::make_shared<data::SubsetRandomSampler>(std::vector<int64_t>{7}, 0);
  for (int workers : {0, 2}) {
    DataLoader loader(rows, {.workers = workers, .sampler = beyond});
    EXPECT_LINE_AND("example 7", for (const data::Batch& batch : loader)(void) batch);
  }
  // What the data set's own code raises has its own line.
  int line = 0;
  data::MapDataset bad(rows, [&](data::Example) -> data::Example {
    line = __LINE__ + 1;
    return {(a + b).host()};
  });
  DataLoader loader(bad, {});
  std::string text = TextOf([&] {
    for (const data::Batch& batch : loader) (void)batch;
  });
  EXPECT_TRUE(Contains(text, "[at " + Line(line)));
  EXPECT_LINE(a.host().values<int>());
  EXPECT_LINE(a.host().at(99));
  EXPECT_LINE(HostTensor::From(std::vector<float>{1, 2}, {3}));
  EXPECT_LINE(tensor(std::vector<float>{1, 2}, {3}));
}

TEST_F(ErrorLines, OfDistributions) {
  using namespace hammock::distributions;
  EXPECT_LINE(Normal(a, b));
  EXPECT_LINE(Normal(undefined, 1));
  EXPECT_LINE(Uniform(1, 0));
  EXPECT_LINE(Uniform(tensor({1.0}), tensor({0.0})).sample().sum().item());
  EXPECT_LINE(Poisson(-1));
  EXPECT_LINE(Poisson(tensor({-1.0})).sample().sum().item());
  EXPECT_LINE(Dirichlet(tensor({-1.0, 1.0})).sample().sum().item());
  EXPECT_LINE(Dirichlet(tensor(1.0)));
  EXPECT_LINE(Geometric(0));
  EXPECT_LINE(Binomial(-1, 0.5));
  EXPECT_LINE(Categorical(tensor(1.0)));
  EXPECT_LINE(Categorical::from_logits(undefined));
  EXPECT_LINE(Bernoulli::from_logits(undefined));
  EXPECT_LINE(MultivariateNormal(ones({3}), ones({2, 2})));
  EXPECT_LINE(MultivariateNormal(ones({2}), -eye(2)).sample().sum().item());
  EXPECT_LINE(Independent(Normal(0, 1), 3));
}

TEST_F(ErrorLines, OfOptionsAndDevices) {
  EXPECT_LINE(config::GetText("nonsense"));
  EXPECT_LINE(config::OriginOf("nonsense"));
  EXPECT_LINE(config::LoadFile("/nonexistent"));
  EXPECT_LINE(config::Set<config::kTrimGraphSize>(-5));
  EXPECT_LINE(GetMemoryInfo(Device("cpu:9")));
  EXPECT_LINE(profile::Start("/nonexistent/trace.json"));
  EXPECT_LINE(AutocastGuard guard(f64));
  EXPECT_LINE(add_step_closure(nullptr));
  EXPECT_LINE(CompiledGraph().text());
  config::Override device("device", "nowhere");
  EXPECT_LINE(ones({2}));
}

TEST_F(ErrorLines, OfValuesThatAreKnownLate) {
  EXPECT_LINE(linalg_solve(zeros({2, 2}), ones({2})).sum().item());
  EXPECT_LINE(linalg_cholesky(-eye(3)).sum().item());
  EXPECT_LINE(a.index({tensor({7})}).sum().item());
  EXPECT_LINE_AND("floor_divide", floor_divide(tensor(1), tensor(0)).item());
  EXPECT_LINE(fmod(tensor({1, 2}), tensor({1, 0})).host());
}

TEST_F(ErrorLines, OfMemoryThatNoMachineHas) {
  EXPECT_LINE(zeros({10000000, 10000000}).host());
  EXPECT_LINE(Tensor x = rand({10000000, 10000000}); x.sum().item(); x[0][0].item());
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
  // Of four arguments and more.
  EXPECT_LINE(nn::Conv2d(0, 4, 3, 1));
  EXPECT_LINE_AND("padding", nn::Conv2d(3, 4, 3, 1, nn::Sizes({1, 2, 3})));
  EXPECT_LINE(nn::RNNCell(3, 4, true, "sigmoid"));
  EXPECT_LINE(nn::Bilinear(-1, 2, 3, true));
  // By functions.
  EXPECT_LINE(nn::MSELoss("avg"));
  EXPECT_LINE(nn::ReflectionPad2d({1, 2, 3}));
  EXPECT_LINE(nn::AdaptiveAvgPool2d({1, 2, 3}));
  EXPECT_LINE(nn::LPPool2d({.norm_type = 0, .kernel_size = 2}));
  EXPECT_LINE(nn::weight_norm(nn::Linear(3, 4), "weigth"));
  EXPECT_LINE(nn::spectral_norm(nn::Linear(3, 4), "weigth"));
  EXPECT_LINE(nn::spectral_norm(nn::Linear(3, 4), "weight", 0));
  EXPECT_LINE(nn::Linear l(3, 4); nn::remove_parametrizations(*l, "weight"));
  EXPECT_LINE(nn::init::xavier_uniform_(a[0]));
  EXPECT_LINE(nn::init::kaiming_normal_(a, 0, "fan_inn"));
  EXPECT_LINE(nn::init::calculate_gain("swishh"));
  EXPECT_LINE(nn::init::trunc_normal_(a, 0, 1, 2, -2));
  EXPECT_LINE(nn::init::uniform_(undefined));
}

TEST_F(ErrorLines, OfContainers) {
  nn::ModuleList list(nn::Linear(2, 2));
  nn::ModuleDict dict;
  nn::ParameterList parameters(a);
  nn::ParameterDict named;
  nn::Sequential net(nn::Linear(2, 2));
  EXPECT_LINE((*list)[3]);
  EXPECT_LINE(list->at<nn::DropoutImpl>(0));
  EXPECT_LINE((*dict)["x"]);
  EXPECT_LINE((*parameters)[3]);
  EXPECT_LINE((*named)["x"]);
  EXPECT_LINE(named->insert("a.b", a));
  EXPECT_LINE((*net)[-1]);
  EXPECT_LINE(net->push_back("a.b", nn::ReLU()));
  EXPECT_LINE(net->push_back(nn::Linear(nullptr)));
  EXPECT_LINE(nn::Sequential(nn::Linear(2, 2), nn::Linear(nullptr)));
  nn::Linear none = nullptr;
  EXPECT_LINE_AND("no layer", none(a));
  EXPECT_TRUE(Contains(TextOf([&] { none->forward(a); }), "no layer"));
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
  int ops = 0;
  for (const GraphNode& node : net->graph_body("forward").graph->nodes()) {
    if (node.inputs.empty()) continue;
    EXPECT_EQ(LocationText(node.location), line);
    ++ops;
  }
  EXPECT_GT(ops, 0);
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
  EXPECT_LINE(module(a));
  EXPECT_LINE(module.method("x"));
  EXPECT_LINE(module.graph_body("x"));
  EXPECT_LINE(module.define("forward(Tenser x)", [](auto&, auto&) { return Any(); }));
  EXPECT_LINE(module.compute_parameter("x", [](Module&) { return Tensor(); }));
  EXPECT_LINE(module.keep_computed("x"));
  EXPECT_LINE(module.to(i64));
  EXPECT_LINE(nn::Linear l(3, 3); l->weight = Leaf({3, 3}) * 2);
  EXPECT_LINE(Any(3).ToTensor());
  EXPECT_LINE(jit::compile_ahead(module, "x.hmk"));
}

TEST_F(ErrorLines, OfCompiledFunctions) {
  auto reads = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x : -x; });
  EXPECT_TRUE(Contains(TextOf([&] { reads(a); }), "[at " + Line(__LINE__ - 1)));
  Tensor other = randn({3});
  auto uses = compile([&](const Tensor& x) { return x * other; });
  EXPECT_TRUE(Contains(TextOf([&] { uses(a); }), Line(__LINE__ - 1)));
  auto nothing = compile([](const Tensor&) { return Tensor(); });
  EXPECT_LINE(nothing(a));
  EXPECT_LINE(uses(undefined));
  EXPECT_LINE(compile([](const Tensor& x) { return x; }, {undefined}));
}

// ---- Functions of the user that Hammock calls

struct BadGradient : autograd::Function<BadGradient> {
  static Tensor forward(autograd::AutogradContext*, const Tensor& x, double by) { return x * by; }
  static std::vector<Tensor> backward(autograd::AutogradContext*, std::vector<Tensor> grads) {
    return {matmul(grads[0], grads[0])};
  }
};
const int kBadGradientLine = __LINE__ - 3;

struct TwoGradients : autograd::Function<TwoGradients> {
  static Tensor forward(autograd::AutogradContext*, const Tensor& x) { return x * 2; }
  static std::vector<Tensor> backward(autograd::AutogradContext*, std::vector<Tensor> grads) {
    return {grads[0], grads[0]};
  }
};

TEST_F(ErrorLines, CustomFunctionsNameTheLineInTheirBackward) {
  Tensor y = BadGradient::apply(Leaf({2, 3}), 2.0).sum();
  EXPECT_TRUE(Contains(TextOf([&] { y.backward(); }), "[at " + Line(kBadGradientLine)));
  const std::string applied = Line(__LINE__ + 1);
  Tensor z = TwoGradients::apply(Leaf({2, 3})).sum();
  EXPECT_TRUE(Contains(TextOf([&] { z.backward(); }), "[at " + applied));
}

TEST_F(ErrorLines, FunctionsOfTheUserKeepTheirLines) {
  Tensor x = Leaf({2, 3});
  x.register_hook([&](const Tensor& grad) { return matmul(grad, a); });
  EXPECT_TRUE(Contains(TextOf([&] { (x * 2).sum().backward(); }), "[at " + Line(__LINE__ - 1)));
  EXPECT_LINE(Tensor y = Leaf({2}); y.register_hook(nullptr));
  EXPECT_LINE(checkpoint(nullptr, {x}));
  auto fails = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{matmul(in[0], a)}; };
  const std::string inside = "[at " + Line(__LINE__ - 1);
  EXPECT_TRUE(Contains(TextOf([&] { jvp(fails, {a}, {a}); }), inside));
  EXPECT_TRUE(Contains(TextOf([&] { checkpoint(fails, {a}); }), inside));
  EXPECT_TRUE(Contains(TextOf([&] { extract_compiled_graph(fails, {a}); }), inside));
  auto closure = [&] { fails({a}); };
  add_step_closure(closure);
  EXPECT_TRUE(Contains(TextOf([&] { mark_step(); }), inside));
  add_step_closure(closure, true);
  mark_step();
  std::string text = TextOf([&] {
    for (int i = 0; i < 10000; ++i) {
      mark_step();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  EXPECT_TRUE(Contains(text, inside));
  nn::Linear layer(3, 3);
  layer->register_full_backward_hook(
      [&](Module&, std::vector<Tensor>& grads, const std::vector<Tensor>&) { fails(grads); });
  EXPECT_TRUE(Contains(TextOf([&] { layer(x).sum().backward(); }), inside));
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

TEST_F(ErrorLines, LayersByTheArrowToo) {
  EXPECT_LINE(nn::Linear l(10, 2); l->forward(a));
  EXPECT_LINE_AND(" in 2]", nn::Sequential s(nn::Linear(3, 8), nn::ReLU(), nn::Linear(9, 2));
                  s->forward(a));
  EXPECT_LINE(nn::Conv2d c(3, 4, 3); c->forward(a));
  EXPECT_LINE(nn::ConvTranspose2d c(3, 4, 3); c->forward(a));
  EXPECT_LINE(nn::Embedding e(10, 4); e->forward(a));
  EXPECT_LINE(nn::EmbeddingBag e({.num_embeddings = 7, .embedding_dim = 2}); e->forward(a));
  EXPECT_LINE(nn::Bilinear l(2, 3, 4); l->forward(a, b));
  EXPECT_LINE(nn::BatchNorm2d l(5); l->forward(a));
  EXPECT_LINE(nn::InstanceNorm2d l(5); l->forward(a));
  EXPECT_LINE(nn::LayerNorm l(5); l->forward(a));
  EXPECT_LINE(nn::RMSNorm l(5); l->forward(a));
  EXPECT_LINE(nn::GroupNorm l(2, 4); l->forward(a));
  EXPECT_LINE(nn::LocalResponseNorm l(2); l->forward(a[0]));
  EXPECT_LINE(nn::Dropout2d l(0.5); l->forward(a[0]));
  EXPECT_LINE(nn::Flatten(3)->forward(a));
  EXPECT_LINE(nn::ReLU()->forward(undefined));
  EXPECT_LINE(nn::Softmax(5)->forward(a));
  EXPECT_LINE(nn::PReLU(7)->forward(a));
  EXPECT_LINE(nn::RReLU(2, 1)->forward(a));
  EXPECT_LINE(nn::MaxPool2d(2)->forward(a));
  EXPECT_LINE(nn::MaxUnpool2d l(2); l->forward(a, a));
  EXPECT_LINE(nn::FractionalMaxPool2d l({.kernel_size = 2, .output_size = 2}); l->forward(a));
  EXPECT_LINE(nn::RNN l(5, 6); l->forward(a));
  EXPECT_LINE(nn::GRU l(5, 6); l->forward(a));
  EXPECT_LINE(nn::LSTM l(5, 6); l->forward(a));
  EXPECT_LINE(nn::LSTM l(5, 6); l->forward(nn::pack_padded_sequence(randn({4, 2, 3}), {4, 2})));
  EXPECT_LINE(nn::RNNCell l(5, 6); l->forward(a));
  EXPECT_LINE(nn::GRUCell l(5, 6); l->forward(a));
  EXPECT_LINE(nn::LSTMCell l(5, 6); l->forward(a));
  EXPECT_LINE(nn::CrossEntropyLoss()->forward(a, b));
  EXPECT_LINE(nn::MSELoss()->forward(a));
  EXPECT_LINE(nn::LinearCrossEntropyLoss l(7, 2); l->forward(a, a));
  EXPECT_LINE(nn::MultiheadAttention l(8, 2); l->forward(a, a, a));
  const nn::TransformerLayerOptions small{.d_model = 8, .nhead = 2};
  EXPECT_LINE_AND(" in self_attn]", nn::TransformerEncoderLayer l(small); l->forward(a));
  EXPECT_LINE_AND(" in self_attn]", nn::TransformerDecoderLayer l(small); l->forward(a, a));
  EXPECT_LINE_AND(" in layers.0.self_attn]", nn::TransformerEncoder l(small, 2); l->forward(a));
  EXPECT_LINE_AND(" in layers.0.self_attn]", nn::TransformerDecoder l(small, 2); l->forward(a, a));
}

struct ByArrow : nn::Module {
  nn::Linear fc1 = register_module("fc1", nn::Linear(3, 8));
  nn::Linear fc2 = register_module("fc2", nn::Linear(9, 2));
  Tensor forward(const Tensor& x) {
    Tensor hidden = relu(fc1->forward(x));
    return fc2->forward(hidden);
  }
};
const int kByArrowLine = __LINE__ - 3;

TEST_F(ErrorLines, OfTheUsersForwardWhereLayersAreCalledByTheArrow) {
  ByArrow net;
  EXPECT_TRUE(Contains(TextOf([&] { net.forward(a); }), "[at " + Line(kByArrowLine) + " in fc2]"));
}

/// A class of the user that derives from one of Hammock's layers.
struct Doubled : nn::LinearImpl {
  using LinearImpl::LinearImpl;
  Tensor forward(const Tensor& x) override { return LinearImpl::forward(x) * 2; }
};
const int kDoubledLine = __LINE__ - 2;

TEST_F(ErrorLines, OfHandlesWithoutALayer) {
  nn::Linear empty = nullptr;
  const int line = __LINE__ - 1;
  EXPECT_LINE(empty(a));
  // The operator has no line of its own: that of the handle is named.
  std::string text = TextOf([&] { empty->forward(a); });
  EXPECT_TRUE(Contains(text, "[at " + Line(line))) << text;
  empty = nn::Linear(3, 2);
  EXPECT_EQ(empty(a).size(1), 2);
  empty = nullptr;
  text = TextOf([&] { (void)empty->weight; });
  EXPECT_TRUE(Contains(text, "[at " + Line(__LINE__ - 2))) << text;
  EXPECT_FALSE(empty);
  EXPECT_TRUE(empty == nullptr);
}

TEST_F(ErrorLines, LayersCanBeDerivedFrom) {
  nn::Layer<Doubled> doubled(3, 2);
  Tensor once = linear(a, doubled->weight, doubled->bias);
  EXPECT_TENSOR_EQ(doubled(a), once * 2);
  EXPECT_TENSOR_EQ(doubled->forward(a), once * 2);
  nn::Linear handle = std::shared_ptr<nn::LinearImpl>(doubled);
  EXPECT_TENSOR_EQ(handle(a), once * 2) << "of the class that it is";
  EXPECT_TENSOR_EQ(nn::Sequential(doubled)(a), once * 2);
  EXPECT_TRUE(Contains(TextOf([&] { doubled(b); }), "[at " + Line(kDoubledLine)));
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

TEST_F(ErrorLines, ForeignPlacesAreLookedUpWhenShown) {
  static int lookups = 0;
  static const char code = 0;
  auto lookup = [](const void*, uint32_t instruction) {
    ++lookups;
    return ForeignPlace::Line{"/home/someone/train.py", instruction / 2};
  };
  LocationId id = InternLocation(ForeignPlace{lookup, &code, 24});
  EXPECT_EQ(InternLocation(ForeignPlace{lookup, &code, 24}), id);
  EXPECT_NE(InternLocation(ForeignPlace{lookup, &code, 26}), id);
  LocationScope scope(id);
  Tensor y = a + 1.0f;
  EXPECT_EQ(lookups, 0) << "recording needs no text";
  EXPECT_TRUE(Contains(y.summary(), "from add at train.py:12"));
  EXPECT_TRUE(Contains(TextOf([&] { a.view({7}); }), "[at train.py:12]"));
  EXPECT_EQ(lookups, 1);
}

TEST_F(ErrorLines, ForeignCallsHaveThePathOfAModuleElseTheFunction) {
  static const char code = 0;
  auto lookup = [](const void*, uint32_t) {
    return ForeignPlace::Line{"/home/someone/net.py", 12};
  };
  const ForeignPlace place{lookup, &code, 2};
  ForeignFrames net = InternFrames(nullptr, "top(Net)::forward", "train.py:3");
  ForeignFrames layer = InternFrames(net, "encoder.2(Block)::forward", "net.py:9");
  EXPECT_EQ(InternFrames(nullptr, "top(Net)::forward", "train.py:3"), net);
  LocationId inside = InternLocation(ForeignCall{place, layer, "forward"});
  EXPECT_NE(InternLocation(ForeignCall{place, net, "forward"}), inside);
  {
    LocationScope scope(inside);
    EXPECT_TRUE(Contains(TextOf([&] { a.view({7}); }), "[at net.py:12 in encoder.2]"));
  }
  EXPECT_EQ(FunctionName(inside), "forward");
  std::vector<ModuleFrame> frames = FramesOf(inside);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[1], (ModuleFrame{"encoder.2(Block)::forward", "net.py:9"}));
  LocationId alone = InternLocation(ForeignCall{.place = place, .function = "forward"});
  EXPECT_EQ(WhereText(alone), "net.py:12 in forward()");
  EXPECT_EQ(LocationText(alone), "net.py:12");
  EXPECT_EQ(FunctionName(0), "");
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
