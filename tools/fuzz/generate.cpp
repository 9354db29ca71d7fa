#include "fuzz/generate.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "backends/reference/interpreter.h"
#include "compiler/passes/expand_storage.h"
#include "compiler/passes/split_complex.h"
#include "fuzz/generator.h"
#include "hammock/error.h"

namespace hammock::fuzz {
namespace {

constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 255, 257};

/// Whether the interpreter has a form of an elementwise op for a dtype.
bool Computes(const OpDef& op, DType dtype) {
  static auto& known = *new std::map<std::pair<const OpDef*, DType>, bool>;
  auto [at, added] = known.try_emplace({&op, dtype});
  if (!added) return at->second;
  try {
    Graph graph;
    std::vector<HostTensor> inputs;
    std::vector<GraphValue> operands;
    for (size_t i = 0; i < op.info().operand_args.size(); ++i) {
      operands.push_back(graph.AddInput(Shape(dtype, {1})));
      inputs.push_back(HostTensor::From(Scalar(1)).To(dtype));
      inputs.back() = HostTensor(Shape(dtype, {1}), inputs.back().storage());
    }
    graph.AddOutput({graph.AddNode(op, operands), 0});
    reference::Interpret(graph, inputs);
    at->second = true;
  } catch (const Error&) {
    at->second = false;
  }
  return at->second;
}

struct Functions {
  std::vector<const OpDef*> unary, binary;
};

const Functions& AllFunctions() {
  static const auto& all = *[] {
    auto* all = new Functions;
    for (const OpDef* op : op_registry::All()) {
      if (!op->IsPrimitive() || op->scalar == ScalarFn::kNone) continue;
      int arity = ArityOf(op->scalar);
      if (arity == 1) all->unary.push_back(op);
      if (arity == 2) all->binary.push_back(op);
    }
    return all;
  }();
  return all;
}

}  // namespace

Generator::Generator(uint64_t seed) : random_(seed), seed_(seed) {
  for (int64_t& size : palette_) size = random_.Pick(kSizes);
  if (random_.OneIn(25)) palette_[0] = 0;
  int64_t rare = random_.Below(200);
  limit_ = rare == 0 ? 300000 : rare < 15 ? 40000 : 4096;
  if (rare < 8) palette_[1] = random_.Between(1000, 5000);
  if (rare == 0 && random_.OneIn(2)) palette_[1] = random_.Between(65537, 200000);
  for (DType& dtype : dtypes_) {
    dtype = random_.OneIn(2) ? random_.Pick(kFloats) : random_.Pick(kDTypes);
  }
}

Case Generator::Make() {
  int64_t leaves = random_.Between(1, 3);
  for (int64_t i = 0; i < leaves; ++i) Input(Shape(SomeDType(), SomeSizes()));
  int64_t steps = random_.OneIn(3) ? random_.Between(1, 4) : random_.Between(3, 18);
  for (int64_t i = 0; i < steps; ++i) Step();
  ChooseOutputs();
  Case test;
  test.graph = std::move(graph_);
  test.inputs = RandomInputs(test.graph, seed_ ^ 0x5EED);
  return test;
}

void Generator::Step() {
  try {
    Choose();
  } catch (const Error&) {
    // Refused by inference: another step takes its place.
  }
  while (values_.size() > 1 && TypeOf(values_.back()).numel() > limit_ * 4) values_.pop_back();
}

void Generator::Choose() {
  int64_t kind = random_.Below(100);
  if (kind < 14) return Unary();
  if (kind < 32) return Binary(Any());
  if (kind < 36) return Where();
  if (kind < 40) return void(Cast(Any(), SomeDType()));
  if (kind < 62) return View();
  if (kind < 72) return Reduce();
  if (kind < 79) return Normalise();
  if (kind < 80) return Bitcast();
  if (kind < 81) return void(Leaf(SomeDType(), SomeSizes()));
  if (kind < 83) return random_.OneIn(3) ? ComplexOps() : random_.OneIn(2) ? Stored() : Pair();
  if (kind < 88) return Move();
  if (kind < 93) return Order();
  if (kind < 95) return Pick();
  if (kind < 97) return MatMul();
  if (kind < 98) return random_.OneIn(2) ? Convolve() : Control();
  if (kind < 99) return Layer();
  return Attention();
}

void Generator::Unary() {
  const OpDef& op = *random_.Pick(AllFunctions().unary);
  GraphValue x = ForRule(op, Any());
  if (Computes(op, TypeOf(x).dtype())) Add(op, {x});
}

GraphValue Generator::ForRule(const OpDef& op, GraphValue x) {
  DType dtype = TypeOf(x).dtype();
  if (op.rule == DTypeRule::kFloat && !IsFloat(dtype)) return Cast(x, random_.Pick(kFloats));
  if (op.rule == DTypeRule::kLogical) return Cast(x, DType::kBool);
  if (op.rule == DTypeRule::kInteger && IsFloat(dtype)) {
    return Cast(x, random_.Pick({DType::kI32, DType::kI64, DType::kU8, DType::kBool}));
  }
  return x;
}

void Generator::Binary(GraphValue first) {
  static const OpDef* const kCommon[] = {&ops::kAdd, &ops::kSub, &ops::kMul, &ops::kMaximum,
                                         &ops::kDiv, &ops::kLt,  &ops::kMul, &ops::kAdd};
  const OpDef& op =
      random_.OneIn(2) ? *random_.Pick(kCommon) : *random_.Pick(AllFunctions().binary);
  GraphValue x = ForRule(op, first);
  const Shape type = TypeOf(x);
  if (!Computes(op, type.dtype())) return;
  GraphValue y = random_.OneIn(12) ? x : Like(type.dtype(), type.sizes());
  if (op.scalar == ScalarFn::kCopysign) y = WithoutNan(y);
  if (DividesIntegers(op.scalar, type.dtype())) {
    if (type.dtype() == DType::kBool) return;
    bool plain = random_.OneIn(2);
    int64_t number = random_.Pick({1, 2, 3, 7, -1});
    if (number < 0 && !IsSigned(type.dtype())) number = 5;
    GraphValue constant = Constant(plain ? number : 1, type.dtype(), type.sizes());
    y = plain ? constant : Add(ops::kBitwiseOr, {y, constant});
  }
  if (random_.OneIn(3) && op.scalar != ScalarFn::kCopysign &&
      !DividesIntegers(op.scalar, type.dtype())) {
    std::swap(x, y);
  }
  Add(op, {x, y});
}

void Generator::Where() {
  GraphValue x = Any();
  const Shape type = TypeOf(x);
  GraphValue y = Like(type.dtype(), type.sizes());
  Add(ops::kWhere, {Like(DType::kBool, type.sizes()), x, y});
}

void Generator::Bitcast() {
  if (random_.OneIn(3)) return void(Add(ops::kBarrier, {Any(), Any()}));
  static const std::vector<DType> kByBits[] = {
      {DType::kU8, DType::kI8},
      {DType::kU16, DType::kI16, DType::kF16, DType::kBF16},
      {DType::kU32, DType::kI32, DType::kF32},
      {DType::kU64, DType::kI64, DType::kF64}};
  GraphValue x = AnyWith([](const Shape& t) { return t.dtype() != DType::kBool; }, DType::kI32);
  DType from = TypeOf(x).dtype();
  if (IsFloat(from)) x = WithoutNan(x);
  int bits = InfoOf(from).bits;
  size_t row = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
  if (random_.OneIn(4)) row = static_cast<size_t>(random_.Below(4));
  Add(ops::kBitcast, {x}, {Attr(random_.Pick(kByBits[row]))});
}

void Generator::Pair() {
  GraphValue x = WithoutNan(
      AnyWith([](const Shape& t) { return t.dtype() == DType::kF32 || t.dtype() == DType::kF64; },
              DType::kF32));
  GraphValue y = WithoutNan(Like(TypeOf(x).dtype(), TypeOf(x).sizes()));
  GraphValue whole = {graph_.AddNode(ops::kComplex, {x, y}), 0};
  AddParts(whole);
  if (seed_ % 4 == 0) Transform();
}

void Generator::AddParts(GraphValue whole) {
  GraphBuilder out(std::move(graph_));
  for (int part : {0, 1}) values_.push_back(PartInMemory(out, whole, part));
  graph_ = out.Finish();
}

void Generator::AddLowered(const Graph& body, const std::vector<GraphValue>& operands) {
  const Graph lowered = ExpandStorage(SplitComplex(body));
  NodeMap<GraphValue> own(lowered.size());
  auto value_of = [&](GraphValue value) {
    if (value.node) value = {own[value.node].node, own[value.node].index + value.index};
    return value;
  };
  size_t next = 0;
  for (NodeId id : lowered.ids()) {
    GraphNode node = lowered[id];
    if (node.op == &ops::kInput) {
      own[id] = operands[next++];
      continue;
    }
    std::vector<GraphValue> inputs;
    for (GraphValue input : node.inputs) inputs.push_back(value_of(input));
    node.inputs = inputs;
    own[id] = {graph_.Append(std::move(node)), 0};
  }
  for (GraphValue output : lowered.outputs()) values_.push_back(value_of(output));
}

void Generator::ComplexOps() {
  static const OpDef* const kOps[] = {&ops::kAdd, &ops::kSub, &ops::kMul, &ops::kDiv};
  const DType dtype = random_.Pick(kComplex);
  const Shape whole(dtype, SomeSizes()), part = whole.With(RealOf(dtype));
  GraphValue x = Like(part.dtype(), part.sizes()), y = Like(part.dtype(), part.sizes());
  Graph body;
  GraphValue real = body.AddInput(part), imag = body.AddInput(part), other = body.AddInput(whole);
  GraphValue z = {body.AddNode(ops::kComplex, {real, imag}), 0};
  for (int64_t i = random_.Between(1, 3); i > 0; --i) {
    z = {body.AddNode(*random_.Pick(kOps), {z, random_.OneIn(3) ? z : other}), 0};
  }
  body.SetOutputs({{body.AddNode(ops::kReal, {z}), 0}, {body.AddNode(ops::kImag, {z}), 0}});
  AddLowered(body, {x, y, graph_.AddInput(whole)});
}

void Generator::Stored() {
  const DType dtype = random_.Pick(kStored);
  Dims sizes = SomeSizes();
  const int each = 8 / InfoOf(dtype).bits;  // of a byte, which rows fill
  if (each > 1 && (sizes.empty() || sizes.back() % each != 0)) sizes.push_back(each);
  const DType wide =
      IsFloat(dtype) ? random_.Pick(kFloats) : random_.Pick({DType::kI32, DType::kU8});
  Graph body;
  GraphValue operand, stored;
  if (random_.OneIn(2)) {
    operand = graph_.AddInput(Shape(dtype, sizes));
    stored = body.AddInput(Shape(dtype, sizes));
  } else {
    operand = Like(wide, sizes);
    if (IsFloat(wide)) operand = WithoutNan(operand);
    GraphValue x = body.AddInput(Shape(wide, sizes));
    stored = {body.AddNode(ops::kCast, {x}, {Attr(dtype)}), 0};
  }
  body.AddOutput({body.AddNode(ops::kCast, {stored}, {Attr(wide)}), 0});
  AddLowered(body, {operand});
}

void Generator::Transform() {
  Dims sizes = SomeSizes();
  if (sizes.empty()) sizes = {random_.Pick(palette_)};
  for (int64_t size : sizes) {
    if (size < 1 || size > 600) return;  // the interpreter's transforms are sums
  }
  GraphValue x = Small(random_.OneIn(2) ? DType::kF32 : DType::kF64, sizes);
  const int64_t dim = DimOf(x), scale = random_.Below(3), size = sizes[static_cast<int>(dim)];
  GraphValue z = {graph_.AddNode(ops::kFftR2C, {x}, {Attr(dim), Attr(scale)}), 0};
  if (random_.OneIn(2)) {
    std::vector<Attr> attrs = {Attr(SomeDims(sizes.size())), Attr(random_.Below(3)),
                               Attr(random_.OneIn(2))};
    z = {graph_.AddNode(ops::kFftC2C, {z}, attrs), 0};
  }
  if (random_.OneIn(2)) Add(ops::kFftC2R, {z}, {Attr(dim), Attr(scale), Attr(size)});
  AddParts(z);
}

void Generator::View() {
  GraphValue x = Any();
  switch (random_.Below(6)) {
    case 0:
      return void(Reshape(x, OtherSizes(TypeOf(x).sizes())));
    case 1:
      return void(Stretch(x));
    case 2:
      return Permute(x);
    case 3:
      return void(Slice(x));
    case 4:
      return Flip(x);
    default:
      // Views of views.
      Slice(x);
      Permute(values_.back());
      if (random_.OneIn(2)) Flip(values_.back());
      Reshape(values_.back(), OtherSizes(TypeOf(values_.back()).sizes()));
  }
}

Dims Generator::OtherSizes(Dims sizes) {
  for (int64_t i = random_.Between(1, 3); i > 0; --i) {
    int rank = sizes.size();
    int64_t kind = random_.Below(4);
    if (kind == 0 && rank >= 2) {
      int d = static_cast<int>(random_.Below(rank - 1));
      sizes[d] *= sizes[d + 1];
      sizes.erase(d + 1);
    } else if (kind == 1 && rank >= 1 && rank < 6) {
      int d = static_cast<int>(random_.Below(rank));
      std::vector<int64_t> divisors;
      for (int64_t n = 2; n < sizes[d] && n < 70; ++n) {
        if (sizes[d] % n == 0) divisors.push_back(n);
      }
      if (divisors.empty()) continue;
      int64_t inner = random_.Pick(divisors);
      sizes[d] /= inner;
      sizes.insert(d + 1, inner);
    } else if (kind == 2 && rank < 6) {
      sizes.insert(static_cast<int>(random_.Below(rank + 1)), 1);
    } else if (kind == 3) {
      for (int d = rank; d-- > 0;) {
        if (sizes[d] == 1) sizes.erase(d);
      }
    }
  }
  if (random_.OneIn(6)) sizes = {CountOf(sizes)};
  return sizes;
}

GraphValue Generator::Stretch(GraphValue x) {
  Dims sizes = TypeOf(x).sizes();
  for (int64_t& size : sizes) {
    if (size == 1) size = random_.Pick(palette_);
  }
  if (sizes.size() < 5 && random_.OneIn(2)) sizes.insert(0, random_.Pick(palette_));
  if (CountOf(sizes) > limit_) return x;
  return Broadcast(x, sizes);
}

void Generator::Permute(GraphValue x) {
  std::vector<int64_t> dims(static_cast<size_t>(RankOf(x)));
  std::iota(dims.begin(), dims.end(), 0);
  for (size_t i = dims.size(); i > 1; --i) {
    std::swap(dims[i - 1], dims[random_.Below(static_cast<int64_t>(i))]);
  }
  Add(ops::kPermute, {x}, {Attr(dims)});
}

GraphValue Generator::Slice(GraphValue x) {
  if (RankOf(x) == 0) return x;
  int64_t dim = DimOf(x);
  int64_t extent = TypeOf(x).size(static_cast<int>(dim));
  int64_t step = random_.OneIn(2) ? 1 : random_.Between(1, 4);
  int64_t start = random_.Between(0, std::max<int64_t>(extent - 1, 0));
  int64_t most = extent == 0 ? 0 : (extent - 1 - start) / step + 1;
  int64_t size = random_.OneIn(2) ? most : random_.Between(random_.OneIn(9) ? 0 : most / 2, most);
  return Add(ops::kSlice, {x}, {Attr(dim), Attr(start), Attr(size), Attr(step)});
}

std::vector<int64_t> Generator::SomeDims(int rank) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank; ++d) {
    if (random_.OneIn(2)) dims.push_back(d);
  }
  if (dims.empty() && rank > 0) dims.push_back(random_.Below(rank));
  return dims;
}

GraphValue Generator::Reduced(GraphValue x, const std::vector<int64_t>& dims, bool keepdim) {
  static const OpDef* const kTruth[] = {&ops::kReduceAny, &ops::kReduceAll, &ops::kReduceMax,
                                        &ops::kReduceMin};
  static const OpDef* const kNumber[] = {&ops::kReduceSum, &ops::kReduceSum, &ops::kReduceMax,
                                         &ops::kReduceMin, &ops::kReduceProd};
  bool truth = TypeOf(x).dtype() == DType::kBool;
  const OpDef& op = truth ? *random_.Pick(kTruth) : *random_.Pick(kNumber);
  return Add(op, {x}, {Attr(dims), Attr(keepdim)});
}

void Generator::Reduce() {
  GraphValue x = Any();
  if (random_.OneIn(4) && RankOf(x) > 0) {
    const OpDef& op = random_.OneIn(2) ? ops::kArgMax : ops::kArgMin;
    return void(Add(op, {x}, {Attr(DimOf(x)), Attr(random_.OneIn(2))}));
  }
  std::vector<int64_t> dims = SomeDims(RankOf(x));
  if (random_.OneIn(20)) dims.clear();
  Reduced(x, dims, random_.OneIn(2));
}

void Generator::Normalise() {
  GraphValue x = Any();
  for (int64_t i = random_.Between(1, 3); i > 0; --i) {
    std::vector<int64_t> dims = {DimOf(x)};
    if (random_.OneIn(4)) dims = SomeDims(RankOf(x));
    GraphValue row = Reduced(x, dims, true);
    if (random_.OneIn(3) && IsFloat(TypeOf(row).dtype())) row = Add(ops::kExp, {row});
    GraphValue all = Broadcast(row, TypeOf(x).sizes());
    static const OpDef* const kOps[] = {&ops::kAdd, &ops::kMul, &ops::kMaximum, &ops::kLt};
    const OpDef& op = *random_.Pick(kOps);
    x = Add(op, {x, all});
    if (random_.OneIn(3) && IsFloat(TypeOf(x).dtype())) x = Add(ops::kSigmoid, {x});
  }
}

void Generator::ChooseOutputs() {
  std::vector<GraphValue> outputs = {values_.back()};
  for (int64_t i = random_.Between(0, 3); i > 0; --i) outputs.push_back(Any());
  if (random_.OneIn(8)) outputs.push_back(outputs[0]);
  if (random_.OneIn(8)) {
    outputs.push_back(Reshape(outputs.back(), OtherSizes(TypeOf(outputs.back()).sizes())));
  }
  if (random_.OneIn(20)) outputs.push_back({graph_.inputs()[0], 0});
  graph_.SetOutputs(outputs);
}

Case GenerateCase(uint64_t seed) { return Generator(seed).Make(); }

}  // namespace hammock::fuzz
