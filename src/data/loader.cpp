#include "hammock/data/loader.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/throw.h"
#include "hammock/ops.h"

namespace hammock::data {

/// One loop over the data. Workers take the numbers of batches in order and stay at most
/// `prefetch` batches each ahead of the reader.
struct DataLoader::Epoch {
  struct Made {
    Example example;
    std::exception_ptr error;
  };

  Epoch(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options,
        std::vector<int64_t> order, int64_t batches, std::shared_ptr<Position> position,
        Location at)
      : dataset(std::move(dataset)),
        options(options),
        order(std::move(order)),
        batches(batches),
        position(std::move(position)),
        next(this->position->batch),
        taken(this->position->batch),
        at(at) {
    for (int i = 0; i < std::min<int64_t>(options.workers, batches - taken); ++i) {
      threads.emplace_back([this] { Work(); });
    }
  }

  ~Epoch() {
    {
      std::lock_guard lock(mutex);
      next = batches;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  Example Make(int64_t batch) const {
    size_t begin = static_cast<size_t>(batch * options.batch_size);
    size_t count = std::min(static_cast<size_t>(options.batch_size), order.size() - begin);
    return dataset->batch(std::span(order).subspan(begin, count));
  }

  void Work() {
    const int64_t ahead = int64_t{options.workers} * std::max(options.prefetch, 1);
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return next >= batches || next < taken + ahead; });
      if (next >= batches) return;
      int64_t batch = next++;
      lock.unlock();
      Made result;
      try {
        result.example = Make(batch);
      } catch (...) {
        result.error = std::current_exception();
      }
      lock.lock();
      made[batch] = std::move(result);
      changed.notify_all();
    }
  }

  /// The batch after the last one taken, which exists. Errors of the data set's own code have its
  /// lines; others get that of the loop.
  Example Next() {
    try {
      return Take();
    } catch (Error& error) {
      if (error.where().empty()) error.SetWhere(WhereText(InternLocation(at)));
      throw;
    }
  }

  Example Take() {
    if (threads.empty()) return Make(taken++);
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return made.contains(taken); });
    Made result = std::move(made.extract(taken).mapped());
    ++taken;
    lock.unlock();
    changed.notify_all();
    if (result.error) std::rethrow_exception(result.error);
    return std::move(result.example);
  }

  const std::shared_ptr<const Dataset> dataset;
  const LoaderOptions options;
  const std::vector<int64_t> order;
  const int64_t batches;
  const std::shared_ptr<Position> position;  // of the reader, who alone uses it
  std::mutex mutex;                          // of what follows
  std::condition_variable changed;
  int64_t next;   // batch to make
  int64_t taken;  // batches that the reader has
  std::map<int64_t, Made> made;
  std::vector<std::thread> threads;
  const Location at;  // the loop
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, Location at)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  LocationScope scope(at);
  if (!dataset_) Throw(ErrorCode::kValue, "DataLoader: the data set is null");
  if (options_.batch_size < 1 || options_.workers < 0 || options_.prefetch < 0) {
    Throw(ErrorCode::kValue,
          "DataLoader: batch_size is {}, workers {}, prefetch {}; needs at least 1, 0 and 0",
          options_.batch_size, options_.workers, options_.prefetch);
  }
  if (options_.sampler && options_.shuffle) {
    Throw(ErrorCode::kValue, "DataLoader: a sampler is given, and shuffle; expected one of them");
  }
  if (options_.sampler) return;
  if (options_.shuffle) {
    options_.sampler = std::make_shared<RandomSampler>(options_.seed);
  } else {
    options_.sampler = std::make_shared<SequentialSampler>();
  }
}

namespace {

int64_t Batches(int64_t examples, const LoaderOptions& options) {
  int64_t rounded = options.drop_last ? examples : examples + options.batch_size - 1;
  return rounded / options.batch_size;
}

}  // namespace

int64_t DataLoader::size() const {
  auto examples = options_.sampler->Order(dataset_->size(), next_.epoch).size();
  return Batches(static_cast<int64_t>(examples), options_);
}

StateDict DataLoader::state_dict() const {
  Position position = reached_ ? *reached_ : next_;
  return {{"epoch", tensor(position.epoch)}, {"batch", tensor(position.batch)}};
}

void DataLoader::load_state_dict(const StateDict& state, Location at) {
  LocationScope scope(at);
  StateDict own = state_dict();
  CopyState(own, state, "DataLoader state");
  next_ = {own["epoch"].item<int64_t>(), own["batch"].item<int64_t>()};
  reached_ = nullptr;
}

DataLoader::Iterator DataLoader::begin(Location at) {
  reached_ = std::make_shared<Position>(next_);
  std::vector<int64_t> order = options_.sampler->Order(dataset_->size(), next_.epoch);
  int64_t batches = Batches(static_cast<int64_t>(order.size()), options_);
  reached_->batch = std::clamp<int64_t>(next_.batch, 0, batches);
  next_ = {next_.epoch + 1, 0};
  return Iterator(
      std::make_shared<Epoch>(dataset_, options_, std::move(order), batches, reached_, at));
}

DataLoader::Iterator::Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  batch_.clear();
  if (epoch_->taken == epoch_->batches) {
    *epoch_->position = {epoch_->position->epoch + 1, 0};
    epoch_.reset();
    return *this;
  }
  for (HostTensor& part : epoch_->Next()) {
    batch_.push_back(from_host(std::move(part), epoch_->options.device, epoch_->at));
  }
  ++epoch_->position->batch;
  return *this;
}

}  // namespace hammock::data
