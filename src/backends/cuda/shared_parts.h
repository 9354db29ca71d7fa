#pragma once
/// SharedParts: the kernels, calls and bodies that programs of one schedule at many sizes share.

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "backends/cuda/calls/calls.h"
#include "backends/cuda/emit/kernel_key.h"
#include "hammock/ir/attr.h"

namespace hammock::cuda {

class Program;

/// Filled by the first program, read by the others. Thread-safe.
class SharedParts {
 public:
  std::shared_ptr<Function> FindKernel(const KernelKey& key) const;
  void AddKernel(KernelKey key, std::shared_ptr<Function> function);

  /// The call of a node that is the same at all sizes, with its functions.
  std::shared_ptr<Call> FindCall(NodeId node) const;
  void AddCall(NodeId node, std::shared_ptr<Call> call);

  /// The program of a loop's body; null if it was not added.
  std::shared_ptr<const Program> FindBody(const Graph& body) const;
  /// `body` holds the graph.
  void AddBody(const Attr& body, std::shared_ptr<const Program> program);
  /// The bodies that were added, and those inside of these.
  void AddBodies(std::vector<const Program*>& bodies) const;

 private:
  struct Hash {
    size_t operator()(const KernelKey& key) const { return key.hash(); }
  };
  struct Body {
    Attr graph;  // keeps the address that is the key
    std::shared_ptr<const Program> program;
  };

  mutable std::mutex mutex_;
  std::unordered_map<KernelKey, std::shared_ptr<Function>, Hash> kernels_;
  std::map<NodeId, std::shared_ptr<Call>> calls_;
  std::map<const Graph*, Body> bodies_;
};

}  // namespace hammock::cuda
