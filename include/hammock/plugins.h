#pragma once
/// Plug-ins: libraries with the C interface of hammock/plugin.h, opened at run time. The option
/// `plugins` (HAMMOCK_PLUGINS=path:path) has some opened before the first use of a device.

#include <string>
#include <vector>

#include "hammock/export.h"
#include "hammock/option.h"
#include "hammock/plugin.h"

namespace hammock::config {
/// Plug-ins to open, separated by colons.
extern HAMMOCK_API constinit Option<std::string> kPlugins;
}  // namespace hammock::config

namespace hammock::plugins {

struct Plugin {
  std::string name;     ///< of its devices
  std::string version;  ///< as it says itself
  std::string path;
  int interface_major = 0, interface_minor = 0;
};

/// Opens a plug-in for good and registers its devices. ValueError where the library cannot be
/// opened or its table is not complete, NotSupported with both versions where it was built for
/// another one of the interface; whatever its `initialize` fails with. Then nothing is registered.
HAMMOCK_API Plugin Load(const std::string& path);

/// The same for a plug-in that is part of the program; `source` is for messages.
HAMMOCK_API Plugin Register(const HammockPlugin* (*entry)(const HammockHost* host),
                            const std::string& source);

/// The plug-ins that were registered so far, in order.
HAMMOCK_API std::vector<Plugin> Loaded();

}  // namespace hammock::plugins
