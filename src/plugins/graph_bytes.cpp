#include "plugins/graph_bytes.h"

#include <bit>
#include <cstring>
#include <map>
#include <unordered_map>

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/plugin_graph.h"
#include "ir/op_registry.h"
#include "ir/primitives.h"

namespace hammock::plugins {
namespace {

// ---- Writing

class Writer {
 public:
  std::string Write(const Graph& graph) {
    for (const GraphNode& node : graph.nodes()) AddNode(node);
    for (NodeId input : graph.inputs()) inputs_.push_back(input.number());
    for (GraphValue output : graph.outputs()) outputs_.push_back(ToRecord(output));
    for (const DimParam& param : graph.dim_params) {
      dim_params_.push_back({TextOf(param.name), 0, param.value});
    }
    AddExprs(graph.dim_exprs, dim_exprs_);
    AddExprs(graph.attr_exprs, attr_exprs_);
    return Lay();
  }

 private:
  static HammockValue ToRecord(GraphValue value) { return {value.node.number(), value.index}; }

  uint32_t TextOf(const std::string& text) {
    auto [entry, added] = text_index_.try_emplace(text, static_cast<uint32_t>(texts_.size()));
    if (added) texts_.push_back(text);
    return entry->second;
  }

  uint32_t OpOf(const OpDef& op) {
    auto [entry, added] = op_index_.try_emplace(&op, static_cast<uint32_t>(ops_.size()));
    if (!added) return entry->second;
    uint32_t flags = 0;
    if (op.IsComposite()) flags |= HAMMOCK_OP_COMPOSITE;
    if (op.IsElementwise()) flags |= HAMMOCK_OP_ELEMENTWISE;
    if (op.effect == Effect::kRandom) flags |= HAMMOCK_OP_RANDOM;
    if (op.effect == Effect::kOrdered) flags |= HAMMOCK_OP_ORDERED;
    if (op.can_fail) flags |= HAMMOCK_OP_CAN_FAIL;
    ops_.push_back({TextOf(op.info().name), static_cast<uint32_t>(op.version), flags, 0});
    return entry->second;
  }

  template <class List>
  static uint32_t Count(const List& list) {
    return static_cast<uint32_t>(list.size());
  }

  void AddNode(const GraphNode& node) {
    HammockNodeRecord record = {};
    record.op = OpOf(*node.op);
    record.first_value = Count(values_);
    record.value_count = Count(node.inputs);
    for (GraphValue input : node.inputs) values_.push_back(ToRecord(input));
    record.first_type = Count(types_);
    record.type_count = Count(node.types);
    for (const Shape& type : node.types) AddType(type);
    record.first_attr = Count(attrs_);
    record.attr_count = Count(node.attrs);
    for (size_t i = 0; i < node.attrs.size(); ++i) {
      AddAttr(node.op->info().AttributeName(static_cast<int>(i)), node.attrs[i]);
    }
    if (node.location != 0) {
      record.location = 1 + TextOf(LocationText(node.location));
      record.place = 1 + TextOf(LocationRecord(node.location));
    }
    record.origin = node.origin.number();
    nodes_.push_back(record);
  }

  void AddType(const Shape& type) {
    types_.push_back({static_cast<uint32_t>(type.dtype()), static_cast<uint32_t>(type.rank()),
                      Count(sizes_), 0});
    for (int64_t size : type.sizes()) sizes_.push_back(size);
  }

  void AddAttr(const std::string& name, const Attr& attr) {
    HammockAttrRecord record = {};
    record.name = TextOf(name);
    record.kind = static_cast<uint32_t>(attr.kind());
    switch (attr.kind()) {
      case Attr::Kind::kNone:
        break;
      case Attr::Kind::kScalar:
        record.dtype = static_cast<uint32_t>(attr.scalar().dtype());
        record.bits = attr.scalar().bits();
        record.imag = attr.scalar().imag_bits();
        break;
      case Attr::Kind::kDType:
        record.dtype = static_cast<uint32_t>(attr.dtype());
        break;
      case Attr::Kind::kString:
        record.bits = TextOf(attr.str());
        break;
      case Attr::Kind::kInts:
        record.bits = ints_.size();
        record.count = Count(attr.ints());
        ints_.insert(ints_.end(), attr.ints().begin(), attr.ints().end());
        break;
      case Attr::Kind::kFloats:
        record.bits = floats_.size();
        record.count = Count(attr.floats());
        floats_.insert(floats_.end(), attr.floats().begin(), attr.floats().end());
        break;
      case Attr::Kind::kGraph:
        record.bits = graphs_.size();
        graphs_.push_back(Writer().Write(attr.graph()));
        break;
      case Attr::Kind::kStrings: {
        std::vector<int64_t> indices;
        for (const std::string& text : attr.strings()) indices.push_back(TextOf(text));
        record.bits = ints_.size();
        record.count = Count(indices);
        ints_.insert(ints_.end(), indices.begin(), indices.end());
        break;
      }
    }
    attrs_.push_back(record);
  }

  void AddExprs(const std::map<std::tuple<NodeId, int, int>, DimExpr>& exprs,
                std::vector<HammockDimExprRecord>& records) {
    for (const auto& [key, expr] : exprs) {
      const auto& [node, index, position] = key;
      records.push_back(
          {node.number(), index, position, Count(expr.terms), expr.constant, Count(terms_), 0});
      for (auto [parameter, coefficient] : expr.terms) {
        terms_.push_back({parameter, 0, coefficient});
      }
    }
  }

  template <class T>
  HammockSection Place(const std::vector<T>& records) {
    out_.resize((out_.size() + 7) / 8 * 8);
    HammockSection section = {out_.size(), Count(records), sizeof(T)};
    if (!records.empty()) {
      out_.append(reinterpret_cast<const char*>(records.data()), records.size() * sizeof(T));
    }
    return section;
  }

  /// `texts` end in a zero; `graphs` begin where words do.
  HammockSection PlaceSpans(const std::vector<std::string>& pieces) {
    std::vector<HammockSpanRecord> spans;
    for (const std::string& piece : pieces) {
      out_.resize((out_.size() + 7) / 8 * 8);
      spans.push_back({out_.size(), piece.size()});
      out_.append(piece.c_str(), piece.size() + 1);
    }
    return Place(spans);
  }

  std::string Lay() {
    HammockGraphHeader header = {};
    std::memcpy(header.magic, HAMMOCK_GRAPH_MAGIC, sizeof(header.magic));
    header.version = HAMMOCK_GRAPH_VERSION;
    header.header_size = sizeof(header);
    out_.assign(sizeof(header), '\0');
    header.texts = PlaceSpans(texts_);
    header.ops = Place(ops_);
    header.nodes = Place(nodes_);
    header.values = Place(values_);
    header.types = Place(types_);
    header.sizes = Place(sizes_);
    header.attrs = Place(attrs_);
    header.ints = Place(ints_);
    header.floats = Place(floats_);
    header.graphs = PlaceSpans(graphs_);
    header.inputs = Place(inputs_);
    header.outputs = Place(outputs_);
    header.dim_params = Place(dim_params_);
    header.dim_exprs = Place(dim_exprs_);
    header.attr_exprs = Place(attr_exprs_);
    header.terms = Place(terms_);
    out_.resize((out_.size() + 7) / 8 * 8);
    header.size = out_.size();
    std::memcpy(out_.data(), &header, sizeof(header));
    return std::move(out_);
  }

  std::string out_;
  std::vector<std::string> texts_, graphs_;
  std::unordered_map<std::string, uint32_t> text_index_;
  std::unordered_map<const OpDef*, uint32_t> op_index_;
  std::vector<HammockOpRecord> ops_;
  std::vector<HammockNodeRecord> nodes_;
  std::vector<HammockValue> values_, outputs_;
  std::vector<HammockTypeRecord> types_;
  std::vector<int64_t> sizes_, ints_;
  std::vector<HammockAttrRecord> attrs_;
  std::vector<double> floats_;
  std::vector<int32_t> inputs_;
  std::vector<HammockDimParamRecord> dim_params_;
  std::vector<HammockDimExprRecord> dim_exprs_, attr_exprs_;
  std::vector<HammockTermRecord> terms_;
};

// ---- Reading

template <class... Args>
[[noreturn]] void Fail(fmt::format_string<Args...> format, Args&&... args) {
  Throw(ErrorCode::kParse, "graph of a plug-in: {}",
        fmt::format(format, std::forward<Args>(args)...));
}

DType ReadDType(uint32_t number) {
  if (number >= static_cast<uint32_t>(kNumDTypes)) Fail("unknown dtype {}", number);
  return static_cast<DType>(number);
}

class Reader {
 public:
  /// With `unread`, nodes that cannot be read are listed there and have a stand-in.
  explicit Reader(const HammockGraph& graph, std::map<NodeId, NewerGraph::Unread>* unread = nullptr)
      : graph_(graph), header_(*graph.header), unread_(unread) {}

  Graph Read() {
    Graph graph;
    for (uint32_t i = 0; i < header_.dim_params.count; ++i) {
      const auto& param = At<HammockDimParamRecord>(header_.dim_params, i);
      graph.dim_params.push_back({hammock_text(&graph_, param.name), param.value});
    }
    for (uint32_t i = 0; i < hammock_node_count(&graph_); ++i) {
      graph.Append(ReadOrStandIn(graph, i));
    }
    std::vector<GraphValue> outputs;
    for (uint32_t i = 0; i < hammock_output_count(&graph_); ++i) {
      const GraphValue output = ToValue(hammock_output(&graph_, i));
      if (HasType(graph, output)) outputs.push_back(output);
    }
    graph.SetOutputs(std::move(outputs));
    ReadExprs(header_.dim_exprs, graph.dim_exprs);
    ReadExprs(header_.attr_exprs, graph.attr_exprs);
    return graph;
  }

 private:
  template <class T>
  const T& At(HammockSection section, uint64_t index) const {
    return *static_cast<const T*>(hammock_record(&graph_, section, index));
  }
  static GraphValue ToValue(HammockValue value) { return {NodeId(value.node), value.index}; }

  /// False for results of stand-ins alone.
  static bool HasType(const Graph& graph, GraphValue value) {
    return value.index < static_cast<int32_t>(graph[value.node].types.size());
  }

  GraphNode ReadOrStandIn(const Graph& graph, uint32_t index) {
    const HammockNode from = hammock_node(&graph_, index);
    try {
      GraphNode node = ReadNode(from);
      for (GraphValue input : node.inputs) {
        if (input.node && !HasType(graph, input)) Fail("an operand of '{}' has no type", from.op);
      }
      return node;
    } catch (const Error& error) {
      if (!unread_) throw;
      const bool composite = (from.flags & HAMMOCK_OP_COMPOSITE) != 0;
      unread_->emplace(NodeId(static_cast<int32_t>(index)),
                       NewerGraph::Unread{error.message(), composite});
      return StandIn(from);
    }
  }

  GraphNode StandIn(const HammockNode& from) const {
    GraphNode node;
    try {
      node.types = ReadTypes(from);
    } catch (const Error&) {  // of a newer dtype
    }
    std::vector<std::string> types;
    for (const Shape& type : node.types) types.push_back(type.to_string());
    node.op = &ops::kCustomCall;
    node.attrs = std::vector{Attr(std::string(from.op)), Attr(std::string()), Attr(types)};
    return node;
  }

  static std::vector<Shape> ReadTypes(const HammockNode& from) {
    std::vector<Shape> types;
    for (uint32_t i = 0; i < from.record->type_count; ++i) {
      const HammockShape type = hammock_result_type(&from, i);
      if (type.rank > kMaxRank) Fail("rank {}", type.rank);
      types.emplace_back(ReadDType(type.dtype), Dims(std::span(type.sizes, type.rank)));
    }
    return types;
  }

  GraphNode ReadNode(const HammockNode& from) {
    GraphNode node;
    node.op = op_registry::Find(from.op);
    if (!node.op) Fail("unknown op '{}'{}", from.op, OpSuggestion(from.op));
    const auto version = static_cast<int>(from.op_version);
    if (version > node.op->version || (version < node.op->version && !node.op->upgrade)) {
      Fail("op '{}' has version {}, this library has {}", from.op, version, node.op->version);
    }
    std::vector<GraphValue> inputs;
    for (uint32_t i = 0; i < from.record->value_count; ++i) {
      inputs.push_back(ToValue(hammock_operand(&from, i)));
    }
    node.inputs = inputs;
    node.types = ReadTypes(from);
    std::vector<Attr> attrs;
    for (uint32_t i = 0; i < from.record->attr_count; ++i) attrs.push_back(ReadAttr(from, i));
    node.attrs = attrs;
    if (from.record->place > 0) {
      node.location = InternLocationRecord(hammock_text(&graph_, from.record->place - 1));
    }
    node.origin = NodeId(from.record->origin);
    if (version < node.op->version) node.op->upgrade(version, node);
    return node;
  }

  Attr ReadAttr(const HammockNode& node, uint32_t index) {
    const HammockAttr attr = hammock_attr_at(&node, index);
    const auto& record = At<HammockAttrRecord>(header_.attrs, node.record->first_attr + index);
    switch (attr.kind) {
      case HAMMOCK_ATTR_NONE:
        return Attr();
      case HAMMOCK_ATTR_SCALAR:
        return Attr(Scalar::FromBits(ReadDType(attr.dtype), record.bits, record.imag));
      case HAMMOCK_ATTR_DTYPE:
        return Attr(ReadDType(attr.dtype));
      case HAMMOCK_ATTR_TEXT:
        return Attr(std::string(attr.text, attr.count));
      case HAMMOCK_ATTR_INTS:
        return Attr(std::vector<int64_t>(attr.ints, attr.ints + attr.count));
      case HAMMOCK_ATTR_FLOATS:
        return Attr(std::vector<double>(attr.floats, attr.floats + attr.count));
      case HAMMOCK_ATTR_GRAPH:
        return Attr(std::make_shared<const Graph>(Reader(attr.body).Read()));
      case HAMMOCK_ATTR_TEXTS: {
        std::vector<std::string> texts;
        for (uint64_t i = 0; i < attr.count; ++i) {
          texts.emplace_back(hammock_attr_text(&node, index, i));
        }
        return Attr(std::move(texts));
      }
      default:
        Fail("unknown kind {} of attribute '{}'", attr.kind, attr.name);
    }
  }

  void ReadExprs(HammockSection section, std::map<std::tuple<NodeId, int, int>, DimExpr>& exprs) {
    for (uint32_t i = 0; i < section.count; ++i) {
      const auto& record = At<HammockDimExprRecord>(section, i);
      if (unread_ && unread_->contains(NodeId(record.node))) continue;
      DimExpr expr{record.constant, {}};
      for (uint32_t j = 0; j < record.term_count; ++j) {
        const auto& term = At<HammockTermRecord>(header_.terms, record.first_term + j);
        expr.terms.emplace_back(term.parameter, term.coefficient);
      }
      exprs.emplace(std::tuple(NodeId(record.node), record.index, record.position),
                    std::move(expr));
    }
  }

  const HammockGraph graph_;
  const HammockGraphHeader& header_;
  std::map<NodeId, NewerGraph::Unread>* const unread_;
};

Graph OpenAndRead(HammockBytes bytes, std::map<NodeId, NewerGraph::Unread>* unread) {
  HammockGraph view;
  if (!hammock_graph_open(bytes, &view)) Fail("damaged bytes, or a newer version");
  Graph graph = Reader(view, unread).Read();
  try {
    Verify(graph);
  } catch (const Error& error) {
    Fail("{}", error.message());
  }
  return graph;
}

}  // namespace

GraphBytes::GraphBytes(const Graph& graph) {
  const std::string bytes = Writer().Write(graph);
  size_ = bytes.size();
  words_.resize(bytes.size() / sizeof(uint64_t));
  std::memcpy(words_.data(), bytes.data(), bytes.size());
}

Graph ReadGraph(HammockBytes bytes) { return OpenAndRead(bytes, nullptr); }

NewerGraph ReadNewerGraph(HammockBytes bytes) {
  NewerGraph read;
  read.graph = OpenAndRead(bytes, &read.unread);
  return read;
}

}  // namespace hammock::plugins
