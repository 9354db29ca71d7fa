#include "hammock/config.h"
#include "hammock/error.h"
#include "hammock/executor.h"
#include "hammock/ir/op_def.h"
#include "ops/expect.h"

namespace hammock {
namespace {

TEST(Create, LiteralsHavePythonsDTypes) {
  EXPECT_TENSOR(tensor({1.0, 2.5}), Type(f32, {2}), {1, 2.5});
  EXPECT_TENSOR(tensor({1, 2, 3}), Type(i64, {3}), {1, 2, 3});
  EXPECT_TENSOR(tensor({true, false}), Type(boolean, {2}), {1, 0});
  EXPECT_TENSOR(tensor({{1, 2}, {3, 4}}, f16), Type(f16, {2, 2}), {1, 2, 3, 4});
  EXPECT_TENSOR(tensor(2.5), Type(f32, {}), {2.5});
  EXPECT_TENSOR(tensor(7), Type(i64, {}), {7});
  EXPECT_TENSOR(scalar_tensor(7), Type(f32, {}), {7});
  EXPECT_ERROR((tensor({{1, 2}, {3}})), ValueError, "differ in length");
}

TEST(Create, VectorsKeepTheirDType) {
  std::vector<double> values = {1, 2, 3, 4};
  EXPECT_TENSOR(tensor(values), Type(f64, {4}), {1, 2, 3, 4});
  EXPECT_TENSOR(tensor(values, {2, 2}, i32), Type(i32, {2, 2}), {1, 2, 3, 4});
  EXPECT_TENSOR(tensor(std::vector<int8_t>{1, 2}), Type(i8, {2}), {1, 2});
  EXPECT_TENSOR(tensor(std::vector<bool>{true, false}), Type(boolean, {2}), {1, 0});
  EXPECT_ERROR(tensor(values, {3}), ValueError, "4 elements given, size [3] holds 3");
}

TEST(Create, CopiesMemoryThatMayBeWrittenAgain) {
  float buffer[2];
  std::vector<Tensor> frames, clones;
  for (int i = 0; i < 3; ++i) {
    buffer[0] = buffer[1] = static_cast<float>(i);
    frames.push_back(from_blob(buffer, {2}, f32));
    clones.push_back(from_blob(buffer, {2}, f32).clone());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TENSOR(frames[i], Type(f32, {2}), {1.0 * i, 1.0 * i});
    EXPECT_TENSOR(clones[i] + 1, Type(f32, {2}), {1.0 + i, 1.0 + i});
  }
  HostTensor host = HostTensor::From(std::vector<float>{1, 2}, {2}), other = host;
  Tensor copied = from_host(host), shared = from_host(std::move(other));
  Tensor lent = from_host(HostTensor::Borrow(Shape(f32, {2}), buffer, {}));
  host.set(0, 7.0f);
  buffer[0] = 8;
  EXPECT_TENSOR(copied, Type(f32, {2}), {1, 2});
  EXPECT_TENSOR(shared, Type(f32, {2}), {1, 2});
  EXPECT_TENSOR(lent, Type(f32, {2}), {2, 2});
  // What is read belongs to the reader, also where nothing was computed.
  HostTensor read = copied.host();
  read.set(0, 9.0f);
  EXPECT_TENSOR(copied, Type(f32, {2}), {1, 2});
}

TEST(Create, AdoptsMemoryThatNobodyElseHas) {
  std::vector<float> values = {1, 2, 3};
  Tensor adopted = tensor(std::move(values), {3});
  EXPECT_TENSOR(adopted, Type(f32, {3}), {1, 2, 3});
  EXPECT_TRUE(values.empty());
  HostTensor host(Shape(f32, {2}));
  host.set(0, 4.0f), host.set(1, 5.0f);
  EXPECT_TENSOR(from_host(std::move(host)), Type(f32, {2}), {4, 5});
  EXPECT_FALSE(host.defined());  // NOLINT: taken over
}

TEST(Create, ReleasesACopiedBlobAtOnce) {
  float memory[2] = {4, 5};
  bool released = false;
  Tensor copy = from_blob(memory, {2}, f32, [&] { released = true; });
  EXPECT_TRUE(released);
  copy += 1;
  EXPECT_TENSOR(copy, Type(f32, {2}), {5, 6});
  EXPECT_EQ(memory[0], 4);
  EXPECT_ERROR(from_blob(nullptr, {2}, f32), ValueError, "null data");
}

TEST(Create, BorrowsWhereTheCallerSaysSo) {
  float memory[2] = {4, 5};
  bool released = false;
  {
    Tensor borrowed =
        from_blob(memory, {2}, f32, BorrowedMemory([&] { released = true; }), "reference");
    EXPECT_FALSE(released);
    EXPECT_TENSOR(borrowed + 1, Type(f32, {2}), {5, 6});
    borrowed += 1;  // another value: the memory is never written
    EXPECT_TENSOR(borrowed, Type(f32, {2}), {5, 6});
  }
  mark_step(true);
  EXPECT_TRUE(released);
  EXPECT_EQ(memory[0], 4);
}

TEST(Create, FindsBorrowedMemoryThatChanged) {
  config::Override check("check_borrowed", "true");
  for (const char* device : {"reference", "cpu"}) {
    float memory[3] = {1, 2, 3};
    Tensor pending = from_blob(memory, {3}, f32, BorrowedMemory(nullptr), device);
    Tensor used = from_blob(memory, {3}, f32, BorrowedMemory(nullptr), device);
    EXPECT_TENSOR(used * 2, Type(f32, {3}), {2, 4, 6});
    memory[2] = 4;
    EXPECT_ERROR(pending.host(), ValueError, "borrowed memory of f32[3] [at create_test.cpp:");
    EXPECT_ERROR((pending + 1).host(), ValueError, "has changed since");
    EXPECT_ERROR((used * 2).host(), ValueError, "has changed since");
    memory[2] = 3;
    EXPECT_TENSOR(used * 2 + pending, Type(f32, {3}), {3, 6, 9});
  }
}

TEST(Create, FilledTensors) {
  EXPECT_TENSOR(zeros({2, 1}), Type(f32, {2, 1}), {0, 0});
  EXPECT_TENSOR(ones({2}, boolean), Type(boolean, {2}), {1, 1});
  EXPECT_TENSOR(full({2}, 3), Type(i64, {2}), {3, 3});
  EXPECT_TENSOR(full({}, true), Type(boolean, {}), {1});
  EXPECT_TENSOR(full({2}, 2.5), Type(f32, {2}), {2.5, 2.5});
  EXPECT_TENSOR(empty({0, 3}), Type(f32, {0, 3}), {});
  EXPECT_TENSOR(full_like(Vec({1, 2}, i32), 7.9), Type(i32, {2}), {7, 7});
  EXPECT_TENSOR(ones_like(Vec({1, 2}), f64), Type(f64, {2}), {1, 1});
  EXPECT_TENSOR(new_zeros(Vec({1}, i8), {2}), Type(i8, {2}), {0, 0});
  EXPECT_THROW(zeros({-1}), ValueError);
}

TEST(Create, AnotherFillValueDoesNotRecompile) {
  EXPECT_EQ((full({3}, 1.0) + 1).to_vector<float>()[2], 2.0f);
  int64_t before = Compiles();
  EXPECT_EQ((full({3}, 0.0) + 1).to_vector<float>()[2], 1.0f);
  EXPECT_EQ(Compiles(), before);
}

TEST(Create, ArangeFollowsItsArguments) {
  EXPECT_TENSOR(arange(4), Type(i64, {4}), {0, 1, 2, 3});
  EXPECT_TENSOR(arange(1, 8, 3), Type(i64, {3}), {1, 4, 7});
  EXPECT_TENSOR(arange(5, 0, -2), Type(i64, {3}), {5, 3, 1});
  EXPECT_TENSOR(arange(0, 1, 0.25), Type(f32, {4}), {0, 0.25, 0.5, 0.75});
  EXPECT_TENSOR(arange(3.0), Type(f32, {3}), {0, 1, 2});
  EXPECT_TENSOR(arange(3, f16), Type(f16, {3}), {0, 1, 2});
  EXPECT_TENSOR(arange(2, 2), Type(i64, {0}), {});
  EXPECT_ERROR(arange(0, 5, -1), ValueError, "arange: no range from 0 to 5 by -1");
  EXPECT_ERROR(arange(0, 5, 0), ValueError, "the step not zero");
  EXPECT_ERROR(arange(0, kInf), ValueError, "must be finite");
  EXPECT_ERROR(arange(INT64_MIN, INT64_MAX), ValueError, "more elements than a tensor can have");
}

TEST(Create, ArangeWithAnotherStartDoesNotRecompile) {
  EXPECT_EQ(arange(0, 4).to_vector<int64_t>()[3], 3);
  int64_t before = Compiles();
  EXPECT_EQ(arange(10, 14).to_vector<int64_t>()[3], 13);
  EXPECT_EQ(Compiles(), before);
}

TEST(Create, SpacedValuesHitBothEnds) {
  EXPECT_TENSOR(linspace(0, 1, 5), Type(f32, {5}), {0, 0.25, 0.5, 0.75, 1});
  EXPECT_TENSOR(linspace(3, 10, 1), Type(f32, {1}), {3});
  EXPECT_TENSOR(linspace(0, 10, 4, i64), Type(i64, {4}), {0, 3, 6, 10});
  EXPECT_TENSOR(linspace(0, 1, 0), Type(f32, {0}), {});
  EXPECT_TENSOR(logspace(0, 3, 4), Type(f32, {4}), {1, 10, 100, 1000});
  EXPECT_TENSOR(logspace(0, 3, 4, 2.0), Type(f32, {4}), {1, 2, 4, 8});
  EXPECT_ERROR(linspace(0, 1, -1), ValueError, "steps -1");
}

TEST(Create, EyeAndTriangles) {
  EXPECT_TENSOR(eye(2, 3), Type(f32, {2, 3}), {1, 0, 0, 0, 1, 0});
  EXPECT_TENSOR(eye(2, i64), Type(i64, {2, 2}), {1, 0, 0, 1});
  EXPECT_TENSOR(tril_indices(2, 2), Type(i64, {2, 3}), {0, 1, 1, 0, 0, 1});
  EXPECT_TENSOR(triu_indices(2, 3, 1), Type(i64, {2, 3}), {0, 0, 1, 1, 2, 2});
}

TEST(Create, StaysOnItsDevice) {
  Device other("null");
  ASSERT_NE(other, Device());
  Tensor x = zeros({2}, i64, other);
  Tensor scalar = full({2}, 1.5, std::nullopt, other);
  for (const Tensor& y :
       {x, scalar, arange(0, 3, 1, f32, other), eye(2, f32, other), linspace(0, 1, 3, f32, other),
        rand({2}, f32, other), randperm(3, i64, other), isinf(x), full_like(x, 3), ones_like(x),
        rand_like(scalar), where(x > 0, 1, 2), clamp(x, 0, 1), hann_window(3, true, f32, other),
        tensor({1, 2}, f32, other)}) {
    EXPECT_EQ(y.device(), other) << y.summary();
  }
  x.zero_().add_(2).fill_(3);
  EXPECT_EQ(x.device(), other);
  EXPECT_ERROR(x + zeros({2}), ValueError, "different devices");
}

TEST(Create, Windows) {
  EXPECT_TENSOR(hann_window(4), Type(f32, {4}), {0, 0.5, 1, 0.5}, 1e-6);
  EXPECT_TENSOR(hann_window(3, false), Type(f32, {3}), {0, 1, 0}, 1e-6);
  EXPECT_TENSOR(bartlett_window(4), Type(f32, {4}), {0, 0.5, 1, 0.5}, 1e-6);
  EXPECT_TENSOR(hamming_window(2), Type(f32, {2}), {0.08, 1}, 1e-6);
  EXPECT_TENSOR(blackman_window(2), Type(f32, {2}), {0, 1}, 1e-6);
  EXPECT_TENSOR(hann_window(1), Type(f32, {1}), {1});
  EXPECT_TENSOR(hann_window(0), Type(f32, {0}), {});
  EXPECT_THROW(hann_window(3, true, i64), TypeError);
}

TEST(Create, FillAndConversionsByName) {
  Tensor x = Vec({1.5, 200});
  EXPECT_TENSOR(CallOp("fill", {x, 7}).ToTensor(), Type(f32, {2}), {7, 7});
  EXPECT_TENSOR(CallOp("int", {x}).ToTensor(), Type(i32, {2}), {1, 200});
  EXPECT_TENSOR(CallOp("bool", {x}).ToTensor(), Type(boolean, {2}), {1, 1});
}

TEST(Create, CallsByNameTakeOptions) {
  EXPECT_TENSOR(CallOp("zeros", {Any::Ints({2})}, {{"dtype", i32}}).ToTensor(), Type(i32, {2}),
                {0, 0});
  EXPECT_TENSOR(CallOp("arange", {1, 3}).ToTensor(), Type(i64, {2}), {1, 2});
  EXPECT_TENSOR(CallOp("arange", {1, 3, 0.5}).ToTensor(), Type(f32, {4}), {1, 1.5, 2, 2.5});
  EXPECT_TENSOR(CallOp("eye", {2, 1}).ToTensor(), Type(f32, {2, 1}), {1, 0});
}

}  // namespace
}  // namespace hammock
