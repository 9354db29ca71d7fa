/// Ends with code 3 while a device has work and data.
///   exit_program DEVICE

#include <hammock/hammock.h>

#include <chrono>
#include <thread>

using namespace hammock;

int main(int, char** argv) {
  const Device device(argv[1]);
  static Tensor kept = from_host(HostTensor::From<float>({1, 2}, {2}), device);
  std::thread([] { (kept + kept).host(); }).detach();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return 3;
}
