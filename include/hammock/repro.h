#pragma once
/// Repro files: a pending graph with the values of its inputs in one file, to run again elsewhere.
///
///   SaveRepro("bad.repro", {loss});                            // computes nothing
///   std::vector<Tensor> again = RunRepro("bad.repro", "cpu");  // in another process, on any
///   device
///
/// A file holds a magic, a version, a checksum, the graph as traced (with its source lines), its
/// inputs, and which of its values were asked for. It does not depend on the device it was saved
/// from.

#include <string>
#include <vector>

#include "hammock/device.h"
#include "hammock/export.h"
#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"
#include "hammock/tensor.h"

namespace hammock {

/// Writes the pending graph of the tensors, which live on one device, and its inputs. Nothing
/// pending is run, also if it has failed before; inputs that are being computed are waited for.
HAMMOCK_API void SaveRepro(const std::string& path, const std::vector<Tensor>& tensors,
                           Location at = Location::current());

/// Traces the saved graph anew on `device` and computes it; one tensor per saved one. Errors of the
/// graph are raised as they were; a damaged file is a ValueError (kParse) that says what is wrong.
HAMMOCK_API std::vector<Tensor> RunRepro(const std::string& path, const Device& device = Device(),
                                         Location at = Location::current());

/// Writes a lowered graph and the values of its inputs, for a backend that saves a run that failed.
HAMMOCK_API void WriteRepro(const std::string& path, const Graph& graph,
                            std::vector<HostTensor> inputs);

}  // namespace hammock
