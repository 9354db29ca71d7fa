#include "base/record_bytes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "hammock/error.h"

namespace hammock {
namespace {

enum class Colour : uint8_t { kRed, kGreen };

struct Part {
  std::string name;
  double weight = 0;

  template <class Io>
  friend void Fields(Io& io, Part& part) {
    io(part.name, part.weight);
  }
  bool operator==(const Part&) const = default;
};

struct Whole {
  int64_t number = 0;
  uint64_t word = 0;
  Colour colour = Colour::kRed;
  std::vector<bool> flags;
  std::optional<Part> some, none;
  std::map<std::string, std::pair<int, float>> map;
  std::set<std::vector<int64_t>> set;
  std::vector<std::shared_ptr<const Part>> parts;

  template <class Io>
  friend void Fields(Io& io, Whole& whole) {
    io(whole.number, whole.word, whole.colour, whole.flags, whole.some, whole.none, whole.map,
       whole.set, whole.parts);
  }
};

Whole Sample() {
  auto shared = std::make_shared<const Part>(Part{"shared", -0.0});
  return {.number = INT64_MIN,
          .word = UINT64_MAX,
          .colour = Colour::kGreen,
          .flags = {true, false, true},
          .some = Part{std::string("a\0b", 3), 1.5},
          .none = {},
          .map = {{"one", {1, 0.5f}}, {"two", {-2, 0.25f}}},
          .set = {{}, {1, 2}},
          .parts = {shared, nullptr, std::make_shared<const Part>(Part{"own", 2}), shared}};
}

std::string BytesOf(const Whole& whole) {
  RecordWriter writer;
  writer(whole);
  return writer.Take();
}

TEST(RecordBytes, RoundTrip) {
  const Whole whole = Sample();
  const std::string bytes = BytesOf(whole);
  auto made = std::make_unique<Whole>();
  Whole& read = *made;
  RecordReader reader("a test", bytes);
  reader(read);
  reader.ExpectEnd();
  EXPECT_EQ(read.number, whole.number);
  EXPECT_EQ(read.word, whole.word);
  EXPECT_EQ(read.colour, whole.colour);
  EXPECT_EQ(read.flags, whole.flags);
  EXPECT_EQ(read.some, whole.some);
  EXPECT_FALSE(read.none);
  EXPECT_EQ(read.map, whole.map);
  EXPECT_EQ(read.set, whole.set);
  ASSERT_EQ(read.parts.size(), 4u);
  EXPECT_EQ(*read.parts[0], *whole.parts[0]);
  EXPECT_TRUE(std::signbit(read.parts[0]->weight));
  EXPECT_EQ(read.parts[1], nullptr);
  EXPECT_EQ(*read.parts[2], *whole.parts[2]);
  EXPECT_EQ(read.parts[3], read.parts[0]) << "what was shared is shared";
  EXPECT_EQ(BytesOf(read), bytes);
}

TEST(RecordBytes, NothingIsReadPastTheEnd) {
  const std::string bytes = BytesOf(Sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    auto read = std::make_unique<Whole>();
    RecordReader reader("a test", std::string_view(bytes).substr(0, size));
    EXPECT_THROW(reader(*read), ValueError) << size;
  }
}

}  // namespace
}  // namespace hammock
