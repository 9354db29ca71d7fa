#include "hammock/data/samplers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/throw.h"

namespace hammock::data {
namespace {

std::mt19937_64 Engine(uint64_t seed, int64_t epoch) {
  std::seed_seq words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                      static_cast<uint32_t>(epoch), static_cast<uint32_t>(epoch >> 32)};
  return std::mt19937_64(words);
}

/// Below `limit`, each equally likely. The standard's distributions and shuffle differ between
/// libraries; an order must not.
uint64_t Below(std::mt19937_64& engine, uint64_t limit) {
  uint64_t excess = (UINT64_MAX % limit + 1) % limit;
  while (true) {
    uint64_t value = engine();
    if (value <= UINT64_MAX - excess) return value % limit;
  }
}

/// In [0, 1).
double Uniform(std::mt19937_64& engine) { return static_cast<double>(engine() >> 11) * 0x1p-53; }

void Shuffle(std::vector<int64_t>& values, uint64_t seed, int64_t epoch) {
  std::mt19937_64 engine = Engine(seed, epoch);
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[Below(engine, i)]);
}

}  // namespace

std::vector<int64_t> SequentialSampler::Order(int64_t size, int64_t) const {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int64_t> RandomSampler::Order(int64_t size, int64_t epoch) const {
  std::vector<int64_t> order = SequentialSampler().Order(size, epoch);
  Shuffle(order, seed_, epoch);
  return order;
}

SubsetRandomSampler::SubsetRandomSampler(std::vector<int64_t> indices, uint64_t seed)
    : indices_(std::move(indices)), seed_(seed) {}

std::vector<int64_t> SubsetRandomSampler::Order(int64_t, int64_t epoch) const {
  std::vector<int64_t> order = indices_;
  Shuffle(order, seed_, epoch);
  return order;
}

WeightedRandomSampler::WeightedRandomSampler(std::vector<double> weights, int64_t count,
                                             bool replacement, uint64_t seed, Location at)
    : weights_(std::move(weights)), count_(count), replacement_(replacement), seed_(seed) {
  LocationScope scope(at);
  int64_t usable = 0;
  for (double weight : weights_) {
    if (!(weight >= 0) || std::isinf(weight)) {
      Throw(ErrorCode::kValue,
            "WeightedRandomSampler: a weight is {}, needs a finite number of at least 0", weight);
    }
    usable += weight > 0;
  }
  if (count < 0 || (count > 0 && usable == 0) || (!replacement && count > usable)) {
    Throw(ErrorCode::kValue,
          "WeightedRandomSampler: {} examples wanted{}, {} have a weight above 0", count,
          replacement ? "" : " without replacement", usable);
  }
}

std::vector<int64_t> WeightedRandomSampler::Order(int64_t, int64_t epoch) const {
  std::mt19937_64 engine = Engine(seed_, epoch);
  std::vector<int64_t> order;
  if (replacement_) {
    std::vector<double> sums(weights_.size());
    std::partial_sum(weights_.begin(), weights_.end(), sums.begin());
    while (static_cast<int64_t>(order.size()) < count_) {
      double drawn = Uniform(engine) * sums.back();
      order.push_back(std::upper_bound(sums.begin(), sums.end(), drawn) - sums.begin());
    }
    return order;
  }
  // The largest of u^(1/weight) are a draw without replacement (Efraimidis and Spirakis).
  std::vector<std::pair<double, int64_t>> keys;
  for (size_t i = 0; i < weights_.size(); ++i) {
    double drawn = std::log1p(-Uniform(engine));
    if (weights_[i] > 0) keys.emplace_back(-drawn / weights_[i], static_cast<int64_t>(i));
  }
  std::sort(keys.begin(), keys.end());
  for (int64_t i = 0; i < count_; ++i) order.push_back(keys[i].second);
  return order;
}

DistributedSampler::DistributedSampler(int64_t rank, int64_t world, bool shuffle, uint64_t seed,
                                       int64_t batch, Location at)
    : rank_(rank), world_(world), shuffle_(shuffle), seed_(seed), batch_(batch) {
  LocationScope scope(at);
  if (world < 1 || rank < 0 || rank >= world) {
    Throw(ErrorCode::kValue, "DistributedSampler: rank {} of {}, needs 0 <= rank < world", rank,
          world);
  }
  if (batch < 1)
    Throw(ErrorCode::kValue, "DistributedSampler: batch is {}, needs 1 or more", batch);
}

std::vector<int64_t> DistributedSampler::Order(int64_t size, int64_t epoch) const {
  std::vector<int64_t> all = SequentialSampler().Order(size, epoch);
  if (shuffle_) Shuffle(all, seed_, epoch);
  std::vector<int64_t> order;
  if (size == 0) return order;
  int64_t left = (size + world_ - 1) / world_;  // of each rank
  for (int64_t begin = 0; left > 0; begin += batch_ * world_, left -= batch_) {
    const int64_t part = std::min(batch_, left);
    for (int64_t i = 0; i < part; ++i) order.push_back(all[(begin + rank_ * part + i) % size]);
  }
  return order;
}

}  // namespace hammock::data
