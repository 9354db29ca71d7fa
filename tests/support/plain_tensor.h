#pragma once
/// PlainTensor: strides over a buffer, as a textbook has it. Views share the buffer and writes go
/// to it at once; the judge of what aliasing and in-place writes must give.

#include <memory>
#include <optional>
#include <string>

#include "hammock/host_tensor.h"
#include "support/program.h"

namespace hammock::testing {

class PlainTensor {
 public:
  PlainTensor() = default;
  explicit PlainTensor(const HostTensor& values);
  /// In memory of its own, with these strides if they leave no gaps.
  PlainTensor(const HostTensor& values, const Dims& strides);

  DType dtype() const { return buffer_->dtype(); }
  const Dims& sizes() const { return sizes_; }
  const Dims& strides() const { return strides_; }
  int64_t offset() const { return offset_; }
  int64_t numel() const { return Shape(dtype(), sizes_).numel(); }
  const HostTensor& buffer() const { return *buffer_; }
  int64_t buffer_size() const { return buffer_->numel(); }

  /// Whether it is a view of the parts of complex numbers, of which Hammock has no diagonals and no
  /// views of any strides.
  bool IsOfParts() const { return is_of_parts_; }

  HostTensor Read() const;
  /// `values` has this dtype and broadcasts to these sizes.
  void Write(const HostTensor& values);

  bool SameBuffer(const PlainTensor& other) const {
    return buffer_->storage() == other.buffer_->storage();
  }
  /// Whether some element of one is an element of the other.
  bool SharesElement(const PlainTensor& other) const;
  /// Whether two elements are one place of the buffer.
  bool OverlapsItself() const;

  /// Whether its elements follow each other in row-major order; dims of size one do not matter.
  bool IsContiguous() const;

  /// The view ops of hammock/ops/view.h by name; `statement.args[0]` is this tensor.
  PlainTensor View(const Statement& statement) const;

 private:
  PlainTensor With(const Dims& sizes, const Dims& strides, int64_t offset) const;
  PlainTensor Slice(int dim, int64_t start, int64_t stop, int64_t step) const;
  PlainTensor Select(int dim, int64_t index) const;
  PlainTensor Expand(const Dims& sizes) const;
  PlainTensor Diagonal(int64_t offset, int dim1, int dim2) const;
  PlainTensor Item(const std::vector<IndexItem>& items) const;
  /// A view where strides allow it, else a copy.
  PlainTensor Reshape(const Dims& sizes) const;
  /// The parts of complex elements, along a last dim.
  PlainTensor Parts() const;
  std::vector<int64_t> Places() const;

  std::shared_ptr<HostTensor> buffer_;  // 1-D; of parts it shares the bytes of the complex numbers
  Dims sizes_, strides_;
  int64_t offset_ = 0;
  bool is_of_parts_ = false;
};

/// Strides of a view of other sizes over the same elements in order, if there are any.
std::optional<Dims> ViewStrides(const Dims& sizes, const Dims& strides, const Dims& new_sizes);

}  // namespace hammock::testing
