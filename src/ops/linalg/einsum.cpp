// einsum and tensordot: contractions named by labels.

#include <algorithm>
#include <map>
#include <string>

#include "base/throw.h"
#include "hammock/ops/elementwise.h"
#include "hammock/ops/matmul.h"
#include "hammock/ops/reduce.h"
#include "ir/primitives.h"
#include "ops/kit/compose.h"
#include "ops/kit/reduce_steps.h"
#include "ops/linalg/contraction.h"
#include "ops/primitives/families.h"
#include "trace/autocast.h"

namespace hammock {

using namespace ops;  // NOLINT: the writer's kit of this folder

namespace {

extern const OpDef kEinsum, kTensordot;

/// A tensor whose dims have labels. Letters are themselves; the dims of `...`, from the right, are
/// the characters 1, 2, 3, ...
struct Labelled {
  Tensor tensor;
  std::string labels;
};

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

[[noreturn]] void BadEquation(const std::string& equation, const std::string& why) {
  Throw(ErrorCode::kValue, "einsum: \"{}\": {}", equation, why);
}

std::string EllipsisLabels(int count) {
  std::string labels;
  for (int i = count; i > 0; --i) labels += static_cast<char>(i);
  return labels;
}

/// One side of a term, its ellipsis replaced by labels for `covered` dims.
std::string ExpandTerm(const std::string& equation, const std::string& term, int covered) {
  std::string labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == ' ') continue;
    if (term[i] == '.') {
      if (term.compare(i, 3, "...") != 0) BadEquation(equation, "a dot must be part of '...'");
      labels += EllipsisLabels(covered);
      i += 2;
    } else if (isalpha(static_cast<unsigned char>(term[i]))) {
      labels += term[i];
    } else {
      BadEquation(equation, std::string("labels are letters, got '") + term[i] + "'");
    }
  }
  return labels;
}

int Letters(const std::string& term) {
  return static_cast<int>(
      std::count_if(term.begin(), term.end(), [](unsigned char c) { return isalpha(c) != 0; }));
}

std::vector<std::string> SplitTerms(const std::string& text) {
  std::vector<std::string> terms(1);
  for (char c : text) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  return terms;
}

Equation ParseEquation(const std::string& equation, const std::vector<Tensor>& tensors) {
  size_t arrow = equation.find("->");
  std::vector<std::string> terms = SplitTerms(equation.substr(0, arrow));
  if (terms.size() != tensors.size()) {
    BadEquation(equation, fmt::format("names {} operands, got {}", terms.size(), tensors.size()));
  }
  Equation result;
  int widest = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    bool ellipsis = terms[i].find("...") != std::string::npos;
    int covered = tensors[i].dim() - Letters(terms[i]);
    if (covered < 0 || (covered > 0 && !ellipsis)) {
      BadEquation(equation,
                  fmt::format("operand {} is {}, but '{}' has {} labels", i,
                              tensors[i].shape().to_string(), terms[i], Letters(terms[i])));
    }
    widest = std::max(widest, covered);
    result.inputs.push_back(ExpandTerm(equation, terms[i], covered));
  }
  if (arrow != std::string::npos) {
    result.output = ExpandTerm(equation, equation.substr(arrow + 2), widest);
    return result;
  }
  // Without an arrow: the ellipsis, then every letter that occurs once, in alphabetical order.
  std::map<char, int> counts;
  for (const std::string& input : result.inputs) {
    for (char c : input) ++counts[c];
  }
  result.output = EllipsisLabels(widest);
  for (auto [label, count] : counts) {
    if (count == 1 && isalpha(static_cast<unsigned char>(label))) result.output += label;
  }
  return result;
}

/// Equal labels in one operand: their diagonal.
Labelled TakeDiagonals(Labelled x) {
  for (size_t i = 0; i < x.labels.size(); ++i) {
    size_t j = x.labels.find(x.labels[i], i + 1);
    if (j == std::string::npos) continue;
    char label = x.labels[i];
    if (x.tensor.size(static_cast<int64_t>(i)) != x.tensor.size(static_cast<int64_t>(j))) {
      Throw(ErrorCode::kShapeMismatch, "einsum: label '{}' has two sizes in operand {}", label,
            x.tensor.shape().to_string());
    }
    x.tensor = diagonal(x.tensor, 0, static_cast<int64_t>(i), static_cast<int64_t>(j));
    x.labels.erase(j, 1);
    x.labels.erase(i, 1);
    x.labels += label;
    --i;
  }
  return x;
}

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

/// Sums over the dims whose label is not in `needed`.
Labelled SumOthers(Labelled x, const std::string& needed) {
  Dims dims;
  std::string kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (Has(needed, x.labels[i])) {
      kept += x.labels[i];
    } else {
      dims.push_back(static_cast<int64_t>(i));
    }
  }
  if (dims.empty()) return x;
  // As in PyTorch, a sum of integers is i64.
  Tensor operand = Casted(x.tensor, SumType(x.tensor, std::nullopt));
  return {Apply(kReduceSum, Location(), {operand}, {dims, false}), kept};
}

/// Drops dims of size one whose label has another size in `other`.
Labelled DropStretched(Labelled x, const Labelled& other) {
  Dims sizes;
  std::string kept;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    int64_t size = x.tensor.size(static_cast<int64_t>(i));
    size_t j = other.labels.find(x.labels[i]);
    if (size == 1 && j != std::string::npos && other.tensor.size(static_cast<int64_t>(j)) != 1) {
      continue;
    }
    sizes.push_back(size);
    kept += x.labels[i];
  }
  return {Reshaped(x.tensor, sizes), kept};
}

Labelled Multiply(Labelled a, Labelled b, const std::string& needed) {
  a = SumOthers(a, needed + b.labels);
  b = SumOthers(b, needed + a.labels);
  Labelled a_kept = DropStretched(a, b);
  b = DropStretched(b, a);
  a = a_kept;
  Dims a_contract, b_contract, a_batch, b_batch;
  std::string batch, a_free, b_free;
  for (size_t i = 0; i < a.labels.size(); ++i) {
    char label = a.labels[i];
    size_t j = b.labels.find(label);
    if (j == std::string::npos) {
      a_free += label;
      continue;
    }
    bool keep = Has(needed, label);
    (keep ? a_batch : a_contract).push_back(static_cast<int64_t>(i));
    (keep ? b_batch : b_contract).push_back(static_cast<int64_t>(j));
    if (keep) batch += label;
    if (a.tensor.size(static_cast<int64_t>(i)) != b.tensor.size(static_cast<int64_t>(j))) {
      Throw(ErrorCode::kShapeMismatch, "einsum: label '{}' has the sizes {} and {}", label,
            a.tensor.size(static_cast<int64_t>(i)), b.tensor.size(static_cast<int64_t>(j)));
    }
  }
  for (char label : b.labels) {
    if (!Has(a.labels, label)) b_free += label;
  }
  DType dtype = PromoteTypes(a.tensor.dtype(), b.tensor.dtype());
  Tensor product = Contract(Casted(a.tensor, dtype), Casted(b.tensor, dtype), a_contract,
                            b_contract, a_batch, b_batch);
  // Dims that only one side has and the result lacks are summed after the matmul.
  return SumOthers({product, batch + a_free + b_free}, needed);
}

Tensor TensordotBoxed(const Tensor& self, const Tensor& other, const Any& dims) {
  if (dims.IsNumber()) return tensordot(self, other, dims.ToInt());
  const AnyList& lists = dims.ToList();
  if (lists.size() != 2) {
    Throw(ErrorCode::kValue, "tensordot: dims must be a number or two lists, got {}",
          dims.to_string());
  }
  auto list = [](const Any& item) {
    return item.IsNumber() ? Dims{item.ToInt()} : Dims(item.ToInts());
  };
  return tensordot(self, other, list(lists[0]), list(lists[1]));
}

Any CallTensordot(std::span<const Any> args) {
  return TensordotBoxed(args[0].ToTensor(), args[1].ToTensor(), args[2]);
}

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors, Location at) {
  if (Autocasted cast(kEinsum, at); cast) return einsum(equation, cast(tensors), at);
  LocationScope scope(at);
  if (tensors.empty()) Throw(ErrorCode::kValue, "einsum: needs at least one operand");
  Equation parsed = ParseEquation(equation, tensors);
  std::vector<Labelled> operands;
  for (size_t i = 0; i < tensors.size(); ++i) {
    operands.push_back(TakeDiagonals({tensors[i], parsed.inputs[i]}));
  }
  for (char label : parsed.output) {
    bool known = std::any_of(operands.begin(), operands.end(),
                             [&](const Labelled& x) { return Has(x.labels, label); });
    if (!known || std::count(parsed.output.begin(), parsed.output.end(), label) > 1) {
      BadEquation(equation, std::string("the result's label '") + label +
                                "' must occur in an operand and only once in the result");
    }
  }
  Labelled result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string needed = parsed.output;
    for (size_t j = i + 1; j < operands.size(); ++j) needed += operands[j].labels;
    result = Multiply(result, operands[i], needed);
  }
  result = SumOthers(result, parsed.output);
  Dims order;
  for (char label : parsed.output) {
    order.push_back(static_cast<int64_t>(result.labels.find(label)));
  }
  return Permuted(result.tensor, order);
}

Tensor tensordot(const Tensor& self, const Tensor& other, int64_t dims, Location at) {
  LocationScope scope(at);
  if (Autocasted cast(kTensordot, at); cast) return tensordot(cast(self), cast(other), dims, at);
  if (dims < 0 || dims > self.dim() || dims > other.dim()) {
    Throw(ErrorCode::kValue, "tensordot: cannot contract {} dims of {} and {}", dims,
          self.shape().to_string(), other.shape().to_string());
  }
  Dims dims_self, dims_other;
  for (int64_t i = 0; i < dims; ++i) {
    dims_self.push_back(self.dim() - dims + i);
    dims_other.push_back(i);
  }
  return tensordot(self, other, dims_self, dims_other, at);
}

Tensor tensordot(const Tensor& self, const Tensor& other, const Dims& dims_self,
                 const Dims& dims_other, Location at) {
  if (Autocasted cast(kTensordot, at); cast)
    return tensordot(cast(self), cast(other), dims_self, dims_other, at);
  LocationScope scope(at);
  if (dims_self.size() != dims_other.size()) {
    Throw(ErrorCode::kValue, "tensordot: both lists of dims must be equally long, got {} and {}",
          ToString(dims_self), ToString(dims_other));
  }
  Dims a, b;
  for (int i = 0; i < dims_self.size(); ++i) {
    a.push_back(WrapDim("tensordot", dims_self[i], self.dim()));
    b.push_back(WrapDim("tensordot", dims_other[i], other.dim()));
    int64_t size_a = self.size(a.back()), size_b = other.size(b.back());
    if (size_a != size_b) {
      Throw(ErrorCode::kShapeMismatch,
            "tensordot: contracted sizes differ: {} and {} need {} == {}", self.shape().to_string(),
            other.shape().to_string(), size_a, size_b);
    }
  }
  return Contract(self, other, a, b, {}, {});
}

namespace {

constinit const OpDef kEinsum = {
    .schema = "einsum(str equation, Tensor[] tensors) -> Tensor",
    .doc = "Sums products of elements as the labels of an equation say.",
    .call = Box<einsum>,
    .autocast = AutocastRule::kLow,
};
constinit const OpDef kTensordot = {
    .schema = "tensordot(Tensor self, Tensor other, Any dims=2) -> Tensor",
    .doc = "Contracts a number of dims, or two lists of them.",
    .call = CallTensordot,
    .autocast = AutocastRule::kLow,
};

}  // namespace

std::span<const OpDef* const> ops::EinsumOps() {
  static constexpr const OpDef* kOps[] = {&kEinsum, &kTensordot};
  return kOps;
}

}  // namespace hammock
