#include <algorithm>

#include "compiler/passes/repeated_element.h"
#include "compiler/passes/simplify_rules.h"
#include "ir/primitives.h"

namespace hammock {

namespace {

using Result = std::optional<GraphValue>;

/// The first operand's own first operand, if that one is of `op`.
Result Inner(const Rewriter& r, const GraphNode& node, const OpDef& op) {
  if (r.OpOf(node.inputs[0]) != &op) return std::nullopt;
  return r.Producer(node.inputs[0]).inputs[0];
}

// reshape(x, its sizes) -> x; of broadcast too
Result ToOwnSizes(Rewriter&, const GraphNode& node) { return node.inputs[0]; }

// reshape(reshape(x)) -> reshape(x)
Result ReshapeOfReshape(Rewriter& r, const GraphNode& node) {
  Result x = Inner(r, node, ops::kReshape);
  if (!x) return std::nullopt;
  return r.MakeSized(ops::kReshape, *x, node.type().sizes());
}

// Moving the elements of a repeated one gives it again, repeated: reshape, permute, slice, flip.
Result MovedRepetition(Rewriter& r, const GraphNode& node) {
  if (r.OpOf(node.inputs[0]) != &ops::kBroadcast) return std::nullopt;
  Result element = RepeatedElement(r.graph(), node.inputs[0]);
  if (!element) return std::nullopt;
  return r.Fill(*element, node.type().sizes());
}

// broadcast(broadcast(x)) -> broadcast(x)
Result BroadcastOfBroadcast(Rewriter& r, const GraphNode& node) {
  Result x = Inner(r, node, ops::kBroadcast);
  if (!x) return std::nullopt;
  return r.MakeSized(ops::kBroadcast, *x, node.type().sizes());
}

// broadcast that repeats nothing -> reshape
Result BroadcastAddsOnes(Rewriter& r, const GraphNode& node) {
  if (r.TypeOf(node.inputs[0]).numel() != node.type().numel()) return std::nullopt;
  return r.MakeSized(ops::kReshape, node.inputs[0], node.type().sizes());
}

/// Sizes without the ones that they begin with.
std::span<const int64_t> WithoutLeadingOnes(const Dims& sizes) {
  return {std::find_if(sizes.begin(), sizes.end(), [](int64_t size) { return size != 1; }),
          sizes.end()};
}

// broadcast(reshape(x)) -> broadcast(x), if the reshape only adds ones in front or takes them away
Result BroadcastOfLeadingOnes(Rewriter& r, const GraphNode& node) {
  Result x = Inner(r, node, ops::kReshape);
  if (!x || r.TypeOf(*x).rank() > node.type().rank()) return std::nullopt;
  if (!std::ranges::equal(WithoutLeadingOnes(r.TypeOf(*x).sizes()),
                          WithoutLeadingOnes(r.TypeOf(node.inputs[0]).sizes()))) {
    return std::nullopt;
  }
  return r.MakeSized(ops::kBroadcast, *x, node.type().sizes());
}

// permute(x, [0,1,...]) -> x, and one that only moves dims of size 1 -> reshape
Result PermuteMovesOnes(Rewriter& r, const GraphNode& node) {
  int64_t before = -1;
  for (int64_t dim : node.attrs[0].ints()) {
    if (r.TypeOf(node.inputs[0]).size(static_cast<int>(dim)) == 1) continue;
    if (dim < before) return std::nullopt;
    before = dim;
  }
  return r.MakeSized(ops::kReshape, node.inputs[0], node.type().sizes());
}

// permute(permute(x)) -> permute(x)
Result PermuteOfPermute(Rewriter& r, const GraphNode& node) {
  Result x = Inner(r, node, ops::kPermute);
  if (!x) return std::nullopt;
  const std::vector<int64_t>& inner = r.Producer(node.inputs[0]).attrs[0].ints();
  std::vector<int64_t> dims;
  for (int64_t dim : node.attrs[0].ints()) dims.push_back(inner[dim]);
  return r.Make(ops::kPermute, {*x}, {Attr(std::move(dims))}, node.type());
}

// slice of all -> x. Of equal sizes it can only be that.
Result SliceOfAll(Rewriter&, const GraphNode& node) { return node.inputs[0]; }

// slice(slice(x)) of one dim -> slice(x)
Result SliceOfSlice(Rewriter& r, const GraphNode& node) {
  Result x = Inner(r, node, ops::kSlice);
  if (!x) return std::nullopt;
  const SharedList<Attr> inner = r.Producer(node.inputs[0]).attrs;
  if (inner[0] != node.attrs[0]) return std::nullopt;
  int64_t size = node.attrs[2].integer();
  // Steps between elements that are not there may be any numbers; those that are used fit.
  int64_t start = 0, step = 1;
  if (size > 0) start = inner[1].integer() + node.attrs[1].integer() * inner[3].integer();
  if (size > 1) step = inner[3].integer() * node.attrs[3].integer();
  return r.Make(ops::kSlice, {*x}, {node.attrs[0], start, size, step}, node.type());
}

/// The start of a dynamic slice, if it is a constant that leaves `size` elements.
std::optional<int64_t> ConstantStart(const Rewriter& r, GraphValue start, int64_t extent,
                                     int64_t size, int64_t step) {
  std::optional<Scalar> constant = ConstantOf(r.graph(), start);
  if (!constant || !constant->IsInt() || size < 1) return std::nullopt;
  const int64_t value = constant->ToInt();
  if (value < 0 || value > extent - 1 - (size - 1) * step) return std::nullopt;
  return value;
}

// dynamic_slice(x, constant) -> slice(x)
Result SliceFromConstant(Rewriter& r, const GraphNode& node) {
  const int64_t size = node.attrs[1].integer(), step = node.attrs[2].integer();
  const int64_t extent = r.TypeOf(node.inputs[0]).size(static_cast<int>(node.attrs[0].integer()));
  auto start = ConstantStart(r, node.inputs[1], extent, size, step);
  if (!start) return std::nullopt;
  return r.Make(ops::kSlice, {node.inputs[0]}, {node.attrs[0], *start, size, step}, node.type());
}

// dynamic_update_slice(x, part, constant) -> update_slice(x, part)
Result UpdateFromConstant(Rewriter& r, const GraphNode& node) {
  const int dim = static_cast<int>(node.attrs[0].integer());
  auto start = ConstantStart(r, node.inputs[2], node.type().size(dim),
                             r.TypeOf(node.inputs[1]).size(dim), node.attrs[1].integer());
  if (!start) return std::nullopt;
  return r.Make(ops::kUpdateSlice, {node.inputs[0], node.inputs[1]},
                {node.attrs[0], *start, node.attrs[1]}, node.type());
}

// pad by nothing -> x
Result PadByNothing(Rewriter& r, const GraphNode& node) {
  auto is_zero = [](int64_t amount) { return amount == 0; };
  if (!std::ranges::all_of(node.attrs[0].ints(), is_zero)) return std::nullopt;
  if (!std::ranges::all_of(node.attrs[1].ints(), is_zero)) return std::nullopt;
  return r.MayRaise(node.inputs[1]) ? std::nullopt : Result(node.inputs[0]);
}

// flip of dims of size 1 or 0 -> x
Result FlipOfOnes(Rewriter&, const GraphNode& node) {
  for (int64_t dim : node.attrs[0].ints()) {
    if (node.type().rank() > 0 && node.type().size(static_cast<int>(dim)) > 1) return std::nullopt;
  }
  return node.inputs[0];
}

// flip(flip(x)) -> flip(x) of the dims that one of them names
Result FlipOfFlip(Rewriter& r, const GraphNode& node) {
  Result x = Inner(r, node, ops::kFlip);
  if (!x) return std::nullopt;
  std::vector<int64_t> dims = node.attrs[0].ints(),
                       inner = r.Producer(node.inputs[0]).attrs[0].ints();
  std::vector<int64_t> once;
  std::ranges::sort(dims);
  std::ranges::sort(inner);
  std::ranges::set_symmetric_difference(dims, inner, std::back_inserter(once));
  return r.Make(ops::kFlip, {*x}, {Attr(std::move(once))}, node.type());
}

// concat(x) -> x, and parts without elements go
Result ConcatOfOne(Rewriter& r, const GraphNode& node) {
  if (node.inputs.size() == 1) return node.inputs[0];
  std::vector<GraphValue> parts;
  int dim = static_cast<int>(node.attrs[0].integer());
  for (GraphValue part : node.inputs) {
    if (r.TypeOf(part).size(dim) > 0 || r.MayRaise(part)) parts.push_back(part);
  }
  if (parts.empty() || parts.size() == node.inputs.size()) return std::nullopt;
  return r.Make(ops::kConcat, std::move(parts), node.attrs, node.type());
}

/// Slices of zeros that were replaced, along one dim.
struct PartsOfZeros {
  struct Part {
    int64_t start;
    GraphValue value;
  };
  GraphValue zeros;
  Attr dim;
  std::vector<Part> parts;  // by start
};

// More are left alone, since each of them would be looked at for each other one.
constexpr size_t kMostParts = 16;

std::optional<PartsOfZeros> FindParts(const Rewriter& r, GraphValue value) {
  PartsOfZeros found;
  for (; r.OpOf(value) == &ops::kUpdateSlice; value = r.Producer(value).inputs[0]) {
    const GraphNode& node = r.Producer(value);
    const bool is_first = found.parts.empty();
    if (is_first) found.dim = node.attrs[0];
    if (node.attrs[0] != found.dim || node.attrs[2].integer() != 1) return std::nullopt;
    if (found.parts.size() == kMostParts) return std::nullopt;
    found.parts.push_back({node.attrs[1].integer(), node.inputs[1]});
  }
  const bool repeats_zero = RepeatedElement(r.graph(), value) && IsZero(r.graph(), value);
  if (found.parts.empty() || !repeats_zero) return std::nullopt;
  found.zeros = value;
  return found;
}

/// Whether no element is in two parts. Sorts them.
bool AreDisjoint(const Rewriter& r, PartsOfZeros& of) {
  std::ranges::sort(of.parts, {}, &PartsOfZeros::Part::start);
  const int dim = static_cast<int>(of.dim.integer());
  int64_t end = 0;
  for (const PartsOfZeros::Part& part : of.parts) {
    if (part.start < end) return false;
    end = part.start + r.TypeOf(part.value).size(dim);
  }
  return true;
}

/// `value` + 0, which differs for -0.0.
GraphValue PlusZero(Rewriter& r, GraphValue value, GraphValue zeros) {
  const Shape type = r.TypeOf(value);
  if (!IsFloat(type.dtype())) return value;
  const bool is_sum = r.OpOf(value) == &ops::kAdd && IsZero(r.graph(), r.Producer(value).inputs[1]);
  if (is_sum) return value;
  const GraphValue zero = *RepeatedElement(r.graph(), zeros);
  return r.Make(ops::kAdd, {value, r.Fill(zero, type.sizes())}, {}, type);
}

// add(update_slice(0, a), update_slice(0, b)) -> update_slice(update_slice(0, a + 0), b + 0), if
// the slices are disjoint, and concat(a + 0, b + 0), if they are all there is: the gradient of a
// value that was cut into parts.
Result SumOfParts(Rewriter& r, const GraphNode& node) {
  std::optional<PartsOfZeros> of = FindParts(r, node.inputs[0]);
  if (!of) return std::nullopt;
  std::optional<PartsOfZeros> others = FindParts(r, node.inputs[1]);
  if (!others || others->dim != of->dim) return std::nullopt;
  of->parts.insert(of->parts.end(), others->parts.begin(), others->parts.end());
  if (of->parts.size() > kMostParts || !AreDisjoint(r, *of)) return std::nullopt;
  const Shape type = node.type();
  const int dim = static_cast<int>(of->dim.integer());
  int64_t covered = 0;
  std::vector<GraphValue> values;
  for (const PartsOfZeros::Part& part : of->parts) {
    covered += r.TypeOf(part.value).size(dim);
    values.push_back(PlusZero(r, part.value, of->zeros));
  }
  if (covered == type.size(dim)) return r.Make(ops::kConcat, values, {of->dim}, type);
  GraphValue sum = of->zeros;
  for (size_t i = 0; i < values.size(); ++i) {
    const Attr start(of->parts[i].start), step(int64_t{1});
    sum = r.Make(ops::kUpdateSlice, {sum, values[i]}, {of->dim, start, step}, type);
  }
  return sum;
}

// concat of one element, repeated in all parts -> that element, repeated
Result ConcatOfRepetitions(Rewriter& r, const GraphNode& node) {
  Result element = RepeatedElement(r.graph(), node.inputs[0]);
  if (!element || r.TypeOf(*element).rank() > 0) return std::nullopt;
  for (GraphValue part : node.inputs) {
    if (RepeatedElement(r.graph(), part) != element) return std::nullopt;
  }
  return r.Fill(*element, node.type().sizes());
}

// reduce over dims of size 1 -> reshape. A sum of floats begins with 0.0, which -0.0 does not
// survive.
Result ReduceOfOne(Rewriter& r, const GraphNode& node) {
  const Shape& type = r.TypeOf(node.inputs[0]);
  if (node.op == &ops::kReduceSum && IsFloat(type.dtype())) return std::nullopt;
  for (int64_t dim : node.attrs[0].ints()) {
    if (type.rank() > 0 && type.size(static_cast<int>(dim)) != 1) return std::nullopt;
  }
  return r.MakeSized(ops::kReshape, node.inputs[0], node.type().sizes());
}

/// The dims that `dims` of a permuted value are of its source.
std::vector<int64_t> ThroughPermute(const std::vector<int64_t>& permute,
                                    const std::vector<int64_t>& dims) {
  std::vector<int64_t> result;
  for (int64_t dim : dims) result.push_back(permute[dim]);
  return result;
}

/// Whether dims that neither list names keep their order in the source.
bool KeepsFreeOrder(const std::vector<int64_t>& permute, const std::vector<int64_t>& contract,
                    const std::vector<int64_t>& batch) {
  int64_t before = -1;
  for (size_t d = 0; d < permute.size(); ++d) {
    int64_t dim = static_cast<int64_t>(d);
    if (std::ranges::count(contract, dim) || std::ranges::count(batch, dim)) continue;
    if (permute[d] < before) return false;
    before = permute[d];
  }
  return true;
}

// dot_general(permute(a), b) -> dot_general(a, b) with other dims, if the free ones keep their
// order
Result PermutedFactor(Rewriter& r, const GraphNode& node) {
  std::vector<GraphValue> factors = node.inputs;
  std::vector<Attr> attrs = node.attrs;  // {a_contract, b_contract, a_batch, b_batch}
  bool changed = false;
  for (size_t i = 0; i < 2; ++i) {
    if (r.OpOf(factors[i]) != &ops::kPermute) continue;
    const GraphNode& permute = r.Producer(factors[i]);
    const std::vector<int64_t>& dims = permute.attrs[0].ints();
    if (!KeepsFreeOrder(dims, attrs[i].ints(), attrs[i + 2].ints())) continue;
    attrs[i] = ThroughPermute(dims, attrs[i].ints());
    attrs[i + 2] = ThroughPermute(dims, attrs[i + 2].ints());
    factors[i] = permute.inputs[0];
    changed = true;
  }
  if (!changed) return std::nullopt;
  return r.Make(ops::kDotGeneral, std::move(factors), std::move(attrs), node.type());
}

// add(broadcast(a), broadcast(b)) -> broadcast(add(a, b)), if the sources have equal sizes. An
// element that is repeated has any sizes. Results without elements are left alone: what would
// raise must not run for them.
Result OnBroadcastSources(Rewriter& r, const GraphNode& node) {
  if (!IsExplicit(r, node)) return std::nullopt;
  std::optional<Dims> sizes;
  for (GraphValue input : node.inputs) {
    if (RepeatedElement(r.graph(), input)) continue;
    if (r.OpOf(input) != &ops::kBroadcast) return std::nullopt;
    const Dims& source = r.TypeOf(r.Producer(input).inputs[0]).sizes();
    if (!sizes) sizes = source;
    if (*sizes != source) return std::nullopt;
  }
  if (!sizes) sizes = Dims();
  if (node.type().With(*sizes).numel() >= node.type().numel()) return std::nullopt;
  std::vector<GraphValue> sources;
  for (GraphValue input : node.inputs) {
    std::optional<GraphValue> element = RepeatedElement(r.graph(), input);
    sources.push_back(element ? r.Fill(*element, *sizes) : r.Producer(input).inputs[0]);
  }
  GraphValue small = r.Make(*node.op, std::move(sources), node.attrs, node.type().With(*sizes));
  return r.MakeSized(ops::kBroadcast, small, node.type().sizes());
}

/// Whether a value that was broadcast repeats one element along `dim`.
bool RepeatsAlong(const Rewriter& r, GraphValue value, int dim) {
  if (r.OpOf(value) != &ops::kBroadcast) return false;
  const Shape& source = r.TypeOf(r.Producer(value).inputs[0]);
  const int own = dim - (r.TypeOf(value).rank() - source.rank());
  return own < 0 || source.size(own) == 1;
}

constexpr int64_t kFewGathered = 8;  // of the elements of a line, at most one of so many

// gather(sub(x, row), i) -> sub(gather(x, i), row), if that computes few of many elements: the
// score of a label does not need the scores of all classes in memory
Result GatherOfPointwise(Rewriter& r, const GraphNode& node) {
  const GraphValue whole = node.inputs[0], index = node.inputs[1];
  const int dim = static_cast<int>(node.attrs[0].integer());
  const Shape type = node.type(), from = r.TypeOf(whole);
  if (from.rank() == 0 || type.numel() == 0 || type.size(dim) * kFewGathered > from.size(dim)) {
    return std::nullopt;
  }
  for (int d = 0; d < type.rank(); ++d) {
    if (d != dim && type.size(d) != from.size(d)) return std::nullopt;
  }
  const GraphNode made_by = r.Producer(whole);
  if (!IsElementwisePrimitive(*made_by.op) || !IsExplicit(r, made_by) || made_by.op->can_fail) {
    return std::nullopt;
  }
  auto is_repeated = [&](GraphValue operand) {
    return RepeatedElement(r.graph(), operand) || RepeatsAlong(r, operand, dim);
  };
  if (std::ranges::count_if(made_by.inputs, is_repeated) + 1 != std::ssize(made_by.inputs)) {
    return std::nullopt;
  }
  std::vector<GraphValue> operands;
  for (GraphValue operand : made_by.inputs) {
    if (std::optional<GraphValue> element = RepeatedElement(r.graph(), operand)) {
      operands.push_back(r.Fill(*element, type.sizes()));
    } else if (RepeatsAlong(r, operand, dim)) {
      operands.push_back(r.MakeSized(ops::kBroadcast, r.Producer(operand).inputs[0], type.sizes()));
    } else {
      operands.push_back(
          r.Make(ops::kGather, {operand, index}, node.attrs, r.TypeOf(operand).With(type.sizes())));
    }
  }
  return r.Make(*made_by.op, std::move(operands), made_by.attrs, type);
}

constexpr RuleFor kRules[] = {
    {&ops::kReshape, ToOwnSizes},
    {&ops::kReshape, ReshapeOfReshape},
    {&ops::kReshape, MovedRepetition},
    {&ops::kBroadcast, ToOwnSizes},
    {&ops::kBroadcast, BroadcastOfBroadcast},
    {&ops::kBroadcast, BroadcastAddsOnes},
    {&ops::kBroadcast, BroadcastOfLeadingOnes},
    {&ops::kPermute, PermuteMovesOnes},
    {&ops::kPermute, PermuteOfPermute},
    {&ops::kPermute, MovedRepetition},
    {&ops::kDynamicSlice, SliceFromConstant},
    {&ops::kDynamicUpdateSlice, UpdateFromConstant},
    {&ops::kSlice, SliceOfAll},
    {&ops::kSlice, SliceOfSlice},
    {&ops::kSlice, MovedRepetition},
    {&ops::kPad, PadByNothing},
    {&ops::kFlip, FlipOfOnes},
    {&ops::kFlip, FlipOfFlip},
    {&ops::kFlip, MovedRepetition},
    {&ops::kConcat, ConcatOfOne},
    {&ops::kConcat, ConcatOfRepetitions},
    {&ops::kAdd, SumOfParts},
    {&ops::kReduceSum, ReduceOfOne},
    {&ops::kReduceProd, ReduceOfOne},
    {&ops::kReduceMax, ReduceOfOne},
    {&ops::kReduceMin, ReduceOfOne},
    {&ops::kReduceAny, ReduceOfOne},
    {&ops::kReduceAll, ReduceOfOne},
    {&ops::kDotGeneral, PermutedFactor},
    {&ops::kGather, GatherOfPointwise},
    {nullptr, OnBroadcastSources},
};

}  // namespace

std::span<const RuleFor> ShapeRules() { return kRules; }

}  // namespace hammock
