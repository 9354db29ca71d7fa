// A buffer that is lent and then reused too early. Tests run with the option `check_borrowed`, so
// that such a mistake in a program that a test runs is found, and does not give wrong numbers.
#include <vector>

#include "check.h"

using namespace hammock;
using namespace trial;

int main() {
  Check(config::Get<config::kCheckBorrowed>(), "tests run with check_borrowed");
  std::vector<float> buffer = {1, 2, 3};
  Tensor lent = from_blob(buffer.data(), {3}, f32, BorrowedMemory([] {}));
  Tensor doubled = lent * 2;
  buffer[1] = 7;
  const std::string error = ErrorOf([&] { doubled.host(); });
  Check(Contains(error, "has changed since") && Contains(error, "borrowed.cpp:"), error);
  buffer[1] = 2;
  Check(doubled[1].item<float>() == 4, "what it was when it was lent");
  return Result();
}
