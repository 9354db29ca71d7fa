#pragma once
/// A store in a folder that all ranks see: a file a key, written whole or not at all.

#include <memory>
#include <string>

#include "hammock/distributed/engine.h"

namespace hammock::distributed {

class FileStore : public Store {
 public:
  /// Makes the folder.
  explicit FileStore(std::string folder);
  void Set(const std::string& key, const std::string& value) override;
  std::optional<std::string> Get(const std::string& key) override;
  std::string SetOnce(const std::string& key, const std::string& value) override;
  const std::string& folder() const { return folder_; }

 private:
  std::string PathOf(const std::string& key) const;
  std::string WriteTemporary(const std::string& value) const;

  std::string folder_;
};

/// The keys of another store that begin with a prefix.
class PrefixStore : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}
  void Set(const std::string& key, const std::string& value) override {
    store_->Set(prefix_ + key, value);
  }
  std::optional<std::string> Get(const std::string& key) override {
    return store_->Get(prefix_ + key);
  }
  std::string SetOnce(const std::string& key, const std::string& value) override {
    return store_->SetOnce(prefix_ + key, value);
  }

 private:
  std::shared_ptr<Store> store_;
  std::string prefix_;
};

}  // namespace hammock::distributed
