#include "backends/cuda/passes/byte_matmuls.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backends/cuda/passes/cuda_passes.h"
#include "hammock/ir/graph.h"

namespace hammock::cuda {
namespace {

TEST(SignByteMatMuls, MultiplySignedBytesAndAddWhatIsMissing) {
  EXPECT_EQ(ToText(SignByteMatMuls(ParseGraph(R"(
    %0 = input : u8[2,8,16]
    %1 = input : i8[4,16]
    %2 = _dot_general_fused %0, %1, none {a_contract=[2], b_contract=[1], a_batch=[], b_batch=[], dtype=i32, relu=false} : i32[2,8,4]
    return %2)"))),
            R"(%0 = input : u8[2,8,16]
%1 = input : i8[4,16]
%2 = constant {value=128, dtype=u8} : u8[]
%3 = broadcast %2 {sizes=[2,8,16]} : u8[2,8,16]
%4 = bitwise_xor %0, %3 : u8[2,8,16]
%5 = bitcast %4 {dtype=i8} : i8[2,8,16]
%6 = cast %1 {dtype=i32} : i32[4,16]
%7 = reduce_sum %6 {dims=[1], keepdim=false} : i32[4]
%8 = constant {value=128, dtype=i32} : i32[]
%9 = broadcast %8 {sizes=[4]} : i32[4]
%10 = mul %7, %9 : i32[4]
%11 = _dot_general_fused %5, %1, none {a_contract=[2], b_contract=[1], a_batch=[], b_batch=[], dtype=i32, relu=false} : i32[2,8,4]
%12 = reshape %10 {sizes=[1,1,4]} : i32[1,1,4]
%13 = broadcast %12 {sizes=[2,8,4]} : i32[2,8,4]
%14 = add %11, %13 : i32[2,8,4]
return %14
)");
}

/// Whether the backend multiplies [m, k] with the transpose of [n, k] without widening them.
bool MultipliesBytes(const char* first, int64_t m, int64_t n, int64_t k) {
  const Graph graph = RewriteForCuda(ParseGraph(fmt::format(R"(
    %0 = input : {3}[{0},{2}]
    %1 = input : i8[{1},{2}]
    %2 = cast %0 {{dtype=i32}} : i32[{0},{2}]
    %3 = cast %1 {{dtype=i32}} : i32[{1},{2}]
    %4 = dot_general %2, %3 {{a_contract=[1], b_contract=[1], a_batch=[], b_batch=[]}} : i32[{0},{1}]
    return %4)",
                                                            m, n, k, first)));
  return ToText(graph).find("_dot_general_fused") != std::string::npos;
}

TEST(SignByteMatMuls, TakeSizesThatTheLibraryHas) {
  EXPECT_TRUE(MultipliesBytes("i8", 33, 64, 64));
  EXPECT_TRUE(MultipliesBytes("u8", 33, 64, 64));
  EXPECT_FALSE(MultipliesBytes("i8", 64, 63, 64));
  EXPECT_FALSE(MultipliesBytes("i8", 64, 64, 66));
  EXPECT_FALSE(MultipliesBytes("i8", 8, 8, 64));
}

}  // namespace
}  // namespace hammock::cuda
