// The parts that a graph is made from: dtypes, sizes, values there are, leaves, and the simplest
// nodes.
#include "fuzz/generator.h"

namespace hammock::fuzz {

Dims Generator::SomeSizes() {
  Dims sizes;
  int64_t rank = random_.OneIn(8) ? 0 : random_.Between(1, random_.OneIn(6) ? 5 : 3);
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = random_.OneIn(6) ? 1 : random_.Pick(palette_);
    sizes.push_back(CountOf(sizes) * size > limit_ ? 1 : size);
  }
  return sizes;
}

GraphValue Generator::Any() {
  int64_t count = static_cast<int64_t>(values_.size());
  int64_t back =
      random_.OneIn(2) ? random_.Below(std::min<int64_t>(count, 3)) : random_.Below(count);
  return values_[count - 1 - back];
}

GraphValue Generator::Input(const Shape& type) {
  GraphValue value = graph_.AddInput(type);
  values_.push_back(value);
  return value;
}

GraphValue Generator::Add(const OpDef& op, std::vector<GraphValue> inputs,
                          std::vector<Attr> attrs) {
  NodeId id = graph_.AddNode(op, std::move(inputs), std::move(attrs));
  for (size_t i = 0; i < graph_[id].types.size(); ++i) {
    values_.push_back({id, static_cast<int32_t>(i)});
  }
  return {id, 0};
}

GraphValue Generator::Cast(GraphValue value, DType dtype) {
  return TypeOf(value).dtype() == dtype ? value : Add(ops::kCast, {value}, {Attr(dtype)});
}

GraphValue Generator::Reshape(GraphValue value, const Dims& sizes) {
  if (TypeOf(value).sizes() == sizes) return value;
  return Add(ops::kReshape, {value}, {Attr(sizes)});
}

GraphValue Generator::Broadcast(GraphValue value, const Dims& sizes) {
  if (TypeOf(value).sizes() == sizes) return value;
  return Add(ops::kBroadcast, {value}, {Attr(sizes)});
}

GraphValue Generator::Constant(const Scalar& value, DType dtype, const Dims& sizes) {
  NodeId id = graph_.AddNode(ops::kConstant, {}, {Attr(value.To(dtype)), Attr(dtype)});
  return Broadcast({id, 0}, sizes);
}

Scalar Generator::SomeNumber(DType dtype) {
  const double values[] = {0, 1, -1, 2, 3, 0.5, -2.5, 7, 100};
  return Scalar(random_.Pick(values)).To(dtype);
}

GraphValue Generator::WithoutNan(GraphValue value) {
  const Shape type = TypeOf(value);
  GraphValue nan = Add(ops::kIsNan, {value});
  return Add(ops::kWhere, {nan, Constant(0, type.dtype(), type.sizes()), value});
}

bool Generator::Broadcasts(const Dims& from, const Dims& to) {
  int added = to.size() - from.size();
  if (added < 0) return false;
  for (int d = 0; d < from.size(); ++d) {
    if (from[d] != 1 && from[d] != to[d + added]) return false;
  }
  return true;
}

GraphValue Generator::Like(DType dtype, const Dims& sizes) {
  for (int i = 0; i < 5; ++i) {
    GraphValue value = Any();
    const Shape type = TypeOf(value);
    if (random_.OneIn(2)) value = Cast(value, dtype);
    if (Broadcasts(type.sizes(), sizes)) return Cast(Broadcast(value, sizes), dtype);
    if (type.numel() == CountOf(sizes)) return Cast(Reshape(value, sizes), dtype);
  }
  return Leaf(dtype, sizes);
}

GraphValue Generator::Leaf(DType dtype, const Dims& sizes) {
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

}  // namespace hammock::fuzz
