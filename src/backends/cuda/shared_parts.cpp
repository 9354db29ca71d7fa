#include "backends/cuda/shared_parts.h"

#include "backends/cuda/program.h"

namespace hammock::cuda {

std::shared_ptr<Function> SharedParts::FindKernel(const KernelKey& key) const {
  std::lock_guard lock(mutex_);
  auto found = kernels_.find(key);
  return found == kernels_.end() ? nullptr : found->second;
}

void SharedParts::AddKernel(KernelKey key, std::shared_ptr<Function> function) {
  std::lock_guard lock(mutex_);
  kernels_.try_emplace(std::move(key), std::move(function));
}

std::shared_ptr<Call> SharedParts::FindCall(NodeId node) const {
  std::lock_guard lock(mutex_);
  auto found = calls_.find(node);
  return found == calls_.end() ? nullptr : found->second;
}

void SharedParts::AddCall(NodeId node, std::shared_ptr<Call> call) {
  std::lock_guard lock(mutex_);
  calls_.try_emplace(node, std::move(call));
}

std::shared_ptr<const Program> SharedParts::FindBody(const Graph& body) const {
  std::lock_guard lock(mutex_);
  auto found = bodies_.find(&body);
  return found == bodies_.end() ? nullptr : found->second.program;
}

void SharedParts::AddBodies(std::vector<const Program*>& bodies) const {
  std::lock_guard lock(mutex_);
  for (const auto& [graph, body] : bodies_) {
    bodies.push_back(body.program.get());
    body.program->AddBodies(bodies);
  }
}

void SharedParts::AddBody(const Attr& body, std::shared_ptr<const Program> program) {
  constexpr size_t kMost = 64;  // bodies that vary with the sizes are used once
  std::lock_guard lock(mutex_);
  if (bodies_.size() >= kMost) return;
  bodies_.try_emplace(&body.graph(), Body{body, std::move(program)});
}

}  // namespace hammock::cuda
