#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include "hammock/export.h"

namespace hammock {

/// The kind of an error, in a form that programs can test. Numbers never change their meaning; new
/// ones are added at the end.
enum class ErrorCode : uint16_t {
  kValue = 1,                   ///< an argument has a value that cannot be used
  kShapeMismatch = 2,           ///< shapes do not fit together
  kDTypeMismatch = 3,           ///< dtypes do not fit together
  kDimOutOfRange = 4,           ///< a dimension number that the tensor does not have
  kIndexOutOfRange = 5,         ///< an index beyond the size it indexes
  kDeviceMismatch = 6,          ///< operands live on different devices
  kUnknownDevice = 7,           ///< no backend has a device of that name
  kBadOrdinal = 8,              ///< the backend has fewer devices
  kUninitializedTensor = 9,     ///< a tensor without a value, such as a moved-from one
  kForeignTensor = 10,          ///< data that belongs to another backend or runtime
  kNegativeSize = 11,           ///< a size below zero
  kSizeOverflow = 12,           ///< a size that does not fit 64 bits
  kEmptyTensor = 13,            ///< a tensor without elements where one is needed
  kUnknownName = 14,            ///< no such option, op, method or field
  kDuplicateRegistration = 15,  ///< the name is taken
  kNotRegistered = 16,          ///< used before it was registered
  kSchema = 17,                 ///< arguments that do not fit a schema, or a malformed schema
  kParse = 18,                  ///< text that cannot be parsed
  kVerify = 19,                 ///< a graph that is not well formed
  kNotSupported = 20,           ///< valid, but not available here
  kCompile = 21,                ///< a backend failed to compile
  kExecute = 22,                ///< a backend failed while executing
  kTransfer = 23,               ///< moving data between host and device failed
  kOutOfMemory = 24,            ///< an allocation failed or a limit was reached
  kDevice = 25,                 ///< the device failed or was lost
  kUseAfterDonate = 26,         ///< the value was given away
  kExecutionForbidden = 27,     ///< executing in a scope that forbids it
  kRecompileForbidden = 28,     ///< recompiling in a scope that forbids it
  kAbiMismatch = 29,            ///< built against incompatible headers
  kForked = 30,                 ///< a device was used in the child of a fork
  kInternal = 31,               ///< a bug in Hammock
};

/// The stable text of a code, such as "HM0002"; "HM0000" for a number that is none.
HAMMOCK_API std::string_view ErrorCodeName(ErrorCode code);

/// Base of everything that Hammock throws. Immutable apart from its setters; copies are cheap,
/// never throw, and may be used from different threads. Throw one of the classes below, not this
/// one. One that is made while a public function or a module runs has the place of that call.
class HAMMOCK_API Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);
  Error(const Error&) noexcept;
  Error& operator=(const Error&) noexcept;
  ~Error() override;

  ErrorCode code() const noexcept { return code_; }

  /// The description of the error, without location and code.
  const std::string& message() const noexcept;

  /// "file:line" of the user's call, or empty; "file:line in encoder.2" for one inside a module.
  const std::string& where() const noexcept;
  void SetWhere(std::string where);
  void SetMessage(std::string message);
  /// Adds "; note" to the message.
  void AddNote(const std::string& note);

  /// "message [at file:line] (HM0002)"; the middle part only if the location is known.
  const char* what() const noexcept override;

  /// Throws a copy of this error with its dynamic type, so that a stored error can be raised often.
  [[noreturn]] virtual void Raise() const;

  /// A copy with the same dynamic type.
  virtual std::shared_ptr<Error> Clone() const;

 private:
  struct Text;

  ErrorCode code_;
  std::shared_ptr<const Text> text_;
};

/// Gives a class `Raise` and `Clone`: `class MyError : public ErrorKind<MyError> { ... };`
template <class Derived, class Base = Error>
class HAMMOCK_API ErrorKind : public Base {
 public:
  using Base::Base;

  [[noreturn]] void Raise() const override { throw static_cast<const Derived&>(*this); }

  std::shared_ptr<Error> Clone() const override {
    return std::make_shared<Derived>(static_cast<const Derived&>(*this));
  }
};

/// An argument is wrong.
class HAMMOCK_API ValueError : public ErrorKind<ValueError> {
 public:
  using ErrorKind::ErrorKind;
};

/// An argument has the wrong type or dtype.
class HAMMOCK_API TypeError : public ErrorKind<TypeError> {
 public:
  using ErrorKind::ErrorKind;
};

/// A valid request that this build, backend or device cannot fulfil.
class HAMMOCK_API NotSupported : public ErrorKind<NotSupported> {
 public:
  using ErrorKind::ErrorKind;
};

/// A backend failed to compile a graph.
class HAMMOCK_API CompileError : public ErrorKind<CompileError> {
 public:
  using ErrorKind::ErrorKind;
};

/// Memory of the host or of a device is exhausted.
class HAMMOCK_API OutOfMemory : public ErrorKind<OutOfMemory> {
 public:
  using ErrorKind::ErrorKind;
};

/// A device failed while executing or transferring.
class HAMMOCK_API DeviceError : public ErrorKind<DeviceError> {
 public:
  using ErrorKind::ErrorKind;
};

/// A bug in Hammock or in a backend.
class HAMMOCK_API InternalError : public ErrorKind<InternalError> {
 public:
  using ErrorKind::ErrorKind;
};

}  // namespace hammock
