#pragma once
/// Hammock behind PyTorch's lazy tensors: a complete torch::lazy::BackendImplInterface.
///
///   hammock_torch::InitLazyBackend("cpu");
///   at::Tensor x = at::randn({3}).to(at::kLazy);

#include <hammock/device.h>

#include <string>

namespace hammock_torch {

/// Makes device `lazy` run on a device of Hammock ("cpu", "cuda:0", a plug-in's name), in this
/// process from now on; may be called again with another device. PyTorch's own kernels for lazy
/// tensors are registered if they are not yet. Throws Hammock's ValueError for an unknown device.
void InitLazyBackend(const std::string& device);

/// The device of Hammock that InitLazyBackend was given last.
hammock::Device LazyDevice();

/// A report of the ops that ran and that fell back, Hammock's metrics, and why graphs were
/// compiled.
std::string LazyReport();
/// The TorchScript graph that was lowered last.
std::string LastLazyGraph();

}  // namespace hammock_torch
