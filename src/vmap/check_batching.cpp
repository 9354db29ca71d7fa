// The check of every record: mapped calls against a loop over the samples.

#include <fmt/format.h>

#include <cmath>

#include "autograd/sample_operands.h"
#include "hammock/op_builder.h"
#include "hammock/ops.h"
#include "hammock/testing.h"
#include "hammock/vmap.h"
#include "ir/sample.h"

namespace hammock::testing {
namespace {

constexpr int64_t kSamples = 3;

/// A sample call whose operands `batched` have one value per sample.
struct MappedCall {
  const OpDef& op;
  const SampleCall& sample;
  std::vector<Tensor> all;        // numbers are there already
  std::vector<size_t> positions;  // of tensors among `all`
  std::vector<Tensor> inputs;     // those, stacked where they are batched
  SampleDims dims;

  std::vector<Tensor> Run(const std::vector<Tensor>& in) const {
    std::vector<Tensor> operands = all;
    for (size_t i = 0; i < in.size(); ++i) operands[positions[i]] = in[i];
    return ApplyMulti(op, Location::current(), operands, sample.attrs);
  }
};

MappedCall CallOf(const OpDef& op, const SampleCall& sample, int batched) {
  MappedCall call{op, sample, {}, {}, {}, {}};
  call.all.resize(sample.operands.size());
  double number = 0.0;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    if (!sample.operands[i]) continue;
    const Shape& type = *sample.operands[i];
    if (IsNumber(op, i)) {
      call.all[i] =
          IsFloat(type.dtype()) ? tensor(number += 0.5, DType::kF64) : tensor(1, type.dtype());
      continue;
    }
    bool each = batched < 0 || batched == static_cast<int>(call.positions.size());
    call.positions.push_back(i);
    call.dims.push_back(each ? std::optional<int64_t>(0) : std::nullopt);
    if (!each) {
      call.inputs.push_back(OperandOf(op, i, type));
      continue;
    }
    std::vector<Tensor> samples;
    for (int64_t k = 0; k < kSamples; ++k) samples.push_back(OperandOf(op, i, type, k));
    call.inputs.push_back(stack(samples));
  }
  return call;
}

std::vector<Tensor> Mapped(const MappedCall& call, const TensorsFn& fn,
                           const std::vector<Tensor>& inputs) {
  return MapOver(fn, inputs, {.in_dims = call.dims});
}

std::vector<Tensor> Looped(const MappedCall& call, const TensorsFn& fn,
                           const std::vector<Tensor>& inputs) {
  std::vector<std::vector<Tensor>> parts;
  for (int64_t k = 0; k < kSamples; ++k) {
    std::vector<Tensor> in;
    for (size_t i = 0; i < inputs.size(); ++i) {
      in.push_back(call.dims[i] ? inputs[i].select(0, k) : inputs[i]);
    }
    std::vector<Tensor> results = fn(in);
    parts.resize(results.size());
    for (size_t i = 0; i < results.size(); ++i) parts[i].push_back(results[i]);
  }
  std::vector<Tensor> stacked;
  for (const std::vector<Tensor>& part : parts) stacked.push_back(stack(part));
  return stacked;
}

using Runner = std::vector<Tensor> (*)(const MappedCall&, const TensorsFn&,
                                       const std::vector<Tensor>&);

/// Gradients of weighed results with respect to the floats among `inputs`; zeros where there are
/// none.
std::vector<Tensor> GradientsOf(const TensorsFn& fn, const std::vector<Tensor>& inputs) {
  EnableGradGuard enable;
  std::vector<Tensor> leaves, wanted, grads;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.detach());
    if (IsFloatOrComplex(input.dtype())) wanted.push_back(leaves.back().requires_grad_());
  }
  Tensor total = Weighed(fn(leaves));
  grads.resize(wanted.size());
  if (total.defined() && total.requires_grad()) {
    grads = grad({total}, wanted, {}, false, false, true);
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined()) grads[i] = zeros_like(wanted[i].detach());
  }
  return grads;
}

std::string Difference(const char* what, const std::vector<Tensor>& mapped,
                       const std::vector<Tensor>& looped) {
  if (mapped.size() != looped.size()) {
    return fmt::format("{}: {} results, {} in a loop", what, mapped.size(), looped.size());
  }
  for (size_t i = 0; i < mapped.size(); ++i) {
    if (mapped[i].shape() != looped[i].shape()) {
      return fmt::format("{}: result {} is {}, {} in a loop", what, i,
                         mapped[i].shape().to_string(), looped[i].shape().to_string());
    }
    auto numbers = [](const Tensor& x) {
      return (x.is_complex() ? view_as_real(x.contiguous()) : x)
          .to(DType::kF64)
          .to_vector<double>();
    };
    std::vector<double> a = numbers(mapped[i]), b = numbers(looped[i]);
    for (size_t k = 0; k < a.size(); ++k) {
      bool same = a[k] == b[k] || (std::isnan(a[k]) && std::isnan(b[k])) ||
                  std::abs(a[k] - b[k]) <= 1e-6 + 1e-6 * std::abs(b[k]);
      if (!same) {
        return fmt::format("{}: result {} at element {} is {}, {} in a loop", what, i, k, a[k],
                           b[k]);
      }
    }
  }
  return "";
}

/// A mapped call must refuse the gradients that a loop refuses.
template <class Gradients>
std::string CompareGradients(const char* what, const Gradients& gradients) {
  std::vector<Tensor> looped;
  try {
    looped = gradients(Looped);
  } catch (const NotSupported&) {
    try {
      gradients(Mapped);
    } catch (const NotSupported&) {
      return "";
    }
    return fmt::format("{}: are refused in a loop only", what);
  }
  return Difference(what, gradients(Mapped), looped);
}

/// Values; gradients through the mapped call; gradients of each sample inside of one.
std::string Compare(const MappedCall& call) {
  TensorsFn run = [&](const std::vector<Tensor>& in) { return call.Run(in); };
  std::string problem =
      Difference("values", Mapped(call, run, call.inputs), Looped(call, run, call.inputs));
  if (!problem.empty() || !IsDifferentiable(call.op)) return problem;
  auto through = [&](Runner runner) {
    return GradientsOf([&](const std::vector<Tensor>& in) { return runner(call, run, in); },
                       call.inputs);
  };
  auto inside = [&](Runner runner) {
    return runner(
        call, [&](const std::vector<Tensor>& in) { return GradientsOf(run, in); }, call.inputs);
  };
  problem = CompareGradients("gradients through it", through);
  return problem.empty() ? CompareGradients("gradients of each sample", inside) : problem;
}

}  // namespace

std::string CheckBatching(const OpDef& op) {
  if (!op.IsNode()) return "";
  std::string problems;
  const std::vector<SampleCall> calls = SampleCalls(op);
  for (size_t i = 0; i < calls.size(); ++i) {
    const int tensors = static_cast<int>(CallOf(op, calls[i], -1).positions.size());
    // Each operand by itself, then all of them.
    for (int batched = tensors > 1 ? tensors - 1 : -1; batched >= -1 && tensors > 0; --batched) {
      std::string problem;
      try {
        problem = Compare(CallOf(op, calls[i], batched));
      } catch (const std::exception& error) {
        problem = fmt::format("raises {}", error.what());
      }
      if (problem.empty()) continue;
      problems +=
          fmt::format("{}, sample {}, {}: {}\n", op.name(), i,
                      batched < 0 ? "all operands" : fmt::format("operand {}", batched), problem);
    }
  }
  return problems;
}

}  // namespace hammock::testing
