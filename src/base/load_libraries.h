#pragma once

namespace hammock {

/// Opens the libraries that the option `load` lists, once; as they are opened they register
/// backends, delegates and ops. False where this thread is opening one just now. ValueError names
/// one that cannot be opened; the next call tries again.
bool OpenListedLibraries();

}  // namespace hammock
