#include <array>
#include <atomic>
#include <thread>

#include "backends/cpu/host/cpu_features.h"
#include "backends/cpu/matmul/matmul_tests.h"

namespace hammock::cpu {
namespace {

/// Runs with so many threads; the result begins as garbage.
HostTensor RunMatMul(const MatMul& matmul, const Shape& out, MatMul::Pointers pointers,
                     const char* threads) {
  config::Override some("cpu.threads", threads);
  HostTensor result(out);
  std::memset(result.mutable_data(), 0xff, result.bytes());
  ScratchMemory scratch(matmul.scratch_bytes(ThreadPool::threads()));
  if (matmul.spec().epilogue.stores) pointers.out = result.mutable_data();
  matmul.Run(pointers, scratch.span(), ThreadPool::Get());
  return result;
}

/// dot_general against the interpreter; one, two and five threads give the same bits.
void CheckDotGeneral(const Shape& a, const Shape& b, const Dims& a_contract, const Dims& b_contract,
                     const Dims& a_batch, const Dims& b_batch, std::mt19937& random) {
  HostTensor left = Random(a, random);
  HostTensor right = Random(b, random);
  HostTensor expected =
      Interpreted(ops::kDotGeneral, {left, right}, {a_contract, b_contract, a_batch, b_batch});
  MatMul matmul(DotGeneral(a, b, a_contract, b_contract, a_batch, b_batch));
  MatMul::Pointers pointers = {.a = left.data(), .b = right.data()};
  HostTensor one = RunMatMul(matmul, expected.shape(), pointers, "1");
  auto about = [&] {
    return fmt::format("{} {} {} {} {} {} by {}", a.to_string(), b.to_string(),
                       ToString(a_contract), ToString(b_contract), ToString(a_batch),
                       ToString(b_batch), matmul.kernel());
  };
  ASSERT_TRUE(Near(one, expected, matmul.spec().k)) << about();
  for (const char* threads : {"2", "5"}) {
    ASSERT_TRUE(one.SameBits(RunMatMul(matmul, expected.shape(), pointers, threads)))
        << threads << " threads: " << about();
  }
  if (matmul.packed_bytes() == 0) return;
  ScratchMemory packed(matmul.packed_bytes());
  matmul.Pack(right.data(), packed.span().data(), ThreadPool::Get());
  pointers.b = nullptr;
  pointers.packed = packed.span().data();
  ASSERT_TRUE(one.SameBits(RunMatMul(matmul, expected.shape(), pointers, "2")))
      << "packed: " << about();
}

TEST(MatMul, EqualOnesAreOneObject) {
  const Shape square(f32, {8, 8});
  DotGeneralSpec spec = DotGeneral(square, square, {1}, {0}, {}, {});
  const std::shared_ptr<const MatMul> matmul = MatMul::Shared(spec);
  EXPECT_EQ(MatMul::Shared(spec), matmul);
  EXPECT_NE(MatMul::Shared(DotGeneral(square, square, {1}, {1}, {}, {})), matmul);
  config::Override other("cpu.onednn", config::GetText("cpu.onednn") == "true" ? "false" : "true");
  EXPECT_NE(MatMul::Shared(spec), matmul);
}

TEST(MatMul, MatchesTheInterpreterOnRandomMatrices) {
  std::mt19937 random(1);
  const int64_t sizes[] = {0, 1, 1, 2, 3, 5, 7, 16, 17, 31, 33, 64, 65, 100};
  for (int turn = 0; turn < 400; ++turn) {
    DType dtype = turn % 2 ? f32 : kNumbers[random() % std::size(kNumbers)];
    int64_t m = sizes[random() % std::size(sizes)];
    int64_t n = sizes[random() % std::size(sizes)];
    int64_t k = sizes[random() % std::size(sizes)];
    bool a_transposed = random() % 2;
    bool b_transposed = random() % 2;
    CheckDotGeneral(Shape(dtype, a_transposed ? Dims{k, m} : Dims{m, k}),
                    Shape(dtype, b_transposed ? Dims{n, k} : Dims{k, n}), {a_transposed ? 0 : 1},
                    {b_transposed ? 1 : 0}, {}, {}, random);
  }
}

TEST(MatMul, MatchesTheInterpreterOnLargerMatrices) {
  std::mt19937 random(2);
  for (auto [m, k, n] : {std::array<int64_t, 3>{200, 300, 150},
                         {513, 70, 600},
                         {64, 3000, 40},
                         {1, 500, 700},
                         {700, 500, 1},
                         {1, 4100, 1},
                         {33, 257, 1100},
                         {130, 64, 64},
                         {10, 2500, 10}}) {
    for (DType dtype : {f32, bf16, f16, f64, i32}) {
      CheckDotGeneral(Shape(dtype, {m, k}), Shape(dtype, {k, n}), {1}, {0}, {}, {}, random);
      CheckDotGeneral(Shape(dtype, {k, m}), Shape(dtype, {n, k}), {0}, {1}, {}, {}, random);
    }
  }
}

TEST(MatMul, MatchesTheInterpreterOnAnyDims) {
  std::mt19937 random(3);
  for (int turn = 0; turn < 300; ++turn) {
    DType dtype = turn % 2 ? f32 : kNumbers[random() % std::size(kNumbers)];
    // Dims of each kind, placed at random in both operands.
    int batch = random() % 3, contract = random() % 3;
    int a_free = random() % 3, b_free = random() % 3;
    auto size = [&] {
      return static_cast<int64_t>(random() % 8 == 0 ? random() % 2 : 1 + random() % 9);
    };
    Dims shared;
    for (int i = 0; i < batch + contract; ++i) shared.push_back(size());
    auto add_dims = [&](int free, Dims& sizes, Dims& batch_dims, Dims& contract_dims) {
      int rank = batch + contract + free;
      std::vector<int> order(rank);
      for (int i = 0; i < rank; ++i) order[i] = i;
      std::shuffle(order.begin(), order.end(), random);
      sizes = Dims::Filled(rank, 0);
      batch_dims = Dims::Filled(batch, 0);
      contract_dims = Dims::Filled(contract, 0);
      for (int d = 0; d < rank; ++d) {
        sizes[d] = order[d] < batch + contract ? shared[order[d]] : size();
        if (order[d] < batch) batch_dims[order[d]] = d;
        if (order[d] >= batch && order[d] < batch + contract) contract_dims[order[d] - batch] = d;
      }
    };
    Dims a, b, a_batch, b_batch, a_contract, b_contract;
    add_dims(a_free, a, a_batch, a_contract);
    add_dims(b_free, b, b_batch, b_contract);
    CheckDotGeneral(Shape(dtype, a), Shape(dtype, b), a_contract, b_contract, a_batch, b_batch,
                    random);
  }
}

TEST(MatMul, BatchesOfLargerMatrices) {
  std::mt19937 random(4);
  CheckDotGeneral(Shape(f32, {6, 64, 48}), Shape(f32, {6, 48, 80}), {2}, {1}, {0}, {0}, random);
  CheckDotGeneral(Shape(f32, {3, 2, 128, 64}), Shape(f32, {3, 2, 128, 64}), {3}, {3}, {0, 1},
                  {0, 1}, random);
  CheckDotGeneral(Shape(bf16, {2, 100, 4, 32}), Shape(bf16, {2, 90, 4, 32}), {3}, {3}, {0, 2},
                  {0, 2}, random);
  CheckDotGeneral(Shape(f32, {300, 5, 6}), Shape(f32, {300, 6, 7}), {2}, {1}, {0}, {0}, random);
}

TEST(MatMul, RepeatsAMatrixOfStrideZero) {
  std::mt19937 random(5);
  for (int64_t repeated : {0, 1}) {  // the left or the right side
    MatMulSpec spec = MatMulSpec::Plain(f32, 40, 50, 60);
    spec.batch = {3};
    spec.a.batch = {repeated == 0 ? 0 : 40 * 50};
    spec.b.batch = {repeated == 1 ? 0 : 50 * 60};
    spec.out.batch = {40 * 60};
    HostTensor a = Random(Shape(f32, {repeated == 0 ? 1 : 3, 40, 50}), random);
    HostTensor b = Random(Shape(f32, {repeated == 1 ? 1 : 3, 50, 60}), random);
    MatMul matmul(spec);
    HostTensor out =
        RunMatMul(matmul, Shape(f32, {3, 40, 60}), {.a = a.data(), .b = b.data()}, "2");
    for (int64_t i = 0; i < 3; ++i) {
      auto part = [&](const HostTensor& tensor, int64_t which, const Dims& sizes) {
        Shape shape(f32, sizes);
        return HostTensor::Copy(shape,
                                static_cast<const char*>(tensor.data()) + which * shape.bytes());
      };
      HostTensor expected = Interpreted(
          ops::kDotGeneral,
          {part(a, repeated == 0 ? 0 : i, {40, 50}), part(b, repeated == 1 ? 0 : i, {50, 60})},
          {Dims{1}, Dims{0}, Dims{}, Dims{}});
      EXPECT_TRUE(Near(part(out, i, {40, 60}), expected, 50));
    }
  }
}

TEST(MatMul, EpiloguesSeeTheBitsOfTheResultOnce) {
  std::mt19937 random(6);
  for (DType dtype : {f32, bf16, f16, f64, i16}) {
    for (auto [batch, m, k, n] : {std::array<int64_t, 4>{1, 5, 6, 7},
                                  {1, 100, 60, 70},
                                  {3, 1, 40, 900},
                                  {1, 300, 40, 1},
                                  {1, 4, 0, 5},
                                  {2, 70, 64, 600},
                                  {1, 9, 4096, 9},
                                  {1, 70, 600, 9000},
                                  {1, 1100, 24, 700},
                                  {9, 130, 33, 40}}) {
      HostTensor a = Random(Shape(dtype, {batch, m, k}), random);
      HostTensor b = Random(Shape(dtype, {batch, k, n}), random);
      DotGeneralSpec spec = DotGeneral(a.shape(), b.shape(), {2}, {1}, {0}, {0});
      Shape out(dtype, {batch, m, n});
      HostTensor plain = RunMatMul(MatMul(spec), out, {.a = a.data(), .b = b.data()}, "2");
      for (const EpilogueSpec& epilogue : AllEpilogues()) {
        spec.matmul.epilogue = epilogue;
        for (const char* threads : {"1", "3"}) {
          CopyingEpilogue copy(out, n, epilogue);
          MatMul fused(spec);
          HostTensor stored =
              RunMatMul(fused, out, {.a = a.data(), .b = b.data(), .epilogue = &copy}, threads);
          EXPECT_TRUE(copy.SawEverythingOnce()) << fused.kernel();
          EXPECT_TRUE(copy.result().SameBits(plain)) << fused.kernel();
          if (epilogue.stores) {
            EXPECT_TRUE(stored.SameBits(plain)) << fused.kernel();
          }
        }
      }
    }
  }
}

TEST(MatMul, BitsDoNotDependOnHowOperandsLie) {
  std::mt19937 random(19);
  struct Sizes {
    int64_t batch, m, k, n;
  };
  for (auto [batch, m, k, n] : {Sizes{1, 8, 784, 200},
                                {1, 33, 50, 64},
                                {1, 129, 400, 50},
                                {1, 200, 3000, 40},
                                {1, 2048, 257, 64},
                                {1, 300, 30, 1024},
                                {1, 128, 784, 512},
                                {1, 150, 300, 600},
                                {1, 520, 200, 700},
                                {1, 70, 2100, 1024},
                                {2, 600, 100, 1100},
                                {3, 40, 385, 60}}) {
    for (DType dtype : {f32, bf16, f16}) {
      HostTensor a = Random(Shape(dtype, {batch, m, k}), random);
      HostTensor b = Random(Shape(dtype, {batch, k, n}), random);
      HostTensor transposed_a = Permuted(a, {0, 2, 1}), transposed_b = Permuted(b, {2, 0, 1});
      Shape out(dtype, {batch, m, n});
      auto run = [&](const HostTensor& x, const Dims& x_contract, const HostTensor& y,
                     const Dims& y_contract, const Dims& y_batch) {
        MatMul matmul(DotGeneral(x.shape(), y.shape(), x_contract, y_contract, {0}, y_batch));
        HostTensor result = RunMatMul(matmul, out, {.a = x.data(), .b = y.data()}, "2");
        for (const char* threads : {"1", "5"}) {
          HostTensor other = RunMatMul(matmul, out, {.a = x.data(), .b = y.data()}, threads);
          EXPECT_TRUE(other.SameBits(result)) << threads;
        }
        return result;
      };
      HostTensor plain = run(a, {2}, b, {1}, {0});
      ASSERT_TRUE(run(transposed_a, {1}, b, {1}, {0}).SameBits(plain)) << m << " " << k << " " << n;
      ASSERT_TRUE(run(a, {2}, transposed_b, {2}, {1}).SameBits(plain)) << m << " " << k << " " << n;
      ASSERT_TRUE(run(transposed_a, {1}, transposed_b, {2}, {1}).SameBits(plain)) << m;
    }
  }
}

TEST(MatMul, FewColumnsNeedNoGemmOfTheLibrary) {
  if (HostFeatures().processor != Processor::kAvx512) GTEST_SKIP() << "gemm is the best there is";
  if (config::GetText("cpu.onednn") != "true") GTEST_SKIP() << "no oneDNN";
  auto kernel = [](int64_t m, int64_t k, int64_t n) {
    return std::string(MatMul(MatMulSpec::Plain(f32, m, k, n)).kernel());
  };
  EXPECT_EQ(kernel(2048, 257, 64), "onednn");
  EXPECT_EQ(kernel(2048, 257, 65), "onednn gemm");
  EXPECT_EQ(kernel(64, 257, 64), "onednn gemm");  // to prepare a primitive would take longer
}

TEST(MatMul, EpiloguesNeedContiguousResults) {
  MatMulSpec spec = MatMulSpec::Plain(f32, 4, 5, 6);
  spec.out.row = 8;
  spec.epilogue.wanted = true;
  EXPECT_THROW(MatMul{spec}, ValueError);
}

TEST(MatMul, SixteenBitFloatsCanGiveWideResults) {
  std::mt19937 random(7);
  for (DType dtype : {bf16, f16}) {
    for (auto [m, k, n] : {std::array<int64_t, 3>{5, 6, 7}, {100, 60, 70}, {1, 40, 300}}) {
      HostTensor a = Random(Shape(dtype, {m, k}), random);
      HostTensor b = Random(Shape(dtype, {k, n}), random);
      MatMulSpec spec = MatMulSpec::Plain(dtype, m, k, n);
      spec.out_dtype = f32;
      HostTensor out =
          RunMatMul(MatMul(spec), Shape(f32, {m, n}), {.a = a.data(), .b = b.data()}, "2");
      HostTensor expected =
          Interpreted(ops::kDotGeneral, {a.To(f32), b.To(f32)}, {Dims{1}, Dims{0}, Dims{}, Dims{}});
      EXPECT_TRUE(Near(out, expected, k));
    }
  }
}

TEST(MatMul, EveryHalfIsWidenedExactly) {
  constexpr int64_t kCount = 1 << 16, kTerms = 32;
  HostTensor matrix(Shape(f16, {kCount, kTerms})), ones(Shape(f16, {kTerms})), one(ones.shape());
  for (int64_t i = 0; i < kCount * kTerms; ++i) {
    matrix.mutable_values<Half>()[i] = Half::FromBits(static_cast<uint16_t>(i / kTerms));
  }
  for (int64_t i = 0; i < kTerms; ++i) {
    ones.mutable_values<Half>()[i] = Half(1.0f);
    one.mutable_values<Half>()[i] = Half(i == 5 ? 1.0f : 0.0f);
  }
  DotGeneralSpec spec = DotGeneral(Shape(f16, {1, kTerms}), matrix.shape(), {1}, {1}, {}, {});
  spec.matmul.out_dtype = f32;
  auto times = [&](const HostTensor& vector) {
    return RunMatMul(MatMul(spec), Shape(f32, {1, kCount}),
                     {.a = vector.data(), .b = matrix.data()}, "2");
  };
  HostTensor values = times(one), sums = times(ones);
  for (int64_t i = 0; i < kCount; ++i) {
    const float value = static_cast<float>(Half::FromBits(static_cast<uint16_t>(i)));
    if (std::isfinite(value)) {
      ASSERT_EQ(values.values<float>()[i], value) << i;
    } else {
      ASSERT_EQ(std::isnan(sums.values<float>()[i]), std::isnan(value)) << i;
      ASSERT_EQ(std::isinf(sums.values<float>()[i]), std::isinf(value)) << i;
    }
  }
}

TEST(MatMul, RowsOfTheResultMayLieApart) {
  std::mt19937 random(8);
  for (int64_t m : {5, 90}) {
    MatMulSpec spec = MatMulSpec::Plain(f32, m, 40, 50);
    spec.out.row = 64;
    HostTensor a = Random(Shape(f32, {m, 40}), random);
    HostTensor b = Random(Shape(f32, {40, 50}), random);
    HostTensor out =
        RunMatMul(MatMul(spec), Shape(f32, {m, 64}), {.a = a.data(), .b = b.data()}, "2");
    HostTensor expected = Interpreted(ops::kDotGeneral, {a, b}, {Dims{1}, Dims{0}, Dims{}, Dims{}});
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < 50; ++j) {
        ASSERT_NEAR(out.at(i * 64 + j).ToDouble(), expected.at(i * 50 + j).ToDouble(), 1e-4);
      }
      ASSERT_TRUE(std::isnan(out.at(i * 64 + 50).ToDouble()));  // as it was
    }
  }
}

TEST(MatMul, SeveralThreadsRunOneObjectAtOnce) {
  std::mt19937 random(9);
  HostTensor a = Random(Shape(f32, {128, 96}), random);
  HostTensor b = Random(Shape(f32, {96, 200}), random);
  MatMul matmul(MatMulSpec::Plain(f32, 128, 96, 200));
  config::Override two("cpu.threads", "2");
  HostTensor expected =
      RunMatMul(matmul, Shape(f32, {128, 200}), {.a = a.data(), .b = b.data()}, "1");
  std::vector<std::thread> users;
  std::atomic<int> wrong{0};
  for (int user = 0; user < 3; ++user) {
    users.emplace_back([&] {
      for (int turn = 0; turn < 50; ++turn) {
        HostTensor out(Shape(f32, {128, 200}));
        ScratchMemory scratch(matmul.scratch_bytes(2));
        matmul.Run({.a = a.data(), .b = b.data(), .out = out.mutable_data()}, scratch.span(),
                   ThreadPool::Get());
        if (!out.SameBits(expected)) ++wrong;
      }
    });
  }
  for (std::thread& user : users) user.join();
  EXPECT_EQ(wrong, 0);
}

TEST(MatMul, RefusesWhatItCannotCompute) {
  MatMulSpec spec = MatMulSpec::Plain(f32, 2, 3, 4);
  spec.out_dtype = bf16;
  EXPECT_THROW(MatMul{spec}, TypeError);
  EXPECT_THROW(MatMul(MatMulSpec::Plain(boolean, 2, 3, 4)), TypeError);
  spec = MatMulSpec::Plain(f32, 2, 3, 4);
  spec.out.column = 2;
  EXPECT_THROW(MatMul{spec}, ValueError);
}

}  // namespace
}  // namespace hammock::cpu
