/// Features and maps of ai.onnx.ml. A map is a host value: its keys are texts, numbers as they are
/// printed.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "onnx/operators/learning.h"
#include "onnx/program.h"

namespace hammock::onnx {
namespace {

/// A map a row; ONNX's most written operator for the scores of a classifier.
Values ZipMap(Call& c) {
  Tensor x = c[0];
  if (x.dim() == 1) x = x.unsqueeze(0);
  std::vector<std::string> keys = c.TextList("classlabels_strings");
  for (int64_t key : c.IntList("classlabels_int64s")) keys.push_back(std::to_string(key));
  if (static_cast<int64_t>(keys.size()) != x.size(-1)) {
    c.Fail("{} labels for {}", keys.size(), x.shape().to_string());
  }
  Values rows;
  for (int64_t i = 0; i < x.size(0); ++i) rows.push_back(Value::Map(keys, select(x, 0, i)));
  return {Value::Sequence(std::move(rows))};
}

const Value& MapAt(const Call& c, size_t i) {
  const Value& value = c.At(i);
  if (value.kind != Value::Kind::kMap) c.Fail("input {} must be a map", i);
  return value;
}

/// The values of a map at the positions of its keys among `count`; the others are 0.
Tensor Placed(const Call& c, const Value& map, const std::map<std::string, int64_t>& position,
              int64_t count) {
  std::vector<int64_t> index;
  for (const std::string& key : map.strings->elements) {
    auto found = position.find(key);
    if (found == position.end()) c.Fail("the key '{}' has no position", key);
    index.push_back(found->second);
  }
  Tensor none = zeros({count}, map.tensor.dtype(), c.device());
  return scatter(none, 0, VectorOf(c, index), map.tensor).unsqueeze(0);
}

Values DictVectorizer(Call& c) {
  std::vector<std::string> keys = c.TextList("string_vocabulary");
  for (int64_t key : c.IntList("int64_vocabulary")) keys.push_back(std::to_string(key));
  std::map<std::string, int64_t> position;
  for (const std::string& key : keys) {
    position.emplace(key, static_cast<int64_t>(position.size()));
  }
  return {Placed(c, MapAt(c, 0), position, static_cast<int64_t>(position.size()))};
}

Values CastMap(Call& c) {
  const Value& map = MapAt(c, 0);
  std::vector<std::pair<int64_t, size_t>> keys;
  for (size_t i = 0; i < map.strings->elements.size(); ++i) {
    const std::string& text = map.strings->elements[i];
    int64_t key = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key);
    if (error != std::errc() || end != text.data() + text.size()) c.Fail("the key '{}'", text);
    keys.emplace_back(key, i);
  }
  std::ranges::sort(keys);
  bool sparse = c.Text("map_form", "DENSE") == "SPARSE";
  int64_t count = sparse ? c.Int("max_map", 1) : static_cast<int64_t>(keys.size());
  CheckListed(c, count);
  std::map<std::string, int64_t> position;
  for (const auto& [key, i] : keys) {
    int64_t at = sparse ? key : static_cast<int64_t>(position.size());
    if (at < 0 || at >= count) c.Fail("the key {} of {}", key, count);
    position.emplace(map.strings->elements[i], at);
  }
  Tensor y = Placed(c, map, position, count);
  std::string to = c.Text("cast_to", "TO_FLOAT");
  if (to == "TO_STRING") c.Unsupported("maps as strings");
  return {y.to(to == "TO_INT64" ? DType::kI64 : DType::kF32)};
}

/// Between the names and the numbers of categories, whichever is given.
Values CategoryMapper(Call& c) {
  std::vector<int64_t> numbers = c.IntList("cats_int64s");
  std::vector<std::string> names = c.TextList("cats_strings");
  if (names.size() != numbers.size())
    c.Fail("{} names of {} numbers", names.size(), numbers.size());
  if (c.At(0).kind == Value::Kind::kStrings) {
    std::map<std::string, int64_t> by_name;
    for (size_t i = 0; i < names.size(); ++i) by_name.emplace(names[i], numbers[i]);
    HostTensor mapped(Shape(DType::kI64, c.Texts(0).sizes));
    auto to = mapped.mutable_values<int64_t>();
    for (size_t i = 0; i < to.size(); ++i) {
      auto found = by_name.find(c.Texts(0).elements[i]);
      to[i] = found == by_name.end() ? c.Int("default_int64", -1) : found->second;
    }
    return {Value::Known(mapped)};
  }
  std::map<int64_t, std::string> by_number;
  for (size_t i = 0; i < names.size(); ++i) by_number.emplace(numbers[i], names[i]);
  HostTensor given = c.Host(0).To(DType::kI64);
  std::vector<std::string> mapped;
  for (int64_t number : given.values<int64_t>()) {
    auto found = by_number.find(number);
    mapped.push_back(found == by_number.end() ? c.Text("default_string", "_Unused")
                                              : found->second);
  }
  return {Value::Text(given.shape().sizes(), std::move(mapped))};
}

Values FeatureVectorizer(Call& c) {
  std::vector<Tensor> columns;
  for (const Tensor& given : c.Tensors()) {
    Tensor x = given.to(DType::kF32);
    if (x.dim() < 2) x = x.reshape({1, -1});
    columns.push_back(x.reshape({x.size(0), -1}));
  }
  return {cat(columns, 1)};
}

Values Imputer(Call& c) {
  Tensor x = c[0];
  Tensor fill;
  if (IsFloat(x.dtype())) {
    std::vector<float> values = c.FloatList("imputed_value_floats");
    fill = VectorOf(c, values, {static_cast<int64_t>(values.size())}).to(x.dtype());
    double replaced = c.Float("replaced_value_float", 0);
    return {where(std::isnan(replaced) ? isnan(x) : eq(x, replaced), fill, x)};
  }
  fill = VectorOf(c, c.IntList("imputed_value_int64s")).to(x.dtype());
  return {where(eq(x, c.Int("replaced_value_int64", 0)), fill, x)};
}

constexpr Operator kRows[] = {
    {"CastMap", 1, kNewestLearning, CastMap, Needs::kScope, kLearning},
    {"CategoryMapper", 1, kNewestLearning, CategoryMapper, Needs::kScope, kLearning},
    {"DictVectorizer", 1, kNewestLearning, DictVectorizer, Needs::kScope, kLearning},
    {"FeatureVectorizer", 1, kNewestLearning, FeatureVectorizer, Needs::kNothing, kLearning},
    {"Imputer", 1, kNewestLearning, Imputer, Needs::kNothing, kLearning},
    {"ZipMap", 1, kNewestLearning, ZipMap, Needs::kScope, kLearning},
};

}  // namespace

std::span<const Operator> MapOperators() { return kRows; }

}  // namespace hammock::onnx
