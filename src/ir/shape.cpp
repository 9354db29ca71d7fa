#include "hammock/ir/shape.h"

#include <algorithm>
#include <ostream>

#include "base/location_scope.h"
#include "base/throw.h"

namespace hammock {

Dims::Dims(std::span<const int64_t> values) {
  if (values.size() > kMaxRank) {
    Throw(ErrorCode::kValue, "a shape has at most {} dims, got {}", kMaxRank, values.size());
  }
  size_ = static_cast<int32_t>(values.size());
  std::copy(values.begin(), values.end(), values_.begin());
}

void Dims::ThrowOutside(int i, const Location& at) const {
  UserLineScope scope(at);
  Throw<InternalError>(ErrorCode::kInternal, "entry {} of {} was asked for", i, ToString(*this));
}

Dims Dims::Filled(int rank, int64_t value) {
  Dims dims;
  dims.resize(rank, value);
  return dims;
}

std::vector<int64_t> Dims::vec() const { return {begin(), end()}; }

void Dims::push_back(int64_t value) {
  if (size_ == kMaxRank) Throw(ErrorCode::kValue, "a shape has at most {} dims", kMaxRank);
  values_[size_++] = value;
}

void Dims::insert(int position, int64_t value) {
  HAMMOCK_CHECK(position >= 0 && position <= size_, "position {} of {}", position, size_);
  if (size_ == kMaxRank) Throw(ErrorCode::kValue, "a shape has at most {} dims", kMaxRank);
  std::copy_backward(begin() + position, end(), end() + 1);
  values_[position] = value;
  ++size_;
}

void Dims::erase(int position) {
  HAMMOCK_CHECK(position >= 0 && position < size_, "position {} of {}", position, size_);
  std::copy(begin() + position + 1, end(), begin() + position);
  --size_;
}

void Dims::resize(int size, int64_t value) {
  if (size < 0 || size > kMaxRank) {
    Throw(ErrorCode::kValue, "a shape has at most {} dims, got {}", kMaxRank, size);
  }
  for (int i = size_; i < size; ++i) values_[i] = value;
  size_ = size;
}

std::string ToString(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }
std::ostream& operator<<(std::ostream& os, const Dims& dims) { return os << ToString(dims); }

std::string Shape::to_string() const {
  return fmt::format("{}[{}]", NameOf(dtype_), fmt::join(sizes_, ","));
}

std::string ToString(const Shape& shape) { return shape.to_string(); }
std::ostream& operator<<(std::ostream& os, const Shape& shape) { return os << shape.to_string(); }

Dims ContiguousStrides(const Dims& sizes) {
  Dims strides = Dims::Filled(sizes.size(), 1);
  for (int i = sizes.size() - 2; i >= 0; --i) {
    strides[i] = strides[i + 1] * std::max<int64_t>(sizes[i + 1], 1);
  }
  return strides;
}

void CheckSizes(const char* what, const Dims& sizes) {
  int64_t count = 1;
  for (int64_t size : sizes) {
    if (size < 0) {
      Throw(ErrorCode::kNegativeSize, "{}: sizes must not be negative: {}", what, ToString(sizes));
    }
    // A size of 0 counts as 1, so that strides cannot overflow either.
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) || count > kMaxElements) {
      Throw(ErrorCode::kSizeOverflow, "{}: sizes {} overflow: at most 2^55 elements", what,
            ToString(sizes));
    }
  }
}

Dims BroadcastSizes(const char* what, const Dims& a, const Dims& b) {
  if (a == b) return a;
  int rank = std::max(a.size(), b.size());
  Dims result = Dims::Filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    int ia = i - (rank - a.size());
    int ib = i - (rank - b.size());
    int64_t sa = ia < 0 ? 1 : a[ia];
    int64_t sb = ib < 0 ? 1 : b[ib];
    if (sa != sb && sa != 1 && sb != 1) {
      Throw(ErrorCode::kShapeMismatch,
            "{}: sizes do not broadcast: {} and {} differ at dim {} ({} against {})", what,
            ToString(a), ToString(b), i, sa, sb);
    }
    result[i] = sa == 1 ? sb : sa;
  }
  return result;
}

int WrapDim(const char* what, int64_t dim, int rank) {
  int64_t limit = std::max(rank, 1);
  if (dim < -limit || dim >= limit) {
    Throw(ErrorCode::kDimOutOfRange, "{}: dim {} is out of range: rank {} needs {} to {}", what,
          dim, rank, -limit, limit - 1);
  }
  return static_cast<int>(dim < 0 ? dim + limit : dim);
}

Dims WrapDims(const char* what, const Dims& dims, int rank) {
  Dims result;
  if (dims.empty()) {
    for (int i = 0; i < rank; ++i) result.push_back(i);
    return result;
  }
  unsigned seen = 0;
  for (int64_t dim : dims) {
    int wrapped = WrapDim(what, dim, rank);
    if (seen >> wrapped & 1) {
      Throw(ErrorCode::kValue, "{}: dim {} appears twice in {}", what, wrapped, ToString(dims));
    }
    seen |= 1u << wrapped;
    result.push_back(wrapped);
  }
  return result;
}

}  // namespace hammock
