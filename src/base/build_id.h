#pragma once

namespace hammock {

/// Names the sources, compiler and options that the library was built from. What is saved in a form
/// that may change with any of them is of use to the same build alone.
const char* BuildId();

}  // namespace hammock
