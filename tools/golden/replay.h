#pragma once
/// Runs one case: builds its inputs, calls its ops by name, compares what they return.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "case.h"
#include "hammock/device.h"
#include "hammock/io/npz.h"
#include "hammock/ir/any.h"

namespace hammock::golden {

enum class Outcome {
  kPass,
  kFail,     ///< a wrong result, or none of the errors that the case asks for
  kError,    ///< an error that the case does not ask for
  kUnknown,  ///< the op, or an overload that takes these arguments, is not registered
  kCrash,    ///< something other than a hammock::Error was thrown, or the process died
};
const char* NameOf(Outcome outcome);

struct CaseResult {
  Outcome outcome = Outcome::kPass;
  std::string detail;  ///< why it is not a pass
  /// Of a failure: every array that differs is nearer to the exact values than the suite's is.
  bool nearer = false;
};

/// A suite's function as one of our ops.
struct OpCall {
  std::string op;
  std::vector<Any> args;
  std::vector<std::pair<std::string, Any>> kwargs;
};

/// `slots` are what the arguments refer to.
OpCall MakeCall(const Step& step, const std::vector<Any>& slots, const std::string& device);

/// "torch.add", "F.relu", "Tensor.view", "torch.linalg.solve" to "add", "relu", "view",
/// "linalg_solve".
std::string OpName(const std::string& fn);

/// An output or a gradient and the suite's.
struct Comparison {
  std::string what;
  HostTensor actual, expected;
  double error;  ///< how far the expected values may be from the exact ones; 0 if unknown
};

/// Keeps the arrays of the group used last. For one thread.
class Replayer {
 public:
  /// With `exact`, floats are computed in f64.
  Replayer(std::string dir, const Device& device, bool exact = false)
      : dir_(std::move(dir)), device_(device), exact_(exact) {}

  CaseResult Run(const Case& c);

 private:
  HostTensor Load(const Case& c, const std::string& key, DType dtype);
  Any MakeInput(const Case& c, const Input& input);
  /// Fills `slots` with the inputs and what steps store, and returns the results.
  std::vector<Any> RunSteps(const Case& c, bool with_grad, std::vector<Any>* slots);
  /// The results one by one, beside the suite's.
  std::vector<Any> AddOutputs(const Case& c, const std::vector<Any>& results,
                              std::vector<Comparison>* comparisons);
  void AddGradients(const Case& c, std::vector<Comparison>* comparisons);
  std::vector<Comparison> Compare(const Case& c);
  /// The values that the reference device computes in f64 for each of the comparisons, rounded to
  /// its type; empty if it cannot.
  std::vector<HostTensor> ExactValues(const Case& c) const;
  CaseResult Judge(const Case& c);

  std::string dir_;
  Device device_;
  bool exact_;
  std::string group_;
  std::optional<io::NpzFile> arrays_;
};

}  // namespace hammock::golden
