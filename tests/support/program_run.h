#pragma once
/// Running a Program on tensors, and on PlainTensors.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hammock/tensor.h"
#include "support/plain_tensor.h"
#include "support/program.h"

namespace hammock::testing {

/// What a run shows of one variable: at a read, and at the end of the program.
struct Observation {
  int var = -1;
  size_t statement = 0;  ///< the program's size for the end
  HostTensor value;
  std::string error;      ///< instead of a value
  bool gradient = false;  ///< the value is that of the variable's gradient
};

/// Tensors, as a user would write it.
class TensorRun {
 public:
  /// Reading the gradients that a program takes would compute them; only eager runs should.
  explicit TensorRun(bool reads_gradients = false) : reads_gradients_(reads_gradients) {}
  void Execute(const Program& program, const std::function<bool(const Statement&)>& skip = nullptr);
  void Execute(const Statement& statement, size_t index);

  const std::vector<Observation>& observations() const { return observations_; }
  const std::map<int, Tensor>& variables() const { return variables_; }
  /// What each statement that takes a gradient took, if they are read.
  const std::map<int, HostTensor>& gradients() const { return gradients_; }

 private:
  bool reads_gradients_;
  std::map<int, Tensor> variables_;
  std::map<int, HostTensor> gradients_;
  std::vector<Observation> observations_;
};

/// PlainTensors. Ops run one by one on copies of their operands; nothing ever aliases on the
/// device. It differentiates nothing: gradients that are taken are given to it.
class PlainRun {
 public:
  explicit PlainRun(std::map<int, HostTensor> gradients = {}) : gradients_(std::move(gradients)) {}
  void AddGradient(int var, HostTensor value) { gradients_[var] = std::move(value); }

  /// Throws a hammock::Error if the statement is not valid; the variables are then as before.
  void Execute(const Statement& statement, size_t index);
  void Execute(const Program& program);

  const std::vector<Observation>& observations() const { return observations_; }
  const std::map<int, PlainTensor>& variables() const { return variables_; }

 private:
  PlainTensor Call(const Statement& statement) const;
  void Write(const Statement& statement);

  std::map<int, PlainTensor> variables_;
  std::map<int, HostTensor> gradients_;
  std::vector<Observation> observations_;
};

/// Equal dtype, sizes and bits; a NaN, also in a part of a complex number, equals any NaN.
bool SameValues(const HostTensor& a, const HostTensor& b);

}  // namespace hammock::testing
