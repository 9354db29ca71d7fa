#include "hammock/data/dataset.h"

#include <algorithm>
#include <cstring>

#include "base/throw.h"
#include "hammock/data/samplers.h"

namespace hammock::data {
namespace {

Shape WithFirstDim(const Shape& shape, int64_t size) {
  Dims sizes = {size};
  for (int64_t each : shape.sizes()) sizes.push_back(each);
  return Shape(shape.dtype(), sizes);
}

/// The shape of one of an array's examples.
Shape ExampleShape(const Shape& shape) {
  Dims sizes;
  for (int dim = 1; dim < shape.rank(); ++dim) sizes.push_back(shape.size(dim));
  return Shape(shape.dtype(), sizes);
}

void CheckIndex(int64_t index, int64_t size) {
  if (index < 0 || index >= size) {
    Throw(ErrorCode::kIndexOutOfRange, "data set: example {} of {} was asked for", index, size);
  }
}

void CheckNotNull(const Dataset* dataset) {
  if (!dataset) Throw(ErrorCode::kValue, "data set: a data set that is given is null");
}

std::byte* At(HostTensor& tensor, int64_t offset) {
  return static_cast<std::byte*>(tensor.mutable_data()) + offset;
}

}  // namespace

Example Stacked(std::span<const Example> examples, Location at) {
  LocationScope scope(at);
  Example result;
  if (examples.empty()) return result;
  for (size_t part = 0; part < examples[0].size(); ++part) {
    const Shape& shape = examples[0][part].shape();
    HostTensor all(WithFirstDim(shape, static_cast<int64_t>(examples.size())));
    for (size_t i = 0; i < examples.size(); ++i) {
      if (examples[i].size() != examples[0].size() || examples[i][part].shape() != shape) {
        Throw(
            ErrorCode::kShapeMismatch,
            "data set: examples differ: the first has {} parts, part {} is {}; number {} has {}{}",
            examples[0].size(), part, shape.to_string(), i, examples[i].size(),
            part < examples[i].size() ? ", " + examples[i][part].shape().to_string() : "");
      }
      if (shape.bytes() == 0) continue;
      std::memcpy(At(all, static_cast<int64_t>(i) * shape.bytes()), examples[i][part].data(),
                  static_cast<size_t>(shape.bytes()));
    }
    result.push_back(std::move(all));
  }
  return result;
}

Example Dataset::batch(std::span<const int64_t> indices) const {
  std::vector<Example> examples;
  for (int64_t index : indices) examples.push_back(get(index));
  return Stacked(examples, Location());
}

// ---- Arrays

ArrayDataset::ArrayDataset(std::vector<HostTensor> arrays, Location at)
    : arrays_(std::move(arrays)) {
  LocationScope scope(at);
  if (arrays_.empty()) Throw(ErrorCode::kValue, "data set: no arrays are given");
  for (const HostTensor& array : arrays_) {
    if (!array.defined() || array.shape().rank() == 0) {
      Throw(ErrorCode::kValue, "data set: an array needs a first dim that counts the examples");
    }
    if (array.shape().size(0) != arrays_[0].shape().size(0)) {
      Throw(ErrorCode::kShapeMismatch, "data set: {} and {} have different numbers of examples",
            arrays_[0].shape().to_string(), array.shape().to_string());
    }
  }
}

Example ArrayDataset::get(int64_t index) const {
  CheckIndex(index, size());
  Example example;
  for (const HostTensor& array : arrays_) {
    Shape shape = ExampleShape(array.shape());
    // An example is a part of the array's memory, which it keeps.
    auto* first = static_cast<std::byte*>(array.storage().get()) + index * shape.bytes();
    example.emplace_back(shape, std::shared_ptr<void>(array.storage(), first));
  }
  return example;
}

Example ArrayDataset::batch(std::span<const int64_t> indices) const {
  for (int64_t index : indices) CheckIndex(index, size());
  Example result;
  for (const HostTensor& array : arrays_) {
    Shape shape = ExampleShape(array.shape());
    HostTensor all(WithFirstDim(shape, static_cast<int64_t>(indices.size())));
    auto* from = static_cast<const std::byte*>(array.data());
    for (size_t i = 0; i < indices.size() && shape.bytes() > 0; ++i) {
      std::memcpy(At(all, static_cast<int64_t>(i) * shape.bytes()),
                  from + indices[i] * shape.bytes(), static_cast<size_t>(shape.bytes()));
    }
    result.push_back(std::move(all));
  }
  return result;
}

// ---- Data sets of data sets

MapDataset::MapDataset(std::shared_ptr<const Dataset> from, std::function<Example(Example)> change)
    : from_(std::move(from)), change_(std::move(change)) {}

Example MapDataset::get(int64_t index) const { return change_(from_->get(index)); }

Subset::Subset(std::shared_ptr<const Dataset> from, std::vector<int64_t> indices, Location at)
    : from_(std::move(from)), indices_(std::move(indices)) {
  LocationScope scope(at);
  CheckNotNull(from_.get());
  for (int64_t index : indices_) CheckIndex(index, from_->size());
}

Example Subset::get(int64_t index) const {
  CheckIndex(index, size());
  return from_->get(indices_[index]);
}

Example Subset::batch(std::span<const int64_t> indices) const {
  std::vector<int64_t> own;
  for (int64_t index : indices) {
    CheckIndex(index, size());
    own.push_back(indices_[index]);
  }
  return from_->batch(own);
}

ConcatDataset::ConcatDataset(std::vector<std::shared_ptr<const Dataset>> parts, Location at)
    : parts_(std::move(parts)) {
  LocationScope scope(at);
  for (const auto& part : parts_) {
    CheckNotNull(part.get());
    ends_.push_back(size() + part->size());
  }
}

Example ConcatDataset::get(int64_t index) const {
  CheckIndex(index, size());
  auto part = std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin();
  int64_t start = part == 0 ? 0 : ends_[static_cast<size_t>(part) - 1];
  return parts_[part]->get(index - start);
}

std::vector<std::shared_ptr<const Dataset>> RandomSplit(std::shared_ptr<const Dataset> from,
                                                        const std::vector<int64_t>& sizes,
                                                        uint64_t seed, Location at) {
  LocationScope scope(at);
  CheckNotNull(from.get());
  int64_t sum = 0;
  for (int64_t size : sizes) sum += size;
  if (sum != from->size() ||
      std::any_of(sizes.begin(), sizes.end(), [](auto n) { return n < 0; })) {
    Throw(ErrorCode::kValue, "RandomSplit: the parts have {} examples, the data set has {}", sum,
          from->size());
  }
  std::vector<int64_t> order = RandomSampler(seed).Order(from->size(), 0);
  std::vector<std::shared_ptr<const Dataset>> parts;
  auto next = order.begin();
  for (int64_t size : sizes) {
    parts.push_back(std::make_shared<Subset>(from, std::vector<int64_t>(next, next + size)));
    next += size;
  }
  return parts;
}

}  // namespace hammock::data
