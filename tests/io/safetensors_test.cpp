#include "hammock/io/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "fmt/format.h"
#include "support/tensor_matchers.h"

namespace hammock::io {
namespace {

std::string TemporaryPath() {
  return (std::filesystem::temp_directory_path() /
          ("hammock_" + std::to_string(getpid()) + ".safetensors"))
      .string();
}

SafetensorsFile Parsed(const std::string& bytes) {
  auto owner = std::make_shared<std::string>(bytes);
  return SafetensorsFile::Parse(owner, *owner, "file");
}

std::string File(const std::string& header, const std::string& data) {
  uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + data;
}

TEST(Safetensors, ReadsWhatItWrote) {
  NamedHostTensors tensors;
  for (DType dtype : {DType::kBool, DType::kU8, DType::kI16, DType::kBF16, DType::kF16, DType::kF32,
                      DType::kI64, DType::kF64, DType::kC64, DType::kF8E4M3, DType::kF8E5M2}) {
    HostTensor tensor(Shape(dtype, {3}));
    for (int i = 0; i < 3; ++i) tensor.set(i, Scalar(i % 2));
    tensors.emplace_back(std::string("t.") + std::string(NameOf(dtype)), tensor);
  }
  tensors.emplace_back("empty", HostTensor(Shape(DType::kF32, {0, 4})));
  tensors.emplace_back("scalar", HostTensor::From(Scalar(2.5)));
  for (DType dtype : {DType::kI4, DType::kU4, DType::kI2, DType::kU2}) {
    HostTensor packed(Shape(dtype, {1, 4}));
    for (int i = 0; i < 4; ++i) packed.set(i, Scalar(3 - 2 * i));
    tensors.emplace_back(std::string("packed.") + std::string(NameOf(dtype)), packed);
  }
  std::string path = TemporaryPath();
  WriteSafetensors(path, tensors, {{"format", "pt"}});
  SafetensorsFile file = SafetensorsFile::Open(path);
  std::filesystem::remove(path);
  EXPECT_EQ(file.names().size(), tensors.size());
  EXPECT_EQ(file.metadata().at("format"), "pt");
  for (const auto& [name, tensor] : tensors) {
    HostTensor read = file.Read(name);
    EXPECT_EQ(read.shape(), tensor.shape()) << name;
    EXPECT_TRUE(read.SameBits(tensor)) << name;
  }
  EXPECT_THROW_MESSAGE(file.Read("other"), ValueError, "no tensor named 'other'");
}

TEST(Safetensors, ATensorOutlivesItsFile) {
  std::string path = TemporaryPath();
  WriteSafetensors(path, {{"x", HostTensor::From(std::vector<float>{1, 2}, {2})}});
  HostTensor x = SafetensorsFile::Open(path).Read("x");
  std::filesystem::remove(path);
  EXPECT_EQ(x.at(1).ToDouble(), 2);
}

// As another writer may do it: unaligned data, other order, spaces.
TEST(Safetensors, ReadsWhatOthersWrite) {
  SafetensorsFile file = Parsed(File(
      R"( {"b":{"shape":[1],"data_offsets":[1,5],"dtype":"F32"} , "a":{"dtype":"BOOL","shape":[],"data_offsets":[0,1]}} )",
      std::string("\1\0\0\x80\x3f", 5)));
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(file.Read("b").at(0).ToDouble(), 1.0);
  EXPECT_TRUE(file.Read("a").at(0).ToBool());
}

TEST(Safetensors, RefusesDamagedFiles) {
  std::string four(4, '\0');
  const char* entry = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  auto with = [&](const std::string& text) { return Parsed(File(text, four)); };
  EXPECT_THROW_MESSAGE(Parsed("short"), ValueError, "file: 5 bytes are no safetensors file");
  EXPECT_THROW_MESSAGE(Parsed(std::string(8, '\xff')), ValueError, "a header of");
  EXPECT_THROW_MESSAGE(with("{"), ValueError, "cannot be parsed");
  EXPECT_THROW_MESSAGE(with("[1]"), ValueError, "the header is no object");
  EXPECT_THROW_MESSAGE(with(fmt::format(R"({{"a":{0},"a":{0}}})", entry)), ValueError,
                       "'a' occurs twice");
  EXPECT_THROW_MESSAGE(with(R"({"a":1})"), ValueError, "'a' is no object");
  EXPECT_THROW_MESSAGE(with(R"({"a":{"dtype":"F32","shape":[1]}})"), ValueError,
                       "'a' has no data_offsets");
  EXPECT_THROW_MESSAGE(with(R"({"a":{"dtype":"F6_E3M2","shape":[4],"data_offsets":[0,4]}})"),
                       ValueError, "dtype \"F6_E3M2\"");
  EXPECT_THROW_MESSAGE(with(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})"),
                       ValueError, "shape has -1");
  EXPECT_THROW_MESSAGE(with(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})"),
                       ValueError, "'a' is f32[2] at [0,4] of 4 bytes");
  EXPECT_THROW_MESSAGE(with(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"),
                       ValueError, "of 4 bytes");
  EXPECT_THROW_MESSAGE(with(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})"), ValueError,
                       "'a' begins at byte 1, expected 0");
  EXPECT_THROW_MESSAGE(with(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})"), ValueError,
                       "3 bytes follow the tensors");
  EXPECT_THROW(
      Parsed(File(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
                  "")),
      ValueError);
  EXPECT_THROW_MESSAGE(with(R"({"__metadata__":{"a":1}})"), ValueError, "metadata 'a' is no text");
  EXPECT_THROW(with(std::string(100000, '[')), ValueError);
}

TEST(Safetensors, DamagedBytesNeverDoWorse) {
  std::string path = TemporaryPath();
  WriteSafetensors(path, {{"a", HostTensor::From(std::vector<float>{1, 2}, {2})},
                          {"b", HostTensor::From(std::vector<int64_t>{3}, {1})}});
  std::string whole;
  {
    std::ifstream in(path, std::ios::binary);
    whole.assign(std::istreambuf_iterator<char>(in), {});
  }
  std::filesystem::remove(path);
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THROW(Parsed(whole.substr(0, length)), ValueError) << length;
  }
  std::mt19937 engine(1);
  for (int round = 0; round < 5000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 1 + round % 3; ++i) {
      damaged[engine() % damaged.size()] = static_cast<char>(engine());
    }
    try {
      SafetensorsFile file = Parsed(damaged);
      for (const std::string& name : file.names()) file.Read(name);
    } catch (const Error&) {
    }
  }
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  HostTensor x = HostTensor::From(std::vector<float>{1}, {1});
  EXPECT_THROW_MESSAGE(WriteSafetensors(TemporaryPath(), {{"x", x}, {"x", x}}), ValueError,
                       "the name is taken");
  EXPECT_THROW_MESSAGE(WriteSafetensors(TemporaryPath(), {{"__metadata__", x}}), ValueError,
                       "the name is taken");
  EXPECT_THROW_MESSAGE(WriteSafetensors("/no/such/folder/x", {{"x", x}}), ValueError,
                       "cannot write");
}

TEST(Safetensors, DeepHeadersAreRefused) {
  // Messages print what a header has; a list of a million lists must not exhaust the stack there.
  std::string deep(1'000'000, '[');
  std::string header = R"({"x":{"dtype":)" + deep + std::string(deep.size(), ']') + "}}";
  EXPECT_THROW_MESSAGE(Parsed(File(header, "")), ValueError, "nested too deep");
}

TEST(Safetensors, NamesThatAreNoTextAreRefused) {
  std::string path = TemporaryPath();
  HostTensor x = HostTensor::From(Scalar(1.0));
  EXPECT_THROW_MESSAGE(WriteSafetensors(path, {{"\xff", x}}), ValueError, "cannot be written");
  EXPECT_THROW_MESSAGE(WriteSafetensors(path, {}, {{"a", "\xff"}}), ValueError,
                       "cannot be written");
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace hammock::io
