// The binary form of a graph. Note [Graph bytes]
//
// "HAMMOCKG", the format's version (u32), a body, and a 64-bit checksum of everything before it;
// all as base/bytes.h writes them. The body lists the ops
// (name and record version) and locations that are used, then the graph; nested graphs stand
// inline. Version 2 has the origin of each node behind its location. Nodes of an older version are
// upgraded by their record. A reader trusts nothing: counts are bounded by the bytes that are left,
// and what was read is verified.

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <unordered_map>

#include "base/bytes.h"
#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/ir/graph.h"
#include "ir/graph_access.h"
#include "ir/id_format.h"
#include "ir/op_registry.h"

namespace hammock {
namespace {

constexpr std::string_view kMagic = "HAMMOCKG";
constexpr uint32_t kFormatVersion = 1;
constexpr uint32_t kWithOrigins = 2;
constexpr size_t kHeaderSize = 12;
constexpr size_t kChecksumSize = 8;

uint64_t Checksum(std::string_view bytes) { return HashString(bytes).lo; }

class GraphWriter {
 public:
  explicit GraphWriter(const SerializeOptions& options) : options_(options) {}

  std::string Write(const Graph& graph) {
    WriteGraph(graph);
    std::string body = out_.Take();
    out_.Raw(kMagic);
    out_.Fixed(options_.origins ? kWithOrigins : kFormatVersion);
    out_.Count(ops_.size());
    for (const OpDef* op : ops_) {
      out_.Text(op->info().name);
      out_.Count(static_cast<uint64_t>(op->version));
    }
    out_.Count(locations_.size());
    for (LocationId location : locations_) out_.Text(LocationRecord(location));
    out_.Raw(body);
    out_.Fixed(Checksum(out_.bytes()));
    return out_.Take();
  }

 private:
  void WriteGraph(const Graph& graph) {
    out_.Count(graph.dim_params.size());
    for (const DimParam& param : graph.dim_params) {
      out_.Text(param.name);
      out_.Signed(param.value);
    }
    out_.Count(graph.nodes().size());
    for (const GraphNode& node : graph.nodes()) WriteNode(node);
    WriteValues(graph.outputs());
    WriteExprs(graph.dim_exprs);
    WriteExprs(graph.attr_exprs);
  }

  void WriteNode(const GraphNode& node) {
    out_.Count(Index(node.op, ops_, op_index_));
    WriteValues(node.inputs);
    out_.Count(node.attrs.size());
    for (const Attr& attr : node.attrs) WriteAttr(attr);
    out_.Count(node.types.size());
    for (const Shape& type : node.types) WriteType(type);
    bool located = options_.locations && node.location != 0;
    out_.Count(located ? 1 + Index(node.location, locations_, location_index_) : 0);
    if (options_.origins) out_.Signed(node.origin.number());
  }

  void WriteAttr(const Attr& attr) {
    out_.Byte(static_cast<uint8_t>(attr.kind()));
    switch (attr.kind()) {
      case Attr::Kind::kNone:
        return;
      case Attr::Kind::kScalar:
        out_.Byte(static_cast<uint8_t>(attr.scalar().dtype()));
        out_.Fixed(attr.scalar().bits());
        if (attr.scalar().IsComplex()) out_.Fixed(attr.scalar().imag_bits());
        return;
      case Attr::Kind::kDType:
        out_.Byte(static_cast<uint8_t>(attr.dtype()));
        return;
      case Attr::Kind::kString:
        return out_.Text(attr.str());
      case Attr::Kind::kInts:
        out_.Count(attr.ints().size());
        for (int64_t value : attr.ints()) out_.Signed(value);
        return;
      case Attr::Kind::kFloats:
        out_.Count(attr.floats().size());
        for (double value : attr.floats()) out_.Fixed(std::bit_cast<uint64_t>(value));
        return;
      case Attr::Kind::kGraph:
        return WriteGraph(attr.graph());
      case Attr::Kind::kStrings:
        out_.Count(attr.strings().size());
        for (const std::string& value : attr.strings()) out_.Text(value);
        return;
    }
  }

  void WriteType(const Shape& type) {
    out_.Byte(static_cast<uint8_t>(type.dtype()));
    out_.Count(static_cast<uint64_t>(type.rank()));
    for (int64_t size : type.sizes()) out_.Signed(size);
  }

  void WriteValues(std::span<const GraphValue> values) {
    out_.Count(values.size());
    for (GraphValue value : values) {
      out_.Signed(value.node.number());
      out_.Signed(value.index);
    }
  }

  void WriteExprs(const std::map<std::tuple<NodeId, int, int>, DimExpr>& exprs) {
    out_.Count(exprs.size());
    for (const auto& [key, expr] : exprs) {
      out_.Signed(std::get<0>(key).number());
      out_.Signed(std::get<1>(key));
      out_.Signed(std::get<2>(key));
      out_.Signed(expr.constant);
      out_.Count(expr.terms.size());
      for (auto [parameter, coefficient] : expr.terms) {
        out_.Signed(parameter);
        out_.Signed(coefficient);
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

  const SerializeOptions options_;
  ByteWriter out_;
  std::vector<const OpDef*> ops_;
  std::unordered_map<const OpDef*, uint64_t> op_index_;
  std::vector<LocationId> locations_;
  std::unordered_map<LocationId, uint64_t> location_index_;
};

class GraphReader {
 public:
  GraphReader(std::string_view body, bool origins) : in_("graph bytes", body), origins_(origins) {}

  Graph Read() {
    for (uint64_t count = in_.Count(); count > 0; --count) ReadOp();
    for (uint64_t count = in_.Count(); count > 0; --count) {
      locations_.push_back(InternLocationRecord(in_.Text()));
    }
    Graph graph = ReadGraph(0);
    in_.ExpectEnd();
    return graph;
  }

 private:
  void ReadOp() {
    std::string name = in_.Text();
    uint64_t version = in_.Varint();
    const OpDef* op = op_registry::Find(name);
    if (!op) in_.Fail("unknown op '{}'{}", name, OpSuggestion(name));
    if (version > static_cast<uint64_t>(op->version)) {
      in_.Fail("op '{}' has version {}, this library knows {}", name, version, op->version);
    }
    if (version < static_cast<uint64_t>(op->version) && !op->upgrade) {
      in_.Fail("op '{}' has version {}, this library has {} and cannot upgrade it", name, version,
               op->version);
    }
    ops_.push_back({op, static_cast<int>(version)});
  }

  Graph ReadGraph(int depth) {
    if (depth > kMaxGraphDepth) in_.Fail("graphs are nested deeper than {}", kMaxGraphDepth);
    Graph graph;
    for (uint64_t count = in_.Count(); count > 0; --count) {
      std::string name = in_.Text();
      graph.dim_params.push_back({std::move(name), in_.Signed()});
    }
    for (uint64_t count = in_.Count(); count > 0; --count) graph.Append(ReadNode(depth));
    graph.SetOutputs(ReadValues());
    ReadExprs(graph.dim_exprs);
    ReadExprs(graph.attr_exprs);
    return graph;
  }

  GraphNode ReadNode(int depth) {
    GraphNode node;
    const SavedOp& saved = ops_[in_.Bounded(ops_.size(), "an op")];
    node.op = saved.op;
    node.inputs = ReadValues();
    std::vector<Attr> attrs;
    for (uint64_t count = in_.Count(); count > 0; --count) attrs.push_back(ReadAttr(depth));
    node.attrs = attrs;
    std::vector<Shape> types;
    for (uint64_t count = in_.Count(); count > 0; --count) types.push_back(ReadType());
    node.types = types;
    uint64_t location = in_.Bounded(locations_.size() + 1, "a location");
    if (location > 0) node.location = locations_[location - 1];
    if (origins_) node.origin = NodeId(in_.Small());
    if (saved.version < node.op->version) node.op->upgrade(saved.version, node);
    return node;
  }

  Attr ReadAttr(int depth) {
    uint8_t kind = in_.Byte();
    if (kind > static_cast<uint8_t>(Attr::Kind::kStrings))
      in_.Fail("unknown attribute kind {}", kind);
    switch (static_cast<Attr::Kind>(kind)) {
      case Attr::Kind::kNone:
        return Attr();
      case Attr::Kind::kScalar:
        return Attr(ReadScalar());
      case Attr::Kind::kDType:
        return Attr(ReadDType());
      case Attr::Kind::kString:
        return Attr(in_.Text());
      case Attr::Kind::kInts:
        return Attr(ReadList<int64_t>([&] { return in_.Signed(); }));
      case Attr::Kind::kFloats:
        return Attr(ReadList<double>([&] { return std::bit_cast<double>(in_.Fixed<uint64_t>()); }));
      case Attr::Kind::kGraph:
        return Attr(std::make_shared<const Graph>(ReadGraph(depth + 1)));
      case Attr::Kind::kStrings:
        return Attr(ReadList<std::string>([&] { return in_.Text(); }));
    }
    in_.Fail("unknown attribute kind {}", kind);
  }

  template <class T, class F>
  std::vector<T> ReadList(F item) {
    std::vector<T> items;
    for (uint64_t count = in_.Count(); count > 0; --count) items.push_back(item());
    return items;
  }

  Scalar ReadScalar() {
    DType dtype = ReadDType();
    const uint64_t bits = in_.Fixed<uint64_t>();
    Scalar scalar = Scalar::FromBits(dtype, bits, IsComplex(dtype) ? in_.Fixed<uint64_t>() : 0);
    // Only the form that a value of the dtype has, so that equal values have equal bits.
    char element[Scalar::kMaxBytes];
    scalar.Store(element);
    if (Scalar::Load(dtype, element) != scalar) in_.Fail("bits that are no {}", NameOf(dtype));
    return scalar;
  }

  DType ReadDType() {
    uint8_t dtype = in_.Byte();
    if (dtype >= kNumDTypes) in_.Fail("unknown dtype {}", dtype);
    return static_cast<DType>(dtype);
  }

  Shape ReadType() {
    DType dtype = ReadDType();
    Dims sizes;
    for (uint64_t rank = in_.Bounded(kMaxRank + 1, "a rank"); rank > 0; --rank) {
      sizes.push_back(in_.Signed());
    }
    CheckSizes("type", sizes);
    return Shape(dtype, sizes);
  }

  std::vector<GraphValue> ReadValues() {
    return ReadList<GraphValue>([&] {
      NodeId node(in_.Small());
      return GraphValue{node, in_.Small()};
    });
  }

  void ReadExprs(std::map<std::tuple<NodeId, int, int>, DimExpr>& exprs) {
    for (uint64_t count = in_.Count(); count > 0; --count) {
      NodeId node(in_.Small());
      int which = in_.Small();
      int position = in_.Small();
      DimExpr expr;
      expr.constant = in_.Signed();
      expr.terms = ReadList<std::pair<int, int64_t>>([&] {
        int parameter = in_.Small();
        return std::pair(parameter, in_.Signed());
      });
      if (!exprs.emplace(std::tuple(node, which, position), std::move(expr)).second) {
        in_.Fail("a second dim expression for %{}", node);
      }
    }
  }

  struct SavedOp {
    const OpDef* op;
    int version;
  };

  ByteReader in_;
  const bool origins_;
  std::vector<SavedOp> ops_;
  std::vector<LocationId> locations_;
};

struct CheckedBytes {
  uint32_t version;
  std::string_view body;
};

CheckedBytes Check(std::string_view bytes) {
  if (bytes.size() < kHeaderSize + kChecksumSize || !bytes.starts_with(kMagic)) {
    Throw(ErrorCode::kParse, "graph bytes: no serialised graph ({} bytes)", bytes.size());
  }
  auto version = ByteReader("graph bytes", bytes.substr(kMagic.size())).Fixed<uint32_t>();
  if (version > kWithOrigins) {
    Throw(ErrorCode::kParse, "graph bytes: format version {}, this library reads up to {}", version,
          kWithOrigins);
  }
  std::string_view checked = bytes.substr(0, bytes.size() - kChecksumSize);
  ByteReader checksum("graph bytes", bytes.substr(checked.size()));
  if (Checksum(checked) != checksum.Fixed<uint64_t>()) {
    Throw(ErrorCode::kParse, "graph bytes: damaged: the checksum does not match");
  }
  return {version, checked.substr(kHeaderSize)};
}

}  // namespace

std::string Serialize(const Graph& graph, const SerializeOptions& options) {
  return GraphWriter(options).Write(graph);
}

Graph DeserializeGraph(std::string_view bytes) {
  const CheckedBytes checked = Check(bytes);
  try {
    Graph graph = GraphReader(checked.body, checked.version == kWithOrigins).Read();
    Verify(graph);
    return graph;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kParse) throw;
    Throw(ErrorCode::kParse, "graph bytes: {}", error.message());
  }
}

}  // namespace hammock
