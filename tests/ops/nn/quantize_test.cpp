#include "hammock/nn/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/matmul/byte_rows.h"
#include "backends/cpu/matmul/quantized_rows.h"
#include "hammock/hammock.h"
#include "hammock/inspect.h"

namespace hammock {
namespace {

HostTensor Host(const Tensor& x) { return x.host(); }

double Difference(const Tensor& a, const Tensor& b) {
  return max(abs(a.to(f32) - b.to(f32))).item<double>();
}

// ---- storage types

TEST(Float8, EveryValueComesBack) {
  for (int bits = 0; bits < 256; ++bits) {
    auto check = [&]<class Float>(Float) {
      const Float value = Float::FromBits(static_cast<uint8_t>(bits));
      const float wide = value;
      if (std::isnan(wide)) {
        EXPECT_EQ(Float(wide).bits, 0x7f);  // of either sign
      } else {
        EXPECT_EQ(Float(wide).bits, bits);
      }
    };
    check(Float8E4M3{});
    check(Float8E5M2{});
  }
}

TEST(Float8, RoundsToNearestEvenAndOverflows) {
  EXPECT_EQ(float(Float8E4M3(448.0f)), 448);
  EXPECT_EQ(float(Float8E4M3(464.0f)), 448);  // a tie, to even
  EXPECT_EQ(float(Float8E4M3(465.0f)), 448);  // no infinity: the largest
  EXPECT_EQ(float(Float8E4M3(-INFINITY)), -448);
  EXPECT_TRUE(std::isnan(float(Float8E4M3(NAN))));
  EXPECT_EQ(float(Float8E4M3(0x1p-10f)), 0);  // a tie of 0 and the smallest subnormal
  EXPECT_EQ(float(Float8E4M3(0x1.8p-10f)), 0x1p-9f);
  EXPECT_EQ(float(Float8E5M2(57344.0f)), 57344);
  EXPECT_EQ(float(Float8E5M2(61440.0f)), INFINITY);  // a tie of the largest and what is not there
  EXPECT_EQ(float(Float8E5M2(61439.0f)), 57344);
  EXPECT_EQ(float(Float8E5M2(1.125f)), 1.0f);
  EXPECT_EQ(float(Float8E5M2(1.375f)), 1.5f);
}

/// All f16 values, which are more than f8 can tell apart.
Tensor AllHalves() {
  HostTensor host(Shape(DType::kF16, {65536}));
  auto* bits = static_cast<uint16_t*>(host.mutable_data());
  for (int i = 0; i < 65536; ++i) bits[i] = static_cast<uint16_t>(i);
  return from_host(host);
}

TEST(StorageTypes, CastsOfEveryHalfAreThoseOfTheHost) {
  Tensor x = AllHalves();
  for (DType dtype : {f8e4m3, f8e5m2}) {
    HostTensor on_device = Host(x.to(dtype)), on_host = Host(x).To(dtype);
    EXPECT_EQ(on_device.dtype(), dtype);
    EXPECT_EQ(on_device.bytes(), 65536);
    EXPECT_TRUE(on_device.SameBits(on_host)) << NameOf(dtype);
    HostTensor back = Host(x.to(dtype).to(f32)), back_on_host = on_host.To(f32);
    for (int64_t i = 0; i < back.numel(); ++i) {
      const double a = back.at(i).ToDouble(), b = back_on_host.at(i).ToDouble();
      ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i;
    }
  }
}

TEST(StorageTypes, PackedIntegersAreHalfOfAByte) {
  Tensor x = tensor({{1, -2, 7, -8}, {15, 8, -1, 0}}, i8);
  HostTensor packed = Host(x.to(i4));
  EXPECT_EQ(packed.bytes(), 4);
  const auto* bytes = static_cast<const uint8_t*>(packed.data());
  EXPECT_EQ(bytes[0], 0xe1);
  EXPECT_EQ(bytes[1], 0x87);
  EXPECT_EQ(
      Host(x.to(i4).to(i32)).To(i64).SameBits(Host(tensor({{1, -2, 7, -8}, {-1, -8, -1, 0}}, i64))),
      true);
  EXPECT_TRUE(Host(x.to(u4).to(i64)).SameBits(Host(tensor({{1, 14, 7, 8}, {15, 8, 15, 0}}, i64))));
  EXPECT_TRUE(packed.SameBits(Host(x).To(i4)));
  EXPECT_EQ(packed.at(3).ToInt(), -8);
}

TEST(StorageTypes, FourIntegersOfTwoBitsShareAByte) {
  Tensor x = tensor({{1, -2, 7, -8}, {2, 3, -1, 0}}, i8);
  HostTensor packed = Host(x.to(i2));
  EXPECT_EQ(packed.bytes(), 2);
  const auto* bytes = static_cast<const uint8_t*>(packed.data());
  EXPECT_EQ(bytes[0], 0b00'11'10'01);
  EXPECT_EQ(bytes[1], 0b00'11'11'10);
  EXPECT_TRUE(packed.SameBits(Host(x).To(i2)));
  EXPECT_TRUE(
      Host(x.to(i2).to(i64)).SameBits(Host(tensor({{1, -2, -1, 0}, {-2, -1, -1, 0}}, i64))));
  EXPECT_TRUE(Host(x.to(u2).to(i64)).SameBits(Host(tensor({{1, 2, 3, 0}, {2, 3, 3, 0}}, i64))));
  EXPECT_TRUE(Host(view_dtype(x.to(u2), u8)).SameBits(Host(tensor({{0x39}, {0x3e}}, u8))));
  EXPECT_EQ(packed.at(4).ToInt(), -2);
}

TEST(StorageTypes, MoveAsOtherTypesDo) {
  Tensor x = arange(48).reshape({4, 12}).to(f32) - 20.0;
  for (DType dtype : {f8e4m3, f8e5m2, i4, u4, i2, u2}) {
    Tensor s = x.to(dtype), wide = s.to(f32);
    auto same = [&](const Tensor& moved, const Tensor& expected) {
      EXPECT_EQ(moved.dtype(), dtype);
      EXPECT_EQ(Difference(moved, expected), 0) << NameOf(dtype);
    };
    same(s.t(), wide.t());
    same(s.narrow(1, 2, 4), wide.narrow(1, 2, 4));
    same(s.narrow(1, 3, 8), wide.narrow(1, 3, 8));
    same(s.reshape({6, 8}), wide.reshape({6, 8}));
    same(cat({s, s}, 1), cat({wide, wide}, 1));
    same(s.flip({1}), wide.flip({1}));
    same(index_select(s, 0, tensor({3, 1})), index_select(wide, 0, tensor({3, 1})));
    same(where(wide > 0.0, s, s.flip({0})), where(wide > 0.0, wide, wide.flip({0})));
    same(s.clone(), wide);
    Tensor written = s.clone();
    written.narrow(0, 1, 2).copy_(s.narrow(0, 0, 2));
    Tensor expected = wide.clone();
    expected.narrow(0, 1, 2).copy_(wide.narrow(0, 0, 2));
    same(written, expected);
    same(full({2, 4}, 1.5, dtype), full({2, 4}, IsFloat(dtype) ? 1.5 : 1.0));
    same(zeros({2, 4}, dtype), zeros({2, 4}));
  }
}

TEST(StorageTypes, ArithmeticRefusesThem) {
  Tensor x = ones({4}).to(f8e4m3);
  auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const TypeError& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message([&] { x + x; }).find("add: f8e4m3 is a storage type; cast it, say to f32"),
            std::string::npos);
  EXPECT_NE(message([&] { softmax(x, 0); }).find("is a storage type"), std::string::npos);
  EXPECT_THROW(ones({3}).to(i4), ValueError);  // rows fill whole bytes
  EXPECT_THROW(ones({6}).to(u2), ValueError);
  EXPECT_THROW(x + ones({4}), TypeError);
}

TEST(StorageTypes, ViewsOfBytes) {
  Tensor x = tensor({1, 2, 3, 4}, i8).to(u4);
  Tensor bytes = view_dtype(x, u8);
  EXPECT_TRUE(Host(bytes).SameBits(Host(tensor({0x21, 0x43}, u8))));
  EXPECT_TRUE(Host(view_dtype(bytes, u4).to(u8)).SameBits(Host(tensor({1, 2, 3, 4}, u8))));
  EXPECT_TRUE(Host(view_dtype(tensor({0x38}, u8), f8e4m3).to(f32)).SameBits(Host(ones({1}))));
}

// ---- quantize

TEST(Quantize, BlocksOfEveryKind) {
  manual_seed(3);
  Tensor x = randn({6, 32});
  for (const Dims& sizes : {Dims{}, Dims{6, 1}, Dims{1, 32}, Dims{6, 4}, Dims{3, 2}, Dims{8}}) {
    for (DType dtype : {i8, i16, i4, i2}) {
      Tensor scale = quantization_scale(x, sizes, dtype);
      EXPECT_EQ(scale.sizes(), sizes);
      Tensor back = dequantize(quantize(x, scale, std::nullopt, dtype), scale);
      EXPECT_LE(Difference(back, x), max(scale).item<double>() * 0.501) << ToString(sizes);
    }
  }
}

TEST(Quantize, ZeroPointsAndSaturation) {
  Tensor x = tensor({-1.0, 0.0, 0.5, 100.0});
  Tensor q = quantize(x, tensor(0.5), tensor(3, u8), u8);
  EXPECT_TRUE(Host(q).SameBits(Host(tensor({1, 3, 4, 203}, u8))));
  EXPECT_TRUE(Host(quantize(x * 10.0, tensor(0.5), tensor(3, i8), i8))
                  .SameBits(Host(tensor({-17, 3, 13, 127}, i8))));
  EXPECT_TRUE(Host(dequantize(q, tensor(0.5), tensor(3, u8)))
                  .SameBits(Host(tensor({-1.0, 0.0, 0.5, 100.0}))));
  EXPECT_THROW(quantize(x, ones({3})), ValueError);
  EXPECT_THROW(quantize(tensor({1, 2}), tensor(1.0)), TypeError);
}

TEST(QuantizedLinear, IsALinearWithTheDequantizedWeight) {
  manual_seed(4);
  for (int64_t rows : {1, 3, 16, 40}) {
    for (DType dtype : {i8, u8, i4, u4, i2, u2, f8e4m3}) {
      for (int64_t group : {64, 32, 8, 192, 24}) {
        for (DType real : {f32, bf16}) {
          Tensor x = randn({rows, 192}).to(real), w = randn({11, 192}), b = randn({11}).to(real);
          Tensor scale = quantization_scale(w, {11, 192 / group}, dtype) * 1.5;
          std::optional<Tensor> zero;
          if (dtype == u8 || dtype == u4) zero = full(scale.sizes(), 7, u8);
          if (dtype == u2) zero = full(scale.sizes(), 2, u8);
          Tensor q = quantize(w, scale, zero, dtype);
          Tensor y = quantized_linear(x, q, scale, zero, b);
          EXPECT_EQ(y.dtype(), real);
          Tensor expected = linear(x.to(f32), dequantize(q, scale, zero), b.to(f32));
          const double bound = real == f32 ? 1e-4 : 0.35;
          EXPECT_LE(Difference(y, expected), bound)
              << rows << ' ' << NameOf(dtype) << ' ' << group << ' ' << NameOf(real);
        }
      }
    }
  }
}

TEST(QuantizedRows, EveryKernelGivesTheSums) {
  using cpu::QuantizedRows;
  using Level = QuantizedRows::Level;
  manual_seed(9);
  for (DType weight : {i8, u8, i4, u4}) {
    for (int64_t group : {256, 128, 64, 32, 320}) {
      for (bool zeros : {false, true}) {
        for (int64_t rows : {1, 3}) {
          const int64_t n = 5, k = group == 256 ? 256 : 320 / std::min<int64_t>(group, 320) * group;
          cpu::QuantizedRowsSpec spec{.m = rows,
                                      .n = n,
                                      .k = k,
                                      .group = group,
                                      .x = bf16,
                                      .weight = weight,
                                      .scale = f32,
                                      .zero = u8,
                                      .scale_stride = k / group,
                                      .zero_stride = k / group};
          HostTensor x = Host(randn({rows, k}).to(bf16)), scale = Host(rand({n, k / group}));
          HostTensor q = Host(randint(-8, 8, {n, k}).to(weight));
          HostTensor zero = Host(randint(0, 8, {n, k / group}).to(u8));
          std::vector<float> first;
          for (Level level : {Level::kPlain, Level::kAvx2, Level::kAvx512, Level::kBf16}) {
            if (level > QuantizedRows::Best(spec)) continue;
            if (level == Level::kBf16 && InfoOf(weight).bits == 8) continue;
            if (level == Level::kAvx2 && InfoOf(weight).bits == 8 && group % 32 != 0) continue;
            QuantizedRows kernel(spec);
            kernel.SetLevel(level);
            HostTensor out(Shape(bf16, {rows, n}));
            HostTensor scratch(Shape(u8, {kernel.scratch_bytes()}));
            kernel.Run({.x = x.data(),
                        .weight = q.data(),
                        .scale = scale.data(),
                        .zero = zeros ? zero.data() : nullptr,
                        .out = out.mutable_data()},
                       static_cast<char*>(scratch.mutable_data()), cpu::ThreadPool::Get());
            for (int64_t i = 0; i < out.numel(); ++i) {
              const float value = static_cast<float>(out.at(i).ToDouble());
              if (level == Level::kPlain) first.push_back(value);
              ASSERT_NEAR(value, first[i], std::abs(first[i]) * 0.01 + 0.3)
                  << NameOf(weight) << ' ' << group << ' ' << kernel.kernel();
            }
          }
        }
      }
    }
  }
}

/// What a node of an op becomes on the CPU.
lazy::ComputationInfo OnCpu(const char* op, const std::vector<Shape>& types) {
  Graph graph;
  std::vector<GraphValue> in;
  for (const Shape& type : types) in.push_back(graph.AddInput(type));
  const OpDef& record = op_registry::Get(op);
  in.resize(record.info().schema.arguments().size());  // none for the rest
  graph.AddOutput({graph.AddNode(record, in), 0});
  std::vector<CompiledPart> parts = DescribeCompiled(graph, "cpu");
  EXPECT_EQ(parts.size(), 1u);
  return parts.at(0).info;
}

bool Uses(const lazy::ComputationInfo& info, const std::string& kernel) {
  return std::ranges::any_of(info.kernels,
                             [&](const auto& k) { return k.kind.starts_with(kernel); });
}

TEST(QuantizedRows, RunOnTheCpuWithoutADequantisedWeight) {
  constexpr int64_t n = 256, k = 512;
  for (int64_t rows : {1, 16, 17}) {
    for (DType weight : {i8, i4}) {
      auto info =
          OnCpu("quantized_linear", {{f32, {rows, k}}, {weight, {n, k}}, {f32, {n, k / 64}}});
      const bool few = rows <= cpu::QuantizedRows::kMostRows;
      EXPECT_EQ(Uses(info, "quantised rows"), few) << rows << ' ' << NameOf(weight);
      EXPECT_EQ(info.peak_bytes < n * k, few) << info.peak_bytes;
    }
  }
}

TEST(ByteRows, MultiplyOnTheCpuWithoutWiderOperands) {
  constexpr int64_t n = 256, k = 512;
  for (DType x : {i8, u8}) {
    auto info = OnCpu("int_matmul", {{x, {4, k}}, {i8, {k, n}}});
    EXPECT_TRUE(Uses(info, "rows of bytes")) << NameOf(x);
    EXPECT_LT(info.peak_bytes, 2 * n * k) << "a weight of i32 has twice that";
  }
}

TEST(ByteRows, EveryKernelGivesTheSums) {
  using Level = cpu::ByteRows::Level;
  for (bool is_signed : {false, true}) {
    for (int64_t k : {1, 63, 64, 200}) {
      Tensor a = randint(-128, 128, {6, k}).to(i8), b = randint(-128, 128, {9, k}).to(i8);
      Tensor wide = is_signed ? a.to(f64) : view_dtype(a, u8).to(f64);
      HostTensor expected = Host(matmul(wide, b.to(f64).t()).to(i32)), left = Host(a),
                 right = Host(b);
      for (Level level : {Level::kPlain, Level::kAvx2, Level::kVnni}) {
        if (level > cpu::ByteRows::Best()) continue;
        cpu::ByteRows kernel({.m = 6, .n = 9, .k = k, .a_signed = is_signed});
        kernel.SetLevel(level);
        HostTensor out(Shape(i32, {6, 9})), scratch(Shape(u8, {kernel.scratch_bytes()}));
        kernel.Run(left.data(), right.data(), out.mutable_data(),
                   static_cast<char*>(scratch.mutable_data()), cpu::ThreadPool::Get());
        EXPECT_TRUE(out.SameBits(expected)) << kernel.kernel() << ' ' << k;
      }
    }
  }
}

TEST(Quantize, RoundsTiesToEvenAndSaturatesEveryType) {
  Tensor x = tensor({-1e30, -70000.5, -2.5, -1.5, -0.5, 0.0, 0.5, 1.5, 2.5, 126.5, 254.5, 70000.5,
                     1e30, double(NAN)},
                    f32);
  for (DType dtype : {i8, u8, i16, u16, i32}) {
    for (int64_t zero : {0, 1, 100}) {
      Tensor q = quantize(x, full({}, 1.0), tensor(zero, dtype), dtype);
      Tensor steps = round(where(isnan(x), 0.0, x).to(f64)) + static_cast<double>(zero);
      Tensor expected =
          clamp(steps, InfoOf(dtype).lowest, dtype == i32 ? 0x1.fffffep30 : InfoOf(dtype).highest);
      EXPECT_TRUE(Host(q.to(f64)).SameBits(Host(expected))) << NameOf(dtype) << ' ' << zero;
    }
  }
}

TEST(FakeQuantize, GivesTheNumbersOfIntegersAndPassesGradients) {
  Tensor x = tensor({-3.0, -0.26, 0.2, 0.24, 1.1, 90.0}).requires_grad_();
  Tensor y = fake_quantize_per_tensor_affine(x, 0.5, 2, 0, 7);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{-1, -0.5, 0, 0, 1, 2.5}));
  (y * tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0})).sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{0, 2, 3, 4, 5, 0}));
  Tensor of_tensors = fake_quantize_per_tensor_affine(x, tensor({0.5}), tensor({2}), 0, 7);
  EXPECT_EQ(of_tensors.to_vector<float>(), y.to_vector<float>());
}

TEST(FakeQuantize, HasAScaleForEachChannel) {
  manual_seed(11);
  Tensor x = randn({3, 4}), scale = tensor({0.1, 0.2, 0.4, 1.0}), zero = tensor({0, 1, -1, 0}, i32);
  Tensor y = fake_quantize_per_channel_affine(x, scale, zero, -1, -4, 3);
  for (int64_t i = 0; i < 4; ++i) {
    Tensor one = fake_quantize_per_tensor_affine(x.select(1, i), scale[i], zero[i], -4, 3);
    EXPECT_EQ(y.select(1, i).to_vector<float>(), one.to_vector<float>());
  }
  Tensor q = quantize(x, scale, zero.to(i8), i8);
  EXPECT_LE(Difference(fake_quantize_per_channel_affine(x, scale, zero, 1, -128, 127),
                       dequantize(q, scale, zero.to(i8))),
            1e-6);
  auto each = [&](const Tensor& row) {
    return fake_quantize_per_channel_affine(row, scale, zero, 0, -4, 3);
  };
  EXPECT_EQ(vmap(each)(x).to_vector<float>(), y.to_vector<float>());
  EXPECT_EQ(fake_quantize_per_tensor_affine(x.to(bf16), 0.5, 0, -4, 3).dtype(), bf16);
  EXPECT_THROW(fake_quantize_per_channel_affine(x, scale, zero, 0, -4, 3), ValueError);
  EXPECT_THROW(fake_quantize_per_tensor_affine(x, scale, 0, -4, 3), ValueError);
  EXPECT_THROW(fake_quantize_per_tensor_affine(x, 1.0, 0, 4, 3), ValueError);
  EXPECT_THROW(fake_quantize_per_tensor_affine(zero, 1.0, 0, -4, 3), TypeError);
}

// ---- integers

TEST(IntMatmul, ZeroPointsOfRowsAndColumns) {
  manual_seed(5);
  auto bytes = [](const Dims& sizes, DType dtype) {
    return randint(dtype == i8 ? -128 : 0, dtype == i8 ? 128 : 256, sizes).to(dtype);
  };
  for (DType a : {i8, u8}) {
    for (DType b : {i8, u8}) {
      for (int64_t k : {1, 7, 64, 130}) {
        Tensor x = bytes({2, 5, k}, a), y = bytes({k, 9}, b);
        Tensor p = bytes({2, 5, 1}, a), q = bytes({1, 9}, b);
        Tensor exact = matmul(x.to(f64) - p.to(f64), y.to(f64) - q.to(f64));
        EXPECT_EQ(Difference(int_matmul(x, y, p, q), exact), 0) << k;
        EXPECT_EQ(Difference(int_matmul(x, y), matmul(x.to(f64), y.to(f64))), 0) << k;
        EXPECT_EQ(
            Difference(int_matmul(x, y, std::nullopt, q), matmul(x.to(f64), y.to(f64) - q.to(f64))),
            0);
      }
    }
  }
  EXPECT_EQ(int_matmul(bytes({2, 3}, i8), bytes({3, 2}, i8)).dtype(), i32);
  EXPECT_THROW(int_matmul(ones({2, 2}), ones({2, 2})), TypeError);
}

TEST(IntConvolution, IsAConvolutionWithoutZeroPoints) {
  manual_seed(6);
  Tensor x = randint(0, 256, {2, 4, 9, 8}).to(u8), w = randint(-128, 128, {6, 2, 3, 2}).to(i8);
  Tensor p = tensor(117, u8), q = randint(-5, 5, {6, 1, 1, 1}).to(i8);
  Tensor expected =
      conv2d(x.to(f64) - 117.0, w.to(f64) - q.to(f64), std::nullopt, {2, 1}, {1, 2}, {1, 2}, 2);
  EXPECT_EQ(Difference(int_convolution(x, w, p, q, {2, 1}, {1, 2}, {1, 2}, 2), expected), 0);
  Tensor line = randint(0, 256, {2, 3, 9}).to(u8), filter = randint(-128, 128, {4, 3, 3}).to(i8);
  EXPECT_EQ(Difference(int_convolution(line, filter), conv1d(line.to(f64), filter.to(f64))), 0);
}

TEST(IntConvolution, OfEveryTypeAndGeometry) {
  manual_seed(8);
  auto bytes = [](const Dims& sizes, DType dtype) {
    return randint(dtype == i8 ? -128 : 0, dtype == i8 ? 128 : 256, sizes).to(dtype);
  };
  struct Geometry {
    Dims input, weight, stride, padding, dilation;
    int64_t groups;
  };
  const Geometry geometries[] = {
      {{2, 32, 12, 11}, {48, 32, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
      {{1, 32, 9, 9}, {32, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 32},  // of each channel
      {{1, 24, 7, 7}, {40, 24, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1},
      {{1, 1, 20, 21}, {16, 1, 5, 3}, {2, 1}, {2, 0}, {1, 2}, 1},
      {{1, 4, 5, 6, 7}, {8, 2, 2, 3, 2}, {1, 1, 1}, {1, 0, 1}, {1, 1, 1}, 2},
  };
  for (const Geometry& g : geometries) {
    for (DType x_type : {i8, u8}) {
      for (DType w_type : {i8, u8}) {
        Tensor x = bytes(g.input, x_type), w = bytes(g.weight, w_type);
        Tensor p = bytes({}, x_type), q = bytes({g.weight[0]}, w_type);
        Dims filters = Dims::Filled(g.weight.size(), 1);
        filters[0] = g.weight[0];
        auto exact = [&](const Tensor& a, const Tensor& b) {
          return g.weight.size() == 5
                     ? conv3d(a, b, std::nullopt, g.stride, g.padding, g.dilation, g.groups)
                     : conv2d(a, b, std::nullopt, g.stride, g.padding, g.dilation, g.groups);
        };
        auto sums = [&](const std::optional<Tensor>& x_zero, const std::optional<Tensor>& w_zero) {
          return int_convolution(x, w, x_zero, w_zero, g.stride, g.padding, g.dilation, g.groups);
        };
        Tensor a = x.to(f64), b = w.to(f64);
        Tensor centred = b - q.to(f64).reshape(filters);
        EXPECT_EQ(Difference(sums(std::nullopt, std::nullopt), exact(a, b)), 0);
        EXPECT_EQ(Difference(sums(p, std::nullopt), exact(a - p.to(f64), b)), 0);
        EXPECT_EQ(Difference(sums(std::nullopt, q), exact(a, centred)), 0);
        EXPECT_EQ(Difference(sums(p, q), exact(a - p.to(f64), centred)), 0);
      }
    }
  }
}

TEST(IntMatmul, WeightsOfEitherOrderAndManyRows) {
  manual_seed(9);
  Tensor x = randint(0, 256, {3, 70, 65}).to(u8), w = randint(-128, 128, {65, 130}).to(i8);
  Tensor exact = matmul(x.to(f64), w.to(f64));
  EXPECT_EQ(Difference(int_matmul(x, w), exact), 0);
  EXPECT_EQ(Difference(int_matmul(x, w.t().contiguous().t()), exact), 0);
  Tensor y = randint(-128, 128, {3, 65, 9}).to(i8);  // a matrix for each of the stack
  EXPECT_EQ(Difference(int_matmul(x, y), matmul(x.to(f64), y.to(f64))), 0);
  // Terms of two dims that do not lie together, which are copied first.
  const char* sums = "abc,cna->bn";
  Tensor left = randint(0, 256, {4, 5, 6}).to(u8), right = randint(-128, 128, {6, 9, 4}).to(i8);
  EXPECT_EQ(Difference(einsum(sums, {left.to(i32), right.to(i32)}),
                       einsum(sums, {left.to(f64), right.to(f64)})),
            0);
}

// ---- layers

struct Small : Module {
  Small() : Module("Small") { define("forward(Tensor x) -> Tensor", &Small::forward); }
  nn::Conv2d conv = register_module(
      "conv", nn::Conv2d({.in_channels = 3, .out_channels = 8, .kernel_size = 3, .padding = 1}));
  nn::Linear first = register_module("first", nn::Linear(8, 64));
  nn::Linear second = register_module("second", nn::Linear(64, 10));
  Tensor forward(const Tensor& x) { return second(relu(first(relu(conv(x)).mean({2, 3})))); }
};

/// What rounded weights change of results, in parts of the largest.
double Bound(DType dtype) {
  const int bits = InfoOf(dtype).bits;
  return bits == 8 ? 0.05 : bits == 4 ? 0.25 : 1.5;
}

TEST(QuantizeModule, WeightsAlone) {
  manual_seed(7);
  NoGradGuard no_grad;
  Tensor x = randn({4, 3, 8, 8});
  for (DType dtype : {i8, u8, i4, u4, i2, u2, f8e4m3}) {
    Small net;
    Tensor before = net.forward(x);
    auto names = nn::quantize_(net, {.dtype = dtype, .group = 8});
    EXPECT_EQ(names, (std::vector<std::string>{"first", "second"}));
    Tensor after = net.forward(x);
    const double size = max(abs(before)).item<double>();
    EXPECT_LE(Difference(before, after), size * Bound(dtype)) << NameOf(dtype);
    EXPECT_EQ(net.get_tensor("first.weight").dtype(), dtype);
  }
}

TEST(QuantizeModule, ActivationsTooAfterCalibration) {
  manual_seed(8);
  NoGradGuard no_grad;
  Small net;
  Tensor x = randn({8, 3, 8, 8});
  Tensor before = net.forward(x);
  nn::Calibration calibration(net);
  for (int i = 0; i < 4; ++i) net.forward(randn({8, 3, 8, 8}));
  net.forward(x);
  auto names = nn::quantize_(net, {.calibration = &calibration});
  EXPECT_EQ(names, (std::vector<std::string>{"conv", "first", "second"}));
  EXPECT_EQ(net.get_submodule("conv")->class_name(), "ByteConv");
  EXPECT_LE(Difference(before, net.forward(x)), max(abs(before)).item<double>() * 0.1);
}

TEST(QuantizeModule, TransformersWithTheProjectionsOfTheirAttention) {
  manual_seed(9);
  NoGradGuard no_grad;
  const nn::TransformerLayerOptions options{
      .d_model = 16, .nhead = 2, .dim_feedforward = 32, .dropout = 0};
  nn::TransformerEncoderLayer encoder(options), loaded(options);
  nn::TransformerDecoderLayer decoder(options);
  Tensor x = randn({5, 3, 16});
  Tensor encoded = encoder->forward(x), decoded = decoder->forward(x, encoded);
  EXPECT_EQ(nn::quantize_(*encoder),
            (std::vector<std::string>{"self_attn.out_proj", "linear1", "linear2"}));
  EXPECT_EQ(nn::quantize_(*decoder),
            (std::vector<std::string>{"self_attn.out_proj", "multihead_attn.out_proj", "linear1",
                                      "linear2"}));
  EXPECT_LE(Difference(encoder->forward(x), encoded), 0.05);
  EXPECT_LE(Difference(decoder->forward(x, encoded), decoded), 0.05);
  EXPECT_EQ(encoder->get_tensor("self_attn.out_proj.weight").dtype(), i8);
  nn::quantize_(*loaded);
  loaded->load_state_dict(encoder->state_dict());
  EXPECT_EQ(Difference(loaded->forward(x), encoder->forward(x)), 0);
  encoder->get_tensor("self_attn.out_proj.scale").zero_();  // which was read, so
  EXPECT_GT(Difference(encoder->forward(x), encoded), 0.05);
}

TEST(QuantizeModule, CallsOfForwardGoToTheQuantisedLayer) {
  manual_seed(10);
  NoGradGuard no_grad;
  Small net;
  Tensor x = randn({2, 8});
  Tensor before = net.first->forward(x);
  nn::quantize_(net, {.dtype = i4});
  EXPECT_GT(Difference(net.first->forward(x), before), 0);
  EXPECT_EQ(Difference(net.first->forward(x), net.first(x)), 0);
}

TEST(QuantizeModule, KeepsWhatItIsTold) {
  Small net;
  auto names = nn::quantize_(
      net, {.keep = [](const std::string& name, const Module&) { return name == "second"; }});
  EXPECT_EQ(names, std::vector<std::string>{"first"});
}

TEST(Promotion, WideUnsignedTypesWithSignedOnes) {
  EXPECT_EQ(PromoteTypes(u16, i8), i32);
  EXPECT_EQ(PromoteTypes(i32, u16), i32);
  EXPECT_EQ(PromoteTypes(u32, i32), i64);
  EXPECT_EQ(PromoteTypes(u16, u32), u32);
  EXPECT_THROW(PromoteTypes(u64, i8), TypeError);
  EXPECT_EQ(PromoteTypes(u64, f16), f16);
}

}  // namespace
}  // namespace hammock
