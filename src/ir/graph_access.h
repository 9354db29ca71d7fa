#pragma once
/// Functions on attributes and graphs for the files of this folder.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "hammock/ir/attr.h"
#include "hammock/ir/graph.h"

namespace hammock {

/// Length and bytes, padded to whole words.
void AppendStringWords(std::vector<uint64_t>& out, std::string_view text);
/// Everything that equality of graphs looks at, so that equal words mean equal graphs.
void AppendGraphWords(std::vector<uint64_t>& out, const Graph& graph);

/// An attribute's text; a graph is a block `graph { ... }`, its lines indented by `indent` and two.
void AppendAttr(std::string& out, const Attr& attr, int indent = 0,
                const PrintOptions& options = {});
void AppendGraphBlock(std::string& out, const Graph& graph, int indent,
                      const PrintOptions& options);

/// The integer at a position of an attribute that a dim expression may stand for: an entry of a
/// list of integers, a number that is integral, or one whose inverse is, such as the gradient of a
/// mean.
std::optional<int64_t> SizeInAttr(const Attr& attr, int position);
/// Whether a number that stands for a size is its inverse.
bool IsInverse(const Scalar& number);
/// The number that stands for `size` as `like` stands for another one.
Scalar NumberOfSize(int64_t size, const Scalar& like);
/// `attr` with another size: the number itself, or the one at `position` of a list.
Attr WithSize(const Attr& attr, int position, int64_t size);

/// A broken rule of a graph.
struct GraphFault {
  NodeId node;          ///< the bad node of the graph, or of a nested one; none: the graph itself
  std::string subject;  ///< "%4 = while: body: %1 = neg: ", empty for the graph itself
  std::string what;
};
/// The first fault that Verify would find. Graphs in `checked` are not checked again; this one and
/// those in it are added.
std::optional<GraphFault> FindFault(const Graph& graph, std::unordered_set<const Graph*>& checked);

/// As ParseGraph, for texts whose types need not be right.
Graph ParseGraphUnverified(std::string_view text);

/// Graphs within graphs deeper than this are refused by both readers.
inline constexpr int kMaxGraphDepth = 64;

/// The records of graph parameters and of constants.
const OpDef& InputOp();
const OpDef& ConstantOp();
/// Leaves, whose type the node itself says.
bool TypeIsGiven(const OpDef& op);
/// Whether a name may stand for a dim parameter in text: an identifier that means nothing else.
bool IsDimName(std::string_view name);

}  // namespace hammock
