#pragma once
/// Attr: one immutable attribute value of a node. Sixteen bytes; lists, strings and graphs are
/// shared.
///
/// Hash, equality, text and bytes of attributes are defined here and nowhere else; an op's list of
/// attributes comes from its schema (see op_def.h), so none can be forgotten.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/hash.h"
#include "hammock/ir/shape.h"
#include "hammock/scalar.h"

namespace hammock {

class Graph;

class HAMMOCK_API Attr {
 public:
  /// The values are stable: they are written to archives.
  enum class Kind : uint8_t {
    kNone = 0,    ///< an optional argument that is absent
    kScalar = 1,  ///< bool, int, float or complex, with its dtype
    kDType = 2,
    kString = 3,
    kInts = 4,
    kFloats = 5,
    kGraph = 6,
    kStrings = 7,
  };

  Attr() : Attr(Kind::kNone, 0) {}
  Attr(bool value) : Attr(Scalar(value)) {}  // NOLINT: attribute lists read like call arguments
  Attr(int value) : Attr(Scalar(int64_t{value})) {}  // NOLINT
  Attr(int64_t value) : Attr(Scalar(value)) {}       // NOLINT
  Attr(double value) : Attr(Scalar(value)) {}        // NOLINT
  Attr(const Scalar& value)                          // NOLINT
      : kind_(Kind::kScalar), dtype_(value.dtype()), bits_(value.bits()) {
    if (value.IsComplex()) BoxComplex(value);
  }
  Attr(DType value) : Attr(Kind::kDType, static_cast<uint64_t>(value)) {}  // NOLINT
  Attr(const char* value) : Attr(std::string(value)) {}                    // NOLINT
  Attr(std::string value);                                                 // NOLINT
  Attr(const Dims& value);                                                 // NOLINT
  Attr(std::vector<int64_t> value);                                        // NOLINT
  Attr(std::vector<double> value);                                         // NOLINT
  Attr(std::vector<std::string> value);                                    // NOLINT
  Attr(std::shared_ptr<const Graph> value);                                // NOLINT
  Attr(const Attr& other) : kind_(other.kind_), dtype_(other.dtype_), bits_(other.bits_) {
    if (IsBoxed()) AddReference();
  }
  Attr(Attr&& other) noexcept : kind_(other.kind_), dtype_(other.dtype_), bits_(other.bits_) {
    other.kind_ = Kind::kNone;
    other.dtype_ = DType::kBool;
    other.bits_ = 0;
  }
  Attr& operator=(Attr other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(dtype_, other.dtype_);
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~Attr() {
    if (IsBoxed()) Release();
  }

  Kind kind() const { return kind_; }
  bool IsNone() const { return kind_ == Kind::kNone; }

  // Readers. A wrong kind is an InternalError: schemas have checked kinds before.
  Scalar scalar() const {
    if (kind_ != Kind::kScalar) [[unlikely]]
      ThrowWrongKind(Kind::kScalar);
    if (IsBoxed()) [[unlikely]]
      return BoxedScalar();
    return Scalar::FromBits(dtype_, bits_);
  }
  bool boolean() const { return scalar().ToBool(); }
  int64_t integer() const { return scalar().ToInt(); }
  double real() const { return scalar().ToDouble(); }
  DType dtype() const {
    if (kind_ != Kind::kDType) [[unlikely]]
      ThrowWrongKind(Kind::kDType);
    return static_cast<DType>(bits_);
  }
  const std::string& str() const;
  const std::vector<int64_t>& ints() const;
  const std::vector<double>& floats() const;
  const std::vector<std::string>& strings() const;
  const Graph& graph() const;
  std::shared_ptr<const Graph> graph_ptr() const;

  bool operator==(const Attr& other) const {
    if (kind_ != other.kind_ || dtype_ != other.dtype_) return false;
    return bits_ == other.bits_ || (IsBoxed() && IsEqualBox(other));
  }
  Hash128 hash() const;
  /// Exact bytes, so that equal bytes mean equal attributes (part of the canonical key).
  void AppendBytes(std::vector<uint64_t>& out) const;
  /// The same of an attribute that has at most `kFewWords` to a place with room for as many: where
  /// they end, or null for an attribute that has more, or may have.
  static constexpr size_t kFewWords = 2 + kMaxRank;
  uint64_t* WriteBytes(uint64_t* out) const {
    if (IsBoxed()) return WriteBoxedBytes(out);
    *out++ = static_cast<uint64_t>(kind_) | static_cast<uint64_t>(dtype_) << 8;
    *out++ = bits_;
    return out;
  }
  std::string to_string() const;

 private:
  struct Box;
  Attr(Kind kind, uint64_t bits) : kind_(kind), bits_(bits) {}
  bool IsBoxed() const {
    return kind_ >= Kind::kString || dtype_ == DType::kC64 || dtype_ == DType::kC128;
  }
  void BoxComplex(const Scalar& value);
  Scalar BoxedScalar() const;
  const Box& box() const;
  uint64_t* WriteBoxedBytes(uint64_t* out) const;
  void AddReference();
  void Release();
  bool IsEqualBox(const Attr& other) const;  // of one kind
  [[noreturn, gnu::cold]] void ThrowWrongKind(Kind wanted) const;

  Kind kind_;
  DType dtype_ = DType::kBool;  // of a scalar
  uint64_t bits_;               // a real scalar's bits, a dtype, or a pointer to a shared Box
};
static_assert(sizeof(Attr) == 16);

}  // namespace hammock
