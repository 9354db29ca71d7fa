// The example backend, which registers itself as `toy`, as a plug-in whose device is `toyplug`.
#include <hammock/lazy/plugin_adaptor.h>

HAMMOCK_PLUGIN("toyplug", "1.0", hammock::lazy::getBackend("toy"))
