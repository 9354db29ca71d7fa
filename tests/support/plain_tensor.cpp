#include "support/plain_tensor.h"

#include <algorithm>
#include <stdexcept>

namespace hammock::testing {
namespace {

int64_t Int(const Statement& statement, size_t index) {
  return std::get<int64_t>(statement.args.at(index));
}
Dims Ints(const Statement& statement, size_t index) {
  return Dims(std::get<std::vector<int64_t>>(statement.args.at(index)));
}

/// Replaces one -1 by the size that fits.
Dims Inferred(Dims sizes, int64_t numel) {
  int64_t known = 1;
  for (int64_t size : sizes) known *= size < 0 ? 1 : size;
  for (int64_t& size : sizes) {
    if (size < 0) size = numel / known;
  }
  return sizes;
}

}  // namespace

std::optional<Dims> ViewStrides(const Dims& sizes, const Dims& strides, const Dims& new_sizes) {
  if (sizes.empty()) return Dims::Filled(new_sizes.size(), 1);
  if (Shape(DType::kF32, sizes).numel() == 0) {
    return sizes == new_sizes ? strides : ContiguousStrides(new_sizes);
  }
  Dims result = new_sizes;
  int next = new_sizes.size() - 1;
  int64_t chunk_stride = strides.back(), chunk = 1, covered = 1;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    chunk *= sizes[d];
    bool ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != chunk * chunk_stride);
    if (!ends) continue;
    while (next >= 0 && (covered < chunk || new_sizes[next] == 1)) {
      result[next] = covered * chunk_stride;
      covered *= new_sizes[next--];
    }
    if (covered != chunk) return std::nullopt;
    if (d > 0) chunk_stride = strides[d - 1];
    chunk = covered = 1;
  }
  if (next != -1) return std::nullopt;
  return result;
}

PlainTensor::PlainTensor(const HostTensor& values)
    : sizes_(values.shape().sizes()), strides_(ContiguousStrides(values.shape().sizes())) {
  buffer_ = std::make_shared<HostTensor>(Shape(values.dtype(), {values.numel()}));
  for (int64_t i = 0; i < values.numel(); ++i) buffer_->set(i, values.at(i));
}

PlainTensor::PlainTensor(const HostTensor& values, const Dims& strides) : PlainTensor(values) {
  int64_t last = 0;
  for (int d = 0; d < sizes_.size(); ++d) last += (sizes_[d] - 1) * strides[d];
  if (numel() == 0) {
    strides_ = strides;
  } else if (last == numel() - 1) {
    strides_ = strides;
    Write(values);
  }
}

std::vector<int64_t> PlainTensor::Places() const {
  std::vector<int64_t> places;
  Dims index = Dims::Filled(sizes_.size(), 0);
  for (int64_t i = numel(); i > 0; --i) {
    int64_t place = offset_;
    for (int d = 0; d < sizes_.size(); ++d) place += index[d] * strides_[d];
    places.push_back(place);
    for (int d = sizes_.size() - 1; d >= 0 && ++index[d] == sizes_[d]; --d) index[d] = 0;
  }
  return places;
}

HostTensor PlainTensor::Read() const {
  HostTensor values{Shape(dtype(), sizes_)};
  int64_t next = 0;
  for (int64_t place : Places()) values.set(next++, buffer_->at(place));
  return values;
}

void PlainTensor::Write(const HostTensor& values) {
  HostTensor source = PlainTensor(values).Expand(sizes_).Read();
  int64_t next = 0;
  for (int64_t place : Places()) buffer_->set(place, source.at(next++));
}

bool PlainTensor::SharesElement(const PlainTensor& other) const {
  if (!SameBuffer(other)) return false;
  int64_t bits = InfoOf(dtype()).bits, other_bits = InfoOf(other.dtype()).bits;
  auto in_largest = [&](std::vector<int64_t> places, int64_t own) {
    for (int64_t& place : places) place = place * own / std::max(bits, other_bits);
    return places;
  };
  std::vector<int64_t> mine = in_largest(Places(), bits);
  std::vector<int64_t> theirs = in_largest(other.Places(), other_bits);
  std::sort(mine.begin(), mine.end());
  return std::any_of(theirs.begin(), theirs.end(), [&](int64_t place) {
    return std::binary_search(mine.begin(), mine.end(), place);
  });
}

bool PlainTensor::OverlapsItself() const {
  std::vector<int64_t> places = Places();
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

bool PlainTensor::IsContiguous() const {
  int64_t expected = 1;
  for (int d = sizes_.size() - 1; d >= 0; --d) {
    if (sizes_[d] != 1 && strides_[d] != expected) return numel() == 0;
    expected *= sizes_[d];
  }
  return true;
}

PlainTensor PlainTensor::With(const Dims& sizes, const Dims& strides, int64_t offset) const {
  PlainTensor result = *this;
  result.sizes_ = sizes;
  result.strides_ = strides;
  result.offset_ = offset;
  return result;
}

PlainTensor PlainTensor::Slice(int dim, int64_t start, int64_t stop, int64_t step) const {
  PlainTensor result = *this;
  int64_t size = sizes_[dim];
  auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  start = clamp(start);
  stop = std::max(clamp(stop), start);
  result.offset_ += start * strides_[dim];
  result.sizes_[dim] = (stop - start + step - 1) / step;
  result.strides_[dim] *= step;
  return result;
}

PlainTensor PlainTensor::Select(int dim, int64_t index) const {
  PlainTensor result = *this;
  if (index < 0) index += sizes_[dim];
  result.offset_ += index * strides_[dim];
  result.sizes_.erase(dim);
  result.strides_.erase(dim);
  return result;
}

PlainTensor PlainTensor::Expand(const Dims& sizes) const {
  Dims new_sizes = sizes, new_strides = sizes;
  for (int d = sizes.size() - 1; d >= 0; --d) {
    int from = d - (sizes.size() - sizes_.size());
    int64_t size = from >= 0 ? sizes_[from] : 1;
    new_strides[d] = from >= 0               ? strides_[from]
                     : d + 1 == sizes.size() ? 1
                                             : new_sizes[d + 1] * new_strides[d + 1];
    if (sizes[d] < 0) new_sizes[d] = size;
    if (new_sizes[d] == size) continue;
    if (size != 1) throw std::invalid_argument("expand: sizes do not fit");
    new_strides[d] = 0;
  }
  return With(new_sizes, new_strides, offset_);
}

PlainTensor PlainTensor::Diagonal(int64_t offset, int dim1, int dim2) const {
  int64_t rows = sizes_[dim1], columns = sizes_[dim2];
  int64_t size = offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
  PlainTensor result = *this;
  if (size > 0) result.offset_ += offset >= 0 ? offset * strides_[dim2] : -offset * strides_[dim1];
  for (int dim : {std::max(dim1, dim2), std::min(dim1, dim2)}) {
    result.sizes_.erase(dim);
    result.strides_.erase(dim);
  }
  result.sizes_.push_back(std::max<int64_t>(size, 0));
  result.strides_.push_back(strides_[dim1] + strides_[dim2]);
  return result;
}

PlainTensor PlainTensor::Item(const std::vector<IndexItem>& items) const {
  PlainTensor result = *this;
  int dim = 0;
  for (const IndexItem& item : items) {
    if (item.step == 0) {
      result = result.Select(dim, item.start);
    } else {
      result = result.Slice(dim++, item.start, item.stop, item.step);
    }
  }
  return result;
}

PlainTensor PlainTensor::Reshape(const Dims& sizes) const {
  Dims new_sizes = Inferred(sizes, numel());
  if (auto strides = ViewStrides(sizes_, strides_, new_sizes)) {
    return With(new_sizes, *strides, offset_);
  }
  PlainTensor copy(Read());
  return copy.With(new_sizes, ContiguousStrides(new_sizes), 0);
}

PlainTensor PlainTensor::Parts() const {
  PlainTensor result = *this;
  Shape parts(RealOf(dtype()), {2 * buffer_size()});
  result.buffer_ = std::make_shared<HostTensor>(parts, buffer_->storage());
  for (int64_t& stride : result.strides_) stride *= 2;
  result.sizes_.push_back(2);
  result.strides_.push_back(1);
  result.offset_ *= 2;
  result.is_of_parts_ = true;
  return result;
}

PlainTensor PlainTensor::View(const Statement& s) const {
  const std::string& op = s.op;
  PlainTensor result = *this;
  auto dim = [&](size_t index) { return WrapDim("dim", Int(s, index), sizes_.size()); };
  if (op == "view" || op == "reshape") return Reshape(Ints(s, 1));
  if (op == "slice") return Slice(dim(1), Int(s, 2), Int(s, 3), Int(s, 4));
  if (op == "narrow") return Slice(dim(1), Int(s, 2), Int(s, 2) + Int(s, 3), 1);
  if (op == "select") return Select(dim(1), Int(s, 2));
  if (op == "expand") return Expand(Ints(s, 1));
  if (op == "diagonal") return Diagonal(Int(s, 1), dim(2), dim(3));
  if (op == "as_strided") return With(Ints(s, 1), Ints(s, 2), Int(s, 3));
  if (op == "getitem") return Item(std::get<std::vector<IndexItem>>(s.args.at(1)));
  if (op == "detach" || op == "alias") return result;
  if (op == "view_as_real") return Parts();
  if (op == "real") return Parts().Select(sizes_.size(), 0);
  if (op == "imag") return Parts().Select(sizes_.size(), 1);
  if (op == "contiguous") return IsContiguous() ? result : PlainTensor(Read());
  if (op == "transpose") {
    std::swap(result.sizes_[dim(1)], result.sizes_[dim(2)]);
    std::swap(result.strides_[dim(1)], result.strides_[dim(2)]);
    return result;
  }
  if (op == "permute") {
    Dims dims = Ints(s, 1);
    for (int d = 0; d < dims.size(); ++d) {
      int from = WrapDim("permute", dims[d], dims.size());
      result.sizes_[d] = sizes_[from];
      result.strides_[d] = strides_[from];
    }
    return result;
  }
  if (op == "unsqueeze") {
    int at = WrapDim("unsqueeze", Int(s, 1), sizes_.size() + 1);
    result.sizes_.insert(at, 1);
    result.strides_.insert(at, at < sizes_.size() ? sizes_[at] * strides_[at] : 1);
    return result;
  }
  if (op == "squeeze") {
    for (int d = sizes_.size() - 1; d >= 0; --d) {
      if (sizes_[d] != 1 || (s.args.size() > 1 && dim(1) != d)) continue;
      result.sizes_.erase(d);
      result.strides_.erase(d);
    }
    return result;
  }
  throw std::invalid_argument("PlainTensor: no view named " + op);
}

}  // namespace hammock::testing
