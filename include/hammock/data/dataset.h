#pragma once
/// Data sets: examples by number, in host memory.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/location.h"

namespace hammock::data {

/// Tensors that belong together, such as an image and its label.
using Example = std::vector<HostTensor>;

/// May be read from several threads at once.
class HAMMOCK_API Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Example get(int64_t index) const = 0;
  /// Several examples as one, each part with a first dim of its own. Stacks what `get` gives; parts
  /// whose shapes differ are refused.
  virtual Example batch(std::span<const int64_t> indices) const;
};

/// Arrays whose first dim counts the examples.
class HAMMOCK_API ArrayDataset : public Dataset {
 public:
  explicit ArrayDataset(std::vector<HostTensor> arrays, Location at = Location::current());
  int64_t size() const override { return arrays_[0].shape().size(0); }
  Example get(int64_t index) const override;
  Example batch(std::span<const int64_t> indices) const override;
  const std::vector<HostTensor>& arrays() const { return arrays_; }

 private:
  std::vector<HostTensor> arrays_;
};

/// A data set whose examples go through a function, in the thread that asks for them.
class HAMMOCK_API MapDataset : public Dataset {
 public:
  MapDataset(std::shared_ptr<const Dataset> from, std::function<Example(Example)> change);
  int64_t size() const override { return from_->size(); }
  Example get(int64_t index) const override;

 private:
  std::shared_ptr<const Dataset> from_;
  std::function<Example(Example)> change_;
};

/// Some examples of a data set.
class HAMMOCK_API Subset : public Dataset {
 public:
  Subset(std::shared_ptr<const Dataset> from, std::vector<int64_t> indices,
         Location at = Location::current());
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Example get(int64_t index) const override;
  Example batch(std::span<const int64_t> indices) const override;

 private:
  std::shared_ptr<const Dataset> from_;
  std::vector<int64_t> indices_;
};

/// The examples of one data set after those of another.
class HAMMOCK_API ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<std::shared_ptr<const Dataset>> parts,
                         Location at = Location::current());
  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  Example get(int64_t index) const override;

 private:
  std::vector<std::shared_ptr<const Dataset>> parts_;
  std::vector<int64_t> ends_;  // of each part
};

/// Parts of the given sizes, which must add up to the size of the whole, drawn by `seed`.
HAMMOCK_API std::vector<std::shared_ptr<const Dataset>> RandomSplit(
    std::shared_ptr<const Dataset> from, const std::vector<int64_t>& sizes, uint64_t seed,
    Location at = Location::current());

/// Examples as one with a new first dim.
HAMMOCK_API Example Stacked(std::span<const Example> examples, Location at = Location::current());

}  // namespace hammock::data
