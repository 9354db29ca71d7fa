#pragma once
/// Samplers: the order in which the examples of an epoch are read. The order depends on the seed
/// and the number of the epoch alone.

#include <cstdint>
#include <vector>

#include "hammock/export.h"
#include "hammock/location.h"

namespace hammock::data {

class HAMMOCK_API Sampler {
 public:
  virtual ~Sampler() = default;
  /// The numbers of the examples of an epoch of a data set with `size` of them.
  virtual std::vector<int64_t> Order(int64_t size, int64_t epoch) const = 0;
};

/// 0, 1, 2, ...
class HAMMOCK_API SequentialSampler : public Sampler {
 public:
  std::vector<int64_t> Order(int64_t size, int64_t epoch) const override;
};

/// Every example once, shuffled.
class HAMMOCK_API RandomSampler : public Sampler {
 public:
  explicit RandomSampler(uint64_t seed) : seed_(seed) {}
  std::vector<int64_t> Order(int64_t size, int64_t epoch) const override;

 private:
  uint64_t seed_;
};

/// Some examples, shuffled.
class HAMMOCK_API SubsetRandomSampler : public Sampler {
 public:
  SubsetRandomSampler(std::vector<int64_t> indices, uint64_t seed);
  std::vector<int64_t> Order(int64_t size, int64_t epoch) const override;

 private:
  std::vector<int64_t> indices_;
  uint64_t seed_;
};

/// `count` examples, each drawn in proportion to its weight, with or without putting it back.
class HAMMOCK_API WeightedRandomSampler : public Sampler {
 public:
  WeightedRandomSampler(std::vector<double> weights, int64_t count, bool replacement, uint64_t seed,
                        Location at = Location::current());
  std::vector<int64_t> Order(int64_t size, int64_t epoch) const override;

 private:
  std::vector<double> weights_;
  int64_t count_;
  bool replacement_;
  uint64_t seed_;
};

/// The share of one process of several in a common order: of each `world * batch` examples that
/// follow each other, part `rank` of `world` equal parts. With the `batch` of its loader, a
/// process has its part of each batch that one process alone would have, as RandomPart wants it;
/// with 1 it is every `world`-th example. The order is filled up from its beginning, so that all
/// shares are equally long.
class HAMMOCK_API DistributedSampler : public Sampler {
 public:
  DistributedSampler(int64_t rank, int64_t world, bool shuffle, uint64_t seed, int64_t batch = 1,
                     Location at = Location::current());
  std::vector<int64_t> Order(int64_t size, int64_t epoch) const override;

 private:
  int64_t rank_, world_;
  bool shuffle_;
  uint64_t seed_;
  int64_t batch_;
};

}  // namespace hammock::data
