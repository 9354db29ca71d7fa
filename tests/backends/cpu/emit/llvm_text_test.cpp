#include "backends/cpu/emit/llvm_text.h"

#include <gtest/gtest.h>

#include "backends/cpu/emit/emit_values.h"

namespace hammock::compiler {
namespace {

TEST(IrText, NumbersValuesInEachFunction) {
  IrText ir;
  for (const char* name : {"f", "g"}) {
    ir.BeginFunction(fmt::format("void @{}(ptr %x)", name));
    ir.Label("entry");
    std::string x = ir.Value("load {}, ptr %x, align 4", IrType("float", 4));
    std::string y = ir.Intrinsic("fma", "float", 4, x, x, IrConstant("float", 4, 0.1));
    ir.Line("store <4 x float> {}, ptr %x, align 4", y);
    ir.Line("ret void");
    ir.EndFunction();
  }
  std::string body = R"(entry:
  %0 = load <4 x float>, ptr %x, align 4
  %1 = call <4 x float> @llvm.fma.v4f32(<4 x float> %0, <4 x float> %0, <4 x float> splat (float 0x3FB99999A0000000))
  store <4 x float> %1, ptr %x, align 4
  ret void
}
)";
  EXPECT_EQ(ir.Module(),
            "define void @f(ptr %x) {\n" + body + "define void @g(ptr %x) {\n" + body +
                "declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)\n");
}

TEST(IrText, PrintsTypesAndConstants) {
  EXPECT_EQ(IrElement(DType::kBool), "i8");
  EXPECT_EQ(IrElement(DType::kU32), "i32");
  EXPECT_EQ(IrElement(DType::kBF16), "bfloat");
  EXPECT_EQ(IrType("i1", 1), "i1");
  EXPECT_EQ(IrType("i1", 16), "<16 x i1>");
  EXPECT_EQ(IrConstant("double", 1, 0.1), "0x3FB999999999999A");
  EXPECT_EQ(IrConstant("double", 1, -0.0), "0x8000000000000000");
  EXPECT_EQ(IrConstant("i8", 8, int64_t{-1}), "splat (i8 -1)");
}

TEST(IrText, NamesAreNew) {
  IrText ir;
  EXPECT_NE(ir.NewName("loop"), ir.NewName("loop"));
}

std::string BodyOf(ScalarFn fn, DType dtype, int lanes) {
  IrText ir;
  Instr instr;
  instr.kind = Instr::Kind::kScalar;
  instr.dtype = dtype;
  instr.fn = fn;
  cpu::ValueEmitter(ir).Scalar(instr, dtype, lanes, {"%x", "%y"});
  return ir.Module();
}

TEST(IrNumber, PrintsAMaximum) {
  EXPECT_EQ(BodyOf(ScalarFn::kMaximum, DType::kF32, 16),
            R"(  %0 = fcmp olt <16 x float> %x, %y
  %1 = select <16 x i1> %0, <16 x float> %y, <16 x float> %x
  %2 = fcmp une <16 x float> %y, %y
  %3 = select <16 x i1> %2, <16 x float> %y, <16 x float> %1
)");
}

TEST(IrNumber, PrintsADivisionThatNeverTraps) {
  EXPECT_EQ(BodyOf(ScalarFn::kTruncDivide, DType::kI32, 1),
            R"(  %0 = icmp eq i32 %y, 0
  %1 = icmp eq i32 %y, -1
  %2 = or i1 %0, %1
  %3 = select i1 %2, i32 1, i32 %y
  %4 = sdiv i32 %x, %3
  %5 = sub i32 0, %x
  %6 = icmp eq i32 %y, -1
  %7 = select i1 %6, i32 %5, i32 %4
)");
  EXPECT_EQ(BodyOf(ScalarFn::kTruncDivide, DType::kU8, 4),
            R"(  %0 = icmp eq <4 x i8> %y, splat (i8 0)
  %1 = select <4 x i1> %0, <4 x i8> splat (i8 1), <4 x i8> %y
  %2 = udiv <4 x i8> %x, %1
)");
}

TEST(IrNumber, PrintsOperandsBeforeWhatUsesThem) {
  EXPECT_EQ(BodyOf(ScalarFn::kRsqrt, DType::kF64, 1),
            R"(  %0 = call double @llvm.sqrt.f64(double %x)
  %1 = fdiv double 0x3FF0000000000000, %0
declare double @llvm.sqrt.f64(double)
)");
}

TEST(IrNumber, BodiesHaveNoFastMathFlags) {
  for (ScalarFn fn : {ScalarFn::kExp, ScalarFn::kSin, ScalarFn::kTanh, ScalarFn::kErfc}) {
    std::string text = BodyOf(fn, DType::kF32, 16);
    for (const char* flag : {" fast ", "reassoc", "contract", "nnan", "nsz", "arcp", "afn"}) {
      EXPECT_EQ(text.find(flag), std::string::npos) << flag << " in\n" << text;
    }
  }
}

}  // namespace
}  // namespace hammock::compiler
