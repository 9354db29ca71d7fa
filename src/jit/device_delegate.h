#pragma once
/// The delegates that ship: a device of Hammock as one. `hammock` is the compiled CPU device,
/// `reference` the interpreter.

#include <memory>

#include "jit/delegate_registry.h"

namespace hammock::jit {

InTreeDelegate HammockDelegate();
InTreeDelegate ReferenceDelegate();

}  // namespace hammock::jit
