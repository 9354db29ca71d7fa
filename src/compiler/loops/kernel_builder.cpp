#include "compiler/loops/kernel_builder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/throw.h"
#include "ir/primitives.h"

namespace hammock::compiler {
namespace {

constexpr int kMaxSplits = 32;  // of the loops of one kernel by one nest

}  // namespace

// ---- indices

int64_t KernelBuilder::Affine::of(int loop) const {
  size_t index = static_cast<size_t>(loop);
  return index < coefficients.size() ? coefficients[index] : 0;
}

void KernelBuilder::Affine::Add(int loop, int64_t coefficient) {
  size_t index = static_cast<size_t>(loop);
  if (coefficients.size() <= index) coefficients.resize(index + 1);
  coefficients[index] += coefficient;
}

void KernelBuilder::Affine::Add(const Affine& other, int64_t factor) {
  offset += other.offset * factor;
  for (size_t i = 0; i < other.coefficients.size(); ++i) {
    if (other.coefficients[i] != 0) Add(static_cast<int>(i), other.coefficients[i] * factor);
  }
}

/// The index in row-major memory.
KernelBuilder::Affine KernelBuilder::Flat(const Dims& sizes, const Indices& indices) const {
  Affine flat;
  int64_t stride = 1;
  for (int d = sizes.size(); d-- > 0;) {
    flat.Add(indices[d], stride);
    stride *= sizes[d];
  }
  return flat;
}

bool KernelBuilder::SameAddress(const Affine& a, const Affine& b) const {
  if (a.offset != b.offset) return false;
  for (size_t i = 0; i < loops_.size(); ++i) {
    int loop = static_cast<int>(i);
    if (loops_[i].extent > 1 && a.of(loop) != b.of(loop)) return false;
  }
  return true;
}

// ---- loops

void KernelBuilder::StartLoops(const Dims& sizes) {
  for (int64_t size : sizes) {
    order_.push_back(static_cast<int>(loops_.size()));
    loops_.push_back({size, false});
  }
}

std::vector<int> KernelBuilder::RowOrder() const {
  std::vector<int> rows;
  for (int loop : order_) {
    if (!loops_[loop].column) rows.push_back(loop);
  }
  return rows;
}

/// The index of each dim of a tensor whose elements are visited by these loops in row-major order.
KernelBuilder::Indices KernelBuilder::Match(const Dims& sizes,
                                            const std::vector<int>& order) const {
  Indices indices(static_cast<size_t>(sizes.size()));
  size_t next = 0;
  auto extent = [&] { return loops_[order[next]].extent; };
  auto skip_ones = [&] {
    while (next < order.size() && extent() == 1) ++next;
  };
  for (int d = 0; d < sizes.size(); ++d) {
    std::vector<int> used;
    for (int64_t rest = sizes[d]; rest != 1;) {
      skip_ones();
      if (next == order.size()) throw DoesNotFit();
      if (rest == extent()) {
        rest = 1;
        used.push_back(order[next++]);
      } else if (rest == 0 || extent() == 0) {
        throw DoesNotFit();
      } else if (rest % extent() == 0) {
        rest /= extent();
        used.push_back(order[next++]);
      } else if (extent() % rest == 0) {
        throw NeedsSplit{order[next], extent() / rest};
      } else {
        throw DoesNotFit();
      }
    }
    int64_t coefficient = 1;
    for (size_t i = used.size(); i-- > 0;) {
      indices[d].Add(used[i], coefficient);
      coefficient *= loops_[used[i]].extent;
    }
  }
  skip_ones();
  if (next != order.size()) throw DoesNotFit();
  return indices;
}

void KernelBuilder::SplitLoop(int loop, int64_t inner) {
  int added = static_cast<int>(loops_.size());
  loops_.push_back({inner, loops_[loop].column});
  loops_[loop].extent /= inner;
  order_.insert(std::find(order_.begin(), order_.end(), loop) + 1, added);
  auto split = [&](Affine& index) {
    int64_t coefficient = index.of(loop);
    if (coefficient == 0) return;
    index.Add(added, coefficient);
    index.Add(loop, coefficient * (inner - 1));
  };
  for (BuildAccess& access : accesses_) split(access.address);
  for (Nest& nest : nests_) split(nest.address);
}

/// Makes the loops of an index the columns, or checks that they are.
void KernelBuilder::MarkColumns(const Affine& reduced) {
  for (size_t i = 0; i < loops_.size(); ++i) {
    bool column = reduced.of(static_cast<int>(i)) != 0;
    if (loops_[i].extent == 1) continue;
    if (reduces_ && column != loops_[i].column) throw DoesNotFit();
    loops_[i].column = column;
  }
  reduces_ = true;
}

int KernelBuilder::reductions() const {
  return static_cast<int>(std::ranges::count(instrs_, Instr::Kind::kReduce, &Instr::kind));
}

int64_t KernelBuilder::rows() const {
  int64_t count = 1;
  for (const Loop& loop : loops_) {
    if (!loop.column) count *= loop.extent;
  }
  return count;
}

int64_t KernelBuilder::columns() const {
  int64_t count = 1;
  for (const Loop& loop : loops_) {
    if (loop.column) count *= loop.extent;
  }
  return count;
}

// ---- nests

bool KernelBuilder::Add(NodeId node) {
  std::optional<KernelBuilder> before;  // where loops have to be split, which changes all indices
  std::vector<NeedsSplit> splits;
  blocker_ = NodeId();
  if (!HasAsManyElements(node)) return false;
  while (splits.size() < kMaxSplits) {
    const Mark mark = {accesses_.size(), instrs_.size(), nests_.size(), loops_, order_, reduces_};
    kept_now_.clear();
    try {
      AddNest(node);
      nodes_.push_back(node);
      return true;
    } catch (const NeedsSplit& split) {
      Undo(mark);
      splits.push_back(split);
    } catch (const DoesNotFit& reason) {
      Undo(mark);
      blocker_ = reason.blocker;
      break;
    }
    if (before) {
      *this = *before;
    } else {
      before = *this;
    }
    if (nests_.empty()) StartLoops(DomainOf(node));
    for (const NeedsSplit& split : splits) SplitLoop(split.loop, split.inner);
  }
  if (before) {
    before->blocker_ = blocker_;
    *this = *std::move(before);
  }
  return false;
}

/// Whether a nest has one element for each iteration of the loops, or for each row. Most that do
/// not fit have not, and are told so without an exception.
bool KernelBuilder::HasAsManyElements(NodeId id) const {
  if (nests_.empty()) return true;
  int64_t count = 1;
  for (int64_t size : DomainOf(id)) count *= size;
  bool by_row = reduces_ && !ReductionOf(facts_->graph[id]);
  return count == rows() * columns() || (by_row && count == rows());
}

void KernelBuilder::Undo(const Mark& mark) {
  accesses_.resize(mark.accesses);
  instrs_.resize(mark.instrs);
  nests_.resize(mark.nests);
  loops_ = mark.loops;
  order_ = mark.order;
  reduces_ = mark.reduces;
  for (size_t nest : kept_now_) nests_[nest].kept = false;
}

/// The sizes that the loops of a nest run over.
const Dims& KernelBuilder::DomainOf(NodeId id) const {
  const GraphNode& node = facts_->graph[id];
  return ReductionOf(node) ? facts_->graph.TypeOf(node.inputs[0]).sizes() : node.type().sizes();
}

const KernelBuilder::Nest* KernelBuilder::FindNest(NodeId node) const {
  for (const Nest& nest : nests_) {
    if (nest.node == node) return &nest;
  }
  return nullptr;
}

/// The first stage in which everything that the node needs of this kernel is known.
int KernelBuilder::StageOf(NodeId node) const {
  int stage = 0;
  std::vector<NodeId> pending;
  std::vector<NodeId> seen;
  auto visit = [&](NodeId id) {
    for (GraphValue input : facts_->graph[id].inputs) {
      if (input.node) pending.push_back(input.node);
    }
  };
  visit(node);
  while (!pending.empty()) {
    NodeId id = pending.back();
    pending.pop_back();
    if (std::find(seen.begin(), seen.end(), id) != seen.end()) continue;
    seen.push_back(id);
    if (const Nest* nest = FindNest(id)) {
      stage = std::max(stage, nest->stage);
    } else if (!facts_->is_root[id]) {
      visit(id);
    }
  }
  return stage;
}

void KernelBuilder::AddNest(NodeId id) {
  const GraphNode& node = facts_->graph[id];
  std::optional<ReduceFn> reduce = ReductionOf(node);
  const Dims& sizes = DomainOf(id);
  row_level_ = false;
  if (nests_.empty() && loops_.empty()) StartLoops(sizes);
  Indices indices;
  int64_t total = rows() * columns();
  if (reduce || !reduces_ || node.type().numel() == total) {
    indices = Match(sizes, order_);
  } else {
    indices = Match(sizes, RowOrder());
    row_level_ = true;
  }
  stage_ = StageOf(id);
  Nest nest;
  nest.node = id;
  nest.stage = stage_;
  nest.row = row_level_;
  if (reduce) {
    int dim = sizes.empty() ? -1 : static_cast<int>(node.attrs[0].ints()[0]);
    MarkColumns(dim < 0 ? Affine() : indices[dim]);
    Instr instr;
    instr.kind = Instr::Kind::kReduce;
    instr.dtype = node.type().dtype();
    instr.reduce = *reduce;
    instr.stage = stage_;
    instr.operands[0] = Value(node.inputs[0], indices);
    nest.instr = Emit(instr);
    nest.stage = stage_ + 1;
    nest.row = true;
    if (dim >= 0) {
      indices[dim] = Affine();
      Dims kept = sizes;
      kept[dim] = 1;
      nest.address = Flat(kept, indices);
    }
  } else if (IsPair(node)) {
    nest.instr = Value(node.inputs[0], indices);
    nest.second = Value(node.inputs[1], indices);
    nest.address.Add(Flat(sizes, indices), 2);
  } else {
    nest.instr = Compute(id, indices);
    nest.address = Flat(sizes, indices);
  }
  nests_.push_back(nest);
  if (!reduces_) return;
  // The reduced dim must be one loop to every access.
  std::vector<int> columns;
  for (int loop : order_) {
    if (loops_[loop].column && loops_[loop].extent != 1) {
      columns.push_back(loop);
    }
  }
  for (size_t i = 0; i + 1 < columns.size(); ++i) {
    int64_t extent = loops_[columns[i + 1]].extent;
    auto even = [&](const Affine& p) { return p.of(columns[i]) == p.of(columns[i + 1]) * extent; };
    for (const BuildAccess& access : accesses_) {
      if (!even(access.address)) throw DoesNotFit{reduce ? node.inputs[0].node : NodeId()};
    }
    for (const Nest& other : nests_) {
      if (!even(other.address)) throw DoesNotFit{reduce ? node.inputs[0].node : NodeId()};
    }
  }
}

// ---- values

bool KernelBuilder::InMemory(GraphValue value) const { return facts_->is_root[value.node]; }

/// A value that is used twice is computed once, since equal instructions are one (Emit).
int KernelBuilder::Value(GraphValue value, const Indices& indices) {
  if (!InMemory(value)) return Compute(value.node, indices);
  return FromMemory(value, Flat(facts_->graph.TypeOf(value).sizes(), indices));
}

/// A materialised value: of this kernel, or in its buffer.
int KernelBuilder::FromMemory(GraphValue value, const Affine& address) {
  if (FindNest(value.node)) return FromNest(value.node, address);
  DType dtype = facts_->graph.TypeOf(value).dtype();
  return EmitLoad(AccessOf({facts_->BufferOf(value), dtype, address, {}, Access::Kind::kBuffer}),
                  dtype);
}

int KernelBuilder::EmitLoad(int access, DType dtype) {
  Instr load;
  load.kind = Instr::Kind::kLoad;
  load.dtype = dtype;
  load.stage = stage_;
  load.access = access;
  return Emit(load);
}

int KernelBuilder::FromNest(NodeId node, const Affine& address) {
  Nest& nest = *const_cast<Nest*>(FindNest(node));
  if (nest.second >= 0 || !SameAddress(address, nest.address)) throw DoesNotFit();
  if (nest.row) return nest.instr;
  if (row_level_) throw DoesNotFit();
  if (nest.stage == stage_) return nest.instr;
  if (!std::exchange(nest.kept, true)) kept_now_.push_back(static_cast<size_t>(&nest - &nests_[0]));
  DType dtype = facts_->graph[node].type().dtype();
  return EmitLoad(AccessOf({{}, dtype, nest.address, node, Access::Kind::kScratch}), dtype);
}

int KernelBuilder::Compute(NodeId id, const Indices& indices) {
  const GraphNode& node = facts_->graph[id];
  if (IsView(node)) return ThroughView(id, indices);
  Instr instr;
  instr.stage = stage_;
  if (node.op == &ops::kConstant) {
    instr.kind = Instr::Kind::kConstant;
    instr.dtype = node.type().dtype();
    Affine bits;
    bits.offset = static_cast<int64_t>(BitsOf(node.attrs[0].scalar(), instr.dtype));
    instr.access = AccessOf({{}, instr.dtype, bits, {}, Access::Kind::kConstant});
    return Emit(instr);
  }
  if (node.op == &ops::kIota) {
    instr.kind = Instr::Kind::kIndex;
    instr.dtype = DType::kI64;
    instr.access = AccessOf({{}, DType::kI64, indices[0], {}, Access::Kind::kIndex});
    int index = Emit(instr);
    if (node.type().dtype() == DType::kI64) return index;
    Instr cast;
    cast.kind = Instr::Kind::kCast;
    cast.stage = stage_;
    cast.dtype = node.type().dtype();
    cast.operands[0] = index;
    return Emit(cast);
  }
  HAMMOCK_CHECK(IsPointwise(facts_->graph, node), "{} is not an element of a kernel",
                node.op->name());
  return ComputePointwise(node, indices);
}

int KernelBuilder::ComputePointwise(const GraphNode& node, const Indices& indices) {
  Instr instr;
  instr.stage = stage_;
  instr.dtype = node.type().dtype();
  instr.fn = node.op->scalar;
  instr.kind = node.op == &ops::kCast      ? Instr::Kind::kCast
               : node.op == &ops::kBitcast ? Instr::Kind::kBitcast
                                           : Instr::Kind::kScalar;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Dims& sizes = facts_->graph.TypeOf(node.inputs[i]).sizes();
    HAMMOCK_CHECK(sizes == node.type().sizes(), "{}: operand {} is {} for {}", node.op->name(), i,
                  ToString(sizes), ToString(node.type()));
    instr.operands[i] = Value(node.inputs[i], indices);
  }
  return Emit(instr);
}

int KernelBuilder::ThroughView(NodeId id, const Indices& indices) {
  const GraphNode& node = facts_->graph[id];
  GraphValue source = node.inputs[0];
  const Dims& from = facts_->graph.TypeOf(source).sizes();
  Indices inner(static_cast<size_t>(from.size()));
  if (node.op == &ops::kReshape) {
    GraphValue storage = StorageOf(facts_->graph, source);
    if (InMemory(storage)) return FromMemory(storage, Flat(node.type().sizes(), indices));
    inner = ThroughReshape(id, indices);
  } else if (node.op == &ops::kBroadcast) {
    size_t added = indices.size() - inner.size();
    for (int d = 0; d < from.size(); ++d) {
      size_t i = static_cast<size_t>(d);
      if (from[d] != 1) inner[i] = indices[i + added];
    }
  } else if (node.op == &ops::kPermute) {
    auto dims = node.attrs[0].ints();
    for (size_t i = 0; i < indices.size(); ++i) inner[dims[i]] = indices[i];
  } else if (node.op == &ops::kSlice) {
    inner = indices;
    Affine& dim = inner[node.attr("dim").integer()];
    Affine moved;
    moved.offset = node.attr("start").integer();
    moved.Add(dim, node.attr("step").integer());
    dim = moved;
  } else {
    inner = indices;
    for (int64_t d : node.attrs[0].ints()) {
      Affine flipped;
      flipped.offset = from[static_cast<int>(d)] - 1;
      flipped.Add(inner[d], -1);
      inner[d] = flipped;
    }
  }
  return Value(source, inner);
}

/// The index of each dim of a reshape's operand. Dims are taken in groups of equal products; within
/// a group the indices are made flat and taken apart again.
KernelBuilder::Indices KernelBuilder::ThroughReshape(NodeId id, const Indices& indices) const {
  const GraphNode& node = facts_->graph[id];
  const Dims& to = node.type().sizes();
  const Dims& from = facts_->graph.TypeOf(node.inputs[0]).sizes();
  Indices result(static_cast<size_t>(from.size()));
  if (node.type().numel() == 0) return result;
  int i = 0;
  int o = 0;
  while (i < from.size() || o < to.size()) {
    int first_in = i;
    int first_out = o;
    int64_t in_product = i < from.size() ? from[i++] : 1;
    int64_t out_product = o < to.size() ? to[o++] : 1;
    while (in_product != out_product) {
      if (in_product < out_product) {
        in_product *= from[i++];
      } else {
        out_product *= to[o++];
      }
    }
    Affine flat;
    int64_t stride = 1;
    for (int d = o; d-- > first_out;) {
      flat.Add(indices[d], stride);
      stride *= to[d];
    }
    if (first_in < i) Decompose(id, flat, from, first_in, i, result);
  }
  return result;
}

void KernelBuilder::Decompose(NodeId id, Affine flat, const Dims& sizes, int begin, int end,
                              Indices& out) const {
  int64_t inner = 1;
  for (int d = begin; d < end; ++d) inner *= sizes[d];
  for (int d = begin; d < end; ++d) {
    inner /= sizes[d];
    Affine high;
    Affine low;
    high.offset = flat.offset / inner;
    low.offset = flat.offset % inner;
    int64_t least = low.offset;
    int64_t most = low.offset;
    for (size_t i = 0; i < loops_.size(); ++i) {
      int loop = static_cast<int>(i);
      int64_t coefficient = loops_[i].extent > 1 ? flat.of(loop) : 0;
      if (coefficient == 0) continue;
      if (coefficient % inner == 0) {
        high.Add(loop, coefficient / inner);
        continue;
      }
      low.Add(loop, coefficient);
      (coefficient < 0 ? least : most) += coefficient * (loops_[i].extent - 1);
    }
    if (least < 0 || most >= inner) {
      for (size_t i = 0; i < loops_.size(); ++i) {
        int64_t coefficient = low.of(static_cast<int>(i));
        if (coefficient <= 0 || inner % coefficient != 0) continue;
        int64_t part = inner / coefficient;
        if (loops_[i].extent > part && loops_[i].extent % part == 0) {
          throw NeedsSplit{static_cast<int>(i), part};
        }
      }
      throw DoesNotFit{facts_->graph[id].inputs[0].node};
    }
    out[d] = high;
    flat = low;
  }
}

int KernelBuilder::AccessOf(const BuildAccess& access) {
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const BuildAccess& other = accesses_[i];
    if (other.kind == access.kind && other.buffer == access.buffer &&
        other.scratch_of == access.scratch_of && other.dtype == access.dtype &&
        SameAddress(other.address, access.address)) {
      return static_cast<int>(i);
    }
  }
  accesses_.push_back(access);
  return static_cast<int>(accesses_.size()) - 1;
}

int KernelBuilder::Emit(const Instr& instr) {
  for (size_t i = instrs_.size(); i-- > 0;) {
    if (instrs_[i] == instr) return static_cast<int>(i);
  }
  instrs_.push_back(instr);
  return static_cast<int>(instrs_.size()) - 1;
}

}  // namespace hammock::compiler
