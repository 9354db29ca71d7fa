#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "hammock/hammock.h"
#include "hammock/nn/quantize.h"
#include "hammock/ops/quantize.h"
#include "ir/expect_error.h"
#include "onnx/models.h"
#include "ops/primitives/loop.h"

namespace hammock::onnx {
namespace {

using namespace testing;  // NOLINT: the models

class OnnxSave : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!why_absent().empty()) GTEST_SKIP() << why_absent();
    // Tests may run at the same time, each in a process of its own.
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = fmt::format("{}onnx_{}_{}.onnx", ::testing::TempDir(), test->name(), getpid());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  using Function = std::function<Any(const std::vector<Any>&)>;

  /// Traces a function, writes it with every opset from the first, reads it back, and expects equal
  /// results.
  void ExpectSame(const Function& function, const std::vector<Tensor>& inputs, int first = 14) {
    Module module("Written");
    std::string schema = "forward(";
    for (size_t i = 0; i < inputs.size(); ++i) {
      schema += fmt::format("{}Tensor x{}", i > 0 ? ", " : "", i);
    }
    module.define(schema + ") -> Any",
                  [&](Module&, const std::vector<Any>& args) { return function(args); });
    std::vector<Any> args(inputs.begin(), inputs.end());
    Any expected = function(args);
    module.trace("forward", args);
    if (first > 14) {
      EXPECT_THROW(save(module, path_, first - 1), NotSupported);
    }
    for (int opset = first; opset <= kNewestOpset; ++opset) {
      SCOPED_TRACE(opset);
      save(module, path_, opset);
      Any actual = load(path_)->run_method("forward", args);
      Compare(actual, expected);
    }
  }

  std::string path_;

 private:
  static void Compare(const Any& actual, const Any& expected) {
    if (expected.IsTensor()) {
      Tensor a = actual.ToTensor(), e = expected.ToTensor();
      ASSERT_EQ(a.shape(), e.shape());
      EXPECT_TRUE(allclose(a.to(f64), e.to(f64), 1e-5, 1e-6, true)) << ToText(a) << ToText(e);
      return;
    }
    ASSERT_EQ(actual.ToList().size(), expected.ToList().size());
    for (size_t i = 0; i < expected.ToList().size(); ++i) {
      Compare(actual.ToList()[i], expected.ToList()[i]);
    }
  }
  static std::string ToText(const Tensor& x) {
    return ::testing::PrintToString(x.to(f64).to_vector<double>()) + "\n";
  }
};

Tensor Of(const Any& any) { return any.ToTensor(); }

TEST_F(OnnxSave, GraphsAreReadBack) {
  ModulePtr module = Load(Linear());
  EXPECT_THROW(save(*module, path_), ValueError);  // no graph yet
  trace(*module);
  save(*module, path_);
  ModulePtr again = load(path_);
  EXPECT_EQ(again->named_parameters()[0].first, "fc.weight");
  EXPECT_EQ(inputs(*again)[0].name, "x");
  EXPECT_EQ(inputs(*again)[0].dims[0].name, "batch");  // still free
  Tensor y = again->run_method("forward", {ones({5, 4})}).ToTensor();
  EXPECT_EQ(y.sizes(), (Dims{5, 3}));
  EXPECT_EQ(y[4].to_vector<float>(), (std::vector<float>{23, 0, 30}));
}

/// Sizes of x at which a graph was traced explain each other in more than one way: what follows
/// from which dim is told apart by growing them one by one.
TEST_F(OnnxSave, TwoFreeDimsAreToldApart) {
  auto body = [](Module&, const std::vector<Any>& args) {
    Tensor x = args[0].ToTensor();
    return Any(cat({x - mean(x, {1}, true), x.sum({1}, true)}, 1));
  };
  Module module("Mean");
  module.define("forward(Tensor x) -> Tensor", body);
  Tensor small = sin(arange(16, f32)).reshape({2, 8}),
         large = sin(arange(60, f32)).reshape({3, 20});
  Tensor expected = module.run_method("forward", {large}).ToTensor();
  const TraceOptions options{.free_dims = {{"x", 0, "batch"}, {"x", 1, "time"}}};
  module.trace("forward", {small}, options);
  EXPECT_TRUE(allclose(module.run_method("forward", {large}).ToTensor(), expected, 1e-5, 1e-6));
  save(module, path_);
  ModulePtr again = load(path_);
  EXPECT_EQ(inputs(*again)[0].dims[1].name, "time");
  EXPECT_TRUE(allclose(again->run_method("forward", {large}).ToTensor(), expected, 1e-5, 1e-6));
}

/// A quarter of a size is no sum of free dims, although 2 (b - 1) is at the first two samples.
TEST_F(OnnxSave, SizesThatDoNotFollowFromFreeDimsAreRefused) {
  Module module("Quarters");
  module.define("forward(Tensor x) -> Tensor", [](Module&, const std::vector<Any>& args) {
    Tensor x = args[0].ToTensor();
    return Any(x.reshape({x.size(0), x.size(1) / 4, 4}).sum({2}));
  });
  const TraceOptions options{.free_dims = {{"x", 0, "batch"}, {"x", 1, "time"}}};
  EXPECT_ERROR(module.trace("forward", {ones({2, 8})}, options), ValueError,
               "does not follow from the free dims");
}

TEST_F(OnnxSave, OpsThatAreNotWrittenAreListed) {
  Module module("Products");
  module.define("forward(Tensor x) -> Tensor", [](Module&, const std::vector<Any>& args) {
    return Any(cumprod(lgamma(args[0].ToTensor()), 0));
  });
  module.trace("forward", {ones({4})});
  try {
    save(module, path_);
    FAIL() << "it was written";
  } catch (const NotSupported& error) {
    EXPECT_NE(error.message().find("lgamma: 1"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("scan (kind prod): 1"), std::string::npos) << error.message();
  }
}

TEST_F(OnnxSave, Opsets) {
  ModulePtr module = Load(Linear());
  trace(*module);
  for (int opset = 14; opset <= kNewestOpset; ++opset) {
    save(*module, path_, opset);
    EXPECT_EQ(load(path_)->run_method("forward", {ones({1, 4})}).ToTensor().to_vector<float>(),
              (std::vector<float>{23, 0, 30}))
        << opset;
  }
  EXPECT_THROW(save(*module, path_, 13), NotSupported);
  EXPECT_THROW(save(*module, path_, kNewestOpset + 1), NotSupported);
}

TEST_F(OnnxSave, SortsScansAndScatters) {
  Tensor x = tensor({3.0, 1.0, 2.0, 5.0, 4.0, 0.5}).reshape({2, 3});
  ExpectSame(
      [](const std::vector<Any>& args) {
        auto [values, index] = sort(Of(args[0]), 1, true);
        auto [top, at] = topk(Of(args[0]), 2, 1);
        return Any::Tuple({values, index, top, at, cumsum(Of(args[0]), 1)});
      },
      {x});
  Tensor index = tensor({0, 2, 2, 1, 0, 0}).reshape({2, 3}).to(i64);
  ExpectSame(
      [](const std::vector<Any>& args) {
        return Any(scatter_add(zeros({2, 3}), 1, Of(args[1]), Of(args[0])));
      },
      {x, index}, 16);
}

TEST_F(OnnxSave, NumbersAndTruth) {
  Tensor x = tensor({-2.5, -1.0, 0.0, 0.7, 2.5, 7.0});
  ExpectSame(
      [](const std::vector<Any>& args) {
        Tensor a = Of(args[0]);
        return Any::Tuple({trunc(a), log2(abs(a) + 1), log10(abs(a) + 1), erfc(a), hypot(a, a),
                           fmax(a, log(a)), any(a > 3), all(a > 3), floor_divide(a, 2), gelu(a),
                           gelu(a, "tanh"), where(a > 0, a > 1, a < -1)});
      },
      {x});
  ExpectSame(
      [](const std::vector<Any>& args) {
        Tensor a = Of(args[0]);
        return Any::Tuple({bitwise_and(a, 6), bitwise_xor(a, 3), floor_divide(a, 3)});
      },
      {tensor({-7, -1, 0, 5, 9}).to(i64)}, 18);
}

TEST_F(OnnxSave, IntegersWithZeroPoints) {
  Tensor x = randint(0, 256, {2, 3, 6}).to(u8), w = randint(-128, 128, {6, 4}).to(i8);
  Tensor image = randint(0, 256, {1, 4, 5, 5}).to(u8),
         filter = randint(-128, 128, {6, 2, 3, 3}).to(i8);
  ExpectSame(
      [](const std::vector<Any>& in) {
        return Any(int_matmul(Of(in[0]), Of(in[1]), tensor(7, u8), std::nullopt));
      },
      {x, w});
  Tensor each_row = tensor({1, 2, 3, 4, 5, 6}, u8).reshape({2, 3, 1});
  ExpectSame(
      [](const std::vector<Any>& in) {
        return Any(int_matmul(Of(in[0]), Of(in[1]), Of(in[2]), std::nullopt));
      },
      {x, w, each_row});
  ExpectSame(
      [](const std::vector<Any>& in) {
        return Any(int_convolution(Of(in[0]), Of(in[1]), tensor(7, u8),
                                   tensor({1, 2, 3, 4, 5, 6}, i8), {1, 2}, {1, 1}, {1, 1}, 2));
      },
      {image, filter});
  ExpectSame(
      [](const std::vector<Any>& in) {
        return Any(quantize(Of(in[0]), tensor({{0.5}, {0.25}}, f32), tensor(100, u8), u8));
      },
      {tensor({{1.0, 0.75, -99}, {500.0, 0.1, double(NAN)}}, f32)});
  ExpectSame(
      [](const std::vector<Any>& in) {
        return Any(quantize(Of(in[0]), full({}, 1.0), std::nullopt, i32));
      },
      {tensor({-1e30, 1e30, 2.5}, f32)});
}

TEST_F(OnnxSave, FourierTransforms) {
  Tensor x = sin(arange(30, f32) * 0.7).reshape({2, 5, 3}),
         even = sin(arange(12, f32)).reshape({2, 6});
  ExpectSame(
      [](const std::vector<Any>& args) {
        Tensor a = Of(args[0]), b = Of(args[1]);
        Tensor z = fft_fft(a, std::nullopt, 1);
        Tensor frames = stft(b, 4, {.hop_length = 2, .center = false});
        return Any::Tuple({view_as_real(z), real(fft_ifft(z, std::nullopt, 1)),
                           imag(fft_rfft(b, std::nullopt, 1, "ortho")), fft_irfft(fft_rfft(b), 6),
                           fft_irfft(fft_rfft(a, 5, 1), 5, 1, "ortho"),
                           real(fft_fft2(complex(b, b + 1), std::nullopt, {0, 1}, "forward")),
                           view_as_real(frames), view_as_real(z.permute(2, 0, 1)),
                           real(view_as_complex(b.reshape({2, 3, 2})))});
      },
      {x, even}, 17);
}

TEST_F(OnnxSave, ProductsOfScans) {
  ExpectSame([](const std::vector<Any>& args) { return Any(cumprod(Of(args[0]), 1)); },
             {sin(arange(6, f32) + 1).reshape({2, 3})}, 26);
}

/// Weights of four bits are packed, two in a byte.
TEST_F(OnnxSave, LayersOfFourBits) {
  nn::Linear layer(32, 8);
  nn::Sequential net(layer);
  nn::quantize_(*net, {.dtype = i4, .group = 16});
  ExpectSame([&](const std::vector<Any>& args) { return Any(net(Of(args[0]))); },
             {sin(arange(96, f32)).reshape({3, 32})}, 21);
}

TEST_F(OnnxSave, StorageTypes) {
  Tensor packed = arange(-8, 8, 1, i32).reshape({2, 8}).to(i4),
         bytes = (arange(16, f32) - 7.5).reshape({2, 8}).to(f8e4m3);
  ExpectSame(
      [&](const std::vector<Any>& args) {
        Tensor a = Of(args[0]);
        return Any::Tuple(
            {packed.to(f32) * a, packed.reshape({4, 4}).t().to(f32), round(a).to(u4).to(i32)});
      },
      {arange(16, f32).reshape({2, 8})}, 21);
  ExpectSame(
      [&](const std::vector<Any>& args) {
        Tensor a = Of(args[0]);
        return Any::Tuple({bytes.reshape({4, 4}).to(f32), a.to(f8e5m2).to(f32)});
      },
      {tensor({1.1, 1e6, -1e6, 0.3})}, 19);
  Tensor pairs = arange(-8, 8, 1, i32).reshape({2, 8}).to(i2);
  auto of_pairs = [&](const std::vector<Any>& args) {
    Tensor a = Of(args[0]);
    return Any::Tuple({pairs.to(f32) * a, round(a).to(u2).to(i32)});
  };
  ExpectSame(of_pairs, {arange(16, f32).reshape({2, 8})}, 25);
  Module module("Slices");
  module.define("forward(Tensor x) -> Tensor", [&](Module&, const std::vector<Any>& args) {
    return Any(narrow(packed, 0, 1, 1).to(f32) * Of(args[0]));
  });
  module.trace("forward", {ones({8})});
  EXPECT_ERROR(save(module, path_, 21), NotSupported, "slice (of i4): 1");
}

TEST_F(OnnxSave, ComplexNumbersAreWrittenInsideOnly) {
  Module module("Complex");
  module.define("forward(Tensor x) -> Tensor",
                [](Module&, const std::vector<Any>& args) { return Any(fft_rfft(Of(args[0]))); });
  module.trace("forward", {ones({4})});
  EXPECT_ERROR(save(module, path_), NotSupported, "an output is complex, c64[3]");
  Module sums("Sums");
  sums.define("forward(Tensor x) -> Tensor", [](Module&, const std::vector<Any>& args) {
    Tensor z = fft_rfft(Of(args[0]));
    return Any(real(z + z));
  });
  sums.trace("forward", {ones({4})});
  EXPECT_ERROR(save(sums, path_), NotSupported, "add (of complex numbers): 1");
}

/// A traced graph has no argument for a string, so the file would lack an input.
TEST_F(OnnxSave, InputsThatAreNoTensorsAreRefused) {
  format::Graph graph;
  graph.inputs = {Info("x", format::kFloat, {{2, ""}}), Info("text", format::kString, {{1, ""}})};
  graph.outputs = {Info("y", format::kFloat, {{2, ""}}), Info("same", format::kBool, {{1, ""}})};
  graph.nodes = {Node("Neg", {"x"}, {"y"}), Node("Equal", {"text", "text"}, {"same"})};
  ModulePtr module = Load(ModelOf(std::move(graph)));
  trace(*module, {ones({2}), AnyList{"a"}});
  EXPECT_ERROR(save(*module, path_), NotSupported, "the input 'text' is no tensor of numbers");
}

/// A graph has codes in bytes where the file has 8-bit floats or integers of 4 bits.
TEST_F(OnnxSave, InputsAndOutputsOfNarrowElementsAreRefused) {
  for (int32_t element : {format::kFloat8E4M3FN, format::kInt4}) {
    format::Graph graph;
    graph.inputs = {Info("x", format::kFloat, {{2, ""}})};
    graph.outputs = {Info("codes", element, {{2, ""}})};
    graph.nodes = {Node("Cast", {"x"}, {"codes"}, {IntAttribute("to", element)})};
    ModulePtr module = Load(ModelOf(graph));
    trace(*module);
    EXPECT_ERROR(
        save(*module, path_, 21), NotSupported,
        fmt::format("the output 'codes' has elements of {}, which the graph holds as codes",
                    NameOfElement(element)));
    std::swap(graph.inputs, graph.outputs);
    graph.inputs[0].name = "x";
    graph.outputs[0].name = "y";
    graph.nodes = {Node("Cast", {"x"}, {"y"}, {IntAttribute("to", format::kFloat)})};
    module = Load(ModelOf(graph));
    trace(*module);
    EXPECT_ERROR(save(*module, path_, 21), NotSupported, "the input 'x' has elements of");
  }
}

TEST_F(OnnxSave, LoopsAndBranches) {
  Tensor x = tensor({1.0, 2.0, 3.0, 4.0}).reshape({2, 2}), h = tensor({0.5, -0.5});
  ExpectSame(
      [](const std::vector<Any>& args) {
        ops::LoopOperands operands;
        operands.carried = {Of(args[1])};
        operands.stacked = {Of(args[0])};
        operands.invariant = {Of(args[0]) * 2};
        std::vector<Tensor> results =
            ops::Loop(2, operands, [](const ops::LoopStep& s) -> std::vector<Tensor> {
              Tensor next = s.carried[0] * 2 + s.slices[0] + s.invariant[0][0];
              return {next, next * s.index};
            });
        return Any::Tuple({results[0], results[1]});
      },
      {x, h});
}

}  // namespace
}  // namespace hammock::onnx
