// The binary form of a graph. Note [Graph bytes]
//
// "HAMMOCKG", the format's version (u32), a body, and a 64-bit checksum of everything before it;
// all little-endian. Integers in the body are LEB128, signed ones zigzag. The body lists the ops
// (name and record version) and locations that are used, then the graph; nested graphs stand
// inline. A reader trusts nothing: counts are bounded by the bytes that are left, and what was read
// is verified.

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_map>

#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "ir/op_registry.h"

namespace hammock {
namespace {

constexpr std::string_view kMagic = "HAMMOCKG";
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kHeaderSize = 12;
constexpr size_t kChecksumSize = 8;

template <class T>
void AppendFixed(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

template <class T>
T ReadFixed(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

uint64_t Checksum(std::string_view bytes) { return HashString(bytes).lo; }

class GraphWriter {
 public:
  std::string Write(const Graph& graph) {
    WriteGraph(graph);
    std::string body = std::move(out_);
    out_ = kMagic;
    AppendFixed(out_, kFormatVersion);
    Count(ops_.size());
    for (const OpDef* op : ops_) {
      Text(op->info().name);
      Count(static_cast<uint64_t>(op->version));
    }
    Count(locations_.size());
    for (LocationId location : locations_) Text(LocationText(location));
    out_ += body;
    AppendFixed(out_, Checksum(out_));
    return std::move(out_);
  }

 private:
  void WriteGraph(const Graph& graph) {
    Count(graph.dim_params.size());
    for (const DimParam& param : graph.dim_params) {
      Text(param.name);
      Signed(param.value);
    }
    Count(graph.nodes().size());
    for (const GraphNode& node : graph.nodes()) WriteNode(node);
    WriteValues(graph.outputs());
    WriteExprs(graph.dim_exprs);
    WriteExprs(graph.attr_exprs);
  }

  void WriteNode(const GraphNode& node) {
    Count(Index(node.op, ops_, op_index_));
    WriteValues(node.inputs);
    Count(node.attrs.size());
    for (const Attr& attr : node.attrs) WriteAttr(attr);
    Count(node.types.size());
    for (const Shape& type : node.types) WriteType(type);
    Count(node.location == 0 ? 0 : 1 + Index(node.location, locations_, location_index_));
  }

  void WriteAttr(const Attr& attr) {
    out_ += static_cast<char>(attr.kind());
    switch (attr.kind()) {
      case Attr::Kind::kNone:
        return;
      case Attr::Kind::kScalar:
        out_ += static_cast<char>(attr.scalar().dtype());
        return AppendFixed(out_, attr.scalar().bits());
      case Attr::Kind::kDType:
        out_ += static_cast<char>(attr.dtype());
        return;
      case Attr::Kind::kString:
        return Text(attr.str());
      case Attr::Kind::kInts:
        Count(attr.ints().size());
        for (int64_t value : attr.ints()) Signed(value);
        return;
      case Attr::Kind::kFloats:
        Count(attr.floats().size());
        for (double value : attr.floats()) AppendFixed(out_, std::bit_cast<uint64_t>(value));
        return;
      case Attr::Kind::kGraph:
        return WriteGraph(attr.graph());
      case Attr::Kind::kStrings:
        Count(attr.strings().size());
        for (const std::string& value : attr.strings()) Text(value);
        return;
    }
  }

  void WriteType(const Shape& type) {
    out_ += static_cast<char>(type.dtype());
    Count(static_cast<uint64_t>(type.rank()));
    for (int64_t size : type.sizes()) Signed(size);
  }

  void WriteValues(const std::vector<GraphValue>& values) {
    Count(values.size());
    for (GraphValue value : values) {
      Signed(value.node);
      Signed(value.index);
    }
  }

  void WriteExprs(const std::map<std::tuple<NodeId, int, int>, DimExpr>& exprs) {
    Count(exprs.size());
    for (const auto& [key, expr] : exprs) {
      Signed(std::get<0>(key));
      Signed(std::get<1>(key));
      Signed(std::get<2>(key));
      Signed(expr.constant);
      Count(expr.terms.size());
      for (auto [parameter, coefficient] : expr.terms) {
        Signed(parameter);
        Signed(coefficient);
      }
    }
  }

  // The position of `item` in a table of what was met so far.
  template <class T>
  static uint64_t Index(T item, std::vector<T>& table, std::unordered_map<T, uint64_t>& positions) {
    auto [entry, added] = positions.try_emplace(item, table.size());
    if (added) table.push_back(item);
    return entry->second;
  }

  void Count(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  void Signed(int64_t value) {
    Count(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }
  void Text(std::string_view text) {
    Count(text.size());
    out_ += text;
  }

  std::string out_;
  std::vector<const OpDef*> ops_;
  std::unordered_map<const OpDef*, uint64_t> op_index_;
  std::vector<LocationId> locations_;
  std::unordered_map<LocationId, uint64_t> location_index_;
};

class GraphReader {
 public:
  explicit GraphReader(std::string_view body) : rest_(body) {}

  Graph Read() {
    for (uint64_t count = Count(); count > 0; --count) ReadOp();
    for (uint64_t count = Count(); count > 0; --count) {
      locations_.push_back(InternLocationText(Text()));
    }
    Graph graph = ReadGraph(0);
    if (!rest_.empty()) Fail("{} bytes too many", rest_.size());
    return graph;
  }

 private:
  template <class... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) const {
    Throw(ErrorCode::kParse, "graph bytes: {}", fmt::format(format, std::forward<Args>(args)...));
  }

  void ReadOp() {
    std::string name = Text();
    uint64_t version = Varint();
    const OpDef* op = op_registry::Find(name);
    if (!op) Fail("unknown op '{}'{}", name, OpSuggestion(name));
    if (version > static_cast<uint64_t>(op->version)) {
      Fail("op '{}' has version {}, this library knows {}", name, version, op->version);
    }
    ops_.push_back(op);
  }

  Graph ReadGraph(int depth) {
    if (depth > kMaxGraphDepth) Fail("graphs are nested deeper than {}", kMaxGraphDepth);
    Graph graph;
    for (uint64_t count = Count(); count > 0; --count) {
      std::string name = Text();
      graph.dim_params.push_back({std::move(name), Signed()});
    }
    for (uint64_t count = Count(); count > 0; --count) graph.Append(ReadNode(depth));
    graph.SetOutputs(ReadValues());
    ReadExprs(graph.dim_exprs);
    ReadExprs(graph.attr_exprs);
    return graph;
  }

  GraphNode ReadNode(int depth) {
    GraphNode node;
    node.op = ops_[Bounded(ops_.size(), "an op")];
    node.inputs = ReadValues();
    for (uint64_t count = Count(); count > 0; --count) node.attrs.push_back(ReadAttr(depth));
    for (uint64_t count = Count(); count > 0; --count) node.types.push_back(ReadType());
    uint64_t location = Bounded(locations_.size() + 1, "a location");
    if (location > 0) node.location = locations_[location - 1];
    return node;
  }

  Attr ReadAttr(int depth) {
    uint8_t kind = Byte();
    if (kind > static_cast<uint8_t>(Attr::Kind::kStrings)) Fail("unknown attribute kind {}", kind);
    switch (static_cast<Attr::Kind>(kind)) {
      case Attr::Kind::kNone:
        return Attr();
      case Attr::Kind::kScalar:
        return Attr(ReadScalar());
      case Attr::Kind::kDType:
        return Attr(ReadDType());
      case Attr::Kind::kString:
        return Attr(Text());
      case Attr::Kind::kInts:
        return Attr(ReadList<int64_t>([&] { return Signed(); }));
      case Attr::Kind::kFloats:
        return Attr(ReadList<double>([&] { return std::bit_cast<double>(Fixed<uint64_t>()); }));
      case Attr::Kind::kGraph:
        return Attr(std::make_shared<const Graph>(ReadGraph(depth + 1)));
      case Attr::Kind::kStrings:
        return Attr(ReadList<std::string>([&] { return Text(); }));
    }
    Fail("unknown attribute kind {}", kind);
  }

  template <class T, class F>
  std::vector<T> ReadList(F item) {
    std::vector<T> items;
    for (uint64_t count = Count(); count > 0; --count) items.push_back(item());
    return items;
  }

  Scalar ReadScalar() {
    DType dtype = ReadDType();
    if (!InfoOf(dtype).supported) Fail("a scalar of the reserved dtype {}", NameOf(dtype));
    Scalar scalar = Scalar::FromBits(dtype, Fixed<uint64_t>());
    // Only the form that a value of the dtype has, so that equal values have equal bits.
    char element[8];
    scalar.Store(element);
    if (Scalar::Load(dtype, element) != scalar) Fail("bits that are no {}", NameOf(dtype));
    return scalar;
  }

  DType ReadDType() {
    uint8_t dtype = Byte();
    if (dtype >= kNumDTypes) Fail("unknown dtype {}", dtype);
    return static_cast<DType>(dtype);
  }

  Shape ReadType() {
    DType dtype = ReadDType();
    Dims sizes;
    for (uint64_t rank = Bounded(kMaxRank + 1, "a rank"); rank > 0; --rank) {
      sizes.push_back(Signed());
    }
    CheckSizes("type", sizes);
    return Shape(dtype, sizes);
  }

  std::vector<GraphValue> ReadValues() {
    return ReadList<GraphValue>([&] {
      NodeId node = Small();
      return GraphValue{node, Small()};
    });
  }

  void ReadExprs(std::map<std::tuple<NodeId, int, int>, DimExpr>& exprs) {
    for (uint64_t count = Count(); count > 0; --count) {
      NodeId node = Small();
      int which = Small();
      int position = Small();
      DimExpr expr;
      expr.constant = Signed();
      expr.terms = ReadList<std::pair<int, int64_t>>([&] {
        int parameter = Small();
        return std::pair(parameter, Signed());
      });
      if (!exprs.emplace(std::tuple(node, which, position), std::move(expr)).second) {
        Fail("a second dim expression for %{}", node);
      }
    }
  }

  uint8_t Byte() {
    if (rest_.empty()) Fail("they end too early");
    auto byte = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return byte;
  }
  template <class T>
  T Fixed() {
    if (rest_.size() < sizeof(T)) Fail("they end too early");
    T value = ReadFixed<T>(rest_);
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      uint8_t byte = Byte();
      if (shift == 63 && byte > 1) break;
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    Fail("an integer that does not fit 64 bits");
  }
  int64_t Signed() {
    uint64_t value = Varint();
    return static_cast<int64_t>(value >> 1 ^ (0 - (value & 1)));
  }
  int32_t Small() {
    int64_t value = Signed();
    if (value != static_cast<int32_t>(value)) Fail("{} where a small number is needed", value);
    return static_cast<int32_t>(value);
  }
  // How many items follow; each takes at least a byte.
  uint64_t Count() {
    uint64_t count = Varint();
    if (count > rest_.size()) Fail("{} items announced, {} bytes left", count, rest_.size());
    return count;
  }
  uint64_t Bounded(uint64_t limit, const char* what) {
    uint64_t value = Varint();
    if (value >= limit) Fail("{} {} of {}", what, value, limit);
    return value;
  }
  std::string Text() {
    uint64_t size = Count();
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }

  std::string_view rest_;
  std::vector<const OpDef*> ops_;
  std::vector<LocationId> locations_;
};

std::string_view CheckedBody(std::string_view bytes) {
  if (bytes.size() < kHeaderSize + kChecksumSize || !bytes.starts_with(kMagic)) {
    Throw(ErrorCode::kParse, "graph bytes: no serialised graph ({} bytes)", bytes.size());
  }
  auto version = ReadFixed<uint32_t>(bytes.substr(kMagic.size()));
  if (version > kFormatVersion) {
    Throw(ErrorCode::kParse, "graph bytes: format version {}, this library reads up to {}", version,
          kFormatVersion);
  }
  std::string_view checked = bytes.substr(0, bytes.size() - kChecksumSize);
  if (Checksum(checked) != ReadFixed<uint64_t>(bytes.substr(checked.size()))) {
    Throw(ErrorCode::kParse, "graph bytes: damaged: the checksum does not match");
  }
  return checked.substr(kHeaderSize);
}

}  // namespace

std::string Serialize(const Graph& graph) { return GraphWriter().Write(graph); }

Graph DeserializeGraph(std::string_view bytes) {
  std::string_view body = CheckedBody(bytes);
  try {
    Graph graph = GraphReader(body).Read();
    Verify(graph);
    return graph;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kParse) throw;
    Throw(ErrorCode::kParse, "graph bytes: {}", error.message());
  }
}

}  // namespace hammock
