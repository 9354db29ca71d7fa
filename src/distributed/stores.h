#pragma once
/// Where ranks meet.

#include <memory>
#include <string>

#include "hammock/distributed/engine.h"

namespace hammock::distributed {

/// The store of a job: in a folder that all ranks see, or of a server, `redis://host:port`.
/// ValueError or DeviceError where it cannot be opened.
std::shared_ptr<Store> OpenStore(const std::string& where, const std::string& job);

}  // namespace hammock::distributed
