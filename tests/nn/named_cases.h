#pragma once
/// Tables of modules by the names that PyTorch's recorded results have.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hammock/nn.h"
#include "nn/pytorch_values.h"

namespace hammock::nn {

/// A module, or none, and how it is called.
struct Case {
  ModulePtr module;
  std::function<Tensors(const Tensors&)> run;
};

/// An entry of a table; makers are plain functions, which the compiler takes quickly.
struct NamedCase {
  const char* name;
  Case (*make)();
};
using Cases = std::vector<NamedCase>;

inline std::map<std::string, Case (*)()> ByName(const Cases& cases) {
  std::map<std::string, Case (*)()> makers;
  for (const NamedCase& each : cases) makers.emplace(each.name, each.make);
  return makers;
}

}  // namespace hammock::nn
