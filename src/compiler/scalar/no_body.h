#pragma once

#include "hammock/ir/scalar_fn.h"

namespace hammock::compiler {

/// InternalError that names a function which has a body by its row in scalar_fn.inc, but none in
/// the switch that was asked for it. Where `fn` is a constant the call is compiled away.
[[noreturn, gnu::cold]] void NoBody(ScalarFn fn);

}  // namespace hammock::compiler
