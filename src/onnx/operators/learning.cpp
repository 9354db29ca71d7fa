#include <algorithm>
#include <limits>
#include <map>

#include "onnx/file.h"
#include "onnx/operators/learning.h"
#include "onnx/program.h"

namespace hammock::onnx {
namespace {

Values Binarizer(Call& c) {
  Tensor x = c[0];
  return {(x > c.Float("threshold", 0)).to(x.dtype())};
}

Values ArrayFeatureExtractor(Call& c) {
  Tensor x = c[0], index = c[1].reshape({-1}).to(DType::kI64);
  if (x.dim() == 1) x = x.unsqueeze(0);
  return {index_select(x, -1, index)};
}

Values Scaler(Call& c) {
  Tensor x = c[0].to(DType::kF32);
  auto row = [&](const char* name) {
    std::vector<float> values = c.FloatList(name);
    auto count = static_cast<int64_t>(values.size());
    return VectorOf(c, values, count == 1 ? Dims() : Dims(count));
  };
  if (c.HasAttribute("offset")) x = x - row("offset");
  if (c.HasAttribute("scale")) x = x * row("scale");
  return {x};
}

Values Normalizer(Call& c) {
  Tensor x = c[0].to(DType::kF32);
  std::string norm = c.Text("norm", "MAX");
  Tensor size = norm == "MAX"  ? amax(abs(x), {-1}, true)
                : norm == "L1" ? sum(abs(x), {-1}, true)
                               : sqrt(sum(x * x, {-1}, true));
  return {where(eq(size, 0), x, x / size)};
}

}  // namespace

Tensor PostTransformed(const Call& c, const Tensor& x) {
  std::string transform = c.Text("post_transform", "NONE");
  if (transform == "NONE") return x;
  if (transform == "SOFTMAX") return softmax(x, -1);
  if (transform == "LOGISTIC") return sigmoid(x);
  if (transform == "SOFTMAX_ZERO") {
    return where(eq(x, 0), zeros_like(x), softmax(x, -1));
  }
  c.Unsupported("post_transform {} is not supported", transform);
}

Value LabelsAt(const Call& c, const char* ints, const Tensor& index) {
  std::vector<int64_t> labels = c.IntList(ints);
  if (!labels.empty()) return index_select(VectorOf(c, labels), 0, index);
  std::vector<std::string> names = c.TextList("classlabels_strings");
  HostTensor host = c.run().HostOf(index).To(DType::kI64);
  std::vector<std::string> texts;
  for (int64_t at : host.values<int64_t>()) texts.push_back(names.at(static_cast<size_t>(at)));
  return Value::Text(host.shape().sizes(), std::move(texts));
}

namespace {

Values LinearRegressor(Call& c) {
  Tensor x = c[0].to(DType::kF32);
  int64_t targets = c.Int("targets", 1), features = x.size(-1);
  Tensor weights = VectorOf(c, c.FloatList("coefficients"), {targets, features});
  Tensor y = matmul(x, weights.t());
  if (c.HasAttribute("intercepts")) y = y + VectorOf(c, c.FloatList("intercepts"), {targets});
  return {PostTransformed(c, y)};
}

Values LinearClassifier(Call& c) {
  Tensor x = c[0].to(DType::kF32);
  int64_t features = x.size(-1);
  std::vector<float> coefficients = c.FloatList("coefficients");
  auto rows = static_cast<int64_t>(coefficients.size()) / std::max<int64_t>(features, 1);
  // A model may have coefficients of more features than it is given; ONNX Runtime takes the first.
  if (c.HasAttribute("intercepts")) {
    rows = std::min(rows, static_cast<int64_t>(c.FloatList("intercepts").size()));
  }
  coefficients.resize(static_cast<size_t>(rows * features));
  Tensor scores = matmul(x, VectorOf(c, coefficients, {rows, features}).t());
  if (c.HasAttribute("intercepts"))
    scores = scores + VectorOf(c, c.FloatList("intercepts"), {rows});
  Tensor index = rows == 1 ? (scores.squeeze(-1) > 0).to(DType::kI64) : argmax(scores, -1);
  if (rows == 1) {
    bool logistic = c.Text("post_transform", "NONE") == "LOGISTIC";
    Tensor one = logistic ? sigmoid(scores) : scores;
    return {LabelsAt(c, "classlabels_ints", index), cat({logistic ? 1 - one : -one, one}, -1)};
  }
  return {LabelsAt(c, "classlabels_ints", index), PostTransformed(c, scores)};
}

/// Classes as texts, and their positions; what is neither has a default.
Values LabelEncoderOfClasses(Call& c) {
  std::vector<std::string> classes = c.TextList("classes_strings");
  if (c.At(0).kind == Value::Kind::kStrings) {
    HostTensor mapped(Shape(DType::kI64, c.Texts(0).sizes));
    auto values = mapped.mutable_values<int64_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      auto found = std::ranges::find(classes, c.Texts(0).elements[i]);
      values[i] = found == classes.end() ? c.Int("default_int64", -1) : found - classes.begin();
    }
    return {Value::Known(mapped)};
  }
  std::vector<std::string> mapped;
  for (int64_t index : c.Ints(0)) {
    bool known = index >= 0 && index < static_cast<int64_t>(classes.size());
    mapped.push_back(known ? classes[static_cast<size_t>(index)]
                           : c.Text("default_string", "_Unused"));
  }
  return {Value::Text(c.Host(0).shape().sizes(), std::move(mapped))};
}

/// Keys and values as texts and numbers; the map runs on the host.
Values LabelEncoder(Call& c) {
  auto tensor_of = [&](const char* name) -> const format::Tensor* {
    const format::Attribute* found = c.Find(name);
    return found && !found->tensors.empty() ? &found->tensors[0] : nullptr;
  };
  auto numbers = [](format::Tensor tensor) { return TakeElements(tensor, ""); };
  std::vector<std::string> keys;
  auto text_of = [](const Scalar& number) { return number.To(DType::kF64).to_string(); };
  if (c.HasAttribute("keys_strings")) keys = c.TextList("keys_strings");
  for (int64_t key : c.IntList("keys_int64s")) keys.push_back(text_of(Scalar(key)));
  for (float key : c.FloatList("keys_floats")) keys.push_back(text_of(Scalar(key)));
  if (const format::Tensor* tensor = tensor_of("keys_tensor")) {
    keys = tensor->strings;
    if (tensor->element != format::kString) {
      HostTensor host = numbers(*tensor);
      for (int64_t i = 0; i < host.numel(); ++i) keys.push_back(text_of(host.at(i)));
    }
  }
  std::vector<std::string> given;
  Dims sizes;
  if (c.At(0).kind == Value::Kind::kStrings) {
    given = c.Texts(0).elements;
    sizes = c.Texts(0).sizes;
  } else {
    HostTensor host = c.Host(0);
    sizes = host.shape().sizes();
    for (int64_t i = 0; i < host.numel(); ++i) given.push_back(text_of(host.at(i)));
  }
  std::map<std::string, size_t> position;
  for (size_t i = 0; i < keys.size(); ++i) position.emplace(keys[i], i);
  auto found = [&](const std::string& text) -> std::optional<size_t> {
    auto at = position.find(text);
    if (at == position.end()) return std::nullopt;
    return at->second;
  };
  const format::Tensor* tensor = tensor_of("values_tensor");
  if (c.HasAttribute("values_strings") || (tensor && tensor->element == format::kString)) {
    std::vector<std::string> values = tensor ? tensor->strings : c.TextList("values_strings");
    const format::Tensor* other = tensor_of("default_tensor");
    std::string otherwise =
        other && !other->strings.empty() ? other->strings[0] : c.Text("default_string", "_Unused");
    std::vector<std::string> mapped;
    for (const std::string& text : given) {
      std::optional<size_t> at = found(text);
      mapped.push_back(at ? values.at(*at) : otherwise);
    }
    return {Value::Text(sizes, std::move(mapped))};
  }
  HostTensor values;
  Scalar otherwise;
  if (tensor) {
    values = numbers(*tensor);
    otherwise = Scalar(IsFloat(values.dtype()) ? -0.0 : -1.0).To(values.dtype());
    if (const format::Tensor* other = tensor_of("default_tensor"))
      otherwise = numbers(*other).at(0);
  } else if (c.HasAttribute("values_int64s")) {
    std::vector<int64_t> list = c.IntList("values_int64s");
    values = HostTensor::From(list, Dims(static_cast<int64_t>(list.size())));
    otherwise = Scalar(c.Int("default_int64", -1));
  } else {
    std::vector<float> list = c.FloatList("values_floats");
    values = HostTensor::From(list, Dims(static_cast<int64_t>(list.size())));
    otherwise = Scalar(c.Float("default_float", -0.0));
  }
  HostTensor mapped(Shape(values.dtype(), sizes));
  for (size_t i = 0; i < given.size(); ++i) {
    std::optional<size_t> at = found(given[i]);
    if (at && static_cast<int64_t>(*at) >= values.numel()) c.Fail("fewer values than keys");
    mapped.set(static_cast<int64_t>(i), at ? values.at(static_cast<int64_t>(*at)) : otherwise);
  }
  return {Value::Known(mapped)};
}

Values OneHotEncoder(Call& c) {
  std::vector<int64_t> classes = c.IntList("cats_int64s");
  if (c.At(0).kind == Value::Kind::kStrings) {
    std::vector<std::string> names = c.TextList("cats_strings");
    const Strings& texts = c.Texts(0);
    auto count = static_cast<int64_t>(names.size());
    Dims sizes = texts.sizes;
    sizes.push_back(count);
    CheckListed(c, Shape(DType::kF32, sizes).numel());
    HostTensor hot = HostTensor(Shape(DType::kF32, sizes));
    auto values = hot.mutable_values<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = texts.elements[i / names.size()] == names[i % names.size()] ? 1.0f : 0.0f;
    }
    return {Value::Known(hot)};
  }
  return {eq(c[0].to(DType::kI64).unsqueeze(-1), VectorOf(c, classes)).to(DType::kF32)};
}

// ---- trees: all samples walk all trees at once, a level a step

struct Nodes {
  std::vector<int64_t> feature, yes, no, mode;  // children are nodes; a leaf is its own
  std::vector<float> value;
  std::vector<int64_t> missing;  // whether NaN goes to `yes`
  std::vector<int64_t> roots;
};

int64_t DepthOf(const Call& c, const Nodes& nodes) {
  std::vector<int64_t> level = nodes.roots;
  int64_t depth = 0;
  for (; !level.empty(); ++depth) {
    if (depth > static_cast<int64_t>(nodes.yes.size())) c.Fail("the trees have a cycle");
    std::vector<int64_t> next;
    for (int64_t node : level) {
      auto at = static_cast<size_t>(node);
      if (nodes.yes.at(at) != node) next.insert(next.end(), {nodes.yes[at], nodes.no.at(at)});
    }
    std::ranges::sort(next);
    next.erase(std::ranges::unique(next).begin(), next.end());
    level = std::move(next);
  }
  return depth;
}

/// Modes: 0 <=, 1 <, 2 >=, 3 >, 4 ==, 5 !=.
int64_t ModeOf(const Call& c, const std::string& name) {
  constexpr const char* kNames[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                    "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<int64_t>(i);
  }
  c.Fail("node mode '{}'", name);
}

/// The leaf of each sample in each tree: (samples, trees).
Tensor Leaves(const Call& c, const Nodes& nodes, const Tensor& x) {
  auto count = static_cast<int64_t>(nodes.roots.size());
  auto column = [&](const std::vector<int64_t>& values) { return VectorOf(c, values); };
  Tensor feature = column(nodes.feature), yes = column(nodes.yes), no = column(nodes.no);
  Tensor mode = column(nodes.mode), missing = column(nodes.missing);
  Tensor value = VectorOf(c, nodes.value, Dims(static_cast<int64_t>(nodes.value.size())));
  Tensor at = broadcast_to(column(nodes.roots).unsqueeze(0), {x.size(0), count});
  auto pick = [&](const Tensor& from) {
    return index_select(from, 0, at.reshape({-1})).reshape(at.sizes());
  };
  bool one_mode = std::ranges::all_of(nodes.mode, [](int64_t m) { return m == 0; });
  for (int64_t step = DepthOf(c, nodes); step > 1; --step) {
    Tensor seen = gather(x, 1, pick(feature)), limit = pick(value);
    Tensor go = seen <= limit;
    if (!one_mode) {
      Tensor kind = pick(mode);
      go = where(eq(kind, 1), seen < limit, go);
      go = where(eq(kind, 2), seen >= limit, go);
      go = where(eq(kind, 3), seen > limit, go);
      go = where(eq(kind, 4), eq(seen, limit), go);
      go = where(eq(kind, 5), ne(seen, limit), go);
    }
    go = logical_or(go, logical_and(isnan(seen), pick(missing) != 0));
    at = where(go, pick(yes), pick(no));
  }
  return at;
}

/// The trees of opsets 1 to 4: nodes by (tree, id).
Nodes OldNodes(const Call& c, std::map<std::pair<int64_t, int64_t>, int64_t>& index_of) {
  std::vector<int64_t> trees = c.IntList("nodes_treeids"), ids = c.IntList("nodes_nodeids");
  std::vector<int64_t> yes = c.IntList("nodes_truenodeids"), no = c.IntList("nodes_falsenodeids");
  std::vector<std::string> modes = c.TextList("nodes_modes");
  Nodes nodes;
  nodes.feature = c.IntList("nodes_featureids");
  nodes.value = c.FloatList("nodes_values");
  nodes.missing = c.IntList("nodes_missing_value_tracks_true");
  size_t count = trees.size();
  nodes.missing.resize(count, 0);
  if (ids.size() != count || yes.size() != count || no.size() != count || modes.size() != count ||
      nodes.feature.size() != count || nodes.value.size() != count) {
    c.Fail("the lists of nodes differ in length");
  }
  for (size_t i = 0; i < count; ++i) {
    auto [entry, added] = index_of.emplace(std::pair(trees[i], ids[i]), static_cast<int64_t>(i));
    if (!added) c.Fail("tree {} has two nodes {}", trees[i], ids[i]);
    if (i == 0 || trees[i] != trees[i - 1]) nodes.roots.push_back(static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < count; ++i) {
    auto own = static_cast<int64_t>(i);
    bool leaf = modes[i] == "LEAF";
    nodes.mode.push_back(leaf ? 0 : ModeOf(c, modes[i]));
    nodes.yes.push_back(leaf ? own : index_of.at({trees[i], yes[i]}));
    nodes.no.push_back(leaf ? own : index_of.at({trees[i], no[i]}));
  }
  return nodes;
}

/// (nodes, targets): what a leaf adds.
Tensor OldWeights(const Call& c, const std::string& prefix, int64_t targets, size_t count,
                  const std::map<std::pair<int64_t, int64_t>, int64_t>& index_of) {
  std::vector<int64_t> trees = c.IntList(prefix + "_treeids"), ids = c.IntList(prefix + "_nodeids");
  std::vector<int64_t> at = c.IntList(prefix + "_ids");
  std::vector<float> weights = c.FloatList(prefix + "_weights");
  CheckListed(c, targets);
  CheckListed(c, static_cast<int64_t>(count) * targets);
  std::vector<float> table(count * static_cast<size_t>(targets), 0.0f);
  for (size_t i = 0; i < trees.size(); ++i) {
    int64_t node = index_of.at({trees[i], ids.at(i)});
    if (at.at(i) < 0 || at[i] >= targets) c.Fail("target {} of {}", at[i], targets);
    table[static_cast<size_t>(node * targets + at[i])] += weights.at(i);
  }
  return VectorOf(c, table, {static_cast<int64_t>(count), targets});
}

Tensor Aggregated(const Call& c, const Tensor& votes) {  // (samples, trees, targets)
  std::string how = c.Text("aggregate_function", "SUM");
  if (how == "SUM") return sum(votes, {1});
  if (how == "AVERAGE") return mean(votes, {1});
  return how == "MIN" ? amin(votes, {1}) : amax(votes, {1});
}

Tensor Votes(const Tensor& leaves, const Tensor& table) {
  return index_select(table, 0, leaves.reshape({-1}))
      .reshape({leaves.size(0), leaves.size(1), table.size(1)});
}

Values TreeEnsembleRegressor(Call& c) {
  std::map<std::pair<int64_t, int64_t>, int64_t> index_of;
  Nodes nodes = OldNodes(c, index_of);
  int64_t targets = c.Int("n_targets", 1);
  Tensor table = OldWeights(c, "target", targets, nodes.yes.size(), index_of);
  Tensor y = Aggregated(c, Votes(Leaves(c, nodes, c[0].to(DType::kF32)), table));
  if (c.HasAttribute("base_values")) y = y + VectorOf(c, c.FloatList("base_values"), {targets});
  return {PostTransformed(c, y)};
}

Values TreeEnsembleClassifier(Call& c) {
  std::map<std::pair<int64_t, int64_t>, int64_t> index_of;
  Nodes nodes = OldNodes(c, index_of);
  auto classes = static_cast<int64_t>(
      std::max(c.IntList("classlabels_int64s").size(), c.TextList("classlabels_strings").size()));
  Tensor table = OldWeights(c, "class", classes, nodes.yes.size(), index_of);
  Tensor scores = sum(Votes(Leaves(c, nodes, c[0].to(DType::kF32)), table), {1});
  std::vector<int64_t> used = c.IntList("class_ids");
  bool binary =
      classes == 2 && std::ranges::all_of(used, [&](int64_t id) { return id == used[0]; });
  if (std::vector<float> base = c.FloatList("base_values"); !base.empty()) {
    // One of two classes has the only value.
    scores = scores + VectorOf(c, base, binary && base.size() == 1 ? Dims{1} : Dims{classes});
  }
  if (binary) {  // one score; the other class has the rest
    Tensor one = select(scores, 1, used.at(0));
    bool logistic = c.Text("post_transform", "NONE") == "LOGISTIC";
    Tensor index = (one > (logistic ? 0.0 : 0.5)).to(DType::kI64);
    Tensor share = logistic ? sigmoid(one) : one;
    return {LabelsAt(c, "classlabels_int64s", index), stack({1 - share, share}, -1)};
  }
  Value labels = LabelsAt(c, "classlabels_int64s", argmax(scores, -1));
  return {labels, PostTransformed(c, scores)};
}

HostTensor TensorAttribute(const Call& c, const char* name) {
  const format::Attribute* found = c.Find(name);
  if (!found || found->tensors.empty()) c.Fail("attribute '{}' must be a tensor", name);
  format::Tensor tensor = found->tensors[0];
  return TakeElements(tensor, "");
}

/// Opset 5: leaves have lists of their own; a set of values is a chain of nodes that compare equal.
Values TreeEnsemble(Call& c) {
  Tensor x = c[0];
  HostTensor splits = TensorAttribute(c, "nodes_splits").To(DType::kF32);
  HostTensor modes = TensorAttribute(c, "nodes_modes").To(DType::kI64);
  HostTensor weights = TensorAttribute(c, "leaf_weights").To(DType::kF32);
  std::vector<int64_t> features = c.IntList("nodes_featureids"), roots = c.IntList("tree_roots");
  std::vector<int64_t> yes = c.IntList("nodes_truenodeids"), no = c.IntList("nodes_falsenodeids");
  std::vector<int64_t> yes_leaf = c.IntList("nodes_trueleafs"),
                       no_leaf = c.IntList("nodes_falseleafs");
  std::vector<int64_t> targets = c.IntList("leaf_targetids");
  auto count = static_cast<int64_t>(features.size()), leaves = weights.numel();
  Nodes nodes;
  nodes.roots = roots;
  std::vector<std::pair<int64_t, std::vector<float>>> members;  // nodes with sets of values
  std::vector<float> sets;
  if (c.HasAttribute("membership_values")) {
    HostTensor list = TensorAttribute(c, "membership_values").To(DType::kF32);
    sets.assign(list.values<float>().begin(), list.values<float>().end());
  }
  size_t next_set = 0;
  // Nodes first, then leaves, then further members of sets.
  for (int64_t i = 0; i < count; ++i) {
    auto at = static_cast<size_t>(i);
    int64_t mode = modes.at(i).ToInt();
    std::vector<float> values{static_cast<float>(splits.at(i).ToDouble())};
    if (mode == 6) {
      values.clear();
      for (; next_set < sets.size() && !std::isnan(sets[next_set]); ++next_set)
        values.push_back(sets[next_set]);
      ++next_set;
      if (values.empty()) values.push_back(std::numeric_limits<float>::quiet_NaN());
    }
    nodes.feature.push_back(features[at]);
    nodes.mode.push_back(mode == 6 ? 4 : mode);
    nodes.value.push_back(values[0]);
    nodes.yes.push_back(yes_leaf.at(at) ? count + yes.at(at) : yes.at(at));
    nodes.no.push_back(no_leaf.at(at) ? count + no.at(at) : no.at(at));
    if (values.size() > 1) members.emplace_back(i, values);
  }
  for (int64_t i = 0; i < leaves; ++i) {
    nodes.feature.push_back(0);
    nodes.mode.push_back(0);
    nodes.value.push_back(0);
    nodes.yes.push_back(count + i);
    nodes.no.push_back(count + i);
  }
  for (auto& [node, values] : members) {
    auto at = static_cast<size_t>(node);
    int64_t otherwise = nodes.no[at];
    auto from = static_cast<int64_t>(node);
    for (size_t k = 1; k < values.size(); ++k) {
      auto added = static_cast<int64_t>(nodes.yes.size());
      nodes.no[static_cast<size_t>(from)] = added;
      nodes.feature.push_back(nodes.feature[at]);
      nodes.mode.push_back(4);
      nodes.value.push_back(values[k]);
      nodes.yes.push_back(nodes.yes[at]);
      nodes.no.push_back(otherwise);
      from = added;
    }
  }
  nodes.missing = c.IntList("nodes_missing_value_tracks_true");
  nodes.missing.resize(nodes.yes.size(), 0);
  int64_t wide = c.Int("n_targets", 1);
  CheckListed(c, wide);
  CheckListed(c, static_cast<int64_t>(nodes.yes.size()) * wide);
  std::vector<float> table(nodes.yes.size() * static_cast<size_t>(wide), 0.0f);
  for (int64_t i = 0; i < leaves; ++i) {
    int64_t target = targets.at(static_cast<size_t>(i));
    if (target < 0 || target >= wide) c.Fail("target {} of {}", target, wide);
    table[static_cast<size_t>((count + i) * wide + target)] =
        static_cast<float>(weights.at(i).ToDouble());
  }
  Tensor votes = Votes(Leaves(c, nodes, x.to(DType::kF32)),
                       VectorOf(c, table, {static_cast<int64_t>(nodes.yes.size()), wide}));
  int64_t how = c.Int("aggregate_function", 1);
  Tensor y = how == 0   ? mean(votes, {1})
             : how == 1 ? sum(votes, {1})
             : how == 2 ? amin(votes, {1})
                        : amax(votes, {1});
  return {y.to(x.dtype())};
}

constexpr Operator kRows[] = {
    {"ArrayFeatureExtractor", 1, kNewestLearning, ArrayFeatureExtractor, Needs::kNothing,
     kLearning},
    {"Binarizer", 1, kNewestLearning, Binarizer, Needs::kNothing, kLearning},
    {"LabelEncoder", 1, 1, LabelEncoderOfClasses, Needs::kScope, kLearning},
    {"LabelEncoder", 2, kNewestLearning, LabelEncoder, Needs::kScope, kLearning},
    {"LinearClassifier", 1, kNewestLearning, LinearClassifier, Needs::kNothing, kLearning},
    {"LinearRegressor", 1, kNewestLearning, LinearRegressor, Needs::kNothing, kLearning},
    {"Normalizer", 1, kNewestLearning, Normalizer, Needs::kNothing, kLearning},
    {"OneHotEncoder", 1, kNewestLearning, OneHotEncoder, Needs::kScope, kLearning},
    {"Scaler", 1, kNewestLearning, Scaler, Needs::kNothing, kLearning},
    {"TreeEnsemble", 5, kNewestLearning, TreeEnsemble, Needs::kNothing, kLearning},
    {"TreeEnsembleClassifier", 1, kNewestLearning, TreeEnsembleClassifier, Needs::kNothing,
     kLearning},
    {"TreeEnsembleRegressor", 1, kNewestLearning, TreeEnsembleRegressor, Needs::kNothing,
     kLearning},
};

}  // namespace

std::span<const Operator> LearningOperators() { return kRows; }

}  // namespace hammock::onnx
