#include <gtest/gtest.h>

#include <string>

#include "expect_error.h"
#include "hammock/ir/graph.h"
#include "ir/graph_access.h"

namespace hammock {
namespace {

Shape TypeFromText(const std::string& text) {
  return ParseGraphUnverified("%0 = input : " + text + "\nreturn")[NodeId(0)].type();
}

// The types that `op` gives to operands of these types.
std::string Infer(const char* op, std::vector<std::string> operands) {
  std::vector<Shape> types;
  std::vector<const Shape*> in;
  for (const std::string& operand : operands) types.push_back(TypeFromText(operand));
  for (const Shape& type : types) in.push_back(&type);
  std::string text;
  for (const Shape& type : InferShapes(op_registry::Get(op), in, {})) text += type.to_string();
  return text;
}

std::string Error(const char* op, std::vector<std::string> operands) {
  try {
    return Infer(op, operands);
  } catch (const hammock::Error& error) {
    return error.message();
  }
}

TEST(InferShapes, BroadcastsAndPromotes) {
  EXPECT_EQ(Infer("add", {"f32[2,1]", "f32[3]"}), "f32[2,3]");
  EXPECT_EQ(Infer("add", {"u8[2]", "i8[2]"}), "i16[2]");
  EXPECT_EQ(Infer("add", {"bool[2]", "bool[2]"}), "bool[2]");
  EXPECT_EQ(Infer("lt", {"i32[2]", "f32[1]"}), "bool[2]");
  EXPECT_EQ(Infer("div", {"i32[2]", "i32[2]"}), "f32[2]");
  EXPECT_EQ(Infer("div", {"f16[2]", "i32[2]"}), "f16[2]");
  EXPECT_EQ(Infer("sqrt", {"i64[2]"}), "f32[2]");
  EXPECT_EQ(Infer("where", {"bool[2,1]", "i32[3]", "f32[3]"}), "f32[2,3]");
  EXPECT_EQ(Infer("logical_and", {"f32[2]", "i64[2]"}), "bool[2]");
  EXPECT_EQ(Infer("isnan", {"f16[2]"}), "bool[2]");
  EXPECT_EQ(Infer("bitwise_and", {"u8[2]", "i32[2]"}), "i32[2]");
}

TEST(InferShapes, TensorsWithDimsBeatThoseWithout) {
  EXPECT_EQ(Infer("add", {"f32[2]", "f64[]"}), "f32[2]");
  EXPECT_EQ(Infer("add", {"i8[2]", "i64[]"}), "i8[2]");
  EXPECT_EQ(Infer("add", {"u8[2]", "i64[]"}), "u8[2]");
  EXPECT_EQ(Infer("add", {"i64[2]", "f32[]"}), "f32[2]");
  EXPECT_EQ(Infer("add", {"i64[2]", "f16[]"}), "f16[2]");
  EXPECT_EQ(Infer("add", {"bool[2]", "i8[]"}), "i8[2]");
  EXPECT_EQ(Infer("add", {"i8[2]", "bool[]"}), "i8[2]");
  EXPECT_EQ(Infer("add", {"f16[2]", "i64[]"}), "f16[2]");
  EXPECT_EQ(Infer("add", {"f32[]", "f64[]"}), "f64[]");
  EXPECT_EQ(Infer("add", {"u8[]", "i8[]"}), "i16[]");
  EXPECT_EQ(Infer("add", {"u32[2]", "i64[]"}), "u32[2]");
  EXPECT_EQ(Infer("where", {"bool[]", "f32[2]", "f64[]"}), "f32[2]");
}

TEST(InferShapes, ErrorsNameTheOpAndItsOperands) {
  EXPECT_EQ(Error("add", {"f32[2,3]", "f32[4,3]"}),
            "add: sizes do not broadcast: [2,3] and [4,3] differ at dim 0 (2 against 4); operands "
            "are f32[2,3], f32[4,3]");
  EXPECT_EQ(Error("add", {"u64[2]", "i8[2]"}),
            "add: promote_types: u64 and i8 have no common type; cast one of them; operands are "
            "u64[2], i8[2]");
  EXPECT_EQ(Error("bitwise_and", {"f32[2]", "i32[2]"}),
            "bitwise_and: needs integers or bool, got f32; operands are f32[2], i32[2]");
  EXPECT_EQ(Error("where", {"f32[2]", "f32[2]", "f32[2]"}),
            "where: the condition must be bool, got f32[2]; operands are f32[2], f32[2], f32[2]");
  EXPECT_EQ(Error("add", {"i4[2]", "f32[2]"}),
            "add: i4 is a storage type; cast it, say to i8; operands are i4[2], f32[2]");
  EXPECT_EQ(Error("lt", {"c64[2]", "f32[2]"}),
            "lt: complex numbers are not supported; operands are c64[2], f32[2]");
  EXPECT_EQ(Error("add", {"f32[1073741824,1]", "f32[1,1073741824]"}),
            "add: sizes [1073741824,1073741824] overflow: at most 2^55 elements; operands are "
            "f32[1073741824,1], f32[1,1073741824]");
}

TEST(InferShapes, WrongCountsAreOurBug) {
  EXPECT_THROW(Infer("add", {"f32[2]"}), InternalError);
  EXPECT_THROW(Infer("sort", {"f32[2]"}), InternalError);
}

TEST(ComputeDType, IsWhatOperandsAreCastTo) {
  auto compute = [](const char* op, std::vector<Shape> types) {
    std::vector<const Shape*> in;
    for (const Shape& type : types) in.push_back(&type);
    return ComputeDType(op_registry::Get(op), in);
  };
  EXPECT_EQ(compute("lt", {Shape(i32, {2}), Shape(f32, {2})}), f32);
  EXPECT_EQ(compute("logical_or", {Shape(i32, {2}), Shape(f32, {2})}), boolean);
  EXPECT_EQ(compute("sqrt", {Shape(i32, {2})}), f32);
  EXPECT_EQ(compute("isnan", {Shape(i32, {2})}), i32);
  EXPECT_THROW(compute("sort", {Shape(i32, {2})}), InternalError);
}

}  // namespace
}  // namespace hammock
