#include "backends/cpu/packed_weights.h"

#include <functional>
#include <new>
#include <string>

#include "hammock/metric.h"

namespace hammock::cpu {
namespace {

constinit const metrics::DeclaredCounter kWeightsPacked({
    .name = "cpu::WeightsPacked",
    .doc = "Weights packed for the matmul library, once each.",
});

using lazy::BackendData;

constexpr size_t kSlots = 2;  // packed weights of one data
constexpr std::align_val_t kAlignment{64};

struct PackedWeight {
  PackedWeight(std::string key, const void* source, int64_t bytes)
      : key(std::move(key)),
        source(source),
        data(static_cast<char*>(::operator new(static_cast<size_t>(bytes), kAlignment))) {}
  ~PackedWeight() { ::operator delete(data, kAlignment); }
  PackedWeight(const PackedWeight&) = delete;
  PackedWeight& operator=(const PackedWeight&) = delete;

  const std::string key;
  const void* const source;  // the address of the weight that was packed
  char* const data;
};

/// The key of a packed weight among the derived data.
std::string SlotOf(const std::string& key) {
  return "cpu packed " + std::to_string(std::hash<std::string>()(key) % kSlots);
}

std::shared_ptr<PackedWeight> Pack(const Program& program, const Program::Weight& weight,
                                   const HostTensor& input) {
  try {
    auto packed =
        std::make_shared<PackedWeight>(weight.spec->key, input.data(), weight.spec->bytes);
    program.PackWeight(weight, input, packed->data);
    metrics::Get<kWeightsPacked>().Add();
    return packed;
  } catch (const std::bad_alloc&) {
    return nullptr;  // the run goes without
  }
}

}  // namespace

PackedWeights::PackedWeights(const Program& program,
                             std::span<const lazy::BackendDataPtr> arguments,
                             const std::vector<HostTensor>& inputs,
                             const std::vector<bool>& donated, int64_t room) {
  pointers_.resize(program.weights().size());
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const Program::Weight& weight = program.weights()[i];
    const size_t input = static_cast<size_t>(weight.input);
    if (input < donated.size() && donated[input]) continue;
    BackendData& data = *arguments[input];
    const std::string slot = SlotOf(weight.spec->key);
    std::shared_ptr<PackedWeight> packed =
        std::static_pointer_cast<PackedWeight>(data.GetDerived(slot));
    if (!packed) {
      if (!program.SeenBefore(i, &data) || weight.spec->bytes > room) continue;
      packed = Pack(program, weight, inputs[input]);
      if (!packed) continue;
      room -= weight.spec->bytes;
      data.AttachDerived(slot, packed, weight.spec->bytes);
    }
    if (packed->key != weight.spec->key || packed->source != inputs[input].data()) continue;
    pointers_[i] = packed->data;
    held_.push_back(std::move(packed));
  }
}

}  // namespace hammock::cpu
