#include "backends/cpu/matmul/packed_weights.h"

#include <functional>
#include <new>
#include <string>

#include "hammock/metrics.h"

namespace hammock::cpu {
namespace {

using lazy::BackendData;

constexpr size_t kSlots = 2;  // forms of one data
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
  const void* const source;  // where the value was that it was made from
  char* const data;
};

/// Where among the derived forms of a data the form is, or would be.
std::string SlotOf(const std::string& key) {
  return "cpu packed " + std::to_string(std::hash<std::string>()(key) % kSlots);
}

std::shared_ptr<PackedWeight> Pack(const Program& program, const Program::Weight& weight,
                                   const HostTensor& input) {
  static metrics::Counter& made = metrics::GetCounter("cpu::WeightsPacked");
  try {
    auto packed =
        std::make_shared<PackedWeight>(weight.form->key, input.data(), weight.form->bytes);
    program.MakeForm(weight, static_cast<const char*>(input.data()), packed->data);
    made.Add();
    return packed;
  } catch (const std::bad_alloc&) {
    return nullptr;  // the run goes without
  }
}

}  // namespace

WeightForms::WeightForms(const Program& program, std::span<const lazy::BackendDataPtr> arguments,
                         const std::vector<HostTensor>& inputs, const std::vector<bool>& donated,
                         int64_t room) {
  pointers_.resize(program.weights().size());
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const Program::Weight& weight = program.weights()[i];
    const size_t input = static_cast<size_t>(weight.input);
    if (input < donated.size() && donated[input]) continue;
    BackendData& data = *arguments[input];
    const std::string slot = SlotOf(weight.form->key);
    std::shared_ptr<PackedWeight> form =
        std::static_pointer_cast<PackedWeight>(data.GetDerived(slot));
    if (!form) {
      if (!program.SeenBefore(i, &data) || weight.form->bytes > room) continue;
      form = Pack(program, weight, inputs[input]);
      if (!form) continue;
      room -= weight.form->bytes;
      data.AttachDerived(slot, form, weight.form->bytes);
    }
    if (form->key != weight.form->key || form->source != inputs[input].data()) continue;
    pointers_[i] = form->data;
    held_.push_back(std::move(form));
  }
}

}  // namespace hammock::cpu
