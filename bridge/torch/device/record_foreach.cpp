#include "device/record_foreach.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

#include "device/native_kernels.h"

namespace hammock_torch {

namespace {

constexpr std::string_view kPrefix = "aten::_foreach_";

/// Tensors and numbers come as lists, with an item for each call.
bool IsListed(const c10::Argument& argument) {
  auto list = argument.type()->cast<c10::ListType>();
  if (!list) return false;
  c10::TypeKind item = list->getElementType()->kind();
  return item == c10::TypeKind::TensorType || item == c10::TypeKind::NumberType;
}

c10::TypePtr ItemType(const c10::Argument& argument) {
  return IsListed(argument) ? argument.type()->castRaw<c10::ListType>()->getElementType()
                            : argument.type();
}

bool IsWritten(const c10::Argument& argument) {
  return argument.alias_info() && argument.alias_info()->isWrite();
}

/// Whether the single op takes the items of a call, with defaults for all other arguments.
bool Takes(const c10::FunctionSchema& single, const c10::FunctionSchema& foreach) {
  const auto& ours = single.arguments();
  const auto& theirs = foreach.arguments();
  if (ours.size() < theirs.size()) return false;
  for (size_t i = 0; i < theirs.size(); ++i) {
    if (*ours[i].type() != *ItemType(theirs[i])) return false;
    if (IsWritten(ours[i]) != IsWritten(theirs[i])) return false;
  }
  return std::all_of(ours.begin() + static_cast<std::ptrdiff_t>(theirs.size()), ours.end(),
                     [](const c10::Argument& more) { return more.default_value().has_value(); });
}

std::optional<c10::OperatorHandle> FindSingle(const c10::FunctionSchema& foreach) {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::string name = "aten::" + foreach.name().substr(kPrefix.size());
  for (const c10::OperatorName& candidate : dispatcher.getAllOpNames()) {
    if (candidate.name != name) continue;
    auto single = dispatcher.findSchema(candidate);
    if (single && Takes(single->schema(), foreach)) return single;
  }
  return std::nullopt;
}

}  // namespace

std::unique_ptr<RecordForeach> RecordForeach::Of(const c10::OperatorHandle& op) {
  if (!op.schema().name().starts_with(kPrefix)) return nullptr;
  auto single = FindSingle(op.schema());
  if (!single || !IsFromTable(single->schema().name())) return nullptr;
  if (!AtenOp::Of(single->schema()).known()) return nullptr;
  return std::unique_ptr<RecordForeach>(new RecordForeach(op, *single));
}

RecordForeach::RecordForeach(const c10::OperatorHandle& op, const c10::OperatorHandle& single)
    : single_handle_(single), single_(single) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    listed_.push_back(IsListed(arguments[i]));
    if (IsWritten(arguments[i])) written_.push_back(i);
  }
  const auto& all = single.schema().arguments();
  for (size_t i = arguments.size(); i < all.size(); ++i) {
    defaults_.push_back(*all[i].default_value());
  }
}

void RecordForeach::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                               torch::jit::Stack* stack) const {
  std::vector<c10::IValue> arguments = torch::jit::pop(*stack, listed_.size());
  size_t count = 0;
  for (size_t i = 0; i < listed_.size(); ++i) {
    if (listed_[i]) count = std::max(count, arguments[i].toListRef().size());
  }
  for (size_t i = 0; i < listed_.size(); ++i) {
    TORCH_CHECK(!listed_[i] || arguments[i].toListRef().size() == count, op.schema().name(),
                ": lists must have the same number of items, got ",
                listed_[i] ? arguments[i].toListRef().size() : 0, " and ", count);
  }
  c10::List<at::Tensor> results;
  torch::jit::Stack call;
  for (size_t item = 0; item < count; ++item) {
    call.clear();
    for (size_t i = 0; i < listed_.size(); ++i) {
      call.push_back(listed_[i] ? arguments[i].toListRef()[item] : arguments[i]);
    }
    for (const c10::IValue& more : defaults_) call.push_back(more);
    single_(single_handle_, keys, &call);
    if (!op.schema().returns().empty()) results.push_back(call.back().toTensor());
  }
  // PyTorch leaves that to kernels of lists.
  for (size_t i : written_) {
    for (const c10::IValue& item : arguments[i].toListRef()) {
      item.toTensor().unsafeGetTensorImpl()->bump_version();
    }
  }
  if (!op.schema().returns().empty()) stack->push_back(std::move(results));
}

}  // namespace hammock_torch
