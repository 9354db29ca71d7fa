#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>

#include "onnx/operators/families.h"
#include "onnx/program.h"

namespace hammock::onnx {
namespace {

Values StringConcat(Call& c) {
  const Strings &a = c.Texts(0), &b = c.Texts(1);
  Dims sizes = broadcast_shapes({a.sizes, b.sizes});
  Shape shape(DType::kBool, sizes);
  // Positions in an operand that is broadcast.
  auto at = [&](const Strings& from, int64_t flat) -> const std::string& {
    int64_t position = 0, stride = 1;
    for (int i = sizes.size(), k = from.sizes.size(); i-- > 0 && k-- > 0;) {
      int64_t index = flat % sizes[i];
      flat /= sizes[i];
      if (from.sizes[k] > 1) position += index * stride;
      stride *= from.sizes[k];
    }
    return from.elements.at(static_cast<size_t>(position));
  };
  std::vector<std::string> joined;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    c.run().SpendText(at(a, i).size() + at(b, i).size());
    joined.push_back(at(a, i) + at(b, i));
  }
  return {Value::Text(sizes, std::move(joined))};
}

std::vector<std::string> SplitText(const std::string& text, const std::string& delimiter,
                                   int64_t most) {
  std::vector<std::string> parts;
  size_t at = 0;
  if (!delimiter.empty()) {
    while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
      size_t found = text.find(delimiter, at);
      if (found == std::string::npos) break;
      parts.push_back(text.substr(at, found - at));
      at = found + delimiter.size();
    }
    parts.push_back(text.substr(at));
    return text.empty() ? std::vector<std::string>() : parts;
  }
  constexpr const char* kSpace = " \t\n\r\f\v";
  for (;;) {
    size_t start = text.find_first_not_of(kSpace, at);
    if (start == std::string::npos) return parts;
    bool last = most >= 0 && static_cast<int64_t>(parts.size()) == most;
    size_t end = last ? std::string::npos : text.find_first_of(kSpace, start);
    if (end == std::string::npos) end = last ? text.find_last_not_of(kSpace) + 1 : text.size();
    parts.push_back(text.substr(start, end - start));
    if (last) return parts;
    at = end;
  }
}

Values StringSplit(Call& c) {
  const Strings& texts = c.Texts(0);
  std::vector<std::vector<std::string>> all;
  std::vector<int64_t> counts;
  size_t width = 0;
  for (const std::string& text : texts.elements) {
    all.push_back(SplitText(text, c.Text("delimiter"), c.Int("maxsplit", -1)));
    counts.push_back(static_cast<int64_t>(all.back().size()));
    width = std::max(width, all.back().size());
  }
  std::vector<std::string> elements;
  for (std::vector<std::string>& parts : all) {
    parts.resize(width);
    for (const std::string& part : parts) c.run().SpendText(part.size());
    elements.insert(elements.end(), parts.begin(), parts.end());
  }
  Dims sizes = texts.sizes;
  sizes.push_back(static_cast<int64_t>(width));
  return {Value::Text(sizes, std::move(elements)),
          Value::Known(HostTensor::From(counts, texts.sizes))};
}

/// ASCII letters; others stay.
std::string InCase(std::string text, const std::string& action) {
  if (action == "NONE") return text;
  bool upper = action == "UPPER";
  for (char& letter : text) {
    if (letter >= 'a' && letter <= 'z' && upper) letter = static_cast<char>(letter - 32);
    if (letter >= 'A' && letter <= 'Z' && !upper) letter = static_cast<char>(letter + 32);
  }
  return text;
}

Values StringNormalizer(Call& c) {
  const Strings& texts = c.Texts(0);
  bool exact = c.Int("is_case_sensitive", 0);
  std::vector<std::string> stops = c.TextList("stopwords"), kept;
  auto form = [&](const std::string& text) { return exact ? text : InCase(text, "LOWER"); };
  for (std::string& stop : stops) stop = form(stop);
  for (const std::string& text : texts.elements) {
    if (std::ranges::find(stops, form(text)) != stops.end()) continue;
    kept.push_back(InCase(text, c.Text("case_change_action", "NONE")));
  }
  if (kept.empty()) kept.emplace_back();
  auto count = static_cast<int64_t>(kept.size());
  return {Value::Text(texts.sizes.size() == 2 ? Dims{1, count} : Dims(count), std::move(kept))};
}

/// No less than the states of a pattern's automaton: as if each repetition were inside of the
/// others.
int64_t StatesOf(const std::string& pattern, int64_t most) {
  auto states = static_cast<int64_t>(pattern.size());
  for (size_t at = 0; at < pattern.size() && states <= most; ++at) {
    if (pattern[at] != '{' && pattern[at] != ',') continue;
    const int64_t count = std::strtol(pattern.c_str() + at + 1, nullptr, 10);  // or its largest
    states *= std::clamp<int64_t>(count, 1, most);
  }
  return states;
}

#ifdef __GLIBCXX__
/// All states at once instead of backtracking, which takes exponential time and a frame of the
/// stack for each letter.
constexpr auto kSteadyMatching = std::regex_constants::__polynomial;
#else
constexpr std::regex_constants::syntax_option_type kSteadyMatching{};
#endif

Values RegexFullMatch(Call& c) {
  constexpr int64_t kMostStates = 4096, kStatesOfStep = 1024;
  const Strings& texts = c.Texts(0);
  const std::string text = c.Text("pattern");
  const int64_t states = StatesOf(text, kMostStates);
  if (states > kMostStates) {
    c.Fail("pattern '{}...' may have {} states, at most {} are matched", text.substr(0, 20), states,
           kMostStates);
  }
  HostTensor matches(Shape(DType::kBool, texts.sizes));
  try {
    std::regex pattern(text, std::regex::ECMAScript | std::regex::nosubs | kSteadyMatching);
    for (size_t i = 0; i < texts.elements.size(); ++i) {
      c.run().Spend(static_cast<int64_t>(texts.elements[i].size()) * states / kStatesOfStep);
      matches.mutable_values<bool>()[i] = std::regex_match(texts.elements[i], pattern);
    }
  } catch (const std::regex_error& error) {
    c.Fail("pattern '{}': {}", text, error.what());
  }
  return {Value::Known(matches)};
}

/// Counts of n-grams, of which the elements may lie apart.
Values TfIdfVectorizer(Call& c) {
  std::vector<std::string> words;
  Dims sizes;
  if (c.At(0).kind == Value::Kind::kStrings) {
    words = c.Texts(0).elements;
    sizes = c.Texts(0).sizes;
  } else {
    HostTensor host = c.Host(0);
    sizes = host.shape().sizes();
    for (int64_t i = 0; i < host.numel(); ++i) words.push_back(std::to_string(host.at(i).ToInt()));
  }
  std::vector<std::string> pool = c.TextList("pool_strings");
  for (int64_t number : c.IntList("pool_int64s")) pool.push_back(std::to_string(number));
  std::vector<int64_t> starts = c.IntList("ngram_counts"), columns = c.IntList("ngram_indexes");
  std::vector<float> weights = c.FloatList("weights");
  std::string mode = c.Text("mode", "TF");
  int64_t skips = c.Int("max_skip_count", 0);
  int64_t shortest = std::max<int64_t>(c.Int("min_gram_length", 1), 1);
  int64_t longest = std::min(c.Int("max_gram_length", 1), static_cast<int64_t>(starts.size()));
  std::map<std::vector<std::string>, size_t> grams;
  size_t number = 0;
  for (size_t n = 1; n <= starts.size(); ++n) {
    auto at = static_cast<size_t>(starts[n - 1]);
    size_t end = n < starts.size() ? static_cast<size_t>(starts[n]) : pool.size();
    if (at > end || end > pool.size()) c.Fail("ngram_counts do not fit the pool");
    for (; at + n <= end; at += n) {
      grams[{pool.begin() + static_cast<long>(at), pool.begin() + static_cast<long>(at + n)}] =
          number++;
    }
  }
  if (number > columns.size()) c.Fail("{} n-grams and {} indexes", number, columns.size());
  constexpr int64_t kMostCounts = 1 << 24;
  int64_t width = 0;
  for (int64_t column : columns) {
    if (column < 0 || column >= kMostCounts) c.Fail("an index of {}", column);
    width = std::max(width, column + 1);
  }
  bool rows = sizes.size() == 2;
  int64_t count = rows ? sizes[0] : 1, length = sizes.empty() ? 1 : sizes[sizes.size() - 1];
  if (count > 0 && width > kMostCounts / count) c.Fail("{} rows of {} counts", count, width);
  skips = std::clamp<int64_t>(skips, 0, length);
  std::vector<float> result(static_cast<size_t>(count * width), 0.0f);
  for (int64_t row = 0; row < count; ++row) {
    std::vector<float> found(number, 0.0f);
    for (int64_t n = shortest; n <= longest; ++n) {
      for (int64_t step = 1; step <= (n == 1 ? 1 : skips + 1); ++step) {
        for (int64_t first = 0; first + (n - 1) * step < length; ++first) {
          std::vector<std::string> gram;
          for (int64_t k = 0; k < n; ++k) {
            gram.push_back(words[static_cast<size_t>(row * length + first + k * step)]);
          }
          if (auto entry = grams.find(gram); entry != grams.end()) found[entry->second] += 1;
        }
      }
    }
    for (size_t i = 0; i < number; ++i) {
      float value = mode == "IDF" ? std::min(found[i], 1.0f) : found[i];
      if (mode != "TF" && i < weights.size()) value *= weights[i];
      result[static_cast<size_t>(row * width + columns[i])] = value;
    }
  }
  return {Value::Known(HostTensor::From(result, rows ? Dims{count, width} : Dims(width)))};
}

/// As ONNX Runtime prints numbers.
std::string TextOf(const Scalar& number, DType dtype) {
  if (!IsFloat(dtype)) return std::to_string(number.ToInt());
  double value = number.ToDouble();
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  return dtype == DType::kF64 ? fmt::format("{:.17g}", value) : fmt::format("{:.8g}", value);
}

double NumberOf(const Call& c, const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);  // knows INF and NaN in any case
  if (text.empty() || end != text.c_str() + text.size()) c.Fail("'{}' is no number", text);
  return value;
}

}  // namespace

Value CastOfText(const Call& c) {
  auto element = static_cast<int32_t>(c.Int("to", 0));
  if (c.At(0).kind == Value::Kind::kStrings) {
    const Strings& texts = c.Texts(0);
    if (element == format::kString) return c.At(0);
    HostTensor numbers(Shape(DTypeOfElement(element), texts.sizes));
    for (size_t i = 0; i < texts.elements.size(); ++i) {
      Scalar number(NumberOf(c, texts.elements[i]));
      numbers.set(static_cast<int64_t>(i), number.To(numbers.dtype()));
    }
    return Value::Known(numbers);
  }
  HostTensor host = c.Host(0);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < host.numel(); ++i) {
    texts.push_back(TextOf(host.at(i), host.dtype()));
    c.run().SpendText(texts.back().size());
  }
  return Value::Text(host.shape().sizes(), std::move(texts));
}

namespace {

constexpr Operator kRows[] = {
    {"RegexFullMatch", 20, kNewestOpset, RegexFullMatch, Needs::kScope},
    {"StringConcat", 20, kNewestOpset, StringConcat, Needs::kScope},
    {"StringNormalizer", 10, kNewestOpset, StringNormalizer, Needs::kScope},
    {"StringSplit", 20, kNewestOpset, StringSplit, Needs::kScope},
    {"TfIdfVectorizer", 9, kNewestOpset, TfIdfVectorizer, Needs::kScope},
};

}  // namespace

std::span<const Operator> TextOperators() { return kRows; }

}  // namespace hammock::onnx
