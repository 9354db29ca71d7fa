#pragma once
/// Where threads find the elements of a kernel's accesses, as expressions of CUDA C++. They stand
/// inside of what emit_cuda.cpp opens: `line`, `row`, `round` and `thread` are known there, `s` is
/// a slot, `at` the column of its first element, `v` one of the lines of a thread.

#include <string>

#include "backends/cuda/emit/launch_config.h"

namespace hammock::cuda {

class AccessText {
 public:
  AccessText(const compiler::Kernel& kernel, const LaunchConfig& config)
      : kernel_(kernel), config_(config) {
    places_.outer_dims = config.outer_dims;
  }

  static std::string ArgumentText(int index);
  int count() const { return static_cast<int>(kernel_.accesses.size()); }
  const compiler::Access& of(int access) const {
    return kernel_.accesses[static_cast<size_t>(access)];
  }
  const ArgumentPlaces& places() const { return places_; }
  bool IsTransposed(int access) const {
    return !config_.is_transposed.empty() && config_.is_transposed[static_cast<size_t>(access)];
  }

  /// What defines p{access}, the place of the line's first element; empty where it has none.
  std::string Address(int access) const;
  /// The place that the outer dims add.
  std::string Outer(int access) const;
  /// How far apart neighbouring elements of a line lie.
  std::string Step(int access) const;
  /// Where the one value of a line lies.
  std::string RowPlace(int access) const;
  /// The position that an access describes.
  std::string Index(int access, bool in_loop) const;
  /// The column of slot s in this round.
  std::string SlotPlace() const;
  /// What loads or stores, by `verb`, the first `count` elements of slot s.
  std::string Transfer(int access, std::string_view verb) const;

 private:
  bool across() const { return config_.way == LaunchConfig::Way::kColumn; }
  std::string LineStep(int access) const;
  std::string PlaceInLine(int access) const;
  std::string PlaceAcross() const;

  const compiler::Kernel& kernel_;
  const LaunchConfig& config_;
  ArgumentPlaces places_ = {};
};

}  // namespace hammock::cuda
