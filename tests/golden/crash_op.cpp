// A library of two bad ops, for the test of the runner.

#include <cstdlib>
#include <stdexcept>

#include "hammock/op_builder.h"

namespace {

hammock::Any Abort(std::span<const hammock::Any>) { std::abort(); }
hammock::Any ThrowForeign(std::span<const hammock::Any>) { throw std::runtime_error("foreign"); }

constinit const hammock::OpDef kAbort = {
    .schema = "golden_abort(Tensor self) -> Tensor", .doc = "Ends the process.", .call = Abort};
constinit const hammock::OpDef kThrow = {.schema = "golden_throw(Tensor self) -> Tensor",
                                         .doc = "Throws what no op may throw.",
                                         .call = ThrowForeign};
const hammock::OpRegistrar abort_registrar(kAbort);
const hammock::OpRegistrar throw_registrar(kThrow);

}  // namespace
