#pragma once
/// The cases of a suite: what a line of manifest.jsonl says.

#include <nlohmann/json.hpp>

#include <optional>
#include <string>
#include <vector>

#include "hammock/ir/shape.h"

namespace hammock::golden {

using Json = nlohmann::json;

/// An array that is computed instead of stored: x[i] = (frac(i * 2654435761 / 2^32) - shift) *
/// scale.
struct WeylSequence {
  int64_t count = 0;
  double scale = 1.0, shift = 0.0;
};

/// Sizes, strides and offset, in elements, of a view of a stored array.
struct StridedView {
  Dims sizes, strides;
  int64_t offset = 0;
};

struct Input {
  Shape shape;
  std::string key;  ///< array of the group's .npz, if `weyl` is absent
  std::optional<WeylSequence> weyl;
  std::optional<StridedView> view;
  bool requires_grad = false;
};

struct Output {
  Shape shape;
  std::string key;
};

/// One call of a program: slots are numbered, inputs first.
struct Step {
  std::string fn;
  Json args, kwargs;
  std::optional<int64_t> slot;  ///< where the result goes
};

struct Case {
  std::string id;
  std::string op;  ///< the group, whose arrays stand in data/<op>.npz
  std::vector<Input> inputs;
  std::vector<Step> steps;      ///< one for a plain call
  std::vector<int64_t> result;  ///< slots to compare; empty: what the only step returns
  std::vector<Output> outputs;
  bool must_raise = false;
  /// Arrays of the gradients that arrive at the outputs and of those at the inputs; empty names
  /// where there is none.
  std::vector<std::string> cotangents, gradients;
  /// Largest distance of PyTorch's own results and gradients from those it computes in float64.
  double output_error = 0, gradient_error = 0;
  bool has_gradients() const { return !gradients.empty(); }
};

/// All cases of DIR/manifest.jsonl, in order. ValueError (kParse) names the line that is wrong.
std::vector<Case> ReadCases(const std::string& dir);

}  // namespace hammock::golden
