#include "case.h"

#include <fstream>

#include "base/throw.h"

namespace hammock::golden {
namespace {

DType ParseDType(const Json& json) {
  std::string name = json.get<std::string>();
  std::optional<DType> dtype = DTypeFromName(name);
  if (!dtype) Throw(ErrorCode::kParse, "unknown dtype '{}'", name);
  return *dtype;
}

Dims ParseDims(const Json& json) { return Dims(json.get<std::vector<int64_t>>()); }

Shape ParseShape(const Json& json) {
  return Shape(ParseDType(json.at("dtype")), ParseDims(json.at("shape")));
}

Input ParseInput(const Json& json) {
  Input input;
  input.shape = ParseShape(json);
  if (json.contains("gen")) {
    const Json& gen = json.at("gen");
    if (gen.at("kind") != "weyl") {
      Throw(ErrorCode::kParse, "unknown generator '{}'", gen.at("kind").dump());
    }
    input.weyl = WeylSequence{gen.at("n"), gen.at("scale"), gen.at("shift")};
  } else {
    input.key = json.at("key");
  }
  if (json.contains("view")) {
    const Json& view = json.at("view");
    input.view =
        StridedView{ParseDims(view.at("shape")), ParseDims(view.at("stride")), view.at("offset")};
  }
  input.requires_grad = json.value("requires_grad", false);
  return input;
}

std::vector<std::string> ParseKeys(const Json& json) {
  std::vector<std::string> keys;
  for (const Json& key : json) keys.push_back(key.is_null() ? "" : key.get<std::string>());
  return keys;
}

Step ParseStep(const Json& json) {
  Step step{json.at(0), json.at(1), json.at(2), std::nullopt};
  if (!json.at(3).is_null()) step.slot = json.at(3).get<int64_t>();
  return step;
}

Case ParseCase(const Json& json) {
  Case result;
  result.id = json.at("id");
  result.op = json.at("op");
  for (const Json& input : json.at("inputs")) result.inputs.push_back(ParseInput(input));
  if (json.contains("steps")) {
    for (const Json& step : json.at("steps")) result.steps.push_back(ParseStep(step));
    result.result = json.at("result").get<std::vector<int64_t>>();
  } else {
    result.steps.push_back({json.at("fn"), json.at("args"), json.at("kwargs"), std::nullopt});
  }
  result.must_raise = json.contains("error");
  if (json.contains("grads")) {
    result.cotangents = ParseKeys(json.at("cot"));
    result.gradients = ParseKeys(json.at("grads"));
  }
  auto error = [&](const char* of) {
    if (!json.contains("f64") || !json.at("f64").contains(of)) return 0.0;
    const Json& absolute = json.at("f64").at(of).at(0);
    return absolute.is_number() ? absolute.get<double>() : 0.0;
  };
  result.output_error = error("out");
  result.gradient_error = error("grad");
  if (result.must_raise) return result;
  for (const Json& output : json.at("outputs")) {
    result.outputs.push_back({ParseShape(output), output.at("key")});
  }
  return result;
}

/// Python's json writes NaN and Infinity, which JSON does not have; they stand only in error
/// bounds, where they mean nothing.
std::string WithoutPythonNumbers(std::string line) {
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && quoted) {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (line.compare(i, word.size(), word) == 0) line.replace(i, word.size(), "null");
      }
    }
  }
  return line;
}

}  // namespace

std::vector<Case> ReadCases(const std::string& dir) {
  std::string path = dir + "/manifest.jsonl";
  std::ifstream in(path);
  if (!in) Throw(ErrorCode::kParse, "{}: cannot be opened", path);
  std::vector<Case> cases;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    try {
      cases.push_back(ParseCase(Json::parse(WithoutPythonNumbers(line))));
    } catch (const std::exception& error) {
      Throw(ErrorCode::kParse, "{}:{}: {}", path, number, error.what());
    }
  }
  return cases;
}

}  // namespace hammock::golden
