#include "hammock/io/npz.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <complex>
#include <filesystem>
#include <fstream>
#include <random>

#include "support/npz_writer.h"
#include "support/tensor_matchers.h"

namespace hammock::io {
namespace {

using Bytes = std::vector<std::byte>;

Bytes ToBytes(const std::string& text) {
  Bytes bytes(text.size());
  std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), bytes.begin());
  return bytes;
}

using testing::Dict;
using testing::Member;
using testing::Npy;
using testing::Raw;
using testing::Zip;

std::string SmallArchive() {
  return Zip({{"a.npy", Npy(Dict("<f4", "(2, 3)"), Raw<float>({1, 2, 3, 4, 5, 6}))},
              {"b#0:in0.npy", Npy(Dict("<i8", "(2,)"), Raw<int64_t>({-1, int64_t{1} << 60}))},
              {"empty.npy", Npy(Dict("<f8", "(0, 3)"), "")}});
}

HostTensor ParseText(const std::string& text) { return ParseNpy(ToBytes(text), "x.npy"); }

TEST(ParseNpy, ReadsEveryDType) {
  EXPECT_EQ(ParseText(Npy(Dict("|b1", "(2,)"), std::string("\1\0", 2))).shape(),
            Shape(boolean, {2}));
  EXPECT_EQ(ParseText(Npy(Dict("|u1", "(2,)"), "ab")).at(1).ToInt(), 'b');
  EXPECT_EQ(ParseText(Npy(Dict("|i1", "(1,)"), "\xff")).at(0).ToInt(), -1);
  EXPECT_EQ(ParseText(Npy(Dict("<i2", "()"), Raw<int16_t>(-300))).at(0).ToInt(), -300);
  EXPECT_EQ(ParseText(Npy(Dict("<u2", "()"), Raw<uint16_t>(65535))).at(0).ToInt(), 65535);
  EXPECT_EQ(ParseText(Npy(Dict("<i4", "()"), Raw<int32_t>(-7))).at(0).ToInt(), -7);
  EXPECT_EQ(ParseText(Npy(Dict("<u4", "()"), Raw<uint32_t>(1u << 31))).at(0).ToInt(), 1ll << 31);
  EXPECT_EQ(ParseText(Npy(Dict("<i8", "()"), Raw<int64_t>(-9))).at(0).ToInt(), -9);
  EXPECT_EQ(ParseText(Npy(Dict("<u8", "()"), Raw<uint64_t>(9))).dtype(), u64);
  EXPECT_EQ(ParseText(Npy(Dict("<f2", "()"), Raw<uint16_t>(0x3e00))).at(0).ToDouble(), 1.5);
  EXPECT_EQ(ParseText(Npy(Dict("<f4", "()"), Raw(2.5f))).at(0).ToDouble(), 2.5);
  EXPECT_EQ(ParseText(Npy(Dict("<f8", "()"), Raw(0.1))).at(0).ToDouble(), 0.1);
  EXPECT_EQ(ParseText(Npy(Dict("<c8", "()"), Raw<float>({1, -2}))).at(0).As<std::complex<double>>(),
            std::complex<double>(1, -2));
  EXPECT_EQ(
      ParseText(Npy(Dict("<c16", "()"), Raw<double>({0.1, 3}))).at(0).As<std::complex<double>>(),
      std::complex<double>(0.1, 3));
}

TEST(ParseNpy, ReadsVersionTwo) {
  HostTensor x = ParseText(Npy(Dict("<f4", "(1, 2)"), Raw<float>({1, 2}), 2));
  EXPECT_EQ(x.shape(), Shape(f32, {1, 2}));
  EXPECT_EQ(x.at(1).ToDouble(), 2.0);
}

TEST(ParseNpy, PutsFortranOrderInRowMajorOrder) {
  std::string data = Raw<int32_t>({1, 4, 2, 5, 3, 6});
  HostTensor x = ParseText(Npy(Dict("<i4", "(2, 3)", true), data));
  EXPECT_EQ(Raw(std::vector<int32_t>(x.values<int32_t>().begin(), x.values<int32_t>().end())),
            Raw<int32_t>({1, 2, 3, 4, 5, 6}));
}

TEST(ParseNpy, SaysWhatItRefuses) {
  EXPECT_THROW_MESSAGE(ParseText("PK"), ValueError, "magic text at byte 0 needs 6 bytes");
  EXPECT_THROW_MESSAGE(ParseText("not numpy at all"), ValueError, "not a .npy file");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict("<f4", "()"), "", 3)), ValueError, "version 3");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict(">f4", "()"), "abcd")), ValueError, "little-endian");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict("<M8", "()"), "abcdefgh")), ValueError, "'<M8'");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict("|O", "()"), "")), ValueError, "'|O'");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict("<f4", "(1,1,1,1,1,1,1,1,1)"), "")), ValueError,
                       "rank is more than 8");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict("<f4", "(2, 2)"), "1234")), ValueError,
                       "f32[2,2] does not fit the 4 bytes");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict("<f4", "(-1,)"), "")), ValueError, "expected a size");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict("<f4", "(9999999999999999999,)"), "")), ValueError,
                       "63 bits");
  EXPECT_THROW_MESSAGE(ParseText(Npy(Dict("<f4", "(4294967296, 4294967296, 4294967296)"), "")),
                       ValueError, "does not fit the 0 bytes");
  EXPECT_THROW_MESSAGE(ParseText(Npy("{'descr': '<f4', 'shape': ()}", "abcd")), ValueError,
                       "once each");
  EXPECT_THROW_MESSAGE(ParseText(Npy("{'descr': [('a', '<f4')]}", "")), ValueError, "expected '''");
  EXPECT_THROW_MESSAGE(ParseText(Npy("{'what': 1}", "")), ValueError, "unknown header field");
}

TEST(NpzFile, ReadsArraysByName) {
  NpzFile file = NpzFile::Parse(ToBytes(SmallArchive()), "x.npz");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b#0:in0", "empty"}));
  EXPECT_TRUE(file.Has("a"));
  EXPECT_FALSE(file.Has("a.npy"));
  EXPECT_EQ(file.Read("a").shape(), Shape(f32, {2, 3}));
  EXPECT_EQ(file.Read("a").at(5).ToDouble(), 6.0);
  EXPECT_EQ(file.Read("b#0:in0").at(1).ToInt(), int64_t{1} << 60);
  EXPECT_EQ(file.Read("empty").shape(), Shape(f64, {0, 3}));
  EXPECT_THROW_MESSAGE(file.Read("c"), ValueError, "x.npz: no array named 'c'");
}

TEST(NpzFile, ReadsBFloat16KeptAsBits) {
  std::string archive = Zip({{"x.npy", Npy(Dict("<u2", "(2,)"), Raw<uint16_t>({0x3f80, 0x4000}))}});
  NpzFile file = NpzFile::Parse(ToBytes(archive), "x.npz");
  EXPECT_EQ(file.Read("x", bf16).at(1).ToDouble(), 2.0);
  EXPECT_THROW_MESSAGE(file.Read("x", f32), TypeError, "cannot be read as f32");
}

TEST(NpzFile, ReadsSixtyFourBitSizesAndComments) {
  Member member{"x.npy", Npy(Dict("<f4", "(1,)"), Raw(7.0f)), 0, true};
  NpzFile file = NpzFile::Parse(ToBytes(Zip({member}, "a comment")), "x.npz");
  EXPECT_EQ(file.Read("x").at(0).ToDouble(), 7.0);
}

TEST(NpzFile, OpensFiles) {
  std::string path = ::testing::TempDir() + "/npz_test.npz";
  std::ofstream(path, std::ios::binary) << SmallArchive();
  EXPECT_EQ(NpzFile::Open(path).names().size(), 3u);
  EXPECT_THROW_MESSAGE(NpzFile::Open(path + ".none"), ValueError, "cannot be opened");
}

TEST(NpzFile, SaysWhatItRefuses) {
  auto parse = [](const std::string& text) { return NpzFile::Parse(ToBytes(text), "x.npz"); };
  EXPECT_THROW_MESSAGE(parse(""), ValueError, "x.npz: not a complete zip archive");
  EXPECT_THROW_MESSAGE(parse(std::string(100000, 'x')), ValueError, "no end record");
  EXPECT_THROW_MESSAGE(parse(Zip({{"x.npy", "data", 8}})), ValueError, "x.npy is compressed");
  EXPECT_THROW_MESSAGE(parse(Zip({{"x.txt", "data"}})), ValueError, "x.txt is not a .npy file");
}

TEST(NpzFile, DetectsChangedData) {
  std::string archive = SmallArchive();
  archive[archive.find(Raw<float>({1, 2, 3}))] ^= 1;
  NpzFile file = NpzFile::Parse(ToBytes(archive), "x.npz");
  EXPECT_THROW_MESSAGE(file.Read("a"), ValueError, "x.npz: a: damaged: its checksum differs");
  EXPECT_EQ(file.Read("b#0:in0").at(0).ToInt(), -1);
}

/// Reads all that can be read; only a hammock::Error may come out.
int CountReadable(const std::string& text) {
  int readable = 0;
  try {
    NpzFile file = NpzFile::Parse(ToBytes(text), "x.npz");
    for (const std::string& name : file.names()) {
      try {
        file.Read(name);
        ++readable;
      } catch (const Error& error) {
        EXPECT_NE(error.message(), "");
      }
    }
  } catch (const Error& error) {
    EXPECT_NE(error.message(), "");
  }
  return readable;
}

TEST(NpzFile, RefusesEveryTruncation) {
  std::string archive = SmallArchive();
  EXPECT_EQ(CountReadable(archive), 3);
  for (size_t size = 0; size < archive.size(); ++size) {
    EXPECT_EQ(CountReadable(archive.substr(0, size)), 0) << size;
  }
}

TEST(NpzFile, SurvivesEveryFlippedBit) {
  std::string archive = SmallArchive();
  int readable = 0;
  for (size_t bit = 0; bit < archive.size() * 8; ++bit) {
    std::string damaged = archive;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    readable += CountReadable(damaged);
  }
  EXPECT_GT(readable, 1000);  // the damage reaches the reader proper
}

TEST(NpzFile, SurvivesRandomDamage) {
  Member member{"x.npy", Npy(Dict("<f4", "(1,)"), Raw(7.0f)), 0, true};
  std::mt19937 random(7);
  int readable = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = i % 2 ? SmallArchive() : Zip({member}, "comment");
    int changes = 1 + static_cast<int>(random() % 8);
    for (int c = 0; c < changes; ++c) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 4 ? random() : 0xff);
    }
    readable += CountReadable(damaged);
  }
  EXPECT_GT(readable, 1000);
}

TEST(ParseNpy, SurvivesRandomDamage) {
  std::string array = Npy(Dict("<f4", "(2, 3)", true), Raw<float>({1, 2, 3, 4, 5, 6}));
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = array.substr(0, random() % 4 ? array.size() : random() % array.size());
    int changes = static_cast<int>(random() % 6);
    for (int c = 0; c < changes && !damaged.empty(); ++c) {
      damaged[random() % std::min<size_t>(damaged.size(), 80)] = static_cast<char>(random());
    }
    try {
      ParseText(damaged);
    } catch (const Error& error) {
      EXPECT_NE(error.message(), "");
    }
  }
}

TEST(WriteNpy, WritesWhatReadNpyReads) {
  std::string path =
      (std::filesystem::temp_directory_path() / ("hammock_" + std::to_string(getpid()) + ".npy"))
          .string();
  for (const Dims& sizes : {Dims{}, Dims{3}, Dims{2, 3}, Dims{0, 5}}) {
    for (DType dtype : {DType::kBool, DType::kI8, DType::kF16, DType::kF32, DType::kU64}) {
      HostTensor array(Shape(dtype, sizes));
      for (int64_t i = 0; i < array.numel(); ++i) array.set(i, Scalar(i % 2));
      WriteNpy(path, array);
      HostTensor read = ReadNpy(path);
      EXPECT_EQ(read.shape(), array.shape());
      EXPECT_TRUE(read.SameBits(array));
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace hammock::io
