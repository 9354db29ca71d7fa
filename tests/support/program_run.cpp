#include "support/program_run.h"

#include <bit>

#include "hammock/autograd.h"
#include "hammock/error.h"
#include "hammock/executor.h"
#include "hammock/ir/op_def.h"
#include "hammock/ops.h"
#include "hammock/random.h"

namespace hammock::testing {
namespace {

using Kind = Statement::Kind;

[[noreturn]] void Invalid(const std::string& why) {
  throw ValueError(ErrorCode::kValue, "random program: " + why);
}

/// Boxes an argument; `tensor` gives the tensor of a variable.
struct Boxer {
  const std::function<Tensor(int)>& tensor;

  Any operator()(const Var& var) const { return tensor(var.id); }
  Any operator()(int64_t value) const { return value; }
  Any operator()(double value) const { return value; }
  Any operator()(bool value) const { return value; }
  Any operator()(DType value) const { return value; }
  Any operator()(const std::string& value) const { return value; }
  Any operator()(const Absent&) const { return Any(); }
  Any operator()(const std::vector<double>& values) const {
    return AnyList(values.begin(), values.end());
  }
  Any operator()(const std::vector<int64_t>& values) const { return Any::Ints(values); }
  Any operator()(const std::vector<Var>& vars) const {
    AnyList items;
    for (const Var& var : vars) items.push_back(tensor(var.id));
    return items;
  }
  Any operator()(const std::vector<IndexItem>& indices) const {
    AnyList items;
    for (const IndexItem& item : indices) {
      if (item.step == 0) {
        items.push_back(item.start);
      } else {
        items.push_back(AnyDict{{"slice", Any::Ints({item.start, item.stop, item.step})}});
      }
    }
    return items;
  }
};

Any CallBoxed(const std::string& op, const std::vector<Argument>& args,
              const std::function<Tensor(int)>& tensor) {
  std::vector<Any> boxed;
  for (const Argument& argument : args) boxed.push_back(std::visit(Boxer{tensor}, argument));
  return CallOp(op, boxed);
}

Tensor CallByName(const Statement& s, const std::function<Tensor(int)>& tensor) {
  const auto& arguments = op_registry::Get(s.op).info().schema.arguments();
  std::vector<std::pair<std::string, Any>> given;
  for (size_t i = 0; i < s.args.size(); ++i) {
    const auto* absent = std::get_if<Absent>(&s.args[i]);
    if (absent && !absent->is_none) continue;
    given.emplace_back(arguments[i].name, std::visit(Boxer{tensor}, s.args[i]));
  }
  Any result = CallOp(s.op, {}, given);
  if (s.part >= 0) {
    auto part = static_cast<size_t>(s.part);
    if (part >= result.ToList().size()) Invalid("there are fewer results");
    result = Any(result.ToList()[part]);
  }
  if (!result.IsTensor() || !result.ToTensor().defined()) Invalid("the result is no tensor");
  return result.ToTensor().clone();
}

/// Adds the gradients of the sum, of complex numbers of that of the parts; the history can be used
/// again.
void Differentiate(const Tensor& x) {
  if (!x.requires_grad()) return;
  const Tensor total[] = {sum(x.is_complex() ? view_as_real(x) : x)};
  backward(total, {}, true);
}

bool SameNumber(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (a != a && b != b);
}

/// bool < integers < floats < complex numbers: the former can be stored in the latter.
int RankOf(DType dtype) {
  return IsFloatOrComplex(dtype) ? 2 + IsComplex(dtype) : dtype != DType::kBool;
}

}  // namespace

bool SameValues(const HostTensor& a, const HostTensor& b) {
  if (a.shape() != b.shape()) return false;
  for (int64_t i = 0; i < a.numel(); ++i) {
    Scalar x = a.at(i), y = b.at(i);
    if (x == y) continue;
    if (!IsFloatOrComplex(a.dtype())) return false;
    if (!SameNumber(x.ToDouble(), y.ToDouble()) || !SameNumber(x.imag(), y.imag())) return false;
  }
  return true;
}

// ---- Tensors

void TensorRun::Execute(const Statement& s, size_t index) {
  auto tensor = [&](int id) { return variables_.at(id); };
  AutoGradMode mode(!s.no_grad);
  switch (s.kind) {
    case Kind::kInput:
      variables_[s.result] = from_host(s.input);
      if (s.requires_grad) variables_[s.result].requires_grad_();
      return;
    case Kind::kByName:
      variables_[s.result] = CallByName(s, tensor);
      return;
    case Kind::kCall:
    case Kind::kView:
      variables_[s.result] = CallBoxed(s.op, s.args, tensor).ToTensor();
      return;
    case Kind::kBackward:
      return Differentiate(tensor(UsesOf(s)[0]));
    case Kind::kGradient: {
      Tensor of = tensor(UsesOf(s)[0]), grad = of.grad();
      variables_[s.result] = grad.defined() ? grad.clone() : zeros_like(of);
      if (reads_gradients_) gradients_[s.result] = variables_[s.result].host();
      return;
    }
    case Kind::kInPlace:
      CallBoxed(s.op, s.args, tensor);
      return;
    case Kind::kRead:
      observations_.push_back({UsesOf(s)[0], index, tensor(UsesOf(s)[0]).host(), ""});
      return;
    case Kind::kSync: {
      std::vector<Tensor> tensors;
      for (int id : UsesOf(s)) tensors.push_back(tensor(id));
      sync_multi(tensors);
      return;
    }
    case Kind::kStep:
      mark_step();
      return;
    case Kind::kDelete:
      variables_.erase(UsesOf(s)[0]);
      return;
    case Kind::kSeed:
      manual_seed(static_cast<uint64_t>(std::get<int64_t>(s.args[0])));
      return;
  }
}

void TensorRun::Execute(const Program& program, const std::function<bool(const Statement&)>& skip) {
  manual_seed(program.seed);
  size_t index = 0;
  int var = -1;
  try {
    for (; index < program.statements.size(); ++index) {
      const Statement& statement = program.statements[index];
      if (!skip || !skip(statement)) Execute(statement, index);
    }
    for (const auto& [id, tensor] : variables_) {
      var = id;
      observations_.push_back({id, index, tensor.host(), ""});
    }
    for (const auto& [id, tensor] : variables_) {
      var = id;
      if (!tensor.is_leaf() || !tensor.grad().defined()) continue;
      observations_.push_back({id, index, tensor.grad().host(), "", true});
    }
  } catch (const std::exception& error) {
    observations_.push_back({var, index, HostTensor(), error.what()});
  }
}

// ---- PlainTensors

PlainTensor PlainRun::Call(const Statement& s) const {
  // In memory of their own, where they lie as the variables do.
  auto copy = [&](int id) {
    const PlainTensor& x = variables_.at(id);
    return as_strided(from_host(x.buffer()), x.sizes(), x.strides(), x.offset());
  };
  Tensor result =
      s.kind == Kind::kByName ? CallByName(s, copy) : CallBoxed(s.op, s.args, copy).ToTensor();
  return PlainTensor(result.host(), result.strides());
}

void PlainRun::Write(const Statement& s) {
  PlainTensor target = variables_.at(UsesOf(s)[0]);
  PlainTensor value;
  bool casts = false;  // any dtype may be written
  if (s.op == "setitem") {
    Statement view{Kind::kView, "getitem", -1, {s.args[0], s.args[1]}, {}};
    target = target.View(view);
    casts = true;
  }
  if (s.op == "copy_" || s.op == "setitem" || s.op == "fill_") {
    casts = true;
    const Argument& source = s.args.back();
    if (const auto* var = std::get_if<Var>(&source)) {
      value = variables_.at(var->id);
    } else if (const auto* number = std::get_if<double>(&source)) {
      value = PlainTensor(HostTensor::From(Scalar(*number)));
    } else {
      value = PlainTensor(HostTensor::From(Scalar(std::get<int64_t>(source))));
    }
  } else if (s.op == "zero_") {
    value = PlainTensor(HostTensor::From(Scalar(false)));
    casts = true;
  } else {
    Statement call = s;
    call.op.pop_back();  // the underscore
    value = Call(call);
  }
  bool loses = RankOf(value.dtype()) > RankOf(target.dtype());
  if (loses && !casts) Invalid("the result cannot be stored");
  if (target.OverlapsItself()) Invalid("the tensor overlaps itself");
  if (BroadcastSizes("write", value.sizes(), target.sizes()) != target.sizes()) {
    Invalid("the result does not broadcast");
  }
  HostTensor host = value.Read();
  if (host.dtype() != target.dtype()) host = to(from_host(host), target.dtype()).host();
  target.Write(host);
}

void PlainRun::Execute(const Statement& s, size_t index) {
  switch (s.kind) {
    case Kind::kInput:
      variables_[s.result] = PlainTensor(s.input);
      return;
    case Kind::kCall:
    case Kind::kByName:
      variables_[s.result] = Call(s);
      return;
    case Kind::kGradient:
      if (!gradients_.count(s.result)) Invalid("the gradient is not given");
      variables_[s.result] = PlainTensor(gradients_.at(s.result));
      return;
    case Kind::kView:
      variables_[s.result] = variables_.at(UsesOf(s)[0]).View(s);
      return;
    case Kind::kInPlace:
      return Write(s);
    case Kind::kRead:
      observations_.push_back({UsesOf(s)[0], index, variables_.at(UsesOf(s)[0]).Read(), ""});
      return;
    case Kind::kBackward:
    case Kind::kSync:
    case Kind::kStep:
      return;
    case Kind::kDelete:
      variables_.erase(UsesOf(s)[0]);
      return;
    case Kind::kSeed:
      manual_seed(static_cast<uint64_t>(std::get<int64_t>(s.args[0])));
      return;
  }
}

void PlainRun::Execute(const Program& program) {
  EagerMode eager;
  manual_seed(program.seed);
  size_t index = 0;
  try {
    for (; index < program.statements.size(); ++index) Execute(program.statements[index], index);
    for (const auto& [id, tensor] : variables_) {
      observations_.push_back({id, index, tensor.Read(), ""});
    }
  } catch (const std::exception& error) {
    observations_.push_back({-1, index, HostTensor(), error.what()});
  }
}

}  // namespace hammock::testing
