#pragma once
/// OperandCopy: copies an operand of a matmul into row-major order.

#include <string>

#include "backends/cpu/host/strided_copy.h"
#include "hammock/ir/dtype.h"

namespace hammock::cpu {

class OperandCopy {
 public:
  OperandCopy() = default;  ///< not wanted
  /// Of elements with these strides.
  OperandCopy(DType dtype, const Dims& sizes, const Dims& strides);

  bool wanted() const { return bytes_ > 0; }
  int64_t bytes() const { return bytes_; }  ///< a multiple of 64
  const std::string& key() const { return key_; }
  void Run(const void* from, void* to) const {
    copy_.Run(static_cast<const char*>(from), static_cast<char*>(to));
  }

 private:
  StridedCopy copy_;
  int64_t bytes_ = 0;
  std::string key_;  // equal copies have equal keys
};

}  // namespace hammock::cpu
