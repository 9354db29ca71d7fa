// Nodes that run by themselves: moves, orders, positions, matmuls, control.
#include <numeric>

#include "fuzz/generator.h"

namespace hammock::fuzz {

void Generator::Move() {
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

void Generator::Strided(GraphValue x) {
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

void Generator::Order() {
  GraphValue x = Any();
  if (RankOf(x) == 0) return;
  int64_t dim = DimOf(x);
  int64_t extent = TypeOf(x).size(static_cast<int>(dim));
  switch (random_.Below(6)) {
    case 0:
    case 1:
      return void(Add(
          ops::kScan, {x},
          {Attr(random_.Pick({"sum", "prod", "max", "min"})), Attr(dim), Attr(random_.OneIn(2))}));
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

void Generator::Window(GraphValue x) {
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

void Generator::Pick() {
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

void Generator::MatMul() {
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
        std::swap(order[i - 1], order[random_.Below(static_cast<int64_t>(i))]);
      }
    }
    side.batch.resize(static_cast<size_t>(batches));
    side.contract.resize(static_cast<size_t>(contracted));
    for (size_t p = 0; p < order.size(); ++p) {
      int64_t dim = order[p];
      side.sizes.push_back(dim >= 0 ? shared[dim] : free[-1 - dim]);
      if (dim >= batches) {
        side.contract[dim - batches] = static_cast<int64_t>(p);
      } else if (dim >= 0) {
        side.batch[dim] = static_cast<int64_t>(p);
      }
    }
  };
  lay_out(a, free_a);
  lay_out(b, free_b);
  DType dtype = SomeDType();
  if (dtype == DType::kBool) dtype = DType::kF32;
  GraphValue x = Like(dtype, a.sizes);
  GraphValue y = Like(dtype, b.sizes);
  Add(ops::kDotGeneral, {x, y}, {Attr(a.contract), Attr(b.contract), Attr(a.batch), Attr(b.batch)});
}

void Generator::Convolve() {
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

void Generator::Control() {
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

}  // namespace hammock::fuzz
