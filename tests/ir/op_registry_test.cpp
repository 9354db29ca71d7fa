#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "expect_error.h"
#include "hammock/ir/op_def.h"
#include "test_records.h"

namespace hammock {
namespace {

Any Nothing(std::span<const Any>) { return Any(); }
void NoTypes(const InferCall&) {}
std::vector<Tensor> NoExpansion(const ExpandCall&) { throw 0; }

TEST(OpRegistry, FindsByFullName) {
  EXPECT_EQ(op_registry::Find("test::every_kind.node"), &kEveryKind);
  EXPECT_EQ(op_registry::Find("test::every_kind"), nullptr);
  EXPECT_EQ(&op_registry::Get("add"), op_registry::Find("add"));
  EXPECT_STREQ(kEveryKind.name(), "test::every_kind.node");
}

TEST(OpRegistry, ListsRecordsByTheNameThatTheirSchemasSay) {
  for (const OpDef* def : op_registry::All()) EXPECT_EQ(op_registry::Find(def->info().name), def);
}

TEST(OpRegistryDeathTest, LooksUpANameWithoutParsingOtherRecords) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // in a process that has parsed nothing
  auto look_up = [] {
    op_registry::Get("add");
    auto is_parsed = [](const OpDef* def) { return def->registered.load() != nullptr; };
    std::exit(std::ranges::count_if(op_registry::All(), is_parsed) < 20 ? 0 : 1);
  };
  EXPECT_EXIT(look_up(), testing::ExitedWithCode(0), "");
}

TEST(OpRegistry, SuggestsTheNearestName) {
  EXPECT_EQ(MessageOf<ValueError>([] { op_registry::Get("test::every_knid.node"); }),
            "there is no op 'test::every_knid.node', did you mean 'test::every_kind.node'?");
}

TEST(OpRegistry, ListsAllSortedAndOverloadsInOrder) {
  std::vector<const OpDef*> all = op_registry::All();
  EXPECT_GT(all.size(), 90u);
  EXPECT_TRUE(std::is_sorted(all.begin(), all.end(), [](const OpDef* a, const OpDef* b) {
    return a->info().name < b->info().name;
  }));
  EXPECT_EQ(op_registry::Overloads("test::twice"),
            (std::vector<const OpDef*>{&kTwiceInt, &kTwiceStr}));
  EXPECT_TRUE(op_registry::Overloads("nothing").empty());
}

TEST(OpRegistry, SplitsOperandsFromAttributes) {
  const OpInfo& info = kEveryKind.info();
  EXPECT_EQ(info.operand_args, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(info.attribute_args.size(), 17u);
  EXPECT_TRUE(info.variadic);
  EXPECT_EQ(info.AttributeIndex("a"), 0);
  EXPECT_EQ(info.AttributeName(10), "k");
  EXPECT_EQ(info.AttributeIndex("self"), -1);
}

TEST(OpRegistry, IdsAndSeedsAreDistinct) {
  std::vector<uint32_t> ids;
  std::vector<Hash128> seeds;
  for (const OpDef* def : op_registry::All()) {
    ids.push_back(def->info().id);
    seeds.push_back(def->info().seed);
  }
  std::sort(ids.begin(), ids.end());
  std::sort(seeds.begin(), seeds.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(std::adjacent_find(seeds.begin(), seeds.end()), seeds.end());
}

TEST(Register, RefusesASecondRecordOfAName) {
  static const OpDef again = {.schema = "test::twice.int(float x) -> float", .call = Nothing};
  EXPECT_EQ(MessageOf<ValueError>([] { op_registry::Register(again); }),
            "register: test::twice.int is already registered as test::twice.int(int x) -> int");
  EXPECT_THROW(op_registry::Register(kTwiceInt), ValueError);
}

std::string Rejected(const OpDef& def) {
  return MessageOf<ValueError>([&] { op_registry::Register(def); });
}

TEST(Register, RefusesRecordsThatContradictTheirSchema) {
  static const OpDef no_parse = {.schema = "test::bad(Tensr x) -> ()", .call = Nothing};
  EXPECT_TRUE(Rejected(no_parse).starts_with("schema: column 11: unknown type 'Tensr'"));

  static const OpDef baked = {.schema = "test::bad(Scalar x) -> ()", .baked = "y", .call = Nothing};
  EXPECT_EQ(Rejected(baked),
            "register: test::bad(Scalar x) -> (): baked argument 'y' does not exist");

  static const OpDef baked_int = {
      .schema = "test::bad(int x) -> ()", .baked = "x", .call = Nothing};
  EXPECT_EQ(Rejected(baked_int),
            "register: test::bad(int x) -> (): 'x' is listed as baked, but only Scalar arguments "
            "can be");

  static const OpDef empty = {.schema = "test::bad() -> ()"};
  EXPECT_EQ(Rejected(empty),
            "register: test::bad() -> (): neither `call` nor `infer` nor `rule`: nothing to run");

  static const OpDef outputs = {
      .schema = "test::bad(Tensor x) -> Tensor", .infer = NoTypes, .num_outputs = 2};
  EXPECT_EQ(Rejected(outputs),
            "register: test::bad(Tensor x) -> Tensor: num_outputs is 2, but the schema returns 1");

  static const OpDef list_first = {.schema = "test::bad(Tensor[] x, Tensor y) -> Tensor",
                                   .infer = NoTypes};
  EXPECT_EQ(Rejected(list_first),
            "register: test::bad(Tensor[] x, Tensor y) -> Tensor: a Tensor[] operand must be the "
            "last one, unlike 'x'");

  static const OpDef dict = {.schema = "test::bad(Dict(str, Any) x) -> Tensor", .infer = NoTypes};
  EXPECT_EQ(Rejected(dict),
            "register: test::bad(Dict(str, Any) x) -> Tensor: 'x' of type Dict(str, Any) cannot be "
            "an attribute of a node");

  static const OpDef writes = {.schema = "test::bad(Tensor(a!) x) -> Tensor", .infer = NoTypes};
  EXPECT_EQ(Rejected(writes),
            "register: test::bad(Tensor(a!) x) -> Tensor: a node cannot write its operand 'x'");

  static const OpDef expands = {.schema = "test::bad(Tensor x) -> Tensor", .expand = NoExpansion};
  EXPECT_EQ(Rejected(expands),
            "register: test::bad(Tensor x) -> Tensor: an expansion needs `infer` or `rule`");

  static const OpDef result = {.schema = "test::bad(Tensor x) -> int", .infer = NoTypes};
  EXPECT_EQ(Rejected(result), "register: test::bad(Tensor x) -> int: a node returns tensors only");

  static const OpDef elementwise = {.schema = "test::bad(Tensor[] x) -> Tensor",
                                    .rule = DTypeRule::kPromote};
  EXPECT_EQ(Rejected(elementwise),
            "register: test::bad(Tensor[] x) -> Tensor: an elementwise op has single operands and "
            "one result");

  EXPECT_EQ(op_registry::Find("test::bad"), nullptr);
}

TEST(Register, UseBeforeRegistrationIsAnError) {
  static const OpDef early = {.schema = "test::early() -> ()", .call = Nothing};
  EXPECT_EQ(MessageOf<ValueError>([] { early.info(); }),
            "the op record \"test::early() -> ()\" is used before it is registered");
}

TEST(Register, IsThreadSafe) {
  static const OpDef defs[] = {
      {.schema = "test::thread.a() -> ()", .call = Nothing},
      {.schema = "test::thread.b() -> ()", .call = Nothing},
      {.schema = "test::thread.c() -> ()", .call = Nothing},
      {.schema = "test::thread.d() -> ()", .call = Nothing},
  };
  std::vector<std::thread> threads;
  for (const OpDef& def : defs) {
    threads.emplace_back([&def] {
      op_registry::Register(def);
      for (int i = 0; i < 100; ++i) op_registry::All();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(op_registry::Overloads("test::thread").size(), 4u);
}

TEST(CallOp, TakesTheFirstOverloadThatBinds) {
  EXPECT_EQ(CallOp("test::twice", {Any(3)}).ToInt(), 6);
  EXPECT_EQ(CallOp("test::twice", {Any("ab")}).ToStringRef(), "abab");
  EXPECT_EQ(CallOp("test::twice", {}, {{"x", Any(4)}}).ToInt(), 8);
  EXPECT_EQ(CallOp("test::twice.str", {Any("x")}).ToStringRef(), "xx");
}

TEST(CallOp, QuotesEveryOverloadThatDoesNotFit) {
  EXPECT_EQ(MessageOf<TypeError>([] { CallOp("test::twice", {Any(2.5)}); }),
            "test::twice: no overload takes these arguments:\n"
            "  test::twice.int(int x) -> int: argument 'x' must be int, got float: 2.5\n"
            "  test::twice.str(str x) -> str: argument 'x' must be str, got float: 2.5");
  EXPECT_EQ(MessageOf<TypeError>([] { CallOp("test::twice.int", {Any(2.5)}); }),
            "test::twice.int: argument 'x' must be int, got float: 2.5; its schema is "
            "test::twice.int(int x) -> int");
  EXPECT_EQ(MessageOf<ValueError>([] { CallOp("test::twic", {}); }),
            "there is no op 'test::twic', did you mean 'test::twice.int'?");
}

}  // namespace
}  // namespace hammock
