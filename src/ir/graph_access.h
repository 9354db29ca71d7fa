#pragma once
/// What the files of this folder share about attributes and graphs.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/ir/attr.h"
#include "hammock/ir/graph.h"

namespace hammock {

/// Length and bytes, padded to whole words.
void AppendStringWords(std::vector<uint64_t>& out, std::string_view text);
/// Everything that equality of graphs looks at, so that equal words mean equal graphs.
void AppendGraphWords(std::vector<uint64_t>& out, const Graph& graph);
Hash128 HashWords(const std::vector<uint64_t>& words);

/// An attribute's text; of a graph attribute only its lines, see PrintGraph for the block form.
void AppendAttr(std::string& out, const Attr& attr);

/// Graphs within graphs deeper than this are refused by both readers.
inline constexpr int kMaxGraphDepth = 64;

/// The record of graph parameters, the one op whose type no inference gives.
const OpDef& InputOp();
const OpDef& ConstantOp();
/// Whether a name may stand for a dim parameter in text: an identifier that means nothing else.
bool IsDimName(std::string_view name);

}  // namespace hammock
