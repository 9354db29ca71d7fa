#pragma once
/// JointKernel: several independent launches as one, each of which gets some of the blocks.
/// Launches of one kernel share a body, which finds its arguments in a table; arguments that are
/// equal for all of them are stored there once.

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/emit/emit_cuda.h"
#include "backends/cuda/emit/kernel_key.h"
#include "backends/cuda/emit/launch_config.h"

namespace hammock::cuda {

/// Immutable.
class JointKernel {
 public:
  static constexpr int kMostArguments = 511;  ///< a guarded launch has one more
  static constexpr int kMostBodies = 8;

  /// Whether a launch may be a part: it and its blocks are small.
  static bool Takes(const compiler::Launch& launch);

  /// Joins the first size() of `launches`, as many as fit, at least one.
  explicit JointKernel(const std::vector<const compiler::Launch*>& launches);

  size_t size() const { return parts_.size(); }
  KernelSource source(bool guarded = false) const;  ///< emitted anew; guarded as by EmitCuda
  void AddTo(KernelKey& key) const;                 ///< everything that the text depends on
  Grid grid() const;
  /// `scratch`: the address of each part's scratch memory.
  std::vector<uint64_t> Arguments(const compiler::BufferMap<uint64_t>& buffers,
                                  const std::vector<uint64_t>& scratch) const;

 private:
  struct Part {
    const compiler::Launch* launch;
    Grid grid;
    size_t number;  // among the launches
  };
  struct Body {
    LaunchConfig config;
    std::vector<Part> parts;
    std::vector<uint64_t> arguments;  // of the first part, without addresses
    std::vector<bool> varies;         // by argument: whether parts have their own
    int first = 0;                    // of the parts, in the table
    // The table has the arguments that do not vary, then those of each part that do.
    std::vector<int> indices;  // of the first part's arguments, in the table
    int own = 0;               // how many vary
  };

  bool Add(const compiler::Launch& launch, const LaunchConfig& config);
  int CountArguments() const;
  int LayOutArguments();
  std::string TextOf(const std::string& name, const std::vector<KernelSource>& sources,
                     bool guarded) const;
  static std::string PartText(const Body& body, const KernelSource& source);
  std::string CallText(const Body& body, const std::string& name) const;

  std::vector<Body> bodies_;
  std::vector<size_t> parts_;  // the body of each launch
  int threads_ = 1;
  int argument_count_ = 0;
};

}  // namespace hammock::cuda
