#include "vmap/map_trace.h"

#include "base/throw.h"
#include "ir/primitives.h"
#include "trace/record.h"
#include "trace/tensor_impl.h"

namespace hammock {

MapTrace::MapTrace(int64_t size, Randomness randomness, std::vector<NodePtr>& samples)
    : samples_(samples),
      size_(size),
      randomness_(randomness),
      outer_(std::exchange(Context().mapping, this)) {}

void MapTrace::Leave(const std::vector<NodePtr>& arguments) {
  if (!std::exchange(entered_, false)) return;
  Context().mapping = outer_;
  for (MapTrace* trace = this; trace; trace = trace->outer_) {
    for (const NodePtr& node : arguments) {
      if (node) trace->samples_.push_back(node);
    }
  }
}

MapTrace::~MapTrace() {
  Leave();
  // Nodes that do not depend on this function's samples may depend on those of the function around
  // it.
  if (outer_) outer_->histories_.merge(histories_);
}

const NodeHistory* MapTrace::HistoryOf(const Node* node) const {
  auto found = histories_.find(node);
  return found == histories_.end() ? nullptr : &found->second;
}

uint64_t MapTrace::StrideOf(const Node& node) const {
  if (&node.op() != &ops::kRngState) return 0;
  const auto seed = static_cast<uint64_t>(node.attrs()[0].integer());
  const auto offset = static_cast<uint64_t>(node.attrs()[1].integer());
  for (const Draw& draw : draws_) {
    if (draw.seed == seed && draw.offset == offset) return draw.stride;
  }
  return 0;
}

void NoteHistory(MapTrace& trace, const Node& node, const Operands& operands) {
  if (Context().symbolic > 0) return;  // bodies of loops
  NodeHistory history{NodePtr(const_cast<Node*>(&node)), {}};
  for (size_t i = 0; i < operands.size(); ++i) history.tapes.push_back(operands.tape(i));
  trace.histories_.insert_or_assign(&node, std::move(history));
}

void NoteCustom(MapTrace& trace, CustomCall call) {
  auto shared = std::make_shared<const CustomCall>(std::move(call));
  for (MapTrace* at = &trace; at; at = at->outer_) at->customs_.push_back(shared);
}

uint64_t RandomCopies() {
  uint64_t copies = 1;
  for (const MapTrace* trace = Context().mapping; trace; trace = trace->outer_) {
    if (trace->randomness_ == Randomness::kError) {
      Throw(ErrorCode::kValue,
            "vmap: the function draws random numbers; say whether samples draw different ones or "
            "the same (randomness: different or same)");
    }
    if (trace->randomness_ == Randomness::kDifferent) copies *= static_cast<uint64_t>(trace->size_);
  }
  return copies;
}

void NoteDraw(MapTrace& trace, const RandomDraw& draw, uint64_t blocks) {
  uint64_t stride = blocks;
  for (MapTrace* at = &trace; at; at = at->outer_) {
    if (at->randomness_ != Randomness::kDifferent) continue;
    at->draws_.push_back({draw.seed, draw.offset, stride});
    stride *= static_cast<uint64_t>(at->size_);
  }
}

}  // namespace hammock
