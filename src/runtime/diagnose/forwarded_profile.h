#pragma once
/// ForwardedProfile: the RunProfile of a run whose profile is written elsewhere: by the program
/// that has this copy of the library as a plug-in.

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "hammock/lazy/run_context.h"

namespace hammock {

/// Backends may copy the RunProfile; what they write after the end of this object is dropped.
/// Thread-safe.
class ForwardedProfile {
 public:
  struct Receiver {
    std::function<void(size_t kernel, std::string_view name, int64_t begin, int64_t end)> kernel;
    std::function<void(int64_t in_use)> memory;
  };

  explicit ForwardedProfile(Receiver receiver);
  ~ForwardedProfile();
  ForwardedProfile(const ForwardedProfile&) = delete;
  ForwardedProfile& operator=(const ForwardedProfile&) = delete;

  const lazy::RunProfile* get() const { return &profile_; }

  static bool Owns(const lazy::RunProfile& profile) { return profile.graph < 0; }
  /// Null where it has ended.
  static std::shared_ptr<const Receiver> Find(const lazy::RunProfile& profile);

 private:
  lazy::RunProfile profile_;  // its graph is a number below 0
};

}  // namespace hammock
