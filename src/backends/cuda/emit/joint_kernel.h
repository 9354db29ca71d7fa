#pragma once
/// Several independent launches as one: blocks are shared out by number. Launches of one kernel
/// have one body, which finds its words in a table; words that are the same for all of them stand
/// there once.

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/emit/emit_cuda.h"
#include "backends/cuda/emit/launch_config.h"
#include "backends/cuda/shared_parts.h"

namespace hammock::cuda {

/// Immutable.
class JointKernel {
 public:
  static constexpr int kMostWords = 511;  ///< a launch takes one more, which guards it
  static constexpr int kMostBodies = 8;

  /// Whether a launch may be a part: it is small, and so are its blocks.
  static bool Takes(const compiler::Launch& launch);

  /// Of the first of `launches`, as many as there is room for: size() of them, at least one.
  explicit JointKernel(const std::vector<const compiler::Launch*>& launches);

  size_t size() const { return parts_.size(); }
  KernelSource source(bool guarded = false) const;  ///< emitted anew; guarded as by EmitCuda
  void AddTo(KernelKey& key) const;                 ///< what the text follows from
  Grid grid() const;
  /// `scratch`: the address of each part's scratch memory.
  std::vector<uint64_t> Words(const std::vector<uint64_t>& buffers,
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
    std::vector<uint64_t> words;  // of the first part, without addresses
    std::vector<bool> varies;     // by word: parts have their own
    int first = 0;                // of the parts, in the table
    // Where the words are: those that do not vary, then those of each part that do.
    std::vector<int> places;  // of the first part's
    int own = 0;              // how many vary
  };

  bool Add(const compiler::Launch& launch, const LaunchConfig& config);
  int CountWords() const;
  int PlaceWords();
  std::string TextOf(const std::string& name, const std::vector<KernelSource>& sources,
                     bool guarded) const;
  static std::string PartText(const Body& body, const KernelSource& source);
  std::string CallText(const Body& body, const std::string& name) const;

  std::vector<Body> bodies_;
  std::vector<size_t> parts_;  // the body of each launch
  int threads_ = 1;
  int words_ = 0;
};

}  // namespace hammock::cuda
