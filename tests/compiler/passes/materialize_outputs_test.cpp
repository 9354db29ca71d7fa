#include "compiler/passes/materialize_outputs.h"

#include <gtest/gtest.h>

namespace hammock {
namespace {

void Expect(const char* before, const char* after) {
  EXPECT_EQ(ToText(MaterializeOutputs(ParseGraph(before))), ToText(ParseGraph(after)));
}

TEST(MaterializeOutputs, CopiesInputsConstantsAndRepeatedResults) {
  Expect(R"(
    %0 = input : f32[2,3]
    %1 = constant {value=1.0:f32, dtype=f32} : f32[]
    %2:2 = sort %0 {dim=1, descending=false, stable=true} : f32[2,3], i64[2,3]
    return %0, %1, %2.1, %2.1, %2)",
         R"(
    %0 = input : f32[2,3]
    %1 = constant {value=1.0:f32, dtype=f32} : f32[]
    %2:2 = sort %0 {dim=1, descending=false, stable=true} : f32[2,3], i64[2,3]
    %3 = reshape %0 {sizes=[2,3]} : f32[2,3]
    %4 = reshape %1 {sizes=[]} : f32[]
    %5 = reshape %2.1 {sizes=[2,3]} : i64[2,3]
    return %3, %4, %2.1, %5, %2)");
}

TEST(MaterializeOutputs, CopiesStorageTypesAsBytes) {
  Expect(R"(
    %0 = input : i4[3,4]
    return %0)",
         R"(
    %0 = input : i4[3,4]
    %1 = bitcast %0 {dtype=u8} : u8[3,2]
    %2 = reshape %1 {sizes=[3,2]} : u8[3,2]
    %3 = bitcast %2 {dtype=i4} : i4[3,4]
    return %3)");
}

TEST(MaterializeOutputs, CopiesComplexNumbersByTheirParts) {
  Expect(R"(
    %0 = input : c64[3]
    return %0)",
         R"(
    %0 = input : c64[3]
    %1 = reshape %0 {sizes=[3,1]} : c64[3,1]
    %2 = bitcast %1 {dtype=f32} : f32[3,2]
    %3 = slice %2 {dim=1, start=0, size=1, step=2} : f32[3,1]
    %4 = reshape %3 {sizes=[3]} : f32[3]
    %5 = reshape %0 {sizes=[3,1]} : c64[3,1]
    %6 = bitcast %5 {dtype=f32} : f32[3,2]
    %7 = slice %6 {dim=1, start=1, size=1, step=2} : f32[3,1]
    %8 = reshape %7 {sizes=[3]} : f32[3]
    %9 = complex %4, %8 : c64[3]
    return %9)");
}

TEST(MaterializeOutputs, CopiesHaveTheLineOfTheirValue) {
  Graph after = MaterializeOutputs(ParseGraph(R"(
    %0 = input : f32[2]  @ model.cpp:12
    return %0)"));
  EXPECT_EQ(ToText(after, {.locations = true}),
            "%0 = input : f32[2]  @ model.cpp:12\n"
            "%1 = reshape %0 {sizes=[2]} : f32[2]  @ model.cpp:12\nreturn %1\n");
}

}  // namespace
}  // namespace hammock
