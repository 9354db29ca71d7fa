#pragma once

#include <string>

namespace hammock {

/// Opens the libraries and plug-ins that the options `load` and `plugins` list, once; as they are
/// opened they register backends, delegates and ops. False where this thread is opening one just
/// now. ValueError names one that cannot be opened; the next call tries again.
bool OpenListedLibraries();

/// From now on OpenListedLibraries opens none: this copy of the library is part of a plug-in, and
/// the options are meant for the program's.
void LeaveListedLibraries();

/// Opens a plug-in and registers its devices. Defined in src/plugins/loader.cpp, which this folder
/// does not know.
void OpenPlugin(const std::string& path);

}  // namespace hammock
