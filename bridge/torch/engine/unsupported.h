#pragma once

#include <stdexcept>

namespace hammock_torch {

/// Hammock has no form of an op, of an argument or of a value. Callers answer it by running one op
/// with PyTorch's own CPU kernels, or pass it on in strict mode.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hammock_torch
