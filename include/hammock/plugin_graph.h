/* The binary form of a graph that plug-ins receive, and a reader of it. C11 and C++, header only.
 *
 *   HammockGraph graph;
 *   if (!hammock_graph_open(compilation->graph, &graph)) ...           damaged, or newer
 *   for (uint32_t i = 0; i < hammock_node_count(&graph); ++i) {
 *     HammockNode node = hammock_node(&graph, i);                      in topological order
 *     if (strcmp(node.op, "dot_general") == 0) {
 *       HammockAttr dims = hammock_attr(&node, "a_contract");
 *       ...  dims.ints[0] ... hammock_operand(&node, 0).node ... hammock_result_type(&node, 0)
 *     }
 *   }
 *
 * The form. Little-endian, aligned to 8: a header with a section for each kind of record; a section
 * is an array of `count` records, `stride` bytes apart, `offset` bytes from the header. Records
 * refer to others by index. Texts end in a zero byte that their size does not count. A body of a
 * loop or branch is a graph of its own inside. Within a major version records and the header grow
 * at their ends only. `hammock_graph_open` checks every index, so the other functions need not.
 *
 * What ops and attributes mean is in share/doc/hammock/primitives.h; `hammock ops NAME` shows one.
 */
#ifndef HAMMOCK_PLUGIN_GRAPH_H_
#define HAMMOCK_PLUGIN_GRAPH_H_

#include "hammock/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HAMMOCK_GRAPH_MAGIC "HMKGRAPH"
#define HAMMOCK_GRAPH_VERSION 1
#define HAMMOCK_GRAPH_MOST_DEPTH 64

/* ---- Records */

typedef struct HammockSection {
  uint64_t offset;
  uint32_t count;
  uint32_t stride;
} HammockSection;

typedef struct HammockGraphHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_size;
  uint64_t size; /* of all, bodies included */
  HammockSection texts, ops, nodes, values, types, sizes, attrs, ints, floats, graphs;
  HammockSection inputs, outputs, dim_params, dim_exprs, attr_exprs, terms;
} HammockGraphHeader;

typedef struct HammockSpanRecord { /* of texts and graphs: bytes from the header */
  uint64_t offset;
  uint64_t size;
} HammockSpanRecord;

enum {
  HAMMOCK_OP_COMPOSITE = 1,   /* has an expansion into other ops */
  HAMMOCK_OP_ELEMENTWISE = 2, /* operands and results have the same sizes */
  HAMMOCK_OP_RANDOM = 4,
  HAMMOCK_OP_ORDERED = 8, /* has effects: neither dropped nor reordered */
  HAMMOCK_OP_CAN_FAIL = 16
};

typedef struct HammockOpRecord {
  uint32_t name;
  uint32_t version;
  uint32_t flags;
  uint32_t reserved;
} HammockOpRecord;

typedef struct HammockNodeRecord {
  uint32_t op;
  uint32_t first_value, value_count;
  uint32_t first_type, type_count;
  uint32_t first_attr, attr_count;
  uint32_t location; /* a text, counted from 1; 0: not known */
  int32_t origin;    /* the traced node that it came from; -1: not known */
  uint32_t place;    /* the location with its modules, in a form of the host's own, as `location` */
} HammockNodeRecord;

typedef struct HammockValue { /* a result of a node */
  int32_t node;               /* -1: an optional operand that is absent */
  int32_t index;
} HammockValue;

typedef struct HammockTypeRecord {
  uint32_t dtype;
  uint32_t rank;
  uint32_t first_size;
  uint32_t reserved;
} HammockTypeRecord;

enum {
  HAMMOCK_ATTR_NONE = 0, /* an optional attribute that is absent */
  HAMMOCK_ATTR_SCALAR = 1,
  HAMMOCK_ATTR_DTYPE = 2,
  HAMMOCK_ATTR_TEXT = 3,
  HAMMOCK_ATTR_INTS = 4,
  HAMMOCK_ATTR_FLOATS = 5,
  HAMMOCK_ATTR_GRAPH = 6,
  HAMMOCK_ATTR_TEXTS = 7
};

typedef struct HammockAttrRecord {
  uint32_t name;
  uint32_t kind;
  uint32_t dtype; /* of a scalar, or the attribute's value */
  uint32_t count; /* of a list */
  uint64_t bits;  /* of a scalar: a double's for floats, else an integer; else the first index */
  uint64_t imag;  /* bits of the imaginary part of a complex scalar */
} HammockAttrRecord;

typedef struct HammockDimParamRecord {
  uint32_t name;
  uint32_t reserved;
  int64_t value;
} HammockDimParamRecord;

/* constant + sum of coefficient * parameter: the size `position` of result `index` of a node, or
 * the element `position` of its attribute `index`. */
typedef struct HammockDimExprRecord {
  int32_t node, index, position;
  uint32_t term_count;
  int64_t constant;
  uint32_t first_term;
  uint32_t reserved;
} HammockDimExprRecord;

typedef struct HammockTermRecord {
  int32_t parameter;
  uint32_t reserved;
  int64_t coefficient;
} HammockTermRecord;

/* ---- Reading */

typedef struct HammockGraph {
  const char* base;
  const HammockGraphHeader* header;
} HammockGraph;

typedef struct HammockNode {
  const HammockGraph* graph;
  const HammockNodeRecord* record;
  const char* op;       /* "dot_general" */
  uint32_t op_version;  /* grows when the op's meaning or attributes change */
  uint32_t flags;       /* HAMMOCK_OP_... */
  const char* location; /* "model.cpp:12", or null */
} HammockNode;

/* An attribute; of the members that of its kind is set. */
typedef struct HammockAttr {
  const char* name; /* null: there is no such attribute */
  uint32_t kind;
  uint32_t dtype; /* of a scalar, or the value of HAMMOCK_ATTR_DTYPE */
  double real;    /* of a scalar of any dtype, as near as a double comes */
  double imag;
  int64_t integer;  /* of a scalar: of an integer or bool itself, else `real` truncated */
  const char* text; /* of HAMMOCK_ATTR_TEXT */
  uint64_t count;   /* of a list, or the bytes of a text */
  const int64_t* ints;
  const double* floats;
  HammockGraph body; /* of HAMMOCK_ATTR_GRAPH */
} HammockAttr;

static inline const void* hammock_record(const HammockGraph* graph, HammockSection section,
                                         uint64_t index) {
  return graph->base + section.offset + index * section.stride;
}

static inline const char* hammock_text(const HammockGraph* graph, uint64_t index) {
  return graph->base +
         ((const HammockSpanRecord*)hammock_record(graph, graph->header->texts, index))->offset;
}

static inline uint32_t hammock_node_count(const HammockGraph* graph) {
  return graph->header->nodes.count;
}

static inline uint32_t hammock_input_count(const HammockGraph* graph) {
  return graph->header->inputs.count;
}

/* The node of a parameter. */
static inline int32_t hammock_input(const HammockGraph* graph, uint32_t index) {
  return *(const int32_t*)hammock_record(graph, graph->header->inputs, index);
}

static inline uint32_t hammock_output_count(const HammockGraph* graph) {
  return graph->header->outputs.count;
}

static inline HammockValue hammock_output(const HammockGraph* graph, uint32_t index) {
  return *(const HammockValue*)hammock_record(graph, graph->header->outputs, index);
}

static inline HammockNode hammock_node(const HammockGraph* graph, uint32_t index) {
  HammockNode node;
  const HammockOpRecord* op;
  node.graph = graph;
  node.record = (const HammockNodeRecord*)hammock_record(graph, graph->header->nodes, index);
  op = (const HammockOpRecord*)hammock_record(graph, graph->header->ops, node.record->op);
  node.op = hammock_text(graph, op->name);
  node.op_version = op->version;
  node.flags = op->flags;
  node.location = node.record->location ? hammock_text(graph, node.record->location - 1) : NULL;
  return node;
}

static inline HammockValue hammock_operand(const HammockNode* node, uint32_t index) {
  return *(const HammockValue*)hammock_record(node->graph, node->graph->header->values,
                                              (uint64_t)node->record->first_value + index);
}

static inline HammockShape hammock_result_type(const HammockNode* node, uint32_t index) {
  HammockShape shape;
  const HammockTypeRecord* type = (const HammockTypeRecord*)hammock_record(
      node->graph, node->graph->header->types, (uint64_t)node->record->first_type + index);
  shape.dtype = type->dtype;
  shape.rank = type->rank;
  shape.sizes =
      (const int64_t*)hammock_record(node->graph, node->graph->header->sizes, type->first_size);
  return shape;
}

static inline HammockShape hammock_type(const HammockGraph* graph, HammockValue value) {
  HammockNode node = hammock_node(graph, (uint32_t)value.node);
  return hammock_result_type(&node, (uint32_t)value.index);
}

static inline HammockAttr hammock_attr_at(const HammockNode* node, uint32_t index) {
  const HammockGraph* graph = node->graph;
  const HammockAttrRecord* record = (const HammockAttrRecord*)hammock_record(
      graph, graph->header->attrs, (uint64_t)node->record->first_attr + index);
  HammockAttr attr;
  memset(&attr, 0, sizeof(attr));
  attr.name = hammock_text(graph, record->name);
  attr.kind = record->kind;
  attr.dtype = record->dtype;
  attr.count = record->count;
  switch (record->kind) {
    case HAMMOCK_ATTR_SCALAR:
      memcpy(&attr.imag, &record->imag, sizeof(attr.imag));
      if (hammock_is_float(record->dtype)) {
        memcpy(&attr.real, &record->bits, sizeof(attr.real));
        attr.integer =
            attr.real > -9.2e18 && attr.real < 9.2e18 ? (int64_t)attr.real : attr.integer;
      } else {
        attr.integer = (int64_t)record->bits;
        attr.real = record->dtype == HAMMOCK_U64 ? (double)record->bits : (double)attr.integer;
      }
      break;
    case HAMMOCK_ATTR_TEXT:
      attr.text = hammock_text(graph, record->bits);
      attr.count =
          ((const HammockSpanRecord*)hammock_record(graph, graph->header->texts, record->bits))
              ->size;
      break;
    case HAMMOCK_ATTR_INTS:
      attr.ints = (const int64_t*)hammock_record(graph, graph->header->ints, record->bits);
      break;
    case HAMMOCK_ATTR_FLOATS:
      attr.floats = (const double*)hammock_record(graph, graph->header->floats, record->bits);
      break;
    case HAMMOCK_ATTR_GRAPH: {
      const HammockSpanRecord* body =
          (const HammockSpanRecord*)hammock_record(graph, graph->header->graphs, record->bits);
      attr.body.base = graph->base + body->offset;
      attr.body.header = (const HammockGraphHeader*)attr.body.base;
      break;
    }
    default:
      break;
  }
  return attr;
}

/* By name; one without a name where there is none. */
static inline HammockAttr hammock_attr(const HammockNode* node, const char* name) {
  HammockAttr attr;
  uint32_t i;
  for (i = 0; i < node->record->attr_count; ++i) {
    attr = hammock_attr_at(node, i);
    if (strcmp(attr.name, name) == 0) return attr;
  }
  memset(&attr, 0, sizeof(attr));
  return attr;
}

/* An element of HAMMOCK_ATTR_TEXTS. */
static inline const char* hammock_attr_text(const HammockNode* node, uint32_t attr,
                                            uint64_t index) {
  const HammockAttrRecord* record = (const HammockAttrRecord*)hammock_record(
      node->graph, node->graph->header->attrs, (uint64_t)node->record->first_attr + attr);
  return hammock_text(
      node->graph, (uint64_t) * (const int64_t*)hammock_record(
                                    node->graph, node->graph->header->ints, record->bits + index));
}

/* ---- Checking */

static inline int hammock_graph_has(HammockSection section, uint64_t first, uint64_t count) {
  return first <= section.count && count <= section.count - first;
}

static inline int hammock_graph_check_section(const HammockGraphHeader* header,
                                              HammockSection section, uint32_t least_stride) {
  if (section.stride < least_stride || section.stride % 4 != 0 || section.offset % 8 != 0) return 0;
  if (least_stride % 8 == 0 && section.stride % 8 != 0) return 0;
  if (section.offset < header->header_size || section.offset > header->size) return 0;
  return section.count <= (header->size - section.offset) / section.stride;
}

static inline int hammock_graph_check_value(const HammockGraph* graph, HammockValue value,
                                            int absent_allowed) {
  const HammockNodeRecord* node;
  if (value.node == -1) return absent_allowed;
  if (value.node < 0 || (uint32_t)value.node >= graph->header->nodes.count) return 0;
  node =
      (const HammockNodeRecord*)hammock_record(graph, graph->header->nodes, (uint64_t)value.node);
  return value.index >= 0 && (uint32_t)value.index < node->type_count;
}

static inline int hammock_graph_check_span(const HammockGraphHeader* header,
                                           const HammockSpanRecord* span) {
  return span->offset >= header->header_size && span->offset <= header->size &&
         span->size <= header->size - span->offset;
}

static inline int hammock_graph_check_attr(const HammockGraph* graph,
                                           const HammockAttrRecord* attr) {
  const HammockGraphHeader* h = graph->header;
  uint64_t i;
  if (attr->name >= h->texts.count) return 0;
  switch (attr->kind) {
    case HAMMOCK_ATTR_TEXT:
      return attr->bits < h->texts.count;
    case HAMMOCK_ATTR_INTS:
      return hammock_graph_has(h->ints, attr->bits, attr->count);
    case HAMMOCK_ATTR_FLOATS:
      return hammock_graph_has(h->floats, attr->bits, attr->count);
    case HAMMOCK_ATTR_GRAPH:
      return attr->bits < h->graphs.count;
    case HAMMOCK_ATTR_TEXTS:
      if (!hammock_graph_has(h->ints, attr->bits, attr->count)) return 0;
      for (i = 0; i < attr->count; ++i) {
        int64_t text = *(const int64_t*)hammock_record(graph, h->ints, attr->bits + i);
        if (text < 0 || (uint64_t)text >= h->texts.count) return 0;
      }
      return 1;
    default:
      return attr->kind <= HAMMOCK_ATTR_TEXTS;
  }
}

static inline int hammock_graph_check_node(const HammockGraph* graph, uint32_t index) {
  const HammockGraphHeader* h = graph->header;
  const HammockNodeRecord* node = (const HammockNodeRecord*)hammock_record(graph, h->nodes, index);
  uint32_t i;
  if (node->op >= h->ops.count || node->location > h->texts.count) return 0;
  if (node->place > h->texts.count) return 0;
  if (!hammock_graph_has(h->values, node->first_value, node->value_count) ||
      !hammock_graph_has(h->types, node->first_type, node->type_count) ||
      !hammock_graph_has(h->attrs, node->first_attr, node->attr_count)) {
    return 0;
  }
  for (i = 0; i < node->value_count; ++i) {
    HammockValue value =
        *(const HammockValue*)hammock_record(graph, h->values, (uint64_t)node->first_value + i);
    if (value.node >= (int32_t)index || !hammock_graph_check_value(graph, value, 1)) return 0;
  }
  for (i = 0; i < node->type_count; ++i) {
    const HammockTypeRecord* type =
        (const HammockTypeRecord*)hammock_record(graph, h->types, (uint64_t)node->first_type + i);
    if (!hammock_graph_has(h->sizes, type->first_size, type->rank)) return 0;
  }
  for (i = 0; i < node->attr_count; ++i) {
    const HammockAttrRecord* attr =
        (const HammockAttrRecord*)hammock_record(graph, h->attrs, (uint64_t)node->first_attr + i);
    if (!hammock_graph_check_attr(graph, attr)) return 0;
  }
  return 1;
}

static inline int hammock_graph_check_exprs(const HammockGraph* graph, HammockSection section) {
  const HammockGraphHeader* h = graph->header;
  uint32_t i, j;
  for (i = 0; i < section.count; ++i) {
    const HammockDimExprRecord* expr =
        (const HammockDimExprRecord*)hammock_record(graph, section, i);
    if (expr->node < 0 || (uint32_t)expr->node >= h->nodes.count) return 0;
    if (!hammock_graph_has(h->terms, expr->first_term, expr->term_count)) return 0;
    for (j = 0; j < expr->term_count; ++j) {
      const HammockTermRecord* term =
          (const HammockTermRecord*)hammock_record(graph, h->terms, (uint64_t)expr->first_term + j);
      if (term->parameter < 0 || (uint32_t)term->parameter >= h->dim_params.count) return 0;
    }
  }
  return 1;
}

static inline int hammock_graph_check(HammockBytes bytes, HammockGraph* graph, int depth) {
  const HammockGraphHeader* h = (const HammockGraphHeader*)bytes.bytes;
  uint32_t i;
  graph->base = (const char*)bytes.bytes;
  graph->header = h;
  if (!h || bytes.size < sizeof(*h) || (uintptr_t)bytes.bytes % 8 != 0) return 0;
  if (memcmp(h->magic, HAMMOCK_GRAPH_MAGIC, 8) != 0 || h->version != HAMMOCK_GRAPH_VERSION)
    return 0;
  if (depth > HAMMOCK_GRAPH_MOST_DEPTH || h->size > bytes.size) return 0;
  if (h->header_size < sizeof(*h) || h->header_size > h->size) return 0;
  if (!hammock_graph_check_section(h, h->texts, sizeof(HammockSpanRecord)) ||
      !hammock_graph_check_section(h, h->ops, sizeof(HammockOpRecord)) ||
      !hammock_graph_check_section(h, h->nodes, sizeof(HammockNodeRecord)) ||
      !hammock_graph_check_section(h, h->values, sizeof(HammockValue)) ||
      !hammock_graph_check_section(h, h->types, sizeof(HammockTypeRecord)) ||
      !hammock_graph_check_section(h, h->sizes, 8) ||
      !hammock_graph_check_section(h, h->attrs, sizeof(HammockAttrRecord)) ||
      !hammock_graph_check_section(h, h->ints, 8) ||
      !hammock_graph_check_section(h, h->floats, 8) ||
      !hammock_graph_check_section(h, h->graphs, sizeof(HammockSpanRecord)) ||
      !hammock_graph_check_section(h, h->inputs, 4) ||
      !hammock_graph_check_section(h, h->outputs, sizeof(HammockValue)) ||
      !hammock_graph_check_section(h, h->dim_params, sizeof(HammockDimParamRecord)) ||
      !hammock_graph_check_section(h, h->dim_exprs, sizeof(HammockDimExprRecord)) ||
      !hammock_graph_check_section(h, h->attr_exprs, sizeof(HammockDimExprRecord)) ||
      !hammock_graph_check_section(h, h->terms, sizeof(HammockTermRecord))) {
    return 0;
  }
  if (h->sizes.stride != 8 || h->ints.stride != 8 || h->floats.stride != 8) return 0; /* arrays */
  for (i = 0; i < h->texts.count; ++i) {
    const HammockSpanRecord* text = (const HammockSpanRecord*)hammock_record(graph, h->texts, i);
    if (!hammock_graph_check_span(h, text) || text->size >= h->size - text->offset) return 0;
    if (graph->base[text->offset + text->size] != 0) return 0;
  }
  for (i = 0; i < h->ops.count; ++i) {
    if (((const HammockOpRecord*)hammock_record(graph, h->ops, i))->name >= h->texts.count)
      return 0;
  }
  for (i = 0; i < h->nodes.count; ++i) {
    if (!hammock_graph_check_node(graph, i)) return 0;
  }
  for (i = 0; i < h->inputs.count; ++i) {
    int32_t node = hammock_input(graph, i);
    if (node < 0 || (uint32_t)node >= h->nodes.count) return 0;
  }
  for (i = 0; i < h->outputs.count; ++i) {
    if (!hammock_graph_check_value(graph, hammock_output(graph, i), 0)) return 0;
  }
  for (i = 0; i < h->dim_params.count; ++i) {
    if (((const HammockDimParamRecord*)hammock_record(graph, h->dim_params, i))->name >=
        h->texts.count) {
      return 0;
    }
  }
  if (!hammock_graph_check_exprs(graph, h->dim_exprs) ||
      !hammock_graph_check_exprs(graph, h->attr_exprs)) {
    return 0;
  }
  for (i = 0; i < h->graphs.count; ++i) {
    const HammockSpanRecord* span = (const HammockSpanRecord*)hammock_record(graph, h->graphs, i);
    HammockGraph body;
    HammockBytes inner;
    if (!hammock_graph_check_span(h, span) || span->offset % 8 != 0) return 0;
    inner.bytes = graph->base + span->offset;
    inner.size = span->size;
    if (!hammock_graph_check(inner, &body, depth + 1)) return 0;
  }
  return 1;
}

/* 1 where the bytes are a graph of this version, all of whose indices are valid. They must stay
 * where they are while the graph is read. */
static inline int hammock_graph_open(HammockBytes bytes, HammockGraph* graph) {
  return hammock_graph_check(bytes, graph, 0);
}

#ifdef __cplusplus
}
#endif

#endif /* HAMMOCK_PLUGIN_GRAPH_H_ */
