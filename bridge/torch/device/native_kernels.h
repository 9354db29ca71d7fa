#pragma once
/// Kernels of device "hammock" that the table of aten ops does not give, and what it must not give.

#include <string>

#include "engine/adaptor.h"

namespace torch {
class Library;
}

namespace hammock_torch {

void RegisterNativeKernels(torch::Library& library);
/// By full name ("aten::view.dtype"), of ops that mean more here than in a graph, where only values
/// count; null for others.
Adaptor DeviceAdaptor(const std::string& name);
/// Whether the op of that name ("aten::add") is recorded by the table.
bool IsFromTable(const std::string& name);

/// _fused_*, _amp_*.
void RegisterFusedKernels(torch::Library& library);
/// Which ops autocast("hammock") runs in which dtype.
void RegisterAutocast(torch::Library& library);

}  // namespace hammock_torch
