#include "compiler/scalar/no_body.h"

#include "base/throw.h"

namespace hammock::compiler {

void NoBody(ScalarFn fn) {
  Throw<InternalError>(ErrorCode::kInternal, "no body for the scalar function of {}", NameOf(fn));
}

}  // namespace hammock::compiler
