#pragma once
/// A C++ backend as a plug-in (hammock/plugin.h):
///
///   HAMMOCK_PLUGIN("toy", "1.0", new ToyBackend)
///
/// in one file of a shared library, which then is loaded as any plug-in. The library links against
/// Hammock; what it gains over a BackendRegistrar is that the program need not be of the same
/// build. Not passed on: lowering contexts of its own. A DeviceExchange must order the work of all
/// threads, since any thread may make the calls of a plug-in.

#include "hammock/export.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/plugin.h"

namespace hammock::plugins {

/// The table of a plug-in whose devices are those of `backend`, under another name. Both live for
/// ever. Null, and a line in the log, where the backend cannot be asked for its devices.
HAMMOCK_API const HammockPlugin* Adapt(const char* name, const char* version,
                                       lazy::BackendImplInterface* (*backend)(),
                                       const HammockHost* host) noexcept;

}  // namespace hammock::plugins

/// The entry of a plug-in. `backend` is an expression, evaluated once.
#define HAMMOCK_PLUGIN(name, version, backend)                                   \
  extern "C" const HammockPlugin* hammock_plugin(const HammockHost* host) {      \
    using ::hammock::lazy::BackendImplInterface;                                 \
    static const HammockPlugin* const table = ::hammock::plugins::Adapt(         \
        name, version, []() -> BackendImplInterface* { return backend; }, host); \
    return table;                                                                \
  }
