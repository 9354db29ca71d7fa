#include "fuzz/generate.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "backends/reference/interpreter.h"
#include "ops/attention_node.h"
#include "ops/primitives.h"

namespace hammock::fuzz {
namespace {

constexpr DType kDTypes[] = {DType::kBool, DType::kU8,  DType::kU16, DType::kU32, DType::kU64,
                             DType::kI8,   DType::kI16, DType::kI32, DType::kI64, DType::kF16,
                             DType::kBF16, DType::kF32, DType::kF64};
constexpr DType kFloats[] = {DType::kF32, DType::kF32, DType::kF32,
                             DType::kF64, DType::kF16, DType::kBF16};
constexpr int64_t kSizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 255, 257};

int64_t CountOf(const Dims& sizes) { return Shape(DType::kBool, sizes).numel(); }

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
      size_t arity = op->info().operand_args.size();
      if (arity == 1) all->unary.push_back(op);
      if (arity == 2) all->binary.push_back(op);
    }
    return all;
  }();
  return all;
}

bool DividesIntegers(const OpDef& op, DType dtype) {
  return IsIntegral(dtype) &&
         (op.scalar == ScalarFn::kFloorDivide || op.scalar == ScalarFn::kTruncDivide ||
          op.scalar == ScalarFn::kRemainder || op.scalar == ScalarFn::kFmod);
}

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed), seed_(seed) {
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

  Case Make() {
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

 private:
  // ---- choices

  DType SomeDType() { return random_.OneIn(10) ? random_.Pick(kDTypes) : random_.Pick(dtypes_); }

  Dims SomeSizes() {
    Dims sizes;
    int64_t rank = random_.OneIn(8) ? 0 : random_.Between(1, random_.OneIn(6) ? 5 : 3);
    for (int64_t d = 0; d < rank; ++d) {
      int64_t size = random_.OneIn(6) ? 1 : random_.Pick(palette_);
      sizes.push_back(CountOf(sizes) * size > limit_ ? 1 : size);
    }
    return sizes;
  }

  /// Some value of the graph, a recent one more often.
  GraphValue Any() {
    int64_t count = static_cast<int64_t>(values_.size());
    int64_t back =
        random_.OneIn(2) ? random_.Below(std::min<int64_t>(count, 3)) : random_.Below(count);
    return values_[static_cast<size_t>(count - 1 - back)];
  }

  template <class Wanted>
  GraphValue AnyWith(Wanted wanted, DType otherwise) {
    for (int i = 0; i < 6; ++i) {
      GraphValue value = Any();
      if (wanted(TypeOf(value))) return value;
    }
    return Cast(Any(), otherwise);
  }

  const Shape& TypeOf(GraphValue value) const { return graph_.TypeOf(value); }
  int RankOf(GraphValue value) const { return TypeOf(value).rank(); }
  int64_t DimOf(GraphValue value) { return random_.Below(std::max(RankOf(value), 1)); }

  // ---- nodes

  GraphValue Input(const Shape& type) {
    GraphValue value = graph_.AddInput(type);
    values_.push_back(value);
    return value;
  }
  /// An input that nothing else uses, for positions.
  GraphValue Positions(const Dims& sizes) { return graph_.AddInput(Shape(DType::kI64, sizes)); }

  GraphValue Add(const OpDef& op, std::vector<GraphValue> inputs, std::vector<Attr> attrs = {}) {
    NodeId id = graph_.AddNode(op, std::move(inputs), std::move(attrs));
    for (size_t i = 0; i < graph_[id].types.size(); ++i) {
      values_.push_back({id, static_cast<int32_t>(i)});
    }
    return {id, 0};
  }

  GraphValue Cast(GraphValue value, DType dtype) {
    return TypeOf(value).dtype() == dtype ? value : Add(ops::kCast, {value}, {Attr(dtype)});
  }
  GraphValue Reshape(GraphValue value, const Dims& sizes) {
    if (TypeOf(value).sizes() == sizes) return value;
    return Add(ops::kReshape, {value}, {Attr(sizes)});
  }
  GraphValue Broadcast(GraphValue value, const Dims& sizes) {
    if (TypeOf(value).sizes() == sizes) return value;
    return Add(ops::kBroadcast, {value}, {Attr(sizes)});
  }
  GraphValue Constant(const Scalar& value, DType dtype, const Dims& sizes = {}) {
    NodeId id = graph_.AddNode(ops::kConstant, {}, {Attr(value.To(dtype)), Attr(dtype)});
    return Broadcast({id, 0}, sizes);
  }
  Scalar SomeNumber(DType dtype) {
    const double values[] = {0, 1, -1, 2, 3, 0.5, -2.5, 7, 100};
    return Scalar(random_.Pick(values)).To(dtype);
  }
  GraphValue WithoutNan(GraphValue value) {
    const Shape type = TypeOf(value);
    GraphValue nan = Add(ops::kIsNan, {value});
    return Add(ops::kWhere, {nan, Constant(0, type.dtype(), type.sizes()), value});
  }

  static bool Broadcasts(const Dims& from, const Dims& to) {
    int added = to.size() - from.size();
    if (added < 0) return false;
    for (int d = 0; d < from.size(); ++d) {
      if (from[d] != 1 && from[d] != to[d + added]) return false;
    }
    return true;
  }

  /// A value of this type, made from what there is where that can be.
  GraphValue Like(DType dtype, const Dims& sizes) {
    for (int i = 0; i < 5; ++i) {
      GraphValue value = Any();
      const Shape type = TypeOf(value);
      if (random_.OneIn(2)) value = Cast(value, dtype);
      if (Broadcasts(type.sizes(), sizes)) return Cast(Broadcast(value, sizes), dtype);
      if (type.numel() == CountOf(sizes)) return Cast(Reshape(value, sizes), dtype);
    }
    return Leaf(dtype, sizes);
  }

  GraphValue Leaf(DType dtype, const Dims& sizes) {
    int64_t kind = random_.Below(6);
    if (kind == 0) return Constant(SomeNumber(dtype), dtype, sizes);
    if (kind == 1 && !sizes.empty() && dtype != DType::kBool) {
      GraphValue iota = Add(ops::kIota, {}, {Attr(sizes.back()), Attr(dtype)});
      return Broadcast(iota, sizes);
    }
    Dims own = sizes;
    for (int64_t& size : own) {
      if (size != 0 && random_.OneIn(5)) size = 1;
    }
    return Broadcast(Input(Shape(dtype, own)), sizes);
  }

  // ---- kinds of steps

  void Step() {
    try {
      Choose();
    } catch (const Error&) {
      // Refused by inference: another step takes its place.
    }
    while (values_.size() > 1 && TypeOf(values_.back()).numel() > limit_ * 4) values_.pop_back();
  }

  void Choose() {
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
    if (kind < 88) return Move();
    if (kind < 93) return Order();
    if (kind < 95) return Pick();
    if (kind < 97) return Product();
    if (kind < 98) return random_.OneIn(2) ? Convolve() : Control();
    if (kind < 99) return Layer();
    return Attention();
  }

  void Unary() {
    const OpDef& op = *random_.Pick(AllFunctions().unary);
    GraphValue x = ForRule(op, Any());
    if (Computes(op, TypeOf(x).dtype())) Add(op, {x});
  }

  /// The value with a dtype that the op computes in.
  GraphValue ForRule(const OpDef& op, GraphValue x) {
    DType dtype = TypeOf(x).dtype();
    if (op.rule == DTypeRule::kFloat && !IsFloat(dtype)) return Cast(x, random_.Pick(kFloats));
    if (op.rule == DTypeRule::kLogical) return Cast(x, DType::kBool);
    if (op.rule == DTypeRule::kInteger && IsFloat(dtype)) {
      return Cast(x, random_.Pick({DType::kI32, DType::kI64, DType::kU8, DType::kBool}));
    }
    return x;
  }

  void Binary(GraphValue first) {
    static const OpDef* const kCommon[] = {&ops::kAdd, &ops::kSub, &ops::kMul, &ops::kMaximum,
                                           &ops::kDiv, &ops::kLt,  &ops::kMul, &ops::kAdd};
    const OpDef& op =
        random_.OneIn(2) ? *random_.Pick(kCommon) : *random_.Pick(AllFunctions().binary);
    GraphValue x = ForRule(op, first);
    const Shape type = TypeOf(x);
    if (!Computes(op, type.dtype())) return;
    GraphValue y = random_.OneIn(12) ? x : Like(type.dtype(), type.sizes());
    if (op.scalar == ScalarFn::kCopysign) y = WithoutNan(y);
    if (DividesIntegers(op, type.dtype())) {
      if (type.dtype() == DType::kBool) return;
      bool plain = random_.OneIn(2);
      int64_t number = random_.Pick({1, 2, 3, 7, -1});
      if (number < 0 && !IsSigned(type.dtype())) number = 5;
      GraphValue constant = Constant(plain ? number : 1, type.dtype(), type.sizes());
      y = plain ? constant : Add(ops::kBitwiseOr, {y, constant});
    }
    if (random_.OneIn(3) && op.scalar != ScalarFn::kCopysign &&
        !DividesIntegers(op, type.dtype())) {
      std::swap(x, y);
    }
    Add(op, {x, y});
  }

  void Where() {
    GraphValue x = Any();
    const Shape type = TypeOf(x);
    GraphValue y = Like(type.dtype(), type.sizes());
    Add(ops::kWhere, {Like(DType::kBool, type.sizes()), x, y});
  }

  void Bitcast() {
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

  void View() {
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

  /// Dims merged, split, added and dropped.
  Dims OtherSizes(Dims sizes) {
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

  GraphValue Stretch(GraphValue x) {
    Dims sizes = TypeOf(x).sizes();
    for (int64_t& size : sizes) {
      if (size == 1) size = random_.Pick(palette_);
    }
    if (sizes.size() < 5 && random_.OneIn(2)) sizes.insert(0, random_.Pick(palette_));
    if (CountOf(sizes) > limit_) return x;
    return Broadcast(x, sizes);
  }

  void Permute(GraphValue x) {
    std::vector<int64_t> dims(static_cast<size_t>(RankOf(x)));
    std::iota(dims.begin(), dims.end(), 0);
    for (size_t i = dims.size(); i > 1; --i) {
      std::swap(dims[i - 1], dims[static_cast<size_t>(random_.Below(static_cast<int64_t>(i)))]);
    }
    Add(ops::kPermute, {x}, {Attr(dims)});
  }

  GraphValue Slice(GraphValue x) {
    if (RankOf(x) == 0) return x;
    int64_t dim = DimOf(x);
    int64_t extent = TypeOf(x).size(static_cast<int>(dim));
    int64_t step = random_.OneIn(2) ? 1 : random_.Between(1, 4);
    int64_t start = random_.Between(0, std::max<int64_t>(extent - 1, 0));
    int64_t most = extent == 0 ? 0 : (extent - 1 - start) / step + 1;
    int64_t size = random_.OneIn(2) ? most : random_.Between(random_.OneIn(9) ? 0 : most / 2, most);
    return Add(ops::kSlice, {x}, {Attr(dim), Attr(start), Attr(size), Attr(step)});
  }

  std::vector<int64_t> SomeDims(int rank) {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < rank; ++d) {
      if (random_.OneIn(2)) dims.push_back(d);
    }
    if (dims.empty() && rank > 0) dims.push_back(random_.Below(rank));
    return dims;
  }

  void Flip(GraphValue x) { Add(ops::kFlip, {x}, {Attr(SomeDims(RankOf(x)))}); }

  GraphValue Reduced(GraphValue x, const std::vector<int64_t>& dims, bool keepdim) {
    static const OpDef* const kTruth[] = {&ops::kReduceAny, &ops::kReduceAll, &ops::kReduceMax,
                                          &ops::kReduceMin};
    static const OpDef* const kNumber[] = {&ops::kReduceSum, &ops::kReduceSum, &ops::kReduceMax,
                                           &ops::kReduceMin, &ops::kReduceProd};
    bool truth = TypeOf(x).dtype() == DType::kBool;
    const OpDef& op = truth ? *random_.Pick(kTruth) : *random_.Pick(kNumber);
    return Add(op, {x}, {Attr(dims), Attr(keepdim)});
  }

  void Reduce() {
    GraphValue x = Any();
    if (random_.OneIn(4) && RankOf(x) > 0) {
      const OpDef& op = random_.OneIn(2) ? ops::kArgMax : ops::kArgMin;
      return void(Add(op, {x}, {Attr(DimOf(x)), Attr(random_.OneIn(2))}));
    }
    std::vector<int64_t> dims = SomeDims(RankOf(x));
    if (random_.OneIn(20)) dims.clear();
    Reduced(x, dims, random_.OneIn(2));
  }

  /// As in softmax and norms: rows are combined with what they were reduced to.
  void Normalise() {
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

  /// Slices and pieces put together.
  void Move() {
    GraphValue x = AnyWith([](const Shape& t) { return t.rank() > 0; }, SomeDType());
    if (RankOf(x) == 0) return;
    const Shape type = TypeOf(x);
    int64_t dim = DimOf(x);
    int d = static_cast<int>(dim);
    switch (random_.Below(7)) {
      case 0:
      case 1: {
        std::vector<int64_t> low, high;
        for (int i = 0; i < type.rank(); ++i) {
          low.push_back(random_.OneIn(2) ? 0 : random_.Between(-2, 3));
          high.push_back(random_.OneIn(2) ? 0 : random_.Between(-2, 3));
        }
        GraphValue value = random_.OneIn(2) ? Constant(SomeNumber(type.dtype()), type.dtype())
                                            : Input(Shape(type.dtype(), {}));
        return void(Add(ops::kPad, {x, value}, {Attr(low), Attr(high)}));
      }
      case 2: {
        std::vector<GraphValue> parts = {x};
        for (int64_t i = random_.Between(0, 2); i > 0; --i) {
          Dims sizes = type.sizes();
          if (random_.OneIn(2)) sizes[d] = random_.Between(0, 5);
          parts.push_back(Like(type.dtype(), sizes));
        }
        if (random_.OneIn(2)) std::swap(parts.front(), parts.back());
        return void(Add(ops::kConcat, parts, {Attr(dim)}));
      }
      case 3:
      case 4: {
        int64_t step = random_.OneIn(2) ? 1 : 2;
        int64_t size = random_.Between(0, (type.size(d) + step - 1) / step);
        int64_t reach = size == 0 ? 0 : (size - 1) * step + 1;
        Dims sizes = type.sizes();
        sizes[d] = size;
        GraphValue source = Like(type.dtype(), sizes);
        if (random_.OneIn(3)) {
          return void(
              Add(ops::kDynamicUpdateSlice, {x, source, Positions({})}, {Attr(dim), Attr(step)}));
        }
        int64_t start = random_.Between(0, type.size(d) - reach);
        return void(Add(ops::kUpdateSlice, {x, source}, {Attr(dim), Attr(start), Attr(step)}));
      }
      case 5: {
        int64_t size = random_.Between(0, type.size(d));
        return void(
            Add(ops::kDynamicSlice, {x, Positions({})}, {Attr(dim), Attr(size), Attr(int64_t{1})}));
      }
      default:
        return Strided(x);
    }
  }

  void Strided(GraphValue x) {
    int64_t count = TypeOf(x).numel();
    if (count < 4) return;
    int64_t columns = random_.Between(1, std::min<int64_t>(count / 2, 40));
    int64_t step = random_.Between(0, (count - columns) / 2);
    int64_t offset = random_.Between(0, count - columns - 2 * step);
    Dims sizes = {3, columns};
    std::vector<int64_t> strides = {step, 1};
    if (random_.OneIn(3) && step >= columns) {
      GraphValue source = Like(TypeOf(x).dtype(), sizes);
      Add(ops::kAsStridedScatter, {x, source}, {Attr(strides), Attr(offset)});
    } else {
      Add(ops::kAsStrided, {x}, {Attr(sizes), Attr(strides), Attr(offset)});
    }
  }

  /// Scans, windows and sorts.
  void Order() {
    GraphValue x = Any();
    if (RankOf(x) == 0) return;
    int64_t dim = DimOf(x);
    int64_t extent = TypeOf(x).size(static_cast<int>(dim));
    switch (random_.Below(6)) {
      case 0:
      case 1:
        return void(Add(ops::kScan, {x},
                        {Attr(random_.Pick({"sum", "prod", "max", "min"})), Attr(dim),
                         Attr(random_.OneIn(2))}));
      case 2:
      case 3:
        return Window(x);
      case 4:
        return void(Add(ops::kSort, {x}, {Attr(dim), Attr(random_.OneIn(2)), Attr(true)}));
      default:
        return void(Add(ops::kTopK, {x},
                        {Attr(random_.Between(0, std::min<int64_t>(extent, 9))), Attr(dim),
                         Attr(random_.OneIn(2)), Attr(true)}));
    }
  }

  void Window(GraphValue x) {
    int64_t count = random_.Between(1, std::min(RankOf(x), 2));
    std::vector<int64_t> window, stride, low, high, dilation;
    for (int64_t i = 0; i < count; ++i) {
      window.push_back(random_.Between(1, 4));
      stride.push_back(random_.Between(1, 3));
      low.push_back(random_.Between(0, 1));
      high.push_back(random_.Between(0, 1));
      dilation.push_back(random_.OneIn(4) ? 2 : 1);
    }
    std::vector<Attr> attrs = {Attr(window), Attr(stride), Attr(low), Attr(high), Attr(dilation)};
    if (random_.OneIn(3)) return void(Add(ops::kReduceWindowArg, {x}, attrs));
    attrs.insert(attrs.begin(), Attr(random_.Pick({"sum", "max"})));
    Add(ops::kReduceWindow, {x}, attrs);
  }

  /// Elements by position.
  void Pick() {
    GraphValue x = Any();
    const Shape type = TypeOf(x);
    if (random_.OneIn(10)) {
      return void(Add(ops::kNonzeroBounded, {x}, {Attr(random_.Between(0, 20))}));
    }
    if (random_.OneIn(20)) {
      GraphValue state = Cast(Like(DType::kI64, {2}), DType::kU64);
      return void(Add(ops::kRngBits, {state}, {Attr(SomeSizes())}));
    }
    if (type.rank() == 0 || type.numel() == 0) return;
    int64_t dim = DimOf(x);
    Dims sizes = type.sizes();
    sizes[static_cast<int>(dim)] = random_.Between(0, 9);
    switch (random_.Below(3)) {
      case 0:
        return void(Add(ops::kGather, {x, Positions(sizes)}, {Attr(dim)}));
      case 1:
        return void(Add(ops::kIndexSelect, {x, Positions({random_.Between(0, 20)})}, {Attr(dim)}));
      default: {
        GraphValue source = Like(type.dtype(), sizes);
        const char* how = random_.Pick({"none", "sum", "prod", "amax", "amin"});
        if (type.dtype() == DType::kBool) how = "none";
        return void(Add(ops::kScatter, {x, Positions(sizes), source}, {Attr(dim), Attr(how)}));
      }
    }
  }

  void Product() {
    struct Side {
      Dims sizes;
      std::vector<int64_t> batch, contract;
    };
    int64_t batches = random_.OneIn(2) ? 0 : random_.Between(1, 2);
    int64_t contracted = random_.OneIn(8) ? 0 : random_.Between(1, 2);
    Side a, b;
    int64_t work = 1;
    auto size = [&] {
      int64_t chosen = random_.Pick(palette_);
      if (work * chosen > 200000) chosen = random_.Between(1, 3);
      work *= std::max<int64_t>(chosen, 1);
      return chosen;
    };
    std::vector<int64_t> shared;
    for (int64_t i = 0; i < batches + contracted; ++i) shared.push_back(size());
    std::vector<int64_t> free_a, free_b;
    for (int64_t i = random_.Between(0, 2); i > 0; --i) free_a.push_back(size());
    for (int64_t i = random_.Between(0, 2); i > 0; --i) free_b.push_back(size());
    auto lay_out = [&](Side& side, const std::vector<int64_t>& free) {
      // Which dim stands where: -1 and below are free ones.
      std::vector<int64_t> order;
      for (int64_t i = 0; i < batches + contracted; ++i) order.push_back(i);
      for (size_t i = 0; i < free.size(); ++i) order.push_back(-1 - static_cast<int64_t>(i));
      if (random_.OneIn(2)) {
        for (size_t i = order.size(); i > 1; --i) {
          std::swap(order[i - 1],
                    order[static_cast<size_t>(random_.Below(static_cast<int64_t>(i)))]);
        }
      }
      side.batch.resize(static_cast<size_t>(batches));
      side.contract.resize(static_cast<size_t>(contracted));
      for (size_t p = 0; p < order.size(); ++p) {
        int64_t dim = order[p];
        side.sizes.push_back(dim >= 0 ? shared[static_cast<size_t>(dim)]
                                      : free[static_cast<size_t>(-1 - dim)]);
        if (dim >= batches) {
          side.contract[static_cast<size_t>(dim - batches)] = static_cast<int64_t>(p);
        } else if (dim >= 0) {
          side.batch[static_cast<size_t>(dim)] = static_cast<int64_t>(p);
        }
      }
    };
    lay_out(a, free_a);
    lay_out(b, free_b);
    DType dtype = SomeDType();
    if (dtype == DType::kBool) dtype = DType::kF32;
    GraphValue x = Like(dtype, a.sizes);
    GraphValue y = Like(dtype, b.sizes);
    Add(ops::kDotGeneral, {x, y},
        {Attr(a.contract), Attr(b.contract), Attr(a.batch), Attr(b.batch)});
  }

  void Convolve() {
    int64_t spatial = random_.Between(1, 2);
    int64_t groups = random_.OneIn(3) ? 2 : 1;
    bool transposed = random_.OneIn(3);
    int64_t in = groups * random_.Between(1, 3);
    int64_t out = groups * random_.Between(1, 4);
    Dims input = {random_.Between(1, 2), in};
    Dims weight = transposed ? Dims{in, out / groups} : Dims{out, in / groups};
    std::vector<int64_t> stride, padding, dilation, output_padding;
    for (int64_t i = 0; i < spatial; ++i) {
      input.push_back(random_.Pick({5, 8, 16, 17}));
      weight.push_back(random_.Between(1, 3));
      stride.push_back(random_.Between(1, 2));
      padding.push_back(random_.Between(0, 1));
      dilation.push_back(random_.Between(1, 2));
      output_padding.push_back(transposed && stride.back() == 2 ? random_.Below(2) : 0);
    }
    DType dtype = random_.Pick(kFloats);
    GraphValue x = Like(dtype, input);
    GraphValue w = Like(dtype, weight);
    Add(ops::kConvolution, {x, w},
        {Attr(stride), Attr(padding), Attr(dilation), Attr(transposed), Attr(output_padding),
         Attr(groups)});
  }

  /// What models are made of: a product of a size at which any way to compute it may be chosen, and
  /// what follows it element by element or row by row.
  void Layer() {
    DType dtype = random_.OneIn(3) ? random_.Pick(kFloats) : DType::kF32;
    bool convolves = random_.OneIn(3);
    GraphValue y = convolves ? ConvolvedImage(dtype) : LayerProduct(dtype);
    int channel = convolves ? 1 : RankOf(y) - 1;
    for (int64_t i = random_.Between(1, 5); i > 0; --i) y = Follow(y, channel);
  }

  GraphValue LayerProduct(DType dtype) {
    int64_t batch = random_.OneIn(3) ? random_.Between(1, 4) : 0;
    int64_t m = random_.Pick({1, 4, 20, 48, 64, 96, 130, 300});
    int64_t n = random_.Pick({1, 8, 48, 64, 130, 520, 1100});
    int64_t k = random_.Pick({1, 3, 16, 40});
    if (std::max<int64_t>(batch, 1) * m * n * k > 400000) m = 20, k = 3;
    bool turned = random_.OneIn(3);
    Dims a = {m, k}, b = turned ? Dims{n, k} : Dims{k, n};
    if (batch == 0) {
      return Add(ops::kDotGeneral, {Like(dtype, a), Like(dtype, b)},
                 {Attr(Dims{1}), Attr(Dims{turned ? 1 : 0}), Attr(Dims{}), Attr(Dims{})});
    }
    a.insert(0, batch);
    b.insert(0, batch);
    return Add(ops::kDotGeneral, {Like(dtype, a), Like(dtype, b)},
               {Attr(Dims{2}), Attr(Dims{turned ? 2 : 1}), Attr(Dims{0}), Attr(Dims{0})});
  }

  GraphValue ConvolvedImage(DType dtype) {
    int64_t in = random_.Between(1, 5), out = random_.Pick({1, 3, 8, 17});
    int64_t taps = random_.Pick({1, 1, 3});
    Dims image = {random_.Between(1, 3), in, random_.Pick({4, 9, 30}), random_.Pick({4, 11, 32})};
    GraphValue x = Like(dtype, image);
    GraphValue w = Like(dtype, Dims{out, in, taps, taps});
    Dims ones = {1, 1}, padding = {taps / 2, taps / 2};
    return Add(
        ops::kConvolution, {x, w},
        {Attr(ones), Attr(padding), Attr(ones), Attr(false), Attr(Dims{0, 0}), Attr(int64_t{1})});
  }

  /// One step of an epilogue.
  GraphValue Follow(GraphValue y, int channel) {
    const Shape type = TypeOf(y);
    static const OpDef* const kTwo[] = {&ops::kAdd, &ops::kSub, &ops::kMul, &ops::kMaximum};
    static const OpDef* const kOne[] = {&ops::kTanh, &ops::kSigmoid, &ops::kErf, &ops::kNeg};
    int64_t kind = random_.Below(9);
    if (kind < 3 && channel < type.rank()) {
      Dims sizes = Dims::Filled(type.rank(), 1);
      sizes[channel] = type.size(channel);
      GraphValue vector = Input(Shape(type.dtype(), sizes));
      return Add(*random_.Pick(kTwo), {y, Broadcast(vector, type.sizes())});
    }
    if (kind < 5) return Add(*random_.Pick(kTwo), {y, Like(type.dtype(), type.sizes())});
    if (kind < 7) return Add(*random_.Pick(kOne), {y});
    if (kind == 7 && type.rank() > 1) {
      GraphValue row = Add(ops::kReduceSum, {y}, {Attr(Dims{type.rank() - 1}), Attr(true)});
      return Add(*random_.Pick(kTwo), {y, Broadcast(row, type.sizes())});
    }
    int64_t last = type.size(type.rank() - 1);
    int64_t heads = last % 4 == 0 ? 4 : 1;
    Dims split = type.sizes(), order;
    split[type.rank() - 1] = heads;
    split.push_back(last / heads);
    for (int d = 0; d < split.size(); ++d) order.push_back(d);
    if (type.rank() > 1) std::swap(order[type.rank() - 1], order[type.rank() - 2]);
    return Add(ops::kPermute, {Reshape(y, split)}, {Attr(order)});
  }

  /// Numbers between -1 and 1, for ops whose rounding is bounded for those alone.
  GraphValue Small(DType dtype, const Dims& sizes) {
    return Add(ops::kTanh, {WithoutNan(Like(dtype, sizes))});
  }

  void Attention() {
    static constexpr DType kTypes[] = {DType::kF32, DType::kF32, DType::kBF16, DType::kF16};
    DType dtype = random_.Pick(kTypes);
    Dims batch;
    for (int64_t i = random_.Between(0, 2); i > 0; --i) batch.push_back(random_.Between(1, 2));
    int64_t queries = random_.Pick({1, 3, 33, 96, 97, 130}),
            keys = random_.Pick({1, 5, 64, 257, 257, 600});
    int64_t width = random_.Pick({1, 4, 33}), out_width = random_.Pick({1, 16, 40});
    auto with = [&](int64_t rows, int64_t columns) {
      Dims sizes = batch;
      sizes.push_back(rows);
      sizes.push_back(columns);
      return sizes;
    };
    GraphValue q = Small(dtype, with(queries, width)), k = Small(dtype, with(keys, width));
    GraphValue v = Small(dtype, with(keys, out_width)), mask;
    bool causal = random_.OneIn(3);
    if (!causal && random_.OneIn(2)) {
      Dims sizes =
          random_.OneIn(2) ? Dims{queries, keys} : with(random_.OneIn(2) ? 1 : queries, keys);
      mask = random_.OneIn(2) ? Like(DType::kBool, sizes) : Small(random_.Pick(kTypes), sizes);
    }
    std::vector<Attr> attrs = {Attr(causal), Attr(random_.OneIn(2) ? 0.5 : 1.0)};
    GraphValue out = Add(ops::kAttention, {q, k, v, mask}, attrs);
    if (random_.OneIn(2)) return;
    Dims rows = batch;
    rows.push_back(queries);
    GraphValue grad = Small(dtype, with(queries, out_width)), delta = Small(DType::kF32, rows);
    Add(ops::kAttentionBackward, {grad, q, k, v, mask, {out.node, 1}, delta}, attrs);
  }

  /// Bodies have ops with one right answer only.
  void Control() {
    GraphValue x = Any();
    const Shape type = TypeOf(x);
    if (type.dtype() == DType::kBool) return;
    GraphValue y = Like(type.dtype(), type.sizes());
    auto body = [&](const OpDef& op, bool loop) {
      auto graph = std::make_shared<Graph>();
      if (loop) graph->AddInput(Shape(DType::kI64, {}));
      GraphValue a = graph->AddInput(type);
      GraphValue b = graph->AddInput(type);
      GraphValue sum = {graph->AddNode(op, {a, b}), 0};
      graph->AddOutput(sum);
      graph->AddOutput({graph->AddNode(ops::kMaximum, {sum, b}), 0});
      return std::shared_ptr<const Graph>(graph);
    };
    if (random_.OneIn(2)) {
      Add(ops::kLoop, {x, y},
          {Attr(body(ops::kMul, true)), Attr(random_.Between(0, 4)), Attr(int64_t{1}),
           Attr(int64_t{0})});
    } else {
      GraphValue predicate = Reshape(Like(DType::kBool, {}), {});
      Add(ops::kCond, {predicate, x, y},
          {Attr(body(ops::kAdd, false)), Attr(body(ops::kMul, false))});
    }
  }

  void ChooseOutputs() {
    std::vector<GraphValue> outputs = {values_.back()};
    for (int64_t i = random_.Between(0, 3); i > 0; --i) outputs.push_back(Any());
    if (random_.OneIn(8)) outputs.push_back(outputs[0]);
    if (random_.OneIn(8)) {
      outputs.push_back(Reshape(outputs.back(), OtherSizes(TypeOf(outputs.back()).sizes())));
    }
    if (random_.OneIn(20)) outputs.push_back({graph_.inputs()[0], 0});
    graph_.SetOutputs(outputs);
  }

  Random random_;
  uint64_t seed_;
  Graph graph_;
  std::vector<GraphValue> values_;
  int64_t palette_[3];
  DType dtypes_[3];
  int64_t limit_ = 0;
};

}  // namespace

Case GenerateCase(uint64_t seed) { return Generator(seed).Make(); }

}  // namespace hammock::fuzz
