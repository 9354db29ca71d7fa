#pragma once
/// DataLoader: batches of a data set, made ahead by threads.

#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "hammock/data/dataset.h"
#include "hammock/data/samplers.h"
#include "hammock/device.h"
#include "hammock/state_dict.h"
#include "hammock/tensor.h"

namespace hammock::data {

/// The parts of a batch, such as images and labels, each with a first dim for the batch.
using Batch = std::vector<Tensor>;

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  uint64_t seed = 0;
  bool drop_last = false;  ///< leaves out a batch that would be smaller
  int workers = 0;         ///< threads; with none, batches are made where they are asked for
  int prefetch = 2;        ///< batches made ahead by each worker
  Device device = {};      ///< of the batches; the default device if none is given
  std::shared_ptr<const Sampler> sampler = nullptr;  ///< instead of `shuffle`
};

/// Each loop over a loader is one epoch. Batches come in the sampler's order whatever the number of
/// workers. An exception of the data set is thrown where its batch is asked for. A loader is used
/// by one thread at a time, and outlives the loops over it.
class HAMMOCK_API DataLoader {
 public:
  DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options,
             Location at = Location::current());
  template <class D>
  requires std::derived_from<D, Dataset> DataLoader(D dataset, LoaderOptions options,
                                                    Location at = Location::current())
      : DataLoader(std::make_shared<const D>(std::move(dataset)), std::move(options), at) {}

  /// Batches of an epoch.
  int64_t size() const;
  /// The number of the epoch that the next loop reads.
  int64_t epoch() const { return next_.epoch; }
  void set_epoch(int64_t epoch) { next_ = {epoch, 0}; }

  /// Where the newest loop is: its epoch, and how many of its batches have been given out. The
  /// first loop after they are loaded goes on from there.
  StateDict state_dict() const;
  void load_state_dict(const StateDict& state, Location at = Location::current());

  struct Epoch;
  struct Position {
    int64_t epoch = 0, batch = 0;
  };
  class HAMMOCK_API Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = int64_t;
    Iterator() = default;
    explicit Iterator(std::shared_ptr<Epoch> epoch);
    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return epoch_ == other.epoch_; }

   private:
    std::shared_ptr<Epoch> epoch_;  // null at the end
    Batch batch_;
  };
  Iterator begin(Location at = Location::current());
  Iterator end() { return Iterator(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  LoaderOptions options_;
  Position next_;                      // where the next loop begins
  std::shared_ptr<Position> reached_;  // by the newest loop; null if there is none since a load
};

}  // namespace hammock::data
