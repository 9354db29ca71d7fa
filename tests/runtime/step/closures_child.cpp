// Returns from main while an asynchronous step closure has yet to read a tensor and write it to a
// file.

#include <chrono>
#include <fstream>
#include <thread>

#include "hammock/hammock.h"

int main(int, char** argv) {
  using namespace hammock;
  std::string path = argv[1];
  Tensor x = tensor({1.0, 2.0}, std::nullopt, "reference") * 3.0;
  add_step_closure(
      [path, x] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        auto values = (x + 0.0).to_vector<float>();
        std::ofstream(path) << values[0] << ' ' << values[1];
      },
      true);
  mark_step();
  return 0;
}
