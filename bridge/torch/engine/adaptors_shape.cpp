// Views, creation, conversions and questions of shapes.

#include <hammock/boxing.h>
#include <hammock/ir/function.h>
#include <hammock/ops.h>

#include <map>

#include "engine/adaptor.h"
#include "engine/scope.h"

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;
using hammock::CallOp;
using hammock::DType;
using hammock::Tensor;

namespace {

using Call = const AtenCall&;

Any Same(Call c) { return c[0]; }
Any Cloned(Call c) { return hammock::clone(c.tensor(0)); }

/// `to` and `_to_copy` in all their forms: only the dtype changes the value.
Any To(Call c) {
  const Tensor& self = c.tensor(0);
  int other = c.find("other");
  if (other >= 0) return self.to(c.tensor(static_cast<size_t>(other)).dtype());
  int dtype = c.find("dtype");
  if (dtype < 0) return self;
  return self.to(c.dtype(static_cast<size_t>(dtype), self.dtype()));
}

/// PyTorch's graph has checked that the view is one; here the value alone counts.
Any View(Call c) { return hammock::reshape(c.tensor(0), c.ints(1)); }
Any ViewDType(Call c) { return hammock::view_dtype(c.tensor(0), c.dtype(1, c.tensor(0).dtype())); }

Any SqueezeDims(Call c) {
  Tensor result = c.tensor(0);
  std::vector<int64_t> dims = c.ints(1);
  for (int64_t& dim : dims) dim = hammock::WrapDim("squeeze", dim, result.dim());
  std::sort(dims.rbegin(), dims.rend());
  for (int64_t dim : dims) result = hammock::squeeze(result, dim);
  return result;
}

/// A value of the graph is row-major, so its elements lie where `as_strided` looks for them.
Any AsStrided(Call c) {
  Tensor flat = hammock::contiguous(c.tensor(0));
  int64_t offset = c.none(3) ? 0 : c.integer(3);
  return hammock::as_strided(flat, c.ints(1), c.ints(2), offset);
}

/// Of each element of a strided view, where it lies.
std::vector<int64_t> Places(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                            int64_t offset) {
  std::vector<int64_t> places = {offset};
  for (size_t d = 0; d < sizes.size(); ++d) {
    std::vector<int64_t> longer;
    for (int64_t place : places) {
      for (int64_t i = 0; i < sizes[d]; ++i) longer.push_back(place + i * strides[d]);
    }
    places = std::move(longer);
  }
  return places;
}

/// Where elements of the view share places, the last one stays, as in PyTorch's loop.
Tensor ScatterLast(const Tensor& base, const Tensor& source, const std::vector<int64_t>& places) {
  std::map<int64_t, int64_t> last;
  for (size_t i = 0; i < places.size(); ++i) last[places[i]] = static_cast<int64_t>(i);
  std::vector<int64_t> to, from;
  for (auto [place, element] : last) {
    to.push_back(place);
    from.push_back(element);
  }
  hammock::Dims count = {static_cast<int64_t>(to.size())};
  Tensor chosen =
      hammock::index_select(hammock::reshape(source, {-1}), 0,
                            hammock::tensor(from, count, std::nullopt, CurrentDevice()));
  return hammock::put(base, hammock::tensor(to, count, std::nullopt, CurrentDevice()), chosen);
}

bool Overlaps(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1) dims.emplace_back(strides[d], sizes[d]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;  // of the dims with smaller strides
  for (auto [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

Any AsStridedScatter(Call c) {
  Tensor base = hammock::clone(hammock::contiguous(c.tensor(0)));
  int64_t offset = c.none(4) ? 0 : c.integer(4);
  if (Overlaps(c.ints(2), c.ints(3))) {
    return ScatterLast(base, c.tensor(1), Places(c.ints(2), c.ints(3), offset));
  }
  Tensor view = hammock::as_strided(base, c.ints(2), c.ints(3), offset);
  hammock::copy_(view, c.tensor(1));
  return base;
}

/// Writes `values` to the view of zeros (or of a copy) that `view` makes.
Any Written(Tensor base, const Tensor& values, const std::function<Tensor(const Tensor&)>& view) {
  Tensor part = view(base);
  hammock::copy_(part, values);
  return base;
}

Any ZerosOf(Call c, size_t sizes) {
  return hammock::zeros(c.ints(sizes), c.tensor(0).dtype(), CurrentDevice());
}

Any SelectBackward(Call c) {
  return Written(ZerosOf(c, 1).ToTensor(), c.tensor(0),
                 [&](const Tensor& x) { return hammock::select(x, c.integer(2), c.integer(3)); });
}
Any SliceBackward(Call c) {
  return Written(ZerosOf(c, 1).ToTensor(), c.tensor(0), [&](const Tensor& x) {
    return hammock::slice(x, c.integer(2), c.integer(3), c.integer(4), c.integer(5));
  });
}
Any DiagonalBackward(Call c) {
  return Written(ZerosOf(c, 1).ToTensor(), c.tensor(0), [&](const Tensor& x) {
    return hammock::diagonal(x, c.integer(2), c.integer(3), c.integer(4));
  });
}
Any UnfoldBackward(Call c) {
  Tensor zeros = ZerosOf(c, 1).ToTensor();
  return GradsOf(
      [&](const std::vector<Tensor>& in) {
        return in[0].unfold(c.integer(2), c.integer(3), c.integer(4));
      },
      {zeros}, c.tensor(0))[0];
}

Any Copy(Call c) {
  const Tensor& self = c.tensor(0);
  return hammock::expand(c.tensor(1).to(self.dtype()), self.sizes());
}
Any CopyInto(Call c) {
  Tensor self = c.tensor(0);
  return hammock::copy_(self, c.tensor(1));
}

Any Empty(Call c) {
  int dtype = c.find("dtype");
  return hammock::zeros(c.ints(0), c.dtype(static_cast<size_t>(dtype), DType::kF32),
                        CurrentDevice());
}
Any EmptyLike(Call c) {
  return hammock::zeros(c.tensor(0).sizes(), c.dtype(1, c.tensor(0).dtype()), CurrentDevice());
}
Any NewFilled(Call c, const hammock::Scalar& value) {
  int dtype = c.find("dtype");
  return hammock::full(c.ints(1), value, c.dtype(static_cast<size_t>(dtype), c.tensor(0).dtype()),
                       CurrentDevice());
}

/// The dtype of a number that no dtype was given with, as PyTorch infers it for `full`.
DType NumberType(const hammock::Scalar& value) {
  if (value.IsComplex()) return DType::kC64;
  return value.IsBool() ? DType::kBool : value.IsInt() ? DType::kI64 : DType::kF32;
}
Any Full(Call c) {
  int dtype = c.find("dtype");
  return hammock::full(c.ints(0), c.number(1),
                       c.dtype(static_cast<size_t>(dtype), NumberType(c.number(1))),
                       CurrentDevice());
}
Any ScalarTensor(Call c) {
  return hammock::tensor(c.number(0), c.dtype(1, DType::kF32), CurrentDevice());
}
/// A number as a tensor of its own dtype: i64, f64 or bool.
Any NumToTensor(Call c) {
  hammock::Scalar number = c.number(0);
  return hammock::tensor(number, number.dtype(), CurrentDevice());
}

// ---- Questions that a shape answers

Any Size(Call c) {
  const Tensor& self = c.tensor(0);
  if (c.size() == 1) return Any::Ints(self.sizes().vec());
  return Any(self.size(c.integer(1)));
}
Any DTypeOfTensor(Call c) { return Any(NumberOfDType(c.tensor(0).dtype())); }

// ---- Lists of tensors

Any Length(Call c) {
  if (c[0].IsTensor()) return Any(c.tensor(0).size(0));
  if (!c[0].IsSequence()) throw Unsupported("aten::len of a " + c[0].type_name());
  return Any(static_cast<int64_t>(c[0].ToList().size()));
}
Any GetItem(Call c) {
  if (!c[0].IsSequence()) throw Unsupported("aten::__getitem__ of a " + c[0].type_name());
  const AnyList& items = c[0].ToList();
  int64_t index = c.integer(1);
  if (index < 0) index += static_cast<int64_t>(items.size());
  return items.at(static_cast<size_t>(index));
}
Any Append(Call c) {
  Any list = c[0];
  list.MutableList().push_back(c[1]);
  return list;
}

Any SplitCopy(Call c) {
  return hammock::boxing::FromTensors(hammock::split(c.tensor(0), c.integer(1), c.integer(2)));
}

constexpr AdaptorEntry kTable[] = {
    {"alias", Same},
    {"detach", Same},
    {"lift", Same},
    {"lift_fresh", Same},
    {"lift_fresh_copy", Cloned},
    {"resolve_conj", Same},
    {"resolve_neg", Same},
    {"contiguous", Same},
    {"clone", Cloned},
    {"to", To},
    {"_to_copy", To},
    {"prims::convert_element_type", To},
    {"type_as", To},
    {"view", View},
    {"_unsafe_view", View},
    {"_reshape_alias", View},
    {"reshape", View},
    {"view.dtype", ViewDType},
    {"squeeze.dims", SqueezeDims},
    {"as_strided", AsStrided},
    {"as_strided_scatter", AsStridedScatter},
    {"select_backward", SelectBackward},
    {"slice_backward", SliceBackward},
    {"diagonal_backward", DiagonalBackward},
    {"unfold_backward", UnfoldBackward},
    {"copy", Copy},
    {"_copy_from", Copy},
    {"copy_", CopyInto},
    {"empty", Empty},
    {"empty.memory_format", Empty},
    {"empty_strided",
     [](Call c) -> Any {
       return hammock::zeros(c.ints(0), c.dtype(2, DType::kF32), CurrentDevice());
     }},
    {"empty_permuted",
     [](Call c) -> Any {
       return hammock::zeros(c.ints(0), c.dtype(2, DType::kF32), CurrentDevice());
     }},
    {"empty_like", EmptyLike},
    {"new_empty", [](Call c) { return NewFilled(c, 0); }},
    {"new_empty_strided", [](Call c) { return NewFilled(c, 0); }},
    {"new_zeros", [](Call c) { return NewFilled(c, 0); }},
    {"new_ones", [](Call c) { return NewFilled(c, 1); }},
    {"new_full", [](Call c) { return NewFilled(c, c.number(2)); }},
    {"full", Full},
    {"scalar_tensor", ScalarTensor},
    {"NumToTensor", NumToTensor},
    {"zero", [](Call c) -> Any { return hammock::zeros_like(c.tensor(0)); }},
    {"split_copy.Tensor", SplitCopy},
    {"size", Size},
    {"sym_size", Size},
    {"dim", [](Call c) { return Any(int64_t{c.tensor(0).dim()}); }},
    {"numel", [](Call c) { return Any(c.tensor(0).numel()); }},
    {"sym_numel", [](Call c) { return Any(c.tensor(0).numel()); }},
    {"dtype", DTypeOfTensor},
    {"is_floating_point", [](Call c) { return Any(c.tensor(0).is_floating_point()); }},
    {"is_complex", [](Call c) { return Any(c.tensor(0).is_complex()); }},
    {"device", [](Call) { return Any(); }},
    {"len", Length},
    {"__getitem__.t", GetItem},
    {"append.t", Append},
};

}  // namespace

std::span<const AdaptorEntry> ShapeAdaptors() { return kTable; }

}  // namespace hammock_torch
