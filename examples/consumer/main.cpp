// A program of another project: it sees the installed headers and the library, nothing else.
#include <hammock/config.h>
#include <hammock/error.h>
#include <hammock/ir/hash.h>
#include <hammock/metrics.h>

#include <iostream>

int main() {
  using namespace hammock;
  config::Set<config::kMaxAsyncQueue>(2);
  metrics::GetCounter("consumer.runs").Add(config::Get<config::kMaxAsyncQueue>());
  std::cout << metrics::Report() << ToString(HashString("consumer")) << "\n";
  try {
    config::Set("max_async_queu", "3");
  } catch (const ValueError& error) {
    std::cout << error.what() << "\n";
    return metrics::CounterValue("consumer.runs") == 2 ? 0 : 1;
  }
  return 1;
}
