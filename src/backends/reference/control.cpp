#include <algorithm>
#include <cstring>

#include "backends/reference/kernel.h"
#include "hammock/custom_call.h"
#include "ir/primitives.h"

namespace hammock::reference {
namespace {

std::vector<HostTensor> Operands(const KernelCall& call, size_t first) {
  std::vector<HostTensor> operands;
  for (const HostTensor* operand : call.in.subspan(first)) operands.push_back(*operand);
  return operands;
}

void RunCond(KernelCall& call) {
  const Program& branch = call.graphs[call.in[0]->at(0).ToBool() ? 0 : 1];
  std::vector<HostTensor> results = branch.Run(Operands(call, 1), call.hooks);
  std::move(results.begin(), results.end(), call.out.begin());
}

void RunWhile(KernelCall& call) {
  const Program& condition = call.graphs[0];
  const Program& body = call.graphs[1];
  std::vector<HostTensor> carried = Operands(call, 0);
  while (condition.Run(carried, call.hooks)[0].at(0).ToBool()) {
    carried = body.Run(carried, call.hooks);
  }
  std::move(carried.begin(), carried.end(), call.out.begin());
}

/// Row `i` of the first dim, without a copy.
HostTensor RowOf(const HostTensor& stack, int64_t i) {
  Dims sizes = stack.shape().sizes();
  sizes.erase(0);
  Shape row = stack.shape().With(sizes);
  char* bytes = static_cast<char*>(stack.storage().get()) + i * row.bytes();
  return HostTensor(row, std::shared_ptr<void>(stack.storage(), bytes));
}

void RunLoop(KernelCall& call) {
  int64_t count = call.node.attrs[1].integer();
  size_t carried = call.node.attrs[2].integer();
  size_t stacked = call.node.attrs[3].integer();
  std::vector<HostTensor> operands = Operands(call, 0);
  for (size_t i = carried; i < call.out.size(); ++i) call.NewResult(static_cast<int>(i));
  for (int64_t step = 0; step < count; ++step) {
    std::vector<HostTensor> inputs = {HostTensor::From(Scalar(step))};
    for (size_t i = 0; i < operands.size(); ++i) {
      bool is_stacked = i >= carried && i < carried + stacked;
      inputs.push_back(is_stacked ? RowOf(operands[i], step) : operands[i]);
    }
    std::vector<HostTensor> results = call.graphs[0].Run(inputs, call.hooks);
    std::copy_n(results.begin(), carried, operands.begin());
    for (size_t i = carried; i < results.size(); ++i) {
      std::memcpy(static_cast<char*>(call.out[i].mutable_data()) + step * results[i].bytes(),
                  results[i].data(), results[i].bytes());
    }
  }
  std::copy_n(operands.begin(), carried, call.out.begin());
}

void RunCustomCall(KernelCall& call) {
  const std::string& target = call.node.attrs[0].str();
  CustomCallFn function = FindCustomCall(target);
  if (!function) {
    Fail(call, ErrorCode::kUnknownName, "no function is registered under '{}'", target);
  }
  std::vector<HostTensor> results = function(Operands(call, 0), call.node.attrs[1].str());
  if (results.size() != call.out.size()) {
    Fail(call, ErrorCode::kValue, "'{}' returned {} tensors, needs {}", target, results.size(),
         call.out.size());
  }
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || results[i].shape() != call.node.types[i]) {
      Fail(call, ErrorCode::kShapeMismatch, "'{}' returned {} as result {}, needs {}", target,
           results[i].defined() ? results[i].shape().to_string() : "nothing", i,
           call.node.types[i].to_string());
    }
    call.out[i] = std::move(results[i]);
  }
}

void RunRequire(KernelCall& call) {
  const HostTensor& condition = *call.in[1];
  for (int64_t i = 0; i < condition.numel(); ++i) {
    if (!condition.at(i).ToBool()) throw ValueError(ErrorCode::kValue, call.node.attrs[0].str());
  }
  call.out[0] = HostTensor(call.node.type(), call.in[0]->storage());
}

void RunBarrier(KernelCall& call) {
  call.out[0] = HostTensor(call.node.type(), call.in[0]->storage());
}

constexpr KernelEntry kKernels[] = {
    {&ops::kCond, RunCond},       {&ops::kWhile, RunWhile},
    {&ops::kLoop, RunLoop},       {&ops::kCustomCall, RunCustomCall},
    {&ops::kRequire, RunRequire}, {&ops::kBarrier, RunBarrier}};

}  // namespace

std::span<const KernelEntry> ControlKernels() { return kKernels; }

}  // namespace hammock::reference
