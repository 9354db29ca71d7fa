// Loops with a known number of iterations: a program inside of a program.
#include <optional>

#include "backends/common/saved_bodies.h"
#include "backends/cuda/calls/call_kit.h"
#include "backends/cuda/calls/device_kernel.h"
#include "backends/cuda/device/program_args.h"
#include "backends/cuda/passes/cuda_passes.h"
#include "backends/cuda/program.h"
#include "backends/cuda/shared_parts.h"
#include "base/throw.h"
#include "ir/primitives.h"

namespace hammock::cuda {
namespace {

int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// Kernels expect operands at multiples of 16 bytes.
bool LiesWell(int64_t bytes) { return bytes % 16 == 0; }

/// Carried values are written in turns into the result and into scratch memory, so that the last
/// iteration writes the result. Slices that do not begin where operands may are copied.
class LoopCall : public Call {
 public:
  LoopCall(const GraphNode& node, const CallContext& context)
      : program_(BodyOf(node.attr("body"), context)),
        body_(*program_),
        count_(node.attr("count").integer()),
        carried_(static_cast<size_t>(node.attr("num_carried").integer())),
        stacked_(static_cast<size_t>(node.attr("num_stacked_in").integer())) {
    const Graph& body = node.attr("body").graph();
    for (NodeId id : body.inputs()) input_bytes_.push_back(body[id].type().bytes());
    for (GraphValue output : body.outputs()) output_bytes_.push_back(body.TypeOf(output).bytes());
    int64_t at = Aligned(body_.plan().arena_bytes);
    auto allocate = [&at](int64_t bytes) { return std::exchange(at, at + Aligned(bytes)); };
    indices_at_ = allocate(count_ * 8);
    for (int64_t bytes : input_bytes_) inputs_at_.push_back(allocate(LiesWell(bytes) ? 0 : bytes));
    for (size_t i = 0; i < output_bytes_.size(); ++i) {
      bool needed = i < carried_ || !LiesWell(output_bytes_[i]);
      outputs_at_.push_back(allocate(needed ? output_bytes_[i] : 0));
    }
    scratch_ = at;
  }

  std::vector<KernelSource> Sources() const override {
    return {
        SourceOf({.file = "program.cuh", .function = "iota", .argument_bytes = sizeof(IotaArgs)})};
  }
  std::vector<const Program*> programs() const override { return {&body_}; }
  int64_t scratch_bytes() const override { return scratch_; }
  // All iterations note what goes wrong in the same words.
  int fault_count() const override { return body_.fault_count(); }
  std::optional<Fault> FindFault(const uint64_t* words) const override {
    return body_.FindFault(words);
  }

  void Run(Machine& machine, const Operands& operands) const override {
    auto at = [&](int64_t offset) { return operands.scratch + static_cast<Address>(offset); };
    if (count_ > 0) {
      machine.Launch(function(0), ElementGrid(count_),
                     WordsOf(IotaArgs{.count = count_, .out = At(at(indices_at_))}));
    }
    std::vector<Address> inputs = {0}, outputs(output_bytes_.size());
    inputs.insert(inputs.end(), operands.in.begin(), operands.in.end());
    for (int64_t i = 0; i < count_; ++i) {
      inputs[0] = at(indices_at_ + 8 * i);
      SetSlices(machine, operands, i, inputs);
      bool into_result = (count_ - 1 - i) % 2 == 0;
      for (size_t k = 0; k < outputs.size(); ++k) {
        bool direct = k < carried_ ? into_result : LiesWell(output_bytes_[k]);
        Address slice = k < carried_ ? 0 : static_cast<Address>(i * output_bytes_[k]);
        outputs[k] = direct ? operands.out[k] + slice : at(outputs_at_[k]);
      }
      body_.RunInside(inputs, outputs, operands.scratch, operands.fault);
      for (size_t k = 0; k < outputs.size(); ++k) CopyShared(machine, inputs, outputs, k);
      for (size_t k = carried_; k < outputs.size(); ++k) {
        Address slice = operands.out[k] + static_cast<Address>(i * output_bytes_[k]);
        Copy(machine, slice, outputs[k], output_bytes_[k]);
      }
      for (size_t k = 0; k < carried_; ++k) inputs[1 + k] = outputs[k];
    }
    for (size_t k = 0; k < carried_; ++k) {
      Copy(machine, operands.out[k], inputs[1 + k], output_bytes_[k]);
    }
  }

 private:
  static std::shared_ptr<const Program> BodyOf(const Attr& body, const CallContext& context) {
    std::shared_ptr<const Program> known;
    if (context.shared) known = context.shared->FindBody(body.graph());
    if (known) return known;
    // The program that this call is part of keeps the machine.
    std::shared_ptr<Machine> machine(std::shared_ptr<void>(), &context.machine);
    std::optional<SavedProgram> saved = FindSavedBody(body.graph_ptr());
    auto made = saved ? std::make_shared<const Program>(*saved, machine, /*body=*/true)
                      : std::make_shared<const Program>(ScheduledForCuda(body.graph()), machine,
                                                        Program::AtSizes(), Program::kSpreadBytes,
                                                        /*body=*/true);
    if (context.shared) context.shared->AddBody(body, made);
    return made;
  }

  static void Copy(Machine& machine, Address to, Address from, int64_t bytes) {
    if (to != from && bytes > 0) machine.Copy(to, from, bytes);
  }

  void SetSlices(Machine& machine, const Operands& operands, int64_t i,
                 std::vector<Address>& inputs) const {
    for (size_t k = 1 + carried_; k < 1 + carried_ + stacked_; ++k) {
      Address slice = operands.in[k - 1] + static_cast<Address>(i * input_bytes_[k]);
      inputs[k] = slice;
      if (LiesWell(input_bytes_[k])) continue;
      inputs[k] = operands.scratch + static_cast<Address>(inputs_at_[k]);
      Copy(machine, inputs[k], slice, input_bytes_[k]);
    }
  }

  /// Results of the body that are inputs or other results.
  void CopyShared(Machine& machine, const std::vector<Address>& inputs,
                  const std::vector<Address>& outputs, size_t k) const {
    const compiler::OutputSource& from = body_.outputs()[k];
    if (from.input >= 0) {
      Copy(machine, outputs[k], inputs[from.input], output_bytes_[k]);
    } else if (from.same >= 0) {
      Copy(machine, outputs[k], outputs[from.same], output_bytes_[k]);
    }
  }

  std::shared_ptr<const Program> program_;
  const Program& body_;
  int64_t count_;
  size_t carried_, stacked_;
  std::vector<int64_t> input_bytes_, output_bytes_;
  int64_t indices_at_ = 0;
  std::vector<int64_t> inputs_at_, outputs_at_;  // in the scratch memory
  int64_t scratch_ = 0;
};

std::string WhyNoLoop(const Graph&, const GraphNode& node) {
  const Graph& body = node.attr("body").graph();
  for (NodeId id : body.ids()) {
    const OpDef* op = body[id].op;
    if (op->IsComposite() && !RunsWhole(body, body[id]))
      return "its body has " + std::string(op->name());
    std::string why_not = WhyNot(body, id);
    if (!why_not.empty()) return "its body has " + std::string(op->name()) + ": " + why_not;
  }
  return "";
}

std::unique_ptr<Call> MakeLoop(const Graph&, const GraphNode& node, const CallContext& context) {
  return std::make_unique<LoopCall>(node, context);
}

constexpr CallEntry kCalls[] = {{&ops::kLoop, MakeLoop, WhyNoLoop}};

}  // namespace

std::span<const CallEntry> LoopCalls() { return kCalls; }

}  // namespace hammock::cuda
