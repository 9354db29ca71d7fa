#include "device/record_op.h"

#include <ATen/ATen.h>
#include <c10/core/AutogradState.h>
#include <hammock/autograd.h>
#include <hammock/error.h>
#include <hammock/ops/create.h>
#include <hammock/ops/view.h>

#include <array>

#include "device/native_kernels.h"
#include "engine/fallback.h"
#include "engine/scope.h"
#include "engine/values.h"

namespace hammock_torch {

using hammock::Any;
using hammock::AnyList;

namespace {

std::atomic<bool> checks_meta{false};
std::atomic<int64_t> recorded_ops{0};
std::atomic<CallerFn> caller_fn{nullptr};

/// Ops whose index arguments may be on the CPU, as on PyTorch's other devices.
constexpr std::array<std::string_view, 5> kMixDevices = {
    "aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_",
    "aten::_unsafe_index"};

hammock::Scalar NumberOf(const at::Tensor& tensor) {
  at::Scalar number = tensor.item();
  if (number.isComplex()) {
    c10::complex<double> value = number.toComplexDouble();
    return std::complex<double>(value.real(), value.imag());
  }
  if (number.isBoolean()) return number.toBool();
  return number.isIntegral(false) ? hammock::Scalar(number.toLong())
                                  : hammock::Scalar(number.toDouble());
}

/// Converts arguments; notes the device that the op runs on.
class Reader {
 public:
  Reader(const AtenOp& op, bool mixes_devices) : op_(op), mixes_devices_(mixes_devices) {}

  /// Finds the device: that of the first tensor, else the one that is asked for, else the current.
  void FindDevice(c10::ArrayRef<c10::IValue> arguments) {
    for (const c10::IValue& argument : arguments) {
      if (argument.isTensor()) {
        if (argument.toTensor().defined() && Take(argument.toTensor())) return;
      } else if (argument.isDevice() && argument.toDevice().is_privateuseone()) {
        index_ = argument.toDevice().index();
      } else if (argument.isList()) {
        for (const c10::IValue& item : argument.toListRef()) {
          if (!item.isTensor()) break;
          if (Take(item.toTensor())) return;
        }
      }
    }
    if (index_ < 0) index_ = CurrentIndex();
  }
  c10::DeviceIndex index() const { return index_; }

  Any Read(const c10::IValue& value) const {
    if (value.isTensor()) return ReadTensor(value.toTensor());
    if (value.isList() && !value.isIntList() && !value.isDoubleList() && !value.isBoolList()) {
      AnyList items;
      for (const c10::IValue& item : value.toListRef()) items.push_back(Read(item));
      return items;
    }
    if (value.isGenerator()) return Any();
    return FromIValue(value, DeviceAt(index_));
  }

 private:
  bool Take(const at::Tensor& tensor) {
    if (!tensor.defined() || !DeviceTensor::Is(tensor)) return false;
    index_ = tensor.device().index();
    return true;
  }

  Any ReadTensor(const at::Tensor& tensor) const {
    if (!tensor.defined()) return Any();
    if (DeviceTensor::Is(tensor)) {
      TORCH_CHECK(tensor.device().index() == index_, op_.name(),
                  ": expected all tensors to be on the same device, but found hammock:", +index_,
                  " and hammock:", +tensor.device().index());
      return DeviceTensor::Of(tensor)->value();
    }
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return Any(NumberOf(tensor));
    if (tensor.dim() == 0 && tensor.is_cpu()) {
      return hammock::tensor(NumberOf(tensor), ToDType(tensor.scalar_type()), DeviceAt(index_));
    }
    TORCH_CHECK(mixes_devices_, op_.name(),
                ": expected all tensors to be on the same device, but found hammock:", +index_,
                " and ", tensor.device());
    return ImportTensor(tensor.detach().clone(), DeviceAt(index_));
  }

  const AtenOp& op_;
  bool mixes_devices_;
  c10::DeviceIndex index_ = -1;
};

/// An eager call of the same operator on CPU tensors.
EagerFn OnCpu(const c10::OperatorHandle& op) {
  return [op](torch::jit::Stack& stack) {
    for (c10::IValue& value : stack) {
      if (value.isDevice()) value = c10::Device(c10::kCPU);
    }
    op.callBoxed(stack);
  };
}

void Shares(const c10::AliasInfo* info, std::vector<c10::Symbol>& sets) {
  if (!info) return;
  sets.insert(sets.end(), info->beforeSets().begin(), info->beforeSets().end());
  for (const c10::AliasInfo& inner : info->containedTypes()) Shares(&inner, sets);
}

bool Meet(const c10::AliasInfo* a, const c10::AliasInfo* b) {
  std::vector<c10::Symbol> ours, theirs;
  Shares(a, ours);
  Shares(b, theirs);
  return std::find_first_of(ours.begin(), ours.end(), theirs.begin(), theirs.end()) != ours.end();
}

hammock::Tensor InFormat(const hammock::Tensor& value, at::MemoryFormat format) {
  if (format == at::MemoryFormat::Preserve) return value;
  if (format == at::MemoryFormat::Contiguous) {
    return value.is_contiguous() ? value : hammock::contiguous(value);
  }
  hammock::Dims sizes = value.sizes();
  c10::IntArrayRef dims = FromDims(sizes);
  std::vector<int64_t> strides = format == at::MemoryFormat::ChannelsLast
                                     ? c10::get_channels_last_strides_2d(dims)
                                     : c10::get_channels_last_strides_3d(dims);
  hammock::Tensor laid =
      hammock::empty_strided(sizes, ToDims(strides), value.dtype(), value.device());
  return hammock::copy_(laid, value);
}

at::Tensor AsMeta(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  auto options = at::TensorOptions(tensor.scalar_type()).device(at::kMeta);
  if (!DeviceTensor::Is(tensor))
    return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  auto elements = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size());
  return at::empty({elements}, options)
      .as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

c10::IValue AsMeta(const c10::IValue& value) {
  if (value.isTensor()) return AsMeta(value.toTensor());
  if (value.isDevice()) return c10::Device(c10::kMeta);
  if (value.isGenerator()) return c10::IValue();
  if (value.isTensorList()) {
    c10::List<at::Tensor> items;
    for (const at::Tensor& item : value.toTensorVector()) items.push_back(AsMeta(item));
    return items;
  }
  if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::impl::GenericList items(value.toList().elementType());
    for (const c10::IValue& item : value.toListRef()) items.push_back(AsMeta(item));
    return items;
  }
  return value;
}

void Compare(const std::string& op, const at::Tensor& ours, const at::Tensor& meta) {
  TORCH_CHECK(ours.defined() == meta.defined(), op, ": one result is undefined");
  if (!ours.defined()) return;
  TORCH_CHECK(ours.sizes() == meta.sizes() && ours.scalar_type() == meta.scalar_type(), op, ": ",
              ours.scalar_type(), ours.sizes(), ", on meta ", meta.scalar_type(), meta.sizes());
  if (ours.numel() == 0) return;
  for (int64_t i = 0; i < ours.dim(); ++i) {
    TORCH_CHECK(ours.size(i) == 1 || ours.stride(i) == meta.stride(i), op, ": strides ",
                ours.strides(), ", on meta ", meta.strides(), " of sizes ", ours.sizes());
  }
  TORCH_CHECK(ours.storage_offset() == meta.storage_offset(), op, ": offset ",
              ours.storage_offset(), ", on meta ", meta.storage_offset());
  TORCH_CHECK(DeviceTensor::Of(ours)->value().sizes() == ToDims(ours.sizes()), op,
              ": the value has other sizes");
}

}  // namespace

bool ChecksMeta() { return checks_meta.load(std::memory_order_relaxed); }
void SetChecksMeta(bool checks) { checks_meta = checks; }
int64_t RecordedOps() { return recorded_ops.load(); }
void SetCaller(CallerFn caller) { caller_fn = caller; }
hammock::LocationId Caller() {
  CallerFn caller = caller_fn.load(std::memory_order_relaxed);
  return caller ? caller() : 0;
}

void RunOnMeta(const c10::OperatorHandle& op, torch::jit::Stack& stack) {
  c10::impl::ExcludeDispatchKeyGuard no_autograd(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  for (c10::IValue& value : stack) value = AsMeta(value);
  op.callBoxed(stack);
}

RecordOp::RecordOp(const c10::OperatorHandle& op)
    : handle_(op),
      op_(AtenOp::Of(op.schema())),
      adaptor_(DeviceAdaptor(c10::toString(op.operator_name()))) {
  const c10::FunctionSchema& schema = op.schema();
  const auto& arguments = schema.arguments();
  for (const c10::Argument& returned : schema.returns()) {
    Result result;
    for (size_t i = 0; i < arguments.size() && returned.alias_info(); ++i) {
      if (!Meet(returned.alias_info(), arguments[i].alias_info())) continue;
      bool written = arguments[i].alias_info()->isWrite();
      result = {written ? Relation::kWritten : Relation::kView, i};
      is_view_ = is_view_ || !written;
      break;
    }
    results_.push_back(result);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    names_.push_back(arguments[i].name());
    if (arguments[i].name() == "memory_format") format_at_ = static_cast<int>(i);
    if (arguments[i].name() == "generator") generator_at_ = static_cast<int>(i);
  }
  mixes_devices_ =
      std::find(kMixDevices.begin(), kMixDevices.end(), schema.name()) != kMixDevices.end();
  if (op.hasTag(at::Tag::inplace_view) && schema.name().ends_with("_")) {
    std::string view_name = schema.name().substr(0, schema.name().size() - 1);
    for (const std::string& overload : {schema.overload_name(), std::string("int")}) {
      auto view = c10::Dispatcher::singleton().findSchema({view_name, overload});
      if (view && !view_) view_ = &AtenOp::Of(view->schema());
    }
  }
}

Any RecordOp::Call(const std::vector<Any>& values) const {
  return adaptor_ ? adaptor_(AtenCall(names_, values)) : op_.Call(values);
}

c10::IValue RecordOp::Boxed(const Any& value, size_t result, c10::ArrayRef<c10::IValue> arguments,
                            c10::DeviceIndex index) const {
  const Result& relation = results_[result];
  const c10::IValue* argument =
      relation.relation == Relation::kNew ? nullptr : &arguments[relation.argument];
  if (relation.relation == Relation::kWritten) {
    if (value.IsTensor() && argument->isTensor() && DeviceTensor::Is(argument->toTensor())) {
      DeviceTensor* target = DeviceTensor::Of(argument->toTensor());
      const hammock::Tensor& written = value.ToTensor();
      if (written.sizes() != target->value().sizes()) {  // an `out` of another size
        if (target->numel() != 0) {
          TORCH_WARN("An output with one or more elements was resized since it had shape ",
                     target->sizes(), ", which does not match the required output shape.");
        }
        target->Replace(hammock::to(written, target->value().dtype()));
      } else if (!written.is_same(target->value())) {  // by an adaptor that knows no `out`
        hammock::Tensor own = target->value();
        hammock::copy_(own, written);
      }
    }
    return *argument;
  }
  auto boxed = [&](const hammock::Tensor& tensor) {
    return argument ? WrapView(tensor, argument->toTensor()) : Wrap(tensor, index);
  };
  if (value.IsTensor()) return boxed(value.ToTensor());
  const c10::TypePtr& type = handle_.schema().returns()[result].type();
  if (value.IsSequence() && type->kind() == c10::TypeKind::ListType) {
    c10::List<at::Tensor> items;
    for (const Any& item : value.ToList()) items.push_back(boxed(item.ToTensor()));
    return items;
  }
  if (HoldsForeign(value)) {
    throw Unsupported(op_.name() + ": device \"hammock\" cannot hold its result, a " +
                      value.type_name());
  }
  return ToIValue(value, type);
}

/// A view by the sizes and strides that `meta` gives it, for view ops that Hammock has no chain
/// for.
bool RecordOp::PushViewsByMeta(torch::jit::Stack* stack) const {
  if (!is_view_) return false;
  size_t count = handle_.schema().arguments().size();
  const at::Tensor base = stack->at(stack->size() - count + results_[0].argument).toTensor();
  torch::jit::Stack meta(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  RunOnMeta(handle_, meta);
  auto view = [&](const at::Tensor& like) {
    return WrapView(ViewOfStorage(base.storage(), like.scalar_type(), like.sizes(), like.strides(),
                                  like.storage_offset()),
                    base);
  };
  torch::jit::drop(*stack, count);
  for (const c10::IValue& like : meta) {
    if (like.isTensor()) {
      stack->push_back(view(like.toTensor()));
      continue;
    }
    c10::List<at::Tensor> items;
    for (const at::Tensor& item : like.toTensorVector()) items.push_back(view(item));
    stack->push_back(items);
  }
  return true;
}

void RecordOp::operator()(const c10::OperatorHandle&, c10::DispatchKeySet,
                          torch::jit::Stack* stack) const {
  // Backward passes record on the thread that calls them, with its line.
  thread_local bool one_thread =
      (c10::AutogradState::get_tls_state().set_multithreading_enabled(false), true);
  (void)one_thread;
  recorded_ops.fetch_add(1, std::memory_order_relaxed);
  size_t count = handle_.schema().arguments().size();
  c10::ArrayRef<c10::IValue> arguments = torch::jit::last(*stack, count);
  Reader reader(op_, mixes_devices_);
  reader.FindDevice(arguments);
  hammock::LocationScope line(Caller());
  hammock::NoGradGuard no_grad;
  RecordScope scope(DeviceAt(reader.index()), nullptr, nullptr);
  DrawsFrom draws(generator_at_ < 0 ? c10::IValue() : arguments[generator_at_]);
  torch::jit::Stack meta;
  if (ChecksMeta()) meta.assign(arguments.begin(), arguments.end());

  std::vector<Any> values;
  values.reserve(count);
  for (const c10::IValue& argument : arguments) values.push_back(reader.Read(argument));
  Any result;
  auto fall_back = [&](const std::string& why) {
    result = RunEagerly(handle_.schema(), OnCpu(handle_), values, why);
  };
  try {
    if (view_) {
      DeviceTensor::Of(arguments[0].toTensor())->Become(view_->Call(values).ToTensor());
      at::Tensor self = arguments[0].toTensor();
      torch::jit::drop(*stack, count);
      stack->push_back(self);
      return;
    }
    result = Call(values);
    const Any* viewed = &result;
    if (is_view_ && result.IsSequence() && !result.ToList().empty()) viewed = &result.ToList()[0];
    if (is_view_ && viewed->IsTensor() && viewed->ToTensor().numel() > 0 &&
        !viewed->ToTensor().is_alias_of(values[results_[0].argument].ToTensor())) {
      throw Unsupported("the view would be a copy");
    }
  } catch (const Unsupported& error) {
    if (PushViewsByMeta(stack)) return;
    fall_back(error.what());
  } catch (const hammock::NotSupported& error) {
    if (PushViewsByMeta(stack)) return;
    fall_back(error.what());
  } catch (const hammock::Error& error) {
    // PyTorch's own error where it refuses the arguments too; else only Hammock does.
    torch::jit::Stack checked(arguments.begin(), arguments.end());
    RunOnMeta(handle_, checked);
    if (PushViewsByMeta(stack)) return;
    fall_back(error.what());
  }
  if (format_at_ >= 0 && arguments[format_at_].isInt() && result.IsTensor()) {
    result =
        InFormat(result.ToTensor(), static_cast<at::MemoryFormat>(arguments[format_at_].toInt()));
  }
  torch::jit::Stack boxed;
  boxed.reserve(results_.size());
  if (results_.size() == 1) {
    boxed.push_back(Boxed(result, 0, arguments, reader.index()));
  } else if (!results_.empty()) {
    const AnyList& items = result.ToList();
    for (size_t i = 0; i < results_.size(); ++i) {
      boxed.push_back(Boxed(items.at(i), i, arguments, reader.index()));
    }
  }
  torch::jit::drop(*stack, count);
  stack->insert(stack->end(), boxed.begin(), boxed.end());
  if (!meta.empty() && !handle_.hasTag(at::Tag::dynamic_output_shape)) {
    RunOnMeta(handle_, meta);
    for (size_t i = 0; i < boxed.size(); ++i) {
      if (boxed[i].isTensor()) Compare(op_.name(), boxed[i].toTensor(), meta[i].toTensor());
    }
  }
}

DrawsFrom::DrawsFrom(const c10::IValue& generator) {
  if (!generator.isGenerator()) return;
  generator_ = generator.toGenerator();
  at::Generator host = at::globalContext().defaultGenerator(at::kCPU);
  if (!generator_.defined() ||
      generator_.unsafeGetGeneratorImpl() == host.unsafeGetGeneratorImpl()) {
    generator_ = {};
    return;
  }
  outer_state_ = host.get_state();
  host.set_state(generator_.get_state());
}

DrawsFrom::~DrawsFrom() {
  if (!generator_.defined()) return;
  at::Generator host = at::globalContext().defaultGenerator(at::kCPU);
  generator_.set_state(host.get_state());
  host.set_state(outer_state_);
}

}  // namespace hammock_torch
