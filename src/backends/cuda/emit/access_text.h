#pragma once
/// AccessText: the addresses of the elements of a kernel's accesses, as expressions of CUDA C++.
/// They are used inside of the loops of emit_cuda.cpp, which define `line`, `row`, `iteration` and
/// `thread`, `s` for a slot, `at` for the column of its first element, and `v` for one of the lines
/// of a thread.

#include <string>

#include "backends/cuda/emit/launch_config.h"

namespace hammock::cuda {

class AccessText {
 public:
  AccessText(const compiler::Kernel& kernel, const LaunchConfig& config)
      : kernel_(kernel), config_(config) {
    indices_.outer_dims = config.outer_dims;
  }

  static std::string ArgumentText(int index);
  int count() const { return static_cast<int>(kernel_.accesses.size()); }
  const compiler::Access& of(int access) const { return kernel_.accesses[access]; }
  const ArgumentIndices& indices() const { return indices_; }
  bool IsTransposed(int access) const {
    return !config_.is_transposed.empty() && config_.is_transposed[access];
  }

  /// Whether its elements are the same in all lines, and loaded before the first.
  bool IsShared(int access) const {
    return config_.line_slots && of(access).kind == compiler::Access::Kind::kBuffer &&
           of(access).row == compiler::Stride::kZero;
  }

  /// The line that defines p{access}, the address of the line's first element; empty if it has
  /// none.
  std::string Address(int access) const;
  /// The offset of the outer dims.
  std::string Outer(int access) const;
  /// The stride of the elements of a line.
  std::string Step(int access) const;
  /// The single value of a line.
  std::string RowElement(int access) const;
  /// The index that an access of kind kIndex stands for.
  std::string Index(int access, bool in_loop) const;
  /// Element e of this thread, as it is in memory.
  std::string Element(int access) const;
  /// The column of slot s in this iteration.
  std::string SlotColumn() const;
  /// Loads or stores, by `verb`, the first `count` elements of slot s.
  std::string Transfer(int access, std::string_view verb) const;

 private:
  bool across() const { return config_.way == LaunchConfig::Way::kColumn; }
  std::string LineStep(int access) const;
  std::string OffsetInLine(int access) const;
  std::string ColumnAcross() const;

  const compiler::Kernel& kernel_;
  const LaunchConfig& config_;
  ArgumentIndices indices_ = {};
};

}  // namespace hammock::cuda
