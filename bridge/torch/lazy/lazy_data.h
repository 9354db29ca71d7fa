#pragma once
/// The objects that PyTorch's lazy tensors hold on Hammock: data, computations and the lowering
/// between them.

#include <hammock/device.h>
#include <hammock/tensor.h>
#include <torch/csrc/lazy/ts_backend/ts_backend_impl.h>
#include <torch/csrc/lazy/ts_backend/ts_lowering_context.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/program.h"

namespace hammock_torch {

/// A value on Hammock's device, a tensor of the host that was not uploaded yet, or a number. It is
/// a TSData because PyTorch's lowering and its Python bindings cast to that and read its tensor.
/// Tensors are uploaded when a computation first uses them, and read when PyTorch asks for them.
/// May be used by several threads.
class LazyData : public torch::lazy::TSData {
 public:
  LazyData(const at::Scalar& number, const torch::lazy::BackendDevice& device)
      : TSData(number, device) {}
  LazyData(const at::Tensor& tensor, const torch::lazy::Shape& shape,
           const torch::lazy::BackendDevice& device)
      : TSData(tensor, shape, device) {}
  /// A computed value; `tensor` shares its memory, or is undefined where the device has its own.
  LazyData(hammock::Tensor value, const at::Tensor& tensor, const torch::lazy::Shape& shape,
           const torch::lazy::BackendDevice& device)
      : TSData(tensor, shape, device), value_(std::move(value)) {}
  /// A placeholder, to be assigned.
  LazyData(const torch::lazy::Shape& shape, const torch::lazy::BackendDevice& device)
      : TSData(shape, device) {}

  void Assign(const torch::lazy::BackendData& other) override;
  /// False for numbers: PyTorch asks that way whether there is a tensor.
  bool HasValue() const override;
  /// On the device.
  hammock::Tensor value(const hammock::Device& device);
  /// The number itself, or the one element of a tensor.
  hammock::Any number();
  /// On the host; shares memory with `value` and must not be written.
  at::Tensor tensor();

 private:
  mutable std::mutex mutex_;
  hammock::Tensor value_;
};

/// A lowered graph; programs are made for each device that runs it. The graph that PyTorch sees
/// (`graph()`, which `torch._lazy.computation.run_cached_graph` executes) is a call of this object.
class LazyComputation : public torch::lazy::TSComputation {
 public:
  LazyComputation(const std::shared_ptr<torch::jit::Graph>& graph,
                  std::vector<torch::lazy::Shape> parameters,
                  std::vector<torch::lazy::Shape> results);
  ~LazyComputation() override;

  /// The graph of aten ops.
  const torch::jit::Graph& lowered() const { return *lowered_; }
  const std::string to_string() const override { return lowered_->toString(); }
  const std::vector<torch::lazy::Shape>& parameter_shapes() const override { return parameters_; }
  /// Of the first result; a computation without results has none.
  const torch::lazy::Shape& result_shape() const override;
  const std::vector<torch::lazy::Shape>& result_shapes() const { return results_; }

  /// The program for a device; made when first asked for.
  const Program& ProgramFor(const hammock::Device& device);
  /// Whether the graph uses a parameter only as a number.
  bool IsNumber(size_t parameter) const { return numbers_[parameter]; }

 private:
  LazyComputation(const std::shared_ptr<torch::jit::Graph>& graph, int64_t number,
                  std::vector<torch::lazy::Shape> parameters,
                  std::vector<torch::lazy::Shape> results);

  const int64_t number_;
  std::shared_ptr<torch::jit::Graph> lowered_;
  std::vector<torch::lazy::Shape> parameters_, results_;
  std::vector<bool> numbers_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Program>> programs_;
};

/// PyTorch's own lowering to TorchScript graphs, with the shapes that it forgets.
class LazyLowering : public torch::lazy::TSLoweringContext {
 public:
  using TSLoweringContext::TSLoweringContext;
  size_t AddResult(const torch::lazy::Output& output) override;
  torch::lazy::ComputationPtr Build() override;

 private:
  std::vector<torch::lazy::Shape> results_;
};

}  // namespace hammock_torch
