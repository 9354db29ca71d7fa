#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "autograd/sample_operands.h"
#include "base/throw.h"
#include "hammock/executor.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "hammock/testing.h"
#include "ir/sample.h"

namespace hammock::testing {

namespace {

/// Numbers without ties or pattern: multiples of the golden ratio, in [0, 1).
double Spread(int64_t i) {
  double x = 0.6180339887498949 * static_cast<double>(i + 1);
  return x - std::floor(x);
}

Tensor Weights(const Tensor& like, int64_t seed) {
  std::vector<double> values(static_cast<size_t>(like.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = Spread(seed * 1000 + static_cast<int64_t>(i)) + 0.5;
  }
  return tensor(values, like.sizes(), DType::kF64, like.device());
}

bool HasGradient(const Tensor& x) { return x.defined() && IsFloatOrComplex(x.dtype()); }

}  // namespace

Tensor Weighed(const std::vector<Tensor>& outputs) {
  Tensor total;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!HasGradient(outputs[i])) continue;
    Tensor output = outputs[i];
    if (output.is_complex()) output = view_as_real(output.contiguous());
    output = output.to(DType::kF64);
    Tensor part = sum(output * Weights(output, static_cast<int64_t>(i)));
    total = total.defined() ? total + part : part;
  }
  return total;
}

namespace {

std::vector<Tensor> Leaves(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.defined() ? input.detach().clone() : Tensor());
    if (HasGradient(input)) leaves.back().requires_grad_();
  }
  return leaves;
}

std::vector<size_t> FloatsOf(const std::vector<Tensor>& inputs) {
  std::vector<size_t> positions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (HasGradient(inputs[i])) positions.push_back(i);
  }
  return positions;
}

/// The gradients of the weighed results with respect to the floating and complex inputs; zeros
/// where there are none.
std::vector<Tensor> GradientsOf(const TensorsFn& fn, const std::vector<Tensor>& leaves,
                                bool create_graph) {
  std::vector<Tensor> inputs;
  for (size_t i : FloatsOf(leaves)) inputs.push_back(leaves[i]);
  Tensor total = Weighed(fn(leaves));
  std::vector<Tensor> grads(inputs.size());
  if (total.defined() && total.requires_grad()) {
    grads = grad({total}, inputs, {}, create_graph, create_graph, true);
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) grads[i] = zeros_like(inputs[i].detach());
  }
  return grads;
}

}  // namespace

std::string Gradcheck(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                      const GradcheckOptions& options) {
  EnableGradGuard enable;
  for (size_t i : FloatsOf(inputs)) {
    if (RealOf(inputs[i].dtype()) == DType::kF64) continue;
    Throw<TypeError>(ErrorCode::kDTypeMismatch, "Gradcheck: input {} is {}, needs f64 or c128", i,
                     inputs[i].shape().to_string());
  }
  std::vector<Tensor> analytical = GradientsOf(fn, Leaves(inputs), false);
  std::vector<size_t> positions = FloatsOf(inputs);
  for (size_t k = 0; k < positions.size(); ++k) {
    size_t position = positions[k];
    const bool is_complex = inputs[position].is_complex();
    // The gradient of a complex number is that of its real part plus i times that of the other.
    auto numbers_of = [&](const Tensor& x) {
      return (is_complex ? view_as_real(x.contiguous()) : x).to_vector<double>();
    };
    std::vector<double> values = numbers_of(inputs[position]);
    std::vector<double> found = numbers_of(analytical[k]);
    auto at = [&](size_t element, double step) {
      std::vector<double> moved = values;
      moved[element] += step;
      std::vector<Tensor> arguments = inputs;
      Dims sizes = inputs[position].sizes();
      if (is_complex) sizes.push_back(2);
      arguments[position] = tensor(moved, sizes, DType::kF64, inputs[position].device());
      if (is_complex) arguments[position] = view_as_complex(arguments[position]);
      Tensor total = Weighed(fn(arguments));
      return total.defined() ? total.item<double>() : 0.0;
    };
    for (size_t i = 0; i < values.size(); ++i) {
      double numerical = (at(i, options.eps) - at(i, -options.eps)) / (2 * options.eps);
      double limit = options.atol + options.rtol * std::abs(numerical);
      if (std::abs(found[i] - numerical) <= limit) continue;
      return fmt::format("the gradient of input {} at element {} (value {}) is {}, numerically {}",
                         position, i, values[i], found[i], numerical);
    }
  }
  return "";
}

std::string Gradgradcheck(const TensorsFn& fn, const std::vector<Tensor>& inputs,
                          const GradcheckOptions& options) {
  EnableGradGuard enable;
  auto gradients = [&](const std::vector<Tensor>& arguments) {
    std::vector<Tensor> leaves = arguments;
    for (size_t i : FloatsOf(leaves)) {
      if (!leaves[i].requires_grad()) leaves[i] = leaves[i].detach().clone().requires_grad_();
    }
    return GradientsOf(fn, leaves, true);
  };
  std::string difference = Gradcheck(gradients, inputs, options);
  return difference.empty() ? "" : "second order: " + difference;
}

bool IsDifferentiable(const OpDef& op) { return op.IsNode() && (op.vjp || op.IsComposite()); }

Tensor OperandOf(const OpDef& op, size_t position, const Shape& type, int64_t sample) {
  if (IsComplex(type.dtype())) {
    Shape part = type.With(DType::kF64);
    return complex(OperandOf(op, position, part, sample),
                   OperandOf(op, position + 50, part, sample));
  }
  std::vector<double> values(static_cast<size_t>(type.numel()));
  int64_t row = type.rank() > 1 ? std::max<int64_t>(type.sizes().back(), 1) : 1;
  for (int64_t i = 0; i < type.numel(); ++i) {
    double spread = Spread(static_cast<int64_t>(position) * 100 + i + sample * 10007);
    values[i] = IsFloat(type.dtype()) ? op.domain.lo + (op.domain.hi - op.domain.lo) * spread
                                      : static_cast<double>((i / row + sample) % 2);
  }
  DType dtype = IsFloat(type.dtype()) ? DType::kF64 : type.dtype();
  return tensor(values, type.sizes(), DType::kF64).to(dtype);
}

bool IsNumber(const OpDef& op, size_t position) {
  const OpInfo& info = op.info();
  if (position >= info.operand_args.size()) return false;  // one of a list
  auto argument = static_cast<size_t>(info.operand_args[position]);
  return info.schema.arguments()[argument].type.base == SchemaType::Base::kScalar;
}

std::vector<Tensor> OperandsOf(const OpDef& op, const SampleCall& call) {
  std::vector<Tensor> operands(call.operands.size());
  double number = 0.0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!call.operands[i]) continue;
    if (!IsNumber(op, i)) {
      operands[i] = OperandOf(op, i, *call.operands[i]);
    } else if (IsFloat(call.operands[i]->dtype())) {
      operands[i] = tensor(number += 0.5, DType::kF64);
    } else {
      operands[i] = tensor(1, call.operands[i]->dtype());
    }
  }
  return operands;
}

namespace {

bool SameBits(const Tensor& a, const Tensor& b) {
  HostTensor x = a.host(), y = b.host();
  return x.shape() == y.shape() &&
         std::memcmp(x.data(), y.data(), static_cast<size_t>(x.bytes())) == 0;
}

std::string CheckCall(const OpDef& op, const SampleCall& call) {
  std::vector<Tensor> all = OperandsOf(op, call), operands;
  std::vector<size_t> positions;  // of `operands` in `all`
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].defined() || IsNumber(op, i)) continue;
    operands.push_back(all[i]);
    positions.push_back(i);
  }
  TensorsFn run = [&](const std::vector<Tensor>& inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) all[positions[i]] = inputs[i];
    return ApplyMulti(op, Location::current(), all, call.attrs);
  };
  std::vector<Tensor> lazily = run(operands), eagerly;
  {
    EagerMode eager;
    eagerly = run(operands);
  }
  for (size_t i = 0; i < lazily.size(); ++i) {
    if (!SameBits(lazily[i], eagerly[i])) {
      return fmt::format("result {} differs between lazy and eager mode", i);
    }
  }
  if (!IsDifferentiable(op)) return "";
  std::string first = Gradcheck(run, operands);
  return first.empty() ? Gradgradcheck(run, operands, {1e-5, 1e-4, 1e-3}) : first;
}

}  // namespace

std::string CheckOp(const OpDef& op) {
  if (!op.IsNode()) return "";
  std::string problems;
  std::vector<SampleCall> calls = SampleCalls(op);
  if (calls.empty()) problems += fmt::format("{}: has no samples\n", op.name());
  for (size_t i = 0; i < calls.size(); ++i) {
    try {
      std::string problem = CheckCall(op, calls[i]);
      if (!problem.empty()) problems += fmt::format("{}, sample {}: {}\n", op.name(), i, problem);
    } catch (const std::exception& error) {
      problems += fmt::format("{}, sample {}: raises {}\n", op.name(), i, error.what());
    }
  }
  return problems;
}

size_t SampleCount(const OpDef& op) { return SampleCalls(op).size(); }

std::vector<HostTensor> RunSample(const OpDef& op, size_t sample, const Device& device) {
  const Device before;
  struct Restore {
    const Device& device;
    ~Restore() { SetDefaultDevice(device); }
  } restore{before};
  const SampleCall call = SampleCalls(op).at(sample);
  SetDefaultDevice("reference");
  std::vector<Tensor> operands = OperandsOf(op, call);
  for (Tensor& operand : operands) {
    if (operand.defined()) operand = from_host(operand.host(), device);
  }
  SetDefaultDevice(device);
  manual_seed(1);
  std::vector<HostTensor> results;
  for (const Tensor& result : ApplyMulti(op, Location::current(), operands, call.attrs)) {
    results.push_back(result.host());
  }
  return results;
}

SampleText DescribeSample(const OpDef& op, size_t sample) {
  const SampleCall call = SampleCalls(op).at(sample);
  std::string operands;
  std::vector<std::string> arguments;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    arguments.push_back(call.operands[i] ? fmt::format("x{}", i) : "Tensor()");
    if (!call.operands[i]) continue;
    const bool number = IsNumber(op, i);
    const Tensor operand = number ? Tensor() : OperandOf(op, i, *call.operands[i]);
    if (number) {
      operands +=
          fmt::format("  Tensor x{};  // a number of {}\n", i, call.operands[i]->to_string());
    } else if (operand.is_complex()) {
      operands += fmt::format("  Tensor x{};  // complex, of {}\n", i, operand.shape().to_string());
    } else {
      operands += fmt::format("  Tensor x{} = tensor(std::vector<double>{{{}}}, {{{}}}).to({});\n",
                              i, fmt::join(operand.to_vector<double>(), ", "),
                              fmt::join(operand.sizes(), ", "), InfoOf(operand.dtype()).name);
    }
  }
  for (size_t i = 0; i < call.attrs.size(); ++i) {
    arguments.push_back(fmt::format("/*{}=*/{}", op.info().AttributeName(static_cast<int>(i)),
                                    call.attrs[i].to_string()));
  }
  return {fmt::format("{}  {}({});\n", operands, op.name(), fmt::join(arguments, ", ")),
          ToText(GraphOfSample(op, call))};
}

}  // namespace hammock::testing
