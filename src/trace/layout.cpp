#include "trace/layout.h"

#include <algorithm>
#include <numeric>

#include "base/throw.h"
#include "ir/primitives.h"
#include "trace/tensor_impl.h"

namespace hammock {

namespace {

constexpr int kChannelsLastOrder[] = {1, 3, 2, 0};  // fastest first, of N, C, H, W

Dims Reversed(int rank) {
  Dims order = Dims::Filled(rank, 0);
  std::iota(std::make_reverse_iterator(order.end()), std::make_reverse_iterator(order.begin()), 0);
  return order;
}

bool HasZeroSize(const Dims& sizes) {
  return std::find(sizes.begin(), sizes.end(), 0) != sizes.end();
}

/// Strides that fill memory, `order` from the fastest dim to the slowest.
template <class Order>
Dims DenseStrides(const Dims& sizes, const Order& order, int64_t least) {
  Dims strides = sizes;
  int64_t next = 1;
  for (int64_t dim : order) {
    strides[static_cast<int>(dim)] = next;
    next *= std::max(sizes[static_cast<int>(dim)], least);
  }
  return strides;
}

bool IsChannelsLast(const Geometry& geometry) {
  if (geometry.sizes.size() != 4) return false;
  int64_t expected = 1;
  for (int dim : kChannelsLastOrder) {
    if (geometry.sizes[dim] == 1) continue;
    if (geometry.strides[dim] != expected) return false;
    expected *= geometry.sizes[dim];
  }
  return true;
}

/// Strides of an operand beside a result of these sizes; 0 where it is repeated.
Dims BroadcastStrides(const Dims& sizes, const Geometry& operand) {
  Dims strides = Dims::Filled(sizes.size(), 0);
  int lead = sizes.size() - operand.sizes.size();
  for (int i = lead; i < sizes.size(); ++i) {
    if (operand.sizes[i - lead] == sizes[i]) strides[i] = operand.strides[i - lead];
  }
  return strides;
}

/// Whether dim `a` is slower than dim `b`: 1, -1 if it is faster, 0 if no operand tells.
int CompareDims(const Dims& sizes, std::span<const Dims> operands, int a, int b) {
  for (const Dims& strides : operands) {
    if (strides[a] == 0 || strides[b] == 0) continue;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    if (sizes[a] > sizes[b]) return 1;
  }
  return 0;
}

/// The dims from the fastest to the slowest. Row-major where no operand tells two dims apart, so
/// comparison is no order and the way of sorting matters: insertion, passing over ties.
Dims SortedDims(const Dims& sizes, std::span<const Dims> operands) {
  Dims order = Reversed(sizes.size());
  for (int i = 1; i < order.size(); ++i) {
    int moving = i;
    for (int before = i - 1; before >= 0; --before) {
      int slower = CompareDims(sizes, operands, static_cast<int>(order[before]),
                               static_cast<int>(order[moving]));
      if (slower < 0) break;
      if (slower == 0) continue;
      std::swap(order[before], order[moving]);
      moving = before;
    }
  }
  return order;
}

}  // namespace

bool IsRowMajor(const Geometry& geometry) {
  if (HasZeroSize(geometry.sizes)) return true;
  int64_t expected = 1;
  for (int i = geometry.sizes.size(); i-- > 0;) {
    if (geometry.sizes[i] == 1) continue;
    if (geometry.strides[i] != expected) return false;
    expected *= geometry.sizes[i];
  }
  return true;
}

bool IsDense(const Geometry& geometry) {
  if (HasZeroSize(geometry.sizes)) return true;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (int i = 0; i < geometry.sizes.size(); ++i) {
    if (geometry.sizes[i] > 1) dims.emplace_back(geometry.strides[i], geometry.sizes[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t expected = 1;
  for (auto [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

Dims ElementwiseStrides(const Dims& sizes, std::span<const Geometry> operands) {
  auto all = [&](auto&& test) { return std::all_of(operands.begin(), operands.end(), test); };
  if (all([&](const Geometry& operand) { return operand.sizes == sizes; })) {
    if (all(IsRowMajor)) return ContiguousStrides(sizes);
    if (all(IsChannelsLast)) return DenseStrides(sizes, kChannelsLastOrder, 1);
    const Dims& first = operands[0].strides;
    if (IsDense(operands[0]) &&
        all([&](const Geometry& operand) { return operand.strides == first; })) {
      return first;
    }
  }
  std::vector<Dims> strides;
  for (const Geometry& operand : operands) strides.push_back(BroadcastStrides(sizes, operand));
  Dims order = SortedDims(sizes, strides);
  if (order == Reversed(sizes.size())) return ContiguousStrides(sizes);
  return DenseStrides(sizes, order, 0);
}

Dims CopyStrides(const Geometry& geometry) {
  if (IsDense(geometry)) return geometry.strides;
  return DenseStrides(geometry.sizes, SortedDims(geometry.sizes, std::span(&geometry.strides, 1)),
                      1);
}

void SetStrides(TensorImpl& impl, const Dims& strides) {
  HAMMOCK_CHECK(!impl.SharesMemory(), "the strides of a view cannot be set");
  if (!impl.owner) return;  // symbolic
  const Dims& sizes = impl.node->shape(static_cast<int>(impl.index)).sizes();
  std::unique_ptr<ViewState> view;
  if (strides != ContiguousStrides(sizes)) {
    view = std::make_unique<ViewState>(strides);
  }
  std::lock_guard lock(impl.owner->lock);
  impl.view.swap(view);
}

Dims StorageOrder(const Dims& sizes, const Dims& strides) {
  if (IsRowMajor({sizes, strides, 0})) return {};
  Dims order = Dims::Filled(sizes.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  auto slower = [&](int64_t a, int64_t b) {
    return strides[static_cast<int>(a)] > strides[static_cast<int>(b)];
  };
  std::stable_sort(order.begin(), order.end(), slower);
  return order;
}

bool IsStrided(const TensorImpl& impl) {
  if (!impl.view) return false;
  const Dims& sizes = impl.node->shape(static_cast<int>(impl.index)).sizes();
  return impl.view->strides != ContiguousStrides(sizes);
}

void KeepLayout(const Tensor& result, std::span<const Tensor> operands, bool numbers) {
  if (!result.impl()->owner || result.impl()->SharesMemory() || Context().baking > 0) return;
  auto strided = [](const Tensor& operand) {
    return operand.defined() && IsStrided(*operand.impl());
  };
  if (std::none_of(operands.begin(), operands.end(), strided)) return;
  std::vector<Geometry> geometries;
  for (const Tensor& operand : operands) {
    if (!operand.defined()) continue;
    if (operand.is_same(result)) return;
    if (!numbers && &operand.impl()->node->op() == &ops::kScalarLeaf) continue;
    geometries.push_back(GeometryOf(*operand.impl()));
  }
  if (!geometries.empty()) {
    SetStrides(*result.impl(), ElementwiseStrides(result.sizes(), geometries));
  }
}

Tensor LikeLayout(Tensor result, const Tensor& self) {
  if (self.impl()->view) SetStrides(*result.impl(), CopyStrides(GeometryOf(*self.impl())));
  return result;
}

Tensor RowMajor(Tensor result) {
  TensorImpl& impl = *result.impl();
  if (impl.view && !impl.SharesMemory()) SetStrides(impl, ContiguousStrides(result.sizes()));
  return result;
}

}  // namespace hammock
