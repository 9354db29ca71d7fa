#pragma once
/// Errors of Hammock as status codes of plugin.h, and back.

#include <memory>
#include <string>

#include "hammock/error.h"
#include "hammock/plugin.h"

namespace hammock::plugins {

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
  /// Appends what is written.
  static HammockWriter Into(std::string& text) { return {&text, Append}; }

 private:
  static void Append(void* text, const void* bytes, uint64_t size);

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
