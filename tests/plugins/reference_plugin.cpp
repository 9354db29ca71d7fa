// The reference backend as a plug-in, whose device is `plain`.
#include <hammock/lazy/plugin_adaptor.h>

HAMMOCK_PLUGIN("plain", "1.0", hammock::lazy::getBackend("reference"))
