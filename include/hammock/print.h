#pragma once
/// How tensors are printed, and printing of values that are not there yet.
///
///   set_printoptions({.precision = 8, .sci_mode = false});
///   std::cout << x << "\n";
///   debug_print(x, "hidden");   // when a step has computed it; nothing waits

#include <cstdint>
#include <optional>
#include <string>

#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/location.h"

namespace hammock {

class Tensor;

struct TensorPrintOptions {
  int precision = 4;         ///< digits behind the point
  int64_t threshold = 1000;  ///< tensors of more elements are summarised
  int64_t edgeitems = 3;     ///< rows and columns shown at each end where summarised
  int linewidth = 80;
  std::optional<bool> sci_mode = std::nullopt;  ///< mantissa and exponent; by default where needed
};

/// For the process; thread-safe. ValueError for negative numbers.
HAMMOCK_API void set_printoptions(const TensorPrintOptions& options,
                                  Location at = Location::current());
HAMMOCK_API TensorPrintOptions get_printoptions();

/// The elements alone, without the type.
HAMMOCK_API std::string FormatElements(const HostTensor& values, const TensorPrintOptions& options);

/// Prints "label = values : type" to stderr once the value has been computed, on a thread of its
/// own. It computes nothing, and the caller waits for nothing: the value becomes a result of the
/// step that it belongs to. The value is that at the time of the call. A step that fails prints its
/// error instead.
HAMMOCK_API void debug_print(const Tensor& tensor, const std::string& label = "",
                             Location at = Location::current());

}  // namespace hammock
