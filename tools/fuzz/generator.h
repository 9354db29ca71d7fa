#pragma once
/// Generator: makes one random graph. Its methods are in four files: what it chooses from and adds
/// (generate_values.cpp), elementwise ops, views and reductions (generate.cpp), what becomes calls
/// (generate_calls.cpp), matmuls with epilogues (generate_models.cpp).

#include <algorithm>
#include <vector>

#include "fuzz/case.h"
#include "ir/primitives.h"

namespace hammock::fuzz {

inline constexpr DType kDTypes[] = {
    DType::kBool, DType::kU8,  DType::kU16, DType::kU32,  DType::kU64, DType::kI8, DType::kI16,
    DType::kI32,  DType::kI64, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
/// Of values in memory alone: graphs that backends compute have parts and bits of these.
inline constexpr DType kComplex[] = {DType::kC64, DType::kC128};
inline constexpr DType kStored[] = {DType::kF8E4M3, DType::kF8E5M2, DType::kI4,
                                    DType::kU4,     DType::kI2,     DType::kU2};
inline constexpr DType kFloats[] = {DType::kF32, DType::kF32, DType::kF32,
                                    DType::kF64, DType::kF16, DType::kBF16};

inline int64_t CountOf(const Dims& sizes) { return Shape(DType::kBool, sizes).numel(); }

class Generator {
 public:
  explicit Generator(uint64_t seed);
  Case Make();

 private:
  // ---- choices

  DType SomeDType() { return random_.OneIn(10) ? random_.Pick(kDTypes) : random_.Pick(dtypes_); }

  Dims SomeSizes();

  /// Some value of the graph, a recent one more often.
  GraphValue Any();

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

  GraphValue Input(const Shape& type);
  /// An input that nothing else uses, for positions.
  GraphValue Positions(const Dims& sizes) { return graph_.AddInput(Shape(DType::kI64, sizes)); }

  GraphValue Add(const OpDef& op, std::vector<GraphValue> inputs, std::vector<Attr> attrs = {});
  GraphValue Cast(GraphValue value, DType dtype);
  GraphValue Reshape(GraphValue value, const Dims& sizes);
  GraphValue Broadcast(GraphValue value, const Dims& sizes);
  GraphValue Constant(const Scalar& value, DType dtype, const Dims& sizes = {});
  Scalar SomeNumber(DType dtype);
  GraphValue WithoutNan(GraphValue value);
  static bool Broadcasts(const Dims& from, const Dims& to);

  /// A value of this type, made from what there is where that can be.
  GraphValue Like(DType dtype, const Dims& sizes);
  GraphValue Leaf(DType dtype, const Dims& sizes);

  // ---- kinds of steps

  void Step();
  void Choose();
  void Unary();

  /// The value with a dtype that the op computes in.
  GraphValue ForRule(const OpDef& op, GraphValue x);
  void Binary(GraphValue first);
  void Where();
  void Bitcast();
  /// Complex numbers, as split_complex leaves them: a value in memory and its parts.
  void Pair();
  /// Complex arithmetic, of parts and of numbers in memory.
  void ComplexOps();
  /// Casts of storage types in memory, and to them and back.
  void Stored();
  /// Results of a graph after the passes that replace complex numbers and storage types.
  void AddLowered(const Graph& body, const std::vector<GraphValue>& operands);
  /// Fourier transforms, in a quarter of the cases.
  void Transform();
  /// Both parts of a complex value.
  void AddParts(GraphValue whole);
  void View();

  /// Dims merged, split, added and dropped.
  Dims OtherSizes(Dims sizes);
  GraphValue Stretch(GraphValue x);
  void Permute(GraphValue x);
  GraphValue Slice(GraphValue x);
  std::vector<int64_t> SomeDims(int rank);
  void Flip(GraphValue x) { Add(ops::kFlip, {x}, {Attr(SomeDims(RankOf(x)))}); }

  GraphValue Reduced(GraphValue x, const std::vector<int64_t>& dims, bool keepdim);
  void Reduce();

  /// As in softmax and norms: rows are combined with what they were reduced to.
  void Normalise();

  /// Slices and pieces put together.
  void Move();
  void Strided(GraphValue x);

  /// Scans, windows and sorts.
  void Order();
  void Window(GraphValue x);

  /// Elements by position.
  void Pick();
  void MatMul();
  void Convolve();

  /// A matmul of a size at which any way to compute it may be chosen, and what follows it element
  /// by element or row by row.
  void Layer();
  GraphValue LayerMatMul(DType dtype);
  GraphValue ConvolvedImage(DType dtype);
  GraphValue ConvolvedAgain(GraphValue y);
  /// One step of an epilogue.
  GraphValue Follow(GraphValue y, int channel);
  /// Numbers between -1 and 1, for ops whose rounding is bounded for those alone.
  GraphValue Small(DType dtype, const Dims& sizes);
  void Attention();

  /// Bodies have ops with one right answer only.
  void Control();
  void ChooseOutputs();
  Random random_;
  uint64_t seed_;
  Graph graph_;
  std::vector<GraphValue> values_;
  int64_t palette_[3];
  DType dtypes_[3];
  int64_t limit_ = 0;
};

}  // namespace hammock::fuzz
