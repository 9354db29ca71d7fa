// Runs a repro file; succeeds if its first tensor has the given values.

#include <cstdlib>
#include <iostream>

#include "hammock/hammock.h"
#include "hammock/repro.h"

int main(int argc, char** argv) {
  auto values = hammock::RunRepro(argv[1], "reference").at(0).to_vector<float>();
  if (values.size() != static_cast<size_t>(argc - 2)) return 1;
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != static_cast<float>(std::atof(argv[i + 2]))) return 1;
  }
  return 0;
}
