#pragma once
/// Copies and fills as kernels of the loop IR.

#include "backends/cuda/calls/calls.h"
#include "hammock/compiler/kernel.h"
#include "hammock/ir/shape.h"

namespace hammock::cuda {

/// Offset and strides, in elements.
struct Layout {
  int64_t offset = 0;
  Dims strides;
};
Layout ContiguousLayout(const Dims& sizes);

/// From buffer 0 to buffer 1.
compiler::Launch CopyLaunch(DType dtype, const Dims& sizes, const Layout& from, const Layout& to);
/// The same with a conversion on the way.
compiler::Launch CastLaunch(DType from_dtype, DType to_dtype, const Dims& sizes, const Layout& from,
                            const Layout& to);

/// A launch, ready to run.
class PreparedLaunch {
 public:
  explicit PreparedLaunch(compiler::Launch launch);
  KernelSource Source() const;
  bool HasSameKernel(const PreparedLaunch& other) const {
    return config_ == other.config_ && *launch_.kernel == *other.launch_.kernel;
  }
  void Run(Machine& machine, const Function& function, Address from, Address to) const;

 private:
  compiler::Launch launch_;
  LaunchConfig config_;
  Grid grid_;
};

}  // namespace hammock::cuda
