#pragma once
/// Errors of Hammock as status codes of plugin.h, and back.

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "hammock/error.h"
#include "hammock/plugin.h"

namespace hammock::plugins {

/// The part of a struct of the other side that both sides know, zero behind; none where it ends
/// before the `least` bytes that its first version had.
template <class T>
std::optional<T> KnownPart(const T* given, size_t least) {
  if (!given || given->struct_size < least) return std::nullopt;
  T known = {};
  std::memcpy(&known, given, std::min<size_t>(given->struct_size, sizeof(T)));
  return known;
}
/// The size of a struct whose last field is this one.
#define HAMMOCK_SIZE_UP_TO(type, field) (offsetof(type, field) + sizeof(type::field))

/// Values that callbacks of a plug-in add. An exception must not cross C: it stays here until the
/// call has returned.
template <class T>
class Collected {
 public:
  Collected() = default;
  explicit Collected(T value) : value_(std::move(value)) {}
  template <class F>
  void Try(F&& add) noexcept {
    try {
      if (!thrown_) add(value_);
    } catch (...) {
      thrown_ = std::current_exception();
    }
  }
  void Check() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }
  T& value() { return value_; }

 private:
  T value_;
  std::exception_ptr thrown_;
};

/// Appends what is written.
HammockWriter Into(Collected<std::string>& text);

/// The message that a call of a plug-in wrote about its failure. Neither copied nor moved.
class ErrorText {
 public:
  ErrorText() = default;
  ErrorText(const ErrorText&) = delete;
  ErrorText& operator=(const ErrorText&) = delete;

  HammockError* c() { return &c_; }
  int32_t node() const { return c_.node; }
  const std::string& text() const { return text_; }
  const std::string& op() const { return op_; }

 private:
  static HammockWriter Into(std::string& text) { return {&text, Append}; }
  /// A text for which there is no memory is left out; the status remains.
  static void Append(void* text, const void* bytes, uint64_t size) noexcept;

  std::string text_, op_;
  HammockError c_ = {sizeof(HammockError), -1, Into(text_), Into(op_)};
};

/// An Error of the class that fits the status. A node makes it a lazy::ExecutionError.
std::shared_ptr<Error> ErrorOf(HammockStatus status, const std::string& text, const std::string& op,
                               int32_t node);

/// The status of an error, whose text, op and node are written to `error`.
HammockStatus WriteError(const Error& thrown, HammockError* error) noexcept;
/// The same for the exception in flight.
HammockStatus WriteCurrentError(HammockError* error) noexcept;

}  // namespace hammock::plugins
