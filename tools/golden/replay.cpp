#include "replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <iterator>
#include <limits>
#include <typeinfo>

#include "compare.h"
#include "hammock/autograd.h"
#include "hammock/error.h"
#include "hammock/ir/op_def.h"
#include "hammock/ops.h"
#include "hammock/tensor.h"

namespace hammock::golden {
namespace {

/// How a case ends early without an error of its own.
struct Verdict {
  Outcome outcome;
  std::string detail;
};

/// The suite itself is wrong; never taken for an error that a case asks for.
template <class... Args>
[[noreturn]] void BadSuite(fmt::format_string<Args...> format, Args&&... args) {
  throw Verdict{Outcome::kError, "suite: " + fmt::format(format, std::forward<Args>(args)...)};
}

// ---- Names

struct Renamed {
  const char* fn;
  const char* op;
};
constexpr Renamed kRenamed[] = {
    {"F.unfold", "im2col"},
    {"torch.nn.functional.unfold", "im2col"},
};

/// Python's f(*tensors): one list for us.
constexpr const char* kVariadic[] = {"atleast_1d",     "atleast_2d",       "atleast_3d",
                                     "block_diag",     "broadcast_shapes", "broadcast_tensors",
                                     "cartesian_prod", "meshgrid"};

/// Methods whose sizes or dims may be given one by one: x.view(2, 3).
constexpr const char* kSizesOneByOne[] = {
    "Tensor.expand",      "Tensor.flip",    "Tensor.new_empty", "Tensor.new_ones",
    "Tensor.new_zeros",   "Tensor.permute", "Tensor.repeat",    "Tensor.reshape",
    "Tensor.sum_to_size", "Tensor.tile",    "Tensor.view"};

template <size_t n>
bool Contains(const char* const (&names)[n], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::vector<Any> PackArguments(const std::string& fn, const std::string& op,
                               std::vector<Any> args) {
  if (Contains(kVariadic, op)) {
    bool one_list = args.size() == 1 && args[0].IsSequence();
    bool one_tensor = args.size() == 1 && op.starts_with("atleast");
    if (!one_list && !one_tensor) return {Any(AnyList(args))};
  }
  if (Contains(kSizesOneByOne, fn) && args.size() > 1 && args[1].kind() == Any::Kind::kInt) {
    return {args[0], Any(AnyList(args.begin() + 1, args.end()))};
  }
  return args;
}

// ---- Arguments

double ParseFloat(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  BadSuite("unknown number '{}'", text);
}

Any ToAny(const Json& json, const std::vector<Any>& slots);

Any ToList(const Json& json, const std::vector<Any>& slots) {
  AnyList items;
  for (const Json& item : json) items.push_back(ToAny(item, slots));
  return items;
}

Any ToAnyFromObject(const Json& json, const std::vector<Any>& slots) {
  if (json.contains("t")) {
    auto slot = json.at("t").get<size_t>();
    if (slot >= slots.size()) BadSuite("no slot {}", slot);
    return slots[slot];
  }
  if (json.contains("dtype")) {
    auto name = json.at("dtype").get<std::string>();
    if (auto dtype = DTypeFromName(name)) return *dtype;
    BadSuite("unknown dtype '{}'", name);
  }
  if (json.contains("slice")) return AnyDict{{"slice", ToList(json.at("slice"), slots)}};
  if (json.contains("none")) return Any();
  if (json.contains("ellipsis")) return "...";
  if (json.contains("float")) return ParseFloat(json.at("float"));
  if (json.contains("complex")) {
    return std::complex(json.at("complex").at(0).get<double>(),
                        json.at("complex").at(1).get<double>());
  }
  BadSuite("unknown argument {}", json.dump());
}

Any ToAny(const Json& json, const std::vector<Any>& slots) {
  switch (json.type()) {
    case Json::value_t::null:
      return Any();
    case Json::value_t::boolean:
      return json.get<bool>();
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return json.get<int64_t>();
    case Json::value_t::number_float:
      return json.get<double>();
    case Json::value_t::string:
      return json.get<std::string>();
    case Json::value_t::array:
      return ToList(json, slots);
    case Json::value_t::object:
      return ToAnyFromObject(json, slots);
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  BadSuite("unknown argument {}", json.dump());
}

HostTensor Generate(const Shape& shape, const WeylSequence& weyl) {
  HostTensor result(shape);
  for (int64_t i = 0; i < shape.numel(); ++i) {
    uint64_t word = static_cast<uint64_t>(i) * 2654435761u & 0xffffffffu;
    double value = (static_cast<double>(word) / 4294967296.0 - weyl.shift) * weyl.scale;
    result.set(i, Scalar(value));
  }
  return result;
}

// ---- Calls

/// Unless some overload takes these arguments.
void CheckKnown(const OpCall& call, bool must_raise) {
  std::vector<const OpDef*> overloads = op_registry::Overloads(call.op);
  if (overloads.empty()) throw Verdict{Outcome::kUnknown, fmt::format("no op '{}'", call.op)};
  if (must_raise) return;
  std::string reasons;
  for (const OpDef* overload : overloads) {
    std::string why_not;
    if (overload->info().schema.TryBind(call.args, call.kwargs, &why_not)) return;
    reasons += (reasons.empty() ? "" : "; ") + why_not;
  }
  throw Verdict{Outcome::kUnknown, fmt::format("no overload of '{}': {}", call.op, reasons)};
}

// ---- Results

/// The leaves of nested lists and tuples, absent ones left out.
void Flatten(const Any& value, std::vector<Any>* leaves) {
  if (value.IsSequence()) {
    for (const Any& item : value.ToList()) Flatten(item, leaves);
  } else if (!value.IsNone()) {
    leaves->push_back(value);
  }
}

/// A tensor's value; a Python number as the suite stores it, with a float taking what is expected.
HostTensor ReadLeaf(const Any& leaf, DType expected) {
  if (leaf.IsTensor()) return leaf.ToTensor().host();
  if (!leaf.IsNumber()) {
    throw Verdict{Outcome::kFail, fmt::format("returns a {}", leaf.type_name())};
  }
  HostTensor number = HostTensor::From(leaf.ToScalar());
  return number.dtype() == DType::kF64 ? number.To(expected) : number;
}

// ---- Exact values

/// Nearer to the exact values than the expected ones are. These must not be further from them than
/// the suite knows, or the values that are taken for exact are not.
bool IsNearer(const Comparison& one, const HostTensor& exact) {
  if (one.actual.shape() != one.expected.shape()) return false;
  double ours = Distance(one.actual, exact), theirs = Distance(one.expected, exact);
  constexpr double kRounding = 1.01;  // the suite's errors have three digits
  bool confirmed = one.error == 0 || std::isinf(theirs) || theirs <= kRounding * one.error;
  return ours < theirs && confirmed;
}

std::string DistancesText(const Comparison& one, const HostTensor& exact) {
  if (one.actual.shape() != one.expected.shape()) return "";
  return fmt::format("; off the exact value by {:.2g}, the expected one by {:.2g}",
                     Distance(one.actual, exact), Distance(one.expected, exact));
}

}  // namespace

const char* NameOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass:
      return "pass";
    case Outcome::kFail:
      return "fail";
    case Outcome::kError:
      return "error";
    case Outcome::kUnknown:
      return "unknown";
    case Outcome::kCrash:
      return "crash";
  }
  return "?";
}

std::string OpName(const std::string& fn) {
  for (const Renamed& renamed : kRenamed) {
    if (fn == renamed.fn) return renamed.op;
  }
  std::string name = fn;
  for (const char* prefix : {"torch.nn.functional.", "torch.", "F.", "Tensor."}) {
    if (name.starts_with(prefix)) {
      name.erase(0, std::char_traits<char>::length(prefix));
      break;
    }
  }
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
}

HostTensor Replayer::Load(const Case& c, const std::string& key, DType dtype) {
  try {
    if (!arrays_ || group_ != c.op) {
      arrays_ = io::NpzFile::Open(fmt::format("{}/data/{}.npz", dir_, c.op));
      group_ = c.op;
    }
    return arrays_->Read(key, dtype);
  } catch (const Error& error) {
    BadSuite("{}", error.what());
  }
}

Any Replayer::MakeInput(const Case& c, const Input& input) {
  HostTensor values =
      input.weyl ? Generate(input.shape, *input.weyl) : Load(c, input.key, input.shape.dtype());
  if (exact_ && IsFloatOrComplex(values.dtype())) {
    values = values.To(IsComplex(values.dtype()) ? DType::kC128 : DType::kF64);
  }
  Tensor tensor = from_host(values, device_);
  if (input.view) {
    tensor = as_strided(tensor, input.view->sizes, input.view->strides, input.view->offset);
  }
  if (tensor.shape() != Shape(values.dtype(), input.shape.sizes())) {
    BadSuite("{}: input is {}, the manifest says {}", c.id, ToString(tensor.shape()),
             ToString(input.shape));
  }
  return tensor;
}

OpCall MakeCall(const Step& step, const std::vector<Any>& slots, const std::string& device) {
  OpCall call{OpName(step.fn), {}, {}};
  call.args = PackArguments(step.fn, call.op, ToList(step.args, slots).ToList());
  for (const auto& [name, value] : step.kwargs.items()) {
    if (name == "requires_grad" || name == "pin_memory" || name == "layout") continue;
    // The suite was made on its "cpu".
    bool is_device = name == "device" && value.is_string();
    call.kwargs.emplace_back(name, is_device ? Any(device) : ToAny(value, slots));
  }
  return call;
}

std::vector<Any> Replayer::RunSteps(const Case& c, bool with_grad, std::vector<Any>* inputs) {
  std::vector<Any> slots;
  for (const Input& input : c.inputs) {
    slots.push_back(MakeInput(c, input));
    if (with_grad && input.requires_grad) Tensor(slots.back().ToTensor()).requires_grad_();
  }
  *inputs = slots;
  Any last;
  for (const Step& step : c.steps) {
    OpCall call = MakeCall(step, slots, device_.to_string());
    CheckKnown(call, c.must_raise);
    last = CallOp(call.op, call.args, call.kwargs);
    if (last.IsNone() && !call.args.empty()) last = call.args[0];  // setitem: compare what it wrote
    if (!step.slot) continue;
    auto slot = static_cast<size_t>(*step.slot);
    if (slot >= slots.size()) slots.resize(slot + 1);
    slots[slot] = last;
  }
  if (c.result.empty()) return {last};
  std::vector<Any> results;
  for (int64_t slot : c.result) results.push_back(slots.at(static_cast<size_t>(slot)));
  return results;
}

std::vector<Any> Replayer::AddOutputs(const Case& c, const std::vector<Any>& results,
                                      std::vector<Comparison>* comparisons) {
  std::vector<Any> leaves;
  for (const Any& result : results) Flatten(result, &leaves);
  if (c.must_raise) {
    for (const Any& leaf : leaves) ReadLeaf(leaf, DType::kF32);
    throw Verdict{Outcome::kFail, "must raise an error, but returns"};
  }
  if (leaves.size() != c.outputs.size()) {
    throw Verdict{Outcome::kFail,
                  fmt::format("returns {} values, expected {}", leaves.size(), c.outputs.size())};
  }
  for (size_t i = 0; i < leaves.size(); ++i) {
    DType dtype = c.outputs[i].shape.dtype();
    comparisons->push_back({fmt::format("output {}", i), ReadLeaf(leaves[i], dtype),
                            Load(c, c.outputs[i].key, dtype), c.output_error});
  }
  return leaves;
}

void Replayer::AddGradients(const Case& c, std::vector<Comparison>* comparisons) {
  std::vector<Any> slots;
  std::vector<Any> leaves = AddOutputs(c, RunSteps(c, true, &slots), comparisons);
  std::vector<Tensor> outputs, cotangents, inputs;
  for (size_t i = 0; i < leaves.size() && i < c.cotangents.size(); ++i) {
    if (c.cotangents[i].empty() || !leaves[i].IsTensor()) continue;
    Tensor output = leaves[i].ToTensor();
    if (!output.requires_grad()) continue;
    outputs.push_back(output);
    HostTensor cotangent = Load(c, c.cotangents[i], c.outputs[i].shape.dtype());
    cotangents.push_back(from_host(cotangent.To(output.dtype()), device_));
  }
  std::vector<size_t> positions;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].requires_grad) continue;
    positions.push_back(i);
    inputs.push_back(slots[i].ToTensor());
  }
  std::vector<Tensor> grads(inputs.size());
  if (!outputs.empty() && !inputs.empty()) {
    grads = grad(outputs, inputs, cotangents, false, false, true);
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    const std::string& key = c.gradients.at(positions[i]);
    Shape type = c.inputs[positions[i]].shape;
    HostTensor zeros(type);
    std::memset(zeros.mutable_data(), 0, static_cast<size_t>(zeros.bytes()));
    comparisons->push_back({fmt::format("gradient of input {}", positions[i]),
                            grads[i].defined() ? grads[i].host() : zeros,
                            key.empty() ? zeros : Load(c, key, type.dtype()), c.gradient_error});
  }
}

std::vector<Comparison> Replayer::Compare(const Case& c) {
  std::vector<Comparison> comparisons;
  std::vector<Any> slots;
  AddOutputs(c, RunSteps(c, false, &slots), &comparisons);
  if (c.has_gradients()) AddGradients(c, &comparisons);
  return comparisons;
}

std::vector<HostTensor> Replayer::ExactValues(const Case& c) const {
  try {
    std::vector<HostTensor> values;
    for (const Comparison& one : Replayer(dir_, Device("reference"), true).Compare(c)) {
      values.push_back(one.actual.To(one.expected.dtype()));
    }
    return values;
  } catch (const Verdict&) {
  } catch (const Error&) {
  }
  return {};
}

CaseResult Replayer::Judge(const Case& c) {
  std::vector<Comparison> comparisons = Compare(c);
  std::vector<HostTensor> exact;
  CaseResult result;
  for (size_t i = 0; i < comparisons.size(); ++i) {
    const Comparison& one = comparisons[i];
    std::string difference = Difference(one.actual, one.expected, one.error);
    if (difference.empty()) continue;
    if (result.outcome == Outcome::kPass) {
      result = {Outcome::kFail, fmt::format("{} {}", one.what, difference), true};
      exact = ExactValues(c);
      if (!exact.empty()) result.detail += DistancesText(one, exact[i]);
    }
    result.nearer = result.nearer && !exact.empty() && IsNearer(one, exact[i]);
  }
  return result;
}

CaseResult Replayer::Run(const Case& c) {
  try {
    return Judge(c);
  } catch (const Verdict& verdict) {
    return {verdict.outcome, verdict.detail};
  } catch (const InternalError& error) {
    return {Outcome::kError, error.what()};
  } catch (const Error& error) {
    if (c.must_raise) return {};
    return {Outcome::kError, error.what()};
  } catch (const std::exception& error) {
    return {Outcome::kCrash, fmt::format("{}: {}", typeid(error).name(), error.what())};
  } catch (...) {
    return {Outcome::kCrash, "throws something that is not an exception"};
  }
}

}  // namespace hammock::golden
