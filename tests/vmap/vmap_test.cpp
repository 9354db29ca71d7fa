// vmap, and what is made of it: values, gradients inside and outside, random ops, control flow,
// costs and errors.

#include <gtest/gtest.h>

#include <algorithm>

#include "hammock/custom_call.h"
#include "hammock/hammock.h"
#include "hammock/op_builder.h"
#include "hammock/ops/quantize.h"
#include "hammock/testing.h"
#include "ir/primitives.h"
#include "ops/primitives/loop.h"
#include "support/tensor_matchers.h"
#include "trace/symbolic.h"

namespace hammock {
namespace {

using ops::Loop;
using ops::LoopStep;
using Tensors = std::vector<Tensor>;
constexpr auto kNone = std::nullopt;

Tensor Numbers(const Dims& sizes, double phase) {
  int64_t count = Shape(DType::kBool, sizes).numel();
  return sin(arange(count).to(DType::kF64) * 0.7 + phase).reshape(sizes);
}

/// `fn` of each row of `x`.
template <class Fn>
Tensor Rows(const Fn& fn, const Tensor& x) {
  Tensors rows;
  for (int64_t i = 0; i < x.size(0); ++i) rows.push_back(fn(x[i]));
  return stack(rows);
}

Attr Body(std::vector<Shape> types, const std::function<Tensors(std::span<const Tensor>)>& fn) {
  return std::make_shared<const Graph>(TraceSymbolically(types, fn));
}

// ---- values

TEST(Vmap, MapsOverTheGivenDims) {
  Tensor a = Numbers({3, 4}, 0.1), b = Numbers({4, 3}, 0.7);
  auto dot = [](const Tensor& x, const Tensor& y) { return (x * y).sum(); };
  EXPECT_TENSOR_EQ(vmap(dot, {0, 1})(a, b), (a * b.t()).sum(1));
  EXPECT_TENSOR_EQ(vmap(dot, {-2, -1})(a, b), (a * b.t()).sum(1));
  EXPECT_TENSOR_EQ(vmap(dot, {0, kNone})(a, b.select(1, 0)), (a * b.select(1, 0)).sum(1));
}

TEST(Vmap, PlacesResultsAtTheGivenDims) {
  Tensor a = Numbers({3, 4}, 0.1);
  auto twice = [](const Tensor& x) { return Tensors{x * 2.0, x.sum()}; };
  Tensors results = vmap(twice, {0}, {1, 0})(a);
  EXPECT_TENSOR_EQ(results[0], (a * 2.0).t().contiguous());
  EXPECT_EQ(results[1].sizes(), Dims{3});
  EXPECT_EQ(vmap([](const Tensor& x) { return x.outer(x); }, {0}, {-1})(a).sizes(),
            (Dims{4, 4, 3}));
}

TEST(Vmap, RepeatsWhatAllSamplesShare) {
  Tensor w = Numbers({2}, 0.3);
  auto fn = [&](const Tensor&) { return w * 2.0; };
  EXPECT_TENSOR_EQ(vmap(fn)(zeros({3})), (w * 2.0).unsqueeze(0).expand({3, 2}).contiguous());
  EXPECT_TENSOR_EQ(vmap(fn, {0}, {kNone})(zeros({3})), w * 2.0);
}

TEST(Vmap, Nests) {
  Tensor a = Numbers({3, 4}, 0.1), b = Numbers({5, 4}, 0.7);
  auto distance = [](const Tensor& x, const Tensor& y) { return (x - y).norm(); };
  Tensor pairs = vmap(vmap(distance, {kNone, 0}), {0, kNone})(a, b);
  EXPECT_TENSOR_NEAR(pairs, cdist(a, b).to_vector<double>(), Dims({3, 5}));
  // The inner function uses what only the outer one maps.
  auto inner = [&](const Tensor& x) {
    Tensor half = x * 0.5;
    return vmap([&](const Tensor& y) { return (half * y).sum() + half.sum(); })(b);
  };
  EXPECT_TENSOR_NEAR(vmap(inner)(a),
                     ((a * 0.5).matmul(b.t()) + (a * 0.5).sum(1, true)).to_vector<double>(),
                     Dims({3, 5}));
}

TEST(Vmap, TakesAVectorOfTensors) {
  TensorsFn fn = [](const Tensors& in) { return Tensors{in[0] + in[1], in[0] * in[1]}; };
  Tensor a = Numbers({3, 2}, 0.1), b = Numbers({3, 2}, 0.5);
  Tensors results = vmap(fn)(Tensors{a, b});
  EXPECT_TENSOR_EQ(results[0], a + b);
  EXPECT_TENSOR_EQ(results[1], a * b);
}

TEST(Vmap, ReturnsTuples) {
  auto fn = [](const Tensor& x) { return std::pair(x * 2.0, x.sum()); };
  auto [twice, sums] = vmap(fn)(ones({3, 2}));
  EXPECT_TENSOR_EQ(twice, full({3, 2}, 2.0));
  EXPECT_TENSOR_EQ(sums, {2, 2, 2}, {3});
}

TEST(Vmap, KeepsDTypesOfNumbersAndZeroDims) {
  // A 0-d f64 sample does not promote an f32 tensor, though the batch is 1-d.
  Tensor numbers = tensor({1.0, 2.0}, f64), x = ones({3}, f32);
  Tensor result = vmap([&](const Tensor& n) { return x * n; })(numbers);
  EXPECT_EQ(result.dtype(), f32);
  EXPECT_TENSOR_EQ(result, {1, 1, 1, 2, 2, 2}, {2, 3});
}

TEST(Vmap, SeesViewsAndWrites) {
  Tensor a = Numbers({3, 4}, 0.1);
  auto fn = [](const Tensor& x) {
    Tensor y = x.clone();
    y.slice(0, 1, 3).mul_(2.0);
    y[0] = 7.0;
    return y;
  };
  EXPECT_TENSOR_EQ(vmap(fn)(a), Rows(fn, a));
  Tensor written = a.clone();
  auto add = [](Tensor x) { return x.add_(1.0); };
  EXPECT_TENSOR_EQ(vmap(add)(written), a + 1.0);
  EXPECT_TENSOR_EQ(written, a + 1.0);
}

TEST(Vmap, TakesIndicesThatDiffer) {
  Tensor table = Numbers({5, 2}, 0.2), index = tensor({{0, 4}, {3, 3}, {1, 2}});
  auto rows = [&](const Tensor& i) { return embedding(i, table); };
  EXPECT_TENSOR_EQ(vmap(rows)(index), Rows(rows, index));
  auto at = [&](const Tensor& i) { return table.index({i}); };
  EXPECT_TENSOR_EQ(vmap(at)(index), Rows(at, index));
  Tensor starts = tensor({0, 2, 3});
  auto part = [&](const Tensor& start) {
    return Apply(ops::kDynamicSlice, Location::current(), {table, start}, {0, 2, 1});
  };
  EXPECT_TENSOR_EQ(vmap(part)(starts), Rows(part, starts));
}

TEST(Vmap, RunsInEagerMode) {
  EagerMode eager;
  Tensor a = Numbers({3, 4}, 0.1);
  EXPECT_TENSOR_EQ(vmap([](const Tensor& x) { return x.exp().sum(); })(a), a.exp().sum(1));
}

TEST(Vmap, InChunks) {
  Tensor a = Numbers({5, 4}, 0.1);
  int calls = 0;
  TensorsFn fn = [&](const Tensors& in) {
    ++calls;
    return Tensors{in[0].exp(), in[0].sum()};
  };
  Tensors results = MapOver(fn, {a}, {.out_dims = {1, 0}, .chunk_size = 2});
  EXPECT_EQ(calls, 3);
  EXPECT_TENSOR_EQ(results[0], a.exp().t().contiguous());
  EXPECT_TENSOR_EQ(results[1], a.sum(1));
  EXPECT_THROW_MESSAGE(MapOver(fn, {a}, {.chunk_size = 0}), ValueError, "needs at least 1");
}

TEST(Vmap, OfNoSamples) {
  EXPECT_EQ(vmap([](const Tensor& x) { return x.matmul(x); })(zeros({0, 2, 2})).sizes(),
            (Dims{0, 2, 2}));
}

TEST(Vmap, CanBeCompiled) {
  auto step = compile([](const Tensor& batch) {
    return vmap([](const Tensor& x) { return x.sin().sum(); })(batch);
  });
  Tensor a = Numbers({3, 4}, 0.1);
  for (int i = 0; i < 3; ++i) EXPECT_TENSOR_EQ(step(a), a.sin().sum(1));
}

// ---- gradients

TEST(VmapGradient, OfEachSampleInside) {
  Tensor w = Numbers({4}, 0.4), x = Numbers({3, 4}, 0.1);
  auto loss = [](const Tensor& w, const Tensor& x) { return (w * x).sum().tanh(); };
  auto gradient = [&](const Tensor& x) {
    Tensor leaf = w.detach().requires_grad_();
    return grad({loss(leaf, x)}, {leaf})[0];
  };
  EXPECT_TENSOR_NEAR(vmap(gradient)(x), Rows(gradient, x).to_vector<double>(), Dims({3, 4}));
}

TEST(VmapGradient, FlowsThroughToArgumentsAndWhatIsCaptured) {
  Tensor a = Numbers({3, 4}, 0.1), w = Numbers({4, 2}, 0.6), b = Numbers({2}, 1.1);
  TensorsFn fn = [](const Tensors& in) {
    auto layer = [&](const Tensor& x) { return (x.matmul(in[1]) + in[2]).tanh(); };
    return Tensors{vmap(layer)(in[0])};
  };
  EXPECT_EQ(testing::Gradcheck(fn, {a, w, b}), "");
  EXPECT_EQ(testing::Gradgradcheck(fn, {a, w, b}, {1e-5, 1e-4, 1e-3}), "");
}

TEST(VmapGradient, OfGradientsInside) {
  Tensor a = Numbers({3, 4}, 0.1), w = Numbers({4}, 0.6);
  TensorsFn fn = [](const Tensors& in) {
    auto slope = [&](const Tensor& x) {
      Tensor leaf = x.requires_grad() ? x.view_as(x) : x.detach().requires_grad_();
      return grad({(leaf * in[1]).sin().sum()}, {leaf}, {}, std::nullopt, true)[0];
    };
    return Tensors{vmap(slope)(in[0])};
  };
  EXPECT_EQ(testing::Gradcheck(fn, {a, w}), "");
}

TEST(VmapGradient, StopsWhereTheFunctionStopsIt) {
  Tensor x = Numbers({3, 4}, 0.1).requires_grad_();
  auto detached = [](const Tensor& row) { return (row.detach() * row).sum(); };
  Tensor g = grad({vmap(detached)(x).sum()}, {x})[0];
  EXPECT_TENSOR_EQ(g, x.detach());
  auto unrecorded = [](const Tensor& row) {
    NoGradGuard no_grad;
    return row.exp();
  };
  EXPECT_FALSE(vmap(unrecorded)(x).requires_grad());
  auto part = [](const Tensor& row) {
    Tensor scale;
    {
      NoGradGuard no_grad;
      scale = row.sum();
    }
    return row * scale;
  };
  EXPECT_TENSOR_NEAR(grad({vmap(part)(x).sum()}, {x})[0],
                     x.detach().sum(1, true).expand({3, 4}).contiguous().to_vector<double>(),
                     Dims({3, 4}));
}

TEST(VmapGradient, OfACompositeIsItsOwn) {
  // The gradient of a norm at zero is zero by its record; its parts would give NaN.
  Tensor x = zeros({2, 3}, f64).requires_grad_();
  Tensor norms = vmap([](const Tensor& row) { return row.norm(); })(x);
  EXPECT_TENSOR_EQ(grad({norms.sum()}, {x})[0], zeros({2, 3}, f64));
}

TEST(VmapGradient, ThroughJvp) {
  Tensor x = Numbers({3, 4}, 0.1), t = Numbers({3, 4}, 0.9);
  auto along = [](const Tensor& x, const Tensor& t) {
    return jvp([](const Tensors& in) { return Tensors{in[0].sin() * in[0]}; }, {x}, {t}).second[0];
  };
  EXPECT_TENSOR_NEAR(vmap(along)(x, t), ((x.cos() * x + x.sin()) * t).to_vector<double>(),
                     Dims({3, 4}));
}

TEST(VmapGradient, ThroughCheckpoints) {
  Tensor x = Numbers({3, 4}, 0.1);
  auto gradient = [](const Tensor& row) {
    Tensor leaf = row.detach().requires_grad_();
    Tensors out = checkpoint([](const Tensors& in) { return Tensors{in[0].sin().exp()}; }, {leaf});
    return grad({out[0].sum()}, {leaf})[0];
  };
  EXPECT_TENSOR_NEAR(vmap(gradient)(x), (x.sin().exp() * x.cos()).to_vector<double>(),
                     Dims({3, 4}));
}

struct Doubled : autograd::Function<Doubled> {
  static Tensor forward(autograd::AutogradContext*, const Tensor& x) { return x * x; }
  static Tensors backward(autograd::AutogradContext*, Tensors grads) { return {grads[0] * 2.0}; }
};

TEST(VmapGradient, OfCustomFunctionsInside) {
  Tensor x = Numbers({3}, 0.1);
  auto gradient = [](const Tensor& x) {
    Tensor leaf = x.detach().requires_grad_();
    return grad({Doubled::apply(leaf)}, {leaf})[0];
  };
  EXPECT_TENSOR_EQ(vmap(gradient)(x), {2, 2, 2}, {3});
}

struct Scaled : autograd::Function<Scaled> {
  static Tensors forward(autograd::AutogradContext* context, const Tensor& x, const Tensor& w) {
    Tensor y = (x * w).exp();
    context->save_for_backward({x, w, y});
    return {y, x.sum()};
  }
  static Tensors backward(autograd::AutogradContext* context, Tensors grads) {
    Tensors saved = context->get_saved_variables();
    Tensor inner = grads[0] * saved[2];
    return {inner * saved[1] + grads[1], inner * saved[0]};
  }
};

TEST(VmapGradient, OfCustomFunctionsFromOutside) {
  Tensor doubled = Numbers({3}, 0.1).requires_grad_();
  vmap([](const Tensor& x) { return Doubled::apply(x) + x; })(doubled).sum().backward();
  EXPECT_TENSOR_EQ(doubled.grad(), {3, 3, 3}, {3});
  TensorsFn fn = [](const Tensors& in) {
    return Tensors{vmap([&](const Tensor& x) {
      Tensors results = Scaled::apply(x, in[1]);
      return results[0].sum() * results[1];
    })(in[0])};
  };
  EXPECT_EQ(testing::Gradcheck(fn, {Numbers({3, 2}, 0.4), Numbers({2}, 0.8)}), "");
  EXPECT_EQ(
      testing::Gradgradcheck(fn, {Numbers({3, 2}, 0.4), Numbers({2}, 0.8)}, {1e-5, 1e-4, 1e-3}),
      "");
}

// ---- Jacobians

TEST(Jacobian, OfBothModes) {
  Tensor w = Numbers({3, 4}, 0.2), x = Numbers({4}, 0.5);
  auto fn = [&](const Tensor& x) { return w.mv(x).sin(); };
  std::vector<double> expected = (w.mv(x).cos().unsqueeze(1) * w).contiguous().to_vector<double>();
  EXPECT_TENSOR_NEAR(jacrev(fn, x), expected, Dims({3, 4}));
  EXPECT_TENSOR_NEAR(jacfwd(fn, x), expected, Dims({3, 4}));
}

TEST(Jacobian, OfSeveralInputsAndOutputs) {
  TensorsFn fn = [](const Tensors& in) {
    return Tensors{in[0].outer(in[1]), in[0].sum(), ones({2}, f64)};
  };
  Tensors inputs = {Numbers({2}, 0.1), Numbers({3}, 0.4)};
  auto rev = jacrev(fn, inputs), fwd = jacfwd(fn, inputs);
  ASSERT_EQ(rev.size(), 3u);
  EXPECT_EQ(rev[0][1].sizes(), (Dims{2, 3, 3}));
  for (size_t i = 0; i < 3; ++i) {
    for (size_t k = 0; k < 2; ++k) EXPECT_TENSOR_EQ(rev[i][k], fwd[i][k]);
  }
  EXPECT_TENSOR_EQ(rev[1][0], {1, 1}, {2});
  EXPECT_TENSOR_EQ(rev[2][0], {0, 0, 0, 0}, {2, 2});
}

Tensor Pairs(const Tensor& x) { return view_as_real(x.contiguous()); }

TEST(Jacobian, OfHolomorphicFunctions) {
  Tensor z = complex(Numbers({4}, 0.5), Numbers({4}, 0.3));
  // A linear function is its own derivative.
  auto transform = [](const Tensor& x) { return fft_fft(x); };
  Tensor matrix = fft_fft(eye(4, c128), std::nullopt, 0);
  EXPECT_TENSOR_NEAR(Pairs(jacrev(transform, z)), Pairs(matrix).to_vector<double>(),
                     Dims({4, 4, 2}));
  EXPECT_TENSOR_NEAR(Pairs(jacfwd(transform, z)), Pairs(matrix).to_vector<double>(),
                     Dims({4, 4, 2}));
  auto fn = [](const Tensor& x) { return x * x * exp(x); };
  Tensor slope = diag((2.0 * z + z * z) * exp(z));
  EXPECT_TENSOR_NEAR(Pairs(jacrev(fn, z)), Pairs(slope).to_vector<double>(), Dims({4, 4, 2}));
  EXPECT_TENSOR_NEAR(Pairs(jacfwd(fn, z)), Pairs(slope).to_vector<double>(), Dims({4, 4, 2}));
}

TEST(Jacobian, OfComplexResultsOfRealNumbers) {
  Tensor x = Numbers({5}, 0.5);
  auto fn = [](const Tensor& x) { return fft_rfft(x * x); };
  Tensor expected = fft_rfft(diag(2.0 * x), std::nullopt, 0);
  EXPECT_TENSOR_NEAR(Pairs(jacrev(fn, x)), Pairs(expected).to_vector<double>(), Dims({3, 5, 2}));
  EXPECT_TENSOR_NEAR(Pairs(jacfwd(fn, x)), Pairs(expected).to_vector<double>(), Dims({3, 5, 2}));
}

TEST(Jacobian, OfRealResultsOfComplexNumbersIsRefused) {
  Tensor z = complex(ones({2}), ones({2}));
  auto square = [](const Tensor& x) { return abs(x); };
  EXPECT_THROW_MESSAGE(jacrev(square, z), TypeError, "differentiate by the parts, view_as_real");
  EXPECT_THROW_MESSAGE(jacfwd(square, z), TypeError, "differentiate by the parts, view_as_real");
  EXPECT_THROW_MESSAGE(hessian([](const Tensor& x) { return abs(x).sum(); }, z), TypeError,
                       "must be a floating tensor");
}

TEST(Jacobian, HessianOfLogisticRegression) {
  Tensor x = Numbers({6, 3}, 0.3), y = (Numbers({6}, 1.0) > 0).to(f64), w = Numbers({3}, 0.8);
  auto loss = [&](const Tensor& w) { return (softplus(x.mv(w)) - y * x.mv(w)).sum(); };
  Tensor p = x.mv(w).sigmoid();
  Tensor expected = x.t().matmul((p * (1.0 - p)).unsqueeze(1) * x);
  EXPECT_TENSOR_NEAR(hessian(loss, w), expected.to_vector<double>(), Dims({3, 3}));
}

TEST(Jacobian, HessianWhereScoresAreZero) {
  Tensor x = Numbers({6, 3}, 0.3), y = (Numbers({6}, 1.0) > 0).to(f64);
  std::vector<double> expected = (x.t().matmul(x) * 0.25).to_vector<double>();
  auto by_logits = [&](const Tensor& w) {
    return binary_cross_entropy_with_logits(x.mv(w), y, std::nullopt, "sum");
  };
  auto by_softplus = [&](const Tensor& w) { return softplus(x.mv(w)).sum(); };
  EXPECT_TENSOR_NEAR(hessian(by_logits, zeros({3}, f64)), expected, Dims({3, 3}));
  EXPECT_TENSOR_NEAR(hessian(by_softplus, zeros({3}, f64)), expected, Dims({3, 3}));
}

TEST(Jacobian, HasGradients) {
  TensorsFn fn = [](const Tensors& in) {
    return Tensors{jacrev([](const Tensor& x) { return x.sin() * x.sum(); }, in[0]),
                   jacfwd([](const Tensor& x) { return x.sin() * x.sum(); }, in[0]),
                   hessian([](const Tensor& x) { return x.pow(3.0).sum() * x.sum(); }, in[0])};
  };
  EXPECT_EQ(testing::Gradcheck(fn, {Numbers({3}, 0.4)}), "");
}

// ---- random ops

TEST(VmapRandom, IsRefusedUnlessItIsChosen) {
  auto noisy = [](const Tensor& x) { return x + rand({3}); };
  EXPECT_THROW_MESSAGE(vmap(noisy)(zeros({2, 3})), ValueError, "random");
}

TEST(VmapRandom, DiffersFromSampleToSampleAsInALoop) {
  for (int64_t count : {3, 4, 9}) {
    auto noisy = [&](const Tensor& x) { return x + randn({count}, f32); };
    Tensor zero = zeros({5, count}, f32);
    manual_seed(7);
    Tensor mapped = vmap(noisy, {}, {}, Randomness::kDifferent)(zero);
    Tensor after = rand({2});
    manual_seed(7);
    Tensor looped = Rows(noisy, zero);
    EXPECT_TENSOR_EQ(mapped, looped);
    EXPECT_TENSOR_EQ(after, rand({2}));
  }
}

TEST(VmapRandom, IsTheSameForAll) {
  manual_seed(3);
  Tensor x =
      vmap([](const Tensor& x) { return x + rand({4}); }, {}, {}, Randomness::kSame)(zeros({3, 4}));
  EXPECT_TENSOR_EQ(x[0], x[2].clone());
}

TEST(VmapRandom, NestsAndDrops) {
  manual_seed(11);
  auto inner = [](const Tensor& x) { return dropout(x, 0.5, true); };
  auto outer = [&](const Tensor& x) { return vmap(inner, {}, {}, Randomness::kDifferent)(x); };
  Tensor dropped = vmap(outer, {}, {}, Randomness::kDifferent)(ones({4, 5, 64}));
  double mean = dropped.mean().item<double>();
  EXPECT_NEAR(mean, 1.0, 0.15);
  Tensor flat = dropped.reshape({20, 64});
  for (int64_t i = 1; i < 20; ++i) EXPECT_GT((flat[i] != flat[0]).sum().item<int64_t>(), 5);
  // The order of a nested loop.
  manual_seed(11);
  EXPECT_TENSOR_EQ(dropped,
                   Rows([&](const Tensor& row) { return Rows(inner, row); }, ones({4, 5, 64})));
}

TEST(VmapRandom, OfStatesThatAreComputed) {
  manual_seed(5);
  Tensor rates = full({6, 4}, 30.0);
  Tensor drawn =
      vmap([](const Tensor& x) { return poisson(x); }, {}, {}, Randomness::kDifferent)(rates);
  EXPECT_GT((drawn[0] != drawn[1]).sum().item<int64_t>(), 0);
  EXPECT_NEAR(drawn.mean().item<double>(), 30.0, 5.0);
}

// ---- loops and branches

TEST(VmapControl, LoopsOfCarriedStackedAndInvariantValues) {
  auto layer = [](const Tensor& h, const Tensor& x, const Tensor& u) {
    return Loop(4, {{h}, {x}, {u}}, [](const LoopStep& s) -> Tensors {
      Tensor next = tanh(s.carried[0] * s.invariant[0] + s.slices[0]);
      return {next, next * next};
    });
  };
  Tensor h = Numbers({3, 2}, 0.1), x = Numbers({3, 4, 2}, 0.5), u = Numbers({2}, 0.9);
  for (SampleDims dims :
       {SampleDims{0, 0, kNone}, SampleDims{kNone, 0, kNone}, SampleDims{0, kNone, kNone}}) {
    Tensor h1 = dims[0] ? h : h[0], x1 = dims[1] ? x : x[0];
    Tensors mapped = vmap(layer, dims)(h1, x1, u);
    for (int64_t i = 0; i < 3; ++i) {
      Tensors one = layer(dims[0] ? h[i] : h[0], dims[1] ? x[i] : x[0], u);
      EXPECT_TENSOR_EQ(mapped[0][i].clone(), one[0]);
      EXPECT_TENSOR_EQ(mapped[1][i].clone(), one[1]);
    }
  }
  TensorsFn through = [&](const Tensors& in) {
    return vmap(layer, {0, 0, kNone})(in[0], in[1], in[2]);
  };
  EXPECT_EQ(testing::Gradcheck(through, {h, x, u}), "");
}

TEST(VmapControl, BranchesOfOneOrOfManyPredicates) {
  const Shape type(DType::kF64, {2});
  const Attr branches[] = {Body({type}, [](auto in) { return Tensors{in[0] * in[0]}; }),
                           Body({type}, [](auto in) { return Tensors{sin(in[0])}; })};
  auto choose = [&](const Tensor& which, const Tensor& x) {
    const Tensor operands[] = {which, x};
    return ApplyMulti(ops::kCond, Location::current(), operands, branches)[0];
  };
  Tensor x = Numbers({3, 2}, 0.2), which = tensor({true, false, true});
  Tensor expected = where(which.unsqueeze(1), x * x, sin(x));
  EXPECT_TENSOR_EQ(vmap(choose)(which, x), expected);
  EXPECT_TENSOR_EQ(vmap(choose, {kNone, 0})(tensor(true), x), x * x);
  EXPECT_TENSOR_EQ(vmap(choose, {0, kNone})(which, x[0]),
                   where(which.unsqueeze(1), x[0] * x[0], sin(x[0])));
  TensorsFn through = [&](const Tensors& in) { return Tensors{vmap(choose)(which, in[0])}; };
  EXPECT_EQ(testing::Gradcheck(through, {x}), "");
}

TEST(VmapControl, WhilesThatEndAtDifferentTimes) {
  const Shape number(DType::kF64, {}), count(DType::kI64, {});
  const Attr bodies[] = {Body({number, count}, [](auto in) { return Tensors{in[0] < 100.0}; }),
                         Body({number, count}, [](auto in) {
                           return Tensors{in[0] * 2.0, in[1] + 1};
                         })};
  auto doubling = [&](const Tensor& start) {
    const Tensor carried[] = {start, zeros({}, DType::kI64)};
    return ApplyMulti(ops::kWhile, Location::current(), carried, bodies);
  };
  Tensors results = vmap(doubling)(tensor({1.0, 30.0, 200.0}, f64));
  EXPECT_TENSOR_EQ(results[0], {128, 120, 200}, {3});
  EXPECT_TENSOR_EQ(results[1], {7, 2, 0}, {3});
}

TEST(VmapControl, WhilesOfASharedCountStayOneLoop) {
  const Shape number(DType::kF64, {}), count(DType::kI64, {});
  const Attr bodies[] = {Body({number, count}, [](auto in) { return Tensors{in[1] < 3}; }),
                         Body({number, count}, [](auto in) {
                           return Tensors{in[0] * 2.0, in[1] + 1};
                         })};
  auto doubling = [&](const Tensor& start) {
    const Tensor carried[] = {start, zeros({}, DType::kI64)};
    return ApplyMulti(ops::kWhile, Location::current(), carried, bodies)[0];
  };
  Tensor starts = tensor({1.0, 30.0}, f64);
  EXPECT_TENSOR_EQ(vmap(doubling)(starts), {8, 240}, {2});
  std::string text =
      extract_compiled_graph([&](const Tensors& in) { return Tensors{vmap(doubling)(in[0])}; },
                             {starts})
          .text();
  EXPECT_EQ(text.find("reduce_any"), text.npos) << text;
}

// ---- costs

std::string TextOf(const TensorsFn& fn, const Tensors& inputs) {
  return extract_compiled_graph(fn, inputs).text();
}

int64_t Count(const std::string& text, const std::string& word) {
  int64_t count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

TEST(VmapCost, AMatmulIsOneBatchedMatmul) {
  auto product = [](const Tensor& a, const Tensor& b) { return a.matmul(b); };
  TensorsFn fn = [&](const Tensors& in) { return Tensors{vmap(product)(in[0], in[1])}; };
  std::string text = TextOf(fn, {zeros({7, 3, 4}), zeros({7, 4, 5})});
  EXPECT_EQ(Count(text, "= dot_general"), 1) << text;
  EXPECT_EQ(Count(text, " = "), 3) << text;  // with two inputs
}

TEST(VmapCost, AnElementwiseOpIsOneOp) {
  TensorsFn fn = [](const Tensors& in) {
    return Tensors{vmap([](const Tensor& x, const Tensor& y) { return x + y; })(in[0], in[1])};
  };
  std::string text = TextOf(fn, {zeros({7, 3}), zeros({7, 3})});
  EXPECT_EQ(Count(text, " = "), 3) << text;
}

Tensor SmallNetwork(const Tensors& weights, const Tensor& image) {
  Tensor x = relu(conv2d(image.unsqueeze(0), weights[0], weights[1], 1, 1));
  x = max_pool2d(x, 2).flatten(1);
  return log_softmax(linear(x, weights[2], weights[3]), 1)[0];
}

Tensors NetworkWeights(const Dims& batch = {}) {
  auto sized = [&](Dims sizes, double phase) {
    Dims all = batch;
    for (int64_t size : sizes) all.push_back(size);
    return Numbers(all, phase);
  };
  return {sized({2, 1, 3, 3}, 0.1), sized({2}, 0.5), sized({3, 2 * 2 * 2}, 0.9), sized({3}, 1.7)};
}

Tensors SampleGradients(const Tensors& weights, const Tensor& image, const Tensor& label) {
  Tensors leaves;
  for (const Tensor& weight : weights) leaves.push_back(weight.detach().requires_grad_());
  Tensor scores = SmallNetwork(leaves, image);
  return grad({-scores.gather(0, label.unsqueeze(0)).sum()}, leaves);
}

TEST(VmapCost, DoesNotGrowWithTheBatch) {
  Tensors weights = NetworkWeights();
  auto nodes = [&](int64_t batch) {
    TensorsFn fn = [&](const Tensors& in) {
      return vmap([&](const Tensor& image, const Tensor& label) {
        return SampleGradients(weights, image, label);
      })(in[0], in[1]);
    };
    return Count(TextOf(fn, {Numbers({batch, 1, 4, 4}, 0.3), zeros({batch}, DType::kI64)}), " = ");
  };
  EXPECT_EQ(nodes(2), nodes(32));
}

// ---- models

TEST(VmapModel, GradientsOfEachSampleOfAConvolutionalNetwork) {
  Tensors weights = NetworkWeights();
  Tensor images = Numbers({5, 1, 4, 4}, 0.3), labels = tensor({0, 2, 1, 1, 0});
  Tensors mapped = vmap([&](const Tensor& image, const Tensor& label) {
    return SampleGradients(weights, image, label);
  })(images, labels);
  for (int64_t i = 0; i < 5; ++i) {
    Tensors one = SampleGradients(weights, images[i], labels[i]);
    for (size_t k = 0; k < one.size(); ++k) {
      EXPECT_TENSOR_NEAR(mapped[k][i].clone(), one[k].to_vector<double>(), one[k].sizes());
    }
  }
}

TEST(VmapModel, AnEnsembleOfStackedParameters) {
  Tensors weights = NetworkWeights({4});
  Tensor images = Numbers({3, 1, 4, 4}, 0.3);
  TensorsFn model = [](const Tensors& in) {
    Tensors weights(in.begin(), in.end() - 1);
    return Tensors{
        vmap([&](const Tensor& image) { return SmallNetwork(weights, image); })(in.back())};
  };
  Tensors inputs = weights;
  inputs.push_back(images);
  Tensor mapped = vmap(model, {0, 0, 0, 0, kNone})(inputs)[0];
  EXPECT_EQ(mapped.sizes(), (Dims{4, 3, 3}));
  for (int64_t m = 0; m < 4; ++m) {
    Tensors own;
    for (const Tensor& weight : weights) own.push_back(weight[m]);
    Tensor expected = Rows([&](const Tensor& image) { return SmallNetwork(own, image); }, images);
    EXPECT_TENSOR_NEAR(mapped[m].clone(), expected.to_vector<double>(), expected.sizes());
  }
}

// ---- ops whose samples need matrices of a kind

TEST(VmapLinalg, OfSymmetricMatrices) {
  Tensor a = Numbers({4, 3, 3}, 0.2);
  Tensor spd = a.matmul(a.transpose(1, 2)) + 3.0 * eye(3, f64);
  TensorsFn fn = [](const Tensors& in) {
    Tensor s = (in[0] + in[0].t()) * 0.5;
    return Tensors{linalg_cholesky(s), linalg_eigvalsh(s), linalg_inv(s),
                   std::get<1>(linalg_slogdet(s))};
  };
  TensorsFn through = [&](const Tensors& in) { return vmap(fn)(in); };
  Tensors mapped = through({spd});
  for (int64_t i = 0; i < 4; ++i) {
    Tensors one = fn({spd[i]});
    for (size_t k = 0; k < one.size(); ++k) {
      EXPECT_TENSOR_NEAR(mapped[k][i].clone(), one[k].to_vector<double>(), one[k].sizes());
    }
  }
  EXPECT_EQ(testing::Gradcheck(through, {spd}), "");
}

// ---- ops without a rule

TEST(VmapLooped, NonzeroOfABoundRunsOncePerSample) {
  int64_t before = metrics::GetCounter("VmapLoopedOps").Value();
  Tensor x = tensor({{0, 1, 1}, {1, 0, 0}});
  auto places = [](const Tensor& row) {
    return Apply(ops::kNonzeroBounded, Location::current(), {row}, {2});
  };
  EXPECT_TENSOR_EQ(vmap(places)(x), {1, 2, 0, -1}, {2, 2, 1});
  EXPECT_EQ(metrics::GetCounter("VmapLoopedOps").Value(), before + 1);
}

TEST(VmapLooped, CustomCallsSeeOneSample) {
  RegisterCustomCall("vmap_test.first", [](std::span<const HostTensor> in, std::string_view) {
    EXPECT_EQ(in[0].shape().sizes(), (Dims{2}));
    return std::vector<HostTensor>{HostTensor::From(in[0].at(0))};
  });
  auto first = [](const Tensor& x) {
    const Attr attrs[] = {"vmap_test.first", "", std::vector<std::string>{"f64[]"}};
    return ApplyMulti(ops::kCustomCall, Location::current(), std::span(&x, 1), attrs)[0];
  };
  Tensor x = Numbers({3, 2}, 0.4);
  EXPECT_TENSOR_EQ(vmap(first)(x), x.select(1, 0).clone());
}

// ---- ops without samples, which records_test.cpp leaves out

TEST(Vmap, EigenvaluesOfEachMatrix) {
  auto parts = [](const Tensor& x) {
    auto [values, vectors] = linalg_eig(x);
    return view_as_real(cat({values.unsqueeze(0), vectors}));
  };
  Tensor a = Numbers({3, 4, 4}, 0.1);
  EXPECT_TENSOR_NEAR(vmap(parts)(a), Rows(parts, a), 1e-12);
  EXPECT_TENSOR_NEAR(vmap(parts, {1})(a.transpose(0, 1).contiguous()), Rows(parts, a), 1e-12);
}

TEST(Vmap, ValuesOfASparseTensor) {
  Tensor indices = tensor({{0, 1, 1, 0}, {2, 0, 2, 2}}), b = Numbers({3, 2}, 0.3);
  Tensor values = Numbers({5, 4}, 0.1);
  SparseTensor coo = sparse_coo_tensor(indices, values[0], {2, 3}), csr = coo.to_sparse_csr();
  for (const SparseTensor& pattern : {coo, csr}) {
    auto times = [&](const Tensor& v) { return sparse::mm(pattern.with_values(v), b); };
    auto dense = [&](const Tensor& v) { return pattern.with_values(v).to_dense(); };
    auto slope = [&](const Tensor& v) {
      Tensor leaf = v.detach().requires_grad_();
      return grad({times(leaf).square().sum()}, {leaf})[0];
    };
    EXPECT_TENSOR_NEAR(vmap(times)(values), Rows(times, values), 1e-12);
    EXPECT_TENSOR_NEAR(vmap(dense)(values), Rows(dense, values), 1e-12);
    EXPECT_TENSOR_NEAR(vmap(slope)(values), Rows(slope, values), 1e-12);
    EXPECT_TENSOR_NEAR(vmap(times)(values),
                       vmap([&](const Tensor& v) { return matmul(dense(v), b); })(values), 1e-12);
  }
}

TEST(Vmap, MatricesBesideASparseTensor) {
  SparseTensor a = sparse_coo_tensor(tensor({{0, 1, 1}, {2, 0, 2}}), Numbers({3}, 0.1), {2, 3});
  Tensor b = Numbers({4, 3, 2}, 0.3);
  auto times = [&](const Tensor& x) { return sparse::mm(a, x); };
  EXPECT_TENSOR_NEAR(vmap(times)(b), Rows(times, b), 1e-12);
}

TEST(Vmap, FakeQuantisationWithScalesOfOneOrOfEachSample) {
  Tensor x = Numbers({3, 4, 2}, 0.1).to(f32), zero_points = tensor({0, 1, -1, 2});
  Tensor scales = tensor({{0.1f, 0.2f, 0.3f, 0.05f}, {0.2f, 0.1f, 0.4f, 0.3f}, {1, 2, 0.5f, 0.7f}});
  auto rounded = [&](const Tensor& sample, const Tensor& scale) {
    return fake_quantize_per_channel_affine(sample, scale, zero_points, 0, -4, 3);
  };
  auto slope = [&](const Tensor& sample, const Tensor& scale) {
    Tensor leaf = sample.detach().requires_grad_();
    return grad({rounded(leaf, scale).square().sum()}, {leaf})[0];
  };
  auto check = [&](const auto& fn) {
    auto with_first = [&](const Tensor& sample) { return fn(sample, scales[0]); };
    EXPECT_TENSOR_EQ(vmap(with_first)(x), Rows(with_first, x));
    Tensors rows;
    for (int64_t i = 0; i < 3; ++i) rows.push_back(fn(x[i], scales[i]));
    EXPECT_TENSOR_EQ(vmap(fn)(x, scales), stack(rows));
  };
  check(rounded);
  check(slope);
}

// ---- errors

std::string MessageOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(VmapErrors, OfArguments) {
  auto twice = [](const Tensor& x) { return x * 2.0; };
  auto add = [](const Tensor& x, const Tensor& y) { return x + y; };
  EXPECT_THROW_MESSAGE(vmap(twice, {2})(zeros({3, 2})), ValueError, "dim 2 for argument 0");
  EXPECT_THROW_MESSAGE(vmap(twice)(zeros({})), ValueError, "argument 0, which is f32[]");
  EXPECT_THROW_MESSAGE(vmap(twice, {kNone})(zeros({3})), ValueError, "names no dim");
  EXPECT_THROW_MESSAGE(vmap(twice, {0, 0})(zeros({3})), ValueError, "2 entries for 1 arguments");
  EXPECT_THROW_MESSAGE(
      vmap(add)(zeros({3}), zeros({4})), ValueError,
      "numbers of samples differ: 3 in argument 0 (f32[3], dim 0), 4 in argument 1");
  EXPECT_THROW_MESSAGE(vmap(twice, {0}, {3})(zeros({3, 2})), ValueError, "out_dims has dim 3");
  EXPECT_THROW_MESSAGE(vmap(twice, {0}, {0, 0})(zeros({3, 2})), ValueError,
                       "2 entries for 1 results");
  EXPECT_THROW_MESSAGE(vmap(twice, {0}, {kNone})(zeros({3})), ValueError, "differs from sample");
  EXPECT_THROW_MESSAGE(vmap([](const Tensor&) { return Tensor(); })(zeros({3})), ValueError,
                       "result 0 of the function is undefined");
}

TEST(VmapErrors, OfReadsHaveTheUsersLine) {
  int line = 0;
  auto fn = [&](const Tensor& x) {
    line = __LINE__ + 1;
    return x.item<double>() > 0 ? x : -x;
  };
  std::string message = MessageOf([&] { vmap(fn)(ones({3})); });
  EXPECT_NE(message.find("vmap: a value that depends on input 0 (f32[]) is read"), message.npos)
      << message;
  EXPECT_NE(message.find("vmap_test.cpp:" + std::to_string(line)), message.npos) << message;
}

TEST(VmapErrors, OfOpsWhoseSizesDependOnData) {
  int line = 0;
  auto fn = [&](const Tensor& x) {
    line = __LINE__ + 1;
    return nonzero(x);
  };
  std::string message = MessageOf([&] { vmap(fn)(ones({3, 2})); });
  EXPECT_NE(message.find("vmap: a value that depends on input 0 (f32[2]) is read"), message.npos)
      << message;
  EXPECT_NE(message.find("vmap_test.cpp:" + std::to_string(line)), message.npos) << message;
  EXPECT_NE(MessageOf([&] {
              vmap([](const Tensor& x) { return x.masked_select(x > 0); })(ones({3, 2}));
            }),
            "");
}

TEST(VmapErrors, OfShapesAreThoseOfOneSample) {
  std::string message = MessageOf([&] {
    vmap([](const Tensor& x) { return x.matmul(x); })(ones({3, 2, 5}));
  });
  EXPECT_NE(message.find("f32[2,5]"), message.npos) << message;
}

TEST(VmapErrors, OfWhatOutlivesTheFunction) {
  Tensor kept, state = zeros({2});
  EXPECT_THROW_MESSAGE(vmap([&](const Tensor& x) {
                         kept = x * 2.0;
                         return x;
                       })(ones({3, 2})),
                       ValueError, "kept in a tensor outside");
  EXPECT_THROW_MESSAGE(vmap([&](const Tensor& x) {
                         state.add_(x);
                         return x;
                       })(ones({3, 2})),
                       ValueError, "writes to a tensor that is no mapped argument");
  EXPECT_TENSOR_EQ(state, {0, 0}, {2});
  Tensor w = ones({2}).requires_grad_();
  EXPECT_THROW_MESSAGE(vmap([&](const Tensor& x) {
                         (w * x).sum().backward();
                         return x;
                       })(ones({3, 2})),
                       ValueError, "grad of a tensor");
  // Later steps work.
  EXPECT_TENSOR_EQ(state + 1.0, {1, 1}, {2});
  EXPECT_TENSOR_EQ(vmap([](const Tensor& x) { return x * 2.0; })(ones({2})), {2, 2}, {2});
}

TEST(VmapErrors, OfDerivatives) {
  EXPECT_THROW_MESSAGE(jacrev([](const Tensor& x) { return x; }, zeros({2}, DType::kI64)),
                       TypeError, "must be a floating tensor, not i64[2]");
  EXPECT_THROW_MESSAGE(hessian([](const Tensor& x) { return x; }, zeros({2})), ValueError,
                       "one tensor of one element, not f32[2]");
}

}  // namespace
}  // namespace hammock
