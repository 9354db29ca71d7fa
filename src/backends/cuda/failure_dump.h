#pragma once
/// FailureDump: a computation and the values of its inputs, kept until it is known whether its run
/// went well; a run that did not is written to the folder that the option `cuda.dump_failures`
/// names. Inputs are read before the run: after it they may be overwritten, or lost.

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/program.h"
#include "hammock/host_tensor.h"
#include "hammock/ir/graph.h"
#include "hammock/option.h"

namespace hammock::cuda {

inline constinit config::Option<std::string> kDumpFailures({
    .name = "cuda.dump_failures",
    .default_value = "",
    .doc = "Folder to which a computation that fails on a CUDA device is written: its kernels as "
           "text, its graph and the values of its inputs, for `hammock run FILE.repro`. Every "
           "kernel is waited for, so that the one that failed is known; empty: nothing is written.",
});

class FailureDump {
 public:
  FailureDump(const Graph& graph, std::shared_ptr<const Program> program,
              std::vector<HostTensor> inputs)
      : graph_(graph), program_(std::move(program)), inputs_(std::move(inputs)) {}

  /// Writes FAILURE.repro, which `hammock run` takes, FAILURE.cu with the text of all kernels and
  /// FAILURE.txt with the error, the graph and its commands. Errors while writing are logged.
  void Write(const Error& error) const;

 private:
  void WriteTo(const std::string& base, const Error& error) const;

  const Graph graph_;
  const std::shared_ptr<const Program> program_;
  const std::vector<HostTensor> inputs_;
};

}  // namespace hammock::cuda
