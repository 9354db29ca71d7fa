// Branches and loops: programs inside of programs.

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/common/saved_bodies.h"
#include "backends/cpu/calls/call_kit.h"
#include "backends/cpu/host/strided_copy.h"
#include "backends/cpu/program.h"
#include "base/never_destroyed.h"
#include "hammock/host_tensor.h"
#include "ir/primitives.h"

namespace hammock::cpu {
namespace {

using Operands = std::span<const char* const>;
using Results = std::span<char* const>;

int64_t Aligned(int64_t bytes) {
  return (bytes + compiler::kBufferAlignment - 1) / compiler::kBufferAlignment *
         compiler::kBufferAlignment;
}

/// A program never writes its inputs.
char* AsInput(const char* bytes) { return const_cast<char*>(bytes); }

bool IsTrue(const Shape& type, const char* bytes) {
  return HostTensor::Copy(type, bytes).at(0).ToBool();
}

/// Results of a program that are inputs or other results are copied to where they are wanted.
void CopyShared(const Program& program, std::span<char* const> inputs,
                std::span<char* const> outputs, size_t i) {
  const Program::Output& from = program.outputs()[i];
  const char* source = from.input >= 0  ? inputs[from.input]
                       : from.same >= 0 ? outputs[from.same]
                                        : nullptr;
  int64_t bytes = program.graph().TypeOf(program.graph().outputs()[i]).bytes();
  if (source && source != outputs[i]) CopyBytes(source, outputs[i], bytes);
}

/// The program of a graph in an attribute, by its saved schedule if there is one.
Program BodyProgram(std::shared_ptr<const Graph> graph) {
  if (std::optional<SavedProgram> saved = FindSavedBody(graph)) return Program(std::move(*saved));
  return Program(std::move(graph));
}

/// The program of a graph in an attribute. Calls that differ in other attributes, such as loops of
/// other counts, share it.
class Body {
 public:
  static std::shared_ptr<const Body> Of(const Attr& attr) {
    // Threads may compile while static objects go; a body may have bodies.
    static auto& mutex = NeverDestroyed<std::recursive_mutex>();
    static auto& bodies = NeverDestroyed<std::map<const Graph*, std::weak_ptr<const Body>>>();
    std::lock_guard lock(mutex);
    if (auto known = bodies.find(&attr.graph()); known != bodies.end()) {
      if (std::shared_ptr<const Body> body = known->second.lock()) return body;
    }
    auto body = std::make_shared<const Body>(attr.graph_ptr());
    std::erase_if(bodies, [](const auto& entry) { return entry.second.expired(); });
    bodies[&attr.graph()] = body;
    return body;
  }

  explicit Body(std::shared_ptr<const Graph> graph)
      : graph_(graph), program_(BodyProgram(std::move(graph))) {}
  const Program& program() const { return program_; }

 private:
  std::shared_ptr<const Graph> graph_;  // whose address is the key
  Program program_;
};

class CondCall : public Call {
 public:
  CondCall(const Graph& graph, const GraphNode& node)
      : predicate_(graph.TypeOf(node.inputs[0])),
        then_(BodyProgram(node.attrs[0].graph_ptr())),
        otherwise_(BodyProgram(node.attrs[1].graph_ptr())) {}

  int64_t scratch_bytes() const override {
    return std::max(then_.plan().arena_bytes, otherwise_.plan().arena_bytes);
  }
  void Run(Operands in, Results out, char* scratch) const override {
    const Program& branch = IsTrue(predicate_, in[0]) ? then_ : otherwise_;
    std::vector<char*> inputs;
    for (const char* operand : in.subspan(1)) inputs.push_back(AsInput(operand));
    branch.Run(inputs, out, scratch);
    for (size_t i = 0; i < out.size(); ++i) CopyShared(branch, inputs, out, i);
  }
  const char* kernel() const override { return "branch"; }
  std::vector<const Program*> programs() const override { return {&then_, &otherwise_}; }

 private:
  Shape predicate_;
  Program then_;
  Program otherwise_;
};

/// The values that a loop hands from one iteration to the next: two buffers each, of which one is
/// the loop's result, and are written in turns. A value that the body returns as it came stays
/// where it is.
class Carried {
 public:
  /// The body's inputs from `first_input` on and its first `count` outputs.
  Carried(const Program& body, size_t first_input, size_t count)
      : body_(body), first_input_(first_input) {
    for (size_t i = 0; i < count; ++i) {
      bytes_.push_back(body.graph().TypeOf(body.graph().outputs()[i]).bytes());
      stays_.push_back(body.outputs()[i].input == static_cast<int>(first_input + i));
      offset_.push_back(scratch_bytes_);
      if (!stays_.back()) scratch_bytes_ += Aligned(bytes_.back());
    }
  }

  size_t size() const { return bytes_.size(); }
  int64_t scratch_bytes() const { return scratch_bytes_; }

  /// Sets the first outputs for an iteration: into the results if `into_result`.
  void SetOutputs(std::span<char*> outputs, Results results, char* scratch,
                  bool into_result) const {
    for (size_t i = 0; i < size(); ++i) {
      outputs[i] = into_result || stays_[i] ? results[i] : scratch + offset_[i];
    }
  }
  /// After an iteration: its outputs become inputs.
  void TakeOver(std::span<char*> inputs, std::span<char*> outputs) const {
    for (size_t i = 0; i < size(); ++i) {
      if (!stays_[i]) CopyShared(body_, inputs, outputs, i);
    }
    for (size_t i = 0; i < size(); ++i) {
      if (!stays_[i]) inputs[first_input_ + i] = outputs[i];
    }
  }
  /// The last values, where they are not yet.
  void Finish(std::span<char* const> inputs, Results results) const {
    for (size_t i = 0; i < size(); ++i) {
      if (inputs[first_input_ + i] != results[i]) {
        CopyBytes(inputs[first_input_ + i], results[i], bytes_[i]);
      }
    }
  }

 private:
  const Program& body_;
  size_t first_input_;
  std::vector<int64_t> bytes_;
  std::vector<bool> stays_;
  std::vector<int64_t> offset_;
  int64_t scratch_bytes_ = 0;
};

class WhileCall : public Call {
 public:
  WhileCall(const Graph&, const GraphNode& node)
      : condition_(BodyProgram(node.attrs[0].graph_ptr())),
        body_(BodyProgram(node.attrs[1].graph_ptr())),
        carried_(body_, 0, node.types.size()),
        holds_(condition_.graph().TypeOf(condition_.graph().outputs()[0])),
        arena_(Aligned(std::max(condition_.plan().arena_bytes, body_.plan().arena_bytes))) {}

  int64_t scratch_bytes() const override {
    return arena_ + Aligned(holds_.bytes()) + carried_.scratch_bytes();
  }
  void Run(Operands in, Results out, char* scratch) const override {
    char* holds = scratch + arena_;
    char* buffers = holds + Aligned(holds_.bytes());
    std::vector<char*> inputs;
    for (const char* operand : in) inputs.push_back(AsInput(operand));
    std::vector<char*> outputs(out.size());
    auto goes_on = [&] {
      char* condition_outputs[] = {holds};
      condition_.Run(inputs, condition_outputs, scratch);
      CopyShared(condition_, inputs, condition_outputs, 0);
      return IsTrue(holds_, holds);
    };
    for (bool into_result = true; goes_on(); into_result = !into_result) {
      carried_.SetOutputs(outputs, out, buffers, into_result);
      body_.Run(inputs, outputs, scratch);
      carried_.TakeOver(inputs, outputs);
    }
    carried_.Finish(inputs, out);
  }
  const char* kernel() const override { return "loop"; }
  std::vector<const Program*> programs() const override { return {&condition_, &body_}; }

 private:
  Program condition_;
  Program body_;
  Carried carried_;
  Shape holds_;
  int64_t arena_;
};

class LoopCall : public Call {
 public:
  LoopCall(const Graph&, const GraphNode& node)
      : shared_(Body::Of(node.attrs[0])),
        body_(shared_->program()),
        count_(node.attrs[1].integer()),
        stacked_in_(static_cast<size_t>(node.attrs[3].integer())),
        carried_(body_, 1, static_cast<size_t>(node.attrs[2].integer())),
        arena_(Aligned(body_.plan().arena_bytes)) {
    for (NodeId input : body_.graph().inputs()) {
      input_bytes_.push_back(body_.graph()[input].type().bytes());
    }
    for (GraphValue output : body_.graph().outputs()) {
      output_bytes_.push_back(body_.graph().TypeOf(output).bytes());
    }
  }

  int64_t scratch_bytes() const override {
    return arena_ + compiler::kBufferAlignment + carried_.scratch_bytes();
  }
  void Run(Operands in, Results out, char* scratch) const override {
    char* index = scratch + arena_;
    char* buffers = index + compiler::kBufferAlignment;
    std::vector<char*> inputs = {index};
    for (const char* operand : in) inputs.push_back(AsInput(operand));
    std::vector<char*> outputs(out.begin(), out.end());
    size_t first_slice = 1 + carried_.size();
    for (int64_t i = 0; i < count_; ++i) {
      std::memcpy(index, &i, sizeof(i));
      carried_.SetOutputs(outputs, out, buffers, (count_ - 1 - i) % 2 == 0);
      body_.Run(inputs, outputs, scratch);
      for (size_t k = carried_.size(); k < outputs.size(); ++k) {
        CopyShared(body_, inputs, outputs, k);
      }
      carried_.TakeOver(inputs, outputs);
      for (size_t k = 0; k < stacked_in_; ++k) {
        inputs[first_slice + k] += input_bytes_[first_slice + k];
      }
      for (size_t k = carried_.size(); k < outputs.size(); ++k) outputs[k] += output_bytes_[k];
    }
    carried_.Finish(inputs, out);
  }
  const char* kernel() const override { return "loop"; }
  std::vector<const Program*> programs() const override { return {&body_}; }

 private:
  std::shared_ptr<const Body> shared_;
  const Program& body_;
  int64_t count_;
  size_t stacked_in_;
  Carried carried_;
  int64_t arena_;
  std::vector<int64_t> input_bytes_;
  std::vector<int64_t> output_bytes_;
};

constexpr CallEntry kCalls[] = {
    {&ops::kCond, MakeNode<CondCall>},
    {&ops::kWhile, MakeNode<WhileCall>},
    {&ops::kLoop, MakeNode<LoopCall>},
};

}  // namespace

std::span<const CallEntry> ControlCalls() { return kCalls; }

}  // namespace hammock::cpu
