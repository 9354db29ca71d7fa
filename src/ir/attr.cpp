#include "hammock/ir/attr.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <variant>

#include "base/of_thread.h"
#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "ir/text.h"

namespace hammock {
namespace {

using BoxedValue = std::variant<std::string, std::vector<int64_t>, std::vector<double>,
                                std::shared_ptr<const Graph>, std::vector<std::string>, Scalar>;

constexpr const char* kKindNames[] = {"none", "scalar", "dtype", "string",
                                      "ints", "floats", "graph", "strings"};

// The first word of an attribute's bytes; what follows is as long as it says.
uint64_t Header(Attr::Kind kind, uint64_t extra) {
  return static_cast<uint64_t>(kind) | extra << 8;
}

void AppendWords(std::vector<uint64_t>& out, const std::string& text) {
  AppendStringWords(out, text);
}
void AppendWords(std::vector<uint64_t>& out, const std::vector<int64_t>& values) {
  out.insert(out.end(), values.begin(), values.end());
}
void AppendWords(std::vector<uint64_t>& out, const std::vector<double>& values) {
  for (double value : values) out.push_back(std::bit_cast<uint64_t>(value));
}
void AppendWords(std::vector<uint64_t>& out, const std::vector<std::string>& values) {
  for (const std::string& value : values) AppendStringWords(out, value);
}
void AppendWords(std::vector<uint64_t>& out, const std::shared_ptr<const Graph>& graph) {
  AppendGraphWords(out, *graph);
}

void AppendWords(std::vector<uint64_t>& out, const Scalar& number) {
  out.push_back(number.bits());
  out.push_back(number.imag_bits());
}

uint64_t Length(const Scalar& number) { return static_cast<uint64_t>(number.dtype()); }
template <class T>
uint64_t Length(const T& value) {
  if constexpr (requires { value.size(); }) return value.size();
  return 0;
}

void AppendBoxedWords(std::vector<uint64_t>& out, Attr::Kind kind, const BoxedValue& boxed) {
  std::visit(
      [&](const auto& value) {
        out.push_back(Header(kind, Length(value)));
        AppendWords(out, value);
      },
      boxed);
}

Hash128 HashBoxed(Attr::Kind kind, const BoxedValue& boxed) {
  // A graph's hash uses the stored ones of its own attributes, so nesting costs nothing extra.
  if (auto* graph = std::get_if<std::shared_ptr<const Graph>>(&boxed)) {
    return Combine((*graph)->hash(), static_cast<uint64_t>(kind));
  }
  std::vector<uint64_t> words;
  AppendBoxedWords(words, kind, boxed);
  Hash128 hash = HashOf(words.size());
  for (uint64_t word : words) hash = Combine(hash, word);
  return hash;
}

// [a,b,c]; an empty list of another kind than ints names it.
template <class T, class F>
void AppendList(std::string& out, const char* kind, const std::vector<T>& values, F append) {
  if (values.empty()) out += kind;
  out += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append(out, values[i]);
  }
  out += ']';
}

}  // namespace

void AppendStringWords(std::vector<uint64_t>& out, std::string_view text) {
  out.push_back(text.size());
  size_t start = out.size();
  out.resize(start + (text.size() + 7) / 8);
  if (!text.empty()) std::memcpy(&out[start], text.data(), text.size());
}

struct Attr::Box {
  Box(Kind kind, BoxedValue boxed) : value(std::move(boxed)), hash(HashBoxed(kind, value)) {}
  static uint64_t Make(Kind kind, BoxedValue value) {
    return reinterpret_cast<uint64_t>(new Box(kind, std::move(value)));
  }
  static Box* Of(uint64_t bits) { return reinterpret_cast<Box*>(bits); }

  BoxedValue value;
  Hash128 hash;
  std::atomic<uint32_t> references{1};
};

Attr::Attr(std::string value) : Attr(Kind::kString, Box::Make(Kind::kString, std::move(value))) {}
namespace {

/// The lists that a thread has last made attributes of: ops repeat theirs.
struct RecentInts {
  std::array<Attr, 256> attrs;

  static size_t PlaceOf(const Dims& values) {
    // Rotated below: a first value that equals the number of values must not cancel it.
    uint64_t mixed = static_cast<uint64_t>(values.size());
    for (int64_t value : values) {
      mixed = (std::rotl(mixed, 7) ^ static_cast<uint64_t>(value)) * 0x9e3779b97f4a7c15;
    }
    return mixed >> 56;
  }
  static const Attr& Of(const Dims& values) {
    Attr& recent = OfThread<RecentInts>().attrs[PlaceOf(values)];
    if (recent.IsNone() || !std::ranges::equal(recent.ints(), values)) recent = Attr(values.vec());
    return recent;
  }
};

}  // namespace

Attr::Attr(const Dims& value) : Attr(RecentInts::Of(value)) {}
Attr::Attr(std::vector<int64_t> value)
    : Attr(Kind::kInts, Box::Make(Kind::kInts, std::move(value))) {}
Attr::Attr(std::vector<double> value)
    : Attr(Kind::kFloats, Box::Make(Kind::kFloats, std::move(value))) {}
Attr::Attr(std::vector<std::string> value)
    : Attr(Kind::kStrings, Box::Make(Kind::kStrings, std::move(value))) {}
Attr::Attr(std::shared_ptr<const Graph> value) : Attr() {
  HAMMOCK_CHECK(value != nullptr, "a graph attribute needs a graph");
  bits_ = Box::Make(Kind::kGraph, std::move(value));
  kind_ = Kind::kGraph;
}

void Attr::BoxComplex(const Scalar& value) { bits_ = Box::Make(Kind::kScalar, value); }

Scalar Attr::BoxedScalar() const { return std::get<Scalar>(box().value); }

void Attr::AddReference() { Box::Of(bits_)->references.fetch_add(1, std::memory_order_relaxed); }

void Attr::Release() {
  Box* box = Box::Of(bits_);
  if (box->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete box;
}

const Attr::Box& Attr::box() const { return *Box::Of(bits_); }

void Attr::ThrowWrongKind(Kind wanted) const {
  Throw<InternalError>(ErrorCode::kInternal, "attribute: read as {}, but it is {}",
                       kKindNames[static_cast<int>(wanted)], kKindNames[static_cast<int>(kind_)]);
}

const std::string& Attr::str() const {
  if (kind_ != Kind::kString) ThrowWrongKind(Kind::kString);
  return std::get<std::string>(box().value);
}

const std::vector<int64_t>& Attr::ints() const {
  if (kind_ != Kind::kInts) ThrowWrongKind(Kind::kInts);
  return std::get<std::vector<int64_t>>(box().value);
}

const std::vector<double>& Attr::floats() const {
  if (kind_ != Kind::kFloats) ThrowWrongKind(Kind::kFloats);
  return std::get<std::vector<double>>(box().value);
}

const std::vector<std::string>& Attr::strings() const {
  if (kind_ != Kind::kStrings) ThrowWrongKind(Kind::kStrings);
  return std::get<std::vector<std::string>>(box().value);
}

const Graph& Attr::graph() const { return *graph_ptr(); }

std::shared_ptr<const Graph> Attr::graph_ptr() const {
  if (kind_ != Kind::kGraph) ThrowWrongKind(Kind::kGraph);
  return std::get<std::shared_ptr<const Graph>>(box().value);
}

bool Attr::IsEqualBox(const Attr& other) const {
  const Box &mine = box(), &theirs = other.box();
  if (mine.hash != theirs.hash) return false;
  if (kind_ == Kind::kString || kind_ == Kind::kInts) return mine.value == theirs.value;
  std::vector<uint64_t> words, other_words;
  AppendBytes(words);
  other.AppendBytes(other_words);
  return words == other_words;
}

Hash128 Attr::hash() const {
  if (IsBoxed()) return box().hash;
  return Combine(HashOf(Header(kind_, static_cast<uint64_t>(dtype_))), bits_);
}

uint64_t* Attr::WriteBoxedBytes(uint64_t* out) const {
  if (kind_ != Kind::kInts || ints().size() >= kFewWords) return nullptr;
  *out++ = Header(kind_, ints().size());
  return std::ranges::copy(ints(), out).out;
}

void Attr::AppendBytes(std::vector<uint64_t>& out) const {
  uint64_t few[kFewWords];
  if (uint64_t* end = WriteBytes(few)) {
    out.insert(out.end(), few, end);
  } else {
    AppendBoxedWords(out, kind_, box().value);
  }
}

void AppendAttr(std::string& out, const Attr& attr, int indent, const PrintOptions& options) {
  switch (attr.kind()) {
    case Attr::Kind::kNone:
      out += "none";
      return;
    case Attr::Kind::kScalar:
      return AppendScalar(out, attr.scalar());
    case Attr::Kind::kDType:
      out += NameOf(attr.dtype());
      return;
    case Attr::Kind::kString:
      return AppendQuoted(out, attr.str());
    case Attr::Kind::kInts:
      return AppendList(out, "", attr.ints(), [](std::string& to, int64_t value) {
        fmt::format_to(std::back_inserter(to), "{}", value);
      });
    case Attr::Kind::kFloats:
      return AppendList(out, "floats", attr.floats(), AppendDouble);
    case Attr::Kind::kStrings:
      return AppendList(out, "strings", attr.strings(), AppendQuoted);
    case Attr::Kind::kGraph:
      return AppendGraphBlock(out, attr.graph(), indent, options);
  }
}

bool IsInverse(const Scalar& number) {
  if (number.dtype() != DType::kF32 && number.dtype() != DType::kF64) return false;
  return std::abs(number.ToDouble()) < 1 && number.ToDouble() != 0;
}

Scalar NumberOfSize(int64_t size, const Scalar& like) {
  if (!IsInverse(like)) return Scalar(size).To(like.dtype());
  return Scalar(1 / static_cast<double>(size)).To(like.dtype());
}

Attr WithSize(const Attr& attr, int position, int64_t size) {
  if (attr.kind() != Attr::Kind::kInts) return Attr(NumberOfSize(size, attr.scalar()));
  std::vector<int64_t> values = attr.ints();
  values[position] = size;
  return Attr(std::move(values));
}

std::optional<int64_t> SizeInAttr(const Attr& attr, int position) {
  if (position < 0) return std::nullopt;
  if (attr.kind() == Attr::Kind::kInts) {
    if (position >= static_cast<int>(attr.ints().size())) return std::nullopt;
    return attr.ints()[position];
  }
  if (attr.kind() != Attr::Kind::kScalar || position != 0) return std::nullopt;
  Scalar scalar = attr.scalar();
  if (scalar.IsBool() || scalar.IsComplex()) return std::nullopt;
  if (IsInverse(scalar)) {
    // Larger ones are not told apart in f32.
    constexpr double kMost = 1 << 22;
    double inverse = 1 / scalar.ToDouble();
    if (!(std::abs(inverse) < kMost)) return std::nullopt;
    int64_t size = std::llround(inverse);
    if (NumberOfSize(size, scalar) != scalar) return std::nullopt;
    return size;
  }
  // A count in floating point, such as the divisor of a mean; not -0.0, and none too large for i64.
  int64_t integer = scalar.ToInt();
  if (Scalar(integer).To(scalar.dtype()) != scalar) return std::nullopt;
  if (scalar.IsFloating() && !(scalar.ToDouble() < 0x1p62 && scalar.ToDouble() > -0x1p62)) {
    return std::nullopt;
  }
  return integer;
}

std::string Attr::to_string() const {
  std::string out;
  AppendAttr(out, *this);
  return out;
}

}  // namespace hammock
