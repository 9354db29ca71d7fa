#include "hammock/ir/any.h"

#include <gtest/gtest.h>

#include "expect_error.h"
#include "hammock/ir/graph.h"

namespace hammock {
namespace {

struct Thing : Object {
  std::string type_name() const override { return "Thing"; }
};

TEST(Any, KnowsItsKind) {
  EXPECT_TRUE(Any().IsNone());
  EXPECT_TRUE(Any(nullptr).IsNone());
  EXPECT_EQ(Any(true).kind(), Any::Kind::kBool);
  EXPECT_EQ(Any(3).kind(), Any::Kind::kInt);
  EXPECT_EQ(Any(2.5).kind(), Any::Kind::kFloat);
  EXPECT_EQ(Any("x").kind(), Any::Kind::kString);
  EXPECT_EQ(Any(f32).kind(), Any::Kind::kDType);
  EXPECT_EQ(Any(AnyList{}).kind(), Any::Kind::kList);
  EXPECT_EQ(Any::Tuple({}).kind(), Any::Kind::kTuple);
  EXPECT_EQ(Any(AnyDict{}).kind(), Any::Kind::kDict);
  EXPECT_EQ(Any(std::make_shared<Thing>()).type_name(), "Thing");
  EXPECT_EQ(Any(std::make_shared<const Graph>()).type_name(), "Graph");
  EXPECT_EQ(Any(Scalar(2.5).To(f32)).kind(), Any::Kind::kFloat);
}

TEST(Any, PrintsValuesInFull) {
  AnyDict dict = {{"b", Any(1)}, {"a", Any("x")}};
  Any value = Any::Tuple({Any(), Any(true), Any(2.0), Any(f32), Any(dict), Any::Ints({1, 2})});
  EXPECT_EQ(value.to_string(), R"((none, true, 2.0, f32, {"a": "x", "b": 1}, [1, 2]))");
  EXPECT_EQ(Any::Tuple({Any(1)}).to_string(), "(1,)");
  EXPECT_EQ(Any(std::make_shared<Thing>()).to_string(), "<Thing>");
}

TEST(Any, PrintsAListThatContainsItself) {
  Any list{AnyList{}};
  list.MutableList().push_back(list);
  EXPECT_TRUE(list.to_string().find("...") != std::string::npos);
  list.MutableList().clear();
}

TEST(Any, SharesListsByReference) {
  Any a = Any::Ints({1});
  Any b = a;
  b.MutableList().push_back(Any(2));
  EXPECT_EQ(a.ToInts(), (std::vector<int64_t>{1, 2}));
  EXPECT_THROW(Any::Tuple({}).MutableList(), TypeError);
}

TEST(Any, NamesExpectedAndActualType) {
  EXPECT_EQ(MessageOf<TypeError>([] { Any("x").ToInt(); }), "expected an int, got str: \"x\"");
  EXPECT_EQ(MessageOf<TypeError>([] { Any(2.5).ToInt(); }), "expected an int, got float: 2.5");
  EXPECT_EQ(MessageOf<TypeError>([] { Any(1).ToBool(); }), "expected a bool, got int: 1");
  EXPECT_EQ(MessageOf<TypeError>([] { Any(1).ToList(); }), "expected a list, got int: 1");
  EXPECT_EQ(MessageOf<TypeError>([] { Any().ToTensor(); }), "expected a Tensor, got none: none");
  EXPECT_THROW(Any(AnyList{Any("x")}).ToInts(), TypeError);
}

TEST(Any, NumbersWiden) {
  EXPECT_EQ(Any(true).ToInt(), 1);
  EXPECT_EQ(Any(3).ToDouble(), 3.0);
  EXPECT_EQ(Any(AnyList{Any(1), Any(2.5)}).ToDoubles(), (std::vector<double>{1, 2.5}));
  EXPECT_EQ(Any(3).ToScalar(), Scalar(3));
}

}  // namespace
}  // namespace hammock
