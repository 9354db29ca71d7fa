// The backend `cpu` as a plug-in, whose device is `cpu-plugin`.
#include <hammock/lazy/plugin_adaptor.h>

HAMMOCK_PLUGIN("cpu-plugin", "1.0", hammock::lazy::getBackend("cpu"))
