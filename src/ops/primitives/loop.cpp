#include "ops/primitives/loop.h"

#include "hammock/ir/graph.h"
#include "hammock/op_builder.h"
#include "ir/primitives.h"
#include "ops/primitives/collectives.h"
#include "trace/symbolic.h"

namespace hammock::ops {

std::vector<Tensor> Loop(int64_t count, const LoopOperands& operands, const LoopBody& body) {
  std::vector<Shape> types{Shape(DType::kI64, {})};
  std::vector<Tensor> all;
  auto add = [&](const std::vector<Tensor>& tensors, bool stacked) {
    for (const Tensor& tensor : tensors) {
      Dims sizes = tensor.sizes();
      if (stacked) sizes.erase(0);
      types.push_back(tensor.shape().With(sizes));
      all.push_back(tensor);
    }
  };
  add(operands.carried, false);
  add(operands.stacked, true);
  add(operands.invariant, false);
  size_t carried = operands.carried.size(), stacked = operands.stacked.size();
  auto graph =
      std::make_shared<const Graph>(TraceSymbolically(types, [&](std::span<const Tensor> in) {
        return body({in[0], in.subspan(1, carried), in.subspan(1 + carried, stacked),
                     in.subspan(1 + carried + stacked)});
      }));
  const Attr attrs[] = {std::shared_ptr<const Graph>(graph), count, static_cast<int64_t>(carried),
                        static_cast<int64_t>(stacked)};
  std::vector<Tensor> results = ApplyMulti(kLoop, Location(), all, attrs);
  NoteCollectives(kLoop, attrs, results);
  return results;
}

}  // namespace hammock::ops
