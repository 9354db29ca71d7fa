#include <hammock/error.h>

#include <iostream>

int main() {
  try {
    throw hammock::ValueError(hammock::ErrorCode::kValue, "an error with a code");
  } catch (const hammock::Error& error) {
    std::cout << error.what() << "\n";
    return error.code() == hammock::ErrorCode::kValue ? 0 : 1;
  }
}
