#pragma once
/// PluginData: a value on a device of a plug-in.

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "base/pool.h"
#include "hammock/lazy/backend_data.h"
#include "plugins/plugin_backend.h"
#include "plugins/small_lock.h"

namespace hammock::plugins {

/// A handle of a plug-in's data, which goes back with it.
class DataCell {
 public:
  DataCell(const PluginBackend& plugin, HammockData data) : plugin_(plugin), data_(data) {}
  ~DataCell() { plugin_.Release(data_); }
  DataCell(const DataCell&) = delete;
  DataCell& operator=(const DataCell&) = delete;
  HammockData data() const { return data_; }

 private:
  const PluginBackend& plugin_;
  const HammockData data_;
};

inline std::shared_ptr<DataCell> NewCell(const PluginBackend& plugin, HammockData data) {
  return std::allocate_shared<DataCell>(PoolAllocator<DataCell>(), plugin, data);
}

/// Without a cell it is a placeholder, or was donated.
class PluginData : public lazy::BackendData {
 public:
  PluginData(const PluginBackend& plugin, const lazy::BackendDevice& device, const Shape& shape)
      : BackendData(device, shape), plugin_(plugin) {}
  PluginData(const PluginBackend& plugin, const lazy::BackendDevice& device, const Shape& shape,
             HammockData data)
      : BackendData(device, shape), plugin_(plugin), cell_(NewCell(plugin, data)), data_(data) {}

  Handle GetHandle() override { return static_cast<Handle>(data()); }
  void Assign(const BackendData& data) override {
    SetCell(static_cast<const PluginData&>(data).cell());
  }
  bool HasValue() const override { return data() != 0; }
  void Hurry() const override { plugin_.Hurry(device()); }

  template <class... Args>
  static std::shared_ptr<PluginData> Make(Args&&... args) {
    return std::allocate_shared<PluginData>(PoolAllocator<PluginData>(),
                                            std::forward<Args>(args)...);
  }

  /// Valid while this object is alive and not donated; 0: it has no value.
  HammockData data() const { return data_.load(std::memory_order_acquire); }
  std::shared_ptr<DataCell> cell() const {
    std::lock_guard lock(mutex_);
    return cell_;
  }
  void SetCell(std::shared_ptr<DataCell> cell) {
    std::lock_guard lock(mutex_);
    data_.store(cell ? cell->data() : 0, std::memory_order_release);
    cell_.swap(cell);
  }

 private:
  const PluginBackend& plugin_;
  mutable SmallLock mutex_;
  std::shared_ptr<DataCell> cell_;
  std::atomic<HammockData> data_{0};  // of the cell
};

}  // namespace hammock::plugins
