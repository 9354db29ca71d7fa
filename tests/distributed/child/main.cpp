#include "scenarios.h"

using namespace hammock::testing;

int main(int, char** argv) {
  Scenarios scenarios = CollectivesScenarios();
  scenarios.merge(DivergenceScenarios());
  scenarios.merge(FaultsScenarios());
  scenarios.merge(DevicesScenarios());
  return RunScenario(scenarios, argv[1]);
}
