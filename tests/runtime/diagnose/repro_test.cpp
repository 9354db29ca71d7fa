#include "hammock/repro.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "backends/common/fault.h"
#include "hammock/hammock.h"
#include "support/tensor_matchers.h"

namespace hammock {
namespace {

class Repro : public ::testing::Test {
 protected:
  std::string path = (std::filesystem::path(::testing::TempDir()) /
                      (std::string("hammock_") +
                       ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".repro"))
                         .string();
  void TearDown() override { std::filesystem::remove(path); }

  std::string Bytes() {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  }
  void Write(const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
};

Tensor On(std::initializer_list<double> values, const Device& device = "reference") {
  return tensor(std::vector<float>(values.begin(), values.end()), std::nullopt, device);
}

TEST_F(Repro, RunsTheGraphAgain) {
  manual_seed(3);
  Tensor x = On({1, 2, 3});
  Tensor random = rand({3}, DType::kF32, "reference");
  Tensor y = exp(x * 0.5) + random;
  SaveRepro(path, {y, x});
  EXPECT_TRUE(y.is_pending());
  std::vector<Tensor> again = RunRepro(path, "reference");
  ASSERT_EQ(again.size(), 2u);
  EXPECT_TENSOR_EQ(again[0], y);
  EXPECT_TENSOR_EQ(again[1], x);
}

TEST_F(Repro, FindsTheCompiledGraphOfTheOriginal) {
  Tensor x = On({1, 2, 3, 4});
  Tensor y = (x * x - x).view({2, 2});
  SaveRepro(path, {y});
  y.host();
  ExpectNoRecompile guard;
  EXPECT_TENSOR_EQ(RunRepro(path, "reference")[0], {0.0f, 2.0f, 6.0f, 12.0f}, {2, 2});
}

TEST_F(Repro, SavesWhatHasFailed) {
  Tensor x = On({1, 2});
  Tensor y = exp(x) * 2.0;
  auto fail = [](FaultPoint point, std::string_view detail) {
    if (point == FaultPoint::kExecute && detail == "exp") {
      throw OutOfMemory(ErrorCode::kOutOfMemory, "no memory for exp");
    }
  };
  {
    ScopedFault fault(fail);
    EXPECT_THROW(y.host(), OutOfMemory);
    SaveRepro(path, {y});
    EXPECT_THROW_MESSAGE(RunRepro(path, "reference"), OutOfMemory, "no memory for exp");
  }
  EXPECT_TENSOR_NEAR(RunRepro(path, "reference")[0], {5.436564, 14.778112}, {2});
}

TEST_F(Repro, RunsInAnotherProcess) {
  SaveRepro(path, {On({1, 2}) * 3.0});
  std::string command = HAMMOCK_REPRO_CHILD " " + path;
  EXPECT_EQ(std::system((command + " 3 6").c_str()), 0);
  EXPECT_NE(std::system((command + " 3 7 2>/dev/null").c_str()), 0);
}

TEST_F(Repro, RefusesADamagedFile) {
  SaveRepro(path, {On({1, 2}) * 3.0});
  const std::string good = Bytes();
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x11);
    Write(bad);
    EXPECT_THROW_MESSAGE(RunRepro(path, "reference"), ValueError, "repro: '" + path + "'");
  }
  for (size_t size : {size_t{0}, size_t{5}, size_t{20}, good.size() - 1}) {
    Write(good.substr(0, size));
    EXPECT_THROW(RunRepro(path, "reference"), ValueError);
  }
  Write(good + "x");
  EXPECT_THROW(RunRepro(path, "reference"), ValueError);
  Write(good);
  EXPECT_TENSOR_EQ(RunRepro(path, "reference")[0], {3.0f, 6.0f}, {2});
}

TEST_F(Repro, NamesNewerVersions) {
  SaveRepro(path, {On({1, 2}) * 3.0});
  std::string bytes = Bytes();
  bytes[14] = 9;
  Write(bytes);
  EXPECT_THROW_MESSAGE(RunRepro(path, "reference"), ValueError,
                       "has version 9, this library reads version 1");
}

TEST_F(Repro, RefusesBadArguments) {
  EXPECT_THROW_MESSAGE(SaveRepro(path, {}), ValueError, "no tensors are given");
  EXPECT_THROW_MESSAGE(SaveRepro(path, {Tensor()}), ValueError, "undefined");
  EXPECT_THROW_MESSAGE(SaveRepro(path, {On({1}), On({1}, "null")}), ValueError,
                       "reference:0 and null:0");
  EXPECT_THROW_MESSAGE(SaveRepro("/no/such/folder/file", {On({1})}), ValueError, "cannot write");
  EXPECT_THROW_MESSAGE(RunRepro("/no/such/file", "reference"), ValueError, "cannot read");
}

}  // namespace
}  // namespace hammock
