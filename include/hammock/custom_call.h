#pragma once
/// Functions that the op `custom_call` reaches by name. Any backend that runs such a node on host
/// tensors, the reference backend at least, looks them up here.
///
///   RegisterCustomCall("mylib.fft", [](std::span<const HostTensor> in, std::string_view payload) {
///     return std::vector<HostTensor>{Fft(in[0])};
///   });

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/location.h"

namespace hammock {

/// Must not write its operands. What it throws becomes the error of the node's values. It may use
/// tensors of the device that runs it, but not values that still wait for that device.
using CustomCallFn =
    std::function<std::vector<HostTensor>(std::span<const HostTensor>, std::string_view payload)>;

/// Thread-safe. Throws ValueError for a name that is taken.
HAMMOCK_API void RegisterCustomCall(const std::string& target, CustomCallFn function,
                                    Location at = Location::current());
/// Empty if there is none.
HAMMOCK_API CustomCallFn FindCustomCall(const std::string& target);

}  // namespace hammock
