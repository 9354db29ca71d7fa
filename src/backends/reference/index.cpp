#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "backends/reference/elements.h"
#include "backends/reference/kernel.h"
#include "ir/primitives.h"

namespace hammock::reference {
namespace {

void CheckIndex(const KernelCall& call, int64_t index, int dim, int64_t size) {
  if (index >= 0 && index < size) return;
  Fail(call, ErrorCode::kIndexOutOfRange, "index {} is out of bounds for dimension {} with size {}",
       index, dim, size);
}

/// A 0-d tensor counts as a vector of one.
Dims AtLeastVector(const Dims& sizes) { return sizes.empty() ? Dims{1} : sizes; }

/// Calls `f(at, position)` for each element of `index`: its flat position, and the flat position in
/// a tensor of sizes `self` where dim `dim` is replaced by the index. Checks bounds.
template <class F>
void ForEachIndexed(const KernelCall& call, const HostTensor& index, const Dims& self, int dim,
                    F f) {
  Dims sizes = AtLeastVector(index.shape().sizes());
  Dims target = AtLeastVector(self);
  Dims strides = ContiguousStrides(target);
  std::vector<int64_t> indices = LoadAll<int64_t>(index);
  Dims at = Dims::Filled(sizes.size(), 0);
  for (size_t i = 0; i < indices.size(); ++i) {
    CheckIndex(call, indices[i], dim, target[dim]);
    int64_t position = 0;
    for (int d = 0; d < sizes.size(); ++d) position += (d == dim ? indices[i] : at[d]) * strides[d];
    f(static_cast<int64_t>(i), position);
    for (int d = sizes.size() - 1; d >= 0; --d) {
      if (++at[d] < sizes[d]) break;
      at[d] = 0;
    }
  }
}

void RunGather(KernelCall& call) {
  const HostTensor& self = *call.in[0];
  HostTensor& out = call.NewResult();
  int bytes = InfoOf(self.dtype()).bits / 8;
  const char* from = static_cast<const char*>(self.data());
  char* to = static_cast<char*>(out.mutable_data());
  ForEachIndexed(call, *call.in[1], self.shape().sizes(),
                 static_cast<int>(call.node.attrs[0].integer()), [&](int64_t at, int64_t position) {
                   std::memcpy(to + at * bytes, from + position * bytes, bytes);
                 });
}

/// For each element of `index`, in order: `f(flat position in source, flat position in self)`.
template <class F>
void ForEachScattered(const KernelCall& call, F f) {
  const HostTensor& index = *call.in[1];
  Dims sizes = AtLeastVector(index.shape().sizes());
  Dims strides = ContiguousStrides(AtLeastVector(call.in[2]->shape().sizes()));
  ForEachIndexed(call, index, call.in[0]->shape().sizes(),
                 static_cast<int>(call.node.attrs[0].integer()), [&](int64_t at, int64_t position) {
                   int64_t source = 0;
                   for (int d = sizes.size() - 1; d >= 0; --d) {
                     source += at % sizes[d] * strides[d];
                     at /= sizes[d];
                   }
                   f(source, position);
                 });
}

void OverwriteScattered(KernelCall& call) {
  HostTensor& out = call.NewResult();
  std::memcpy(out.mutable_data(), call.in[0]->data(), out.bytes());
  int bytes = InfoOf(out.dtype()).bits / 8;
  const char* from = static_cast<const char*>(call.in[2]->data());
  char* to = static_cast<char*>(out.mutable_data());
  ForEachScattered(call, [&](int64_t source, int64_t position) {
    std::memcpy(to + position * bytes, from + source * bytes, bytes);
  });
}

template <class Wide, class Combine>
void CombineScattered(KernelCall& call, Combine combine) {
  std::vector<Wide> values = LoadAll<Wide>(*call.in[0]);
  std::vector<Wide> updates = LoadAll<Wide>(*call.in[2]);
  ForEachScattered(call, [&](int64_t source, int64_t position) {
    values[position] = combine(values[position], updates[source]);
  });
  HostTensor& out = call.NewResult();
  Store(values.data(), out.numel(), out, 0);
}

void RunScatter(KernelCall& call) {
  const std::string& reduce = call.node.attrs[1].str();
  DType dtype = call.node.type().dtype();
  if (reduce == "none") return OverwriteScattered(call);
  if (reduce == "sum" || reduce == "prod") {
    bool sum = reduce == "sum";
    return VisitSum(dtype, [&](auto zero) {
      using Wide = decltype(zero);
      CombineScattered<Wide>(call, [sum](Wide x, Wide y) { return sum ? x + y : x * y; });
    });
  }
  bool max = reduce == "amax";
  VisitWide(dtype, [&](auto zero) {
    using Wide = decltype(zero);
    CombineScattered<Wide>(call, [max](Wide x, Wide y) {
      if (x != x || y != y) return x != x ? x : y;  // NaN wins
      return max ? std::max(x, y) : std::min(x, y);
    });
  });
}

void RunIndexSelect(KernelCall& call) {
  const HostTensor& self = *call.in[0];
  int dim = static_cast<int>(call.node.attrs[0].integer());
  Axis axis(self.shape().sizes(), dim);
  HostTensor& out = call.NewResult();
  std::vector<int64_t> indices = LoadAll<int64_t>(*call.in[1]);
  for (int64_t index : indices) CheckIndex(call, index, dim, axis.extent);
  int64_t bytes = axis.inner * (InfoOf(self.dtype()).bits / 8);
  const char* from = static_cast<const char*>(self.data());
  char* to = static_cast<char*>(out.mutable_data());
  for (int64_t outer = 0; outer < axis.outer; ++outer) {
    for (int64_t index : indices) {
      std::memcpy(to, from + (outer * axis.extent + index) * bytes, bytes);
      to += bytes;
    }
  }
}

void RunNonzero(KernelCall& call) {
  const HostTensor& self = *call.in[0];
  const Dims& sizes = self.shape().sizes();
  int64_t limit = call.node.attrs[0].integer();
  std::span<int64_t> out = call.NewResult().mutable_values<int64_t>();
  std::fill(out.begin(), out.end(), -1);
  int64_t found = 0;
  VisitWide(self.dtype(), [&](auto zero) {
    auto values = LoadAll<decltype(zero)>(self);
    for (int64_t i = 0; i < self.numel() && found < limit; ++i) {
      if (values[i] == 0) continue;
      int64_t rest = i;
      for (int d = sizes.size() - 1; d >= 0; --d) {
        out[found * sizes.size() + d] = rest % sizes[d];
        rest /= sizes[d];
      }
      ++found;
    }
  });
}

/// NaN counts as the largest number.
template <class Wide>
bool Less(Wide x, Wide y) {
  if constexpr (std::same_as<Wide, double>) {
    if (std::isnan(x)) return false;
    if (std::isnan(y)) return true;
  }
  return x < y;
}

/// The first `kept` of each row along `dim` in order, equal ones as they came, and their positions.
template <class Wide>
void SortRows(KernelCall& call, int dim, int64_t kept, bool descending) {
  const HostTensor& self = *call.in[0];
  Axis axis(self.shape().sizes(), dim);
  std::vector<Wide> values = LoadAll<Wide>(self);
  HostTensor& sorted = call.NewResult(0);
  std::span<int64_t> positions = call.NewResult(1).mutable_values<int64_t>();
  std::vector<int64_t> order(axis.extent);
  for (int64_t i = 0; i < axis.outer * axis.inner && kept > 0; ++i) {
    const Wide* row = &values[i / axis.inner * axis.extent * axis.inner + i % axis.inner];
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
      Wide a = row[x * axis.inner];
      Wide b = row[y * axis.inner];
      return descending ? Less(b, a) : Less(a, b);
    });
    for (int64_t k = 0; k < kept; ++k) {
      int64_t at = (i / axis.inner * kept + k) * axis.inner + i % axis.inner;
      positions[at] = order[k];
      Store(&row[order[k] * axis.inner], 1, sorted, at);
    }
  }
}

void RunSort(KernelCall& call) {
  const SharedList<Attr>& attrs = call.node.attrs;
  int dim = static_cast<int>(attrs[0].integer());
  int64_t extent = Axis(call.in[0]->shape().sizes(), dim).extent;
  VisitWide(call.in[0]->dtype(),
            [&](auto zero) { SortRows<decltype(zero)>(call, dim, extent, attrs[1].boolean()); });
}

void RunTopK(KernelCall& call) {
  const SharedList<Attr>& attrs = call.node.attrs;
  VisitWide(call.in[0]->dtype(), [&](auto zero) {
    SortRows<decltype(zero)>(call, static_cast<int>(attrs[1].integer()), attrs[0].integer(),
                             attrs[2].boolean());
  });
}

constexpr KernelEntry kKernels[] = {
    {&ops::kGather, RunGather},
    {&ops::kScatter, RunScatter},
    {&ops::kIndexSelect, RunIndexSelect},
    {&ops::kNonzeroBounded, RunNonzero},
    {&ops::kSort, RunSort},
    {&ops::kTopK, RunTopK},
};

}  // namespace

std::span<const KernelEntry> IndexKernels() { return kKernels; }

}  // namespace hammock::reference
