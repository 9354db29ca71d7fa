#include "trace/rng.h"

#include <mutex>

#include "base/location_scope.h"
#include "base/never_destroyed.h"
#include "hammock/lazy/backend_interface.h"
#include "ir/primitives.h"
#include "trace/hooks.h"
#include "trace/tensor_impl.h"

namespace hammock {

struct Generator::State {
  std::mutex mutex;
  uint64_t seed = 0;
  uint64_t offset = 0;
};

Generator::Generator(uint64_t seed) : state_(std::make_shared<State>()) { state_->seed = seed; }

void Generator::manual_seed(uint64_t seed) {
  std::lock_guard lock(state_->mutex);
  state_->seed = seed;
  state_->offset = 0;
}

uint64_t Generator::seed() const {
  std::lock_guard lock(state_->mutex);
  return state_->seed;
}

uint64_t Generator::offset() const {
  std::lock_guard lock(state_->mutex);
  return state_->offset;
}

void Generator::set_offset(uint64_t offset) {
  std::lock_guard lock(state_->mutex);
  state_->offset = offset;
}

std::pair<uint64_t, uint64_t> Generator::Take(uint64_t blocks) {
  std::lock_guard lock(state_->mutex);
  return {state_->seed, std::exchange(state_->offset, state_->offset + blocks)};
}

Generator& Generator::Default() {
  static auto& instance = NeverDestroyed<Generator>(0);
  return instance;
}

void manual_seed(uint64_t seed, Location at) {
  LocationScope scope(at);
  Generator::Default().manual_seed(seed);
  SeedBackends(seed);
}

Tensor MakeRngState(const std::optional<Generator>& generator, uint64_t blocks,
                    const Device& device) {
  Generator source = generator ? *generator : Generator::Default();
  RandomDraw draw = TakeRandom(source, blocks);
  const Attr attrs[] = {Attr(static_cast<int64_t>(draw.seed)),
                        Attr(static_cast<int64_t>(draw.offset)),
                        Attr(static_cast<int64_t>(draw.blocks))};
  Shape shape(DType::kU64, {2});
  NodePtr node =
      Node::Make(ops::kRngState, {}, attrs, std::span(&shape, 1), device.id(), tls_location);
  if (generator)
    NodeAccess::MakePayload(node.get()).generator = std::make_shared<Generator>(*generator);
  return NewTensor(node.release(), 0, true);
}

}  // namespace hammock
