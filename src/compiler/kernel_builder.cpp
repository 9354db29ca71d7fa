#include "compiler/kernel_builder.h"

#include <algorithm>
#include <cstring>

#include "base/throw.h"
#include "hammock/host_tensor.h"
#include "ops/primitives.h"

namespace hammock::compiler {
namespace {

constexpr int kMaxSplits = 32;  // of the loops of one kernel by one nest

uint64_t BitsOf(const Scalar& value, DType dtype) {
  HostTensor tensor = HostTensor::From(value).To(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, tensor.data(), static_cast<size_t>(tensor.bytes()));
  return bits;
}

/// Whether a value is known to be a constant other than 0, whatever its sizes.
bool IsNonzeroConstant(const Graph& graph, GraphValue value) {
  while (IsView(graph[value.node])) value = graph[value.node].inputs[0];
  const GraphNode& node = graph[value.node];
  return node.op == &ops::kConstant && BitsOf(node.attrs[0].scalar(), node.type().dtype()) != 0;
}

bool DividesIntegers(const GraphNode& node) {
  switch (node.op->scalar) {
    case ScalarFn::kFloorDivide:
    case ScalarFn::kTruncDivide:
    case ScalarFn::kRemainder:
    case ScalarFn::kFmod:
      return IsIntegral(node.type().dtype());
    default:
      return false;
  }
}

Stride KindOf(int64_t stride) {
  return stride == 0 ? Stride::kZero : stride == 1 ? Stride::kOne : Stride::kAny;
}

}  // namespace

std::optional<ReduceFn> ReductionOf(const GraphNode& node) {
  static const std::pair<const OpDef*, ReduceFn> kReductions[] = {
      {&ops::kReduceSum, ReduceFn::kSum}, {&ops::kReduceProd, ReduceFn::kProd},
      {&ops::kReduceMax, ReduceFn::kMax}, {&ops::kReduceMin, ReduceFn::kMin},
      {&ops::kReduceAny, ReduceFn::kAny}, {&ops::kReduceAll, ReduceFn::kAll}};
  for (const auto& [op, fn] : kReductions) {
    if (node.op == op && node.attrs[0].ints().size() == 1) return fn;
  }
  return std::nullopt;
}

bool IsPointwise(const Graph& graph, const GraphNode& node) {
  if (node.op == &ops::kCast) return true;
  if (node.op == &ops::kBitcast) {
    return InfoOf(node.type().dtype()).bits == InfoOf(graph.TypeOf(node.inputs[0]).dtype()).bits;
  }
  if (node.op->scalar == ScalarFn::kNone || !node.op->IsPrimitive()) return false;
  return !DividesIntegers(node) || IsNonzeroConstant(graph, node.inputs[1]);
}

bool IsView(const GraphNode& node) {
  return node.op == &ops::kReshape || node.op == &ops::kBroadcast || node.op == &ops::kPermute ||
         node.op == &ops::kSlice || node.op == &ops::kFlip;
}

bool IsGenerated(const GraphNode& node) {
  return node.op == &ops::kConstant || node.op == &ops::kIota;
}

GraphValue StorageOf(const Graph& graph, GraphValue value) {
  while (graph[value.node].op == &ops::kReshape) value = graph[value.node].inputs[0];
  return value;
}

FusionFacts::FusionFacts(const Graph& graph)
    : graph(graph), named(static_cast<size_t>(graph.size())) {
  int count = 0;
  for (const GraphNode& node : graph.nodes()) {
    first.push_back(count);
    count += static_cast<int>(node.types.size());
  }
  first.push_back(count);
}

// ---- places

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

/// The place in row-major memory.
KernelBuilder::Affine KernelBuilder::Flat(const Dims& sizes, const Place& place) const {
  Affine flat;
  int64_t stride = 1;
  for (int d = sizes.size(); d-- > 0;) {
    flat.Add(place[static_cast<size_t>(d)], stride);
    stride *= sizes[d];
  }
  return flat;
}

bool KernelBuilder::SamePlace(const Affine& a, const Affine& b) const {
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
    if (!loops_[static_cast<size_t>(loop)].column) rows.push_back(loop);
  }
  return rows;
}

/// The index of each dim of a tensor whose elements are visited by these loops in row-major order.
KernelBuilder::Place KernelBuilder::Match(const Dims& sizes, const std::vector<int>& order) const {
  Place place(static_cast<size_t>(sizes.size()));
  size_t next = 0;
  auto extent = [&] { return loops_[static_cast<size_t>(order[next])].extent; };
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
      place[static_cast<size_t>(d)].Add(used[i], coefficient);
      coefficient *= loops_[static_cast<size_t>(used[i])].extent;
    }
  }
  skip_ones();
  if (next != order.size()) throw DoesNotFit();
  return place;
}

void KernelBuilder::SplitLoop(int loop, int64_t inner) {
  int added = static_cast<int>(loops_.size());
  loops_.push_back({inner, loops_[static_cast<size_t>(loop)].column});
  loops_[static_cast<size_t>(loop)].extent /= inner;
  order_.insert(std::find(order_.begin(), order_.end(), loop) + 1, added);
  auto split = [&](Affine& place) {
    int64_t coefficient = place.of(loop);
    if (coefficient == 0) return;
    place.Add(added, coefficient);
    place.Add(loop, coefficient * (inner - 1));
  };
  for (BuildAccess& access : accesses_) split(access.place);
  for (Nest& nest : nests_) split(nest.place);
}

/// Makes the loops of a place the columns, or checks that they are.
void KernelBuilder::MarkColumns(const Affine& reduced) {
  for (size_t i = 0; i < loops_.size(); ++i) {
    bool column = reduced.of(static_cast<int>(i)) != 0;
    if (loops_[i].extent == 1) continue;
    if (reduces_ && column != loops_[i].column) throw DoesNotFit();
    loops_[i].column = column;
  }
  reduces_ = true;
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
  const KernelBuilder before = *this;
  std::vector<NeedsSplit> splits;
  while (splits.size() < kMaxSplits) {
    try {
      AddNest(node);
      nodes_.push_back(node);
      return true;
    } catch (const NeedsSplit& split) {
      splits.push_back(split);
    } catch (const DoesNotFit& reason) {
      *this = before;
      blocker_ = reason.blocker;
      return false;
    }
    *this = before;
    if (nests_.empty()) StartLoops(DomainOf(node));
    for (const NeedsSplit& split : splits) SplitLoop(split.loop, split.inner);
  }
  *this = before;
  blocker_ = -1;
  return false;
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
      if (input.node >= 0) pending.push_back(input.node);
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
    } else if (!facts_->named[static_cast<size_t>(id)]) {
      visit(id);
    }
  }
  return stage;
}

void KernelBuilder::AddNest(NodeId id) {
  const GraphNode& node = facts_->graph[id];
  std::optional<ReduceFn> reduce = ReductionOf(node);
  const Dims& sizes = DomainOf(id);
  memo_.clear();
  row_level_ = false;
  if (nests_.empty() && loops_.empty()) StartLoops(sizes);
  Place place;
  int64_t total = rows() * columns();
  if (reduce || !reduces_ || node.type().numel() == total) {
    place = Match(sizes, order_);
  } else {
    place = Match(sizes, RowOrder());
    row_level_ = true;
  }
  stage_ = StageOf(id);
  Nest nest;
  nest.node = id;
  nest.stage = stage_;
  nest.row = row_level_;
  if (reduce) {
    int dim = sizes.empty() ? -1 : static_cast<int>(node.attrs[0].ints()[0]);
    MarkColumns(dim < 0 ? Affine() : place[static_cast<size_t>(dim)]);
    Instr instr;
    instr.kind = Instr::Kind::kReduce;
    instr.dtype = node.type().dtype();
    instr.reduce = *reduce;
    instr.stage = stage_;
    instr.operands[0] = Value(node.inputs[0], place);
    nest.instr = Emit(instr);
    nest.stage = stage_ + 1;
    nest.row = true;
    if (dim >= 0) {
      place[static_cast<size_t>(dim)] = Affine();
      Dims kept = sizes;
      kept[dim] = 1;
      nest.place = Flat(kept, place);
    }
  } else {
    nest.instr = Compute(id, place);
    nest.place = Flat(sizes, place);
  }
  nests_.push_back(nest);
  if (!reduces_) return;
  // The reduced dim must be one loop to every access.
  std::vector<int> columns;
  for (int loop : order_) {
    if (loops_[static_cast<size_t>(loop)].column && loops_[static_cast<size_t>(loop)].extent != 1) {
      columns.push_back(loop);
    }
  }
  for (size_t i = 0; i + 1 < columns.size(); ++i) {
    int64_t extent = loops_[static_cast<size_t>(columns[i + 1])].extent;
    auto even = [&](const Affine& p) { return p.of(columns[i]) == p.of(columns[i + 1]) * extent; };
    for (const BuildAccess& access : accesses_) {
      if (!even(access.place)) throw DoesNotFit{reduce ? node.inputs[0].node : -1};
    }
    for (const Nest& other : nests_) {
      if (!even(other.place)) throw DoesNotFit{reduce ? node.inputs[0].node : -1};
    }
  }
}

// ---- values

bool KernelBuilder::InMemory(GraphValue value) const {
  return facts_->named[static_cast<size_t>(value.node)];
}

int KernelBuilder::Value(GraphValue value, const Place& place) {
  std::pair<GraphValue, std::vector<int64_t>> key = {value, {}};
  for (const Affine& dim : place) {
    key.second.push_back(dim.offset);
    for (size_t i = 0; i < loops_.size(); ++i) key.second.push_back(dim.of(static_cast<int>(i)));
  }
  if (auto known = memo_.find(key); known != memo_.end()) return known->second;
  int result = InMemory(value) ? FromMemory(value, Flat(facts_->graph.TypeOf(value).sizes(), place))
                               : Compute(value.node, place);
  memo_[key] = result;
  return result;
}

/// A named value: of this kernel, or in its buffer.
int KernelBuilder::FromMemory(GraphValue value, const Affine& place) {
  if (FindNest(value.node)) return FromNest(value.node, place);
  DType dtype = facts_->graph.TypeOf(value).dtype();
  return EmitLoad(AccessOf({facts_->BufferOf(value), dtype, place, -1, Access::Kind::kBuffer}),
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

int KernelBuilder::FromNest(NodeId node, const Affine& place) {
  Nest& nest = *const_cast<Nest*>(FindNest(node));
  if (!SamePlace(place, nest.place)) throw DoesNotFit();
  if (nest.row) return nest.instr;
  if (row_level_) throw DoesNotFit();
  if (nest.stage == stage_) return nest.instr;
  nest.kept = true;
  DType dtype = facts_->graph[node].type().dtype();
  return EmitLoad(AccessOf({-1, dtype, nest.place, node, Access::Kind::kScratch}), dtype);
}

int KernelBuilder::Compute(NodeId id, const Place& place) {
  const GraphNode& node = facts_->graph[id];
  if (IsView(node)) return ThroughView(id, place);
  Instr instr;
  instr.stage = stage_;
  if (node.op == &ops::kConstant) {
    instr.kind = Instr::Kind::kConstant;
    instr.dtype = node.type().dtype();
    Affine bits;
    bits.offset = static_cast<int64_t>(BitsOf(node.attrs[0].scalar(), instr.dtype));
    instr.access = AccessOf({-1, instr.dtype, bits, -1, Access::Kind::kConstant});
    return Emit(instr);
  }
  if (node.op == &ops::kIota) {
    instr.kind = Instr::Kind::kIndex;
    instr.dtype = DType::kI64;
    instr.access = AccessOf({-1, DType::kI64, place[0], -1, Access::Kind::kIndex});
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
  return ComputePointwise(node, place);
}

int KernelBuilder::ComputePointwise(const GraphNode& node, const Place& place) {
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
    instr.operands[i] = Value(node.inputs[i], place);
  }
  return Emit(instr);
}

int KernelBuilder::ThroughView(NodeId id, const Place& place) {
  const GraphNode& node = facts_->graph[id];
  GraphValue source = node.inputs[0];
  const Dims& from = facts_->graph.TypeOf(source).sizes();
  Place inner(static_cast<size_t>(from.size()));
  if (node.op == &ops::kReshape) {
    GraphValue storage = StorageOf(facts_->graph, source);
    if (InMemory(storage)) return FromMemory(storage, Flat(node.type().sizes(), place));
    inner = ThroughReshape(id, place);
  } else if (node.op == &ops::kBroadcast) {
    size_t added = place.size() - inner.size();
    for (int d = 0; d < from.size(); ++d) {
      size_t i = static_cast<size_t>(d);
      if (from[d] != 1) inner[i] = place[i + added];
    }
  } else if (node.op == &ops::kPermute) {
    auto dims = node.attrs[0].ints();
    for (size_t i = 0; i < place.size(); ++i) inner[static_cast<size_t>(dims[i])] = place[i];
  } else if (node.op == &ops::kSlice) {
    inner = place;
    Affine& dim = inner[static_cast<size_t>(node.attr("dim").integer())];
    Affine moved;
    moved.offset = node.attr("start").integer();
    moved.Add(dim, node.attr("step").integer());
    dim = moved;
  } else {
    inner = place;
    for (int64_t d : node.attrs[0].ints()) {
      Affine turned;
      turned.offset = from[static_cast<int>(d)] - 1;
      turned.Add(inner[static_cast<size_t>(d)], -1);
      inner[static_cast<size_t>(d)] = turned;
    }
  }
  return Value(source, inner);
}

/// The index of each dim of a reshape's operand. Dims are taken in groups of equal products; within
/// a group the place is made flat and taken apart again.
KernelBuilder::Place KernelBuilder::ThroughReshape(NodeId id, const Place& place) const {
  const GraphNode& node = facts_->graph[id];
  const Dims& to = node.type().sizes();
  const Dims& from = facts_->graph.TypeOf(node.inputs[0]).sizes();
  Place result(static_cast<size_t>(from.size()));
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
      flat.Add(place[static_cast<size_t>(d)], stride);
      stride *= to[d];
    }
    if (first_in < i) Decompose(id, flat, from, first_in, i, result);
  }
  return result;
}

void KernelBuilder::Decompose(NodeId id, Affine flat, const Dims& sizes, int begin, int end,
                              Place& out) const {
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
    out[static_cast<size_t>(d)] = high;
    flat = low;
  }
}

int KernelBuilder::AccessOf(const BuildAccess& access) {
  for (size_t i = 0; i < accesses_.size(); ++i) {
    const BuildAccess& other = accesses_[i];
    if (other.kind == access.kind && other.buffer == access.buffer &&
        other.scratch_of == access.scratch_of && other.dtype == access.dtype &&
        SamePlace(other.place, access.place)) {
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

// ---- the finished kernel

/// Loops that run as one, outermost first; the last of each carries the stride.
struct KernelBuilder::Groups {
  struct Group {
    int last;
    int64_t extent;
    bool column;
  };
  std::vector<Group> all;
};

KernelBuilder::Groups KernelBuilder::GroupLoops(const std::vector<BuildAccess>& accesses) const {
  std::vector<int> order = RowOrder();
  for (int loop : order_) {
    if (loops_[static_cast<size_t>(loop)].column) order.push_back(loop);
  }
  Groups groups;
  for (int loop : order) {
    const Loop& next = loops_[static_cast<size_t>(loop)];
    if (next.extent == 1) continue;
    auto even = [&](const BuildAccess& access) {
      return access.place.of(groups.all.back().last) == access.place.of(loop) * next.extent;
    };
    if (!groups.all.empty() && groups.all.back().column == next.column &&
        std::all_of(accesses.begin(), accesses.end(), even)) {
      groups.all.back().last = loop;
      groups.all.back().extent *= next.extent;
    } else {
      groups.all.push_back({loop, next.extent, next.column});
    }
  }
  return groups;
}

namespace {

/// Finds levels, moves row values to the first stage that knows them, and merges what became equal.
void Normalise(Kernel& kernel) {
  std::vector<bool> written(kernel.accesses.size());
  for (const Instr& instr : kernel.instrs) {
    if (instr.kind == Instr::Kind::kStore) written[static_cast<size_t>(instr.access)] = true;
  }
  std::vector<Instr> instrs;
  std::vector<int> number(kernel.instrs.size());
  for (size_t i = 0; i < kernel.instrs.size(); ++i) {
    Instr instr = kernel.instrs[i];
    bool element = false;
    int known = 0;
    for (int& operand : instr.operands) {
      if (operand < 0) continue;
      operand = number[static_cast<size_t>(operand)];
      const Instr& from = instrs[static_cast<size_t>(operand)];
      element |= from.level == Level::kElement;
      known = std::max(known, from.stage + (from.kind == Instr::Kind::kReduce));
    }
    if (instr.access >= 0) {
      element |= kernel.accesses[static_cast<size_t>(instr.access)].column != Stride::kZero;
    }
    if (instr.kind == Instr::Kind::kReduce) element = false;
    instr.level = element ? Level::kElement : Level::kRow;
    bool after_store =
        instr.kind == Instr::Kind::kLoad && written[static_cast<size_t>(instr.access)];
    if (!element && !after_store && instr.kind != Instr::Kind::kReduce) instr.stage = known;
    auto equal = instr.kind == Instr::Kind::kStore ? instrs.end()
                                                   : std::find(instrs.begin(), instrs.end(), instr);
    number[i] = static_cast<int>(equal - instrs.begin());
    if (equal == instrs.end()) instrs.push_back(instr);
  }
  kernel.instrs = std::move(instrs);
  kernel.stages = 1;
  for (const Instr& instr : kernel.instrs) kernel.stages = std::max(kernel.stages, instr.stage + 1);
}

/// Drops instructions and accesses that nothing needs.
void RemoveUnused(Kernel& kernel, std::vector<AccessMap>& maps) {
  std::vector<int> new_number(kernel.instrs.size(), -1);
  std::vector<bool> used(kernel.instrs.size());
  for (size_t i = kernel.instrs.size(); i-- > 0;) {
    const Instr& instr = kernel.instrs[i];
    if (instr.kind == Instr::Kind::kStore) used[i] = true;
    if (!used[i]) continue;
    for (int operand : instr.operands) {
      if (operand >= 0) used[static_cast<size_t>(operand)] = true;
    }
  }
  std::vector<int> new_access(kernel.accesses.size(), -1);
  Kernel kept;
  std::vector<AccessMap> kept_maps;
  for (size_t i = 0; i < kernel.instrs.size(); ++i) {
    if (!used[i]) continue;
    Instr instr = kernel.instrs[i];
    for (int& operand : instr.operands) {
      if (operand >= 0) operand = new_number[static_cast<size_t>(operand)];
    }
    if (instr.access >= 0) {
      int& access = new_access[static_cast<size_t>(instr.access)];
      if (access < 0) {
        access = static_cast<int>(kept.accesses.size());
        kept.accesses.push_back(kernel.accesses[static_cast<size_t>(instr.access)]);
        kept_maps.push_back(maps[static_cast<size_t>(instr.access)]);
      }
      instr.access = access;
    }
    new_number[i] = static_cast<int>(kept.instrs.size());
    kept.instrs.push_back(instr);
  }
  kernel.accesses = std::move(kept.accesses);
  kernel.instrs = std::move(kept.instrs);
  maps = std::move(kept_maps);
}

}  // namespace

Launch KernelBuilder::Finish(const std::function<bool(NodeId)>& stored) const {
  std::vector<BuildAccess> accesses = accesses_;
  auto kernel = std::make_shared<Kernel>();
  kernel->instrs = instrs_;
  for (BuildAccess& access : accesses) {
    if (access.scratch_of >= 0 && stored(access.scratch_of)) {
      access.buffer = facts_->BufferOf({access.scratch_of, 0});
      access.kind = Access::Kind::kBuffer;
    }
  }
  for (const Nest& nest : nests_) {
    bool in_buffer = stored(nest.node);
    if (!in_buffer && !nest.kept) continue;
    DType dtype = facts_->graph[nest.node].type().dtype();
    Instr store;
    store.kind = Instr::Kind::kStore;
    store.dtype = dtype;
    store.stage = nest.stage;
    store.operands[0] = nest.instr;
    auto known = std::find_if(accesses.begin(), accesses.end(), [&](const BuildAccess& access) {
      return access.scratch_of == nest.node;
    });
    store.access = static_cast<int>(known - accesses.begin());
    if (known == accesses.end()) {
      accesses.push_back(
          {facts_->BufferOf({nest.node, 0}), dtype, nest.place, -1, Access::Kind::kBuffer});
    }
    kernel->instrs.push_back(store);
  }

  Launch launch;
  Groups groups = GroupLoops(accesses);
  int column = -1;
  int row = -1;
  bool takes_columns =
      reduces_ ? !groups.all.empty() && groups.all.back().column : !groups.all.empty();
  if (takes_columns) {
    column = groups.all.back().last;
    launch.columns = groups.all.back().extent;
    groups.all.pop_back();
  }
  if (!groups.all.empty()) {
    row = groups.all.back().last;
    launch.rows = groups.all.back().extent;
    groups.all.pop_back();
  }
  for (const Groups::Group& group : groups.all) {
    HAMMOCK_CHECK(!group.column, "the reduced dim is not one loop");
    launch.outer.push_back(group.extent);
  }
  int along_columns = 0;
  int along_rows = 0;
  for (const BuildAccess& access : accesses) {
    AccessMap map;
    map.buffer = access.buffer;
    map.offset = access.place.offset;
    map.row = row < 0 ? 0 : access.place.of(row);
    map.column = column < 0 ? 0 : access.place.of(column);
    for (const Groups::Group& group : groups.all) map.outer.push_back(access.place.of(group.last));
    if (access.buffer >= 0 && map.column == 1) ++along_columns;
    if (access.buffer >= 0 && map.column != 0 && map.column != 1 && map.row == 1) ++along_rows;
    launch.maps.push_back(std::move(map));
  }
  kernel->lanes_along_rows = reduces_ && along_rows > along_columns;
  for (size_t i = 0; i < accesses.size(); ++i) {
    AccessMap& map = launch.maps[i];
    Access access;
    access.dtype = accesses[i].dtype;
    access.kind = accesses[i].kind;
    if (access.kind == Access::Kind::kScratch) {
      std::fill(map.outer.begin(), map.outer.end(), 0);
      map.offset = 0;
      map.row = 0;
      map.column = column < 0 ? 0 : 1;
    }
    access.row = KindOf(map.row);
    access.column = KindOf(map.column);
    Stride& plain = kernel->lanes_along_rows ? access.column : access.row;
    if (plain == Stride::kOne && access.kind != Access::Kind::kScratch) plain = Stride::kAny;
    kernel->accesses.push_back(access);
  }
  Normalise(*kernel);
  RemoveUnused(*kernel, launch.maps);
  kernel->stages = 1;
  for (const Instr& instr : kernel->instrs) {
    kernel->stages =
        std::max(kernel->stages, instr.stage + 1 + (instr.kind == Instr::Kind::kReduce));
  }
  launch.kernel = std::move(kernel);
  return launch;
}

}  // namespace hammock::compiler
