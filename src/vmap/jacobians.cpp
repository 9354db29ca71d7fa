// Jacobians and Hessians: vmap over the rows or columns of an identity matrix.

#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/ops.h"
#include "hammock/vmap.h"

namespace hammock {
namespace {

using Blocks = std::vector<std::vector<Tensor>>;

/// The inputs as tensors whose history begins here, or goes on where they have one.
std::vector<Tensor> Variables(const char* op, const std::vector<Tensor>& inputs,
                              bool complex_too = true) {
  std::vector<Tensor> variables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    bool fits =
        input.defined() && (input.is_floating_point() || (complex_too && input.is_complex()));
    if (!fits) {
      Throw<TypeError>(ErrorCode::kDTypeMismatch, "{}: input {} must be a floating tensor, not {}",
                       op, i, input.defined() ? input.shape().to_string() : "undefined");
    }
    variables.push_back(input.requires_grad() ? input.view_as(input)
                                              : input.detach().requires_grad_());
  }
  return variables;
}

bool WantsHistory(const std::vector<Tensor>& inputs) {
  for (const Tensor& input : inputs) {
    if (input.requires_grad()) return true;
  }
  return false;
}

/// One tensor like `x` for each of its elements: 1 there, 0 elsewhere.
Tensor Basis(const Tensor& x) {
  Dims sizes = x.sizes();
  sizes.insert(0, x.numel());
  return eye(x.numel(), x.dtype(), x.device()).reshape(sizes);
}

Dims Joined(const Tensor& rows, const Tensor& columns) {
  Dims sizes = rows.sizes();
  for (int64_t size : columns.sizes()) sizes.push_back(size);
  return sizes;
}

/// A real function of complex numbers has no complex derivative.
void NeedComplex(const char* op, const Tensor& output, const Tensor& input) {
  if (!input.is_complex() || output.is_complex()) return;
  Throw<TypeError>(ErrorCode::kDTypeMismatch,
                   "{}: the result {} of the complex input {} is real; differentiate by the parts, "
                   "view_as_real(input)",
                   op, output.shape().to_string(), input.shape().to_string());
}

/// The gradients of `output`, which was computed from `inputs`, one for each row of `seeds`.
std::vector<Tensor> PulledBack(const Tensor& output, const std::vector<Tensor>& inputs,
                               const Tensor& seeds, bool create_graph) {
  TensorsFn pull_back = [&](const std::vector<Tensor>& seed) {
    std::vector<Tensor> grads = grad({output}, inputs, seed, true, create_graph, true);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) grads[i] = zeros_like(inputs[i].detach());
    }
    return grads;
  };
  return MapOver(pull_back, {seeds}, {});
}

/// The derivatives of `output`, which was computed from `inputs`, by each of them.
///
/// Gradients are of PyTorch's convention: where a function is holomorphic, that of the seed 1 is
/// the derivative's conjugate. Of a real input, the seeds 1 and i give the parts of the derivative.
std::vector<Tensor> Rows(const char* op, const Tensor& output, const std::vector<Tensor>& inputs,
                         bool create_graph) {
  std::vector<Tensor> blocks, imaginary;
  bool some_real = false;
  for (const Tensor& input : inputs) {
    NeedComplex(op, output, input);
    some_real |= !input.is_complex();
  }
  if (!output.requires_grad()) {
    for (const Tensor& input : inputs) {
      DType dtype =
          output.is_complex() ? PromoteTypes(output.dtype(), input.dtype()) : input.dtype();
      blocks.push_back(zeros(Joined(output, input), dtype, input.device()));
    }
    return blocks;
  }
  Tensor basis = Basis(output.detach());
  blocks = PulledBack(output, inputs, basis, create_graph);
  if (output.is_complex() && some_real) {
    Tensor rotated = complex(imag(basis), real(basis));
    imaginary = PulledBack(output, inputs, rotated, create_graph);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (inputs[i].is_complex()) {
      blocks[i] = conj(blocks[i]);
    } else if (output.is_complex()) {
      blocks[i] = complex(blocks[i], imaginary[i]);
    }
    blocks[i] = blocks[i].reshape(Joined(output, inputs[i]));
  }
  return blocks;
}

TensorsFn Listed(const TensorFunction& fn) {
  return [&fn](const std::vector<Tensor>& in) { return std::vector<Tensor>{fn(in[0])}; };
}

void CheckFunction(const char* op, bool is_there) {
  if (!is_there) Throw(ErrorCode::kValue, "{}: the function is empty", op);
}

}  // namespace

Blocks jacrev(const TensorsFn& fn, const std::vector<Tensor>& inputs, Location at) {
  LocationScope scope(at);
  CheckFunction("jacrev", static_cast<bool>(fn));
  EnableGradGuard enable;
  std::vector<Tensor> variables = Variables("jacrev", inputs);
  Blocks blocks;
  for (const Tensor& output : CallUser([&] { return fn(variables); })) {
    blocks.push_back(Rows("jacrev", output, variables, WantsHistory(inputs)));
  }
  return blocks;
}

Tensor jacrev(const TensorFunction& fn, const Tensor& input, Location at) {
  LocationScope scope(at);
  CheckFunction("jacrev", static_cast<bool>(fn));
  return jacrev(Listed(fn), std::vector<Tensor>{input}, at)[0][0];
}

Blocks jacfwd(const TensorsFn& fn, const std::vector<Tensor>& inputs, Location at) {
  LocationScope scope(at);
  CheckFunction("jacfwd", static_cast<bool>(fn));
  Variables("jacfwd", inputs);
  Blocks blocks;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorsFn push_forward = [&](const std::vector<Tensor>& tangent) {
      std::vector<Tensor> tangents;
      for (const Tensor& input : inputs) tangents.push_back(zeros_like(input.detach()));
      tangents[i] = tangent[0];
      return jvp([&](const std::vector<Tensor>& in) { return CallUser([&] { return fn(in); }); },
                 inputs, tangents)
          .second;
    };
    std::vector<Tensor> columns =
        MapOver(push_forward, {Basis(inputs[i].detach())}, {.out_dims = {-1}});
    blocks.resize(columns.size());
    for (size_t k = 0; k < columns.size(); ++k) {
      NeedComplex("jacfwd", columns[k], inputs[i]);
      Dims sizes = columns[k].sizes();
      sizes.erase(sizes.size() - 1);
      for (int64_t size : inputs[i].sizes()) sizes.push_back(size);
      blocks[k].push_back(columns[k].reshape(sizes));
    }
  }
  return blocks;
}

Tensor jacfwd(const TensorFunction& fn, const Tensor& input, Location at) {
  LocationScope scope(at);
  CheckFunction("jacfwd", static_cast<bool>(fn));
  return jacfwd(Listed(fn), std::vector<Tensor>{input}, at)[0][0];
}

Blocks hessian(const TensorsFn& fn, const std::vector<Tensor>& inputs, Location at) {
  LocationScope scope(at);
  CheckFunction("hessian", static_cast<bool>(fn));
  EnableGradGuard enable;
  std::vector<Tensor> variables = Variables("hessian", inputs, /*complex_too=*/false);
  std::vector<Tensor> outputs = CallUser([&] { return fn(variables); });
  if (outputs.size() != 1 || !outputs[0].defined() || outputs[0].numel() != 1) {
    Throw(ErrorCode::kShapeMismatch,
          "hessian: the function must return one tensor of one element, not {}",
          outputs.size() == 1 && outputs[0].defined() ? outputs[0].shape().to_string()
                                                      : fmt::format("{} tensors", outputs.size()));
  }
  std::vector<Tensor> gradients(variables.size());
  if (outputs[0].requires_grad()) {
    gradients = grad(outputs, variables, {ones_like(outputs[0].detach())}, true, true, true);
  }
  Blocks blocks;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = zeros_like(variables[i].detach());
    blocks.push_back(Rows("hessian", gradients[i], variables, WantsHistory(inputs)));
  }
  return blocks;
}

Tensor hessian(const TensorFunction& fn, const Tensor& input, Location at) {
  LocationScope scope(at);
  CheckFunction("hessian", static_cast<bool>(fn));
  return hessian(Listed(fn), std::vector<Tensor>{input}, at)[0][0];
}

}  // namespace hammock
