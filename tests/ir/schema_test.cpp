#include "hammock/ir/schema.h"

#include <gtest/gtest.h>

#include "expect_error.h"

namespace hammock {
namespace {

std::string RoundTrip(const char* text) { return FunctionSchema::Parse(text).to_string(); }

TEST(FunctionSchema, PrintsWhatItParsed) {
  for (const char* text : {
           "softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
           "add.alpha(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
           "add_(Tensor(a!) self, Tensor other) -> Tensor",
           "index(Tensor self, Tensor?[] indices) -> Tensor",
           "div(Tensor self, Tensor other, *, str? rounding_mode=None) -> Tensor",
           "topk(Tensor self, int k, int dim=-1, bool largest=true) -> (Tensor, Tensor)",
           "split(Tensor self, int[] sizes, int dim=0) -> Tensor[]",
           "sync() -> ()",
           "call(Dict(str, Any) options, Any value, Graph body) -> Any",
           "norm(Tensor self, float p=2.0, int[1]? dim=None) -> Tensor",
           "pad(Tensor self, int[2] pad=[0, 0], str mode=\"constant\") -> Tensor",
           "clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
           "rand(int[] size, *, Generator? generator=None, Device? device=None) -> Tensor",
           "nest(int[][] rows, Tensor?[] xs, Tuple(int, float?, str[]) t) -> Dict(str, Tensor[])",
           "run(__backends__.toy self, Dict(str, Tuple(int, Any)) d, int[2][]? n=None) -> bool?",
           "lib::op(float[] scales=[], float eps=1e-05, float big=inf) -> Tensor",
       }) {
    EXPECT_EQ(RoundTrip(text), text);
  }
}

TEST(FunctionSchema, ChecksAndConvertsInsideNestedValues) {
  FunctionSchema schema = FunctionSchema::Parse(
      "f(Dict(str, float) d, Tuple(int, str) t, float[][] m, bool? b=None) -> None");
  auto bound = schema.Bind({AnyDict{{"a", 1}}, Any::Tuple({1, "x"}), AnyList{AnyList{1, 2.5}}}, {});
  EXPECT_EQ(Any(AnyList(bound)).to_string(), "[{\"a\": 1.0}, (1, \"x\"), [[1.0, 2.5]], none]");
  Any good = Any::Tuple({1, "x"});
  EXPECT_ERROR(schema.Bind({AnyDict{{"a", "b"}}, good, AnyList{}}, {}), TypeError,
               "argument 'd' must be Dict(str, float), got dict: {\"a\": \"b\"}");
  EXPECT_ERROR(schema.Bind({AnyDict{}, Any::Tuple({1}), AnyList{}}, {}), TypeError,
               "argument 't' must be Tuple(int, str), got tuple: (1,)");
  EXPECT_ERROR(schema.Bind({AnyDict{}, good, AnyList{1.0}}, {}), TypeError,
               "argument 'm' must be float[][], got list: [1.0]");
  EXPECT_ERROR(schema.Bind({AnyDict{}, good, AnyList{}, 2}, {}), TypeError,
               "argument 'b' must be bool?, got int: 2");
}

TEST(FunctionSchema, RefusesTextThatIsNestedTooDeep) {
  std::string tuples, lists = "int", values;
  for (int i = 0; i < 100000; ++i) {
    tuples += "Tuple(";
    lists += "[]";
    values += "[";
  }
  for (const std::string& text :
       {"f(" + tuples, "f(" + lists + " x) -> None", "f(int[] x=" + values}) {
    EXPECT_ERROR(FunctionSchema::Parse(text), ValueError, "nested deeper than 32");
  }
}

TEST(FunctionSchema, NamesExpectedAndActualResults) {
  FunctionSchema two = FunctionSchema::Parse("f() -> (Tensor, int)");
  EXPECT_ERROR(two.CheckReturned(Any(AnyList{1})), TypeError,
               "f: must return 2 values, returned 1 values");
  EXPECT_ERROR(two.CheckReturned(Any(1)), TypeError, "f: must return 2 values, returned int");
  EXPECT_ERROR(two.CheckReturned(Any::Tuple({1, "x"})), TypeError,
               "f: must return as result 1 a int, returned as result 1 a str: \"x\"");
  EXPECT_NO_THROW(FunctionSchema::Parse("f() -> ()").CheckReturned(Any()));
}

TEST(FunctionSchema, AcceptsPyTorchSpellings) {
  EXPECT_EQ(RoundTrip("pool(Tensor self, int[2] stride=1) -> Tensor"),
            "pool(Tensor self, int[2] stride=[1, 1]) -> Tensor");
  EXPECT_EQ(RoundTrip("pool(Tensor self, int[2] stride=[]) -> Tensor"),
            "pool(Tensor self, int[2] stride=[]) -> Tensor");
  EXPECT_EQ(RoundTrip("sort(Tensor self, bool d=False) -> (Tensor values, Tensor indices)"),
            "sort(Tensor self, bool d=false) -> (Tensor, Tensor)");
  EXPECT_EQ(RoundTrip("gelu(Tensor self, *, str approximate='none') -> Tensor"),
            "gelu(Tensor self, *, str approximate=\"none\") -> Tensor");
  EXPECT_EQ(RoundTrip("view(Tensor(a) self, SymInt[] size) -> Tensor(a)"),
            "view(Tensor self, SymInt[] size) -> Tensor");
  EXPECT_EQ(RoundTrip("chunk(Tensor(a -> *) self, int n) -> Tensor(a)[]"),
            "chunk(Tensor self, int n) -> Tensor[]");
  EXPECT_EQ(RoundTrip("to(Tensor self, ScalarType dtype=float32) -> Tensor"),
            "to(Tensor self, ScalarType dtype=f32) -> Tensor");
}

TEST(FunctionSchema, KnowsItsParts) {
  FunctionSchema schema =
      FunctionSchema::Parse("add_.alpha(Tensor(a!) self, *, Scalar alpha=1) -> Tensor(a!)");
  EXPECT_EQ(schema.name(), "add_");
  EXPECT_EQ(schema.overload(), "alpha");
  EXPECT_EQ(schema.full_name(), "add_.alpha");
  EXPECT_TRUE(schema.arguments()[0].written);
  EXPECT_TRUE(schema.arguments()[1].keyword_only);
  EXPECT_EQ(schema.IndexOf("alpha"), 1);
  EXPECT_EQ(schema.IndexOf("input"), 0);
  EXPECT_EQ(schema.IndexOf("beta"), -1);
  EXPECT_FALSE(schema.variadic_returns());
  EXPECT_TRUE(FunctionSchema::Parse("f() -> Tensor[]").variadic_returns());
}

TEST(FunctionSchema, ParseErrorsNameTheColumn) {
  auto message = [](const char* text) {
    return MessageOf<ValueError>([&] { FunctionSchema::Parse(text); });
  };
  EXPECT_EQ(message("f(Tensr x) -> Tensor"),
            "schema: column 3: unknown type 'Tensr' in \"f(Tensr x) -> Tensor\"");
  EXPECT_EQ(message("f(Tensor x)"), "schema: column 12: expected '->' in \"f(Tensor x)\"");
  EXPECT_EQ(message("f(int x=1.5) -> Tensor"),
            "schema: column 9: the default 1.5 is no int in \"f(int x=1.5) -> Tensor\"");
  EXPECT_EQ(message("f(int x int y) -> ()"),
            "schema: column 9: expected ',' in \"f(int x int y) -> ()\"");
  EXPECT_EQ(message("f(int x, int x) -> ()"),
            "schema: column 15: a second argument 'x' in \"f(int x, int x) -> ()\"");
  for (const char* text :
       {"", "f", "f(", "f()", "f() ->", "f() -> Tensor x y", "f(int) -> ()", "f(int[0] x) -> ()",
        "f(int[999] x) -> ()", "f(*, *) -> ()", "f(str s='x) -> ()", "f(Dict(int, Any) d) -> ()",
        "f(int x=) -> ()", "f(Tensor(a x) -> ()", "f(int[) -> ()", "2d() -> ()", "a:b() -> ()",
        "f(int 2x) -> ()"}) {
    EXPECT_TRUE(message(text).starts_with("schema: column ")) << text << ": " << message(text);
  }
}

FunctionSchema Sample() {
  return FunctionSchema::Parse(
      "f(Tensor self, int dim, float p=2, int[2] stride=1, *, Scalar s=0, bool keep=False) -> "
      "Tensor");
}

TEST(Bind, FillsDefaultsAndConverts) {
  std::vector<Any> bound = Sample().Bind({Any(1.5), Any(true)}, {{"stride", Any(3)}});
  ASSERT_EQ(bound.size(), 6u);
  EXPECT_EQ(Any(AnyList(bound)).to_string(), "[1.5, 1, 2.0, [3, 3], 0, false]");
  bound = Sample().Bind({}, {{"dim", Any(0)}, {"input", Any(1)}, {"p", Any(1)}, {"s", Any(true)}});
  EXPECT_EQ(Any(AnyList(bound)).to_string(), "[1, 0, 1.0, [1, 1], true, false]");
}

TEST(Bind, OneListItemStandsForAll) {
  std::vector<Any> bound = Sample().Bind({Any(1), Any(0)}, {{"stride", Any::Ints({5})}});
  EXPECT_EQ(bound[3].to_string(), "[5, 5]");
}

TEST(Bind, DefaultsAreNotShared) {
  FunctionSchema schema = Sample();
  schema.Bind({Any(1), Any(0)}, {})[3].MutableList().clear();
  EXPECT_EQ(schema.Bind({Any(1), Any(0)}, {})[3].to_string(), "[1, 1]");
}

TEST(Bind, SaysWhatIsWrong) {
  auto why = [](std::vector<Any> args, std::vector<std::pair<std::string, Any>> kwargs) {
    std::string reason = "it binds";
    Sample().TryBind(args, kwargs, &reason);
    return reason;
  };
  EXPECT_EQ(why({Any(1), Any(2.5)}, {}), "argument 'dim' must be int, got float: 2.5");
  EXPECT_EQ(why({Any("x"), Any(1)}, {}), "argument 'self' must be Tensor, got str: \"x\"");
  EXPECT_EQ(why({Any(1)}, {}), "argument 'dim' (int) is missing");
  EXPECT_EQ(why({Any(1), Any(1), Any(1), Any(1), Any(1)}, {}),
            "takes at most 4 positional arguments, got 5");
  EXPECT_EQ(why({Any(1), Any(1)}, {{"dim", Any(1)}}), "argument 'dim' is given twice");
  EXPECT_EQ(why({Any(1)}, {{"dmi", Any(1)}}), "there is no argument 'dmi'; did you mean 'dim'?");
  EXPECT_EQ(why({Any(1), Any(1)}, {{"keep", Any(1)}}), "argument 'keep' must be bool, got int: 1");
  EXPECT_EQ(why({Any(1), Any(1)}, {{"stride", Any::Ints({1, 2, 3})}}),
            "argument 'stride' must be int[2], got list: [1, 2, 3]");
  EXPECT_EQ(why({Any(1), Any(1)}, {{"self", Any(1)}}), "argument 'self' is given twice");
  EXPECT_EQ(why({Any(1), Any()}, {}), "argument 'dim' must be int, got none: none");
}

TEST(Bind, ErrorQuotesTheSchema) {
  FunctionSchema schema = FunctionSchema::Parse("neg(Tensor self) -> Tensor");
  EXPECT_EQ(MessageOf<TypeError>([&] { schema.Bind({}, {}); }),
            "neg: argument 'self' (Tensor) is missing; its schema is neg(Tensor self) -> Tensor");
}

TEST(SchemaType, SymIntIsAnInt) {
  const char* text =
      "f(SymInt n, SymInt[2] sizes=[1, 1], SymInt[]? more=None, int dim=0) -> Tensor";
  FunctionSchema schema = FunctionSchema::Parse(text);
  EXPECT_EQ(schema.to_string(), text);
  auto type = [&](int i) { return schema.arguments()[i].type; };
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(type(i).base, SchemaType::Base::kInt);
    EXPECT_EQ(type(i).symbolic, i < 3);
  }
  EXPECT_NE(type(0), type(3));
  EXPECT_TRUE(type(0).Accepts(Any(3)));
  EXPECT_FALSE(type(0).Accepts(Any(3.0)));
  std::vector<Any> bound = schema.Bind({Any(true), Any(7)}, {});
  EXPECT_EQ(bound[0].ToInt(), 1);
  EXPECT_EQ(bound[1].ToInts(), (std::vector<int64_t>{7, 7}));
}

TEST(SchemaType, AcceptsAsPyTorchDoes) {
  auto accepts = [](const char* type, const Any& value) {
    std::string text = std::string("f(") + type + " x) -> ()";
    return FunctionSchema::Parse(text).arguments()[0].type.Accepts(value);
  };
  EXPECT_TRUE(accepts("float", Any(1)));
  EXPECT_TRUE(accepts("Scalar", Any(true)));
  EXPECT_TRUE(accepts("Tensor", Any(2.5)));
  EXPECT_FALSE(accepts("Tensor[]", Any(AnyList{Any(1)})));
  EXPECT_TRUE(accepts("Tensor?[]", Any(AnyList{Any()})));
  EXPECT_FALSE(accepts("Tensor[]", Any(AnyList{Any()})));
  EXPECT_FALSE(accepts("int[]", Any(1)));
  EXPECT_TRUE(accepts("int[1]", Any(1)));
  EXPECT_TRUE(accepts("int[1]", Any::Ints({1, 2, 3})));
  EXPECT_TRUE(accepts("int[]", Any::Tuple({Any(1)})));
  EXPECT_FALSE(accepts("bool", Any(1)));
  EXPECT_TRUE(accepts("int?", Any()));
  EXPECT_FALSE(accepts("str", Any(f32)));
  EXPECT_TRUE(accepts("ScalarType", Any(f32)));
  EXPECT_TRUE(accepts("Any", Any()));
  EXPECT_TRUE(accepts("Dict(str, Any)", Any(AnyDict{})));
}

}  // namespace
}  // namespace hammock
