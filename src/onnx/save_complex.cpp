/// Complex numbers in files: ONNX has hardly an operator that takes them, so they are written as
/// pairs along a new last dim, which DFT takes.

#include <algorithm>

#include "base/throw.h"
#include "compiler/passes/split_complex.h"
#include "onnx/save_forms.h"
#include "ops/primitives/complex_parts.h"

namespace hammock::onnx {
namespace {

/// `y`, which DFT has divided by the size of `whole` along a dim where it is inverse, with the
/// scale that the op asks for: none, by the root of the size, or by the size.
std::string Scaled(const Written& n, const std::string& y, GraphValue whole, int64_t dim,
                   bool inverse) {
  int64_t normalization = n.Int("normalization");
  if (normalization == (inverse ? 2 : 0)) return y;
  const DType dtype = n.w.graph().TypeOf(whole).dtype();
  std::string size = n.w.Sizes({n.w.SizeOf(whole.node, whole.index, static_cast<int>(dim))});
  size = n.w.CastTo(size, DType::kI64, IsComplex(dtype) ? RealOf(dtype) : dtype);
  if (normalization == 1) size = n.w.Emit("Sqrt", {size});
  return n.w.Emit(inverse ? "Mul" : "Div", {y, size});
}

std::string Dft(const Written& n, const std::string& x, int64_t dim, bool inverse, bool onesided) {
  constexpr int kFirst = 17, kAxisIsInput = 20;
  if (n.w.naming().opset < kFirst) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "opset {} has transforms", kFirst);
  }
  std::vector<format::Attribute> attributes{Writer::IntOf("inverse", inverse),
                                            Writer::IntOf("onesided", onesided)};
  if (n.w.naming().opset >= kAxisIsInput) {
    std::string axis = n.w.Number(static_cast<double>(dim), DType::kI64);
    return n.w.Emit("DFT", {x, "", axis}, attributes);
  }
  attributes.push_back(Writer::IntOf("axis", dim));
  return n.w.Emit("DFT", {x}, attributes);
}

std::string Pairs(const Written& n, const std::string& re, const std::string& im) {
  std::string last = n.w.Ints({-1});
  return n.w.Emit("Concat", {n.w.Emit("Unsqueeze", {re, last}), n.w.Emit("Unsqueeze", {im, last})},
                  {Writer::IntOf("axis", -1)});
}

std::string PartOf(const Written& n, const std::string& pairs, int part) {
  return n.w.Emit("Gather", {pairs, n.w.Number(part, DType::kI64)}, {Writer::IntOf("axis", -1)});
}

std::string Conjugate(const Written& n, const std::string& pairs, DType real) {
  HostTensor signs = HostTensor::From(std::vector<double>{1, -1}, {2}).To(real);
  return n.w.Emit("Mul", {pairs, n.w.Initializer(signs)});
}

std::string WriteC2C(const Written& n) {
  std::string y = n.In(0);
  bool inverse = !n.node.attr("forward").boolean();
  for (int64_t dim : n.Ints("dim")) {
    y = Scaled(n, Dft(n, y, dim, inverse, false), {n.id, 0}, dim, inverse);
  }
  return y;
}

std::string WriteR2C(const Written& n) {
  int64_t dim = n.Int("dim");
  std::string x = n.w.Emit("Unsqueeze", {n.In(0), n.w.Ints({-1})});
  return Scaled(n, Dft(n, x, dim, false, true), n.node.inputs[0], dim, false);
}

/// The other half of the frequencies mirrors the first.
std::string WriteC2R(const Written& n) {
  auto dim = static_cast<int>(n.Int("dim"));
  if (n.w.SizeOf(n.id, 0, dim).expr) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "its size depends on a free dim");
  }
  int64_t size = n.node.type().size(dim), half = size / 2 + 1, rest = size - half;
  std::string full = n.In(0);
  if (rest > 0) {
    std::string mirrored =
        n.w.Emit("Slice", {full, n.w.Ints({rest}), n.w.Ints({0}), n.w.Ints({dim}), n.w.Ints({-1})});
    full =
        n.w.Emit("Concat", {full, Conjugate(n, mirrored, n.dtype())}, {Writer::IntOf("axis", dim)});
  }
  return Scaled(n, PartOf(n, Dft(n, full, dim, true, false), 0), {n.id, 0}, dim, true);
}

/// To and from pairs in the last dim.
std::string WriteComplexBits(const Written& n) {
  const bool to_pairs = n.dtype() == RealOf(n.Type(0).dtype());
  if (!to_pairs && n.dtype() != ComplexOf(n.Type(0).dtype())) {
    Throw<NotSupported>(ErrorCode::kNotSupported, "to {}", NameOf(n.dtype()));
  }
  std::string sizes = n.w.SizesOf(n.id);
  if (!to_pairs) sizes = n.w.Emit("Concat", {sizes, n.w.Ints({2})}, {Writer::IntOf("axis", 0)});
  return n.w.Emit("Reshape", {n.In(0), sizes}, {Writer::IntOf("allowzero", 1)});
}

std::string WriteComplexReshape(const Written& n) {
  std::string sizes =
      n.w.Emit("Concat", {n.w.SizesOf(n.id), n.w.Ints({2})}, {Writer::IntOf("axis", 0)});
  return n.w.Emit("Reshape", {n.In(0), sizes}, {Writer::IntOf("allowzero", 1)});
}

std::string WriteComplexPermute(const Written& n) {
  std::vector<int64_t> dims = n.Ints("dims");
  dims.push_back(static_cast<int64_t>(dims.size()));
  return n.w.Emit("Transpose", {n.In(0)}, {Writer::IntsOf("perm", dims)});
}

struct Row {
  const char* op;
  std::string (*write)(const Written&);
};
constexpr Row kRows[] = {
    {"complex", [](const Written& n) { return Pairs(n, n.In(0), n.In(1)); }},
    {"real", [](const Written& n) { return PartOf(n, n.In(0), 0); }},
    {"imag", [](const Written& n) { return PartOf(n, n.In(0), 1); }},
    {"conj", [](const Written& n) { return Conjugate(n, n.In(0), RealOf(n.dtype())); }},
    {"fft_c2c", WriteC2C},
    {"fft_r2c", WriteR2C},
    {"fft_c2r", WriteC2R},
    {"bitcast", WriteComplexBits},
    {"reshape", WriteComplexReshape},
    {"permute", WriteComplexPermute},
};

/// Ops that are written alike for pairs, since their dims are counted from the front.
constexpr std::string_view kAlike[] = {"slice", "concat", "flip", "barrier"};

}  // namespace

std::optional<std::string> WriteComplex(const Written& n) {
  if (!HasComplex(n.w.graph(), n.node)) return std::nullopt;
  std::string_view op = n.node.op->name();
  for (const Row& row : kRows) {
    if (op == row.op) return row.write(n);
  }
  if (std::ranges::count(kAlike, op) > 0) return std::nullopt;
  Throw<NotSupported>(ErrorCode::kNotSupported, "of complex numbers");
}

}  // namespace hammock::onnx
