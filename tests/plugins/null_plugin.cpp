// The null backend, whose steps cost nothing, as a plug-in whose device is `nothing`.
#include <hammock/lazy/plugin_adaptor.h>

HAMMOCK_PLUGIN("nothing", "1.0", hammock::lazy::getBackend("null"))
