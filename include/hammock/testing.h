#pragma once
/// Checks for people who write ops: what the tests of Hammock do with every record, for records of
/// your own.
///
///   TEST(MyOps, AreRight) { EXPECT_EQ(hammock::testing::CheckOp(kMyOp), ""); }

#include <string>
#include <vector>

#include "hammock/autograd.h"
#include "hammock/ir/op_def.h"

namespace hammock::testing {

struct GradcheckOptions {
  double eps = 1e-6;   ///< step of the numerical derivative
  double atol = 1e-6;  ///< where |analytical - numerical| may not exceed atol + rtol * |numerical|
  double rtol = 1e-4;
};

/// Compares the gradients of `fn` with central differences. The inputs must be f64; integer ones
/// are passed as they are. Returns what differs, or an empty string.
HAMMOCK_API std::string Gradcheck(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                                  const GradcheckOptions& options = {});
/// As above for the second order: the gradients of `fn` are differentiated.
HAMMOCK_API std::string Gradgradcheck(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                                      const GradcheckOptions& options = {});

/// Whether an op can be differentiated: it has a gradient, or an expansion.
HAMMOCK_API bool IsDifferentiable(const OpDef& op);

/// Runs the samples of a record: lazily and eagerly with equal bits, and with gradients of the
/// first and second order if it has floats to differentiate. Returns what is wrong, one line each.
/// A record that makes nodes must have samples, unless it is elementwise without attributes.
HAMMOCK_API std::string CheckOp(const OpDef& op);

/// How many samples a record has.
HAMMOCK_API size_t SampleCount(const OpDef& op);
/// The results of a sample on a device. The operands are those of CheckOp, computed on `reference`,
/// and the seed is 1, so that devices can be compared.
HAMMOCK_API std::vector<HostTensor> RunSample(const OpDef& op, size_t sample, const Device& device);

/// A sample of a record, for people: the call with the operands that CheckOp gives it, and the
/// graph of its node.
struct SampleText {
  std::string call;
  std::string graph;
};
HAMMOCK_API SampleText DescribeSample(const OpDef& op, size_t sample);

/// Runs the samples of a record under `vmap` and in a loop over the samples, with each tensor
/// operand batched by itself and all of them: values, gradients through the mapped call, and
/// gradients of each sample inside of one. Returns what differs, one line each.
HAMMOCK_API std::string CheckBatching(const OpDef& op);

}  // namespace hammock::testing
