#include "trace/noted_collectives.h"

#include "base/of_thread.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

struct Noted {
  std::vector<NodePtr> nodes;
};

}  // namespace

std::vector<NodePtr>& NotedCollectives() { return OfThread<Noted>().nodes; }

Tensor NoteCollective(Tensor result) {
  Node* node = CurrentNode("collective", result);
  if (node->device() != kNoDevice) NotedCollectives().emplace_back(node);
  return result;
}

}  // namespace hammock
