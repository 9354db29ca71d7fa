#pragma once
/// Any: a boxed, dynamically typed value. What boxed op calls, schemas and delegates speak.
///
/// Lists, dicts and objects are shared by reference, as in Python. Not thread-safe per object.

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/dtype.h"
#include "hammock/location.h"
#include "hammock/scalar.h"

namespace hammock {

class Any;
class Tensor;
class Graph;

using AnyList = std::vector<Any>;
/// Ordered by key, so that printing is deterministic.
using AnyDict = std::map<std::string, Any>;

/// Base of user classes that travel in an Any.
class HAMMOCK_API Object {
 public:
  virtual ~Object();
  virtual std::string type_name() const = 0;
};

class HAMMOCK_API Any {
 public:
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kDType,
    kTensor,
    kList,
    kTuple,
    kDict,
    kObject,
    kGraph,
    kComplex
  };

  Any() = default;
  Any(std::nullptr_t) {}                          // NOLINT: boxes like a literal
  Any(bool value) : Any(Kind::kBool, value) {}    // NOLINT
  Any(int value) : Any(Kind::kInt, value) {}      // NOLINT
  Any(int64_t value) : Any(Kind::kInt, value) {}  // NOLINT
  Any(double value) : Any(Kind::kFloat, std::bit_cast<int64_t>(value)) {}  // NOLINT
  template <ComplexNumber T>
  Any(const T& value) : Any(Scalar(value)) {}                           // NOLINT
  Any(const char* value) : Any(std::string(value)) {}                   // NOLINT
  Any(std::string value);                                               // NOLINT
  Any(DType value) : Any(Kind::kDType, static_cast<int64_t>(value)) {}  // NOLINT
  Any(const Scalar& value);                                             // NOLINT
  Any(const Tensor& value);                 // NOLINT: defined beside Tensor
  Any(AnyList value);                       // NOLINT: a list
  Any(AnyDict value);                       // NOLINT
  Any(std::shared_ptr<Object> value);       // NOLINT
  Any(std::shared_ptr<const Graph> value);  // NOLINT
  static Any Tuple(AnyList values);
  static Any Ints(const std::vector<int64_t>& values);

  Kind kind() const { return kind_; }
  /// "none", "bool", "int", "float", "complex", "str", "dtype", "Tensor", "list", "tuple", "dict",
  /// class name.
  std::string type_name() const;

  bool IsNone() const { return kind() == Kind::kNone; }
  bool IsTensor() const { return kind() == Kind::kTensor; }
  bool IsList() const { return kind() == Kind::kList; }
  bool IsSequence() const { return kind() == Kind::kList || kind() == Kind::kTuple; }
  bool IsNumber() const {
    return kind() == Kind::kBool || kind() == Kind::kInt || kind() == Kind::kFloat ||
           kind() == Kind::kComplex;
  }

  // Readers: TypeError names the expected and the actual type.
  bool ToBool(Location at = Location::current()) const;
  int64_t ToInt(Location at = Location::current()) const;
  double ToDouble(Location at = Location::current()) const;  ///< also from int
  Scalar ToScalar(Location at = Location::current()) const;
  const std::string& ToStringRef(Location at = Location::current()) const;
  DType ToDType(Location at = Location::current()) const;
  const Tensor& ToTensor(Location at = Location::current()) const;
  const AnyList& ToList(Location at = Location::current()) const;  ///< also of a tuple
  AnyList& MutableList(Location at = Location::current());
  const AnyDict& ToDict(Location at = Location::current()) const;
  AnyDict& MutableDict(Location at = Location::current());
  std::shared_ptr<Object> ToObject(Location at = Location::current()) const;
  std::shared_ptr<const Graph> ToGraph(Location at = Location::current()) const;
  std::vector<int64_t> ToInts(Location at = Location::current()) const;
  std::vector<double> ToDoubles(Location at = Location::current()) const;

  /// For messages: values in full, tensors as their summary.
  std::string to_string() const;

 private:
  Any(Kind kind, int64_t bits) : kind_(kind), bits_(bits) {}
  Any(Kind kind, std::shared_ptr<void> held) : kind_(kind), held_(std::move(held)) {}
  /// The object that a value of these kinds holds; TypeError with `expected` for one of another
  /// kind.
  template <class T>
  T& Held(std::initializer_list<Kind> kinds, const char* expected, const Location& at) const;

  Kind kind_ = Kind::kNone;
  int64_t bits_ = 0;            // a number, the bits of a double, a dtype
  std::shared_ptr<void> held_;  // a value of any other kind
};

}  // namespace hammock
