#include "support/random_program.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>

#include "hammock/error.h"
#include "hammock/executor.h"
#include "hammock/ops/create.h"
#include "hammock/random.h"
#include "ops/primitives/families.h"
#include "support/program_run.h"
#include "support/random_source.h"
#include "support/record_call.h"

namespace hammock::testing {
namespace {

using Kind = Statement::Kind;

constexpr int64_t kMaxElements = 200;
constexpr DType kDTypes[] = {
    f32, i64, boolean, c64, u8, u16, u32, DType::kF8E4M3, DType::kF8E5M2, DType::kI4, DType::kU4};

bool IsPacked(DType dtype) { return InfoOf(dtype).bits < 8; }
/// f32 and c64, which have gradients.
bool IsNumber(DType dtype) { return IsFloatOrComplex(dtype) && InfoOf(dtype).supported; }

std::map<std::string, int64_t>& Counts() {
  static std::map<std::string, int64_t> counts;
  return counts;
}

std::vector<std::string>& Complaints() {
  static std::vector<std::string> complaints;
  return complaints;
}

/// Writes statements at random and runs each on PlainTensors to know shapes and values, and with
/// gradients on tensors to know that it is allowed.
class Writer {
 public:
  Writer(uint64_t seed, bool gradients) : random_(seed), gradients_(gradients), tensors_(true) {
    program_.seed = seed;
  }

  Program Run() {
    EagerMode eager;
    manual_seed(program_.seed);
    for (int64_t i = random_.In(2, 4); i > 0; --i) Input(RandomInput());
    int64_t length = random_.In(3, 24);
    for (int tries = 0; length > 0 && tries < 200; ++tries) {
      if (Step()) --length;
    }
    for (int i = 0; gradients_ && i < 2; ++i) Backward();
    return std::move(program_);
  }

 private:
  const PlainTensor& At(int id) const { return run_.variables().at(id); }

  bool Add(Statement statement) {
    for (int id : UsesOf(statement)) {
      if (!run_.variables().count(id)) return false;
    }
    std::optional<HostTensor> old;
    PlainTensor target;
    if (statement.kind == Kind::kInPlace) {
      target = At(UsesOf(statement)[0]);
      old = target.Read();
    }
    bool records = statement.kind == Kind::kCall || statement.kind == Kind::kByName ||
                   statement.kind == Kind::kView || statement.kind == Kind::kInPlace;
    statement.no_grad = gradients_ && records && random_.OneIn(8);
    uint64_t offset = Generator::Default().offset();
    if (Allowed(statement, offset)) {
      if (!statement.op.empty()) ++Counts()[statement.op];
      program_.statements.push_back(std::move(statement));
      return true;
    }
    // As if it had not been tried.
    Generator::Default().set_offset(offset);
    if (old) target.Write(*old);
    if (statement.result >= 0 && run_.variables().count(statement.result)) {
      run_.Execute({Kind::kDelete, "", -1, {Var{statement.result}}, {}}, 0);
    }
    return false;
  }

  /// Runs it; what it has written on PlainTensors is not taken back.
  bool Allowed(const Statement& statement, uint64_t offset) {
    try {
      run_.Execute(statement, program_.statements.size());
      if (statement.result >= 0 && !Acceptable(At(statement.result))) return false;
      if (statement.kind == Kind::kInPlace && !Acceptable(At(UsesOf(statement)[0]))) return false;
      if (!gradients_) return true;
      if (statement.kind != Kind::kSeed) Generator::Default().set_offset(offset);
      tensors_.Execute(statement, program_.statements.size());
      return true;
    } catch (const InternalError& error) {
      Complaints().push_back(ToCpp(statement) + "\n" + error.what());
    } catch (const Error&) {
      // Not valid: another one will be tried.
    }
    return false;
  }

  /// Small, of one of the dtypes, and i64 far from overflow.
  static bool Acceptable(const PlainTensor& x) {
    if (x.numel() > kMaxElements || x.sizes().size() > 5) return false;
    if (x.dtype() != DType::kI64) return std::ranges::count(kDTypes, x.dtype()) > 0;
    constexpr int64_t kMost = int64_t{1} << 20;
    HostTensor values = x.Read();
    for (int64_t i = 0; i < values.numel(); ++i) {
      int64_t value = values.at(i).ToInt();
      if (value > kMost || value < -kMost) return false;
    }
    return true;
  }

  int Input(const HostTensor& values) {
    int id = next_++;
    Statement input{Kind::kInput, "", id, {}, values};
    input.requires_grad = gradients_ && IsNumber(values.dtype()) && !random_.OneIn(4);
    Add(std::move(input));
    return id;
  }

  bool Define(Kind kind, const char* op, std::vector<Argument> args) {
    return Add({kind, op, next_++, std::move(args), {}});
  }

  // ---- Choices

  /// One of the variables; packed ones are for AnyStored alone.
  template <class F>
  int Choose(F&& accept) {
    return ChooseStored([&](const PlainTensor& x) { return !IsPacked(x.dtype()) && accept(x); });
  }
  template <class F>
  int ChooseStored(F&& accept) {
    std::vector<int> ids;
    for (const auto& [id, tensor] : run_.variables()) {
      if (accept(tensor)) ids.push_back(id);
    }
    return ids.empty() ? -1 : random_.Pick(ids);
  }
  int Any() {
    return Choose([](const PlainTensor&) { return true; });
  }
  int AnyStored() {
    return ChooseStored([](const PlainTensor&) { return true; });
  }
  int Complex() {
    return Choose([](const PlainTensor& x) { return IsComplex(x.dtype()); });
  }
  int Float() {
    return Choose([](const PlainTensor& x) { return x.dtype() == DType::kF32; });
  }
  int WithDims(int least) {
    return Choose([&](const PlainTensor& x) { return x.sizes().size() >= least; });
  }
  int BroadcastsWith(const Dims& sizes) {
    return Choose([&](const PlainTensor& x) {
      const Dims& other = x.sizes();
      for (int i = 1; i <= std::min(sizes.size(), other.size()); ++i) {
        int64_t a = sizes[sizes.size() - i], b = other[other.size() - i];
        if (a != b && a != 1 && b != 1) return false;
      }
      return true;
    });
  }
  int64_t DimOf(int id) { return random_.In(-At(id).sizes().size(), At(id).sizes().size() - 1); }
  int64_t SizeAt(int id, int64_t dim) {
    return At(id).sizes()[WrapDim("", dim, At(id).sizes().size())];
  }

  Dims RandomSizes() {
    Dims sizes;
    for (int64_t rank = random_.In(0, 3); rank > 0; --rank) {
      sizes.push_back(random_.OneIn(20) ? 0 : random_.In(1, 4));
    }
    return sizes;
  }

  HostTensor RandomValues(DType dtype, const Dims& sizes) {
    HostTensor values{Shape(dtype, sizes)};
    for (int64_t i = 0; i < values.numel(); ++i) {
      Scalar value(random_.In(-4, 4));
      if (dtype == DType::kBool) value = Scalar(random_.OneIn(2));
      auto fraction = [&] { return static_cast<double>(random_.In(-20, 20)) / 8.0; };
      if (dtype == DType::kF32) value = Scalar(fraction());
      if (dtype == DType::kC64) value = Scalar(std::complex<double>(fraction(), fraction()));
      values.set(i, value);
    }
    return values;
  }

  HostTensor RandomInput() {
    static const std::vector<DType> kTypes = {f32, f32, f32, f32, f32,     f32, i64, i64,
                                              i64, i64, c64, c64, boolean, u8,  u16, u32};
    return RandomValues(random_.Pick(kTypes), RandomSizes());
  }

  Argument Number(bool floating) {
    if (floating && random_.OneIn(2)) return static_cast<double>(random_.In(-8, 8)) / 4.0;
    return random_.In(-3, 3);
  }

  /// A tensor that broadcasts with variable `id`, or a number.
  Argument Other(int id) {
    if (random_.OneIn(3)) return Number(At(id).dtype() == DType::kF32);
    return Var{BroadcastsWith(At(id).sizes())};
  }

  std::vector<int64_t> SomeDims(int id) {
    std::vector<int64_t> dims;
    for (int d = 0; d < At(id).sizes().size(); ++d) {
      if (random_.OneIn(2)) dims.push_back(random_.OneIn(2) ? d : d - At(id).sizes().size());
    }
    return dims;
  }

  // ---- Statements

  bool Step() {
    if (run_.variables().empty()) return Input(RandomInput()) >= 0;
    if (random_.OneIn(5)) return Record();
    if (gradients_ && random_.OneIn(12)) return random_.OneIn(2) ? Backward() : TakeGradient();
    switch (random_.In(0, 20)) {
      case 0:
      case 1:
        return Unary();
      case 2:
      case 3:
      case 4:
        return Binary();
      case 5:
        return Reduction();
      case 6:
        return Mixed();
      case 7:
      case 8:
      case 9:
      case 10:
        return View();
      case 11:
      case 12:
      case 13:
      case 14:
      case 15:
        return Write();
      case 16:
        return RandomOp();
      case 17:
        return Add({Kind::kRead, "", -1, {Var{AnyStored()}}, {}});
      case 18:
        return random_.OneIn(3) ? Sync() : Add({Kind::kStep, "", -1, {}, {}});
      case 19:
        return Cast();
      default:
        return random_.OneIn(4) ? Input(RandomInput()) >= 0
                                : Add({Kind::kDelete, "", -1, {Var{AnyStored()}}, {}});
    }
  }

  bool Unary() {
    static const std::vector<const char*> kOps = {
        "neg",   "abs",  "exp",    "sin",         "tanh", "relu", "sigmoid",
        "floor", "sign", "square", "logical_not", "any",  "all"};
    return Define(Kind::kCall, random_.Pick(kOps), {Var{Any()}});
  }

  /// Of real numbers these would be views.
  bool OfComplex() {
    static const std::vector<const char*> kViews = {"view_as_real", "real", "imag"};
    int a = Complex();
    if (a < 0) return false;
    if (random_.OneIn(4)) return Define(Kind::kCall, "conj", {Var{a}});
    return Define(Kind::kView, random_.Pick(kViews), {Var{a}});
  }

  bool Binary() {
    static const std::vector<const char*> kOps = {"add",     "add",     "sub",        "mul", "mul",
                                                  "maximum", "minimum", "div",        "eq",  "lt",
                                                  "ge",      "ne",      "logical_and"};
    const char* op = random_.Pick(kOps);
    int a = Any();
    Argument b = Other(a);
    if (!std::holds_alternative<Var>(b) && (op[0] == 'm' && op[1] != 'u')) b = Var{a};
    return Define(Kind::kCall, op, {Var{a}, b});
  }

  bool Reduction() {
    static const std::vector<const char*> kOps = {"sum", "mean", "amax", "amin"};
    if (random_.OneIn(3)) {
      static const std::vector<const char*> kAlong = {"cumsum", "argmax", "softmax"};
      int id = WithDims(1);
      return id >= 0 && Define(Kind::kCall, random_.Pick(kAlong), {Var{id}, DimOf(id)});
    }
    int id = Any();
    return Define(Kind::kCall, random_.Pick(kOps), {Var{id}, SomeDims(id), random_.OneIn(2)});
  }

  bool Mixed() {
    switch (random_.In(0, 5)) {
      case 0: {
        int a = Any(), b = BroadcastsWith(At(a).sizes());
        int condition = Input(RandomValues(boolean, At(a).sizes()));
        return Define(Kind::kCall, "where", {Var{condition}, Var{a}, Var{b}});
      }
      case 1: {
        int a = Choose([](const PlainTensor& x) { return IsNumber(x.dtype()); });
        if (a < 0 || At(a).sizes().empty()) return false;
        int64_t inner = At(a).sizes().back();
        int b = Input(RandomValues(At(a).dtype(), {inner, random_.In(1, 3)}));
        return Define(Kind::kCall, "matmul", {Var{a}, Var{b}});
      }
      case 2: {
        int a = WithDims(1);
        if (a < 0) return false;
        int b = Choose([&](const PlainTensor& x) { return x.sizes() == At(a).sizes(); });
        std::vector<Var> vars = {Var{a}, Var{b}};
        return Define(Kind::kCall, random_.OneIn(2) ? "cat" : "stack", {vars, DimOf(a)});
      }
      case 3: {
        int a = WithDims(1);
        return a >= 0 && Define(Kind::kCall, "flip", {Var{a}, SomeDims(a)});
      }
      case 4: {
        int a = WithDims(1);
        if (a < 0) return false;
        int64_t dim = DimOf(a), size = SizeAt(a, dim);
        if (size == 0) return false;
        HostTensor index{Shape(i64, {random_.In(1, 4)})};
        for (int64_t i = 0; i < index.numel(); ++i) index.set(i, Scalar(random_.In(0, size - 1)));
        return Define(Kind::kCall, "index_select", {Var{a}, dim, Var{Input(index)}});
      }
      default:
        return Define(Kind::kCall, "clone", {Var{AnyStored()}});
    }
  }

  /// Casting wild floats to integers is not defined anywhere.
  bool Cast() {
    static const std::vector<DType> kAll(std::begin(kDTypes), std::end(kDTypes));
    int a = AnyStored();
    DType to = random_.Pick(kAll);
    bool wild = IsFloatOrComplex(At(a).dtype()) && IsIntegral(to) && to != boolean;
    return !wild && to != At(a).dtype() && Define(Kind::kCall, "to", {Var{a}, to});
  }

  /// Any record, by its name.
  bool Record() {
    const OpDef& op = *random_.Pick(CallableRecords());
    // These have no gradient of their own: with a history they are expanded, and a convolution of
    // another layout adds in another order.
    if (gradients_ && std::ranges::count(ops::ChannelsLastOps(), &op) > 0) return false;
    ArgumentSource source;
    source.number = [&](int64_t low, int64_t high) { return random_.In(low, high); };
    source.variable = [&] { return random_.OneIn(3) || Float() < 0 ? Any() : Float(); };
    source.of_type = [&](const Shape& type, const Domain& domain) { return OfType(type, domain); };
    Statement call{Kind::kByName, op.info().name, -1, RandomArguments(op, source), {}};
    const FunctionSchema& schema = op.info().schema;
    bool several = schema.variadic_returns() || schema.returns().size() > 1;
    int64_t results = schema.variadic_returns() ? 2 : static_cast<int64_t>(schema.returns().size());
    if (several) call.part = static_cast<int>(random_.In(0, results - 1));
    // Some take diagonals of them.
    for (int id : UsesOf(call)) {
      if (run_.variables().count(id) && At(id).IsOfParts()) return false;
    }
    call.result = next_++;
    return Add(std::move(call));
  }

  /// A variable of that type, or of one of kDTypes; integers are 0 or 1, indices that exist.
  int OfType(Shape type, const Domain& domain) {
    if (std::ranges::count(kDTypes, type.dtype()) == 0) {
      type = type.With(IsComplex(type.dtype()) ? c64 : IsFloat(type.dtype()) ? f32 : i64);
    }
    bool usual = domain.lo == Domain().lo && domain.hi == Domain().hi;
    int found = Choose([&](const PlainTensor& x) {
      return IsNumber(x.dtype()) && Shape(x.dtype(), x.sizes()) == type;
    });
    if (found >= 0 && usual && random_.OneIn(2)) return found;
    HostTensor values(type);
    for (int64_t i = 0; i < values.numel(); ++i) {
      auto part = [&] {
        return domain.lo + (domain.hi - domain.lo) * static_cast<double>(random_.In(1, 31)) / 32.0;
      };
      values.set(i, IsComplex(type.dtype()) ? Scalar(std::complex<double>(part(), part()))
                    : IsFloat(type.dtype()) ? Scalar(part())
                                            : Scalar(random_.In(0, 1)));
    }
    return Input(values);
  }

  bool Backward() {
    std::vector<int> ids;
    for (const auto& [id, tensor] : tensors_.variables()) {
      if (tensor.requires_grad()) ids.push_back(id);
    }
    return !ids.empty() && Add({Kind::kBackward, "", -1, {Var{random_.Pick(ids)}}, {}});
  }

  bool TakeGradient() {
    int id = Choose([](const PlainTensor& x) { return IsNumber(x.dtype()); });
    if (id < 0 || !tensors_.variables().at(id).is_leaf()) return false;
    if (!tensors_.variables().at(id).requires_grad()) return false;
    Tensor of = tensors_.variables().at(id), grad = of.grad();
    run_.AddGradient(next_, (grad.defined() ? grad : zeros_like(of)).host());
    return Define(Kind::kGradient, "", {Var{id}});
  }

  bool RandomOp() {
    if (random_.OneIn(3)) return Add({Kind::kSeed, "", -1, {random_.In(0, 99)}, {}});
    std::vector<int64_t> sizes = RandomSizes().vec();
    if (random_.OneIn(3)) {
      return Define(Kind::kCall, "randint", {random_.In(-3, 0), random_.In(1, 5), sizes});
    }
    return Define(Kind::kCall, random_.OneIn(2) ? "rand" : "randn", {sizes});
  }

  bool Sync() {
    std::vector<Var> vars;
    for (int64_t i = random_.In(1, 2); i > 0; --i) vars.push_back(Var{AnyStored()});
    return Add({Kind::kSync, "", -1, {vars}, {}});
  }

  // ---- Views

  /// Other sizes with as many elements.
  std::vector<int64_t> Regrouped(int id) {
    int64_t numel = At(id).numel();
    std::vector<int64_t> sizes;
    for (int64_t rest = numel; numel > 0 && sizes.size() < 3;) {
      std::vector<int64_t> factors;
      for (int64_t f = 1; f <= rest; ++f) {
        if (rest % f == 0) factors.push_back(f);
      }
      sizes.push_back(sizes.size() == 2 ? rest : random_.Pick(factors));
      rest /= sizes.back();
      if (rest == 1 && random_.OneIn(2)) break;
    }
    int64_t product = 1;
    for (int64_t size : sizes) product *= size;
    if (numel == 0 || product != numel) return {numel};
    if (random_.OneIn(3)) sizes[random_.In(0, sizes.size() - 1)] = -1;
    return sizes;
  }

  bool View() {
    if (random_.OneIn(4)) return Regroup();
    if (random_.OneIn(4) && OfComplex()) return true;
    switch (random_.In(0, 9)) {
      case 0: {
        int a = WithDims(2);
        return a >= 0 && Define(Kind::kView, "transpose", {Var{a}, DimOf(a), DimOf(a)});
      }
      case 1: {
        int a = WithDims(1);
        if (a < 0) return false;
        std::vector<int64_t> dims;
        for (int d = 0; d < At(a).sizes().size(); ++d) dims.push_back(d);
        for (size_t i = dims.size(); i-- > 1;) {
          std::swap(dims[i], dims[random_.In(0, static_cast<int64_t>(i))]);
        }
        return Define(Kind::kView, "permute", {Var{a}, dims});
      }
      case 2:
      case 3:
        return Slice();
      case 4: {
        int a = WithDims(1);
        if (a < 0) return false;
        int64_t dim = DimOf(a), size = SizeAt(a, dim);
        return size > 0 &&
               Define(Kind::kView, "select", {Var{a}, dim, random_.In(-size, size - 1)});
      }
      case 5: {
        int a = Any();
        int64_t rank = At(a).sizes().size();
        return Define(Kind::kView, "unsqueeze", {Var{a}, random_.In(-rank - 1, rank)});
      }
      case 6: {
        int a = Any();
        if (At(a).sizes().empty() || random_.OneIn(2))
          return Define(Kind::kView, "squeeze", {Var{a}});
        return Define(Kind::kView, "squeeze", {Var{a}, DimOf(a)});
      }
      case 7:
        return Expand();
      case 8: {
        int a = WithDims(2);
        if (a < 0 || At(a).IsOfParts()) return false;
        int64_t dim1 = DimOf(a), dim2 = DimOf(a);
        int rank = At(a).sizes().size();
        if (WrapDim("", dim1, rank) == WrapDim("", dim2, rank)) return false;
        return Define(Kind::kView, "diagonal", {Var{a}, random_.In(-1, 1), dim1, dim2});
      }
      default:
        return random_.OneIn(2) ? AsStrided() : Item();
    }
  }

  bool Regroup() {
    int a = Any();
    std::vector<int64_t> sizes = Regrouped(a);
    bool view = At(a).IsContiguous() && random_.OneIn(2);
    return Define(Kind::kView, view ? "view" : "reshape", {Var{a}, sizes});
  }

  bool Slice() {
    int a = WithDims(1);
    if (a < 0) return false;
    int64_t dim = DimOf(a), size = SizeAt(a, dim);
    if (random_.OneIn(4)) {
      int64_t start = random_.In(0, size);
      return Define(Kind::kView, "narrow", {Var{a}, dim, start, random_.In(0, size - start)});
    }
    return Define(
        Kind::kView, "slice",
        {Var{a}, dim, random_.In(-size, size), random_.In(-1, size + 1), random_.In(1, 3)});
  }

  bool Expand() {
    int a = Any();
    std::vector<int64_t> sizes = At(a).sizes().vec();
    for (int64_t& size : sizes) {
      if (size == 1) size = random_.In(1, 3);
      if (random_.OneIn(4) && size != 1) size = size == At(a).sizes()[0] ? size : size;
    }
    if (random_.OneIn(2)) sizes.insert(sizes.begin(), random_.In(1, 3));
    return Define(Kind::kView, "expand", {Var{a}, sizes});
  }

  bool AsStrided() {
    int a = Any();
    int64_t room = At(a).buffer_size();
    if (room == 0 || At(a).IsOfParts()) return false;
    int64_t offset = random_.In(0, room - 1);
    std::vector<int64_t> sizes, strides;
    int64_t last = offset;
    for (int64_t rank = random_.In(1, 2); rank > 0; --rank) {
      int64_t stride = random_.In(0, 3), most = stride == 0 ? 3 : 1 + (room - 1 - last) / stride;
      sizes.push_back(random_.In(1, std::min<int64_t>(most, 4)));
      strides.push_back(stride);
      last += (sizes.back() - 1) * stride;
    }
    return Define(Kind::kView, "as_strided", {Var{a}, sizes, strides, offset});
  }

  std::vector<IndexItem> RandomItems(int id) {
    std::vector<IndexItem> items;
    const Dims& sizes = At(id).sizes();
    for (int64_t d = 0, count = random_.In(1, sizes.size()); d < count; ++d) {
      int64_t size = sizes[static_cast<int>(d)];
      if (size > 0 && random_.OneIn(2)) {
        items.push_back({random_.In(-size, size - 1), 0, 0});
      } else {
        items.push_back({random_.In(-1, size), random_.In(0, size + 1), random_.In(1, 2)});
      }
    }
    return items;
  }

  bool Item() {
    int a = WithDims(1);
    return a >= 0 && Define(Kind::kView, "getitem", {Var{a}, RandomItems(a)});
  }

  // ---- Writes

  bool Write() {
    static const std::vector<const char*> kOps = {"add_",  "add_", "mul_",  "sub_",   "fill_",
                                                  "zero_", "neg_", "copy_", "setitem"};
    std::string op = random_.Pick(kOps);
    int a = Choose([](const PlainTensor& x) { return !x.OverlapsItself(); });
    if (a < 0) return false;
    std::vector<Argument> args = {Var{a}};
    if (op == "add_" || op == "mul_" || op == "sub_") args.push_back(Other(a));
    if (op == "copy_") args.push_back(Var{BroadcastsWith(At(a).sizes())});
    if (op == "fill_") args.push_back(Number(At(a).dtype() == DType::kF32));
    if (op == "setitem") {
      if (At(a).sizes().empty()) return false;
      args.push_back(RandomItems(a));
      args.push_back(random_.OneIn(2) ? Number(At(a).dtype() == DType::kF32)
                                      : Argument(Var{Any()}));
    }
    // As in Cast.
    if (const auto* source = std::get_if<Var>(&args.back()); source && source->id != a) {
      bool to_integers = IsIntegral(At(a).dtype()) && At(a).dtype() != boolean;
      if (to_integers && IsFloatOrComplex(At(source->id).dtype())) return false;
    }
    return Add({Kind::kInPlace, op, -1, std::move(args), {}});
  }

  RandomSource random_;
  bool gradients_;
  Program program_;
  PlainRun run_;
  TensorRun tensors_;  // with gradients only
  int next_ = 0;
};

}  // namespace

Program GenerateProgram(uint64_t seed, bool gradients) { return Writer(seed, gradients).Run(); }

const std::vector<std::string>& InternalErrors() { return Complaints(); }

const std::map<std::string, int64_t>& GeneratedOps() { return Counts(); }

}  // namespace hammock::testing
