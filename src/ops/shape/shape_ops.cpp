// Joining, repeating and rearranging.

#include "hammock/ops/shape.h"

#include <algorithm>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/index_steps.h"
#include "ops/primitives/families.h"
#include "ops/primitives/require.h"
#include "trace/layout.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

void NeedTensors(const char* op, const std::vector<Tensor>& tensors) {
  if (tensors.empty()) Throw(ErrorCode::kValue, "{}: expected a non-empty list of tensors", op);
}

DType CommonDType(const std::vector<Tensor>& tensors) {
  DType dtype = tensors[0].dtype();
  for (const Tensor& tensor : tensors) dtype = PromoteTypes(dtype, tensor.dtype());
  return dtype;
}

/// PyTorch's empty vector of old: joins with anything.
bool IsSkipped(const Tensor& tensor) { return tensor.dim() == 1 && tensor.size(0) == 0; }

Tensor Join(const char* op, const std::vector<Tensor>& tensors, int64_t dim) {
  NeedTensors(op, tensors);
  DType dtype = CommonDType(tensors);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].dim() == 0) {
      Throw(ErrorCode::kShapeMismatch,
            "{}: tensor number {} has no dims and cannot be concatenated; use stack", op, i);
    }
    if (!IsSkipped(tensors[i])) parts.push_back(Casted(tensors[i], dtype));
  }
  if (parts.empty()) {
    WrapDim(op, dim, 1);
    return clone(Casted(tensors[0], dtype));
  }
  int d = WrapDim(op, dim, parts[0].dim());
  for (size_t i = 1; i < parts.size(); ++i) {
    bool fits = parts[i].dim() == parts[0].dim();
    for (int j = 0; fits && j < parts[0].dim(); ++j) {
      fits = j == d || parts[i].size(j) == parts[0].size(j);
    }
    if (fits) continue;
    Throw(ErrorCode::kShapeMismatch,
          "{}: sizes must match except in dim {}: expected {}, got {} for tensor number {}", op, d,
          parts[0].shape().to_string(), parts[i].shape().to_string(), i);
  }
  return parts.size() == 1 ? clone(parts[0]) : Concatenated(parts, d);
}

/// Sizes with ones in front up to `rank`.
Dims LeftPadded(const Dims& sizes, int rank) {
  Dims result = sizes;
  while (result.size() < rank) result.insert(0, 1);
  return result;
}

/// x[pre, size, post] as that, for a dim.
struct Around {
  int64_t pre = 1, size = 1, post = 1;
};
Around Split(const Dims& sizes, int dim) {
  Around around;
  for (int i = 0; i < sizes.size(); ++i) {
    (i < dim ? around.pre : i > dim ? around.post : around.size) *= sizes[i];
  }
  return around;
}

/// `count` copies of the whole dim one after another, or of each element.
Tensor Repeated(const Tensor& x, int dim, int64_t count, bool each) {
  if (count == 1) return x;
  Dims sizes = x.sizes();
  auto [pre, size, post] = Split(sizes, dim);
  Tensor parted = Reshaped(x, each ? Dims{pre, size, 1, post} : Dims{pre, 1, size, post});
  Tensor copies =
      Broadcasted(parted, each ? Dims{pre, size, count, post} : Dims{pre, count, size, post});
  sizes[dim] *= count;
  return Reshaped(copies, sizes);
}

Tensor Rolled(const Tensor& x, int64_t shift, int dim) {
  int64_t size = x.size(dim);
  if (size == 0) return x;
  int64_t start = ((-shift) % size + size) % size;
  if (start == 0) return x;
  const Tensor parts[] = {Sliced(x, dim, start, size - start), Sliced(x, dim, 0, start)};
  return Concatenated(parts, dim);
}

}  // namespace

// ---- Joining

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim, Location at) {
  LocationScope scope(at);
  return Join("cat", tensors, dim);
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim, Location at) {
  LocationScope scope(at);
  NeedTensors("stack", tensors);
  int d = WrapDim("stack", dim, tensors[0].dim() + 1);
  const DType dtype = CommonDType(tensors);
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) {
    if (tensor.sizes() != tensors[0].sizes()) {
      Throw(ErrorCode::kShapeMismatch, "stack: all sizes must be equal, got {} and {}",
            tensors[0].shape().to_string(), tensor.shape().to_string());
    }
    Dims sizes = tensor.sizes();
    sizes.insert(d, 1);
    parts.push_back(Casted(Reshaped(tensor, sizes), dtype));
  }
  return parts.size() == 1 ? clone(parts[0]) : Concatenated(parts, d);
}

Tensor hstack(const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  NeedTensors("hstack", tensors);
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(atleast_1d(tensor));
  return Join("hstack", parts, parts[0].dim() == 1 ? 0 : 1);
}

Tensor vstack(const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(atleast_2d(tensor));
  return Join("vstack", parts, 0);
}

Tensor dstack(const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) parts.push_back(atleast_3d(tensor));
  return Join("dstack", parts, 2);
}

Tensor column_stack(const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) {
    parts.push_back(tensor.dim() <= 1 ? Reshaped(tensor, {tensor.numel(), 1}) : tensor);
  }
  return Join("column_stack", parts, 1);
}

Tensor block_diag(const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  NeedTensors("block_diag", tensors);
  DType dtype = CommonDType(tensors);
  std::vector<Tensor> blocks;
  int64_t columns = 0, before = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.dim() > 2) {
      Throw(ErrorCode::kShapeMismatch, "block_diag: needs at most 2 dims, got {}",
            tensor.shape().to_string());
    }
    blocks.push_back(Reshaped(Casted(tensor, dtype), LeftPadded(tensor.sizes(), 2)));
    columns += blocks.back().size(1);
  }
  for (Tensor& block : blocks) {
    int64_t width = block.size(1);
    block = Padded(block, 1, before, columns - before - width, int64_t{0});
    before += width;
  }
  return blocks.size() == 1 ? clone(blocks[0]) : Concatenated(blocks, 0);
}

// ---- Repeating

Tensor repeat(const Tensor& self, const Dims& repeats, Location at) {
  LocationScope scope(at);
  if (repeats.size() < self.dim()) {
    Throw(ErrorCode::kValue, "repeat: needs at least {} numbers for {}, got {}", self.dim(),
          self.shape().to_string(), ToString(repeats));
  }
  Tensor result = Reshaped(self, LeftPadded(self.sizes(), repeats.size()));
  for (int i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 0) {
      Throw(ErrorCode::kNegativeSize, "repeat: repeats must be at least 0, got {}",
            ToString(repeats));
    }
    result = Repeated(result, i, repeats[i], false);
  }
  return result.is_same(self) ? clone(self) : result;
}

Tensor tile(const Tensor& self, const Dims& dims, Location at) {
  LocationScope scope(at);
  return repeat(self, LeftPadded(dims, self.dim()), at);
}

Tensor repeat_interleave(const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                         Location at) {
  LocationScope scope(at);
  if (repeats < 0) {
    Throw(ErrorCode::kNegativeSize, "repeat_interleave: repeats must be at least 0, got {}",
          repeats);
  }
  Tensor x = dim && self.dim() > 0 ? self : Reshaped(self, {self.numel()});
  int d = dim ? WrapDim("repeat_interleave", *dim, self.dim()) : 0;
  Tensor result = Repeated(x, d, repeats, true);
  return result.is_same(self) ? clone(self) : result;
}

Tensor repeat_interleave(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size, Location at) {
  LocationScope scope(at);
  Tensor x = dim && self.dim() > 0 ? self : Reshaped(self, {self.numel()});
  int d = dim ? WrapDim("repeat_interleave", *dim, self.dim()) : 0;
  int64_t size = x.size(d);
  if (repeats.dim() > 1 || (repeats.numel() != 1 && repeats.numel() != size) ||
      (repeats.dtype() != DType::kI64 && repeats.dtype() != DType::kI32)) {
    Throw(ErrorCode::kShapeMismatch,
          "repeat_interleave: repeats must be a number or {} integers for dim {} of {}, got {}",
          size, d, x.shape().to_string(), repeats.shape().to_string());
  }
  Tensor counts = Broadcasted(Casted(repeats, DType::kI64), {size});
  counts = Required(counts, ge(counts, ConstantLike(0, counts)), "repeat_interleave",
                    "repeats can not be negative");
  Tensor ends = cumsum(counts, 0, std::nullopt, at);
  int64_t total = 0;
  if (size > 0)
    total = output_size
                ? *output_size
                : ReadCount("repeat_interleave", Reshaped(Sliced(ends, 0, size - 1, 1), {}));
  Tensor source = searchsorted(ends, Counting(total, self), false, true, at);
  return Rows(x, source, d);
}

// ---- Rearranging

Tensor roll(const Tensor& self, const Dims& shifts, const Dims& dims, Location at) {
  LocationScope scope(at);
  if (shifts.empty() || (shifts.size() != dims.size() && !(dims.empty() && shifts.size() == 1))) {
    Throw(ErrorCode::kValue, "roll: needs as many shifts as dims, got {} and {}", ToString(shifts),
          ToString(dims));
  }
  if (dims.empty()) {
    Tensor flat = Rolled(Reshaped(self, {self.numel()}), shifts[0], 0);
    Tensor result = Reshaped(flat, self.sizes());
    return result.is_same(self) ? clone(self) : result;
  }
  Tensor result = self;
  for (int i = 0; i < dims.size(); ++i) {
    int d = WrapDim("roll", dims[i], self.dim());
    if (self.dim() > 0) result = Rolled(result, shifts[i], d);
  }
  return result.is_same(self) ? clone(self) : result;
}

Tensor flip(const Tensor& self, const Dims& dims, Location at) {
  LocationScope scope(at);
  if (dims.empty()) return clone(self, at);
  Dims wrapped = WrapDims("flip", dims, self.dim());
  if (self.dim() == 0) return clone(self, at);
  return LikeLayout(Apply(kFlip, at, {self}, {wrapped}), self);
}

Tensor fliplr(const Tensor& self, Location at) {
  LocationScope scope(at);
  NeedRank("fliplr", self, 2);
  return flip(self, {1}, at);
}

Tensor flipud(const Tensor& self, Location at) {
  LocationScope scope(at);
  NeedRank("flipud", self, 1);
  return flip(self, {0}, at);
}

Tensor rot90(const Tensor& self, int64_t k, const Dims& dims, Location at) {
  LocationScope scope(at);
  if (dims.size() != 2) {
    Throw(ErrorCode::kValue, "rot90: needs two dims, got {}", ToString(dims));
  }
  NeedRank("rot90", self, 2);
  Dims d = WrapDims("rot90", dims, self.dim());
  k = (k % 4 + 4) % 4;
  if (k == 0) return clone(self);
  if (k == 2) return flip(self, d);
  Dims order;
  for (int i = 0; i < self.dim(); ++i) order.push_back(i);
  std::swap(order[static_cast<int>(d[0])], order[static_cast<int>(d[1])]);
  int first = static_cast<int>(d[0]), second = static_cast<int>(d[1]);
  return k == 1 ? Permuted(Flipped(self, second), order) : Permuted(Flipped(self, first), order);
}

Tensor atleast_1d(const Tensor& self, Location at) {
  LocationScope scope(at);
  return self.dim() >= 1 ? self : reshape(self, {1}, at);
}

Tensor atleast_2d(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (self.dim() >= 2) return self;
  return self.dim() == 0 ? reshape(self, {1, 1}, at) : unsqueeze(self, 0, at);
}

Tensor atleast_3d(const Tensor& self, Location at) {
  LocationScope scope(at);
  if (self.dim() >= 3) return self;
  if (self.dim() == 0) return reshape(self, {1, 1, 1});
  return self.dim() == 1 ? unsqueeze(unsqueeze(self, 0), -1) : unsqueeze(self, -1);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, const std::string& indexing,
                             Location at) {
  LocationScope scope(at);
  NeedTensors("meshgrid", tensors);
  if (indexing != "ij" && indexing != "xy") {
    Throw(ErrorCode::kValue, "meshgrid: indexing must be ij or xy, got '{}'", indexing);
  }
  int rank = static_cast<int>(tensors.size());
  Dims sizes;
  for (const Tensor& tensor : tensors) {
    if (tensor.dim() > 1 || tensor.dtype() != tensors[0].dtype()) {
      Throw(ErrorCode::kShapeMismatch, "meshgrid: needs vectors of one dtype, got {} and {}",
            tensors[0].shape().to_string(), tensor.shape().to_string());
    }
    sizes.push_back(tensor.numel());
  }
  bool swapped = indexing == "xy" && rank >= 2;
  std::vector<Tensor> grids;
  for (int i = 0; i < rank; ++i) {
    Dims along = Dims::Filled(rank, 1);
    along[i] = sizes[i];
    Tensor grid = expand(view(reshape(tensors[i], {sizes[i]}), along), sizes);
    grids.push_back(swapped ? transpose(grid, 0, 1) : grid);
  }
  return grids;
}

Tensor cartesian_prod(const std::vector<Tensor>& tensors, Location at) {
  LocationScope scope(at);
  for (const Tensor& tensor : tensors) {
    if (tensor.dim() == 1) continue;
    Throw(ErrorCode::kShapeMismatch, "cartesian_prod: needs vectors, got {}",
          tensor.shape().to_string());
  }
  NeedTensors("cartesian_prod", tensors);
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> columns;
  for (const Tensor& grid : meshgrid(tensors)) columns.push_back(flatten(grid));
  return stack(columns, 1);
}

Tensor combinations(const Tensor& self, int64_t r, bool with_replacement, Location at) {
  LocationScope scope(at);
  if (self.dim() != 1 || r < 0) {
    Throw(ErrorCode::kShapeMismatch,
          "combinations: needs a vector and r of at least 0, got {} and {}",
          self.shape().to_string(), r);
  }
  if (r == 0) return Filled({0}, int64_t{0}, self.dtype(), self);
  // Positions are known when tracing, so each column is a concatenation of slices.
  std::vector<std::vector<int64_t>> picks;
  std::vector<int64_t> pick(static_cast<size_t>(r), 0);
  int64_t size = self.size(0), step = with_replacement ? 0 : 1;
  for (int64_t i = 0; i < r; ++i) pick[i] = i * step;
  while (size > 0 && pick.back() < size) {
    picks.push_back(pick);
    int64_t i = r - 1;
    while (i >= 0 && pick[i] == size - 1 - (r - 1 - i) * step) --i;
    if (i < 0) break;
    ++pick[i];
    for (int64_t j = i + 1; j < r; ++j) {
      pick[j] = pick[j - 1] + step;
    }
  }
  int64_t count = static_cast<int64_t>(picks.size());
  if (count == 0) return Filled({0, r}, int64_t{0}, self.dtype(), self);
  std::vector<Tensor> elements;
  for (const auto& row : picks) {
    for (int64_t i : row) elements.push_back(Sliced(self, 0, i, 1));
  }
  return Reshaped(Concatenated(elements, 0), {count, r});
}

Dims broadcast_shapes(const std::vector<Dims>& shapes) {
  Dims result;
  for (const Dims& shape : shapes) result = BroadcastSizes("broadcast_shapes", result, shape);
  return result;
}

// ---- Records

namespace {

template <Tensor (*F)(const Tensor&, Location)>
struct Each {
  static std::vector<Tensor> Call(const std::vector<Tensor>& tensors) {
    std::vector<Tensor> results;
    for (const Tensor& tensor : tensors) results.push_back(F(tensor, Location::current()));
    return results;
  }
};

Any CallBroadcastShapes(std::span<const Any> args) {
  std::vector<Dims> shapes;
  for (const Any& shape : args[0].ToList()) {
    shapes.push_back(shape.IsNumber() ? Dims{shape.ToInt()} : Dims(shape.ToInts()));
  }
  return Any::Ints(broadcast_shapes(shapes).vec());
}

Tensor InterleaveNumber(const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                        std::optional<int64_t>) {
  return repeat_interleave(self, repeats, dim);
}
Tensor InterleaveCounts(const Tensor& repeats, std::optional<int64_t> output_size) {
  LocationScope scope(Location::current());
  return repeat_interleave(Counting(repeats.numel(), repeats), repeats, 0, output_size);
}

using ByTensor = Tensor (*)(const Tensor&, const Tensor&, std::optional<int64_t>,
                            std::optional<int64_t>, Location);

HAMMOCK_FUNCTION(kCat, "cat(Tensor[] tensors, int dim=0) -> Tensor", "Joins along a dim.", cat)
HAMMOCK_FUNCTION(kStack, "stack(Tensor[] tensors, int dim=0) -> Tensor", "Joins along a new dim.",
                 stack)
HAMMOCK_FUNCTION(kHstack, "hstack(Tensor[] tensors) -> Tensor", "Joins side by side.", hstack)
HAMMOCK_FUNCTION(kVstack, "vstack(Tensor[] tensors) -> Tensor", "Joins as rows.", vstack)
HAMMOCK_FUNCTION(kDstack, "dstack(Tensor[] tensors) -> Tensor", "Joins along the third dim.",
                 dstack)
HAMMOCK_FUNCTION(kColumnStack, "column_stack(Tensor[] tensors) -> Tensor", "Joins as columns.",
                 column_stack)
HAMMOCK_FUNCTION(kBlockDiag, "block_diag(Tensor[] tensors) -> Tensor",
                 "Matrices along a diagonal, zeros elsewhere.", block_diag)
HAMMOCK_FUNCTION(kRepeat, "repeat(Tensor self, int[] repeats) -> Tensor", "Copies along each dim.",
                 repeat)
HAMMOCK_FUNCTION(kTile, "tile(Tensor self, int[1] dims) -> Tensor",
                 "As repeat, with missing numbers taken as one.", tile)
HAMMOCK_FUNCTION(
    kInterleaveTensor,
    "repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, int? "
    "output_size=None) -> Tensor",
    "Copies of each element, one count each.", static_cast<ByTensor>(repeat_interleave))
HAMMOCK_FUNCTION(kInterleaveInt,
                 "repeat_interleave.self_int(Tensor self, int repeats, int? dim=None, *, int? "
                 "output_size=None) -> Tensor",
                 "Copies of each element.", InterleaveNumber)
HAMMOCK_FUNCTION(kInterleave,
                 "repeat_interleave(Tensor repeats, *, int? output_size=None) -> Tensor",
                 "Each index as often as its count.", InterleaveCounts)
HAMMOCK_FUNCTION(kRoll, "roll(Tensor self, int[1] shifts, int[1] dims=[]) -> Tensor",
                 "Shifts along dims; what leaves one end enters the other.", roll)
HAMMOCK_FUNCTION(kFliplr, "fliplr(Tensor self) -> Tensor", "Reverses the second dim.", fliplr)
HAMMOCK_FUNCTION(kFlipud, "flipud(Tensor self) -> Tensor", "Reverses the first dim.", flipud)
HAMMOCK_FUNCTION(kRot90, "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor",
                 "Quarter turns in the plane of two dims.", rot90)
HAMMOCK_FUNCTION(kAtleast1d, "atleast_1d(Tensor self) -> Tensor", "At least one dim.", atleast_1d)
HAMMOCK_FUNCTION(kAtleast2d, "atleast_2d(Tensor self) -> Tensor", "At least two dims.", atleast_2d)
HAMMOCK_FUNCTION(kAtleast3d, "atleast_3d(Tensor self) -> Tensor", "At least three dims.",
                 atleast_3d)
HAMMOCK_FUNCTION(kAtleast1ds, "atleast_1d.Sequence(Tensor[] tensors) -> Tensor[]",
                 "At least one dim.", Each<atleast_1d>::Call)
HAMMOCK_FUNCTION(kAtleast2ds, "atleast_2d.Sequence(Tensor[] tensors) -> Tensor[]",
                 "At least two dims.", Each<atleast_2d>::Call)
HAMMOCK_FUNCTION(kAtleast3ds, "atleast_3d.Sequence(Tensor[] tensors) -> Tensor[]",
                 "At least three dims.", Each<atleast_3d>::Call)
HAMMOCK_FUNCTION(kMeshgrid, "meshgrid(Tensor[] tensors, *, str indexing=\"ij\") -> Tensor[]",
                 "Coordinates of a grid.", meshgrid)
HAMMOCK_FUNCTION(kCartesianProd, "cartesian_prod(Tensor[] tensors) -> Tensor",
                 "Every choice of one element from each vector.", cartesian_prod)
HAMMOCK_FUNCTION(kCombinations,
                 "combinations(Tensor self, int r=2, bool with_replacement=False) -> Tensor",
                 "Every choice of r elements.", combinations)
constinit const OpDef kBroadcastShapes = {
    .schema = "broadcast_shapes(Any[] shapes) -> int[]",
    .doc = "The common shape of broadcasting.",
    .call = CallBroadcastShapes,
};

}  // namespace

std::span<const OpDef* const> ops::ShapeOps() {
  static constexpr const OpDef* kOps[] = {
      &kCat,          &kStack,           &kHstack,           &kVstack,
      &kDstack,       &kColumnStack,     &kBlockDiag,        &kRepeat,
      &kTile,         &kInterleaveInt,   &kInterleaveTensor, &kInterleave,
      &kRoll,         &kFliplr,          &kFlipud,           &kRot90,
      &kAtleast1d,    &kAtleast2d,       &kAtleast3d,        &kAtleast1ds,
      &kAtleast2ds,   &kAtleast3ds,      &kMeshgrid,         &kCartesianProd,
      &kCombinations, &kBroadcastShapes,
  };
  return kOps;
}

}  // namespace hammock
