#pragma once
/// Random calls of any record by its name.

#include <functional>
#include <vector>

#include "hammock/ir/op_def.h"
#include "support/program.h"

namespace hammock::testing {

/// Records that give tensors and write none of their arguments.
const std::vector<const OpDef*>& CallableRecords();

/// Where the arguments of a call come from.
struct ArgumentSource {
  std::function<int64_t(int64_t low, int64_t high)> number;  ///< both ends included
  std::function<int()> variable;                             ///< any
  std::function<int(const Shape&, const Domain&)> of_type;   ///< of that type, with such values
};

/// One for each argument of the schema: those of a sample of the record, or what the types of the
/// schema allow. The call may still be refused.
std::vector<Argument> RandomArguments(const OpDef& op, const ArgumentSource& source);

}  // namespace hammock::testing
