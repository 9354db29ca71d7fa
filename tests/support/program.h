#pragma once
/// Programs over tensors as data: they can be generated, run, shrunk and printed as C++.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "hammock/host_tensor.h"
#include "hammock/ir/dtype.h"

namespace hammock::testing {

/// `Slice(start, stop, step)` along one dim, or one index where `step` is 0.
struct IndexItem {
  int64_t start = 0, stop = 0, step = 1;
};
/// A variable: v0, v1, ... Each is defined once.
struct Var {
  int id = 0;
};
/// None, or of a call by name: not given.
struct Absent {
  bool is_none = false;
};
using Argument =
    std::variant<Var, int64_t, double, bool, DType, std::vector<int64_t>, std::vector<Var>,
                 std::vector<IndexItem>, std::vector<double>, std::string, Absent>;

struct Statement {
  enum class Kind {
    kInput,     ///< result = a tensor with the values of `input`
    kCall,      ///< result = op(args); the result shares memory with nothing
    kByName,    ///< result = a copy of what the record `op` gives for args, one an argument
    kView,      ///< result = op(args); the result may share memory with the first argument
    kInPlace,   ///< op(args), which writes the first argument
    kBackward,  ///< the gradients of the first argument's sum are added to those of the leaves
    kGradient,  ///< result = a copy of the first argument's gradient
    kRead,      ///< reads the first argument's values
    kSync,      ///< sync_multi of the variables in the first argument
    kStep,      ///< mark_step
    kDelete,    ///< the first argument's handle goes away
    kSeed,      ///< manual_seed
  };
  Kind kind = Kind::kStep;
  std::string op;
  int result = -1;  ///< the variable that it defines, or -1
  std::vector<Argument> args;
  HostTensor input;
  bool requires_grad = false;  ///< of an input
  bool no_grad = false;        ///< no history is recorded
  int part = -1;               ///< of several results of a call by name, which one
};

struct Program {
  uint64_t seed = 0;
  std::vector<Statement> statements;
};

/// The variables that a statement uses.
std::vector<int> UsesOf(const Statement& statement);

/// One line of C++.
std::string ToCpp(const Statement& statement);
/// A whole C++ program.
std::string ToCpp(const Program& program);

}  // namespace hammock::testing
