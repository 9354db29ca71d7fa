#include "hammock/io/readers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "support/tensor_matchers.h"

namespace hammock::io {
namespace {

/// A file that is there as long as the test.
class File {
 public:
  explicit File(const std::string& text, const char* ending = "")
      : path_((std::filesystem::temp_directory_path() /
               ("hammock_readers_" + std::to_string(getpid()) + "_" + std::to_string(++count_) +
                ending))
                  .string()) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::string path_;
};

std::string Bytes(std::initializer_list<int> values) {
  std::string text;
  for (int value : values) text += static_cast<char>(value);
  return text;
}

/// Bytes written as two hexadecimal digits each.
std::string Hex(std::string_view digits) {
  std::string text;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) {
    text += static_cast<char>(std::strtol(std::string(digits.substr(i, 2)).c_str(), nullptr, 16));
  }
  return text;
}

// ---- IDX

const std::string kIdx = Bytes({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6});

TEST(ReadIdx, ReadsBytes) {
  HostTensor read = ReadIdx(File(kIdx).path());
  EXPECT_EQ(read.shape().to_string(), "u8[2,3]");
  EXPECT_EQ(read.at(5).ToInt(), 6);
}

TEST(ReadIdx, ReadsWideElementsWhichAreBigEndian) {
  HostTensor ints =
      ReadIdx(File(Bytes({0, 0, 0x0c, 1, 0, 0, 0, 2, 0, 0, 1, 2, 255, 255, 255, 254})).path());
  EXPECT_EQ(ints.at(0).ToInt(), 258);
  EXPECT_EQ(ints.at(1).ToInt(), -2);
  HostTensor floats = ReadIdx(File(Bytes({0, 0, 0x0d, 1, 0, 0, 0, 1, 0xbf, 0x80, 0, 0})).path());
  EXPECT_EQ(floats.at(0).ToDouble(), -1.0);
}

TEST(ReadIdx, RefusesWhatIsNone) {
  EXPECT_THROW_MESSAGE(ReadIdx("/no/such/file"), ValueError, "/no/such/file: cannot be opened");
  EXPECT_THROW_MESSAGE(ReadIdx(File("text").path()), ValueError, "not an IDX file");
  EXPECT_THROW_MESSAGE(ReadIdx(File(Bytes({0, 0, 7, 1, 0, 0, 0, 1, 1})).path()), ValueError,
                       "element type 0x7");
  for (size_t length = 0; length < kIdx.size(); ++length) {
    EXPECT_THROW(ReadIdx(File(kIdx.substr(0, length)).path()), ValueError) << length;
  }
  EXPECT_THROW_MESSAGE(ReadIdx(File(kIdx + "x").path()), ValueError,
                       "needs 6 bytes, the file has 7");
  // Sizes whose product is 0 in 64 bits.
  std::string wraps = Bytes({0, 0, 8, 4});
  for (int i = 0; i < 4; ++i) wraps += Bytes({0, 1, 0, 0});
  EXPECT_THROW(ReadIdx(File(wraps).path()), ValueError);
}

// kIdx as gzip writes it.
const std::string kIdxGzip =
    Hex("1f8b08000000000002ff6360e0606260600061664626661656360048943ee512000000");

TEST(ReadIdx, ReadsGzip) {
  File file(kIdxGzip, ".gz");
#ifdef HAMMOCK_TEST_ZLIB
  HostTensor read = ReadIdx(file.path());
  EXPECT_EQ(read.shape().to_string(), "u8[2,3]");
  EXPECT_EQ(read.at(5).ToInt(), 6);
  for (size_t length = 3; length < kIdxGzip.size(); ++length) {
    EXPECT_THROW(ReadIdx(File(kIdxGzip.substr(0, length)).path()), ValueError) << length;
  }
#else
  EXPECT_THROW_MESSAGE(ReadIdx(file.path()), NotSupported, "without zlib");
#endif
}

// ---- CSV

TEST(ReadCsv, ReadsNamesAndNumbers) {
  Csv csv = ReadCsv(File("a,\"b, c\",d\r\n1,2.5,-3e2\r\n\n+4,,\"6\"\n").path());
  EXPECT_EQ(csv.names, (std::vector<std::string>{"a", "b, c", "d"}));
  EXPECT_EQ(csv.values.shape().to_string(), "f32[2,3]");
  EXPECT_EQ(csv.values.at(2).ToDouble(), -300);
  EXPECT_EQ(csv.values.at(3).ToDouble(), 4);
  EXPECT_TRUE(std::isnan(csv.values.at(4).ToDouble()));
  EXPECT_EQ(csv.values.at(5).ToDouble(), 6);
}

TEST(ReadCsv, ReadsIntegersAndOtherDelimiters) {
  Csv csv =
      ReadCsv(File("1;2\n3;4").path(), {.delimiter = ';', .header = false, .dtype = DType::kI64});
  EXPECT_TRUE(csv.names.empty());
  EXPECT_EQ(csv.values.shape().to_string(), "i64[2,2]");
  EXPECT_EQ(csv.values.at(3).ToInt(), 4);
}

TEST(ReadCsv, NamesThePlaceOfWhatItCannotRead) {
  EXPECT_THROW_MESSAGE(ReadCsv(File("a,b\n1,2\n3,x\n").path()), ValueError,
                       "line 3: field 2 'x' is no f32");
  EXPECT_THROW_MESSAGE(ReadCsv(File("a,b\n1,2\n3\n").path()), ValueError,
                       "line 3 has 1 fields, expected 2");
  EXPECT_THROW_MESSAGE(ReadCsv(File("a\n\"1").path()), ValueError, "a quote stays open");
  EXPECT_THROW_MESSAGE(ReadCsv(File("a\n\"1\"2\n").path()), ValueError,
                       "text after a closing quote");
  CsvOptions bytes{.header = false, .dtype = DType::kU8};
  EXPECT_THROW_MESSAGE(ReadCsv(File("300").path(), bytes), ValueError, "'300' is no u8");
  EXPECT_THROW_MESSAGE(ReadCsv(File("1,\n").path(), bytes), ValueError, "'' is no u8");
  EXPECT_EQ(ReadCsv(File("").path()).values.numel(), 0);
}

// ---- Images

TEST(ReadImage, RefusesWhatIsNone) {
  EXPECT_THROW_MESSAGE(ReadImage(File("GIF89a").path()), ValueError, "neither a PNG nor a JPEG");
  EXPECT_THROW(ReadImage(File(Hex("89504e470d0a1a0a")).path()), Error);
  EXPECT_THROW(ReadImage(File(Hex("ffd8ffe0")).path()), Error);
}

#ifdef HAMMOCK_TEST_PNG
TEST(ReadImage, ReadsPng) {
  // Two pixels, red and blue.
  HostTensor colour = ReadImage(File(Hex("89504e470d0a1a0a0000000d494844520000000200000001080200000"
                                         "07b40e8dd0000000d4944415478da63"
                                         "f8cf0004ff01070001ff3d7d8c490000000049454e44ae426082"))
                                    .path());
  EXPECT_EQ(colour.shape().to_string(), "u8[1,2,3]");
  EXPECT_EQ(colour.at(0).ToInt(), 255);
  EXPECT_EQ(colour.at(5).ToInt(), 255);
  EXPECT_EQ(colour.at(3).ToInt(), 0);
  // Grey: 1 2 / 3 4.
  const std::string grey =
      Hex("89504e470d0a1a0a0000000d494844520000000200000002080000000057dd52f80000000e4944415478da63"
          "60646260660100001d000b10dd1c700000000049454e44ae426082");
  HostTensor plane = ReadImage(File(grey).path());
  EXPECT_EQ(plane.shape().to_string(), "u8[2,2,1]");
  EXPECT_EQ(plane.at(2).ToInt(), 3);
  // Colours 1 and 0 of a palette.
  HostTensor palette = ReadImage(File(Hex("89504e470d0a1a0a0000000d49484452000000020000000108030000"
                                          "00c3fc8fb800000006504c54450a141e"
                                          "28323cd51bb4e90000000b4944415478da63606400000005000242c2"
                                          "449f0000000049454e44ae426082"))
                                     .path());
  EXPECT_EQ(palette.shape().to_string(), "u8[1,2,3]");
  EXPECT_EQ(palette.at(0).ToInt(), 40);
  for (size_t length = 4; length < grey.size() - 12; ++length) {
    EXPECT_THROW(ReadImage(File(grey.substr(0, length)).path()), ValueError) << length;
  }
  // Refused before its pixels are allocated.
  const std::string large = Hex(
      "89504e470d0a1a0a0000000d49484452000040000000400008000000008ca34f58000000004944415435af061e"
      "0000000049454e44ae426082");
  EXPECT_THROW_MESSAGE(ReadImage(File(large).path()), ValueError,
                       "an image of 16384 x 16384 pixels in 57 bytes");
}
#endif

#ifdef HAMMOCK_TEST_JPEG
TEST(ReadImage, ReadsJpeg) {
  // 8 x 8 pixels of one grey.
  const std::string grey =
      Hex("ffd8ffe000104a46494600010100000100010000ffdb00430003020203020203030303040303040508050504"
          "04050a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f1718161418121415"
          "14ffc0000b080008000801011100ffc40014000100000000000000000000000000000008ffc4001410010000"
          "0000000000000000000000000000ffda0008010100003f003bbfffd9");
  HostTensor plane = ReadImage(File(grey).path());
  EXPECT_EQ(plane.shape().to_string(), "u8[8,8,1]");
  for (int i = 0; i < 64; ++i) EXPECT_NEAR(plane.at(i).ToInt(), 77, 2);
  for (size_t length = 2; length < grey.size() - 4; ++length) {
    EXPECT_THROW(ReadImage(File(grey.substr(0, length)).path()), ValueError) << length;
  }
}
#endif

}  // namespace
}  // namespace hammock::io
