#pragma once
/// File descriptors.

#include <unistd.h>

#include <string_view>
#include <utility>

namespace hammock {

/// A descriptor that is closed at the end, if it is one.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;
};

/// Writes all bytes, however many calls that takes; false on an error, which is in errno.
bool WriteAll(int file, std::string_view bytes);

}  // namespace hammock
