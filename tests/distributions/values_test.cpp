// Densities, moments, entropies and divergences against those of PyTorch in pytorch.json.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "distributions/parameters.h"
#include "hammock/distributions.h"
#include "hammock/hammock.h"
#include "nlohmann/json.hpp"
#include "support/source_path.h"
#include "support/tensor_matchers.h"

namespace hammock::distributions {
namespace {

using Json = nlohmann::json;
using Tensors = std::vector<Tensor>;
using Made = std::shared_ptr<const Distribution>;

const Json& Expected() {
  static const Json json = [] {
    std::ifstream file(testing::SourcePath("tests/distributions/pytorch.json"));
    return Json::parse(file);
  }();
  return json;
}

double NumberOf(const Json& value) {
  return value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
}

void ExpectValues(const Tensor& got, const Json& expected, const char* what) {
  std::vector<double> values = got.detach().to_vector<double>();
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    double value = NumberOf(expected[i]);
    if (std::isnan(value) || std::isinf(value)) {
      EXPECT_TRUE(std::isnan(value) ? std::isnan(values[i]) : values[i] == value)
          << what << " at " << i << " is " << values[i];
    } else {
      EXPECT_NEAR(values[i], value, 1e-7 * (1 + std::abs(value))) << what << " at " << i;
    }
  }
}

Tensor Row(std::vector<double> values) { return tensor(values); }
Tensor Rows(std::vector<double> values) { return tensor(values, {2, 3}); }

/// A distribution by its parameters, a value, and the parameters of another one of its class.
struct Case {
  std::function<Made(const Tensors&)> make;
  Tensors parameters;
  Tensor value;
  Tensors other = {};
};

template <class D>
Made One(const Tensors& in) {
  return std::make_shared<D>(in[0]);
}
template <class D>
Made Two(const Tensors& in) {
  return std::make_shared<D>(in[0], in[1]);
}

std::map<std::string, Case> Cases() {
  Tensor a = Row({0.5, 1.5, 3.0}), b = Row({2.0, 0.7, 1.1});
  Tensor p = Row({0.2, 0.7, 0.4}), r = Row({0.6, 0.1, 0.5});
  Tensor ab = stack({a, b}, 0), ba = stack({b, a}, 0);
  Tensor rows = Rows({0.2, 0.5, 0.3, 0.6, 0.1, 0.3}), others = Rows({0.1, 0.4, 0.5, 0.3, 0.3, 0.4});
  Tensor real = Row({0.1, -2.0, 4.0}), positive = Row({0.1, 2.0, 4.0});
  Tensor unit = Row({0.25, 0.5, 0.9});
  Tensor matrix =
      tensor(std::vector<double>{2.0, 0.3, 0.1, 0.3, 1.5, -0.2, 0.1, -0.2, 0.8}, {3, 3});
  Tensor matrix2 = tensor(std::vector<double>{1.0, 0.1, 0.0, 0.1, 1.2, 0.3, 0.0, 0.3, 0.9}, {3, 3});
  auto student = [](const Tensors& in) { return std::make_shared<StudentT>(in[0], in[1], in[2]); };
  auto multinomial = [](const Tensors& in) { return std::make_shared<Multinomial>(5, in[0]); };
  auto binomial = [](const Tensors& in) { return std::make_shared<Binomial>(4, in[0]); };
  auto independent = [](const Tensors& in) {
    return std::make_shared<Independent>(Normal(in[0], in[1]), 1);
  };
  auto squashed = [](const Tensors& in) {
    return std::make_shared<TransformedDistribution>(
        Normal(in[0], in[1]),
        std::vector<Transform>{TanhTransform(), AffineTransform(1.0, 2.0), SigmoidTransform()});
  };
  auto softplus = [](const Tensors& in) {
    return std::make_shared<TransformedDistribution>(
        Normal(in[0], in[1]),
        std::vector<Transform>{SoftplusTransform(), ExpTransform(), PowerTransform(2.0)});
  };
  return {
      {"Normal", {Two<Normal>, {a, b}, real, {b, a}}},
      {"LogNormal", {Two<LogNormal>, {a, b}, positive, {b, a}}},
      {"Uniform",
       {Two<Uniform>,
        {Row({-1, 0, 2}), Row({1, 3, 2.5})},
        Row({0.5, 1, 2.25}),
        {Row({-2, 0.5, 2}), Row({1.5, 4, 2.5})}}},
      {"Laplace", {Two<Laplace>, {a, b}, real, {b, a}}},
      {"Cauchy", {Two<Cauchy>, {a, b}, real}},
      {"Gumbel", {Two<Gumbel>, {a, b}, real, {b, a}}},
      {"Gamma", {Two<Gamma>, {a, b}, positive, {b, a}}},
      {"Beta", {Two<Beta>, {a, b}, unit, {b, a}}},
      {"Exponential", {One<Exponential>, {a}, positive, {b}}},
      {"StudentT", {student, {Row({0.8, 1.7, 5.0}), a, b}, real}},
      {"Bernoulli", {One<Bernoulli>, {p}, Row({1, 0, 1}), {r}}},
      {"Categorical", {One<Categorical>, {rows}, tensor({2, 0}), {others}}},
      {"Multinomial", {multinomial, {rows}, Rows({1, 3, 1, 5, 0, 0})}},
      {"Binomial", {binomial, {p}, Row({0, 3, 4}), {r}}},
      {"Geometric", {One<Geometric>, {p}, Row({0, 3, 1}), {r}}},
      {"Poisson", {One<Poisson>, {Row({0.5, 4, 30})}, Row({0, 3, 28}), {Row({1.5, 3, 33})}}},
      {"Dirichlet", {One<Dirichlet>, {ab}, Rows({0.2, 0.5, 0.3, 0.1, 0.1, 0.8}), {ba}}},
      {"MultivariateNormal",
       {Two<MultivariateNormal>, {ab, matrix}, Rows({0.1, 1, -1, 2, 0, 0.5}), {ba, matrix2}}},
      {"Independent", {independent, {a, b}, Rows({0.1, -2, 4, 1, 1, 1}), {b, a}}},
      {"TransformedDistribution", {squashed, {a, b}, Row({0.3, 0.5, 0.94})}},
      {"Softplus", {softplus, {a, b}, Row({1.3, 1.5, 6.0})}},
  };
}

void ExpectMoments(const Distribution& distribution, const Json& expected) {
  if (expected.contains("mean")) {
    ExpectValues(distribution.mean(), expected["mean"], "mean");
    ExpectValues(distribution.variance(), expected["variance"], "variance");
    ExpectValues(distribution.stddev(), expected["stddev"], "stddev");
  }
  if (expected.contains("entropy")) {
    ExpectValues(distribution.entropy(), expected["entropy"], "entropy");
  }
}

TEST(Distributions, GivePyTorchsValues) {
  auto cases = Cases();
  for (auto& [name, test] : cases) {
    SCOPED_TRACE(name);
    const Json& expected = Expected()[name];
    for (Tensor& parameter : test.parameters) parameter = parameter.clone().requires_grad_();
    Made made = test.make(test.parameters);
    EXPECT_EQ(made->batch_shape().vec(), expected["batch"].get<std::vector<int64_t>>());
    EXPECT_EQ(made->event_shape().vec(), expected["event"].get<std::vector<int64_t>>());
    Tensor log_prob = made->log_prob(test.value);
    ExpectValues(log_prob, expected["log_prob"], "log_prob");
    log_prob.sum().backward();
    for (size_t i = 0; i < test.parameters.size(); ++i) {
      ExpectValues(test.parameters[i].grad(), expected["grads"][i], "gradient");
    }
    NoGradGuard no_grad;  // igamma has no gradient of its first operand
    ExpectMoments(*made, expected);
    bool transformed = dynamic_cast<const TransformedDistribution*>(made.get()) != nullptr;
    if (expected.contains("cdf") && !transformed) {
      ExpectValues(made->cdf(test.value), expected["cdf"], "cdf");
    }
    if (expected.contains("icdf") && !transformed) {
      ExpectValues(made->icdf(Row({0.25, 0.5, 0.9})), expected["icdf"], "icdf");
    }
    if (expected.contains("kl")) {
      ExpectValues(kl_divergence(*made, *test.make(test.other)), expected["kl"], "kl");
    }
  }
  EXPECT_EQ(cases.size() + 1, Expected().size());
}

TEST(Distributions, GradientsOfGammaDrawsArePyTorchs) {
  Tensor alphas = Row({0.1, 0.5, 0.9, 1.0, 2.0, 5.0, 7.9, 8.1, 20.0, 100.0}).unsqueeze(-1);
  Tensor draws = Row({0.05, 0.3, 0.79, 0.81, 1.5, 4.0, 8.0, 19.0, 30.0, 105.0});
  std::vector<Tensor> both = broadcast_tensors({alphas, draws});
  Tensor grads = StandardGammaGrad(both[0], both[1]);
  std::vector<double> values = grads.to_vector<double>();
  ASSERT_EQ(values.size(), Expected()["gamma_grad"].size());
  for (size_t i = 0; i < values.size(); ++i) {
    double expected = NumberOf(Expected()["gamma_grad"][i]);
    EXPECT_NEAR(values[i], expected, 1e-6 * (1 + std::abs(expected))) << i;
  }
}

TEST(Distributions, TakeNumbersAndTensors) {
  Normal standard(0.0, 1.0);
  EXPECT_EQ(standard.batch_shape().size(), 0);
  EXPECT_NEAR(standard.log_prob(tensor(0.0)).item<double>(), -0.9189385, 1e-6);
  Normal wide(0, Row({1, 2}));
  EXPECT_EQ(wide.loc().dtype(), DType::kF64);
  EXPECT_EQ(wide.sample({4}).sizes(), (Dims{4, 2}));
  EXPECT_EQ(kl_divergence(wide, Normal(0.0, 1.0)).sizes(), (Dims{2}));
}

TEST(Distributions, OfLogits) {
  Tensor logits = Row({-1, 0, 2});
  EXPECT_TENSOR_NEAR(Bernoulli::from_logits(logits).probs(), sigmoid(logits));
  Categorical classes = Categorical::from_logits(logits);
  EXPECT_TENSOR_NEAR(classes.probs(), softmax(logits, 0));
  EXPECT_TENSOR_NEAR(classes.log_prob(tensor({2, 0})),
                     log_softmax(logits, 0).index({tensor({2, 0})}));
  Tensor factor = tensor({{1.0, 0.0}, {0.5, 2.0}});
  MultivariateNormal normal = MultivariateNormal::from_scale_tril(zeros({2}), factor);
  EXPECT_TENSOR_NEAR(normal.covariance_matrix(), tensor({{1.0, 0.5}, {0.5, 4.25}}));
}

TEST(Distributions, RefuseParametersWithoutMeaning) {
  EXPECT_THROW_MESSAGE(Normal(0.0, 0.0), ValueError, "Normal: scale must be positive, not 0");
  EXPECT_THROW_MESSAGE(Gamma(-1, 1), ValueError, "Gamma: concentration must be positive, not -1");
  EXPECT_THROW_MESSAGE(Bernoulli(1.5), ValueError, "Bernoulli: probs must be in [0, 1], not 1.5");
  EXPECT_THROW_MESSAGE(Geometric(-0.5), ValueError, "Geometric: probs must be in [0, 1]");
  EXPECT_THROW_MESSAGE(Normal(0.0, std::nan("")), ValueError, "scale must be positive");
  EXPECT_THROW_MESSAGE(Geometric(0), ValueError, "Geometric: probs must be in (0, 1], not 0");
  EXPECT_THROW_MESSAGE(Uniform(1, 0), ValueError, "Uniform: low must be below high, not 1 and 0");
  EXPECT_THROW_MESSAGE(Uniform(1, 1), ValueError, "Uniform: low must be below high");
  EXPECT_THROW_MESSAGE(Poisson(-1), ValueError, "Poisson: rate must not be negative, not -1");
  EXPECT_EQ(Poisson(0).sample().item<double>(), 0);
  EXPECT_THROW_MESSAGE(Dirichlet(tensor(1.0)), ValueError, "Dirichlet: the parameter has no dim");
  EXPECT_THROW_MESSAGE(Uniform(Row({0, 2}), 1).sample().host(), DeviceError,
                       "Uniform: low must be below high");
  EXPECT_THROW_MESSAGE(Poisson(Row({1, -1})).sample().host(), DeviceError,
                       "Poisson: rate must not be negative");
  EXPECT_THROW_MESSAGE(Dirichlet(Row({1, -1})).sample().host(), DeviceError,
                       "Dirichlet: concentration must be positive");
  // Of tensors when their values are known.
  EXPECT_THROW_MESSAGE(Normal(0.0, Row({1, -1})).sample().host(), DeviceError,
                       "Normal: scale must be positive");
  EXPECT_THROW_MESSAGE(Beta(Row({1, 0}), 1.0).log_prob(Row({0.5, 0.5})).host(), DeviceError,
                       "Beta: concentration1 must be positive");
  EXPECT_THROW_MESSAGE(Bernoulli(Row({0.5, 2})).log_prob(Row({0, 1})).host(), DeviceError,
                       "Bernoulli: probs must be in [0, 1]");
  Tensor drawn = Categorical(Row({1, -1})).sample();
  EXPECT_THROW_MESSAGE(drawn.host(), DeviceError,
                       "Categorical: probs must not be negative, and some be positive");
  EXPECT_THROW_MESSAGE(drawn.host(), DeviceError, "[at values_test");
  EXPECT_THROW_MESSAGE(Categorical(Row({0, 0})).log_prob(tensor(1)).host(), DeviceError,
                       "Categorical: probs must not be negative, and some be positive");
}

TEST(Distributions, RefuseValuesOutsideOfTheirSupport) {
  EXPECT_THROW_MESSAGE(Beta(2.0, 2.0).log_prob(tensor(1.5)).item(), DeviceError,
                       "Beta: values must be in [0, 1]");
  EXPECT_THROW_MESSAGE(Gamma(2.0, 2.0).log_prob(tensor(-1.0)).item(), DeviceError,
                       "Gamma: values must not be negative");
  EXPECT_THROW_MESSAGE(LogNormal(0.0, 1.0).log_prob(tensor(-1.0)).item(), DeviceError,
                       "LogNormal: values must not be negative");
}

TEST(Distributions, SayWhatTheyDoNotHave) {
  EXPECT_THROW_MESSAGE(Bernoulli(0.5).rsample(), NotSupported, "Bernoulli has no rsample");
  EXPECT_THROW_MESSAGE(Gamma(1.0, 1.0).icdf(tensor(0.5)), NotSupported, "Gamma has no icdf");
  EXPECT_THROW_MESSAGE(kl_divergence(Normal(0.0, 1.0), Gamma(1.0, 1.0)), NotSupported,
                       "kl_divergence: none is known of Normal from Gamma");
  EXPECT_THROW_MESSAGE(Independent(Normal(0.0, 1.0), 1), ValueError, "1 of the 0 batch dims");
  EXPECT_THROW_MESSAGE(Binomial(-1, 0.5), ValueError, "total_count is -1");
  EXPECT_THROW_MESSAGE(MultivariateNormal(zeros({2}), ones({3, 3})), ValueError,
                       "f32[3,3] is no matrix for a mean of f32[2]");
}

TEST(Distributions, OfTheUserHaveDivergences) {
  struct Point : Normal {
    Point() : Normal(0.0, 1.0) {}
    std::string name() const override { return "Point"; }
  };
  register_kl<Point, Normal>([](const Point&, const Normal& q) { return q.scale() * 7.0; });
  EXPECT_EQ(kl_divergence(Point(), Normal(0.0, 2.0)).item<float>(), 14);
}

}  // namespace
}  // namespace hammock::distributions
