/// Support vector machines of ai.onnx.ml.

#include <algorithm>

#include "onnx/operators/learning.h"
#include "ops/primitives/loop.h"

namespace hammock::onnx {
namespace {

/// The kernel of each sample with each vector: (samples, vectors).
Tensor KernelOf(const Call& c, const Tensor& x, const Tensor& vectors, const std::string& kind) {
  std::vector<float> given = c.FloatList("kernel_params");
  auto parameter = [&](size_t i) { return i < given.size() ? static_cast<double>(given[i]) : 0.0; };
  double gamma = parameter(0), offset = parameter(1), degree = parameter(2);
  if (kind == "RBF") {
    Tensor apart = x.unsqueeze(1) - vectors.unsqueeze(0);
    return exp(sum(apart * apart, {-1}) * -gamma);
  }
  Tensor products = matmul(x, vectors.t());
  if (kind == "LINEAR") return products;
  if (kind == "POLY") return pow(products * gamma + offset, degree);
  if (kind == "SIGMOID") return tanh(products * gamma + offset);
  c.Fail("kernel '{}'", kind);
}

Tensor Row(const Call& c, const char* name, int64_t count) {
  std::vector<float> values = c.FloatList(name);
  if (static_cast<int64_t>(values.size()) < count) {
    c.Fail("'{}' has {} numbers, needs {}", name, values.size(), count);
  }
  values.resize(static_cast<size_t>(count));
  return VectorOf(c, values, {count});
}

Tensor Matrix(const Call& c, const char* name, int64_t rows) {
  std::vector<float> values = c.FloatList(name);
  auto all = static_cast<int64_t>(values.size());
  if (rows < 1 || all % rows != 0) c.Fail("'{}' has {} numbers for {} rows", name, all, rows);
  return VectorOf(c, values, {rows, all / rows});
}

/// Samples in rows.
Tensor Samples(const Call& c) {
  Tensor x = c[0].to(DType::kF32);
  return x.dim() == 1 ? x.unsqueeze(0) : x;
}

Values SvmRegressor(Call& c) {
  Tensor x = Samples(c), y;
  int64_t count = c.Int("n_supports", 0);
  if (count > 0) {
    Tensor kernel =
        KernelOf(c, x, Matrix(c, "support_vectors", count), c.Text("kernel_type", "LINEAR"));
    y = matmul(kernel, Row(c, "coefficients", count).unsqueeze(1));
  } else {
    y = matmul(x, Row(c, "coefficients", x.size(1)).unsqueeze(1));
  }
  y = y + Row(c, "rho", 1);
  if (c.Int("one_class", 0)) return {where(y > 0, ones_like(y), -ones_like(y))};
  return {PostTransformed(c, y)};
}

/// Classes in pairs (first, second), the first being the lower one.
struct Pairs {
  std::vector<int64_t> first, second;
  int64_t count() const { return static_cast<int64_t>(first.size()); }
};

Pairs PairsOf(int64_t classes) {
  Pairs pairs;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j) {
      pairs.first.push_back(i);
      pairs.second.push_back(j);
    }
  }
  return pairs;
}

/// (vectors, pairs): the coefficient of a vector in the decision between two classes. A vector of
/// class i has one for each other class j, in row j of the attribute, or j - 1 after its own class.
Tensor PairWeights(const Call& c, const std::vector<int64_t>& per_class, const Pairs& pairs) {
  std::vector<float> given = c.FloatList("coefficients");
  int64_t vectors = 0;
  std::vector<int64_t> start;
  for (int64_t count : per_class) {
    start.push_back(vectors);
    vectors += count;
  }
  CheckListed(c, vectors * pairs.count());
  std::vector<float> table(static_cast<size_t>(vectors * pairs.count()), 0.0f);
  for (int64_t p = 0; p < pairs.count(); ++p) {
    auto at = static_cast<size_t>(p);
    auto fill = [&](int64_t own, int64_t row) {
      auto of = static_cast<size_t>(own);
      for (int64_t v = start[of]; v < start[of] + per_class[of]; ++v) {
        table[static_cast<size_t>(v * pairs.count() + p)] =
            given.at(static_cast<size_t>(row * vectors + v));
      }
    };
    fill(pairs.first[at], pairs.second[at] - 1);
    fill(pairs.second[at], pairs.first[at]);
  }
  return VectorOf(c, table, {vectors, pairs.count()});
}

/// (pairs, classes): 1 where a class is the one of the pair.
Tensor Membership(const Call& c, const std::vector<int64_t>& members, int64_t classes) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < classes; ++i) all.push_back(i);
  return eq(VectorOf(c, members).unsqueeze(1), VectorOf(c, all)).to(DType::kF32);
}

/// Probabilities of classes from those of pairs, by Wu, Lin and Weng's second method: each class in
/// turn takes the value that is best given the others, until nothing moves or 100 iterations are
/// over.
Tensor Coupled(const Call& c, const Tensor& pair, const Pairs& pairs, int64_t classes) {
  int64_t samples = pair.size(0);
  // r[i][j]: class i rather than class j.
  Tensor first = Membership(c, pairs.first, classes), second = Membership(c, pairs.second, classes);
  Tensor one = first.unsqueeze(2) * second.unsqueeze(1);  // (pairs, classes, classes)
  Tensor flat = one.reshape({pairs.count(), classes * classes});
  Tensor back = one.transpose(1, 2).reshape({pairs.count(), classes * classes});
  Tensor r = (matmul(pair, flat) + matmul(1 - pair, back)).reshape({samples, classes, classes});
  Tensor transposed = r.transpose(1, 2);
  Tensor q = diag_embed(sum(transposed * transposed, {2})) - transposed * r;
  double enough = 0.005 / static_cast<double>(classes);
  ops::LoopOperands operands;
  operands.carried = {
      full({samples, classes}, 1.0 / static_cast<double>(classes), DType::kF32, c.device())};
  operands.invariant = {q};
  constexpr int64_t kIterations = 100;
  auto iterate = [&](const ops::LoopStep& s) -> std::vector<Tensor> {
    Tensor p = s.carried[0];
    const Tensor& matrix = s.invariant[0];
    Tensor qp = matmul(matrix, p.unsqueeze(2)).squeeze(2);
    Tensor total = sum(p * qp, {1}, true);
    Tensor still = amax(abs(qp - total), {1}, true) >= enough;
    Tensor next = p;
    for (int64_t t = 0; t < classes; ++t) {
      Tensor column = narrow(qp, 1, t, 1), own = select(narrow(matrix, 1, t, 1), 2, t);
      Tensor move = (total - column) / own;
      Tensor unit = eq(arange(classes, DType::kI64, c.device()), t).to(DType::kF32);
      next = (next + unit * move) / (1 + move);
      total = (total + move * (move * own + 2 * column)) / ((1 + move) * (1 + move));
      qp = (qp + move * select(matrix, 1, t)) / (1 + move);
    }
    return {where(still, next, p)};
  };
  return ops::Loop(kIterations, operands, iterate)[0];
}

Values SvmClassifier(Call& c) {
  Tensor x = Samples(c);
  std::vector<int64_t> per_class = c.IntList("vectors_per_class");
  auto classes = static_cast<int64_t>(
      std::max(c.IntList("classlabels_ints").size(), c.TextList("classlabels_strings").size()));
  int64_t vectors = 0;
  for (int64_t count : per_class) {
    CheckListed(c, count);
    vectors += count;
  }
  if (vectors == 0) {  // one row of coefficients a class
    Tensor scores = matmul(x, Matrix(c, "coefficients", classes).t()) + Row(c, "rho", 1);
    return {LabelsAt(c, "classlabels_ints", argmax(scores, -1)), PostTransformed(c, scores)};
  }
  if (static_cast<int64_t>(per_class.size()) != classes || classes < 2) {
    c.Fail("{} classes and vectors of {}", classes, per_class.size());
  }
  CheckListed(c, classes * (classes - 1) / 2);
  Pairs pairs = PairsOf(classes);
  Tensor kernel =
      KernelOf(c, x, Matrix(c, "support_vectors", vectors), c.Text("kernel_type", "LINEAR"));
  Tensor decisions =
      matmul(kernel, PairWeights(c, per_class, pairs)) + Row(c, "rho", pairs.count());
  Tensor won = (decisions > 0).to(DType::kF32);
  Tensor votes = matmul(won, Membership(c, pairs.first, classes)) +
                 matmul(1 - won, Membership(c, pairs.second, classes));
  Value labels = LabelsAt(c, "classlabels_ints", argmax(votes, -1));
  if (!c.FloatList("prob_a").empty()) {
    Tensor pair =
        1 - sigmoid(decisions * Row(c, "prob_a", pairs.count()) + Row(c, "prob_b", pairs.count()));
    constexpr double kLeast = 1e-7;
    pair = clamp(pair, kLeast, 1 - kLeast);
    Tensor scores = classes == 2 ? cat({pair, 1 - pair}, 1) : Coupled(c, pair, pairs, classes);
    return {labels, PostTransformed(c, scores)};
  }
  if (classes == 2) decisions = cat({-decisions, decisions}, 1);
  return {labels, PostTransformed(c, decisions)};
}

constexpr Operator kRows[] = {
    {"SVMClassifier", 1, kNewestLearning, SvmClassifier, Needs::kNothing, kLearning},
    {"SVMRegressor", 1, kNewestLearning, SvmRegressor, Needs::kNothing, kLearning},
};

}  // namespace

std::span<const Operator> SvmOperators() { return kRows; }

}  // namespace hammock::onnx
