// Padding, triangles and diagonals; differences and sums along dims.

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/index.h"
#include "hammock/ops/reduce.h"
#include "hammock/ops/shape.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kCross;

extern const OpDef kTril, kTriu;

// ---- Padding

/// (low, high) of each dim, from PyTorch's list that starts at the last dim.
struct Amounts {
  Dims low, high;
};

Amounts ReadAmounts(const Tensor& self, const std::vector<int64_t>& pad) {
  if (pad.size() % 2 != 0 || pad.size() / 2 > static_cast<size_t>(self.dim())) {
    Throw(ErrorCode::kValue, "pad: needs (before, after) for at most {} dims of {}, got {} numbers",
          self.dim(), self.shape().to_string(), pad.size());
  }
  constexpr int64_t kMost = int64_t{1} << 48;  // so that no sum of sizes overflows
  for (int64_t amount : pad) {
    if (amount >= -kMost && amount <= kMost) continue;
    Throw(ErrorCode::kValue, "pad: {} elements at one side of {}; at most {} can be", amount,
          self.shape().to_string(), kMost);
  }
  Amounts amounts{Dims::Filled(self.dim(), 0), Dims::Filled(self.dim(), 0)};
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    int dim = self.dim() - 1 - static_cast<int>(i);
    amounts.low[dim] = pad[2 * i];
    amounts.high[dim] = pad[2 * i + 1];
  }
  for (int i = 0; i < self.dim(); ++i) {
    if (self.size(i) + amounts.low[i] + amounts.high[i] >= 0) continue;
    Throw(ErrorCode::kNegativeSize, "pad: dim {} of {} would have the size {}", i,
          self.shape().to_string(), self.size(i) + amounts.low[i] + amounts.high[i]);
  }
  return amounts;
}

/// Negative amounts crop first; what is left to add is returned.
Tensor Cropped(const Tensor& x, int dim, int64_t& low, int64_t& high) {
  int64_t start = std::max<int64_t>(-low, 0), end = x.size(dim) - std::max<int64_t>(-high, 0);
  low = std::max<int64_t>(low, 0);
  high = std::max<int64_t>(high, 0);
  return Sliced(x, dim, start, end - start);
}

[[noreturn]] void TooMuch(const std::string& mode, const Tensor& x, int dim, int64_t low,
                          int64_t high) {
  Throw(ErrorCode::kValue, "pad: {} cannot add ({}, {}) to dim {} of {}; the dim is too small",
        mode, low, high, dim, x.shape().to_string());
}

Tensor PadDim(const std::string& mode, const Tensor& self, int dim, int64_t low, int64_t high) {
  Tensor x = Cropped(self, dim, low, high);
  if (low == 0 && high == 0) return x;
  int64_t size = x.size(dim);
  std::vector<Tensor> parts;
  auto add = [&](int64_t start, int64_t count, bool flipped) {
    if (count == 0) return;
    Tensor part = Sliced(x, dim, start, count);
    parts.push_back(flipped ? Flipped(part, dim) : part);
  };
  auto edge = [&](int64_t start, int64_t count) {
    if (count == 0) return;
    Dims sizes = x.sizes();
    sizes[dim] = count;
    parts.push_back(Broadcasted(Sliced(x, dim, start, 1), sizes));
  };
  if (mode == "reflect") {
    if (low >= size || high >= size) TooMuch(mode, x, dim, low, high);
    add(1, low, true);
    parts.push_back(x);
    add(size - 1 - high, high, true);
  } else if (mode == "replicate") {
    if (size == 0) TooMuch(mode, x, dim, low, high);
    edge(0, low);
    parts.push_back(x);
    edge(size - 1, high);
  } else {
    if (low > size || high > size) TooMuch(mode, x, dim, low, high);
    add(size - low, low, false);
    parts.push_back(x);
    add(0, high, false);
  }
  return Concatenated(parts, dim);
}

// ---- Triangles

void InferTriangle(const InferCall& c) { c.out.push_back(*c.in[0]); }

std::vector<Tensor> ExpandTriangle(const ExpandCall& c) {
  const Tensor& x = c.in[0];
  int64_t rows = x.size(-2), columns = x.size(-1);
  Tensor row = Reshaped(Counting(rows, x), {rows, 1});
  Tensor column = Counting(columns, x);
  Tensor limit = row + ConstantLike(c.attrs[0].integer(), row);
  Tensor keep = &c.op == &kTril ? le(column, limit) : ge(column, limit);
  return {where(keep, x, ConstantLike(0, x))};
}

Tensor Triangle(const OpDef& op, const Tensor& self, int64_t diagonal, const Location& at) {
  if (self.dim() < 2) {
    Throw(ErrorCode::kShapeMismatch, "{}: needs at least 2 dims, got {}", op.name(),
          self.shape().to_string());
  }
  return Apply(op, at, {self}, {diagonal});
}

}  // namespace

Tensor constant_pad_nd(const Tensor& self, const std::vector<int64_t>& pad, const Scalar& value,
                       Location at) {
  LocationScope scope(at);
  auto [low, high] = ReadAmounts(self, pad);
  return Apply(kPad, at, {self, Lift(value, self.dtype())}, {low, high});
}

Tensor pad(const Tensor& self, const std::vector<int64_t>& pad, const std::string& mode,
           const Scalar& value, Location at) {
  LocationScope scope(at);
  if (mode == "constant") return constant_pad_nd(self, pad, value, at);
  if (mode != "reflect" && mode != "replicate" && mode != "circular") {
    Throw(ErrorCode::kValue, "pad: mode must be constant, reflect, replicate or circular, got '{}'",
          mode);
  }
  auto [low, high] = ReadAmounts(self, pad);
  int padded = static_cast<int>(pad.size() / 2);
  if (padded < 1 || padded > 3 || self.dim() < padded + 1 || self.dim() > padded + 2) {
    Throw<NotSupported>(ErrorCode::kNotSupported,
                        "pad: {} needs 1 to 3 padded dims behind one or two others, got {} numbers "
                        "for {}",
                        mode, pad.size(), self.shape().to_string());
  }
  for (int i = self.dim() - padded; i < self.dim(); ++i) {
    if (self.size(i) == 0) TooMuch(mode, self, i, low[i], high[i]);
  }
  Tensor result = self;
  for (int i = self.dim() - padded; i < self.dim(); ++i) {
    result = PadDim(mode, result, i, low[i], high[i]);
  }
  return result.is_same(self) ? clone(self) : result;
}

Tensor tril(const Tensor& self, int64_t diagonal, Location at) {
  LocationScope scope(at);
  return Triangle(kTril, self, diagonal, at);
}

Tensor triu(const Tensor& self, int64_t diagonal, Location at) {
  LocationScope scope(at);
  return Triangle(kTriu, self, diagonal, at);
}

Tensor diag(const Tensor& self, int64_t diagonal, Location at) {
  LocationScope scope(at);
  if (self.dim() == 1) return diag_embed(self, diagonal);
  if (self.dim() != 2) {
    Throw(ErrorCode::kShapeMismatch, "diag: needs a vector or a matrix, got {}",
          self.shape().to_string());
  }
  return clone(hammock::diagonal(self, diagonal));
}

Tensor diag_embed(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2, Location at) {
  LocationScope scope(at);
  if (self.dim() == 0) {
    Throw(ErrorCode::kShapeMismatch, "diag_embed: needs at least one dim, got {}",
          self.shape().to_string());
  }
  int rank = self.dim() + 1;
  int first = WrapDim("diag_embed", dim1, rank), second = WrapDim("diag_embed", dim2, rank);
  if (first == second) {
    Throw(ErrorCode::kValue, "diag_embed: dim1 and dim2 are both {}, must differ", first);
  }
  int64_t count = self.size(-1), size = count + std::abs(offset);
  // Column j holds element j - max(offset, 0), in the row where j - i is the offset.
  int last = self.dim() - 1;
  Tensor wide =
      Padded(self, last, std::max<int64_t>(offset, 0), std::max<int64_t>(-offset, 0), int64_t{0});
  Dims sizes = wide.sizes();
  sizes.insert(last, 1);
  Tensor row = Reshaped(Counting(size, self), {size, 1}), column = Counting(size, self);
  Tensor on = eq(column, row + ConstantLike(offset, row));
  Tensor matrix = where(on, Reshaped(wide, sizes), ConstantLike(0, self));
  // From the last two dims to where they are wanted.
  Dims order = Dims::Filled(rank, -1);
  order[first] = rank - 2;
  order[second] = rank - 1;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    if (order[i] < 0) order[i] = next++;
  }
  return Permuted(matrix, order);
}

Tensor diagflat(const Tensor& self, int64_t offset, Location at) {
  LocationScope scope(at);
  return diag_embed(Reshaped(self, {self.numel()}), offset);
}

// ---- Along dims

Tensor sum_to_size(const Tensor& self, const Dims& size, Location at) {
  LocationScope scope(at);
  int extra = self.dim() - size.size();
  bool fits = extra >= 0;
  for (int i = 0; fits && i < size.size(); ++i) {
    fits = size[i] == 1 || size[i] == self.size(extra + i);
  }
  if (!fits) {
    Throw(ErrorCode::kShapeMismatch, "sum_to_size: {} does not broadcast to {}", ToString(size),
          self.shape().to_string());
  }
  Dims dims;
  for (int i = 0; i < self.dim(); ++i) {
    if (i < extra || (size[i - extra] == 1 && self.size(i) != 1)) dims.push_back(i);
  }
  if (dims.empty() && !size.empty()) return self;
  return Reshaped(sum(self, dims, true, std::nullopt, at), size);
}

Tensor cross(const Tensor& self, const Tensor& other, std::optional<int64_t> dim, Location at) {
  if (Autocasted cast(kCross, at, self, other); cast)
    return cross(cast(self), cast(other), dim, at);
  LocationScope scope(at);
  if (self.dim() != other.dim()) {
    Throw(ErrorCode::kShapeMismatch, "cross: needs as many dims in {} as in {}",
          self.shape().to_string(), other.shape().to_string());
  }
  Dims sizes = BroadcastSizes("cross", self.sizes(), other.sizes());
  int d = -1;
  if (dim) {
    d = WrapDim("cross", *dim, self.dim());
  } else {
    for (int i = sizes.size() - 1; i >= 0; --i) {
      if (sizes[i] == 3) d = i;
    }
  }
  if (d < 0 || self.dim() == 0 || self.size(d) != 3 || other.size(d) != 3) {
    Throw(ErrorCode::kShapeMismatch, "cross: needs a dim of size 3, got {} and {}",
          self.shape().to_string(), other.shape().to_string());
  }
  auto rotated = [&](const Tensor& x, int64_t first) {  // (x[first], x[first + 1], x[first + 2])
    const Tensor parts[] = {Sliced(x, d, first, 3 - first), Sliced(x, d, 0, first)};
    return Concatenated(parts, d);
  };
  return rotated(self, 1) * rotated(other, 2) - rotated(self, 2) * rotated(other, 1);
}

Tensor diff(const Tensor& self, int64_t n, int64_t dim, const std::optional<Tensor>& prepend,
            const std::optional<Tensor>& append, Location at) {
  LocationScope scope(at);
  if (self.dim() == 0 || n < 0) {
    Throw(ErrorCode::kShapeMismatch,
          "diff: needs at least one dim and n of at least 0, got {} and {}",
          self.shape().to_string(), n);
  }
  int d = WrapDim("diff", dim, self.dim());
  if (n == 0) return clone(self);
  std::vector<Tensor> parts;
  if (prepend) parts.push_back(*prepend);
  parts.push_back(self);
  if (append) parts.push_back(*append);
  Tensor x = parts.size() == 1 ? self : cat(parts, d, at);
  for (int64_t i = 0; i < n; ++i) {
    int64_t size = std::max<int64_t>(x.size(d) - 1, 0);
    if (size == 0) {
      Dims sizes = x.sizes();
      sizes[d] = 0;
      return Filled(sizes, int64_t{0}, x.dtype(), x);
    }
    Tensor later = Sliced(x, d, 1, size), earlier = Sliced(x, d, 0, size);
    x = x.dtype() == DType::kBool ? logical_xor(later, earlier) : later - earlier;
  }
  return x;
}

namespace {

/// Areas between neighbours along the last dim: dx * (y[i] + y[i + 1]) / 2.
Tensor Areas(const Tensor& y, int d, const Tensor& dx) {
  int64_t size = std::max<int64_t>(y.size(d) - 1, 0);
  Tensor pairs = Sliced(y, d, 0, size) + Sliced(y, d, y.size(d) - size, size);
  Tensor scaled = pairs * dx;
  if (!IsFloat(scaled.dtype())) scaled = Casted(scaled, kDefaultFloat);
  return scaled / ConstantLike(2, scaled);
}

/// Distances of the points `x`, of the rank of `y`.
Tensor Distances(const char* op, const Tensor& y, int d, const Tensor& x) {
  Dims sizes = x.sizes();
  if (x.dim() == 1) {
    sizes = Dims::Filled(y.dim(), 1);
    sizes[d] = x.numel();
  } else {
    while (sizes.size() < y.dim()) sizes.insert(0, 1);
  }
  if (sizes.size() != y.dim() || sizes[d] != y.size(d)) {
    Throw(ErrorCode::kShapeMismatch, "{}: x {} must have as many points along dim {} as y {}", op,
          x.shape().to_string(), d, y.shape().to_string());
  }
  Tensor points = Reshaped(x, sizes);
  return diff(points, 1, d);
}

int AreaDim(const char* op, const Tensor& y, int64_t dim) {
  int d = WrapDim(op, dim, y.dim());
  if (y.dim() == 0 || y.dtype() == DType::kBool) {
    Throw(ErrorCode::kShapeMismatch, "{}: needs numbers along a dim, got {}", op,
          y.shape().to_string());
  }
  return d;
}

Tensor AreasOver(const char* op, const Tensor& y, const Tensor& x, int d) {
  return Areas(y, d, Distances(op, y, d, x));
}

Tensor AreasBy(const Tensor& y, const Scalar& dx, int d) {
  return Areas(y, d, Lift(dx, ResultType(y, dx)));
}

}  // namespace

Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim, Location at) {
  LocationScope scope(at);
  int d = AreaDim("trapezoid", y, dim);
  return sum(AreasOver("trapezoid", y, x, d), {d}, false, std::nullopt, at);
}

Tensor trapezoid(const Tensor& y, const Scalar& dx, int64_t dim, Location at) {
  LocationScope scope(at);
  int d = AreaDim("trapezoid", y, dim);
  return sum(AreasBy(y, dx, d), {d}, false, std::nullopt, at);
}

Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim, Location at) {
  LocationScope scope(at);
  int d = AreaDim("cumulative_trapezoid", y, dim);
  return cumsum(AreasOver("cumulative_trapezoid", y, x, d), d, std::nullopt, at);
}

Tensor cumulative_trapezoid(const Tensor& y, const Scalar& dx, int64_t dim, Location at) {
  LocationScope scope(at);
  int d = AreaDim("cumulative_trapezoid", y, dim);
  return cumsum(AreasBy(y, dx, d), d, std::nullopt, at);
}

// ---- Records

namespace {

Tensor PadBoxed(const Tensor& self, const std::vector<int64_t>& amounts, const std::string& mode,
                std::optional<Scalar> value) {
  return pad(self, amounts, mode, value.value_or(Scalar(int64_t{0})));
}

using Over = Tensor (*)(const Tensor&, const Tensor&, int64_t, Location);
using By = Tensor (*)(const Tensor&, const Scalar&, int64_t, Location);

HAMMOCK_FUNCTION(kPadFn,
                 "pad(Tensor self, int[] pad, str mode=\"constant\", Scalar? value=None) -> Tensor",
                 "Adds elements before and after the last dims; negative amounts crop.", PadBoxed)
HAMMOCK_FUNCTION(kConstantPad, "constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor",
                 "Adds a value before and after the last dims; negative amounts crop.",
                 constant_pad_nd)
HAMMOCK_FUNCTION(kDiag, "diag(Tensor self, int diagonal=0) -> Tensor",
                 "A matrix with this diagonal, or the diagonal of this matrix.", diag)
HAMMOCK_FUNCTION(kDiagEmbed,
                 "diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor",
                 "Matrices with the last dim as diagonal.", diag_embed)
HAMMOCK_FUNCTION(kDiagflat, "diagflat(Tensor self, int offset=0) -> Tensor",
                 "A matrix with all elements as diagonal.", diagflat)
HAMMOCK_FUNCTION(kSumToSize, "sum_to_size(Tensor self, int[] size) -> Tensor",
                 "Sums the dims that broadcasting would stretch.", sum_to_size)
HAMMOCK_FUNCTION(kCross, "cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
                 "Cross product of vectors of three.", cross, AutocastRule::kWidest)
HAMMOCK_FUNCTION(kDiff,
                 "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? "
                 "append=None) -> Tensor",
                 "Differences of neighbours, n times.", diff)
#define HAMMOCK_AREA(name, function, about)                                                      \
  HAMMOCK_FUNCTION(k_##name##_x, #name ".x(Tensor y, Tensor x, *, int dim=-1) -> Tensor", about, \
                   static_cast<Over>(function))                                                  \
  HAMMOCK_FUNCTION(k_##name##_dx, #name ".dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",   \
                   about, static_cast<By>(function))
HAMMOCK_AREA(trapezoid, trapezoid, "Area under points, by trapezoids.")
HAMMOCK_AREA(trapz, trapezoid, "As trapezoid.")
HAMMOCK_AREA(cumulative_trapezoid, cumulative_trapezoid, "Running area under points.")
#undef HAMMOCK_AREA

constinit const OpDef kTril = {
    .schema = "tril(Tensor self, int diagonal=0) -> Tensor",
    .doc = "The lower triangles of matrices, zeros above.",
    .call = Box<tril>,
    .infer = InferTriangle,
    .expand = ExpandTriangle,
    .samples = {{"f32[3,4]", "{diagonal=1}"}},
};
constinit const OpDef kTriu = {
    .schema = "triu(Tensor self, int diagonal=0) -> Tensor",
    .doc = "The upper triangles of matrices, zeros below.",
    .call = Box<triu>,
    .infer = InferTriangle,
    .expand = ExpandTriangle,
    .samples = {{"f32[3,4]", "{diagonal=-1}"}},
};

}  // namespace

std::span<const OpDef* const> ops::PadOps() {
  static constexpr const OpDef* kOps[] = {
      &kPadFn,
      &kConstantPad,
      &kTril,
      &kTriu,
      &kDiag,
      &kDiagEmbed,
      &kDiagflat,
      &kSumToSize,
      &kCross,
      &kDiff,
      &k_trapezoid_x,
      &k_trapezoid_dx,
      &k_trapz_x,
      &k_trapz_dx,
      &k_cumulative_trapezoid_x,
      &k_cumulative_trapezoid_dx,
  };
  return kOps;
}

}  // namespace hammock
