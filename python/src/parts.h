#pragma once
/// The parts of the extension that nanobind binds; each adds its names to the module.

#include "python_api.h"

namespace hammock::python {

/// Gradients: backward, grad, jvp, checkpoint, custom functions, grad mode.
void AddAutograd(nb::module_& module);
/// Steps, compiled functions, guards, explanations.
void AddExecution(nb::module_& module);
/// Options and metrics.
void AddSettings(nb::module_& module);
/// Optimisers, clipping, the loss scale.
void AddOptim(nb::module_& module);
/// Programs, delegates and array functions.
void AddJit(nb::module_& module);
/// Branches and loops.
void AddControl(nb::module_& module);
/// Distributions.
void AddDistributions(nb::module_& module);
/// Calls of modules, and what quantisation needs.
void AddModules(nb::module_& module);
/// Sparse tensors.
void AddSparse(nb::module_& module);
/// Safetensors.
void AddFiles(nb::module_& module);
/// Profiles, activity and repro files.
void AddProfile(nb::module_& module);
/// Groups of processes and their collectives.
void AddDistributed(nb::module_& module);
/// ONNX files.
void AddOnnx(nb::module_& module);

}  // namespace hammock::python
