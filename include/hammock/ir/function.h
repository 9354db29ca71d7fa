#pragma once
/// Functions and classes that are reached by name, with boxed values and schemas.
///
///   Function twice{FunctionSchema::Parse("twice(int x) -> int"),
///                  [](Stack& stack) { Push(stack, 2 * Pop(stack).ToInt()); }};
///   twice.Call({21}).ToInt();                       // 42, by name: twice.Call({}, {{"x", 21}})
///
///   RegisterClass({.name = "shop.Counter",
///                  .make = [] { return std::make_shared<Counter>(); },
///                  .methods = {...}});              // the first argument of each is the object
///   Any counter = NewObject("shop.Counter");
///   CallMethod(counter, "add", {3});

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hammock/error.h"
#include "hammock/export.h"
#include "hammock/ir/any.h"
#include "hammock/ir/schema.h"
#include "hammock/location.h"

namespace hammock {

struct OpDef;

using AnyKwargs = std::vector<std::pair<std::string, Any>>;

/// Where a boxed call finds its arguments and leaves its results, the last one on top.
using Stack = std::vector<Any>;

HAMMOCK_API void Push(Stack& stack, Any value);
/// ValueError where the stack is empty.
HAMMOCK_API Any Pop(Stack& stack);

struct HAMMOCK_API Function {
  FunctionSchema schema;
  /// Takes one value per argument off the stack and puts one per result there.
  std::function<void(Stack&)> body;

  /// Binds the arguments, runs, and checks what was returned; several results are a tuple.
  Any Call(const std::vector<Any>& args, const AnyKwargs& kwargs = {}) const;
};

/// An op as a function of a stack.
HAMMOCK_API Function FunctionOf(const OpDef& op);
/// Calls an op by name through its schema; overloads are tried in order of registration.
HAMMOCK_API Any CallOp(std::string_view name, const std::vector<Any>& args,
                       const AnyKwargs& kwargs = {}, Location at = Location::current());

/// A class whose objects travel in an Any; their type_name() is its name.
struct HAMMOCK_API ClassDef {
  std::string name;  ///< "namespace.Name", as schemas write it
  std::function<std::shared_ptr<Object>()> make = nullptr;  ///< null: not made by name
  std::vector<Function> methods = {};                       ///< `self` is their first argument

  /// Null if there is none.
  const Function* FindMethod(std::string_view method) const;
};

/// Thread-safe; entries are never removed. ValueError for a name that is taken or has no namespace,
/// and for methods of one name.
HAMMOCK_API void RegisterClass(ClassDef def);
/// Null if there is none.
HAMMOCK_API const ClassDef* FindClass(std::string_view name);
/// The names of all classes of a namespace, sorted.
HAMMOCK_API std::vector<std::string> ClassNames(std::string_view name_space);

/// A new object of a registered class; ValueError for an unknown one.
HAMMOCK_API Any NewObject(std::string_view class_name);
/// Calls a method of an object by name. TypeError where `object` is of no registered class,
/// ValueError for a method that it does not have.
HAMMOCK_API Any CallMethod(const Any& object, std::string_view method,
                           const std::vector<Any>& args = {}, const AnyKwargs& kwargs = {});

/// The object in `value` as a T; TypeError that names both types where it is another.
template <class T>
std::shared_ptr<T> ObjectAs(const Any& value, const char* expected) {
  std::shared_ptr<T> object =
      std::dynamic_pointer_cast<T>(value.kind() == Any::Kind::kObject ? value.ToObject() : nullptr);
  if (!object) {
    throw TypeError(ErrorCode::kSchema,
                    std::string("expected ") + expected + ", got " + value.type_name());
  }
  return object;
}

}  // namespace hammock
