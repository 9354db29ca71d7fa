#include "hammock/ir/attr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <limits>

#include "expect_error.h"
#include "hammock/ir/graph.h"

namespace hammock {
namespace {

std::shared_ptr<const Graph> Body(const char* op) {
  Graph graph;
  GraphValue x = graph.AddInput(Shape(f32, {2}));
  graph.AddOutput({graph.AddNode(op_registry::Get(op), {x}), 0});
  return std::make_shared<const Graph>(std::move(graph));
}

// Pairwise different.
std::vector<Attr> Distinct() {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  return {Attr(),
          Attr(false),
          Attr(true),
          Attr(0),
          Attr(1),
          Attr(0.0),
          Attr(-0.0),
          Attr(1.0),
          Attr(Scalar(1.0).To(f32)),
          Attr(kNan),
          Attr(-kNan),
          Attr(Scalar(std::complex<double>(1, 0))),
          Attr(Scalar(std::complex<double>(1, 2))),
          Attr(Scalar(std::complex<double>(1, 2)).To(c64)),
          Attr(Scalar(std::complex<double>(1, -0.0))),
          Attr(f32),
          Attr(boolean),
          Attr(""),
          Attr("a"),
          Attr("none"),
          Attr(std::string("a\0", 2)),
          Attr(Dims{}),
          Attr(Dims{0}),
          Attr(Dims{0, 0}),
          Attr(Dims{1, 2}),
          Attr(std::vector<double>{}),
          Attr(std::vector<double>{0.0}),
          Attr(std::vector<double>{-0.0}),
          Attr(std::vector<double>{kNan}),
          Attr(std::vector<std::string>{}),
          Attr(std::vector<std::string>{""}),
          Attr(std::vector<std::string>{"ab", "c"}),
          Attr(std::vector<std::string>{"a", "bc"}),
          Attr(Body("neg")),
          Attr(Body("abs"))};
}

std::vector<uint64_t> BytesOf(const Attr& attr) {
  std::vector<uint64_t> bytes;
  attr.AppendBytes(bytes);
  return bytes;
}

TEST(Attr, DistinctValuesDifferInEveryForm) {
  std::vector<Attr> attrs = Distinct();
  for (size_t i = 0; i < attrs.size(); ++i) {
    for (size_t j = 0; j < attrs.size(); ++j) {
      bool same = i == j;
      std::string which = attrs[i].to_string() + " against " + attrs[j].to_string();
      EXPECT_EQ(attrs[i] == attrs[j], same) << which;
      EXPECT_EQ(attrs[i].hash() == attrs[j].hash(), same) << which;
      EXPECT_EQ(attrs[i].to_string() == attrs[j].to_string(), same) << which;
      EXPECT_EQ(BytesOf(attrs[i]) == BytesOf(attrs[j]), same) << which;
    }
  }
}

TEST(Attr, WritesFewWordsInPlaceAndAppendsMore) {
  for (size_t count = 0; count < 12; ++count) {
    const Attr list(std::vector<int64_t>(count, 7));
    uint64_t words[Attr::kFewWords];
    uint64_t* end = list.WriteBytes(words);
    EXPECT_EQ(end != nullptr, count < Attr::kFewWords) << count;
    if (end) {
      EXPECT_EQ(BytesOf(list), std::vector<uint64_t>(words, end)) << count;
    }
    EXPECT_EQ(BytesOf(list).size(), 1 + count);
  }
}

TEST(Attr, EqualValuesAgreeInEveryForm) {
  std::vector<Attr> a = Distinct();
  std::vector<Attr> b = Distinct();
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i], b[i]) << a[i].to_string();
    EXPECT_EQ(a[i].hash(), b[i].hash());
    EXPECT_EQ(a[i].to_string(), b[i].to_string());
    EXPECT_EQ(BytesOf(a[i]), BytesOf(b[i]));
  }
}

TEST(Attr, CopiesShareAndMovesEmpty) {
  Attr attr(std::vector<int64_t>{1, 2, 3});
  Attr copy = attr;
  EXPECT_EQ(&copy.ints(), &attr.ints());
  Attr moved = std::move(attr);
  EXPECT_TRUE(attr.IsNone());
  Attr typed(Scalar(1.0).To(f32));
  Attr taken = std::move(typed);
  EXPECT_EQ(typed, Attr());
  copy = Attr(3);
  EXPECT_EQ(moved.ints().size(), 3u);
  moved = moved;
  EXPECT_EQ(moved.to_string(), "[1,2,3]");
}

TEST(Attr, WrongKindIsAnInternalError) {
  EXPECT_EQ(MessageOf<InternalError>([] { Attr(3).str(); }),
            "attribute: read as string, but it is scalar");
  EXPECT_THROW(Attr("x").integer(), InternalError);
  EXPECT_THROW(Attr().dtype(), InternalError);
  EXPECT_THROW(Attr(std::shared_ptr<const Graph>()), InternalError);
}

}  // namespace
}  // namespace hammock
