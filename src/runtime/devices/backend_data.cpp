#include "hammock/lazy/backend_data.h"

#include <list>
#include <optional>
#include <ostream>

#include "base/never_destroyed.h"

namespace hammock::lazy {

BackendDeviceType::~BackendDeviceType() = default;
BackendData::Info::~Info() = default;

std::string BackendDevice::toString() const { return type_->toString() + std::to_string(ordinal_); }

int BackendDevice::Compare(const BackendDevice& other) const {
  if (type_ != other.type_) {
    if (type_->type != other.type_->type) return type_->type < other.type_->type ? -1 : 1;
    if (int order = type_->toString().compare(other.type_->toString())) return order;
  }
  if (ordinal_ == other.ordinal_) return 0;
  return ordinal_ < other.ordinal_ ? -1 : 1;
}

std::ostream& operator<<(std::ostream& os, const BackendDevice& device) {
  return os << device.toString();
}

struct BackendData::Extras {
  struct Derived {
    std::shared_ptr<void> form;
    int64_t bytes = 0;
  };
  std::shared_ptr<Info> info;
  std::map<std::string, Derived> derived;
  std::shared_ptr<const Error> error;
  std::vector<std::function<void()>> callbacks;
  std::optional<std::list<BackendData*>::iterator> listed;  // guarded by the registry's mutex
};

namespace {

/// All values with derived data. The mutex is taken before that of a data, never after.
struct DerivedRegistry {
  std::mutex mutex;
  std::list<BackendData*> data;
  std::atomic<size_t> count{0};  // of `data`, so that asking costs nothing where there is none
};
DerivedRegistry& Registry() {
  static auto& registry = NeverDestroyed<DerivedRegistry>();
  return registry;
}

}  // namespace

BackendData::BackendData(BackendDevice device, const Shape& shape)
    : device_(std::move(device)), shape_(shape) {}

BackendData::~BackendData() {
  if (!extras_) return;
  DerivedRegistry& registry = Registry();
  std::lock_guard lock(registry.mutex);
  if (!extras_->listed) return;
  registry.data.erase(*extras_->listed);
  --registry.count;
}

BackendData::Extras& BackendData::extras() const {
  if (!extras_) extras_ = std::make_unique<Extras>();
  return *extras_;
}

std::shared_ptr<BackendData::Info> BackendData::info() const {
  std::lock_guard lock(mutex_);
  return extras_ ? extras_->info : nullptr;
}

std::shared_ptr<BackendData::Info> BackendData::SetInfo(std::shared_ptr<Info> info) {
  std::lock_guard lock(mutex_);
  return std::exchange(extras().info, std::move(info));
}

void BackendData::Wait() const {
  if (!IsReady()) Hurry();
  while (state_.load(std::memory_order_acquire) == kPending) state_.wait(kPending);
}

std::shared_ptr<const Error> BackendData::error() const {
  if (state_.load(std::memory_order_acquire) != kFailed) return nullptr;
  std::lock_guard lock(mutex_);
  return extras().error;
}

void BackendData::Settle(State state) {
  std::vector<std::function<void()>> callbacks;
  {
    std::lock_guard lock(mutex_);
    if (extras_) callbacks.swap(extras_->callbacks);
    state_.store(state, std::memory_order_release);
  }
  state_.notify_all();
  for (auto& callback : callbacks) callback();
}

void BackendData::SetReady() { Settle(kReady); }

void BackendData::SetError(std::shared_ptr<const Error> error) {
  {
    std::lock_guard lock(mutex_);
    extras().error = std::move(error);
  }
  Settle(kFailed);
}

void BackendData::OnReady(std::function<void()> fn) {
  {
    std::lock_guard lock(mutex_);
    if (state_.load(std::memory_order_acquire) == kPending) {
      extras().callbacks.push_back(std::move(fn));
      return;
    }
  }
  fn();
}

void BackendData::WaitReady() const {
  Wait();
  if (auto failure = error()) failure->Raise();
}

void BackendData::AttachDerived(const std::string& key, std::shared_ptr<void> form, int64_t bytes) {
  DerivedRegistry& registry = Registry();
  std::lock_guard listing(registry.mutex);
  std::lock_guard lock(mutex_);
  Extras& all = extras();
  Extras::Derived& entry = all.derived[key];
  std::swap(entry.form, form);  // a former one goes when the locks are free
  entry.bytes = bytes;
  if (all.listed) return;
  all.listed = registry.data.insert(registry.data.end(), this);
  ++registry.count;
}

std::shared_ptr<void> BackendData::GetDerived(const std::string& key) const {
  std::lock_guard lock(mutex_);
  if (!extras_) return nullptr;
  auto found = extras_->derived.find(key);
  return found == extras_->derived.end() ? nullptr : found->second.form;
}

int64_t BackendData::derived_bytes() const {
  std::lock_guard lock(mutex_);
  int64_t total = 0;
  if (extras_) {
    for (const auto& [key, derived] : extras_->derived) total += derived.bytes;
  }
  return total;
}

void BackendData::DropDerived() {
  std::map<std::string, Extras::Derived> dropped;
  std::lock_guard lock(mutex_);
  if (extras_) extras_->derived.swap(dropped);
}

int64_t DerivedBytes(const BackendDevice& device) {
  DerivedRegistry& registry = Registry();
  if (registry.count.load(std::memory_order_relaxed) == 0) return 0;
  std::lock_guard lock(registry.mutex);
  int64_t total = 0;
  for (const BackendData* data : registry.data) {
    if (data->device() == device) total += data->derived_bytes();
  }
  return total;
}

int64_t DropDerivedData(const BackendDevice& device) {
  DerivedRegistry& registry = Registry();
  if (registry.count.load(std::memory_order_relaxed) == 0) return 0;
  std::lock_guard lock(registry.mutex);
  int64_t total = 0;
  for (BackendData* data : registry.data) {
    if (data->device() != device) continue;
    total += data->derived_bytes();
    data->DropDerived();
  }
  return total;
}

}  // namespace hammock::lazy
