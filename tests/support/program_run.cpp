#include "support/program_run.h"

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

}  // namespace

bool SameValues(const HostTensor& a, const HostTensor& b) {
  if (a.shape() != b.shape()) return false;
  for (int64_t i = 0; i < a.numel(); ++i) {
    Scalar x = a.at(i), y = b.at(i);
    bool both_nan = x.ToDouble() != x.ToDouble() && y.ToDouble() != y.ToDouble();
    if (!(x == y) && !both_nan) return false;
  }
  return true;
}

// ---- Tensors

void TensorRun::Execute(const Statement& s, size_t index) {
  auto tensor = [&](int id) { return variables_.at(id); };
  switch (s.kind) {
    case Kind::kInput:
      variables_[s.result] = from_host(s.input);
      return;
    case Kind::kCall:
    case Kind::kView:
      variables_[s.result] = CallBoxed(s.op, s.args, tensor).ToTensor();
      return;
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
  } catch (const std::exception& error) {
    observations_.push_back({var, index, HostTensor(), error.what()});
  }
}

// ---- PlainTensors

PlainTensor PlainRun::Call(const std::string& op, const std::vector<Argument>& args) const {
  auto copy = [&](int id) { return from_host(variables_.at(id).Read()); };
  return PlainTensor(CallBoxed(op, args, copy).ToTensor().host());
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
    value = Call(s.op.substr(0, s.op.size() - 1), s.args);
  }
  bool loses = (IsFloat(value.dtype()) && !IsFloat(target.dtype())) ||
               (target.dtype() == DType::kBool && value.dtype() != DType::kBool);
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
      variables_[s.result] = Call(s.op, s.args);
      return;
    case Kind::kView:
      variables_[s.result] = variables_.at(UsesOf(s)[0]).View(s);
      return;
    case Kind::kInPlace:
      return Write(s);
    case Kind::kRead:
      observations_.push_back({UsesOf(s)[0], index, variables_.at(UsesOf(s)[0]).Read(), ""});
      return;
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
