#include "vmap/batched_history.h"

#include "autograd/tape.h"
#include "base/location_scope.h"
#include "base/throw.h"
#include "hammock/op_builder.h"
#include "hammock/vmap.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "trace/record.h"
#include "trace/symbolic.h"
#include "trace/tensor_impl.h"

namespace hammock::vmap_rules {
namespace {

/// A value without its history, and what it is in a sample.
struct Saved {
  Value value;
  bool batched = false;
  uint64_t stride = 0;
};

Saved SavedOf(const Mapped& mapped) {
  Value value = mapped.tensor.value();
  return {{value.node, value.index}, mapped.batched, mapped.stride};
}

/// The gradient of one sample, as a graph: of the operands, then the results, then the gradients of
/// those that are floats.
struct SampleGradient {
  Graph graph;
  std::vector<bool> defined;  // of each operand, whether it has one
};

SampleGradient GradientOf(const BatchCall& call, const std::vector<uint8_t>& needed) {
  std::vector<Shape> types;
  for (const Mapped& value : call.in) {
    if (value.tensor.defined()) types.push_back(SampleType(value));
  }
  types.insert(types.end(), call.out.begin(), call.out.end());
  for (const Shape& type : call.out) {
    if (IsFloatOrComplex(type.dtype())) types.push_back(type);
  }
  SampleGradient gradient;
  gradient.graph = TraceSymbolically(types, [&](std::span<const Tensor> given) {
    GradModeScope no_grad(false);
    size_t next = 0;
    std::vector<Tensor> in, out, grads, found;
    for (const Mapped& value : call.in) {
      in.push_back(value.tensor.defined() ? given[next++] : Tensor());
    }
    for (size_t i = 0; i < call.out.size(); ++i) out.push_back(given[next++]);
    for (const Shape& type : call.out) {
      grads.push_back(IsFloatOrComplex(type.dtype()) ? given[next++] : Tensor());
    }
    std::vector<Tensor> all = call.op.vjp({call.op, in, out, call.attrs, grads, needed});
    for (size_t i = 0; i < all.size(); ++i) {
      gradient.defined.push_back(needed[i] && all[i].defined());
      if (gradient.defined.back()) found.push_back(all[i]);
    }
    return found;
  });
  return gradient;
}

/// The inputs of a graph that its nodes or outputs use.
std::vector<bool> UsedInputs(const Graph& graph) {
  NodeMap<bool> used(static_cast<size_t>(graph.size()));
  for (const GraphNode& node : graph.nodes()) {
    for (GraphValue input : node.inputs) {
      if (input.node) used[input.node] = true;
    }
  }
  for (GraphValue output : graph.outputs()) used[output.node] = true;
  std::vector<bool> inputs;
  for (NodeId id : graph.inputs()) inputs.push_back(used[id]);
  return inputs;
}

class BatchedEntry : public TapeEntry {
 public:
  BatchedEntry(const BatchCall& call, std::span<const Mapped> results,
               const std::vector<uint8_t>& needed)
      : name_(call.op.name()), size_(call.size), gradient_(GradientOf(call, needed)) {
    for (const Mapped& value : call.in) {
      edges.push_back(needed[edges.size()] ? EdgeTo(value.tensor.value()) : TapeEdge());
      batched_.push_back(value.batched);
    }
    std::vector<bool> used = UsedInputs(gradient_.graph);
    size_t next = 0;
    auto save = [&](const Mapped& value, const Shape& type) {
      samples_.push_back(type);
      saved_.push_back(used[next++] ? SavedOf(value) : Saved());
    };
    for (const Mapped& value : call.in) {
      present_.push_back(value.tensor.defined());
      if (value.tensor.defined()) save(value, SampleType(value));
    }
    for (size_t i = 0; i < results.size(); ++i) {
      save(results[i], call.out[i]);
      result_types_.push_back(results[i].tensor.shape());
      if (device == kNoDevice) device = results[i].tensor.value().node->device();
    }
    types = result_types_;
    location = tls_location;
  }

  std::string name() const override { return name_; }
  void Release() override {
    released_ = true;
    saved_.clear();
  }

  std::vector<Tensor> Backward(const TapePtr& self, std::vector<Tensor>&& grads) override {
    if (released_) ThrowReleased(*this);
    std::vector<Tensor> results;
    {
      BakingScope baking(device);
      results = Found(BatchGraph(gradient_.graph, Inputs(self, grads), size_));
    }
    RunBaked(results);
    return results;
  }

 private:
  std::vector<Mapped> Inputs(const TapePtr& self, const std::vector<Tensor>& grads) const {
    std::vector<Mapped> inputs;
    for (size_t i = 0; i < present_.size(); ++i) {
      if (present_[i]) inputs.push_back(Restored(inputs.size(), edges[i].entry));
    }
    for (size_t i = 0; i < result_types_.size(); ++i) {
      TapePtr tape;
      if (IsFloatOrComplex(result_types_[i].dtype())) {
        tape = OneResult("output", {self, static_cast<uint32_t>(i)}, result_types_[i], device,
                         [](const Tensor& grad) { return grad; });
      }
      inputs.push_back(Restored(inputs.size(), tape));
    }
    for (const Tensor& grad : grads) {
      if (grad.defined()) inputs.push_back({grad, true});
    }
    return inputs;
  }
  /// A saved value with its history; of a value that the gradient does not read, its type.
  Mapped Restored(size_t index, const TapePtr& tape) const {
    const Saved& saved = saved_[index];
    if (!saved.value) return {SymbolicTensor(samples_[index])};
    bool differentiable = IsFloatOrComplex(saved.value.shape().dtype());
    return {
        Tensor::FromValue({saved.value.node, saved.value.index, differentiable ? tape : TapePtr()}),
        saved.batched, saved.stride};
  }
  /// One gradient per operand; that of an operand which all samples share is their sum.
  std::vector<Tensor> Found(const std::vector<Mapped>& found) const {
    std::vector<Tensor> results(batched_.size());
    size_t next = 0;
    for (size_t i = 0; i < results.size(); ++i) {
      if (!gradient_.defined[i]) continue;
      Tensor grad = WithBatch(found[next++], size_);
      results[i] =
          batched_[i] ? grad : Apply(ops::kReduceSum, Location(), {grad}, {Dims{0}, false});
    }
    return results;
  }

  std::string name_;
  int64_t size_;
  SampleGradient gradient_;
  std::vector<bool> present_, batched_;
  std::vector<Shape> samples_;  // of operands that are present, then of results
  std::vector<Saved> saved_;    // the same; empty where the gradient does not read it
  std::vector<Shape> result_types_;
  bool released_ = false;
};

/// Runs the user's backward for all samples.
class CustomEntry : public TapeEntry {
 public:
  explicit CustomEntry(MappedCustomCall call) : call_(std::move(call)) {
    for (const Mapped& input : call_.inputs) {
      edges.push_back(input.tensor.defined() ? EdgeTo(input.tensor.value()) : TapeEdge());
      input_types_.push_back(SampleType(input));
      batched_.push_back(input.batched);
    }
    for (const Mapped& output : call_.outputs) {
      output_types_.push_back(output.tensor.shape());
      device = output.tensor.value().node->device();
    }
    types = output_types_;
    location = tls_location;
    call_.inputs.clear();
    call_.outputs.clear();
  }

  std::string name() const override { return "a custom function"; }
  void Release() override { released_ = !call_.saved.empty(); }

  std::vector<Tensor> Backward(const TapePtr& self, std::vector<Tensor>&& grads) override {
    if (released_) ThrowReleased(*this);
    VmapOptions options{.in_dims = {}, .randomness = Randomness::kDifferent};
    std::vector<Tensor> given = std::move(grads);
    const size_t outputs = given.size();
    options.in_dims.assign(outputs, 0);
    for (size_t i = 0; i < call_.saved.size(); ++i) {
      given.push_back(Saved(i, self));
      options.in_dims.push_back(call_.saved[i].batched ? std::optional<int64_t>(0) : std::nullopt);
    }
    // Absent values are no arguments.
    std::vector<Tensor> present;
    SampleDims dims;
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].defined()) continue;
      present.push_back(given[i]);
      dims.push_back(options.in_dims[i]);
    }
    options.in_dims = dims;
    std::vector<bool> found;
    TensorsFn backward = [&](const std::vector<Tensor>& in) {
      std::vector<Tensor> all;
      size_t next = 0;
      for (const Tensor& tensor : given) all.push_back(tensor.defined() ? in[next++] : Tensor());
      auto middle = all.begin() + static_cast<int64_t>(outputs);
      return Checked(call_.backward({middle, all.end()}, {all.begin(), middle}), found);
    };
    std::vector<Tensor> mapped = MapOver(backward, present, options, Location());
    std::vector<Tensor> results(batched_.size());
    for (size_t i = 0, next = 0; i < results.size(); ++i) {
      if (!found[i]) continue;
      Tensor grad = mapped[next++];
      results[i] =
          batched_[i] ? grad : Apply(ops::kReduceSum, Location(), {grad}, {Dims{0}, false});
    }
    return results;
  }

 private:
  Tensor Saved(size_t i, const TapePtr& self) const {
    const Mapped& saved = call_.saved[i];
    const int output = call_.saved_outputs[i];
    if (output < 0) return saved.tensor;
    Value value = saved.tensor.value();
    const auto k = static_cast<size_t>(output);
    value.tape = OneResult("output", {self, static_cast<uint32_t>(k)}, output_types_[k], device,
                           [](const Tensor& grad) { return grad; });
    return Tensor::FromValue(std::move(value));
  }
  /// The gradients that are wanted and defined, in the inputs' dtypes.
  std::vector<Tensor> Checked(const std::vector<Tensor>& grads, std::vector<bool>& found) const {
    if (grads.size() != batched_.size()) {
      Throw(ErrorCode::kValue,
            "backward: a custom function returned {} gradients for {} tensor arguments",
            grads.size(), batched_.size());
    }
    std::vector<Tensor> wanted;
    found.assign(grads.size(), false);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined() || !edges[i].entry) continue;
      if (grads[i].sizes() != input_types_[i].sizes()) {
        Throw(ErrorCode::kShapeMismatch,
              "backward: a custom function returned {} as the gradient of argument {}, a {}",
              grads[i].shape().to_string(), i, input_types_[i].to_string());
      }
      found[i] = true;
      wanted.push_back(grads[i].to(input_types_[i].dtype()));
    }
    return wanted;
  }

  MappedCustomCall call_;
  std::vector<Shape> input_types_, output_types_;
  std::vector<bool> batched_;
  bool released_ = false;
};

}  // namespace

TapePtr HistoryOfCustomCall(MappedCustomCall call) {
  bool any = false;
  for (const Mapped& input : call.inputs) {
    any = any || (input.tensor.defined() && input.tensor.requires_grad());
  }
  return any ? TapePtr::Adopt(new CustomEntry(std::move(call))) : TapePtr();
}

std::vector<Mapped> WithOwnGradient(const BatchCall& call,
                                    std::vector<Mapped> (*compute)(const BatchCall&)) {
  std::vector<Mapped> results;
  {
    GradModeScope no_grad(false);
    results = compute(call);
  }
  std::vector<uint8_t> needed;
  for (const Mapped& value : call.in) {
    needed.push_back(value.tensor.defined() && value.tensor.requires_grad());
  }
  for (Mapped& result : results) result = {WithBatch(result, call.size), true};
  auto* entry = new BatchedEntry(call, results, needed);
  TapePtr tape = TapePtr::Adopt(entry);
  for (size_t i = 0; i < results.size(); ++i) {
    Value value = results[i].tensor.value();
    if (!IsFloatOrComplex(value.shape().dtype())) continue;
    value.tape = OneResult("output", {tape, static_cast<uint32_t>(i)}, value.shape(),
                           value.node->device(), [](const Tensor& grad) { return grad; });
    results[i].tensor = Tensor::FromValue(std::move(value));
  }
  return results;
}

}  // namespace hammock::vmap_rules
