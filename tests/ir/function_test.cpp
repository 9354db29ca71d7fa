#include "hammock/ir/function.h"
#include "hammock/ir/op_def.h"

#include <gtest/gtest.h>

#include <thread>

#include "expect_error.h"
#include "hammock/hammock.h"

namespace hammock {
namespace {

class Counter : public Object {
 public:
  std::string type_name() const override { return "shop.Counter"; }
  int64_t count = 0;
};

Function AddMethod() {
  return {FunctionSchema::Parse("add(shop.Counter self, int by=1, *, bool twice=False) -> int"),
          [](Stack& stack) {
            bool twice = Pop(stack).ToBool();
            int64_t by = Pop(stack).ToInt();
            auto counter = ObjectAs<Counter>(Pop(stack), "a shop.Counter");
            counter->count += twice ? 2 * by : by;
            Push(stack, counter->count);
          }};
}

void RegisterCounter() {
  static const bool once = [] {
    RegisterClass({.name = "shop.Counter",
                   .make = [] { return std::make_shared<Counter>(); },
                   .methods = {AddMethod()}});
    return true;
  }();
  (void)once;
}

TEST(Function, BindsDefaultsAndKeywordsAndLeavesResultsOnAStack) {
  Function divmod{FunctionSchema::Parse("divmod(int a, int b=7) -> (int, int)"), [](Stack& stack) {
                    int64_t b = Pop(stack).ToInt(), a = Pop(stack).ToInt();
                    Push(stack, a / b);
                    Push(stack, a % b);
                  }};
  EXPECT_EQ(divmod.Call({17}).to_string(), "(2, 3)");
  EXPECT_EQ(divmod.Call({}, {{"b", 5}, {"a", 17}}).to_string(), "(3, 2)");
  EXPECT_THROW(divmod.Call({"x"}), TypeError);
}

TEST(Function, RefusesResultsThatAreNotItsSchemas) {
  Function wrong_type{FunctionSchema::Parse("f() -> int"), [](Stack& s) { Push(s, "text"); }};
  EXPECT_ERROR(wrong_type.Call({}), TypeError, "f: must return int, returned str: \"text\"");
  Function wrong_count{FunctionSchema::Parse("g() -> (int, int)"), [](Stack& s) { Push(s, 1); }};
  EXPECT_ERROR(wrong_count.Call({}), TypeError, "g: must leave 2 values on the stack, left 1");
}

TEST(Function, OfAnOpTakesItsArgumentsFromTheStack) {
  Function topk = FunctionOf(op_registry::Get("topk"));
  Any result = topk.Call({Any(tensor({3.0, 1.0, 2.0})), 2});
  EXPECT_EQ(result.ToList()[0].ToTensor().to_vector<float>(), (std::vector<float>{3, 2}));
  Stack stack{Any(tensor({1.0}))};
  EXPECT_ERROR(topk.body(stack), ValueError, "topk: the stack has 1 values, needs ");
}

TEST(Class, ObjectsAreMadeAndCalledByName) {
  RegisterCounter();
  Any counter = NewObject("shop.Counter");
  EXPECT_EQ(CallMethod(counter, "add").ToInt(), 1);
  EXPECT_EQ(CallMethod(counter, "add", {3}, {{"twice", true}}).ToInt(), 7);
  EXPECT_ERROR(CallMethod(counter, "ad"), ValueError,
               "shop.Counter has no method 'ad'; did you mean 'add'?");
  EXPECT_ERROR(CallMethod(Any(3), "add"), TypeError,
               "add: expected an object of a registered class, got int");
  EXPECT_ERROR(NewObject("shop.Till"), ValueError, "there is no class 'shop.Till'");
}

TEST(Class, IsATypeOfSchemas) {
  RegisterCounter();
  FunctionSchema schema = FunctionSchema::Parse("use(shop.Counter c, shop.Counter[] more) -> None");
  Any counter = NewObject("shop.Counter");
  EXPECT_NO_THROW(schema.Bind({counter, AnyList{counter}}, {}));
  EXPECT_ERROR(schema.Bind({1, AnyList{}}, {}), TypeError,
               "argument 'c' must be shop.Counter, got int: 1");
}

TEST(Class, NamesAreTakenOnceAndHaveANamespace) {
  RegisterCounter();
  EXPECT_ERROR(RegisterClass({.name = "shop.Counter"}), ValueError,
               "shop.Counter is already registered");
  EXPECT_ERROR(RegisterClass({.name = "Counter"}), ValueError, "'Counter' needs a namespace");
  EXPECT_ERROR(RegisterClass({.name = "shop.Two", .methods = {AddMethod(), AddMethod()}}),
               ValueError, "shop.Two has two methods 'add'");
  EXPECT_EQ(ClassNames("shop"), std::vector<std::string>{"shop.Counter"});
}

TEST(Class, RegistryIsSafeWithThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int k = 0; k < 50; ++k) {
        std::string name = "threads.C" + std::to_string(100 * i + k);
        RegisterClass({.name = name});
        EXPECT_NE(FindClass(name), nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ClassNames("threads").size(), 400u);
}

}  // namespace
}  // namespace hammock
